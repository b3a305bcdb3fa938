"""The client against a real server, sync and async alike."""

from __future__ import annotations

import itertools
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from callboard import Plan, Template, errors
from pydantic import BaseModel

from .conftest import Connect, RunningWorker, Server, until


class Colour(BaseModel):
    name: str
    warm: bool


def test_a_task_answers_with_its_text(cb: Any, worker: RunningWorker) -> None:
    assert cb.tasks.run("say hello", max_tokens=20) == "hello"


def test_a_schema_is_answered_with_an_instance(cb: Any, worker: RunningWorker) -> None:
    red = Colour(name="red", warm=True)
    assert cb.tasks.run(f"say {red.model_dump_json()}", schema=Colour) == red
    assert cb.tasks.run("say [1, 2]", schema=list[int]) == [1, 2]
    assert cb.tasks.run('say {"a": 1}', schema={"type": "object"}) == {"a": 1}


def test_a_task_shows_usage_confidence_and_times(cb: Any, worker: RunningWorker) -> None:
    task = cb.tasks.submit("say x", tags=["sdk"], context={"a": None}).wait(timeout=30)
    assert (task.status, task.output, task.usage.total, task.confidence) == ("completed", "x", 7, 0.5)
    assert task.created_at.tzinfo is not None
    assert cb.tasks.get(task.id).context == {"a": None}


def test_a_failure_is_an_exception_with_its_code(cb: Any, worker: RunningWorker) -> None:
    with pytest.raises(errors.TaskFailed, match="failed: as asked") as failed:
        cb.tasks.run("fail")
    assert failed.value.code == "PROVIDER_ERROR"
    assert cb.tasks.get(failed.value.item.id).wait(check=False).status == "failed"


def test_a_wait_ends_in_time_and_the_task_goes_on(cb: Any, worker: RunningWorker) -> None:
    task = cb.tasks.submit("hold on")
    with pytest.raises(errors.WaitTimeout):
        task.wait(timeout=0.3)
    worker.go.set()
    assert task.wait().output == "on"


def test_pieces_are_the_output(cb: Any, worker: RunningWorker) -> None:
    text = "one two  three — “four” 😀 five"
    pieces = list(cb.tasks.stream(f"stream {text}"))
    assert "".join(pieces) == text
    task = next(iter(cb.tasks.list()))
    assert "".join(cb.tasks.text(task.id)) == text


def test_a_stream_begins_before_the_end(cb: Any, worker: RunningWorker) -> None:
    pieces = iter(cb.tasks.stream("hold first second"))
    assert next(pieces) == "first "
    worker.go.set()
    assert list(pieces) == ["second"]


def test_a_list_is_iterated_over_its_pages(cb: Any) -> None:
    tag = f"pages-{id(cb)}"
    made: list[str] = []
    for _ in range(3):
        made += [it.id for it in cb.tasks.submit_batch([{"prompt": "say x", "tags": [tag]}] * 60).tasks]
    pages = cb.tasks.list(tags=[tag])
    assert pages.total() == 180
    found: list[str] = []
    for number, task in enumerate(pages):
        found.append(task.id)
        if number == 50:
            # A new task moves the others on by one: none is seen twice, none is lost.
            cb.tasks.submit("say x", tags=[tag])
    assert sorted(found) == sorted(made)
    assert len(list(itertools.islice(pages, 3))) == 3
    hour = timedelta(hours=1)
    assert cb.tasks.list(tags=[tag], created_after=datetime.now(timezone.utc) + hour).total() == 0
    job = cb.bulk.start(action="cancel", filter={"tags": [tag]})
    until(lambda: cb.bulk.get(job.id).status == "completed")


def test_decisions_hide_no_pending_output(cb: Any, worker: RunningWorker) -> None:
    tag = f"hitl-{id(cb)}"
    task = {"prompt": "say x", "tags": [tag], "hitl": {"required": True}}
    for _ in range(2):
        cb.tasks.submit_batch([task] * 52)
    # More than a page.
    until(lambda: cb.hitl.pending(tags=[tag]).total() == 104)
    for item in cb.hitl.pending(tags=[tag]):
        item.approve(comment="fine")
    assert cb.hitl.pending(tags=[tag]).total() == 0
    with pytest.raises(errors.AlreadyDecided) as late:
        cb.hitl.approve(item.task_id)
    assert late.value.details["decidedBy"]
    assert [it.action for it in cb.hitl.history(item.task_id)][-1] == "approved"
    assert cb.tasks.get(item.task_id).status == "completed"


