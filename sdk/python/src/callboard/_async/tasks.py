"""Tasks."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from typing import Any, TypeVar, overload

import anyio
from typing_extensions import Self, Unpack

from .. import _core, errors, models
from ..params import NewTask, TaskOptions
from .transport import AsyncBound, AsyncPages, AsyncResource, Outage

T = TypeVar("T")
PATH = "/api/tasks/{id}"
NDJSON = "application/x-ndjson"
# A load of this size is answered in the buffers of a connection: the library reads only when all is sent.
LOAD_LINES, LOAD_BYTES = 1000, 1 << 20


class AsyncTask(AsyncBound, models.Task):
    """A task, as the server last showed it: `refresh` and `wait` read it again."""

    async def refresh(self) -> Self:
        """Reads the task again."""
        return self._take(await AsyncResource(self._transport)._one(type(self), "GET", PATH, id=self.id))

    async def wait(self, timeout: float | None = None, *, check: bool = True) -> Self:
        """Waits until the task has ended, over broken connections and restarts of the server.

        Raises `TaskFailed` if it ended without an output, unless `check` is false; `WaitTimeout` after `timeout`
        seconds. The task goes on in any case.
        """
        deadline = None if timeout is None else monotonic() + timeout
        async with aclosing(self._transport.follow(PATH, {"id": self.id}, deadline)) as events:
            async for event in events:
                if event.name == "end":
                    self._take(self._transport.make(type(self), event.data))
        return self._checked() if check else self

    def _checked(self) -> Self:
        if self.status == "completed":
            return self
        told = f": {self.error.message}" if self.error else ""
        ended = "failed" if self.status == "failed" else f"was {self.status}"
        raise errors.TaskFailed(
            f"task {self.id} {ended}{told}", item=self, code=self.error.code if self.error else None
        )

    def parse(self, schema: type[T]) -> T:
        """The output as an instance of a type; raises `OutputMismatch` if it is none."""
        found: T = _core.parsed(schema, self.output or "")
        return found

    @property
    def value(self) -> Any:
        """The output as plain JSON, such as the value of a function; raises `OutputMismatch` if it is none."""
        return _core.parsed({}, self.output or "")

    async def text(self, timeout: float | None = None) -> AsyncGenerator[str, None]:
        """The pieces of the output, as the model writes them; together they are `output`.

        Afterwards the task is as it ended. Raises `StreamReset` if the pieces are void (another attempt wrote
        another text), `TaskFailed`, `WaitTimeout`.
        """
        deadline = None if timeout is None else monotonic() + timeout
        told = _core.Text()
        async with aclosing(self._transport.follow(PATH, {"id": self.id}, deadline)) as events:
            async for event in events:
                if event.name == "end":
                    self._take(self._transport.make(type(self), event.data))._checked()
                fresh = told.new(event.name, event.data)
                if fresh is None:
                    raise errors.StreamReset(
                        f"the text streamed so far is void: task {self.id} has another one", task=self
                    )
                if fresh:
                    yield fresh

    async def cancel(self) -> models.Cancelled:
        """Cancels the task. Raises `Conflict` if it has ended."""
        return await AsyncTasks(self._transport).cancel(self.id)

    async def submit_again(self, *, idempotency_key: str | None = None) -> AsyncTask:
        """Submits the ended task anew. `retry` is the policy of its attempts."""
        return await AsyncTasks(self._transport).retry(self.id, idempotency_key=idempotency_key)

    async def erase(self, reason: str) -> models.Erased:
        """Erases the texts of the ended task. Requires the role admin."""
        return await AsyncTasks(self._transport).erase(self.id, reason)


@dataclass(frozen=True)
class AsyncImported:
    """What became of a task of `import_lines`."""

    index: int
    """The place of the task among those that were given, from 0."""
    id: str | None
    """The id of the task, which is on the server's disk; None if it was refused."""
    error: errors.CallboardError | None
    """The reason why the task was refused, by the server or before it was sent."""


