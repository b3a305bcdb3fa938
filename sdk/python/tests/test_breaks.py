"""Killed servers, slow and cut connections: nothing is lost, nothing comes twice. Sync and async alike."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from callboard import errors

from .conftest import Connect, Proxy, RunningWorker, Server, until


class Beside:
    """Something that runs in a thread, and its result."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self.thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self.result = work()
        except BaseException as error:
            self.error = error

    def done(self) -> Any:
        self.thread.join(60)
        assert not self.thread.is_alive(), "it hangs"
        if self.error:
            raise self.error
        return self.result


def test_a_killed_server_loses_nothing(connect: Connect, own_server: Server) -> None:
    """kill -9 in the middle of a wait, a stream, a stream of events and a worker's tasks."""
    cb = connect(own_server)
    worker = RunningWorker(own_server)
    start = cb.cursor()
    waits = cb.tasks.submit("hold waited for")
    waiting = Beside(lambda: waits.wait(timeout=60).output)
    pieces: list[str] = []
    streaming = Beside(lambda: pieces.extend(cb.tasks.stream("hold one two three", timeout=60)))
    seen: list[Any] = []
    following = Beside(lambda: seen.extend(itertools.islice(cb.events("task.created", "task.completed", since=start), 8)))
    until(lambda: pieces == ["one "] and len(worker.ran) == 2)
    first = cb.tasks.submit("say before").wait()
    until(lambda: len(seen) == 4)
    own_server.kill()
    submitting = Beside(lambda: cb.tasks.submit("say while it is away"))
    time.sleep(0.5)
    own_server.start()
    again = submitting.done()
    assert again.wait(timeout=30).output == "while it is away"
    worker.go.set()
    assert waiting.done() == "waited for"
    streaming.done()
    assert "".join(pieces) == "one two three"
    # Each task ran once, although the server died while they ran.
    worker.stop()
    assert Counter(worker.ran).most_common(1)[0][1] == 1 and len(worker.ran) == 4
    following.done()
    # Both events of each task, each once, and in the order of the log.
    assert Counter((it.event, it.resource.id) for it in seen) == Counter(
        (f"task.{it}", task.id) for task in cb.tasks.list() for it in ("created", "completed")
    )
    assert [it.resource.id for it in seen if it.event == "task.completed"][:2] == [first.id, again.id]
    assert cb.tasks.list().total() == 4


def test_a_result_outlives_the_server(own_server: Server, connect: Connect) -> None:
    """A task ends while the server is away: its result counts, once, after the worker is back."""
    cb = connect(own_server)
    worker = RunningWorker(own_server)
    task = cb.tasks.submit("hold on")
    until(lambda: worker.ran and task.refresh().status == "running")
    # The answer means that this task is on disk, and so is everything before it, the lease too.
    cb.tasks.submit("x", queue="nobody")
    own_server.kill()
    worker.go.set()
    until(lambda: all(run.result for run in worker.worker._runs.values()))
    own_server.start()
    done = task.wait(timeout=30)
    assert (done.output, done.attempt, len(worker.ran)) == ("on", 1, 1)
    until(lambda: not worker.worker._runs)
    worker.stop()


def test_a_cut_answer_makes_no_second_task(connect: Connect, server: Server, proxy: Proxy) -> None:
    cb, tag = connect(server, url=proxy.url), f"cut-{time.monotonic_ns()}"
    for length in (0, 20, 400):
        proxy.cut()
        proxy.cut_after = length
        cb.tasks.submit("x", tags=[tag], queue="nobody")
    assert proxy.cuts == 3
    assert cb.tasks.list(tags=[tag]).total() == 3


def test_what_takes_no_key_is_not_repeated(connect: Connect, server: Server, proxy: Proxy) -> None:
    cb, name = connect(server, url=proxy.url), f"s{time.monotonic_ns()}"
    proxy.cut_after = 0
    with pytest.raises(errors.ServerUnreachable):
        cb.keys.create(name=name, role="viewer")
    assert [it.name for it in cb.keys.list()].count(name) == 1