def test_refusals_are_typed(cb: Any, connect: Connect, server: Server) -> None:
    with pytest.raises(errors.NotFound):
        cb.tasks.get("dt_task_00000000000000000000000000")
    with pytest.raises(errors.BadRequest) as refused:
        cb.tasks.submit("x", tags=["a b/../!"])
    assert refused.value.code == "VALIDATION_ERROR" and refused.value.request_id
    with pytest.raises(errors.Forbidden):
        connect(server, "viewer").tasks.submit("x")
    task = cb.tasks.submit("x", queue="nobody")
    task.cancel()
    with pytest.raises(errors.Conflict):
        task.cancel()


def test_a_mistake_is_an_error_before_the_request(connect: Connect, server: Server) -> None:
    # Nobody listens there, so anything that is sent is another error.
    cb = connect(server, url="http://127.0.0.1:9", retries=0)
    with pytest.raises(errors.InvalidArgument, match="priority"):
        cb.tasks.submit("x", priority=11)
    with pytest.raises(errors.InvalidArgument, match="maxToken.*Extra"):
        cb.tasks.submit("x", maxToken=1)
    with pytest.raises(errors.InvalidArgument, match="unknown type"):
        cb.tasks.submit("x", context={"a": object()})
    with pytest.raises(errors.InvalidArgument, match="no time zone"):
        cb.tasks.list(created_after=datetime.now()).total()
    with pytest.raises(errors.InvalidArgument, match="id must not be empty"):
        cb.tasks.get("")
    with pytest.raises(errors.ServerUnreachable, match="127.0.0.1:9 cannot be reached"):
        cb.tasks.submit("x")


def test_an_idempotency_key_makes_one_task(cb: Any) -> None:
    key = f"key-{id(cb)}"
    first = cb.tasks.submit("x", idempotency_key=key, queue="nobody")
    assert cb.tasks.submit("x", idempotency_key=key, queue="nobody").id == first.id
    with pytest.raises(errors.IdempotencyConflict):
        cb.tasks.submit("y", idempotency_key=key, queue="nobody")
    first.cancel()


def plan(name: str) -> Plan:
    plan = Plan(name, tags=["sdk"])
    extract = plan.step("extract", "say {{input.text}}", max_tokens=10)
    wait = plan.wait_for("paid", "payment", depends_on=[extract], schema={"type": "object"})
    plan.step("tell", f"say {extract.output} {wait.member('amount')}", depends_on=[extract, wait])
    return plan


def test_a_plan_runs_waits_for_a_signal_and_is_forked(cb: Any, worker: RunningWorker) -> None:
    made = cb.plans.create(plan("A plan"))
    assert cb.plans.dry_run(made.id, {"text": "a"}).status == "dry_run"
    run = cb.plans.execute(made.id, {"text": "a"}, options={"timeout_ms": 60_000})
    assert run.status == "running" and run.progress.pending == 3
    run.signal("payment", {"amount": 7})
    run.wait(timeout=30)
    assert run.status == "completed" and run.steps["tell"].output == "a 7"
    fork = cb.executions.fork(run.id, input={"text": "b"})
    assert cb.executions.fork_dry_run(run.id).fork_of == run.id
    assert fork.wait(timeout=30).steps["tell"].output == "b 7"
    assert run.id in [it.id for it in cb.executions.list(plan_id=made.id)]


def test_a_failed_execution_names_the_step(cb: Any, worker: RunningWorker) -> None:
    broken = Plan("Broken")
    broken.step("first", "fail")
    run = cb.plans.execute(cb.plans.create(broken).id)
    with pytest.raises(errors.ExecutionFailed, match="failed at step first: as asked"):
        run.wait(timeout=30)


