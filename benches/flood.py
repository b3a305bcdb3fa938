#!/usr/bin/env python3
"""Floods a server with the costliest definitions that its limits admit, and measures what others notice.

    python3 benches/flood.py target/release/callboard [seconds]

One account, then twenty, send definitions all the time on 16 connections each: valid ones of the highest
cost, such with an unknown field, and such of 730 KB. Meanwhile another account reads a list and creates
templates of its own. Prints the longest and the 99th percentile of its answers, the most resident memory and
the answers of the flood.
"""
import collections
import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time

# As many patterns as a definition may have of the costliest kind, in each of its two schemas.
PATTERNS = 13
EMAIL, PASSWORD = "admin@example.com", "correct horse battery staple"


def schema(patterns, seed):
    return {
        "type": "object",
        "properties": {
            f"p{n}": {"pattern": f"(?i)[\\x{{0}}-\\x{{10ffff}}]{seed}-{n}"} for n in range(patterns)
        },
    }


def template(seed, patterns=20, **more):
    body = {
        "name": f"Flood {seed}", "version": "1.0.0", "industry": "custom",
        "inputSchema": schema(patterns, seed), "outputSchema": schema(patterns, f"o{seed}"),
        "steps": [{"id": "a", "prompt": "x"}],
    }
    return json.dumps({**body, **more}).encode()


def ordinary(name):
    """What people write."""
    schema = {"type": "object", "required": ["mail"], "properties": {
        "mail": {"type": "string", "pattern": r"^\S+@\S+\.\w{2,}$"},
        "when": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}},
    }}
    return json.dumps({"name": name, "version": "1.0.0", "industry": "custom", "inputSchema": schema,
                       "outputSchema": schema, "steps": [{"id": "a", "prompt": "x"}]}).encode()


class Client:
    def __init__(self, address, token):
        self.address, self.token, self.connection = address, token, None

    def ask(self, method, path, body=None, kind="application/json"):
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.address, timeout=120)
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None:
            headers["content-type"] = kind
        try:
            self.connection.request(method, path, body, headers)
            answer = self.connection.getresponse()
            text = answer.read()
            if answer.getheader("connection") == "close":
                self.connection.close()
                self.connection = None
            return answer.status, text
        except (OSError, http.client.HTTPException):
            self.connection = None
            return 0, b""


def start(program, directory, **more):
    settings = {
        "SERVER__LISTEN": "127.0.0.1:0", "SERVER__DATA_DIR": os.path.join(directory, "data"),
        "ADMIN_EMAIL": EMAIL, "ADMIN_PASSWORD": PASSWORD,
        "LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE": "10000000", **more,
    }
    environment = {**os.environ, **{f"CALLBOARD_{name}": value for name, value in settings.items()}}
    server = subprocess.Popen([program, "serve"], env=environment, cwd=directory, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for line in server.stdout:
        if "http://" in line:
            return server, line.split("http://")[1].split()[0].rstrip("/.,")
    raise SystemExit("the server did not start")


def resident(server):
    with open(f"/proc/{server.pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] * 1000 if times else float("nan")


def flood(address, key, number, stop, answers):
    client, count, padding = Client(address, key), 0, "x" * 700_000
    while not stop.is_set():
        seed, kind = f"{number}-{count}", count % 3
        more = {1: {"surprise": 1}, 2: {"steps": [{"id": "a", "prompt": padding}]}}.get(kind, {})
        answers[client.ask("POST", "/api/templates", template(seed, PATTERNS, **more))[0]] += 1
        count += 1


def flooding(address, keys, stop, told):
    """A process of its own that gives way: a client on another machine takes no time of the server's."""
    os.nice(19)
    answers, threads = collections.Counter(), []
    for account, key in enumerate(keys):
        for number in range(16):
            threads.append(threading.Thread(target=flood, args=(address, key, f"{account}-{number}", stop, answers)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.put(dict(answers))


def measure(server, address, keys, seconds):
    accounts, reader = keys
    stop, told = multiprocessing.Event(), multiprocessing.Queue()
    before, most = resident(server), 0.0
    clients = multiprocessing.Process(target=flooding, args=(address, accounts, stop, told))
    clients.start()
    time.sleep(2)
    reads, definitions, refused = [], [], 0
    end = time.monotonic() + seconds

    def read():
        client = Client(address, reader)
        while not stop.is_set():
            began = time.monotonic()
            status, _ = client.ask("GET", "/api/templates?limit=20")
            reads.append(time.monotonic() - began)
            assert status == 200, status
            time.sleep(0.02)

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    client, count = Client(address, reader), 0
    while time.monotonic() < end:
        began = time.monotonic()
        name = f"other {time.time()}-{count}"
        status, _ = client.ask("POST", "/api/templates", ordinary(name))
        definitions.append(time.monotonic() - began)
        refused += status != 201
        count += 1
        most = max(most, resident(server))
        time.sleep(0.2)
    stop.set()
    reading.join()
    answers = told.get()
    clients.join()
    print(f"{len(accounts)} accounts: reads {len(reads)}, 99th percentile {percentile(reads, 0.99):.0f} ms, "
          f"longest {max(reads) * 1000:.0f} ms; definitions {len(definitions)}, "
          f"longest {max(definitions) * 1000:.0f} ms, not taken {refused}; "
          f"memory {before:.0f} to {most:.0f} MB; answers of the flood {answers}")


def main():
    program = os.path.abspath(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 20
    with tempfile.TemporaryDirectory() as directory:
        server, address = start(program, directory)
        try:
            status, text = Client(address, None).ask(
                "POST", "/api/auth/login", json.dumps({"email": EMAIL, "password": PASSWORD}).encode())
            assert status == 200, text
            admin = Client(address, json.loads(text)["data"]["token"])

            def key():
                body = json.dumps({"name": "flood", "role": "operator"}).encode()
                return json.loads(admin.ask("POST", "/api/auth/keys", body)[1])["data"]["key"]

            accounts, reader = [key() for _ in range(20)], key()
            for count in (1, 20):
                measure(server, address, (accounts[:count], reader), seconds)
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
