"""Plans, templates, executions and schedules."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from time import monotonic
from typing import Any

from pydantic import Field
from typing_extensions import Self, Unpack

from .. import _core, errors, models
from .._core import ServerEvent
from ..build import Definition, Plan, Template
from ..params import ChangeSchedule, CreateSchedule, DeployFields, RunFields
from .transport import AsyncBound, AsyncPages, AsyncResource

PATH = "/api/plans/executions/{id}"


class AsyncExecution(AsyncBound, models.Execution):
    """An execution, as the server last showed it: `refresh` and `wait` read it again."""

    steps: dict[str, models.StepResult] = Field(default_factory=dict)  # pyright: ignore
    """The state of each step, by its id; empty in lists."""

    async def refresh(self) -> Self:
        """Reads the execution again."""
        return self._take(await AsyncResource(self._transport)._one(type(self), "GET", PATH, id=self.id))

    async def wait(self, timeout: float | None = None, *, check: bool = True) -> Self:
        """Waits until the execution has ended, over broken connections and restarts of the server.

        Raises `ExecutionFailed` unless it completed or `check` is false; `WaitTimeout` after `timeout` seconds.
        The execution goes on in any case.
        """
        async with aclosing(self.follow(timeout)) as events:
            async for _ in events:
                pass
        if not check or self.status == "completed":
            return self
        at = f" at step {self.error.step_id}" if self.error and self.error.step_id else ""
        told = f": {self.error.message}" if self.error else ""
        ended = "failed" if self.status == "failed" else f"was {self.status}"
        raise errors.ExecutionFailed(
            f"execution {self.id} {ended}{at}{told}", item=self, code=self.error.code if self.error else None
        )

    async def follow(self, timeout: float | None = None) -> AsyncGenerator[ServerEvent, None]:
        """The events of the execution's stream, `snapshot` first, `end` last; after a broken connection a
        `snapshot` again."""
        deadline = None if timeout is None else monotonic() + timeout
        async with aclosing(self._transport.follow(PATH, {"id": self.id}, deadline)) as events:
            async for event in events:
                if event.name == "end":
                    self._take(self._transport.make(type(self), event.data))
                yield event

    async def cancel(self) -> Self:
        """Cancels the execution."""
        return self._take(await AsyncResource(self._transport)._one(type(self), "DELETE", PATH, id=self.id))

    async def retry(self) -> Self:
        """Runs failed and cancelled steps again."""
        return self._take(await AsyncResource(self._transport)._one(type(self), "POST", PATH + "/retry", id=self.id))

    async def signal(
        self, name: str, payload: Any = None, *, replace: bool = False, idempotency_key: str | None = None
    ) -> Self:
        """Sends a signal, whose payload is the output of the step that waits for it."""
        return self._take(await AsyncExecutions(self._transport).signal(
            self.id, name, payload, replace=replace, idempotency_key=idempotency_key))  # type: ignore[arg-type]


class AsyncExecutions(AsyncResource):
    """`cb.executions`: runs of plans."""

    async def get(self, id: str) -> AsyncExecution:
        """Reads an execution with its steps."""
        return await self._one(AsyncExecution, "GET", "/api/plans/executions/{id}", id=id)

    def list(
        self, *, status: str | Sequence[str] | None = None, plan_id: str | None = None,
        template_id: str | None = None, version: str | None = None, tags: Sequence[str] | None = None,
        created_after: datetime | None = None, created_before: datetime | None = None,
        search: str | None = None, ended_after: datetime | None = None, ended_before: datetime | None = None,
        error: str | Sequence[str] | None = None, except_error: str | Sequence[str] | None = None,
        order_by: str | None = None, order: str | None = None,
    ) -> AsyncPages[AsyncExecution]:
        """Lists executions without their steps, the newest first unless ordered otherwise."""
        return self._pages(AsyncExecution, "GET", "/api/plans/executions", query={
            "status": status, "planId": plan_id, "templateId": template_id, "version": version, "tags": tags,
            "createdAfter": created_after, "createdBefore": created_before,
            "search": search, "endedAfter": ended_after, "endedBefore": ended_before,
            "error": error, "exceptError": except_error, "orderBy": order_by, "order": order,
        })

    async def follow(self, id: str, timeout: float | None = None) -> AsyncGenerator[ServerEvent, None]:
        """The events of an execution (`AsyncExecution.follow`)."""
        execution = await self.get(id)
        async with aclosing(execution.follow(timeout)) as events:
            async for event in events:
                yield event

    def items(self, id: str, step: str, *, status: str | Sequence[str] | None = None) -> AsyncPages[models.Item]:
        """Lists the items of a step over a list."""
        return self._pages(models.Item, "GET", "/api/plans/executions/{id}/steps/{step}/items",
                           query={"status": status}, id=id, step=step)

    async def cancel(self, id: str) -> AsyncExecution:
        """Cancels an execution."""
        return await self._one(AsyncExecution, "DELETE", "/api/plans/executions/{id}", id=id)

    async def erase(self, id: str, reason: str) -> models.ErasedExecution:
        """Erases the texts of an ended execution and of its tasks. Requires the role admin."""
        return await self._one(models.ErasedExecution, "DELETE", "/api/plans/executions/{id}/texts", id=id,
                               body={"reason": reason})

    async def retry(self, id: str) -> AsyncExecution:
        """Runs failed and cancelled steps again."""
        return await self._one(AsyncExecution, "POST", "/api/plans/executions/{id}/retry", id=id)

    async def fork(
        self, id: str, *, from_step: str | None = None, input: Mapping[str, Any] | None = None,
        version: str | None = None, idempotency_key: str | None = None,
    ) -> AsyncExecution:
        """Starts an execution that takes over the steps that would be the same."""
        body = _fork(from_step, input, version)
        return await self._one(AsyncExecution, "POST", "/api/plans/executions/{id}/fork", id=id, body=body,
                               key=idempotency_key)

    async def fork_dry_run(
        self, id: str, *, from_step: str | None = None, input: Mapping[str, Any] | None = None,
        version: str | None = None,
    ) -> models.DryRun:
        """Shows what a fork would run and cost; starts nothing."""
        body = {**_fork(from_step, input, version), "dryRun": True}
        return await self._one(models.DryRun, "POST", "/api/plans/executions/{id}/fork", id=id, body=body, key=None)

    async def signal(
        self, id: str, name: str, payload: Any = None, *, replace: bool = False, idempotency_key: str | None = None
    ) -> AsyncExecution:
        """Sends a signal, whose payload is the output of the step that waits for it."""
        return await self._one(AsyncExecution, "POST", "/api/plans/executions/{id}/signals/{name}", id=id, name=name,
                               body={"payload": payload, "replace": replace}, key=idempotency_key)


def _fork(from_step: str | None, input: Mapping[str, Any] | None, version: str | None) -> dict[str, Any]:
    given = {"fromStep": from_step, "input": input, "version": version}
    return {name: value for name, value in given.items() if value is not None}


def _dry(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {**fields, "options": {**(fields.get("options") or {}), "dry_run": True}}


class AsyncPlans(AsyncResource):
    """`cb.plans`: graphs of steps."""

    async def create(self, plan: Plan | Mapping[str, Any]) -> models.Plan:
        """Creates a plan. Not repeated after a lost answer, because the server takes no key for it."""
        return await self._one(models.Plan, "POST", "/api/plans", body=_definition(models.PlanRequest, plan))

    async def get(self, id: str) -> models.Plan:
        """Reads a plan."""
        return await self._one(models.Plan, "GET", "/api/plans/{id}", id=id)

    def list(self, *, tags: Sequence[str] | None = None, search: str | None = None) -> AsyncPages[models.Plan]:
        """Lists plans without their prompts, the newest first."""
        return self._pages(models.Plan, "GET", "/api/plans", query={"tags": tags, "search": search})

    async def execute(
        self, id: str, input: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None,
        **fields: Unpack[RunFields],
    ) -> AsyncExecution:
        """Starts an execution of a plan."""
        body = _core.checked(models.ExecutePlan, {"input": input or {}, **fields})
        return await self._one(AsyncExecution, "POST", "/api/plans/{id}/execute", id=id, body=body,
                               key=idempotency_key)

    async def dry_run(
        self, id: str, input: Mapping[str, Any] | None = None, **fields: Unpack[RunFields]
    ) -> models.DryRun:
        """Checks a start and shows what it would run and cost; starts nothing."""
        body = _core.checked(models.ExecutePlan, _dry({"input": input or {}, **fields}))
        return await self._one(models.DryRun, "POST", "/api/plans/{id}/execute", id=id, body=body, key=None)


class AsyncTemplates(AsyncResource):
    """`cb.templates`: versioned plans with a schema of their input."""

    async def publish(self, template: Template | Mapping[str, Any] | str) -> models.Template:
        """Publishes a version of a template: built, as a mapping, or as a text in YAML. The same content again is
        no error."""
        if isinstance(template, str):
            return await self._one(models.Template, "POST", "/api/templates", content=template.encode(),
                                   content_type="application/yaml")
        body = _definition(models.TemplateRequest, template)
        return await self._one(models.Template, "POST", "/api/templates", body=body)

    async def get(self, id: str, version: str | None = None) -> models.Template:
        """Reads a template in its latest version, or another."""
        return await self._one(models.Template, "GET", "/api/templates/{id}", id=id, query={"version": version})

    def list(
        self, *, industry: str | None = None, tags: Sequence[str] | None = None, search: str | None = None,
        visibility: str | None = None,
    ) -> AsyncPages[models.Template]:
        """Lists templates, each in its latest version."""
        return self._pages(models.Template, "GET", "/api/templates", query={
            "industry": industry, "tags": tags, "search": search, "visibility": visibility})

    async def versions(self, id: str) -> Sequence[models.Template]:
        """The versions of a template, the highest first."""
        return await self._all(models.Template, "GET", "/api/templates/{id}/versions", id=id)

    async def set_latest(self, id: str, version: str) -> models.Template:
        """Makes deploys without a version take this one, whatever is published later."""
        return await self._one(models.Template, "PUT", "/api/templates/{id}/latest", id=id, body={"version": version})

    async def follow_highest(self, id: str) -> models.Template:
        """Makes the highest version that is not retired the latest again."""
        return await self._one(models.Template, "DELETE", "/api/templates/{id}/latest", id=id)

    async def retire(self, id: str, version: str, retired: bool = True) -> models.Template:
        """Retires a version, which no deploy takes any more; `retired=False` brings it back."""
        body = {"version": version, "retired": retired}
        return await self._one(models.Template, "PATCH", "/api/templates/{id}", id=id, body=body)

    async def delete(self, id: str, version: str | None = None) -> models.Deleted:
        """Deletes a template of one's own, or one version."""
        return await self._one(models.Deleted, "DELETE", "/api/templates/{id}", id=id, query={"version": version})

    async def deploy(
        self, id: str, input: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None,
        **fields: Unpack[DeployFields],
    ) -> AsyncExecution:
        """Creates a plan from a template and starts it."""
        body = _core.checked(models.DeployTemplate, {"input": input or {}, **fields})
        return await self._one(AsyncExecution, "POST", "/api/templates/{id}/deploy", id=id, body=body,
                               key=idempotency_key)

    async def dry_run(
        self, id: str, input: Mapping[str, Any] | None = None, **fields: Unpack[DeployFields]
    ) -> models.DryRun:
        """Checks a deploy and shows what it would run and cost; starts nothing."""
        body = _core.checked(models.DeployTemplate, _dry({"input": input or {}, **fields}))
        return await self._one(models.DryRun, "POST", "/api/templates/{id}/deploy", id=id, body=body, key=None)


