"""Approvals, queues, budgets, accounts, and the server itself."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Literal

from typing_extensions import Unpack

from .. import _core, models
from ..params import (
    ChangeBudget, ChangeProject, ChangeQueue, ChangeUser, ChangeView, CreateBudget, CreateInvitation, CreateKey,
    CreateProject, CreateUser, CreateView, RevokeKeys,
    SetModelLimits, StartBulk,
)
from .transport import AsyncBound, AsyncPages, AsyncResource


class AsyncApproval(AsyncBound, models.Approval):
    """An output that waits for a reviewer, as the server showed it."""

    async def approve(
        self, comment: str | None = None, *, modified_output: str | None = None, reviewer_id: str | None = None
    ) -> models.Approved:
        """Approves the output, or another text in its place. Raises `AlreadyDecided`."""
        return await AsyncHitl(self._transport).approve(
            self.task_id, comment, modified_output=modified_output, reviewer_id=reviewer_id)

    async def reject(
        self, reason: str, *, retry: bool = False, retry_prompt: str | None = None, reviewer_id: str | None = None
    ) -> models.Rejected:
        """Rejects the output; with `retry` a new task tries again. Raises `AlreadyDecided`."""
        return await AsyncHitl(self._transport).reject(
            self.task_id, reason, retry=retry, retry_prompt=retry_prompt, reviewer_id=reviewer_id)

    async def claim(self) -> models.Claimed:
        """Shows other reviewers for five minutes that you are at work."""
        return await AsyncHitl(self._transport).claim(self.task_id)

    async def release(self) -> models.Claimed:
        """Ends the claim."""
        return await AsyncHitl(self._transport).release(self.task_id)

    async def reopen(self, *, as_correction: bool = False) -> models.Reopened:
        """Takes the decision back; if the output was used, `as_correction` asks for another one beside it."""
        return await AsyncHitl(self._transport).reopen(self.task_id, as_correction=as_correction)

    async def extend(self, timeout_ms: int, reason: str | None = None) -> models.Extended:
        """Gives the reviewers this time from now on, in milliseconds: at most 30 days."""
        return await AsyncHitl(self._transport).extend(self.task_id, timeout_ms, reason)

    async def history_entries(self) -> Sequence[models.Entry]:
        """The history, the oldest entry first."""
        return await AsyncHitl(self._transport).history(self.task_id)


class AsyncHitl(AsyncResource):
    """`cb.hitl`: outputs that wait for reviewers."""

    def pending(
        self, *, queue: str | None = None, tags: Sequence[str] | None = None, reviewer_id: str | None = None,
        status: str | Sequence[str] | None = None, search: str | None = None,
        created_after: datetime | None = None, created_before: datetime | None = None,
        include_expired: bool | None = None,
    ) -> AsyncPages[AsyncApproval]:
        """The outputs that wait now. They are all read before the first one, so that decisions hide none."""
        return self._pages(AsyncApproval, "GET", "/api/hitl/pending", whole=True, query={
            "queue": queue, "tags": tags, "reviewerId": reviewer_id, "status": status, "search": search,
            "createdAfter": created_after, "createdBefore": created_before, "includeExpired": include_expired})

    def list(
        self, *, status: str | Sequence[str] | None = None, queue: str | None = None,
        tags: Sequence[str] | None = None, reviewer_id: str | None = None,
        created_after: datetime | None = None, created_before: datetime | None = None,
        search: str | None = None, order_by: str | None = None,
    ) -> AsyncPages[AsyncApproval]:
        """Lists approvals of every status, the latest first: by the hold, or `order_by="decidedAt"` by the decision."""
        return self._pages(AsyncApproval, "GET", "/api/hitl", query={
            "status": status, "queue": queue, "tags": tags, "reviewerId": reviewer_id,
            "createdAfter": created_after, "createdBefore": created_before, "search": search, "orderBy": order_by})

    async def get(self, task_id: str) -> AsyncApproval:
        """Reads an approval with its whole texts."""
        return await self._one(AsyncApproval, "GET", "/api/hitl/{taskId}", taskId=task_id)

    async def approve(
        self, task_id: str, comment: str | None = None, *, modified_output: str | None = None,
        bulk: int | None = None, reviewer_id: str | None = None,
    ) -> models.Approved:
        """Approves an output, or another text in its place. Raises `AlreadyDecided`."""
        body = given(comment=comment, modifiedOutput=modified_output, bulk=bulk, reviewerId=reviewer_id)
        return await self._one(models.Approved, "POST", "/api/hitl/{taskId}/approve", taskId=task_id, body=body)

    async def reject(
        self, task_id: str, reason: str, *, retry: bool = False, retry_prompt: str | None = None,
        reviewer_id: str | None = None,
    ) -> models.Rejected:
        """Rejects an output; with `retry` a new task tries again. Raises `AlreadyDecided`."""
        body = given(reason=reason, retry=retry, retryPrompt=retry_prompt, reviewerId=reviewer_id)
        return await self._one(models.Rejected, "POST", "/api/hitl/{taskId}/reject", taskId=task_id, body=body)

    async def claim(self, task_id: str) -> models.Claimed:
        """Shows other reviewers for five minutes that you are at work."""
        return await self._one(models.Claimed, "POST", "/api/hitl/{taskId}/claim", taskId=task_id)

    async def release(self, task_id: str) -> models.Claimed:
        """Ends your claim."""
        return await self._one(models.Claimed, "POST", "/api/hitl/{taskId}/release", taskId=task_id)

    async def assign(self, task_id: str, assignee: str) -> models.Assigned:
        """Gives an output to a reviewer, by the id of the user."""
        body = given(assignee=assignee)
        return await self._one(models.Assigned, "POST", "/api/hitl/{taskId}/assign", taskId=task_id, body=body)

    async def reopen(self, task_id: str, *, as_correction: bool = False) -> models.Reopened:
        """Takes a decision back. If the output was used: `Conflict` with the uses in `details["usedBy"]`, or with
        `as_correction` another decision beside the first."""
        body = given(asCorrection=as_correction)
        return await self._one(models.Reopened, "POST", "/api/hitl/{taskId}/reopen", taskId=task_id, body=body)

    async def extend(self, task_id: str, timeout_ms: int, reason: str | None = None) -> models.Extended:
        """Gives the reviewers this time from now on, in milliseconds: at most 30 days."""
        body = given(timeoutMs=timeout_ms, reason=reason)
        return await self._one(models.Extended, "POST", "/api/hitl/{taskId}/extend", taskId=task_id, body=body)

    async def history(self, task_id: str) -> Sequence[models.Entry]:
        """The history of an approval, the oldest entry first."""
        return await self._all(models.Entry, "GET", "/api/hitl/{taskId}/history", taskId=task_id)

    def reviewers(self) -> AsyncPages[models.ReviewerName]:
        """Lists those who decide."""
        return self._pages(models.ReviewerName, "GET", "/api/hitl/reviewers")

    async def statistics(self) -> models.Statistics:
        """Sums up the decisions of 30 days."""
        return await self._one(models.Statistics, "GET", "/api/hitl/stats")

    async def calibration(
        self, *, template_id: str | None = None, step_id: str | None = None, method: str | None = None,
        model: str | None = None, threshold: float | None = None,
    ) -> models.Calibration:
        """Compares confidences with decisions."""
        return await self._one(models.Calibration, "GET", "/api/hitl/calibration", query={
            "templateId": template_id, "stepId": step_id, "method": method, "model": model, "threshold": threshold})


class AsyncQueues(AsyncResource):
    """`cb.queues`."""

    def list(self) -> AsyncPages[models.Queue]:
        """Lists queues."""
        return self._pages(models.Queue, "GET", "/api/queues")

    async def change(self, name: str, **fields: Unpack[ChangeQueue]) -> models.Queue:
        """Pauses, resumes or limits a queue."""
        body = _core.checked(models.ChangeQueue, fields)
        return await self._one(models.Queue, "PATCH", "/api/queues/{name}", name=name, body=body)


class AsyncBulk(AsyncResource):
    """`cb.bulk`: jobs over all tasks and executions that match."""

    async def start(self, *, idempotency_key: str | None = None, **fields: Unpack[StartBulk]) -> models.Bulk:
        """Cancels, retries, reprioritizes, rejects or erases all items that match, in the background."""
        body = _core.checked(models.StartBulk, fields)
        return await self._one(models.Bulk, "POST", "/api/bulk", body=body, key=idempotency_key)

    async def get(self, id: str) -> models.Bulk:
        """Reads a bulk job."""
        return await self._one(models.Bulk, "GET", "/api/bulk/{id}", id=id)

    def list(self) -> AsyncPages[models.Bulk]:
        """Lists bulk jobs."""
        return self._pages(models.Bulk, "GET", "/api/bulk")

    async def stop(self, id: str) -> models.Bulk:
        """Stops a bulk job."""
        return await self._one(models.Bulk, "DELETE", "/api/bulk/{id}", id=id)


class AsyncBatches(AsyncResource):
    """`cb.batches`: a template over many rows, each of them an execution."""

    async def create(
        self, template_id: str, rows: Iterable[Mapping[str, Any]], *, version: str | None = None,
        name: str | None = None, tags: Sequence[str] | None = None, max_cost: float | None = None,
        concurrency: int | None = None, on_invalid: Literal["keep", "reject"] | None = None,
        reuse: str | None = None, dedupe: bool | None = None, idempotency_key: str | None = None,
    ) -> models.TemplateBatch:
        """Uploads rows, `{"key": …, "input": {…}}` each, and starts the template over them.

        All rows are durable when it returns. They are held in memory until then. `reuse` is the id of a batch, or
        `latest`: answers to the same questions are taken over from it. With `dedupe`, rows that ask the same are
        answered once.
        """
        lines = b"".join(_core.encoded(dict(row)) + b"\n" for row in rows)
        return await self._one(
            models.TemplateBatch, "POST", "/api/batches", content=lines, content_type="application/x-ndjson",
            key=idempotency_key, query={
                "templateId": template_id, "version": version, "name": name, "tags": tags, "maxCost": max_cost,
                "concurrency": concurrency, "onInvalid": on_invalid, "reuse": reuse, "dedupe": dedupe})

    async def dry_run(
        self, template_id: str, rows: Iterable[Mapping[str, Any]], *, version: str | None = None
    ) -> models.TemplateBatchEstimate:
        """Checks rows and estimates their cost, and keeps nothing."""
        lines = b"".join(_core.encoded(dict(row)) + b"\n" for row in rows)
        return await self._one(
            models.TemplateBatchEstimate, "POST", "/api/batches", content=lines, content_type="application/x-ndjson",
            query={"templateId": template_id, "version": version, "dryRun": "true"})

    async def estimate(self, id: str) -> models.TemplateBatchEstimate:
        """The estimated cost of the rows that wait to be started."""
        return await self._one(models.TemplateBatchEstimate, "POST", "/api/batches/{id}/estimate", id=id)

    def list(
        self, *, status: str | Sequence[str] | None = None, template_id: str | None = None,
        version: str | None = None, tags: Sequence[str] | None = None, since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncPages[models.TemplateBatch]:
        """Lists batches, the newest first."""
        return self._pages(models.TemplateBatch, "GET", "/api/batches", query={
            "status": status, "templateId": template_id, "version": version, "tags": tags, "from": since, "to": until})

    async def get(self, id: str) -> models.TemplateBatch:
        """Reads a batch with its progress."""
        return await self._one(models.TemplateBatch, "GET", "/api/batches/{id}", id=id)

    async def pause(self, id: str) -> models.TemplateBatch:
        """Starts no more rows; those that run go on."""
        return await self._one(models.TemplateBatch, "POST", "/api/batches/{id}/pause", id=id)

    async def resume(self, id: str) -> models.TemplateBatch:
        """Starts rows again."""
        return await self._one(models.TemplateBatch, "POST", "/api/batches/{id}/resume", id=id)

    async def cancel(self, id: str) -> models.TemplateBatch:
        """Cancels the rows that have not ended."""
        return await self._one(models.TemplateBatch, "POST", "/api/batches/{id}/cancel", id=id)

    async def retry(
        self, id: str, *, codes: Sequence[str] | None = None, keys: Sequence[str] | None = None
    ) -> models.TemplateBatch:
        """Runs failed rows anew, and keeps the steps that are good."""
        return await self._one(
            models.TemplateBatch, "POST", "/api/batches/{id}/retry", id=id, body=given(codes=codes, keys=keys))

    async def review(
        self, id: str, top: int, *, step: str | None = None,
        order_by: Literal["confidence", "random"] | None = None, field: str | None = None,
        blind: bool | None = None,
    ) -> models.BatchReviews:
        """Asks for reviews of outputs that have passed; nothing waits for them."""
        body = given(top=top, step=step, orderBy=order_by, field=field, blind=blind)
        return await self._one(models.BatchReviews, "POST", "/api/batches/{id}/review", id=id, body=body)

    async def delete(self, id: str) -> models.TemplateBatch:
        """Erases a batch that has ended, with its executions. Requires the role admin."""
        return await self._one(models.TemplateBatch, "DELETE", "/api/batches/{id}", id=id)

    async def rows(
        self, id: str, *, status: str | Sequence[str] | None = None, error_code: str | Sequence[str] | None = None,
        step: str | None = None, decision: str | Sequence[str] | None = None, min_confidence: float | None = None,
        max_confidence: float | None = None, differs_from: str | None = None,
        order_by: Literal["row", "key", "confidence", "cost", "duration"] | None = None,
        order: Literal["asc", "desc"] | None = None,
    ) -> AsyncGenerator[models.BatchRow, None]:
        """The rows, read 100 at a time; `step` is that of the decision and the confidence."""
        cursor: int | None = None
        while True:
            page = await self._one(models.BatchRows, "GET", "/api/batches/{id}/rows", id=id, query={
                "status": status, "errorCode": error_code, "step": step, "decision": decision,
                "minConfidence": min_confidence, "maxConfidence": max_confidence, "differsFrom": differs_from,
                "orderBy": order_by, "order": order, "limit": 100, "cursor": cursor})
            for row in page.rows:
                yield row
            if page.next_cursor is None:
                return
            cursor = page.next_cursor

    async def compare(
        self, id: str, other: str, *, step: str | None = None, fields: Sequence[str] | None = None,
        outcome: str | Sequence[str] | None = None, limit: int | None = None, cursor: int | None = None,
    ) -> models.BatchComparison:
        """Compares the outputs of two batches by key. `is_complete` is false while rows are still read: ask again."""
        return await self._one(
            models.BatchComparison, "GET", "/api/batches/{id}/compare/{other}", id=id, other=other, query={
                "step": step, "fields": fields, "outcome": outcome, "limit": limit, "cursor": cursor})

    async def export(
        self, id: str, *, format: Literal["csv", "jsonl"] = "csv", columns: Sequence[str] | None = None,
        status: str | Sequence[str] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """All rows as CSV or JSON lines, also while the batch runs."""
        accept = "text/csv" if format == "csv" else "application/x-ndjson"
        call = _core.call("GET", "/api/batches/{id}/export", {"id": id}, accept=accept, query={
            "format": format, "columns": columns, "status": status})
        response = await self._transport.open(call, read_timeout=_core.SILENCE)
        async with aclosing(self._transport.chunks(response)) as chunks:
            async for chunk in chunks:
                yield chunk


class AsyncFiles(AsyncResource):
    """`cb.files`: images and documents for tasks."""

    async def upload(
        self, content: bytes, *, name: str | None = None, content_type: str = "application/octet-stream"
    ) -> models.File:
        """Uploads a file. The server recognises the formats that models are shown; the type counts for others."""
        return await self._one(
            models.File, "POST", "/api/files", content=content, content_type=content_type, query={"name": name})

    async def get(self, id: str) -> models.File:
        """Reads a file, without its bytes."""
        return await self._one(models.File, "GET", "/api/files/{id}", id=id)

    def list(self) -> AsyncPages[models.File]:
        """Lists files, the newest first."""
        return self._pages(models.File, "GET", "/api/files")

    async def content(self, id: str) -> AsyncGenerator[bytes, None]:
        """The bytes of a file, as they come."""
        call = _core.call("GET", "/api/files/{id}/content", {"id": id}, accept="*/*")
        response = await self._transport.open(call, read_timeout=_core.SILENCE)
        async with aclosing(self._transport.chunks(response)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def delete(self, id: str) -> models.File:
        """Deletes a file."""
        return await self._one(models.File, "DELETE", "/api/files/{id}", id=id)


class AsyncBudgets(AsyncResource):
    """`cb.budgets`."""

    async def create(self, **fields: Unpack[CreateBudget]) -> models.Budget:
        """Makes a budget."""
        return await self._one(models.Budget, "POST", "/api/budgets", body=_core.checked(models.CreateBudget, fields))

    async def get(self, id: str) -> models.Budget:
        """Reads a budget."""
        return await self._one(models.Budget, "GET", "/api/budgets/{id}", id=id)

    def list(self) -> AsyncPages[models.Budget]:
        """Lists budgets."""
        return self._pages(models.Budget, "GET", "/api/budgets")

    async def change(self, id: str, **fields: Unpack[ChangeBudget]) -> models.Budget:
        """Changes a budget."""
        body = _core.checked(models.ChangeBudget, fields)
        return await self._one(models.Budget, "PATCH", "/api/budgets/{id}", id=id, body=body)

    async def delete(self, id: str) -> models.Budget:
        """Deletes a budget."""
        return await self._one(models.Budget, "DELETE", "/api/budgets/{id}", id=id)


class AsyncViews(AsyncResource):
    """`cb.views`: named filters of the dashboard's lists."""

    async def create(self, **fields: Unpack[CreateView]) -> models.View:
        """Saves a view."""
        return await self._one(models.View, "POST", "/api/views", body=_core.checked(models.CreateView, fields))

    def list(self, *, page: str | None = None) -> AsyncPages[models.View]:
        """Lists the own views, then the shared ones."""
        return self._pages(models.View, "GET", "/api/views", query={"page": page})

    async def change(self, id: str, **fields: Unpack[ChangeView]) -> models.View:
        """Changes a view."""
        body = _core.checked(models.ChangeView, fields)
        return await self._one(models.View, "PATCH", "/api/views/{id}", id=id, body=body)

    async def delete(self, id: str) -> models.View:
        """Deletes a view."""
        return await self._one(models.View, "DELETE", "/api/views/{id}", id=id)


