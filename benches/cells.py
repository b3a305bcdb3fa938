#!/usr/bin/env python3
"""Measures cells on databases of one PostgreSQL, and what a request costs that another cell answers.

    python3 benches/cells.py target/release/callboard [seconds] [share]

Needs root: PostgreSQL runs as its own user, and each node gets `share` of a processor (0.1) by a control group, so that the
nodes are the limit and not the machine. In turns one, three and four cells work side by side, each on a database of its own,
with 48 chat completions in flight and a simulated worker in each. Prints the tasks a second of each number of cells, as a
multiple of one cell, and the processor time of nodes and database for a task; then submissions to a project at its own
cell and through another one.
"""
import http.client
import json
import multiprocessing
import os
import pathlib
import pwd
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time

EMAIL, PASSWORD = "admin@example.com", "correct horse battery staple"
IN_FLIGHT, TICK = 48, os.sysconf("SC_CLK_TCK")
CHAT = ("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "Name a colour."}]})
SUBMIT = ("/api/tasks", {"prompt": "Name a colour.", "queue": "kept"})


class Quota:
    """A control group that limits its processes to a share of one processor."""

    def __init__(self, name, share):
        one = pathlib.Path("/sys/fs/cgroup/cpu")
        self.path = (one if one.is_dir() else pathlib.Path("/sys/fs/cgroup")) / f"callboard-{os.getpid()}-{name}"
        self.path.mkdir()
        quota = int(share * 100_000)
        if one.is_dir():
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.path / "cpu.max").write_text(f"{quota} 100000")

    def take(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def end(self):
        for _ in range(100):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)


def processor(pids):
    """The seconds of processor that processes have used."""
    used = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        used += int(fields[11]) + int(fields[12])
    return used / TICK