def test_a_slow_connection_is_waited_for_and_a_silent_one_is_not(
    connect: Connect, server: Server, proxy: Proxy
) -> None:
    proxy.pause = 0.3
    assert connect(server, url=proxy.url).tasks.list().total() >= 0
    proxy.pause = 5
    began = time.monotonic()
    with pytest.raises(errors.AnswerTimeout, match="raise timeout="):
        connect(server, url=proxy.url, timeout=0.5, retries=1).tasks.list().total()
    assert time.monotonic() - began < 4


def test_a_cut_stream_goes_on_where_it_was(
    connect: Connect, server: Server, proxy: Proxy, worker: RunningWorker
) -> None:
    cb = connect(server, url=proxy.url)
    words = " ".join(f"word{number}" for number in range(40))
    pieces: list[str] = []
    streaming = Beside(lambda: pieces.extend(cb.tasks.stream(f"hold {words}")))
    until(lambda: pieces)
    for _ in range(3):
        proxy.cut()
        time.sleep(0.3)
    worker.go.set()
    streaming.done()
    assert "".join(pieces) == words


def test_cut_events_come_once_each(connect: Connect, server: Server, proxy: Proxy, worker: RunningWorker) -> None:
    cb, direct = connect(server, url=proxy.url), connect(server)
    tag = f"events-{time.monotonic_ns()}"
    seen: list[Any] = []
    began = threading.Event()

    def follow() -> None:
        start = direct.cursor()
        began.set()
        for event in cb.events("task.completed", tags=[tag], since=start):
            seen.append(event.resource.id)
            if len(seen) == 30:
                return

    following = Beside(follow)
    assert began.wait(30)
    made = []
    for number in range(30):
        made.append(direct.tasks.submit("say x", tags=[tag]).wait().id)
        if number % 10 == 5:
            proxy.cut()
    following.done()
    assert seen == made


def test_a_worker_behind_a_cut_connection_runs_each_task_once(
    connect: Connect, server: Server, proxy: Proxy
) -> None:
    cb, queue = connect(server), f"q{time.monotonic_ns()}"
    worker = RunningWorker(server, url=proxy.url, queues=[queue])
    tasks = [cb.tasks.submit(f"hold t{number}", queue=queue) for number in range(6)]
    until(lambda: len(worker.ran) == 6)
    proxy.cut()
    worker.go.set()
    assert [task.wait(timeout=30).output for task in tasks] == [f"t{number}" for number in range(6)]
    assert len(worker.ran) == 6
    worker.stop()


def test_a_worker_comes_back_as_soon_after_each_break(server: Server, proxy: Proxy) -> None:
    worker = RunningWorker(server, url=proxy.url, queues=["nobody-else"])
    for _ in range(6):
        until(lambda: worker.worker._socket is not None, patience=2)
        proxy.cut()
        until(lambda: worker.worker._socket is None)
    worker.stop()


def test_a_server_that_stays_away_ends_the_wait(connect: Connect, server: Server, proxy: Proxy) -> None:
    cb = connect(server, url=proxy.url, patience=1.0, retries=1)
    task = cb.tasks.submit("x", queue="nobody")
    proxy.refuse = True
    proxy.cut()
    began = time.monotonic()
    with pytest.raises(errors.ServerUnreachable):
        task.wait()
    assert time.monotonic() - began < 10


def test_more_waits_than_streams_all_end(connect: Connect, tmp_path_factory: Any) -> None:
    """The server has no stream left for some waits: these read the task instead."""
    server = Server(tmp_path_factory.mktemp("few"), CALLBOARD_LIMITS__STREAMS="2")
    try:
        cb, worker = connect(server), RunningWorker(server)
        tasks = [cb.tasks.submit(f"hold t{number}") for number in range(5)]
        waits = [Beside(lambda task=task: task.wait(timeout=60).output) for task in tasks]
        until(lambda: len(worker.ran) == 5)
        time.sleep(0.5)
        worker.go.set()
        assert [it.done() for it in waits] == [f"t{number}" for number in range(5)]
        worker.stop()
    finally:
        server.stop()
