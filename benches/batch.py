#!/usr/bin/env python3
"""Measures a batch of many rows, and what another caller notices of it.

    python3 benches/batch.py target/release/callboard [rows]

A new server takes the rows as CSV in its sandbox, whose simulated model answers at once; they are run, listed while they
run, killed once in the middle, exported, and their number and keys are compared with what was sent. Prints the rates, the
times of lists and of another caller, and the most resident memory.
"""
import csv
import http.client
import io
import json
import os
import sys
import tempfile
import threading
import time

from cells import measure, processor
from flood import EMAIL, PASSWORD, percentile, resident, start

TEMPLATE = {
    "name": "Rows", "version": "1.0.0", "industry": "custom",
    "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}, "text": {"type": "string"}}},
    "steps": [{"id": "a", "prompt": "Classify: {{input.text}}"}],
}


class Server:
    def __init__(self, program, directory):
        self.program, self.directory, self.most = program, directory, 0.0
        self.start()
        threading.Thread(target=self.watch, daemon=True).start()

    def start(self):
        self.process, self.address = start(self.program, self.directory)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def processor(self):
        return processor([self.process.pid])

    def resident(self):
        return resident(self.process)

    def watch(self):
        while True:
            try:
                self.most = max(self.most, self.resident())
            except (OSError, StopIteration):
                pass
            time.sleep(0.05)

    def ask(self, method, path, token="", body=None, kind="application/json"):
        connection = http.client.HTTPConnection(self.address, timeout=600)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        data = json.dumps(body).encode() if kind == "application/json" and body is not None else body
        if data is not None:
            headers["content-type"] = kind
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:500]!r}")
        return text if method == "GET" and "/export" in path else json.loads(text)["data"]


class Other:
    """Another caller, who submits a task now and then."""

    def __init__(self, server, key):
        self.times, self.stop = [], threading.Event()
        self.thread = threading.Thread(target=self.run, args=(server, key))
        self.thread.start()

    def run(self, server, key):
        while not self.stop.wait(0.02):
            began = time.monotonic()
            server.ask("POST", "/api/tasks", key, {"prompt": "x", "queue": "idle"})
            self.times.append(time.monotonic() - began)

    def end(self):
        self.stop.set()
        self.thread.join()
        median, most = percentile(self.times, 0.5), percentile(self.times, 1)
        return (f"another caller's median {median:.1f} ms, 99th percentile {percentile(self.times, 0.99):.0f} ms, "
                f"longest {most:.0f} ms of {len(self.times)}")


def timed(run):
    began = time.monotonic()
    result = run()
    return time.monotonic() - began, result


def compare(server, key, template, count=10_000):
    """The server's processor time for rows of a batch, and for the same executions by deploy."""
    text = "A mail about a parcel that came late and was wet. " * 4
    began = server.processor()
    rows = "id,text\n" + "".join(f"row-{n},{text}\n" for n in range(count))
    path = f"/api/batches?templateId={template}&keyColumn=id&concurrency=1000&name=compared"
    batch = server.ask("POST", path, key, rows.encode(), "text/csv")
    while server.ask("GET", f"/api/batches/{batch['id']}", key)["status"] != "completed":
        time.sleep(0.5)
    of_batch = (server.processor() - began) / count
    idle = lambda: server.ask("GET", "/api/plans/executions?status=running&limit=1", key) == []
    deploy = (f"/api/templates/{template}/deploy", {"input": {"id": "row", "text": text}})
    began = server.processor()
    rate, _ = measure([(server.address, key)], deploy, 16, 10)
    while not idle():
        time.sleep(0.5)
    of_deploy = (server.processor() - began) / (rate * 11)
    print(f"a row of a batch takes {of_batch * 1000:.2f} ms of processor, the same by deploy {of_deploy * 1000:.2f}: "
          f"{of_batch / of_deploy:.2f} times")


def main():
    program = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["id", "text"])
    rows.writerows((f"row-{n}", f"A mail about parcel {n}, which came late and was wet. " * 4) for n in range(count))
    sent = text.getvalue().encode()
    with tempfile.TemporaryDirectory() as directory:
        server = Server(program, directory)
        try:
            login = server.ask("POST", "/api/auth/login", body={"email": EMAIL, "password": PASSWORD})
            key = lambda environment: server.ask("POST", "/api/auth/keys", login["token"], {
                "name": environment, "role": "operator", "environment": environment})["key"]
            own, others = key("test"), key("live")
            template = server.ask("POST", "/api/templates", own, TEMPLATE)["id"]
            other = Other(server, others)
            time.sleep(5)
            print(f"before: {other.end()}, memory {server.resident():.0f} MB")

            before, server.most = server.resident(), 0.0
            other = Other(server, others)
            path = f"/api/batches?templateId={template}&keyColumn=id&concurrency=1000&name=rows"
            took, batch = timed(lambda: server.ask("POST", path, own, sent, "text/csv"))
            print(f"upload: {count / took:.0f} rows a second ({len(sent) / 1e6:.0f} MB in {took:.1f} s), {other.end()}, "
                  f"memory {before:.0f} to {server.most:.0f} MB")

            path, looks, is_killed, began = f"/api/batches/{batch['id']}", [], False, time.monotonic()
            other, server.most = Other(server, others), 0.0
            while True:
                for each in (path, "/api/batches", f"{path}/rows?limit=50"):
                    took, answer = timed(lambda: server.ask("GET", each, own))
                    looks.append(took)
                progress = server.ask("GET", path, own)["progress"]
                if progress["completed"] >= count:
                    break
                if not is_killed and progress["completed"] > count / 2:
                    told, is_killed = other.end(), True
                    server.kill()
                    back, _ = timed(server.start)
                time.sleep(0.2)
            took = time.monotonic() - began
            print(f"run: {count / took:.0f} rows a second, {told}; a list or progress at the 99th percentile "
                  f"{percentile(looks, 0.99):.0f} ms; memory at most {server.most:.0f} MB; killed once, back in {back:.2f} s")

            for kind in ("csv", "jsonl"):
                took, export = timed(lambda: server.ask("GET", f"{path}/export?format={kind}", own))
                print(f"export as {kind}: {count / took:.0f} rows a second ({len(export) / 1e6:.0f} MB)")
            keys = [json.loads(line)["key"] for line in export.splitlines()]
            wanted = {f"row-{n}" for n in range(count)}
            same = len(keys) == count and set(keys) == wanted
            print(f"each row once: {same}; the most memory {server.most:.0f} MB")
            compare(server, own, template)
            return 0 if same else 1
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