class Postgres:
    def __init__(self, directory):
        newest = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda it: int(it.parent.name))[-1]
        user = pwd.getpwnam("postgres")
        self.data, self.socket = directory / "pg", directory
        os.chown(directory, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "stdout": subprocess.DEVNULL}
        subprocess.run([newest / "initdb", "-D", self.data, "-A", "trust", "--no-sync"], check=True, **as_user)
        self.process = subprocess.Popen(
            [newest / "postgres", "-D", self.data, "-k", self.socket, "-c", "listen_addresses=", "-c", "max_connections=200"],
            stderr=subprocess.DEVNULL, **as_user)
        self.run = lambda *sql: subprocess.run(
            [newest / "psql", "-qh", self.socket, "-U", "postgres", "-c", *sql], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                return self.run("SELECT 1") and None
            except subprocess.CalledProcessError:
                time.sleep(0.05)

    def pids(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *children]

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


class Node:
    """A cell's node, and a worker of the simulated model."""

    def __init__(self, program, directory, postgres, name, share, home=None):
        self.program, self.name, self.quota = program, name, Quota(name, share)
        postgres.run(f"CREATE DATABASE {name}")
        settings = {
            "STORE__URL": f"postgres://postgres@localhost/{name}?host={postgres.socket}",
            "AUTH__SIGNING_KEY": "the signing key of every node of these cells",
            "WEBHOOKS__SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "CLUSTER__KEY": "the key that all cells of this company share",
            "LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE": "10000000",
            "LOG": "warn",
            "ADMIN_EMAIL": EMAIL, "ADMIN_PASSWORD": PASSWORD,
        }
        if home:
            settings |= {"CLUSTER__CELL": name, "CLUSTER__HOME": f"http://{home.address}"}
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CALLBOARD_")}
        environment |= {f"CALLBOARD_{key}": value for key, value in settings.items()}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.process = subprocess.Popen(
            [program, "serve", "--listen", self.address, "--data-dir", directory / name],
            env=environment, stdout=subprocess.DEVNULL, stderr=open(directory / f"{name}.log", "w"), preexec_fn=self.quota.take)
        self.worker = None
        self.until(lambda: self.ask("GET", "/api/health"))

    def until(self, holds):
        for _ in range(600):
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name}: the server has ended")
            try:
                if holds():
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"{self.name}: waited for too long")

    def ask(self, method, path, token="", body=None, **headers):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers |= {"authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, headers | ({"content-type": "application/json"} if data else {}))
        answer = connection.getresponse()
        text = answer.read()
        if answer.status == 503:
            raise ConnectionError(text)
        if answer.status >= 300:
            raise SystemExit(f"{self.name}: {method} {path}: {answer.status} {text.decode()}")
        return json.loads(text)["data"]

    def work(self, key):
        environment = {**os.environ, "CALLBOARD_API_KEY": key}
        self.worker = subprocess.Popen(
            [self.program, "worker", "--server", f"http://{self.address}", "--provider", "simulated",
             "--simulated-delay", "0", "--concurrency", str(2 * IN_FLIGHT), "--queues", "default"],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self):
        for process in filter(None, [self.worker, self.process]):
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.quota.end()


def load(address, key, request, connections, seconds, out):
    """Sends the same request on connections that each wait for their answer; the count, and the middle latency in ms."""
    path, body = request
    body = json.dumps(body)
    head = f"POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
    message = f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()
    host, port = address.split(":")
    chosen, sent = selectors.DefaultSelector(), {}
    for _ in range(connections):
        connection = socket.create_connection((host, int(port)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        chosen.register(connection, selectors.EVENT_READ, bytearray())
        sent[connection] = time.monotonic()
        connection.sendall(message)
    begin = time.monotonic() + 1
    took, refused = [], 0
    while (now := time.monotonic()) < begin + seconds:
        for event, _ in chosen.select(0.1):
            connection, buffer = event.fileobj, event.data
            buffer += connection.recv(65536)
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                continue
            lengths = [line for line in bytes(buffer[:end]).lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if len(buffer) < end + 4 + int(lengths[0].split(b":")[1]):
                continue
            now = time.monotonic()
            if not buffer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
                refused += 1
            elif now >= begin:
                took.append(now - sent[connection])
            buffer.clear()
            sent[connection] = now
            connection.sendall(message)
    took.sort()
    out.put((len(took) / seconds, took[len(took) // 2] * 1000 if took else 0.0, refused))


def measure(targets, request, connections, seconds):
    """All targets at once: the sum of the rates, and the middle latency of the slowest."""
    out = multiprocessing.Queue()
    loads = [multiprocessing.Process(target=load, args=(*target, request, connections, seconds, out)) for target in targets]
    for one in loads:
        one.start()
    found = [out.get(timeout=seconds + 60) for _ in loads]
    for one in loads:
        one.join()
    if any(refused for _, _, refused in found):
        print(f"refused: {[refused for _, _, refused in found]}", file=sys.stderr)
    return sum(rate for rate, _, _ in found), max(middle for _, middle, _ in found)


def main():
    program = os.path.abspath(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    share = float(sys.argv[3]) if len(sys.argv) > 3 else 0.1
    with tempfile.TemporaryDirectory(prefix="callboard-cells-") as directory:
        directory = pathlib.Path(directory)
        postgres, nodes = Postgres(directory), []
        try:
            names = ["home", "north", "east", "south"]
            for name in names:
                nodes.append(Node(program, directory, postgres, name, share, nodes[0] if nodes else None))
            home = nodes[0]
            token = home.ask("POST", "/api/auth/login", body={"email": EMAIL, "password": PASSWORD})["token"]
            keys = []
            for node in nodes:
                if node is not home:
                    home.ask("POST", "/api/cells", token, {"name": node.name, "nodes": [f"http://{node.address}"]})
                    home.until(lambda: all(it["status"] == "following" for it in home.ask("GET", "/api/cells", token)[1:]))
                project = home.ask("POST", "/api/projects", token, {"name": f"in {node.name}", "cell": node.name})
                made = [home.ask("POST", "/api/auth/keys", token, {"name": role, "role": role, "plan": "enterprise"},
                                 callboard_project=project["id"]) for role in ("operator", "worker")]
                operator, worker = [it["key"] for it in made]
                node.work(worker)
                keys.append(operator)
            targets = [(node.address, key) for node, key in zip(nodes, keys)]
            for request, what in ((CHAT, "submitted to completed, 48 in flight"), (SUBMIT, "submitted, 48 in flight")):
                print(f"\n{what}\ncells  tasks/s  x one  ms of a node  ms of PostgreSQL  middle ms")
                alone = None
                for number in (1, 3, 4):
                    # Not home's: it serves the others' list besides.
                    some = range(4) if number == 4 else range(1, 1 + number)
                    of_nodes, of_postgres = [nodes[at].process.pid for at in some], postgres.pids()
                    before = processor(of_nodes), processor(of_postgres)
                    rate, middle = measure([targets[at] for at in some], request, IN_FLIGHT, seconds)
                    spent = processor(of_nodes) - before[0], processor(of_postgres) - before[1]
                    alone = alone or rate
                    tasks = rate * (seconds + 1)
                    print(f"{number:5} {rate:8.0f} {rate / alone:6.2f} {spent[0] / tasks * 1000:13.2f} "
                          f"{spent[1] / tasks * 1000:17.2f} {middle:10.1f}")
            print("\na project's submissions\nway              connections  tasks/s  middle ms  ms of its node  ms of the other node")
            for connections in (1, 32):
                for way, address in (("its own cell", nodes[1].address), ("another cell", nodes[2].address)):
                    before = [processor([nodes[at].process.pid]) for at in (1, 2)]
                    rate, middle = measure([(address, keys[1])], SUBMIT, connections, seconds)
                    own, other = [processor([nodes[at].process.pid]) - was for at, was in zip((1, 2), before)]
                    tasks = rate * (seconds + 1)
                    print(f"{way:16} {connections:11} {rate:8.0f} {middle:10.2f} {own / tasks * 1000:15.2f} {other / tasks * 1000:21.2f}")
        finally:
            for node in nodes:
                node.end()
            postgres.end()


if __name__ == "__main__":
    main()
