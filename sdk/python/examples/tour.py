"""The library in one program: types, plans, approvals, events, errors; then the same without blocking."""

import asyncio

from callboard import AsyncCallboard, Callboard, Plan, errors
from pydantic import BaseModel


class Colour(BaseModel):
    name: str
    warm: bool


def typed(cb: Callboard) -> str:
    answer = cb.tasks.run("Name a colour.", schema=Colour)
    return answer.name if answer.warm else ""


def review(cb: Callboard) -> None:
    plan = Plan("Contract")
    extract = plan.step("extract", "List the parties of {{input.text}}", max_tokens=200)
    plan.step("judge", f"Is anything unusual here? {extract.output}", depends_on=[extract], requires_approval=True)
    before = cb.cursor()
    run = cb.plans.execute(cb.plans.create(plan).id, {"text": "…"})
    for event in cb.events("hitl.pending", "execution.completed", execution_id=run.id, since=before):
        if event.event == "execution.completed":
            break
        for item in cb.hitl.pending():
            item.approve(comment="fine")
    run.wait(timeout=60)
    print(run.steps["extract"].output, run.usage.total_cost)


def safe(cb: Callboard) -> None:
    try:
        cb.tasks.submit("Say hello.", idempotency_key="hello-1", priority=7, hitl={"required": True}).wait(timeout=1)
    except errors.WaitTimeout:
        print("a reviewer takes longer")
    except errors.TaskFailed as failed:
        print(failed.code)
    for task in cb.tasks.list(status=["failed", "rejected"]):
        task.submit_again()


async def several(prompts: list[str]) -> list[str]:
    async with AsyncCallboard() as cb:
        async for piece in cb.tasks.stream(prompts[0]):
            print(piece, end="")
        async for item in cb.hitl.pending():
            await item.approve()
        return await asyncio.gather(*(cb.tasks.run(prompt) for prompt in prompts))


if __name__ == "__main__":
    with Callboard() as client:
        print(typed(client))
        review(client)
        safe(client)
    print(asyncio.run(several(["Say one.", "Say two."])))
