"""What requests and answers mean, without sending them. The two clients, sync and async, share all of it."""

from __future__ import annotations

import codecs
import json
import random
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from . import errors
from ._version import __version__

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 10.0
LONGEST_RETRY_AFTER = 60.0
SILENCE = 45.0
"""The server sends a comment every 15 s; a stream without one for this time is broken."""
COMMENT = 16.0
LARGEST_EVENT = 64 << 20
USER_AGENT = f"callboard-python/{__version__}"
NO_KEY = object()
"""The default of `key`: the route takes no idempotency key. `None` lets the library make one."""


@dataclass(frozen=True)
class Call:
    """A request, before it is sent."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None

    @property
    def repeatable(self) -> bool:
        """True if sending it twice does the work once."""
        return self.method in ("GET", "HEAD", "PUT") or "Idempotency-Key" in self.headers


def call(
    method: str,
    path: str,
    names: Mapping[str, str] | None = None,
    *,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    key: Any = NO_KEY,
    accept: str = "application/json",
    last_event: str | None = None,
    content: bytes | None = None,
    content_type: str = "application/json",
) -> Call:
    """Builds a call. `names` fill the path; a parameter that is None is left out."""
    headers = {"Accept": accept, "User-Agent": USER_AGENT}
    if key is not NO_KEY:
        headers["Idempotency-Key"] = key or str(uuid.uuid4())
    if last_event is not None:
        headers["Last-Event-ID"] = last_event
    if body is not None:
        content = encoded(body)
    if content is not None:
        headers["Content-Type"] = content_type
    for name, value in (names or {}).items():
        if not value:
            raise errors.InvalidArgument(f"{name} must not be empty")
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    params = {name: parameter(value) for name, value in (query or {}).items() if value is not None}
    return Call(method, path, params, headers, content)


def encoded(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgument(f"the request cannot be written as JSON: {error}") from None


def parameter(value: Any) -> str:
    """A query parameter as the server reads it: lists with commas, times in ISO 8601."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(parameter, value))
    if hasattr(value, "isoformat"):
        if getattr(value, "tzinfo", None) is None and hasattr(value, "hour"):
            raise errors.InvalidArgument(f"the time {value} has no time zone: use datetime(…, tzinfo=timezone.utc)")
        return str(value.isoformat())
    return str(value)