class AsyncProjects(AsyncResource):
    """`cb.projects`. A project is named by its id or its name."""

    async def create(self, **fields: Unpack[CreateProject]) -> models.Project:
        """Makes a project; its maker is its first admin."""
        body = _core.checked(models.CreateProject, fields)
        return await self._one(models.Project, "POST", "/api/projects", body=body)

    async def get(self, id: str) -> models.Project:
        """Reads a project."""
        return await self._one(models.Project, "GET", "/api/projects/{id}", id=id)

    def list(self) -> AsyncPages[models.Project]:
        """Lists the projects in which one has a role."""
        return self._pages(models.Project, "GET", "/api/projects")

    async def figures(
        self, *, since: datetime | None = None, until: datetime | None = None,
    ) -> models.ProjectsFigures:
        """Counts and costs of the projects, on every cell."""
        return await self._one(models.ProjectsFigures, "GET", "/api/projects/figures",
                               query={"from": since, "to": until})

    async def change(self, id: str, **fields: Unpack[ChangeProject]) -> models.Project:
        """Changes a project, puts it into the archive or takes it out."""
        body = _core.checked(models.ChangeProject, fields)
        return await self._one(models.Project, "PATCH", "/api/projects/{id}", id=id, body=body)

    async def delete(self, id: str, *, confirm: str) -> models.Project:
        """Deletes a project with everything in it; `confirm` is its name again."""
        body = _core.checked(models.DeleteProject, {"confirm": confirm})
        return await self._one(models.Project, "DELETE", "/api/projects/{id}", id=id, body=body)

    async def begin_move(self, id: str, cell: str) -> models.Project:
        """Begins to move a project to another cell; it stands still until it is there."""
        body = _core.checked(models.MoveProject, {"cell": cell})
        return await self._one(models.Project, "POST", "/api/projects/{id}/move", id=id, body=body)

    async def give_up_move(self, id: str) -> models.Project:
        """Gives up a move that has not ended: the project goes on where it was."""
        return await self._one(models.Project, "DELETE", "/api/projects/{id}/move", id=id)

    def members(self, id: str) -> AsyncPages[models.Member]:
        """Lists the members of a project by name."""
        return self._pages(models.Member, "GET", "/api/projects/{id}/members", id=id)

    async def set_member(self, id: str, user: str, role: str) -> models.Member:
        """Gives a user, by id or e-mail, a role in a project."""
        body = _core.checked(models.SetMember, {"role": role})
        return await self._one(
            models.Member, "PUT", "/api/projects/{id}/members/{user}", id=id, user=user, body=body)

    async def remove_member(self, id: str, user: str) -> models.Member:
        """Ends the membership of a user, by id or e-mail."""
        return await self._one(models.Member, "DELETE", "/api/projects/{id}/members/{user}", id=id, user=user)


