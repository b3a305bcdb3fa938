"""Workers against a real server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timezone
from typing import Annotated, Any

import pytest
from callboard import Callboard, Failure, Plan, Result, Usage, Worker, errors
from callboard.worker import Task

from pydantic import BaseModel, Field

from .conftest import PATIENCE, RunningWorker, Server, until


@pytest.fixture
def cb(server: Server) -> Iterator[Callboard]:
    with Callboard(server.url, server.key("admin")) as cb:
        yield cb


class Thread:
    """A worker that runs in a thread until the end of the test."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.error = worker, None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except Exception as error:
            self.error = error

    def __enter__(self) -> Thread:
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive() and self.error is None


def make(server: Server, **options: Any) -> Worker:
    return Worker(server.url, server.key("worker"), name="mine", grace=3, **options)


def test_functions_of_every_kind_answer(server: Server, cb: Callboard) -> None:
    worker = make(server)

    @worker.model("coroutine")
    async def coroutine(task: Task) -> str:
        return task.prompt

    @worker.model("function")
    def function(task: Task) -> Result:
        return Result(task.prompt, Usage(5, 6, cache_read=2), confidence=0.25, finish_reason="length", thinking="hm")

    @worker.model("iterator")
    def iterator(task: Task) -> Iterator[str]:
        time.sleep(0.01)
        yield from task.prompt

    @worker.model("async-*")
    async def iterate(task: Task) -> AsyncIterator[str | Result]:
        for piece in task.prompt:
            yield piece
        yield Result(usage=Usage(1, 2))

    @worker.model("async-other")
    async def exact(task: Task) -> str:
        return "exact"

    with Thread(worker):
        for model in ("coroutine", "function", "iterator", "async-x"):
            assert cb.tasks.run("abc", model=model, timeout=30) == "abc", model
        assert cb.tasks.run("abc", model="async-other", timeout=30) == "exact"
        assert "".join(cb.tasks.stream("abc", model="iterator")) == "abc"
    task = next(iter(cb.tasks.list(model="function")))
    task.refresh()
    assert task.usage and (task.usage.input, task.usage.output, task.usage.cache_read) == (5, 6, 2)
    assert (task.confidence, task.confidence_source, task.finish_reason, task.thinking) == (
        0.25, "reported", "length", "hm")


class Customer(BaseModel):
    name: str
    tier: str = "gold"
    since: datetime = datetime(2026, 1, 2, tzinfo=timezone.utc)


def test_functions_are_called_with_args_of_their_types(server: Server, cb: Callboard) -> None:
    worker = make(server)

    @worker.function
    def lookup_customer(id: int, copy: bool = False, schema: Annotated[str, Field(max_length=3)] = "a") -> Customer:
        """Looks a customer up."""
        return Customer(name=f"customer {id}", tier=schema if copy else "gold")

    @worker.function(name="crm.greet")
    async def greet(customer: Customer, task: Task, times: int = 1) -> list[str]:
        task.charge(0.25)
        return [f"Hello {customer.name} of {customer.since.year}"] * times

    @worker.function
    def nothing() -> None:
        return None

    @worker.function
    def fails(kind: str) -> Any:
        if kind == "final":
            raise Failure("gone", retryable=False)
        return object()

    with Thread(worker):
        until(lambda: len(list(cb.functions.list())) == 4)
        found = {it.name: it for it in cb.functions.list()}
        assert found["lookup_customer"].description == "Looks a customer up."
        schema = found["lookup_customer"].input_schema or {}
        assert (schema["required"], sorted(schema["properties"])) == (["id"], ["copy", "id", "schema"])
        assert "task" not in (found["crm.greet"].input_schema or {})["properties"]
        ada = cb.tasks.run_function("lookup_customer", {"id": 7}, schema=Customer, timeout=30)
        assert ada == Customer(name="customer 7")
        assert cb.tasks.run_function("lookup_customer", {"id": "7", "copy": True}, timeout=30)["tier"] == "a"
        greeted = cb.tasks.submit(function="crm.greet", args={"customer": ada, "times": 2}).wait(timeout=30)
        assert greeted.value == ["Hello customer 7 of 2026"] * 2
        assert greeted.usage and greeted.usage.total_cost == 0.25 and greeted.model == "function:crm.greet"
        assert cb.tasks.run_function("nothing", timeout=30) is None
        wrong = {"id": "x", "schema": "long", "other": 1}
        with pytest.raises(errors.TaskFailed, match="args.id: .*args.schema: .*args.other: ") as failed:
            cb.tasks.run_function("lookup_customer", wrong, timeout=30)
        assert failed.value.item.attempt == 1
        for kind, says in (("final", "gone"), ("object", "no JSON")):
            with pytest.raises(errors.TaskFailed, match=says):
                cb.tasks.run_function("fails", {"kind": kind}, timeout=30)
        plan = Plan("functions")
        one = plan.call("one", "lookup_customer", {"id": "{{input.id}}"})
        plan.call("two", "crm.greet", {"customer": one.output, "times": 1}, depends_on=[one])
        run = cb.plans.execute(cb.plans.create(plan).id, input={"id": 9})
        run.wait(timeout=30)
        assert run.steps["two"].output == '["Hello customer 9 of 2026"]'
        lost = Plan("lost")
        lost.call("two", "crm.greet", {"customer": "{{one.output}}"})
        with pytest.raises(errors.InvalidArgument, match="reads the output of one"):
            cb.plans.create(lost)
    with pytest.raises(errors.InvalidArgument):
        cb.tasks.submit(function="f", args={}, priority=99)

    def spread(*args: int) -> int:
        return sum(args)

    with pytest.raises(errors.ConfigurationError, match="takes args by name"):
        worker.function(spread)