class AsyncTasks(AsyncResource):
    """`cb.tasks`: one prompt each, which one worker runs on one model, or one call of a worker's function."""

    @overload
    async def run(
        self, prompt: str, *, schema: None = None, timeout: float | None = None, idempotency_key: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> str: ...
    @overload
    async def run(
        self, prompt: str, *, schema: type[T], timeout: float | None = None, idempotency_key: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> T: ...
    @overload
    async def run(
        self, prompt: str, *, schema: Mapping[str, Any], timeout: float | None = None,
        idempotency_key: str | None = None, **options: Unpack[TaskOptions],
    ) -> Any: ...

    async def run(
        self, prompt: str, *, schema: Any = None, timeout: float | None = None, idempotency_key: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> Any:
        """Submits a task, waits for it, and returns its output: an instance of `schema`, or the text without one.

        `schema` is a type (a pydantic model, a dataclass, `list[int]`) or a JSON Schema. Raises `TaskFailed`,
        `WaitTimeout` after `timeout` seconds, `OutputMismatch`.
        """
        task = await self.submit(prompt, schema=schema, idempotency_key=idempotency_key, **options)
        await task.wait(timeout)
        return task.output or "" if schema is None else _core.parsed(schema, task.output or "")

    @overload
    async def run_function(
        self, function: str, args: Mapping[str, Any] | None = None, *, schema: None = None,
        timeout: float | None = None, idempotency_key: str | None = None, **options: Unpack[TaskOptions],
    ) -> Any: ...
    @overload
    async def run_function(
        self, function: str, args: Mapping[str, Any] | None = None, *, schema: type[T], timeout: float | None = None,
        idempotency_key: str | None = None, **options: Unpack[TaskOptions],
    ) -> T: ...
    @overload
    async def run_function(
        self, function: str, args: Mapping[str, Any] | None = None, *, schema: Mapping[str, Any],
        timeout: float | None = None, idempotency_key: str | None = None, **options: Unpack[TaskOptions],
    ) -> Any: ...

    async def run_function(
        self, function: str, args: Mapping[str, Any] | None = None, *, schema: Any = None,
        timeout: float | None = None, idempotency_key: str | None = None, **options: Unpack[TaskOptions],
    ) -> Any:
        """Submits the call of a function, waits for it, and returns its value: an instance of `schema`, or plain JSON.

        A connected worker must run the function, or the task waits for one. Raises as `run`.
        """
        task = await self.submit(
            function=function, args=args, schema=schema, idempotency_key=idempotency_key, **options
        )
        await task.wait(timeout)
        return task.value if schema is None else _core.parsed(schema, task.output or "")

    async def submit(
        self, prompt: str | None = None, *, function: str | None = None, args: Mapping[str, Any] | None = None,
        schema: Any = None, idempotency_key: str | None = None, **options: Unpack[TaskOptions],
    ) -> AsyncTask:
        """Submits a prompt, or the call of a function. When it returns, the task is on the server's disk."""
        given = {"prompt": prompt, "function": function, "args": args}
        values: dict[str, Any] = {**{name: it for name, it in given.items() if it is not None}, **options}
        if schema is not None:
            values["output_schema"] = _core.schema_of(schema)
        body = _core.checked(models.CreateTask, values)
        return await self._one(AsyncTask, "POST", "/api/tasks", body=body, key=idempotency_key)

    async def stream(
        self, prompt: str, *, timeout: float | None = None, idempotency_key: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> AsyncGenerator[str, None]:
        """Submits a task at the first piece, and yields the pieces of its output (`AsyncTask.text`)."""
        task = await self.submit(prompt, idempotency_key=idempotency_key, **options)
        async with aclosing(task.text(timeout)) as pieces:
            async for piece in pieces:
                yield piece

    async def submit_batch(
        self, tasks: Sequence[NewTask | Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> models.Batch:
        """Submits up to 100 tasks, all or none."""
        body = _core.checked(models.CreateBatch, {"tasks": list(tasks)})
        return await self._one(models.Batch, "POST", "/api/tasks/batch", body=body, key=idempotency_key)

    async def import_lines(
        self, tasks: Iterable[NewTask | Mapping[str, Any]]
    ) -> AsyncGenerator[AsyncImported, None]:
        """Submits any number of tasks, read as they are needed, and yields what became of each, in their order.

        A refused task stops no other. Each has an idempotency key (`idempotency_key` of the task, or one that the
        library makes), so tasks whose answer did not arrive are sent again, for at most `patience` seconds.
        """
        call = _core.call("POST", "/api/tasks/bulk", content=b"", content_type=NDJSON, accept=NDJSON)
        load: dict[int, bytes] = {}
        done: dict[int, AsyncImported] = {}
        size = 0
        for index, task in enumerate(tasks):
            try:
                body = {"idempotencyKey": str(uuid.uuid4()), **_core.checked(models.CreateTask, dict(task))}
                load[index] = _core.encoded(body) + b"\n"
                size += len(load[index])
            except errors.InvalidArgument as error:
                done[index] = AsyncImported(index, None, error)
            if len(load) + len(done) >= LOAD_LINES or size >= LOAD_BYTES:
                for imported in await self._imported(call, load, done):
                    yield imported
                load, done, size = {}, {}, 0
        for imported in await self._imported(call, load, done):
            yield imported

    async def _imported(
        self, call: _core.Call, load: dict[int, bytes], done: dict[int, AsyncImported]
    ) -> list[AsyncImported]:
        outage = Outage(self._transport._patience)
        while left := [index for index in load if index not in done]:
            before = len(done)
            call = replace(call, content=b"".join(load[index] for index in left))
            failure: errors.ApiError | errors.ServerUnreachable = errors.ServerUnreachable(
                f"{self._transport.server} has not answered every line"
            )
            try:
                response = await self._transport.open(call, read_timeout=_core.SILENCE)
                rest = b""
                async with aclosing(self._transport.chunks(response)) as chunks:
                    async for chunk in chunks:
                        *lines, rest = (rest + chunk).split(b"\n")
                        for line in lines:
                            answer = json.loads(line)
                            error = _core.refusal(answer["error"], 400) if "error" in answer else None
                            if "line" not in answer:
                                failure = error or failure
                            elif error is None or not error.retryable:
                                index = left[answer["line"] - 1]
                                done[index] = AsyncImported(index, answer.get("id"), error)
                            else:
                                failure = error
            except (errors.ApiError, errors.ServerUnreachable) as error:
                failure = error
            if len(done) > before:
                outage.over()
            if any(index not in done for index in left):
                await anyio.sleep(outage.pause(failure))
        return [done[index] for index in sorted(done)]

    async def batch(self, id: str) -> models.BatchStatus:
        """Reads a batch: the status of its tasks."""
        return await self._one(models.BatchStatus, "GET", "/api/tasks/batch/{id}", id=id)

    async def get(self, id: str) -> AsyncTask:
        """Reads a task with its texts."""
        return await self._one(AsyncTask, "GET", "/api/tasks/{id}", id=id)

    def list(
        self, *, status: str | Sequence[str] | None = None, model: str | None = None, queue: str | None = None,
        tags: Sequence[str] | None = None, created_after: datetime | None = None,
        created_before: datetime | None = None, search: str | None = None, ended_after: datetime | None = None,
        ended_before: datetime | None = None, order_by: str | None = None, order: str | None = None,
    ) -> AsyncPages[AsyncTask]:
        """Lists tasks without their texts, the newest first."""
        return self._pages(AsyncTask, "GET", "/api/tasks", query={
            "status": status, "model": model, "queue": queue, "tags": tags, "createdAfter": created_after,
            "createdBefore": created_before, "search": search, "endedAfter": ended_after, "endedBefore": ended_before,
            "orderBy": order_by, "order": order,
        })

    async def search(
        self, q: str, *, kinds: str | Sequence[str] | None = None, days: int | None = None,
        limit: int | None = None, cursor: str | None = None,
    ) -> models.Search:
        """Searches the prompts and outputs of the last days for words; `cursor` is the `next` of an answer."""
        return await self._one(models.Search, "GET", "/api/search", query={
            "q": q, "kinds": kinds, "days": days, "limit": limit, "cursor": cursor})

    async def text(self, id: str, timeout: float | None = None) -> AsyncGenerator[str, None]:
        """Streams the output of a task that was submitted before (`AsyncTask.text`)."""
        task = await self.get(id)
        async with aclosing(task.text(timeout)) as pieces:
            async for piece in pieces:
                yield piece

    async def cancel(self, id: str) -> models.Cancelled:
        """Cancels a task. Raises `Conflict` if it has ended."""
        return await self._one(models.Cancelled, "DELETE", "/api/tasks/{id}", id=id)

    async def retry(self, id: str, *, idempotency_key: str | None = None) -> AsyncTask:
        """Submits an ended task anew."""
        return await self._one(AsyncTask, "POST", "/api/tasks/{id}/retry", id=id, key=idempotency_key)

    async def erase(self, id: str, reason: str) -> models.Erased:
        """Erases the texts of an ended task. Requires the role admin."""
        return await self._one(models.Erased, "DELETE", "/api/tasks/{id}/texts", id=id, body={"reason": reason})