class AsyncWebhooks(AsyncResource):
    """`cb.webhooks`: deliveries. `callboard.webhooks` verifies what a receiver gets."""

    def deliveries(
        self, *, status: str | Sequence[str] | None = None, task_id: str | None = None
    ) -> AsyncPages[models.Delivery]:
        """Lists deliveries of webhooks and mails, the newest first."""
        return self._pages(models.Delivery, "GET", "/api/webhooks/deliveries",
                           query={"status": status, "taskId": task_id})

    async def redeliver(self, id: str) -> models.Delivery:
        """Sends a delivery again."""
        return await self._one(models.Delivery, "POST", "/api/webhooks/deliveries/{id}/redeliver", id=id)

    async def secret(self) -> models.WebhookSecret:
        """The secret that signs webhooks. Requires the role admin."""
        return await self._one(models.WebhookSecret, "GET", "/api/webhooks/secret")

    async def rotate_secret(self, *, overlap: str | None = None) -> models.WebhookSecret:
        """Makes another secret; the earlier one signs too for the `overlap`, such as `24h`. Requires the role admin."""
        return await self._one(models.WebhookSecret, "POST", "/api/webhooks/secret/rotate", body=given(overlap=overlap))


class AsyncWorkers(AsyncResource):
    """`cb.workers`: the connected workers. `callboard.Worker` is one."""

    def list(self) -> AsyncPages[models.Worker]:
        """Lists workers, the newest first."""
        return self._pages(models.Worker, "GET", "/api/workers")

    async def drain(self, id: str) -> models.Worker:
        """Asks a worker to leave."""
        return await self._one(models.Worker, "POST", "/api/workers/{id}/drain", id=id)


