"""A real server, a worker, and clients of both kinds behind one interface."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import callboard
import pytest
from callboard.worker import Task, Worker

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("CALLBOARD_BIN", str(ROOT / "target/debug/callboard"))
EMAIL, PASSWORD = "admin@example.com", "correct horse battery staple 9"
PATIENCE = 30.0


class Server:
    """`callboard serve` with a data directory of its own."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.environment = {
            name: it for name, it in os.environ.items() if not name.startswith("CALLBOARD_")
        } | {"CALLBOARD_ADMIN_EMAIL": EMAIL, "CALLBOARD_ADMIN_PASSWORD": PASSWORD, "HOME": str(directory), **settings}
        self.listen = "127.0.0.1:0"
        self.keys: dict[str, str] = {}
        self.start()

    def start(self) -> None:
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "--listen", self.listen, "--data-dir", str(self.directory / "data")],
                env=self.environment, cwd=self.directory, stdout=subprocess.PIPE, stderr=log, text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, f"the server did not start: {line}{(self.directory / 'log').read_text()[-2000:]}"
        self.url = found[0]
        self.listen = self.url.removeprefix("http://")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()

    def key(self, role: str) -> str:
        """A key of this role: the same one each time, because a sign-in is slow on purpose."""
        if role not in self.keys:
            if not self.keys:
                with callboard.Callboard(self.url, "none") as nobody:
                    self.keys[""] = nobody.sessions.log_in(EMAIL, PASSWORD).token
            with callboard.Callboard(self.url, self.keys[""]) as admin:
                self.keys[role] = admin.keys.create(name=role, role=role).key  # type: ignore[arg-type]
        return self.keys[role]


class AsSync:
    """An async client, its resources and its items, called as the sync ones are."""

    def __init__(self, loop: asyncio.AbstractEventLoop, inner: Any) -> None:
        self._loop, self._inner = loop, inner

    def _wait(self, awaitable: Any) -> Any:
        async def wait() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result(120)

    def _wrap(self, value: Any) -> Any:
        if inspect.isawaitable(value):
            value = self._wait(value)
        if inspect.ismethod(value):
            return lambda *given, **named: self._wrap(value(*given, **named))
        kept = hasattr(value, "__anext__") or type(value).__module__.startswith("callboard._async")
        return AsSync(self._loop, value) if kept else value

    def __getattr__(self, name: str) -> Any:
        return self._wrap(getattr(self._inner, name))

    def __iter__(self) -> Iterator[Any]:
        iterator = self._inner.__aiter__()
        try:
            while True:
                yield self._wrap(self._wait(iterator.__anext__()))
        except StopAsyncIteration:
            return
        finally:
            self._wait(iterator.aclose())

    def close(self) -> None:
        self._wait(self._inner.aclose())


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that the test may kill."""
    server = Server(tmp_path, CALLBOARD_WORKER__LEASE="4s", CALLBOARD_WORKER__HEARTBEAT="1s",
                    CALLBOARD_WORKER__SILENT_AFTER="2s")
    yield server
    server.kill()


Connect = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> Iterator[Connect]:
    """Makes clients, of either kind in turn."""
    with contextlib.ExitStack() as stack:
        def connect(server: Server, role: str = "admin", url: str | None = None, **options: Any) -> Any:
            kind = callboard.Callboard if request.param == "sync" else callboard.AsyncCallboard
            client: Any = kind(url or server.url, server.key(role), **options)
            client = client if request.param == "sync" else AsSync(loop, client)
            stack.callback(client.close)
            return client

        yield connect


@pytest.fixture
def cb(connect: Connect, server: Server) -> Any:
    return connect(server)


class RunningWorker:
    """A worker in a thread. It keeps the prompts that it ran."""

    def __init__(self, server: Server, url: str | None = None, **options: Any) -> None:
        self.ran: list[str] = []
        self.go = threading.Event()
        """Lets tasks end whose prompt begins with `hold`."""
        self.error: BaseException | None = None
        options = {"grace": 5.0, "concurrency": 8, **options}
        self.worker = Worker(url or server.url, server.key("worker"), name="test", **options)
        self.worker.model("*")(self.answer)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error

    async def answer(self, task: Task) -> Any:
        """`say X` answers X; `stream X` word by word; `hold X` after `go`; `fail` fails."""
        self.ran.append(task.prompt)
        kind, _, text = task.prompt.partition(" ")
        if kind == "fail":
            raise callboard.Failure("as asked", retryable=False)
        if kind in ("hold", "stream"):
            for word in re.findall(r"\S+\s*", text):
                yield word
                if kind == "hold":
                    while not self.go.is_set():
                        await asyncio.sleep(0.02)
        else:
            yield text
        yield callboard.Result(usage=callboard.Usage(3, 4), confidence=0.5, finish_reason="stop")

    def stop(self) -> None:
        self.go.set()
        self.worker.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@pytest.fixture
def worker(server: Server) -> Iterator[RunningWorker]:
    worker = RunningWorker(server)
    yield worker
    worker.stop()
    assert worker.error is None


def until(reached: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Waits for a state, and returns it."""
    end = time.monotonic() + patience
    while not (found := reached()):
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.02)
    return found


class Proxy:
    """Passes connections on to a server: slowly, cut after some bytes of the answers, or not at all."""

    def __init__(self, server: Server) -> None:
        host, _, port = server.listen.rpartition(":")
        self.target = (host, int(port))
        self.cut_after: int | None = None
        """The bytes of the answer after which the next connections are cut, each once."""
        self.pause = 0.0
        """The seconds before each piece of an answer."""
        self.refuse = False
        self.connections = 0
        self.cuts = 0
        self.live: set[socket.socket] = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.connections += 1
                if self.refuse:
                    client.close()
                    continue
                try:
                    there = socket.create_connection(self.target)
                except OSError:
                    client.close()
                    continue
                self.live |= {client, there}
                threading.Thread(target=self._pass, args=(client, there, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(there, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while piece := source.recv(1024 if answers else 65536):
                if answers and self.pause:
                    time.sleep(self.pause)
                if answers and self.cut_after is not None and passed + len(piece) > self.cut_after:
                    target.sendall(piece[: self.cut_after - passed])
                    self.cut_after = None
                    self.cuts += 1
                    break
                target.sendall(piece)
                passed += len(piece)
        self._end(source)
        self._end(target)

    def _end(self, it: socket.socket) -> None:
        with contextlib.suppress(OSError):
            it.shutdown(socket.SHUT_RDWR)
        it.close()
        self.live.discard(it)

    def cut(self) -> None:
        """Cuts every connection."""
        for it in list(self.live):
            self._end(it)

    def close(self) -> None:
        self.listener.close()
        self.cut()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server)
    yield proxy
    proxy.close()
