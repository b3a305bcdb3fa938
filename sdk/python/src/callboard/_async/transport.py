"""Sends calls: credentials, retries, streams that connect again."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from time import monotonic
from types import TracebackType
from typing import Any, Generic, TypeVar

import anyio
import httpx
from pydantic import PrivateAttr
from typing_extensions import Self

from .. import _core, _login, errors
from .._base import Base
from .._core import Answer, Call, EventParser, ServerEvent

log: logging.Logger = logging.getLogger("callboard")
M = TypeVar("M", bound=Base)
ENDED = ("completed", "failed", "cancelled", "rejected")


class AsyncTransport:
    """The connection to one server."""

    def __init__(
        self,
        server: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | httpx.Timeout | None = 60.0,
        retries: int = 6,
        patience: float = 120.0,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        self._server, self._credentials = _login.find(server, api_key)
        self._own = http_client is None
        self._http = httpx.AsyncClient(timeout=timeout) if http_client is None else http_client
        self._retries = retries
        self._patience = patience

    @property
    def server(self) -> str:
        """The address of the server."""
        return str(self._server).rstrip("/")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections, unless the `http_client` is the caller's."""
        if self._own:
            await self._http.aclose()

    async def send(self, call: Call) -> Answer:
        """Sends a call, and again while that is safe and may help."""
        attempt = 0
        while True:
            try:
                return await self._send_once(call)
            except (errors.ApiError, errors.ServerUnreachable) as error:
                wait = _core.pause(attempt, error) if _core.may_repeat(call, error) else None
                if wait is None or attempt >= self._retries:
                    raise
                log.info("%s %s in %.1f s again: %s", call.method, call.path, wait, error)
            attempt += 1
            await anyio.sleep(wait)

    async def _send_once(self, call: Call) -> Answer:
        request = await self._request(call)
        response = await self._answer_to(request)
        if response.status_code == 401 and await self._renew(request):
            response = await self._answer_to(await self._request(call))
        return _core.answer(response)

    async def _answer_to(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        try:
            return await self._http.send(request, stream=stream)
        except httpx.RequestError as error:
            raise _core.failure(error, self._server) from error

    async def _request(self, call: Call, timeout: httpx.Timeout | None = None) -> httpx.Request:
        headers = dict(call.headers)
        login = self._credentials.login
        if login and login.ends_soon():
            await self._renew_login(login, login.token)
        if self._credentials.token:
            headers["Authorization"] = f"Bearer {self._credentials.token}"
        url = self._server.copy_with(raw_path=(self._server.path.rstrip("/") + call.path).encode())
        return self._http.build_request(
            call.method, url, params=call.params or None, headers=headers, content=call.content,
            timeout=timeout or self._http.timeout,
        )

    async def _renew(self, refused: httpx.Request) -> bool:
        """Replaces a token that the server refused; False if there is nothing in its place."""
        login = self._credentials.login
        if login is None:
            return False
        await self._renew_login(login, refused.headers["Authorization"].removeprefix("Bearer "))
        return True

    async def _renew_login(self, login: _login.Login, stale: str) -> None:
        with login.lock() as lock:
            deadline = monotonic() + _login.LOCK_PATIENCE
            while not lock.taken():
                if monotonic() > deadline:
                    raise errors.ConfigurationError(f"another program holds the lock of {lock.path}")
                await anyio.sleep(_login.LOCK_PAUSE)
            login.read_again(lock.path)
            if login.token != stale:
                return
            body = _core.encoded({"refreshToken": login.refresh_token})
            url = f"{self.server}/api/auth/refresh"
            request = self._http.build_request(
                "POST", url, content=body, headers={"Content-Type": "application/json", "User-Agent": _core.USER_AGENT}
            )
            try:
                session = _core.answer(await self._answer_to(request)).data
            except (errors.Unauthorized, errors.Forbidden):
                raise login.ended() from None
            login.renewed(lock.path, session)

    async def open(self, call: Call, *, read_timeout: float) -> httpx.Response:
        """Opens an answer that is read piece by piece. The caller closes it."""
        timeout = httpx.Timeout(self._http.timeout.connect, read=read_timeout)
        request = await self._request(call, timeout)
        response = await self._answer_to(request, stream=True)
        if response.status_code == 401 and await self._renew(request):
            await response.aclose()
            response = await self._answer_to(await self._request(call, timeout), stream=True)
        if response.is_success and response.headers.get("Content-Type", "").startswith(call.headers["Accept"]):
            return response
        try:
            await response.aread()
        except httpx.RequestError as error:
            raise _core.failure(error, self._server) from error
        finally:
            await response.aclose()
        _core.answer(response)
        raise _core.strange(response)

    async def chunks(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        """The bytes of an open answer; closes it."""
        try:
            async for chunk in response.aiter_bytes():
                yield chunk
        except httpx.RequestError as error:
            raise _core.failure(error, self._server) from error
        finally:
            await response.aclose()

    async def follow(self, path: str, names: Mapping[str, str], deadline: float | None) -> AsyncGenerator[ServerEvent, None]:
        """The events of an item's stream until its `end`, over broken connections.

        A connection that breaks is followed by another, which begins with a `snapshot`. In the last seconds before
        the deadline, and while the server refuses another stream, the item is read instead.
        """
        outage = Outage(self._patience)
        while True:
            try:
                if deadline is None or deadline - monotonic() > _core.COMMENT:
                    call = _core.call("GET", path + "/stream", names, accept="text/event-stream")
                    parser = EventParser()
                    response = await self.open(call, read_timeout=_core.SILENCE)
                    async with aclosing(self.chunks(response)) as chunks:
                        async for chunk in chunks:
                            for event in parser.feed(chunk):
                                yield event
                                if event.name == "end":
                                    return
                            if deadline is not None and deadline - monotonic() <= _core.COMMENT:
                                break
                    wait = _core.FIRST_PAUSE
                else:
                    wait = min(max(deadline - monotonic(), 0.0), 0.5)
            except (errors.ApiError, errors.ServerUnreachable) as error:
                wait = outage.pause(error)
            if deadline is not None and monotonic() + wait > deadline + 0.5:
                raise late(path, names)
            await anyio.sleep(wait)
            try:
                item = (await self._send_once(_core.call("GET", path, names))).data
            except (errors.ApiError, errors.ServerUnreachable) as error:
                await anyio.sleep(outage.pause(error))
                continue
            outage.over()
            if item["status"] in ENDED:
                yield ServerEvent("end", None, item)
                return
            if deadline is not None and monotonic() >= deadline:
                raise late(path, names)

    async def log_events(self, query: Mapping[str, Any], since: str | None) -> AsyncGenerator[ServerEvent, None]:
        """The events of the log, which go on after the last one over broken connections."""
        outage = Outage(self._patience)
        place = since
        while True:
            call = _core.call("GET", "/api/events", query=query, accept="text/event-stream", last_event=place)
            parser = EventParser()
            try:
                response = await self.open(call, read_timeout=_core.SILENCE)
                async with aclosing(self.chunks(response)) as chunks:
                    async for chunk in chunks:
                        outage.over()
                        for event in parser.feed(chunk):
                            yield event
                            # The caller has this one, so the next connection goes on behind it.
                            place = event.data.get("cursor") or place
                        place = parser.last_id or place
                raise errors.ServerUnreachable(f"{self.server} ended the stream of events")
            except (errors.ApiError, errors.ServerUnreachable) as error:
                wait = outage.pause(error)
            await anyio.sleep(wait)

    def make(self, model: type[M], data: Any) -> M:
        """An instance of a model, which knows the client that it came from."""
        try:
            made = model.model_validate(data)
        except ValueError as error:
            raise errors.UnexpectedAnswer(f"{self.server} sent no {model.__name__}: {error}") from None
        if isinstance(made, AsyncBound):
            made._transport = self
        return made


class AsyncBound(Base):
    """A model that can act on its item."""

    _transport: AsyncTransport = PrivateAttr()

    def _take(self, other: Self) -> Self:
        """Takes over the members of a newer answer about the same item."""
        vars(self).update(vars(other))
        object.__setattr__(self, "__pydantic_fields_set__", other.model_fields_set)
        return self


class AsyncResource:
    """Methods of one kind of items."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def _one(self, model: type[M], method: str, path: str, **options: Any) -> M:
        answer = await self._transport.send(_call(method, path, options))
        return self._transport.make(model, answer.data)

    async def _all(self, model: type[M], method: str, path: str, **options: Any) -> list[M]:
        answer = await self._transport.send(_call(method, path, options))
        return [self._transport.make(model, it) for it in answer.data]

    def _pages(
        self, model: type[M], method: str, path: str, *, query: Mapping[str, Any] | None = None, whole: bool = False,
        **names: str
    ) -> AsyncPages[M]:
        return AsyncPages(self._transport, model, method, path, names, query or {}, whole)


def _call(method: str, path: str, options: dict[str, Any]) -> Call:
    known = ("query", "body", "key", "content", "content_type")
    return _core.call(
        method, path, {name: it for name, it in options.items() if name not in known},
        **{name: it for name, it in options.items() if name in known},
    )


class AsyncPages(Generic[M]):
    """A list of the server, read as it is iterated, 100 items at a time.

    A new item comes first and moves the others on: none is seen twice. An item that leaves the list between two
    pages (a task that ends, in a list of pending ones) moves another over the page's edge, where it is not seen;
    read such a list whole before you change its items.
    """

    def __init__(
        self, transport: AsyncTransport, model: type[M], method: str, path: str, names: Mapping[str, str],
        query: Mapping[str, Any], whole: bool,
    ) -> None:
        self._transport, self._model, self._whole = transport, model, whole
        self._method, self._path, self._names, self._query = method, path, names, query

    async def _page(self, offset: int, limit: int) -> Answer:
        query = {**self._query, "limit": limit, "offset": offset}
        return await self._transport.send(_core.call(self._method, self._path, self._names, query=query))

    async def total(self) -> int:
        """The number of items."""
        return int((await self._page(0, 1)).pagination["total"])

    async def _read(self) -> AsyncGenerator[M, None]:
        seen: set[str] = set()
        offset = 0
        while True:
            page = await self._page(offset, 100)
            for data in page.data:
                name = data.get("id") or data.get("taskId")
                if name is None or name not in seen:
                    yield self._transport.make(self._model, data)
                if name is not None:
                    seen.add(name)
            offset += len(page.data)
            if not page.data or not page.pagination.get("hasMore"):
                return

    async def __aiter__(self) -> AsyncGenerator[M, None]:
        if self._whole:
            items = [item async for item in self._read()]
            for item in items:
                yield item
        else:
            async for item in self._read():
                yield item


class Outage:
    """How long the server has been away, and how long the client bears it."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: float | None = None
        self._attempt = 0

    def over(self) -> None:
        self._since, self._attempt = None, 0

    def pause(self, error: errors.CallboardError) -> float:
        """The seconds to wait; raises the error if it is for good, or has lasted too long."""
        wait = _core.pause(self._attempt, error)
        now = monotonic()
        self._since = now if self._since is None else self._since
        if wait is None or now - self._since > self._patience:
            raise error
        self._attempt += 1
        log.info("the stream goes on in %.1f s: %s", wait, error)
        return wait


def late(path: str, names: Mapping[str, str]) -> errors.WaitTimeout:
    return errors.WaitTimeout(f"{next(iter(names.values()), path)} has not ended in time; it goes on: wait again, or cancel it")