def checked(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request, checked against its model before it is sent."""
    try:
        read = model.model_validate(values)
        body: dict[str, Any] = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, it['loc']))}: {it['msg']}" for it in error.errors(include_input=False)]
        raise errors.InvalidArgument(f"{model.__name__}: {'; '.join(faults)}") from None
    except PydanticSerializationError as error:
        raise errors.InvalidArgument(f"{model.__name__}: {error}") from None
    return body


def schema_of(type_: Any) -> dict[str, Any]:
    """The JSON Schema of a type, or a schema as it is."""
    return dict(type_) if isinstance(type_, Mapping) else TypeAdapter(type_).json_schema()


def parsed(type_: Any, output: str) -> Any:
    """The output as an instance of the type; as plain JSON if the type is a JSON Schema."""
    try:
        return json.loads(output) if isinstance(type_, Mapping) else TypeAdapter(type_).validate_json(output)
    except ValueError as error:
        raise errors.OutputMismatch(f"the output is no {getattr(type_, '__name__', 'JSON')}: {error}",
                                    output=output) from None


@dataclass(frozen=True)
class Answer:
    """The answer to a call, without its envelope."""

    data: Any
    pagination: Mapping[str, Any]


def answer(response: httpx.Response) -> Answer:
    """Reads an answer; raises the error that it is."""
    try:
        body = response.json()
        success = body["success"]
    except (ValueError, KeyError, TypeError):
        raise strange(response) from None
    if success is True and response.is_success:
        return Answer(body.get("data"), body.get("pagination") or {})
    raise refusal(
        body.get("error") or {}, response.status_code, request_id=(body.get("meta") or {}).get("requestId"),
        retry_after=retry_after(response),
    )


def refusal(
    error: Mapping[str, Any], status: int, *, request_id: str | None = None, retry_after: float | None = None
) -> errors.ApiError:
    """The exception for an error as the server writes it."""
    code = str(error.get("code", ""))
    kind = errors.BY_CODE.get(code) or errors.BY_STATUS.get(status, errors.ApiError)
    return kind(
        str(error.get("message", "the server refused the request")),
        status=status,
        code=code,
        details=error.get("details"),
        retryable=bool(error.get("retryable")),
        request_id=request_id,
        retry_after=retry_after,
    )


def strange(response: httpx.Response) -> errors.CallboardError:
    """The error for an answer of another program."""
    where = f"{response.request.method} {response.request.url.copy_with(query=None)}"
    if response.status_code in (502, 503, 504):
        return errors.ServerUnreachable(f"{where}: a proxy answered {response.status_code}")
    start = response.text[:120]
    return errors.UnexpectedAnswer(f"{where} answered {response.status_code}, not as a Callboard server does: {start}")


def retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("Retry-After", "").strip()
    return float(text) if text.isdigit() else None


def failure(error: httpx.RequestError, url: httpx.URL) -> errors.ServerUnreachable:
    """The exception for a request without an answer."""
    where = f"{url.scheme}://{url.netloc.decode()}"
    if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
        return errors.AnswerTimeout(f"{where} did not answer in time: raise timeout= if it should have longer")
    return errors.ServerUnreachable(f"{where} cannot be reached: {error or type(error).__name__}")


def unsent(error: BaseException | None) -> bool:
    """True if the request never left, so that any request is safe to repeat."""
    return isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError))


def pause(attempt: int, error: errors.CallboardError) -> float | None:
    """The seconds before a failed request is worth another try; None if it is not."""
    if isinstance(error, errors.ServerUnreachable):
        wait = None
    elif isinstance(error, errors.ApiError) and error.retryable:
        wait = error.retry_after
    else:
        return None
    if wait is not None:
        return wait if wait <= LONGEST_RETRY_AFTER else None
    return backoff(attempt)


def backoff(attempt: int) -> float:
    """The seconds before the next attempt, doubled each time."""
    return min(FIRST_PAUSE * 2.0 ** min(attempt, 10), LONGEST_PAUSE) * random.uniform(0.8, 1.2)


def may_repeat(request: Call, error: errors.CallboardError) -> bool:
    return request.repeatable or unsent(error.__cause__) or isinstance(error, errors.RateLimited)


@dataclass(frozen=True)
class ServerEvent:
    """One server-sent event."""

    name: str
    id: str | None
    data: Any


class EventParser:
    """Reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._rest = ""
        self._name, self._data, self._size = "", list[str](), 0
        self._id: str | None = None
        self.last_id: str | None = None
        """The `id` of the last whole event that had one, also of one without data."""

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """The events that end in this chunk. Lines end with a line feed, as the server writes them."""
        lines = (self._rest + self._decode(chunk)).split("\n")
        self._rest = lines.pop()
        for line in lines:
            found = self._line(line.removesuffix("\r"))
            if found is not None:
                yield found
        if self._size + len(self._rest) > LARGEST_EVENT:
            raise errors.UnexpectedAnswer(f"an event of the stream has more than {LARGEST_EVENT} characters")

    def _line(self, line: str) -> ServerEvent | None:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._name = value
            elif name == "data":
                self._data.append(value)
                self._size += len(value)
            elif name == "id":
                self._id = value
            return None
        # Only here: a stream that is cut behind an id goes on before its event.
        self.last_id = self._id
        name, data = self._name, "\n".join(self._data)
        self._name, self._data, self._size = "", [], 0
        if not data:
            return None
        try:
            return ServerEvent(name, self.last_id, json.loads(data))
        except ValueError:
            raise errors.UnexpectedAnswer(f"the event {name} is no JSON") from None


class Text:
    """The text of a task, from the events of its streams: what is new of it, across breaks and attempts."""

    def __init__(self) -> None:
        self._told: list[str] = []
        self._count = 0
        self._now = ""
        self._aligned = True
        """True if the attempt's text is what was told."""

    def new(self, name: str, data: Mapping[str, Any]) -> str | None:
        """The text that an event adds; None if the text that was told is void."""
        if name == "delta":
            return self._delta(str(data.get("text", "")), int(data.get("offset", 0)))
        if name == "restart":
            return self._become("")
        if name == "snapshot" and data.get("status") in ("pending", "running"):
            return self._become(str(data.get("output") or ""))
        if name == "end":
            final = str(data.get("output") or "")
            return None if len(final) < self._count else self._become(final)
        return ""

    def _delta(self, text: str, offset: int) -> str | None:
        if self._aligned:
            # A piece that was missed comes with the end.
            fresh = text[max(self._count - offset, 0):] if offset <= self._count else ""
            return self._tell(fresh)
        return self._become(self._now[:offset] + text if offset <= len(self._now) else self._now)

    def _become(self, now: str) -> str | None:
        told = "".join(self._told)
        self._told = [told]
        if now.startswith(told):
            self._aligned, self._now = True, ""
            return self._tell(now[len(told):])
        self._aligned, self._now = False, now
        return "" if told.startswith(now) else None

    def _tell(self, fresh: str) -> str:
        if fresh:
            self._told.append(fresh)
            self._count += len(fresh)
        return fresh


def server_url(text: str) -> httpx.URL:
    """The address of a server in one form: without a trailing slash and without `/api`."""
    try:
        url = httpx.URL(text.strip())
    except (httpx.InvalidURL, TypeError):
        raise errors.ConfigurationError("the server's address is no URL: use one such as http://127.0.0.1:8080") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise errors.ConfigurationError("the server's address is no URL: use one such as http://127.0.0.1:8080")
    if url.userinfo or url.query or url.fragment:
        raise errors.ConfigurationError(f"the address of {url.host} has a user, a query or a fragment: leave it out")
    path = url.path.rstrip("/").removesuffix("/api").rstrip("/")
    return url.copy_with(path=path or "/")
