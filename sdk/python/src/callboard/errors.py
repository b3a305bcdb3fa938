"""The exceptions of the library. Each is a `CallboardError`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class CallboardError(Exception):
    """Anything that this library raises."""


class ConfigurationError(CallboardError):
    """The address of the server or the credentials cannot be used."""


class InvalidArgument(CallboardError, ValueError):
    """A value that the server would refuse; nothing was sent. The text names each member and its fault."""


class ServerUnreachable(CallboardError, ConnectionError):
    """No answer: the server is away, or the connection broke."""


class AnswerTimeout(ServerUnreachable, TimeoutError):
    """No answer within the client's time-out."""


class UnexpectedAnswer(CallboardError):
    """The answer is not one of a Callboard server, but of a proxy or another program."""


class WaitTimeout(CallboardError, TimeoutError):
    """The work has not ended within the `timeout` of the wait. The work goes on: wait again, or cancel it."""


class WorkFailed(CallboardError):
    """A task or an execution ended without an output: it failed, was cancelled or was rejected."""

    def __init__(self, message: str, *, item: Any, code: str | None) -> None:
        super().__init__(message)
        self.item = item
        """The task or the execution."""
        self.code = code
        """The code of its error, such as `TASK_TIMEOUT`."""


class TaskFailed(WorkFailed):
    """The task ended without an output."""


class ExecutionFailed(WorkFailed):
    """The execution did not complete."""


class OutputMismatch(CallboardError, ValueError):
    """The output is no instance of the wanted type."""

    def __init__(self, message: str, *, output: str) -> None:
        super().__init__(message)
        self.output = output


class StreamReset(CallboardError):
    """The text streamed so far is void: another attempt wrote another text, or a reviewer changed the output.

    Discard the pieces. `task.wait()` returns the task with its final output; `task.text()` streams anew.
    """

    def __init__(self, message: str, *, task: Any) -> None:
        super().__init__(message)
        self.task = task


class EventGap(CallboardError):
    """Events are missing, because the server does not keep them any more.

    Read the current state, then go on with `since=gap.to`.
    """

    def __init__(self, message: str, *, to: str | None) -> None:
        super().__init__(message)
        self.to = to


class InvalidSignature(CallboardError):
    """A webhook is not from the server, or too old. Answer 401 and do nothing."""


class WorkerRefused(CallboardError):
    """The server does not take the worker: its key, its queues or its registration."""


class ApiError(CallboardError):
    """The server refused a request. The class tells the status, `code` the reason (docs/reference/errors.md)."""

    codes: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str = "",
        details: Mapping[str, Any] | None = None,
        retryable: bool = False,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{message} ({code or status})")
        self.message = message
        self.status = status
        self.code = code
        self.details: Mapping[str, Any] = details or {}
        """Further details, such as `field`, `rule`, and every fault in `errors`."""
        self.retryable = retryable
        """True if the same request may succeed later."""
        self.request_id = request_id
        """The name of the request in the log of the server."""
        self.retry_after = retry_after
        """The seconds that the server asks to wait."""


class BadRequest(ApiError):
    """400, 413, 415, 422, 431: the request has a fault."""

    codes: ClassVar[tuple[str, ...]] = ("VALIDATION_ERROR", "INVALID_JSON", "INVALID_YAML", "PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "RANGE_NOT_SATISFIABLE",
             "HEADERS_TOO_LARGE", "METHOD_NOT_ALLOWED", "WEAK_PASSWORD", "CALLBACK_URL_FORBIDDEN")


class InvalidDefinition(BadRequest):
    """A plan or template has faults; `details["errors"]` lists each."""

    codes: ClassVar[tuple[str, ...]] = ("CIRCULAR_DEPENDENCY", "UNREACHABLE_STEP", "MISSING_DEPENDENCY", "UNDECLARED_DEPENDENCY",
             "DUPLICATE_STEP_ID", "INVALID_INPUT_REF", "INVALID_CONDITION", "ENV_NOT_ALLOWED")


class Unauthorized(ApiError):
    """401: sign in, or use another key."""

    codes: ClassVar[tuple[str, ...]] = ("UNAUTHORIZED", "INVALID_TOKEN", "TOKEN_EXPIRED", "INVALID_CREDENTIALS")


class Forbidden(ApiError):
    """403: the role may not do this."""

    codes: ClassVar[tuple[str, ...]] = ("FORBIDDEN", "PASSWORD_CHANGE_REQUIRED")


class BudgetExceeded(Forbidden):
    """403: the work does not fit a budget."""

    codes: ClassVar[tuple[str, ...]] = ("BUDGET_EXCEEDED",)


class QuotaExceeded(Forbidden):
    """403: the account has as much as it may."""

    codes: ClassVar[tuple[str, ...]] = ("QUOTA_EXCEEDED",)


class NotFound(ApiError):
    """404: the item does not exist, or the caller may not see it."""

    codes: ClassVar[tuple[str, ...]] = ("NOT_FOUND",)


class Conflict(ApiError):
    """409: the state of the item does not permit this."""

    codes: ClassVar[tuple[str, ...]] = ("INVALID_STATE", "VERSION_EXISTS", "EMAIL_EXISTS")


class AlreadyDecided(Conflict):
    """409: another decision came first; `details` has `decidedBy` and `decidedAt`."""

    codes: ClassVar[tuple[str, ...]] = ("ALREADY_DECIDED",)


class IdempotencyConflict(Conflict):
    """409, 422: the idempotency key is in use, or was used with another request."""

    codes: ClassVar[tuple[str, ...]] = ("IDEMPOTENCY_KEY_IN_USE", "IDEMPOTENCY_KEY_REUSED")


class RateLimited(ApiError):
    """429: wait for `retry_after` seconds."""

    codes: ClassVar[tuple[str, ...]] = ("RATE_LIMIT_EXCEEDED",)


class Unavailable(ApiError):
    """503, 408, 507: the server starts, stops or is overloaded, the request was slow, or the disk is low."""

    codes: ClassVar[tuple[str, ...]] = ("UNAVAILABLE", "REQUEST_TIMEOUT", "INSUFFICIENT_STORAGE")


class ServerFault(ApiError):
    """500: a fault of the server; its log has `request_id`."""

    codes: ClassVar[tuple[str, ...]] = ("INTERNAL_ERROR",)


CLASSES: tuple[type[ApiError], ...] = (
    BadRequest, InvalidDefinition, Unauthorized, Forbidden, BudgetExceeded, QuotaExceeded, NotFound, Conflict,
    AlreadyDecided, IdempotencyConflict, RateLimited, Unavailable, ServerFault,
)
BY_CODE: Mapping[str, type[ApiError]] = {code: it for it in CLASSES for code in it.codes}
BY_STATUS: Mapping[int, type[ApiError]] = {
    400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 413: BadRequest,
    422: BadRequest, 429: RateLimited, 500: ServerFault, 503: Unavailable,
}
