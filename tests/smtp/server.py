"""A real SMTP server on loopback that records every mail.

Usage: python tests/smtp/server.py DIRECTORY
           [--port PORT] [--tls none|starttls|tls] [--user NAME:PASSWORD]

Prints `ready PORT` once it answers. Each mail becomes a line of JSON in DIRECTORY/mails.
DIRECTORY/ca.pem is the CA that signed the server's certificate. The server refuses a recipient
`nobody@…` permanently and `busy@…` temporarily. It exits when its standard input closes or its
parent dies, so that a killed test leaves no process behind. Requires the environment of
tests/smtp/install. Deliberately absent: addresses other than loopback, and delivery.
"""

import argparse
import asyncio
import json
import os
import pathlib
import ssl
import threading
import time

import trustme
from aiosmtpd.smtp import SMTP, AuthResult


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--tls", choices=["none", "starttls", "tls"], default="none")
    parser.add_argument("--port", type=int, default=0, help="0: the system chooses")
    parser.add_argument("--user", help="the login that the server demands")
    options = parser.parse_args()
    end_with_the_parent()
    asyncio.run(serve(options))


async def serve(options: argparse.Namespace) -> None:
    context = tls_context(options.directory)
    starttls = context if options.tls == "starttls" else None

    def authenticated(_server, session, _envelope, _mechanism, data) -> AuthResult:
        given = f"{data.login.decode()}:{data.password.decode()}"
        session.user = data.login.decode()
        return AuthResult(success=given == options.user, handled=False)

    def protocol() -> SMTP:
        return SMTP(
            Keeper(options.directory / "mails"),
            hostname="127.0.0.1",
            tls_context=starttls,
            require_starttls=starttls is not None,
            authenticator=authenticated if options.user else None,
            auth_required=options.user is not None,
            auth_require_tls=False,
        )

    loop = asyncio.get_running_loop()
    implicit = context if options.tls == "tls" else None
    server = await loop.create_server(protocol, "127.0.0.1", options.port, ssl=implicit)
    print(f"ready {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


class Keeper:
    """Accepts mails and records them."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    async def handle_RCPT(self, _server, _session, envelope, address, _options) -> str:
        if address.startswith("nobody@"):
            return "550 5.1.1 no such user"
        if address.startswith("busy@"):
            return "450 4.2.1 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope) -> str:
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "text": envelope.content.decode(),
            "encrypted": server.transport.get_extra_info("ssl_object") is not None,
            "user": getattr(session, "user", None),
        }
        with self.path.open("a") as file:
            file.write(json.dumps(mail) + "\n")
        return "250 OK"


def tls_context(directory: pathlib.Path) -> ssl.SSLContext:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(directory / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context


def end_with_the_parent() -> None:
    """Two checks, because a sibling may have inherited the other end of the standard input.
    The kernel's parent-death signal cannot help: it fires when the parent's thread ends."""
    parent = os.getppid()

    def read_until_closed() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    def look_at_the_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(0)

    for watch in (read_until_closed, look_at_the_parent):
        threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
