#!/usr/bin/env python3
"""Measures how many empty functions a second a worker of each library completes.

    python3 benches/functions.py target/release/callboard [tasks] [python typescript rust]

A new server takes the tasks in one upload; then a worker starts, one process with 128 tasks at once, and the time from the
first completed task to the last counts. Server and worker share the machine. Requires the libraries as their tests install
them (sdk/python/install, sdk/typescript/install). The worker in Rust is that of the program, which is made with the
library: its simulated model takes the place of the function.
"""
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time

from flood import EMAIL, PASSWORD, start

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = """
from callboard import Worker
worker = Worker(queues=["default"], concurrency=128)
@worker.function
async def nothing() -> None:
    pass
worker.run()
"""
TYPESCRIPT = """
import { Worker } from "%s/sdk/typescript/dist/worker.js";
const worker = new Worker({ queues: ["default"], concurrency: 128 });
worker.function("nothing", { args: { type: "object" }, output: { type: "null" } }, async () => null);
await worker.run();
""" % ROOT


def command(program, language, directory):
    if language == "python":
        return [subprocess.check_output([f"{ROOT}/sdk/python/install"], text=True).strip(), "-c", PYTHON]
    if language == "typescript":
        path = os.path.join(directory, "worker.mjs")
        with open(path, "w") as file:
            file.write(TYPESCRIPT)
        return ["node", path]
    return [program, "worker", "--provider", "simulated", "--simulated-delay", "0", "--concurrency", "128"]


def main():
    program = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 50_000
    for language in sys.argv[3:] or ["python", "typescript", "rust"]:
        with tempfile.TemporaryDirectory() as directory:
            server, address = start(program, directory)

            def ask(method, path, token="", body=None, kind="application/json"):
                connection = http.client.HTTPConnection(address, timeout=600)
                headers = {"authorization": f"Bearer {token}"} if token else {}
                if body is not None:
                    headers["content-type"] = kind
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status >= 300:
                    raise SystemExit(f"{method} {path}: {answer.status} {text[:500]!r}")
                return text

            login = json.dumps({"email": EMAIL, "password": PASSWORD})
            token = json.loads(ask("POST", "/api/auth/login", body=login))["data"]["token"]
            made = json.dumps({"name": "worker", "role": "worker"})
            key = json.loads(ask("POST", "/api/auth/keys", token, made))["data"]["key"]
            call = {"prompt": "Nothing."} if language == "rust" else {"function": "nothing", "args": {}}
            line = json.dumps(call) + "\n"
            ask("POST", "/api/tasks/bulk", token, (line * count).encode(), "application/x-ndjson")
            environment = {**os.environ, "CALLBOARD_SERVER": f"http://{address}", "CALLBOARD_API_KEY": key,
                           "PYTHONPATH": f"{ROOT}/sdk/python/src"}
            worker = subprocess.Popen(command(program, language, directory), env=environment, stdout=subprocess.DEVNULL)
            try:
                done, first = 0, None
                while done < count:
                    if worker.poll() is not None:
                        raise SystemExit(f"the worker in {language} has ended")
                    done = json.loads(ask("GET", "/api/tasks?status=completed&limit=1", token))["pagination"]["total"]
                    if done and first is None:
                        first = (time.monotonic(), done)
                    time.sleep(0.1)
                print(f"{language}: {(count - first[1]) / (time.monotonic() - first[0]):.0f} functions a second", flush=True)
            finally:
                worker.kill()
                server.kill()
                server.wait()


if __name__ == "__main__":
    main()
