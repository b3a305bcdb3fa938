"""What a worker's functions get and give."""

from __future__ import annotations

import builtins
import json
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from pydantic import PrivateAttr

from ._base import Base


class TaskFile(Base):
    """A file of a task."""

    id: str
    name: str | None = None
    content_type: str = ""
    bytes: int = 0
    sha256: str = ""
    """Empty for a file that was deleted."""
    _source: tuple[str, dict[str, str], ssl.SSLContext | None] | None = PrivateAttr(default=None)

    def read(self) -> builtins.bytes:
        """Reads the bytes from the server, with the worker's key. It blocks: a coroutine awaits `read_async`."""
        url, headers, context = self._place()
        with httpx.Client(verify=True if context is None else context) as client:
            return self._checked(client.get(url, headers=headers))

    async def read_async(self) -> builtins.bytes:
        """Reads the bytes from the server, with the worker's key."""
        url, headers, context = self._place()
        async with httpx.AsyncClient(verify=True if context is None else context) as client:
            return self._checked(await client.get(url, headers=headers))

    def _place(self) -> tuple[str, dict[str, str], ssl.SSLContext | None]:
        if self._source is None or not self.sha256:
            raise Failure(f"file {self.id} was deleted", retryable=False)
        server, headers, context = self._source
        return f"{server}/api/files/{self.id}/content", headers, context

    def _checked(self, response: httpx.Response) -> builtins.bytes:
        if response.status_code == 404:
            raise Failure(f"file {self.id} was deleted", retryable=False)
        if response.status_code != 200:
            raise Failure(f"file {self.id} could not be read: the server answered {response.status_code}")
        return response.content


class Part(Base):
    """A part of a turn: `text` has a text, `image` and `document` have a file."""

    type: str
    text: str | None = None
    file: TaskFile | None = None


class Message(Base):
    """An earlier turn."""

    role: str
    content: str | Sequence[Part]

    @property
    def text(self) -> str:
        """The texts, without the files between them."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if part.text is not None)

    @property
    def files(self) -> list[TaskFile]:
        """The files of the parts."""
        if isinstance(self.content, str):
            return []
        return [part.file for part in self.content if part.file is not None]


class Task(Base):
    """A task to run."""

    id: str
    model: str
    queue: str
    prompt: str = ""
    function: str | None = None
    """The function to call with `args`, in place of a prompt."""
    args: dict[str, Any] | None = None
    system_prompt: str | None = None
    context: dict[str, Any] | None = None
    messages: Sequence[Message] = ()
    files: Sequence[TaskFile] = ()
    """The files that go with the prompt, or that the function reads."""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    stop: str | Sequence[str] | None = None
    service_tier: str | None = None
    output_schema: dict[str, Any] | None = None
    """The server checks the output against it in any case."""
    confidence: dict[str, Any] | None = None
    logprobs: bool = True
    """False if nothing reads a confidence."""
    plan_execution_id: str | None = None
    step_id: str | None = None
    item: int | None = None
    traceparent: str | None = None
    attempt: int = 1
    timeout_ms: int | None = None
    _cancelled: threading.Event = PrivateAttr(default_factory=threading.Event)
    _cost: float = PrivateAttr(default=0.0)

    @property
    def cancelled(self) -> bool:
        """True once nobody wants the result. A coroutine is cancelled; a function in a thread asks here."""
        return self._cancelled.is_set()

    def charge(self, cost: float) -> None:
        """Adds to the cost of a function's call, in USD. That of a model comes from the server's price table."""
        if not 0 <= cost <= 1_000_000:
            raise ValueError(f"the cost {cost} is not within 0 to 1000000")
        self._cost += cost

    def chat(self) -> list[dict[str, str]]:
        """The turns for a chat model, in the order that the server promises, without the files of `messages`."""
        turns = []
        if self.system_prompt:
            turns.append({"role": "system", "content": self.system_prompt})
        if self.context is not None:
            text = json.dumps(self.context, ensure_ascii=False, separators=(",", ":"))
            turns.append({"role": "system", "content": f"Context:\n{text}"})
        turns += [{"role": it.role, "content": it.text} for it in self.messages]
        return [*turns, {"role": "user", "content": self.prompt}]


@dataclass(frozen=True)
class Usage:
    """Tokens of a call; `input` counts cached ones too."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0

    def __post_init__(self) -> None:
        if min(self.input, self.output, self.cache_read, self.cache_write) < 0:
            raise ValueError(f"a count of {self} is negative")


@dataclass(frozen=True)
class Result:
    """An output with what the provider says of it. As the last thing that an iterator yields, without `output`."""

    output: str | None = None
    usage: Usage | None = None
    """Without it, four characters count as a token."""
    confidence: float | None = None
    finish_reason: str | None = None
    """`length` means that the output is cut."""
    thinking: str | None = None

    def __post_init__(self) -> None:
        # The server takes no other figures, and a result that it does not take would be lost.
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise ValueError(f"the confidence {self.confidence} is not within 0 to 1")


class Failure(Exception):
    """Raise it for a task that has no result. Any other exception is a retryable `PROVIDER_ERROR`.

    `code` is `PROVIDER_ERROR`, `PROVIDER_RATE_LIMITED`, `TASK_TIMEOUT` or `OUTPUT_INVALID`.
    """

    def __init__(
        self, message: str, *, code: str = "PROVIDER_ERROR", retryable: bool = True, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code: str = code
        self.retryable: bool = retryable
        self.retry_after: float | None = retry_after
