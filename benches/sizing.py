#!/usr/bin/env python3
"""Measures what a server's memory is made of, and prints the formula of docs/how-to/operate.md.

    python3 benches/sizing.py target/release/callboard [tasks]

A server of its own on an empty directory: at rest, after a sign-in, with idle connections, with a burst of pending
tasks of 1 KB, after a restart, and after they have been cancelled. Resident memory, in MB of 1,000,000 bytes.
"""
import http.client
import json
import os
import sys
import tempfile
import time

from flood import EMAIL, PASSWORD, Client, start

LINES = 10_000
CONNECTIONS = 500


def memory(server, name):
    with open(f"/proc/{server.pid}/status") as status:
        line = next(line for line in status if line.startswith(name))
    return int(line.split()[1]) * 1024 / 1e6


def rest(server, seconds=12):
    """The resident memory once the allocator has given back what it does not need."""
    time.sleep(seconds)
    return memory(server, "VmRSS")


def signed_in(address):
    body = json.dumps({"email": EMAIL, "password": PASSWORD}).encode()
    status, text = Client(address, None).ask("POST", "/api/auth/login", body)
    assert status == 200, text
    return Client(address, json.loads(text)["data"]["token"])


def burst(client, count):
    line = json.dumps({"prompt": "x" * 1000, "queue": "sizing"}).encode() + b"\n"
    connection = http.client.HTTPConnection(client.address, timeout=120)
    headers = {"authorization": f"Bearer {client.token}", "content-type": "application/x-ndjson"}
    for _ in range(0, count, LINES):
        connection.request("POST", "/api/tasks/bulk", line * min(LINES, count), headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text[:500]


def cancel(client):
    body = json.dumps({"action": "cancel", "filter": {"queue": "sizing"}}).encode()
    status, text = client.ask("POST", "/api/bulk", body)
    assert status in (200, 201, 202), text
    while json.loads(client.ask("GET", "/api/tasks?status=pending&limit=1")[1])["pagination"]["total"]:
        time.sleep(1)


def main():
    program, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60_000
    with tempfile.TemporaryDirectory() as directory:
        server, address = start(program, directory)
        try:
            idle = rest(server, 5)
            client = signed_in(address)
            signing = memory(server, "VmHWM")
            after = rest(server)
            print(f"at rest {idle:.0f}, during a sign-in {signing:.0f}, after it {after:.0f}")
            open_ones = [Client(address, client.token) for _ in range(CONNECTIONS)]
            for one in open_ones:
                one.ask("GET", "/api/tasks?limit=1")
            connected = rest(server)
            for one in open_ones:
                one.connection.close()
            print(f"{CONNECTIONS} idle connections {connected:.0f}: {(connected - after) / CONNECTIONS * 1e3:.0f} KB each")
            before = rest(server)
            burst(client, count)
            came, peak = rest(server), memory(server, "VmHWM")
            print(f"{count} pending tasks {came:.0f} (most {peak:.0f}): {(came - before) / count * 1e6:.0f} bytes each, "
                  f"{(peak - before) / count * 1e6:.0f} while they come")
            server.terminate()
            server.wait()
            server, address = start(program, directory)
            again = rest(server)
            print(f"after a restart {again:.0f} (most {memory(server, 'VmHWM'):.0f}): {(again - idle) / count * 1e6:.0f} bytes each")
            cancel(signed_in(address))
            server.terminate()
            server.wait()
            server, address = start(program, directory)
            ended = rest(server)
            print(f"{count} ended tasks, after a restart {ended:.0f}: {(ended - idle) / count * 1e6:.0f} bytes each")
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