class AsyncFunctions(AsyncResource):
    """`cb.functions`: the functions that connected workers run."""

    def list(self) -> AsyncPages[models.Function]:
        """Lists functions by name, with their schemas."""
        return self._pages(models.Function, "GET", "/api/functions")


class AsyncModels(AsyncResource):
    """`cb.models`: models with their limits and their use."""

    def list(self) -> AsyncPages[models.ModelState]:
        """Lists models."""
        return self._pages(models.ModelState, "GET", "/api/models")

    async def set_limits(self, name: str, **fields: Unpack[SetModelLimits]) -> models.ModelState:
        """Sets the limits of a model."""
        body = _core.checked(models.SetModelLimits, fields)
        return await self._one(models.ModelState, "PUT", "/api/models/{name}/limits", name=name, body=body)

    async def end_pause(self, name: str) -> models.ModelState:
        """Opens a model whose provider refuses calls."""
        return await self._one(models.ModelState, "DELETE", "/api/models/{name}/pause", name=name)


class AsyncUsers(AsyncResource):
    """`cb.users`. Requires the role admin."""

    async def create(self, **fields: Unpack[CreateUser]) -> models.User:
        """Makes a user."""
        return await self._one(models.User, "POST", "/api/auth/users", body=_core.checked(models.CreateUser, fields))

    def list(self) -> AsyncPages[models.User]:
        """Lists users."""
        return self._pages(models.User, "GET", "/api/auth/users")

    async def change(self, id: str, **fields: Unpack[ChangeUser]) -> models.User:
        """Changes a user."""
        body = _core.checked(models.ChangeUser, fields)
        return await self._one(models.User, "PATCH", "/api/auth/users/{id}", id=id, body=body)

    async def delete(self, id: str, *, work: str | None = None) -> models.User:
        """Deletes a user; `work` is `cancel`, or the id of the user who answers for the unfinished work."""
        return await self._one(models.User, "DELETE", "/api/auth/users/{id}", id=id, query={"work": work})

    async def invite(self, **fields: Unpack[CreateInvitation]) -> models.NewInvitation:
        """Invites a person; the `url` of the invitation is shown only now."""
        body = _core.checked(models.CreateInvitation, fields)
        return await self._one(models.NewInvitation, "POST", "/api/auth/invitations", body=body)

    def invitations(self) -> AsyncPages[models.Invitation]:
        """Lists open invitations."""
        return self._pages(models.Invitation, "GET", "/api/auth/invitations")

    async def uninvite(self, id: str) -> models.Invitation:
        """Revokes an open invitation."""
        return await self._one(models.Invitation, "DELETE", "/api/auth/invitations/{id}", id=id)