def test_failures_are_reported_as_they_are(server: Server, cb: Callboard) -> None:
    worker, attempts = make(server), []

    @worker.model("fails")
    async def fails(task: Task) -> str:
        attempts.append(task.attempt)
        if task.prompt == "late":
            await asyncio.sleep(60)
        if task.prompt == "wait":
            raise Failure("busy", code="PROVIDER_RATE_LIMITED", retry_after=3600)
        raise ValueError("a bug") if task.attempt < 2 else Failure("no such model", retryable=False)

    @worker.model("wrong")
    def wrong(task: Task) -> Any:
        return 7

    @worker.model("long")
    def long(task: Task) -> str:
        return "x" * (33 << 20)

    @worker.model("surrogate")
    async def surrogate(task: Task) -> str:
        return "a\ud800b"

    with Thread(worker):
        with pytest.raises(errors.TaskFailed, match="no such model") as failed:
            cb.tasks.run("x", model="fails", timeout=30)
        assert (failed.value.code, attempts) == ("PROVIDER_ERROR", [1, 2])
        with pytest.raises(errors.TaskFailed, match="returned a int, not a text"):
            cb.tasks.run("x", model="wrong", timeout=30)
        with pytest.raises(errors.TaskFailed, match="does not fit a frame"):
            cb.tasks.run("x", model="long", timeout=30)
        assert cb.tasks.run("x", model="surrogate", timeout=30) == "a?b"
        late = cb.tasks.submit("late", model="fails", timeout_ms=500)
        until(lambda: late.refresh().error)
        assert late.error and late.error.code == "TASK_TIMEOUT"
        late.cancel()
        wait = cb.tasks.submit("wait", model="fails")
        until(lambda: wait.refresh().error)
        assert wait.waiting_for == "backoff" and wait.error and wait.error.code == "PROVIDER_RATE_LIMITED"
        wait.cancel()


def test_a_cancelled_task_stops_its_work(server: Server, cb: Callboard) -> None:
    worker, ended = make(server), []

    @worker.model("slow-coroutine")
    async def coroutine(task: Task) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("coroutine")
        return ""

    @worker.model("slow-thread")
    def function(task: Task) -> str:
        while not task.cancelled:
            time.sleep(0.01)
        ended.append("thread")
        return ""

    with Thread(worker):
        tasks = [cb.tasks.submit("x", model=f"slow-{kind}") for kind in ("coroutine", "thread")]
        for task in tasks:
            until(lambda: task.refresh().status == "running")
            task.cancel()
        until(lambda: sorted(ended) == ["coroutine", "thread"])


