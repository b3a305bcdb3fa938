"""Writes a table of each night's answers, and says what waits for a reviewer.

Usage: CALLBOARD_WEBHOOK_SECRET=whsec_… python3 receive.py FOLDER [PORT]

A webhook may arrive more than once, and this program may end at any moment. So it handles the event first and answers
last: an event that was not handled is not acknowledged, and comes again. What it writes is the same each time: a file
of the run's own name, put in its place whole.
"""

import csv
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from callboard import Callboard, webhooks
from callboard.errors import InvalidSignature

SECRET = os.environ["CALLBOARD_WEBHOOK_SECRET"]
FOLDER = Path(sys.argv[1])


def write(cb: Callboard, run_id: str) -> None:
    run = cb.executions.get(run_id)
    mails, triage, answers = (json.loads(run.steps[step].output) for step in ("mails", "triage", "answer"))
    table = FOLDER / f"{run.input['night']}.csv"
    draft = table.with_suffix(".draft")
    with draft.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "from", "subject", "category", "urgent", "answer"])
        for mail, label, answer in zip(mails, triage, answers, strict=True):
            rows.writerow([mail["id"], mail["from"], mail["subject"], label["category"], label["urgent"], answer])
        file.flush()
        os.fsync(file.fileno())
    draft.replace(table)
    print(f"{table.name}: {len(mails)} mails, {run.usage.total_cost:.4f} USD", flush=True)


def handle(cb: Callboard, webhook: webhooks.Webhook) -> None:
    if webhook.event == "execution.completed":
        write(cb, webhook.execution_id)
    elif webhook.event == "execution.awaiting_approval":
        print(f"{webhook.title}: {webhook.task_id} waits for a reviewer", flush=True)
    elif webhook.error:
        print(f"{webhook.title} failed: {webhook.error.message}", flush=True)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            webhook = webhooks.verify(SECRET, body, dict(self.headers))
        except InvalidSignature as error:
            return self.answer(401, str(error))
        try:
            with Callboard() as cb:
                handle(cb, webhook)
        except Exception as error:
            return self.answer(500, f"{type(error).__name__}: {error}")
        self.answer(204)

    def answer(self, status: int, text: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 9000), Receiver)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