def test_a_template_is_published_and_deployed(cb: Any, worker: RunningWorker) -> None:
    class Input(BaseModel):
        text: str

    template = Template(f"Echo {id(cb)}", version="1.0.0", input=Input, defaults={"max_tokens": 10})
    template.step("echo", "say {{input.text}}")
    made = cb.templates.publish(template)
    assert cb.templates.publish(template).id == made.id
    assert [it.version for it in cb.templates.versions(made.id)] == ["1.0.0"]
    run = cb.templates.deploy(made.id, {"text": "hi"})
    run.wait(timeout=30)
    assert run.steps["echo"].output == "hi"
    with pytest.raises(errors.BadRequest, match="text"):
        cb.templates.deploy(made.id, {})
    assert cb.templates.set_latest(made.id, "1.0.0").latest_set
    assert cb.templates.follow_highest(made.id).latest and cb.templates.retire(made.id, "1.0.0").retired_at
    with pytest.raises(errors.Conflict, match="retired"):
        cb.templates.deploy(made.id, {"text": "hi"})
    assert cb.templates.retire(made.id, "1.0.0", retired=False).retired_at is None
    assert cb.executions.list(template_id=made.id, version="1.0.0").total() == 1
    assert cb.executions.erase(run.id, "asked for").tasks == 1 and run.refresh().erased_at
    cb.templates.delete(made.id)


def test_a_batch_runs_a_template_over_rows(cb: Any, worker: RunningWorker) -> None:
    class Input(BaseModel):
        text: str

    template = Template(f"Rows {id(cb)}", version="1.0.0", input=Input, defaults={"max_tokens": 10})
    template.step("echo", "say {{input.text}}")
    made = cb.templates.publish(template)
    rows = [{"key": f"k{n}", "input": {"text": f"t{n}"}} for n in range(120)] + [{"key": "odd", "input": {}}]
    batch = cb.batches.create(made.id, rows, name="rows", idempotency_key=f"rows-{id(cb)}")
    assert cb.batches.create(made.id, rows, name="rows", idempotency_key=f"rows-{id(cb)}").id == batch.id
    until(lambda: cb.batches.get(batch.id).status == "completed")
    progress = cb.batches.get(batch.id).progress
    assert (progress.completed, progress.invalid) == (120, 1)
    found = {row.key: row for row in cb.batches.rows(batch.id)}
    assert len(found) == 121 and found["odd"].status == "invalid" and found["k7"].output == "t7"
    table = b"".join(cb.batches.export(batch.id, columns=["key", "output"])).decode()
    assert "k7,t7" in table and len(table.splitlines()) == 122
    lines = b"".join(cb.batches.export(batch.id, format="jsonl")).splitlines()
    assert len(lines) == 121
    tried = cb.batches.dry_run(made.id, rows)
    assert (tried.rows, tried.invalid, tried.basis) == (120, 1, "history")
    assert cb.batches.estimate(batch.id).rows == 0
    last = next(iter(cb.batches.rows(batch.id, order_by="key", order="desc")))
    assert last.key == "odd"
    again = cb.batches.create(made.id, [*rows[:5], {"key": "new", "input": {"text": "t"}}], reuse="latest")
    until(lambda: cb.batches.get(again.id).status == "completed")
    assert cb.batches.get(again.id).progress.reused == 5
    until(lambda: cb.batches.compare(batch.id, again.id).is_complete)
    compared = cb.batches.compare(batch.id, again.id, outcome="equal", limit=3)
    assert (compared.equal, compared.rows.only_b, len(compared.items)) == (5, 1, 3)
    assert batch.id in [it.id for it in cb.batches.list(template_id=made.id)]


def test_lines_are_imported_each_once(cb: Any, worker: RunningWorker) -> None:
    # More than one load, with a line that is refused and a key that comes twice.
    key = uuid.uuid4().hex
    given: list[dict[str, Any]] = [{"prompt": f"say {at}", "queue": "nobody", "tags": [key]} for at in range(1200)]
    given[7]["prompt"] = 1
    given[9]["output_schema"] = {"type": "nothing"}
    given[1100]["idempotency_key"] = given[1101]["idempotency_key"] = key
    given[1101]["prompt"] = given[1100]["prompt"]
    done = list(cb.tasks.import_lines(iter(given)))
    assert [it.index for it in done] == list(range(1200))
    refused = [it for it in done if it.error]
    assert [it.index for it in refused] == [7, 9]
    assert isinstance(refused[0].error, errors.InvalidArgument) and refused[1].error.code == "VALIDATION_ERROR"
    assert done[1100].id == done[1101].id
    assert len({it.id for it in done if it.id}) == 1197
    assert cb.tasks.list(tags=[key]).total() == 1197