def _definition(model: Any, given: Definition | Mapping[str, Any]) -> dict[str, Any]:
    return given.body() if isinstance(given, Definition) else _core.checked(model, given)


class AsyncSchedules(AsyncResource):
    """`cb.schedules`: work that starts by the clock."""

    async def create(self, **fields: Unpack[CreateSchedule]) -> models.Schedule:
        """Makes a schedule."""
        body = _core.checked(models.CreateSchedule, fields)
        return await self._one(models.Schedule, "POST", "/api/schedules", body=body)

    async def get(self, id: str) -> models.Schedule:
        """Reads a schedule."""
        return await self._one(models.Schedule, "GET", "/api/schedules/{id}", id=id)

    def list(self, *, enabled: bool | None = None) -> AsyncPages[models.Schedule]:
        """Lists schedules."""
        return self._pages(models.Schedule, "GET", "/api/schedules", query={"enabled": enabled})

    def runs(self, id: str) -> AsyncPages[models.ScheduleRun]:
        """Lists the occurrences of a schedule."""
        return self._pages(models.ScheduleRun, "GET", "/api/schedules/{id}/runs", id=id)

    async def change(self, id: str, **fields: Unpack[ChangeSchedule]) -> models.Schedule:
        """Changes a schedule; `enabled=False` pauses it."""
        body = _core.checked(models.ChangeSchedule, fields)
        return await self._one(models.Schedule, "PATCH", "/api/schedules/{id}", id=id, body=body)

    async def delete(self, id: str) -> models.Schedule:
        """Deletes a schedule."""
        return await self._one(models.Schedule, "DELETE", "/api/schedules/{id}", id=id)

    async def trigger(self, id: str) -> models.ScheduleRun:
        """Starts its work now."""
        return await self._one(models.ScheduleRun, "POST", "/api/schedules/{id}/trigger", id=id)
