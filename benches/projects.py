#!/usr/bin/env python3
"""Measures what a project notices of a flood in another one, and the memory of a project at rest.

    python3 benches/projects.py target/release/callboard [--seconds 8] [--factor 2] [--only node cell rest]

One project submits a task and reads a list, in turns, on one connection; first alone, then while another project floods the
server: with submissions on 32 connections, with 200 event streams, with bodies of 1 MiB, with 10,000 tasks whose webhooks
fail. `node`: both projects are on one server. `cell`: each is on a server of its own, which has a core of its own together
with its load. `rest`: the resident memory of a server before and after it has 100 projects more, with a key and a task each.
With TMPDIR=/dev/shm the stores share no disk. Exits with 1 if a percentile under a flood is over `factor` times the one alone.
"""
import argparse
import contextlib
import json
import multiprocessing
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from cells import SUBMIT, load
from flood import Client, percentile, start
from sizing import rest, signed_in

STREAMS, HOOKS, PROJECTS = 200, 10_000, 100
KEPT = json.dumps({"prompt": "Name a colour.", "queue": "kept"}).encode()
CLOSED = "http://127.0.0.1:9/"


def made(client, path, body, project=None):
    """The data of what a POST makes; within a project, by the session of `client`."""
    status, text = client.ask("POST", path if project is None else f"{path}?project={project}", json.dumps(body).encode())
    if status not in (200, 201):
        raise SystemExit(f"POST {path}: {status} {text[:500]!r}")
    return json.loads(text)["data"]


def key(client, role, project=None):
    return made(client, "/api/auth/keys", {"name": role, "role": role, "plan": "enterprise"}, project)["key"]