def test_events_go_on_from_a_cursor(cb: Any, worker: RunningWorker) -> None:
    start = cb.cursor()
    # The worker takes tasks of the queue default, so this one waits.
    task = cb.tasks.submit("x", queue="nobody")
    created = next(iter(cb.events("task.*", since=start, task_id=task.id)))
    assert (created.event, created.resource.id, created.data["id"]) == ("task.created", task.id, task.id)
    task.cancel()
    after = next(iter(cb.events("task.*", since=created.cursor, task_id=task.id)))
    assert after.event == "task.cancelled"
    with pytest.raises(errors.EventGap, match="not kept any more") as gap:
        next(iter(cb.events(since="e0")))
    assert gap.value.to
    with pytest.raises(errors.BadRequest):
        next(iter(cb.events("nothing.*")))


def test_the_rest_of_the_interface_answers(cb: Any, worker: RunningWorker) -> None:
    cb.tasks.run("say x")
    assert cb.system.health().status in ("ok", "degraded")
    assert "svc_tasks_total" in cb.system.metrics()
    assert cb.system.openapi()["openapi"].startswith("3.1")
    assert any(it.name == "test" for it in cb.workers.list())
    assert any(it.name == "default" for it in cb.queues.list())
    assert cb.queues.change("sdk", paused=True).paused
    assert list(cb.models.list())
    assert cb.models.set_limits("sdk/model", concurrent=2).name == "sdk/model"
    assert cb.system.usage("model").group_by == "model"
    assert next(iter(cb.system.audit())).action
    assert cb.hitl.statistics().window_days == 30
    assert cb.hitl.calibration(threshold=0.5).thresholds
    secret = cb.webhooks.secret().secret
    assert secret.startswith("whsec_")
    rotated = cb.webhooks.rotate_secret(overlap="1h")
    assert rotated.secret != secret and rotated.previous.secret == secret
    assert list(cb.webhooks.deliveries()) == []
    assert next(iter(cb.system.backup()))
    assert cb.system.backup_status().restorable is None
    with pytest.raises(errors.Conflict, match="lineage"):
        cb.system.report_backup("a", lineage=0, group=1)
    with pytest.raises(errors.Conflict, match="lineage"):
        cb.system.report_verification("a", lineage=0, result="intact")
    assert {it.name for it in cb.system.storage().kinds} >= {"tasks", "accounts"}
    key = cb.keys.create(name="k", role="viewer")
    key = cb.keys.rotate(key.id)
    assert key.id in [it.id for it in cb.keys.list()]
    assert cb.keys.revoke_many(made_by=key.id, dry_run=True).total == 1
    assert [it.id for it in cb.keys.revoke_many(made_by=key.id, reason="a test").keys] == [key.id]
    user = cb.users.create(email=f"u{id(cb)}@example.com", password="a long pass phrase 7", role="viewer")
    assert cb.users.change(user.id, role="operator").role == "operator"
    assert cb.users.delete(user.id).id == user.id
    budget = cb.budgets.create(limit=5, period="day", match={"tags": ["none"]})
    assert cb.budgets.delete(budget.id).id == budget.id
    schedule = cb.schedules.create(name="s", at=datetime.now(timezone.utc) + timedelta(days=1),
                                   target={"task": {"prompt": "say x", "max_tokens": 3}})
    assert cb.schedules.change(schedule.id, enabled=False).enabled is False
    assert list(cb.schedules.runs(schedule.id)) == [] and cb.schedules.list(enabled=False).total() == 1
    cb.schedules.delete(schedule.id)
    task = cb.tasks.submit("say x").wait()
    task.erase("asked for")
    assert task.refresh().erased_at and task.output is None
    again = cb.tasks.submit("fail").wait(check=False).submit_again()
    assert again.retry_of
