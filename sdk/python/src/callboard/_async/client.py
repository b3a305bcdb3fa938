"""The client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

import httpx

from .. import _core, errors
from ..events import Event
from . import admin, runs, tasks
from .transport import AsyncTransport


class AsyncCallboard(AsyncTransport):
    """A client of one server.

    `server` and `api_key` default to CALLBOARD_SERVER and CALLBOARD_API_KEY, then to the login of the command line
    (`callboard auth login`). `timeout` is httpx's, for each request. A request that is safe to repeat is repeated up
    to `retries` times. Waits and streams bear a server that is away for `patience` seconds. `http_client` brings
    proxies, certificates and limits of its own. Close the client, or use it in a `with` statement.
    """

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
        super().__init__(
            server, api_key, timeout=timeout, retries=retries, patience=patience, http_client=http_client
        )
        self.tasks: Final = tasks.AsyncTasks(self)
        self.plans: Final = runs.AsyncPlans(self)
        self.executions: Final = runs.AsyncExecutions(self)
        self.templates: Final = runs.AsyncTemplates(self)
        self.schedules: Final = runs.AsyncSchedules(self)
        self.hitl: Final = admin.AsyncHitl(self)
        self.queues: Final = admin.AsyncQueues(self)
        self.bulk: Final = admin.AsyncBulk(self)
        self.batches: Final = admin.AsyncBatches(self)
        self.files: Final = admin.AsyncFiles(self)
        self.budgets: Final = admin.AsyncBudgets(self)
        self.views: Final = admin.AsyncViews(self)
        self.projects: Final = admin.AsyncProjects(self)
        self.webhooks: Final = admin.AsyncWebhooks(self)
        self.workers: Final = admin.AsyncWorkers(self)
        self.functions: Final = admin.AsyncFunctions(self)
        self.models: Final = admin.AsyncModels(self)
        self.users: Final = admin.AsyncUsers(self)
        self.keys: Final = admin.AsyncKeys(self)
        self.sessions: Final = admin.AsyncSessions(self)
        self.system: Final = admin.AsyncSystem(self)

    async def events(
        self,
        *names: str,
        since: str | None = None,
        task_id: str | None = None,
        execution_id: str | None = None,
        queue: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The events of the server, after the cursor `since` or from the connection on; it goes on over broken ones.

        To miss nothing of what you are about to start, take `cursor()` before.

        `names` are such as `task.completed` or `execution.*`; without any, all. Keep `event.cursor` to go on later.
        Raises `EventGap` if events are missing.
        """
        query = {"events": names or None, "taskId": task_id, "executionId": execution_id, "queue": queue, "tags": tags}
        async with aclosing(self.log_events(query, since)) as found:
            async for event in found:
                if event.name == "gap":
                    raise errors.EventGap(
                        f"events after {event.data.get('from')} are not kept any more: read the current state, then "
                        f"go on with since={event.data.get('to')!r}",
                        to=event.data.get("to"),
                    )
                yield self.make(Event, event.data)

    async def cursor(self) -> str:
        """The place in the log of events now, for `since`."""
        call = _core.call("GET", "/api/events", accept="text/event-stream")
        parser = _core.EventParser()
        response = await self.open(call, read_timeout=_core.SILENCE)
        async with aclosing(self.chunks(response)) as chunks:
            async for chunk in chunks:
                list(parser.feed(chunk))
                if parser.last_id is not None:
                    return parser.last_id
        raise errors.ServerUnreachable(f"{self.server} ended the stream of events")