class Floods:
    """The floods of the project `default`."""

    def __init__(self, program, address, admin, cores):
        self.program, self.address, self.cores = program, address, cores
        self.key, self.worker_key = key(admin, "operator"), key(admin, "worker")

    def apart(self):
        """Makes a process give way at once: a client on another machine takes no time of the server's."""
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(0, self.cores)

    def submissions(self, seconds, told, connections=32):
        self.apart()
        out = multiprocessing.Queue()
        load(self.address, self.key, SUBMIT, connections, seconds, out)
        rate, _, refused = out.get()
        told.put(f"{rate:.0f} submissions/s, {refused} refused")

    def streams(self, seconds, told):
        self.apart()
        host, port = self.address.split(":")
        chosen, read = selectors.DefaultSelector(), 0
        for _ in range(STREAMS):
            stream = socket.create_connection((host, int(port)))
            stream.sendall(f"GET /api/events HTTP/1.1\r\nhost: {self.address}\r\nauthorization: Bearer {self.key}\r\n\r\n".encode())
            chosen.register(stream, selectors.EVENT_READ)
        out = multiprocessing.Queue()
        loading = multiprocessing.Process(target=self.submissions, args=(seconds, out, 8))
        loading.start()
        end = time.monotonic() + seconds + 1
        while time.monotonic() < end:
            for event, _ in chosen.select(0.1):
                read += len(event.fileobj.recv(1 << 20))
        told.put(f"{out.get()}, {read / 1e6 / (seconds + 1):.1f} MB/s of events on {STREAMS} streams")

    def bodies(self, seconds, told):
        self.apart()
        body = json.dumps({"prompt": "x" * (1 << 20), "queue": "kept"}).encode()
        end, answers = time.monotonic() + seconds + 1, []

        def send():
            client = Client(self.address, self.key)
            while time.monotonic() < end:
                answers.append(client.ask("POST", "/api/tasks", body)[0])

        threads = [threading.Thread(target=send) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = answers.count(201)
        told.put(f"{taken / (seconds + 1):.0f} MiB/s, {len(answers) - taken} refused")

    def webhooks(self, seconds, told):
        self.apart()
        client = Client(self.address, self.key)
        line = json.dumps({"prompt": "x", "queue": "hooks", "callbackUrl": CLOSED}).encode() + b"\n"
        status, text = client.ask("POST", "/api/tasks/bulk", line * HOOKS, "application/x-ndjson")
        assert status == 200, text[:500]
        worker = subprocess.Popen(
            [self.program, "worker", "--server", f"http://{self.address}", "--provider", "simulated",
             "--simulated-delay", "0", "--concurrency", "128", "--queues", "hooks"],
            env={**os.environ, "CALLBOARD_API_KEY": self.worker_key}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(seconds + 1)
        worker.kill()
        worker.wait()
        tried = json.loads(client.ask("GET", "/api/webhooks/deliveries?limit=1")[1])["pagination"]["total"]
        told.put(f"{tried} webhooks that fail")


def notice(address, key, seconds):
    """The times of submissions and of lists, in seconds."""
    client, times = Client(address, key), {"submit": [], "list": []}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for what, method, path, body, wanted in (
            ("submit", "POST", "/api/tasks", KEPT, 201), ("list", "GET", "/api/tasks?limit=20", None, 200),
        ):
            began = time.monotonic()
            status, text = client.ask(method, path, body)
            times[what].append(time.monotonic() - began)
            if status != wanted:
                raise SystemExit(f"{method} {path}: {status} {text[:500]!r}")
        time.sleep(0.002)
    return times


def compare(floods, address, key, seconds):
    """Each flood beside the quiet before it; the largest ratio."""
    print(f"{'flood':12} {'':6} {'alone p50':>10} {'p99':>7} {'flood p50':>10} {'p99':>7} {'ratio p50':>10} {'p99':>6}")
    largest = 0
    for flood in (floods.submissions, floods.streams, floods.bodies, floods.webhooks):
        alone = notice(address, key, seconds)
        told = multiprocessing.Queue()
        loading = multiprocessing.Process(target=flood, args=(seconds, told))
        loading.start()
        time.sleep(1)
        under = notice(address, key, seconds)
        said = told.get(timeout=120)
        loading.join()
        for what in ("submit", "list"):
            figures = [percentile(times[what], share) for times in (alone, under) for share in (0.5, 0.99)]
            ratios = figures[2] / figures[0], figures[3] / figures[1]
            largest = max(largest, *ratios)
            print(f"{flood.__name__:12} {what:6} {figures[0]:10.2f} {figures[1]:7.2f} {figures[2]:10.2f} {figures[3]:7.2f} "
                  f"{ratios[0]:10.2f} {ratios[1]:6.2f}", flush=True)
        print(f"{'':12} {said}", flush=True)
        # Retries of webhooks and copies of rows end before the next quiet.
        time.sleep(seconds)
    return largest


@contextlib.contextmanager
def served(program, directory, cores, **settings):
    """A server on some cores."""
    all_cores = os.sched_getaffinity(0)
    os.makedirs(directory)
    os.sched_setaffinity(0, cores)
    try:
        server, address = start(program, directory, WEBHOOKS__ALLOW="127.0.0.0/8", **settings)
    finally:
        os.sched_setaffinity(0, all_cores)
    try:
        yield server, address
    finally:
        server.kill()
        server.wait()


def on_one_node(program, directory, seconds):
    cores = os.sched_getaffinity(0)
    with served(program, f"{directory}/node", cores) as (_, address):
        admin = signed_in(address)
        other = made(admin, "/api/projects", {"name": "search"})["id"]
        print(f"both projects on one server, {len(cores)} cores; ms")
        return compare(Floods(program, address, admin, cores), address, key(admin, "operator", other), seconds)


def in_another_cell(program, directory, seconds):
    cores = sorted(os.sched_getaffinity(0))
    one, two = {cores[0]}, {cores[-1]}
    shared = {"CLUSTER__KEY": "the key that all cells of this company share"}
    with served(program, f"{directory}/home", one, **shared) as (_, home), \
            served(program, f"{directory}/berlin", two, CLUSTER__CELL="berlin", CLUSTER__HOME=f"http://{home}", **shared) as (_, berlin):
        admin = signed_in(home)
        made(admin, "/api/cells", {"name": "berlin", "nodes": [f"http://{berlin}"]})
        while json.loads(admin.ask("GET", "/api/cells")[1])["data"][1]["status"] != "following":
            time.sleep(0.1)
        other = made(admin, "/api/projects", {"name": "search", "cell": "berlin"})["id"]
        operator = key(admin, "operator", other)
        print("the flooded project at home, the other one in another cell, a core each; ms")
        os.sched_setaffinity(0, two)
        try:
            return compare(Floods(program, home, admin, one), berlin, operator, seconds)
        finally:
            os.sched_setaffinity(0, cores)


def at_rest(program, directory):
    def again():
        server.send_signal(signal.SIGTERM)
        server.wait()
        return start(program, directory)

    os.makedirs(directory)
    server, address = start(program, directory)
    try:
        admin = signed_in(address)
        first = made(admin, "/api/projects", {"name": "one"})["id"]
        empty = rest(server)
        admin = signed_in(address)
        for _ in range(PROJECTS):
            made(Client(address, key(admin, "operator", first)), "/api/tasks", {"prompt": "Name a colour."})
        came = rest(server)
        server, address = again()
        restarted = rest(server)
        signed_in(address)
        before = rest(server)
        admin = signed_in(address)
        for number in range(PROJECTS):
            project = made(admin, "/api/projects", {"name": f"project {number}"})["id"]
            made(Client(address, key(admin, "operator", project)), "/api/tasks", {"prompt": "Name a colour."})
        came_all = rest(server)
        server, address = again()
        restarted_all = rest(server)
    finally:
        server.kill()
        server.wait()
    print(f"at rest, MB of 1,000,000 bytes; {PROJECTS} keys and tasks of one project, then of {PROJECTS} projects")
    for what, one, other in (
        ("of one project, as they came", empty, came),
        ("a project each, as they came", before, came_all),
        ("a project each, after a start", restarted, restarted_all),
    ):
        print(f"{what:30} {one:6.1f} {other:6.1f}: {(other - one) / PROJECTS * 1e6 / 1024:.1f} KiB each", flush=True)


def main():
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("program")
    reader.add_argument("--seconds", type=float, default=8)
    reader.add_argument("--factor", type=float, default=2)
    reader.add_argument("--only", nargs="+", choices=["node", "cell", "rest"], default=["node", "cell", "rest"])
    asked = reader.parse_args()
    program, largest = os.path.abspath(asked.program), 0
    with tempfile.TemporaryDirectory(prefix="callboard-projects-") as directory:
        if "node" in asked.only:
            largest = max(largest, on_one_node(program, directory, asked.seconds))
        if "cell" in asked.only:
            largest = max(largest, in_another_cell(program, directory, asked.seconds))
        if "rest" in asked.only:
            at_rest(program, f"{directory}/rest")
    if largest > asked.factor:
        print(f"a percentile is {largest:.2f} times the one alone")
        sys.exit(1)


if __name__ == "__main__":
    main()