class AsyncKeys(AsyncResource):
    """`cb.keys`: API keys. Requires the role admin."""

    async def create(self, **fields: Unpack[CreateKey]) -> models.Key:
        """Makes a key, which is shown only now."""
        return await self._one(models.Key, "POST", "/api/auth/keys", body=_core.checked(models.CreateKey, fields))

    def list(self, *, expires_before: datetime | None = None) -> AsyncPages[models.KeySummary]:
        """Lists keys; with `expires_before` the active ones alone that end before it, the soonest first."""
        return self._pages(models.KeySummary, "GET", "/api/auth/keys", query={"expiresBefore": expires_before})

    async def revoke(self, id: str) -> models.KeySummary:
        """Revokes a key."""
        return await self._one(models.KeySummary, "DELETE", "/api/auth/keys/{id}", id=id)

    async def revoke_many(self, **fields: Unpack[RevokeKeys]) -> models.RevokedKeys:
        """Revokes all keys, those of a maker with all that they made, those of a user, or old ones."""
        body = _core.checked(models.RevokeKeys, fields)
        return await self._one(models.RevokedKeys, "POST", "/api/auth/keys/revoke", body=body)

    async def rotate(self, id: str, *, overlap: str | None = None) -> models.Key:
        """Makes a key in another's place; the earlier one counts for the `overlap`, such as `24h`."""
        return await self._one(models.Key, "POST", "/api/auth/keys/{id}/rotate", id=id, body=given(overlap=overlap))


