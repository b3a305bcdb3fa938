"""Receives webhooks of Callboard and verifies them.

Usage: CALLBOARD_WEBHOOK_SECRET=whsec_… python3 receiver.py [PORT]
Needs: pip install standardwebhooks
"""

import hashlib
import hmac
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

SECRET = os.environ["CALLBOARD_WEBHOOK_SECRET"]
SEEN = set()


def signature_is_right(body: bytes) -> bool:
    """Checks the member `signature` without any package."""
    signed = body[:-87] + b"}"
    digest = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(body[-73:-2], f"sha256={digest}".encode())


def handle(event: dict) -> None:
    print(json.dumps(event), flush=True)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            # Checks the headers: the time, too, so that nobody replays an old webhook.
            Webhook(SECRET).verify(body, dict(self.headers))
        except WebhookVerificationError:
            return self.answer(401)
        if not signature_is_right(body):
            return self.answer(401)
        # A webhook may arrive more than once, always with the same identifier. It is handled, then remembered, then
        # acknowledged: if this program ends in between, the webhook comes again. A real receiver handles and
        # remembers it in one transaction, or handles it so that a second time does no harm.
        if self.headers["webhook-id"] not in SEEN:
            handle(json.loads(body))
            SEEN.add(self.headers["webhook-id"])
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
