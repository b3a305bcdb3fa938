"""Makes the data directory of an older program, with which the year of tests/it/year.rs begins.

Usage: python tests/it/year/older.py PROGRAM FILE.tar.gz

PROGRAM is the program of commit fc21b54. It runs on a machine whose date is 2026-01-05. The archive has the data
directory `data`, `keys.json` with the keys, and `told.json` with the server's own answers about its work.
"""

import atexit
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request

PROGRAM, ARCHIVE = sys.argv[1:]
ADMIN, PASSWORD = "admin@example.com", "correct horse battery staple"
DAY = 86_400_000
FAKETIME = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


def call(method: str, path: str, token: str = "", body: object = None) -> object:
    request = urllib.request.Request(url + path, method=method)
    if token:
        request.add_header("authorization", f"Bearer {token}")
    data = None
    if body is not None:
        request.add_header("content-type", "application/json")
        data = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, data) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.read().decode()}")


def status(path: str, wanted: str) -> None:
    for _ in range(600):
        found = call("GET", path, operator)
        if found["status"] == wanted or found.get("waitingFor") == wanted:
            return
        time.sleep(0.1)
    sys.exit(f"{path} is not {wanted}: {found}")


with tempfile.TemporaryDirectory() as directory:
    root = pathlib.Path(directory)
    begin = datetime.datetime(2026, 1, 5, 9, tzinfo=datetime.timezone.utc).timestamp()
    clock = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"{int(begin - time.time()):+d}", "NO_FAKE_STAT": "1",
             "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    server = subprocess.Popen(
        [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--data-dir", root / "data"], stdout=subprocess.PIPE, text=True,
        env=os.environ | clock | {"CALLBOARD_ADMIN_EMAIL": ADMIN, "CALLBOARD_ADMIN_PASSWORD": PASSWORD})
    atexit.register(server.kill)
    url = server.stdout.readline().strip().removeprefix("listening on ")
    admin = call("POST", "/api/auth/login", body={"email": ADMIN, "password": PASSWORD})["token"]
    keys = {role: call("POST", "/api/auth/keys", admin, {"name": role, "role": role})
            for role in ("operator", "worker", "viewer")}
    operator = keys["operator"]["key"]
    ann = {"email": "ann@example.com", "name": "Ann", "role": "operator", "password": PASSWORD}
    call("POST", "/api/auth/users", admin, ann)
    ann = call("POST", "/api/auth/login", body={"email": "ann@example.com", "password": PASSWORD})["token"]
    worker = subprocess.Popen(
        [PROGRAM, "worker", "--server", url, "--provider", "simulated"],
        env=os.environ | clock | {"CALLBOARD_API_KEY": keys["worker"]["key"]})
    atexit.register(worker.kill)

    letters = {
        "name": "Letters", "version": "1.0.0", "description": "Two letters, of which a clerk sees the second.",
        "industry": "custom", "tags": ["letters"],
        "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
        "steps": [{"id": "draft", "prompt": "Write to {{input.to}}."},
                  {"id": "final", "prompt": "Mend {{draft.output}}", "dependsOn": ["draft"], "requiresApproval": True}],
    }
    call("POST", "/api/templates", operator, letters)
    run = call("POST", "/api/templates/letters-v1/deploy", operator, {
        "input": {"to": "Ms. Rossi"}, "hitl": {"timeoutMs": DAY}})
    run = run.get("executionId") or run["id"]
    schedule = {"name": "monthly report", "cron": "0 8 1 * *", "target": {"task": {
        "prompt": "Report of the month", "tags": ["monthly"]}}}
    call("POST", "/api/schedules", ann, schedule)
    task = lambda **body: call("POST", "/api/tasks", operator, body)["id"]
    done = [task(prompt=f"Letter {number}", tags=["old", f"customer-{number}"]) for number in range(5)]
    held = task(prompt="Seen by a clerk", tags=["old"], hitl={"required": True, "timeoutMs": DAY})
    waits = task(prompt="Waits for a worker of its queue", tags=["old"], queue="later")
    for it in done:
        status(f"/api/tasks/{it}", "completed")
    status(f"/api/tasks/{held}", "approval")
    for _ in range(600):
        if len(call("GET", "/api/hitl/pending", operator)) == 2:
            break
        time.sleep(0.1)
    paths = [f"/api/tasks/{it}" for it in [*done, held, waits]] + [
        f"/api/plans/executions/{run}", "/api/templates/letters-v1", "/api/schedules", "/api/hitl/pending"]
    told = {path: call("GET", path, operator) for path in paths}
    told["/api/auth/users"] = call("GET", "/api/auth/users", admin)
    worker.terminate()
    worker.wait()
    server.terminate()
    if server.wait():
        sys.exit("the server did not end in order")
    (root / "keys.json").write_text(json.dumps(keys))
    (root / "told.json").write_text(json.dumps(told, indent=1))
    with tarfile.open(ARCHIVE, "w:gz") as archive:
        for name in ("data", "keys.json", "told.json"):
            archive.add(root / name, name)