def test_a_stopped_worker_finishes_in_time_and_returns_the_rest(server: Server, cb: Callboard) -> None:
    first = RunningWorker(server, queues=["leave"], grace=1.0)
    quick = cb.tasks.submit("say quick", queue="leave")
    long = cb.tasks.submit("hold very long", queue="leave")
    until(lambda: len(first.ran) == 2)
    began = time.monotonic()
    first.worker.stop()
    # A task that comes now is another worker's.
    later = cb.tasks.submit("say later", queue="leave")
    first.thread.join(10)
    assert not first.thread.is_alive() and time.monotonic() - began < 6
    # It is in its queue again at once, and neither an attempt nor a loss is counted; the fifth would be the end.
    for _ in range(5):
        until(lambda: long.refresh().status == "pending")
        another = RunningWorker(server, queues=["leave"], grace=0.0)
        until(lambda: "hold very long" in another.ran)
        another.worker.stop()
        another.thread.join(10)
    until(lambda: long.refresh().status == "pending")
    assert long.attempt == 1
    second = RunningWorker(server, queues=["leave"])
    second.go.set()
    assert long.wait(timeout=30).output == "very long" and long.attempt == 1
    assert (quick.wait(timeout=30).output, later.wait(timeout=30).output) == ("quick", "later")
    second.stop()


def test_what_runs_ends_within_the_grace(server: Server, cb: Callboard) -> None:
    worker = RunningWorker(server, queues=["grace"], grace=20.0)
    task = cb.tasks.submit("hold a b", queue="grace")
    until(lambda: worker.ran)
    worker.worker.stop()
    worker.go.set()
    worker.thread.join(PATIENCE)
    assert task.refresh().output == "a b" and len(worker.ran) == 1


def test_the_server_drains_a_worker(server: Server, cb: Callboard) -> None:
    worker = RunningWorker(server, queues=["drained"])
    found = until(lambda: [it for it in cb.workers.list() if it.queues == ["drained"] and it.status == "active"])
    cb.workers.drain(found[0].id)
    worker.thread.join(PATIENCE)
    assert not worker.thread.is_alive() and worker.error is None


def test_a_worker_that_the_server_refuses_says_why(server: Server) -> None:
    def refused(key: str, match: str) -> None:
        worker = Worker(server.url, key)
        worker.model()(lambda task: "")
        with pytest.raises(errors.WorkerRefused, match=match):
            worker.run()

    refused(server.key("viewer"), "may not|role")
    refused("svc_worker_nothing", "key|token|credentials")
    with Callboard(server.url, server.key("admin")) as cb:
        bound = cb.keys.create(name="bound", role="worker", queues=["mine"]).key
    refused(bound, "queue")
    with pytest.raises(errors.ConfigurationError, match="runs no model and no function"):
        Worker(server.url, server.key("worker")).run()


def test_the_turns_are_those_that_the_server_promises() -> None:
    task = Task(id="t", model="m", queue="q", prompt="now", system_prompt="be brief", context={"a": "é"},
                messages=[{"role": "user", "content": "before"}])  # type: ignore[list-item]
    assert task.chat() == [
        {"role": "system", "content": "be brief"}, {"role": "system", "content": 'Context:\n{"a":"é"}'},
        {"role": "user", "content": "before"}, {"role": "user", "content": "now"},
    ]


def test_a_turn_in_parts_has_its_texts_and_its_files() -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image", "file": {"id": "file_1", "contentType": "image/png"}},
             {"type": "text", "text": "well"}]
    task = Task(id="t", model="m", queue="q", prompt="now",
                messages=[{"role": "user", "content": parts}])  # type: ignore[list-item]
    (turn,) = task.messages
    assert (turn.text, [file.content_type for file in turn.files]) == ("look\nwell", ["image/png"])
    assert task.chat() == [{"role": "user", "content": "look\nwell"}, {"role": "user", "content": "now"}]


def test_figures_that_the_server_would_not_take_are_refused() -> None:
    for confidence in (1.1, -0.1, float("nan")):
        with pytest.raises(ValueError, match="0 to 1"):
            Result("x", confidence=confidence)
    with pytest.raises(ValueError, match="negative"):
        Usage(1, -1)