class AsyncSessions(AsyncResource):
    """`cb.sessions`: logins of users."""

    async def who(self) -> models.Who:
        """The account of this client."""
        return await self._one(models.Who, "GET", "/api/auth/session")

    def list(self, *, user_id: str | None = None) -> AsyncPages[models.OpenSession]:
        """Lists open sessions: your own, or as an admin all."""
        return self._pages(models.OpenSession, "GET", "/api/auth/sessions", query={"userId": user_id})

    async def end(self, id: str) -> models.OpenSession:
        """Ends a session."""
        return await self._one(models.OpenSession, "DELETE", "/api/auth/sessions/{id}", id=id)

    async def methods(self) -> models.Methods:
        """The ways to sign in."""
        return await self._one(models.Methods, "GET", "/api/auth/methods")

    async def log_in(self, email: str, password: str) -> models.Session:
        """Begins a session; `token` is an `api_key` for another client until `expires_at`."""
        return await self._one(models.Session, "POST", "/api/auth/login", body=given(email=email, password=password))

    async def refresh(self, refresh_token: str) -> models.Session:
        """Renews a session; the refresh token counts once."""
        return await self._one(models.Session, "POST", "/api/auth/refresh", body=given(refreshToken=refresh_token))

    async def log_out(self, *, all: bool = False) -> models.LoggedOut:
        """Ends the session of this client, or all of its user."""
        return await self._one(models.LoggedOut, "POST", "/api/auth/logout", body=given(all=all))

    async def change_password(self, current_password: str, new_password: str) -> models.User:
        """Changes your own password."""
        body = given(current=current_password, new=new_password)
        return await self._one(models.User, "POST", "/api/auth/password", body=body)

    async def create_link(self) -> models.Link:
        """Makes a link that signs a browser in, once."""
        return await self._one(models.Link, "POST", "/api/auth/links")

    async def set_up(self, token: str, email: str, password: str, name: str | None = None) -> models.Session:
        """Makes the first admin."""
        body = given(token=token, email=email, password=password, name=name)
        return await self._one(models.Session, "POST", "/api/auth/setup", body=body)


