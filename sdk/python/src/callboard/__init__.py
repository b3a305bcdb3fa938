"""The client library of Callboard, a durable orchestrator for prompt-driven work on language models."""

from . import errors, models, webhooks
from ._async.admin import AsyncApproval
from ._async.client import AsyncCallboard
from ._async.runs import AsyncExecution
from ._async.tasks import AsyncImported, AsyncTask
from ._async.transport import AsyncPages
from ._core import ServerEvent
from ._sync.admin import Approval
from ._sync.client import Callboard
from ._sync.runs import Execution
from ._sync.tasks import Imported, Task
from ._sync.transport import Pages
from ._version import __version__
from .build import Plan, Step, Template
from .errors import ApiError, CallboardError
from .events import Event
from .worker import Failure, Result, Usage, Worker

__all__ = [
    "ApiError", "Approval", "AsyncApproval", "AsyncCallboard", "AsyncExecution", "AsyncImported", "AsyncPages",
    "AsyncTask", "Callboard", "CallboardError", "Event", "Execution", "Failure", "Imported", "Pages", "Plan", "Result", "ServerEvent",
    "Step", "Task", "Template", "Usage", "Worker", "__version__", "errors", "models", "webhooks",
]
