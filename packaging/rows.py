#!/usr/bin/env python3
"""Fills a server with tasks, keeps them as GET shows them, and compares them after an upgrade.

    packaging/rows.py fill SERVER COUNT FILE       submits so many tasks, a hundred a request, and writes their ids; one in
                                                ten goes to the queue "later", which no worker serves yet
    packaging/rows.py keep SERVER FILE TASKS       writes every task of FILE to TASKS, once all others have ended
    packaging/rows.py compare SERVER TASKS         reads every task again; each member that it had must be the same

CALLBOARD_API_KEY is the key of an operator.
"""
import hashlib
import http.client
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

PAGE = 100
READERS = 4


class Client:
    def __init__(self, server):
        self.connection = http.client.HTTPConnection(server.removeprefix("http://"), timeout=60)
        self.headers = {"authorization": f"Bearer {os.environ['CALLBOARD_API_KEY']}", "content-type": "application/json"}

    def ask(self, method, path, body=None):
        self.connection.request(method, path, body and json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text)


def task(number):
    return {
        "prompt": f"Sort mail {number} into one of: invoice, complaint, other.", "tags": [f"part-{number % 7}"],
        "queue": "later" if number % 10 == 9 else "default", "priority": 1 + number % 10,
    }


def fill(server, count, file):
    client = Client(server)
    with open(file, "w") as ids:
        for first in range(0, count, PAGE):
            tasks = [task(number) for number in range(first, min(first + PAGE, count))]
            answer = client.ask("POST", "/api/tasks/batch", {"tasks": tasks})["data"]
            ids.writelines(f"{each['id']}\n" for each in answer["tasks"])


def read(server, ids):
    client = Client(server)
    return [client.ask("GET", f"/api/tasks/{each}")["data"] for each in ids]


def all_of(server, ids):
    """The tasks in the order of the ids."""
    pages = [ids[at:at + 1000] for at in range(0, len(ids), 1000)]
    with ProcessPoolExecutor(READERS) as readers:
        for page in readers.map(read, repeat(server), pages):
            yield from page


def keep(server, file, to):
    client = Client(server)
    running = "/api/tasks?queue=default&limit=1&status="
    while any(client.ask("GET", running + status)["data"] for status in ("pending", "running")):
        time.sleep(0.2)
    with open(file) as lines:
        ids = lines.read().split()
    digest = hashlib.sha256()
    with open(to, "w") as tasks:
        for each in all_of(server, ids):
            line = json.dumps(each, sort_keys=True)
            digest.update(line.encode())
            tasks.write(line + "\n")
    print(f"{len(ids)} tasks, sha256 {digest.hexdigest()[:16]}")


def known(now, then):
    """What `now` says of the members that `then` had: a later version may show more."""
    if isinstance(then, dict) and isinstance(now, dict):
        return {name: known(now[name], value) for name, value in then.items() if name in now}
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        return [known(*pair) for pair in zip(now, then)]
    return now


def compare(server, kept):
    with open(kept) as tasks:
        before = [json.loads(line) for line in tasks]
    digest, differ = hashlib.sha256(), 0
    for then, now in zip(before, all_of(server, [each["id"] for each in before])):
        now = known(now, then)
        digest.update(json.dumps(now, sort_keys=True).encode())
        if now != then:
            differ += 1
            if differ <= 3:
                print(f"before: {then}\nnow:    {now}")
    print(f"{len(before)} tasks, sha256 {digest.hexdigest()[:16]}, {differ} differ")
    return 1 if differ else 0


def main():
    match sys.argv[1:]:
        case ["fill", server, count, file]:
            return fill(server, int(count), file)
        case ["keep", server, file, to]:
            return keep(server, file, to)
        case ["compare", server, kept]:
            return compare(server, kept)
    raise SystemExit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