class AsyncSystem(AsyncResource):
    """`cb.system`: the server itself."""

    async def health(self) -> models.Health:
        """The health of the server and its parts."""
        return await self._one(models.Health, "GET", "/api/health")

    async def metrics(self) -> str:
        """The metrics, as Prometheus reads them."""
        call = _core.call("GET", "/api/metrics", accept="text/plain")
        response = await self._transport.open(call, read_timeout=_core.SILENCE)
        async with aclosing(self._transport.chunks(response)) as chunks:
            return b"".join([chunk async for chunk in chunks]).decode()

    async def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of the server."""
        call = _core.call("GET", "/api/openapi.json")
        response = await self._transport.open(call, read_timeout=_core.SILENCE)
        async with aclosing(self._transport.chunks(response)) as chunks:
            found: dict[str, Any] = json.loads(b"".join([chunk async for chunk in chunks]))
            return found

    async def backup(self) -> AsyncGenerator[bytes, None]:
        """The whole store, as `callboard backup` reads it. Requires the role admin or backup."""
        call = _core.call("POST", "/api/backups", accept="application/octet-stream")
        response = await self._transport.open(call, read_timeout=_core.SILENCE)
        async with aclosing(self._transport.chunks(response)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def backup_status(self) -> models.BackupStatus:
        """The last backup, the archive behind it, and the moments to which the two restore the server."""
        return await self._one(models.BackupStatus, "GET", "/api/system/backup")

    async def report_backup(self, id: str, *, lineage: int, group: int) -> models.BackupStatus:
        """Says that a backup is complete: its name, and the lineage and the last group of its stream."""
        body = given(id=id, lineage=lineage, group=group)
        return await self._one(models.BackupStatus, "POST", "/api/system/backup", body=body)

    async def report_verification(
        self,
        id: str,
        *,
        lineage: int,
        result: Literal["restores", "intact", "damaged"],
        detail: str | None = None,
    ) -> models.BackupStatus:
        """Says that a backup was verified: its name, the lineage that it has, and the finding."""
        body = given(id=id, lineage=lineage, result=result, detail=detail)
        return await self._one(models.BackupStatus, "POST", "/api/system/backup/verification", body=body)

    async def storage(self) -> models.Storage:
        """The rows and bytes of each kind of data, of all projects together."""
        return await self._one(models.Storage, "GET", "/api/system/storage")

    async def pause(
        self, reason: str, *, submissions: Literal["accept", "refuse"] | None = None
    ) -> models.Pause:
        """Gives out no more work: nothing is leased until `resume`. Running work goes on."""
        body = given(reason=reason, submissions=submissions)
        return await self._one(models.Pause, "POST", "/api/system/pause", body=body)

    async def resume(self) -> models.Pause:
        """Gives out work again."""
        return await self._one(models.Pause, "DELETE", "/api/system/pause")

    async def paused(self) -> models.Pause:
        """Whether everything is paused, since when, by whom and why."""
        return await self._one(models.Pause, "GET", "/api/system/pause")

    def nodes(self) -> AsyncPages[models.Node]:
        """Lists the nodes of a cluster."""
        return self._pages(models.Node, "GET", "/api/cluster")

    async def drain_node(self, id: str, *, draining: bool = True) -> models.Node:
        """Drains a node, or ends that."""
        return await self._one(models.Node, "PATCH", "/api/cluster/nodes/{id}", id=id, body=given(draining=draining))

    def cells(self) -> AsyncPages[models.Cell]:
        """Lists the cells, home first."""
        return self._pages(models.Cell, "GET", "/api/cells")

    async def add_cell(self, name: str, nodes: Sequence[str]) -> models.Cell:
        """Adds a cell, or gives one other addresses."""
        body = _core.checked(models.PutCell, {"name": name, "nodes": list(nodes)})
        return await self._one(models.Cell, "POST", "/api/cells", body=body)

    async def remove_cell(self, name: str) -> models.Cell:
        """Removes a cell that has no project."""
        return await self._one(models.Cell, "DELETE", "/api/cells/{name}", name=name)

    async def rotate_signing_key(self, *, overlap: str | None = None) -> models.SigningKeys:
        """Rotates the key that signs access tokens."""
        return await self._one(models.SigningKeys, "POST", "/api/auth/signing-key/rotate", body=given(overlap=overlap))

    async def usage(
        self, group_by: Literal["tag", "account", "template", "model", "day", "tagKey"], *,
        since: datetime | None = None, until: datetime | None = None, tag_key: str | None = None,
        timezone: str | None = None,
    ) -> models.UsageGroups:
        """Sums up the usage of tasks."""
        return await self._one(models.UsageGroups, "GET", "/api/usage",
                               query={"groupBy": group_by, "from": since, "to": until, "tagKey": tag_key,
                                      "timezone": timezone})

    def audit(
        self, *, actor: str | None = None, action: str | Sequence[str] | None = None, since: datetime | None = None,
        until: datetime | None = None, everywhere: bool | None = None,
    ) -> AsyncPages[models.AuditEntry]:
        """Lists the audit log, the newest entry first. Requires the role admin."""
        return self._pages(models.AuditEntry, "GET", "/api/audit", query={
            "actor": actor, "action": action, "since": since, "until": until})


def given(**members: Any) -> dict[str, Any]:
    """The members that are given."""
    return {name: it for name, it in members.items() if it is not None}
