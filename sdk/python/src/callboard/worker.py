"""A worker: runs tasks on any model (docs/reference/workers.md).

    worker ─register─▶ server      worker ─heartbeat─▶ server     worker ─complete | fail─▶ server
           ◀registered─                   ◀──leases───                   ◀──────ack───────
           ◀──assign───            worker ─delta, drain, return▶  worker ◀─cancel, drain, error─

A lease is kept over a broken connection, and a result until the server has acknowledged it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import math
import signal
import socket as sockets
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, overload

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from . import _core, _login
from ._assigned import Failure, Message, Part, Result, Task, TaskFile, Usage
from ._function import Function
from ._version import __version__
from .errors import ConfigurationError, WorkerRefused

__all__ = ["Failure", "Message", "Part", "Result", "Task", "TaskFile", "Usage", "Worker"]

log: logging.Logger = logging.getLogger("callboard.worker")

MAX_FRAME = 32 << 20
LONGEST_PIECE = 1 << 20
MARGIN = 0.25
"""A call ends this many seconds before its attempt, so that its report is in time."""
ACKNOWLEDGED = 5.0
"""The longest wait for the acknowledgements of the last results, in seconds."""
FOR_GOOD = (4400, 4401, 4403)


Handler = Callable[[Task], "str | Result | Awaitable[str | Result] | AsyncIterable[str | Result] | Iterator[str | Result]"]
H = TypeVar("H", bound=Handler)
F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class _Run:
    """A lease: its task runs, or its result waits for an acknowledgement."""

    task: Task
    work: asyncio.Task[None] | None = None
    result: str | None = None
    """The frame."""

    def cancel(self) -> None:
        self.task._cancelled.set()
        if self.work is not None:
            self.work.cancel()


class Worker:
    """A worker of one server, with a key of the role worker.

    `queues` are those that it takes tasks from, `concurrency` is the number of tasks at once. When it is told to
    stop (`stop`, SIGTERM, SIGINT, or `drain` by the server), it takes no new task, finishes those that run within
    `grace` seconds, and returns the others to their queues. `ssl_context` brings certificates of its own.
    """

    def __init__(
        self,
        server: str | None = None,
        api_key: str | None = None,
        *,
        name: str | None = None,
        queues: Sequence[str] = ("default",),
        concurrency: int = 4,
        grace: float = 20.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        url, credentials = _login.find(server, api_key)
        if credentials.token is None or credentials.login is not None:
            raise ConfigurationError("a worker needs a key: api_key=, CALLBOARD_API_KEY or CALLBOARD_API_KEY_FILE")
        self._token = credentials.token
        self._server = str(url).rstrip("/")
        scheme = "wss" if url.scheme == "https" else "ws"
        self._url = str(url.copy_with(scheme=scheme)).rstrip("/") + "/api/workers/connect"
        self._name = name or sockets.gethostname()
        self._queues, self._concurrency, self._grace = list(queues), concurrency, grace
        self._ssl = ssl_context
        self._handlers: dict[str, Handler] = {}
        self._functions: dict[str, Function] = {}
        self._runs: dict[str, _Run] = {}
        self._id: str | None = None
        self._takes: frozenset[str] = frozenset()
        self._socket: ClientConnection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._attempt = 0
        """The attempts to connect since the last success."""

    def model(self, *names: str) -> Callable[[H], H]:
        """Runs tasks of these models by the decorated function: exact names, prefixes such as `gpt-*`, or `*`.

        The function gets a `Task` and returns its output, or is an iterator of its pieces, which are streamed. A
        coroutine and an async iterator run in the event loop, which also sends the heartbeats: they must not block
        it. Other functions run in a thread.
        """

        def decorate(handler: H) -> H:
            self._handlers.update(dict.fromkeys(names or ("*",), handler))
            return handler

        return decorate

    @overload
    def function(self, call: F, /) -> F: ...
    @overload
    def function(self, call: None = None, /, *, name: str | None = None) -> Callable[[F], F]: ...

    def function(self, call: F | None = None, /, *, name: str | None = None) -> F | Callable[[F], F]:
        """Runs tasks and steps that call this function, under its own name or another.

        The schemas of args and result come from the signature: the args are checked before the call, and what it
        returns becomes JSON. A parameter of the type `Task` gets the task. A coroutine runs in the event loop, as for
        `model`; another function runs in a thread. Raise a `Failure` for a call that has no result.
        """

        def decorate(call: F) -> F:
            known = Function(name or call.__name__, call)
            self._functions[known.name] = known
            return call

        return decorate if call is None else decorate(call)

    def run(self) -> None:
        """Runs until it is told to stop. Raises `WorkerRefused` if the server does not take it."""
        asyncio.run(self._with_signals())

    async def _with_signals(self) -> None:
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(NotImplementedError):
                    loop.add_signal_handler(number, self.stop)
        await self.serve()

    def stop(self) -> None:
        """Tells it to stop, from any thread; the second time at once."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop, self._grace)

    def _stop(self, grace: float) -> None:
        again = self._stopping.is_set()
        self._stop_at = self._now() + (0.0 if again else grace)
        self._stopping.set()
        self._changed.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def serve(self) -> None:
        """As `run`, within a running event loop and without signals."""
        if not self._handlers and not self._functions:
            raise ConfigurationError("the worker runs no model and no function: decorate one with "
                                     "@worker.model(\"*\") or @worker.function")
        self._loop = asyncio.get_running_loop()
        self._stopping, self._changed, self._stop_at = asyncio.Event(), asyncio.Event(), math.inf
        self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="callboard")
        try:
            while not self._done():
                wait = None
                try:
                    async with self._connection() as socket:
                        await self._session(socket)
                except InvalidStatus as error:
                    wait = _refused(error)
                except ConnectionClosed as error:
                    if error.rcvd and error.rcvd.code in FOR_GOOD:
                        raise WorkerRefused(f"{self._url}: {error.rcvd.reason or error.rcvd.code}") from None
                    if not self._done():
                        log.warning("the connection to %s broke: %s", self._url, error)
                except InvalidURI as error:
                    raise ConfigurationError(str(error)) from None
                except (OSError, InvalidHandshake, EOFError, asyncio.TimeoutError) as error:
                    log.warning("%s cannot be reached: %s", self._url, error or type(error).__name__)
                finally:
                    self._socket = None
                if self._done():
                    return
                if wait is None:
                    wait = _core.backoff(self._attempt)
                self._attempt += 1
                await self._wait_until(self._done, wait)
        finally:
            for run in self._runs.values():
                run.cancel()
            self._threads.shutdown(wait=False)

    def _connection(self) -> connect:
        tls: dict[str, Any] = {} if self._ssl is None else {"ssl": self._ssl}
        return connect(
            self._url, additional_headers={"Authorization": f"Bearer {self._token}"}, max_size=MAX_FRAME,
            user_agent_header=_core.USER_AGENT, ping_interval=10, ping_timeout=10, close_timeout=5,
            **tls,
        )

    def _done(self) -> bool:
        return self._stopping.is_set() and (not self._runs or self._now() >= self._stop_at)

    async def _wait_until(self, reached: Callable[[], bool], seconds: float) -> None:
        """Waits until the state is reached, for at most these seconds."""
        end = self._now() + seconds
        while not reached() and (left := min(end, self._stop_at) - self._now()) > 0:
            self._changed.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    async def _session(self, socket: ClientConnection) -> None:
        """One connection, until it closes."""
        await socket.send(_frame(
            type="register", name=self._name, version=f"python-{__version__}", queues=self._queues,
            models=list(self._handlers), concurrency=self._concurrency,
            functions=[it.announcement() for it in self._functions.values()] or None,
            resume=None if self._id is None else {"workerId": self._id, "leases": list(self._runs)},
        ))
        first = json.loads(await asyncio.wait_for(socket.recv(), 30))
        if first.get("type") != "registered":
            told = (first.get("error") or {}).get("message", first.get("type"))
            try:
                await asyncio.wait_for(socket.recv(), 5)
            except ConnectionClosed as error:
                # The close code says whether that is for good.
                if error.rcvd and error.rcvd.code not in FOR_GOOD:
                    raise
            raise WorkerRefused(f"{self._url}: {told}")
        await self._registered(socket, first)
        heartbeat = self._heartbeat(socket, first["heartbeatMs"] / 1000)
        beside = [asyncio.create_task(it) for it in (heartbeat, self._leave(socket))]
        try:
            async for text in socket:
                self._heard(json.loads(text))
        finally:
            for it in beside:
                it.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _registered(self, socket: ClientConnection, frame: dict[str, Any]) -> None:
        log.info("worker %s at %s", frame["workerId"], self._url)
        self._id, self._takes = frame["workerId"], frozenset(frame.get("takes", ()))
        self._lost(frame.get("lost", ()))
        self._socket, self._attempt = socket, 0
        for run in list(self._runs.values()):
            if run.result is not None:
                await self._send(run.result)

    async def _heartbeat(self, socket: ClientConnection, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await socket.send(_frame(type="heartbeat", leases=list(self._runs)))

    async def _leave(self, socket: ClientConnection) -> None:
        """When it is told to stop: finishes what runs in time, returns the rest, closes the connection."""
        await self._stopping.wait()
        await socket.send(_frame(type="drain"))
        await self._wait_until(lambda: not self._runs, math.inf)
        given_up = [lease for lease, run in self._runs.items() if run.result is None]
        for lease in given_up:
            self._runs.pop(lease).cancel()
        if given_up and "return" in self._takes:
            await socket.send(_frame(type="return", leases=given_up))
        if self._runs:
            self._stop_at = self._now() + ACKNOWLEDGED
            await self._wait_until(lambda: not self._runs, math.inf)
        await socket.close()

    def _heard(self, frame: dict[str, Any]) -> None:
        kind = frame.get("type")
        if kind == "assign":
            self._assigned(frame)
        elif kind == "ack":
            self._forget(frame["lease"])
        elif kind == "cancel":
            self._lost([frame["lease"]])
        elif kind == "leases":
            self._lost(frame.get("lost", ()))
        elif kind == "drain":
            log.info("the server asks the worker to leave")
            if not self._stopping.is_set():
                self._stop(min(self._grace, frame["deadlineMs"] / 1000))
        elif kind == "error":
            log.error("the server refused a frame: %s", (frame.get("error") or {}).get("message"))

    def _lost(self, leases: Sequence[str]) -> None:
        for lease in leases:
            run = self._runs.get(lease)
            if run is not None:
                run.cancel()
                self._forget(lease)

    def _forget(self, lease: str) -> None:
        self._runs.pop(lease, None)
        self._changed.set()

    def _assigned(self, frame: dict[str, Any]) -> None:
        lease = frame["lease"]
        if lease in self._runs:
            return
        task = Task.model_validate({**frame["task"], "attempt": frame["attempt"], "timeoutMs": frame.get("timeoutMs")})
        for file in (*task.files, *(file for message in task.messages for file in message.files)):
            file._source = (self._server, {"Authorization": f"Bearer {self._token}"}, self._ssl)
        run = self._runs[lease] = _Run(task)
        run.work = asyncio.create_task(self._execute(lease, run))

    async def _execute(self, lease: str, run: _Run) -> None:
        """Runs a task and keeps its result until the acknowledgement."""
        limit = None if run.task.timeout_ms is None else max(run.task.timeout_ms / 1000 - MARGIN, 0.001)
        try:
            if run.task.function is None:
                result = await asyncio.wait_for(self._call(lease, run.task), limit)
                run.result = self._complete(lease, run.task, result)
            else:
                function = self._functions.get(run.task.function)
                if function is None:
                    raise Failure(f"the worker runs no function {run.task.function}", retryable=False)
                value = await asyncio.wait_for(self._value(function, run.task), limit)
                run.result = _returned(lease, run.task, value)
        except (asyncio.TimeoutError, TimeoutError) as error:
            run.result = _fail(lease, Failure(str(error) or "the call took too long", code="TASK_TIMEOUT"))
        except Failure as error:
            run.result = _fail(lease, error)
        except Exception as error:
            log.exception("task %s failed", run.task.id)
            run.result = _fail(lease, Failure(f"{type(error).__name__}: {error}"[:1000]))
        finally:
            run.task._cancelled.set()
        await self._send(run.result)

    async def _call(self, lease: str, task: Task) -> Result:
        handler = self._handler(task.model)
        if inspect.iscoroutinefunction(handler) or inspect.isasyncgenfunction(handler):
            value: Any = handler(task)
        else:
            value = await self._in_thread(partial(handler, task))
        if inspect.isawaitable(value):
            value = await value
        if isinstance(value, str):
            return Result(value)
        if isinstance(value, Result):
            return value
        text: list[str] = []
        last = Result()
        async with contextlib.aclosing(self._pieces(value)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Result):
                    last = piece
                elif piece:
                    text.append(_unicode(piece))
                    for at in range(0, len(piece), LONGEST_PIECE):
                        part = text[-1][at : at + LONGEST_PIECE]
                        await self._send(_frame(type="delta", lease=lease, text=part))
        return Result(last.output if last.output is not None else "".join(text), last.usage, last.confidence,
                      last.finish_reason, last.thinking)

    async def _value(self, function: Function, task: Task) -> Any:
        """The result of a function as plain JSON."""
        arguments = function.arguments(task)
        if inspect.iscoroutinefunction(function.call):
            return function.value(await function.call(**arguments))
        result = await self._in_thread(partial(function.call, **arguments))
        return function.value(await result if inspect.isawaitable(result) else result)

    async def _pieces(self, value: Any) -> AsyncGenerator[Any, None]:
        if hasattr(value, "__aiter__"):
            async for piece in value:
                yield piece
        elif hasattr(value, "__iter__"):
            pieces, end = iter(value), object()
            while (piece := await self._in_thread(partial(next, pieces, end))) is not end:
                yield piece
        else:
            name = type(value).__name__
            raise Failure(f"the worker's function returned a {name}, not a text", retryable=False)

    def _handler(self, model: str) -> Handler:
        fitting = [it for it in self._handlers if it == model or (it.endswith("*") and model.startswith(it[:-1]))]
        if not fitting:
            raise Failure(f"the worker runs no model {model}", retryable=False)
        return self._handlers[max(fitting, key=lambda it: (it == model, len(it)))]

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _complete(self, lease: str, task: Task, result: Result) -> str:
        output = _unicode(result.output or "")
        usage = result.usage or Usage(_tokens(*(it["content"] for it in task.chat())), _tokens(output))
        counts = {"input": usage.input, "output": usage.output, "cacheRead": usage.cache_read,
                  "cacheWrite": usage.cache_write}
        frame = _frame(
            type="complete", lease=lease, output=output,
            usage={name: it for name, it in counts.items() if it or name in ("input", "output")},
            confidence=result.confidence, confidenceSource=None if result.confidence is None else "reported",
            finishReason=result.finish_reason,
            thinking=_unicode(result.thinking) if result.thinking and "thinking" in self._takes else None,
        )
        if len(frame.encode()) > MAX_FRAME:
            raise Failure(f"the output does not fit a frame of {MAX_FRAME} bytes", retryable=False)
        return frame

    async def _send(self, frame: str) -> None:
        """Sends a frame; without a connection it is dropped, and a result is sent again after the next register."""
        if self._socket is not None:
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(frame)


def _unicode(text: str) -> str:
    """The text without lone surrogates, which the server does not read."""
    return text.encode("utf-8", "replace").decode()


def _frame(**members: Any) -> str:
    """A frame, without the members that are None."""
    return json.dumps({name: it for name, it in members.items() if it is not None}, ensure_ascii=False)


def _returned(lease: str, task: Task, value: Any) -> str:
    """The frame of a function's result, which may be null."""
    members = {"type": "complete", "lease": lease, "output": value, **({"cost": task._cost} if task._cost else {})}
    try:
        frame = _unicode(json.dumps(members, ensure_ascii=False, allow_nan=False))
    except ValueError as error:
        raise Failure(f"the result is no JSON: {error}", retryable=False) from None
    if len(frame.encode()) > MAX_FRAME:
        raise Failure(f"the output does not fit a frame of {MAX_FRAME} bytes", retryable=False)
    return frame


def _tokens(*texts: str) -> int:
    return math.ceil(sum(map(len, texts)) / 4)


def _fail(lease: str, failure: Failure) -> str:
    wait = failure.retry_after
    return _frame(
        type="fail", lease=lease, error={"code": failure.code, "message": _unicode(str(failure))},
        retryable=failure.retryable, retryAfterMs=None if wait is None else int(wait * 1000),
    )


def _refused(error: InvalidStatus) -> float | None:
    """The seconds after which the server wants to be asked again; raises if it refuses the worker for good."""
    status, headers = error.response.status_code, error.response.headers
    if status in (400, 401, 403, 404):
        try:
            told = json.loads(error.response.body or b"")["error"]["message"]
        except (ValueError, KeyError, TypeError):
            told = f"the server answered {status}"
        raise WorkerRefused(told) from None
    log.warning("the server answered %s", status)
    wait = headers.get("Retry-After", "")
    return min(float(wait), _core.LONGEST_RETRY_AFTER) if wait.isdigit() else None
