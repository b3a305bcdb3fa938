from collections.abc import AsyncIterator

from callboard.worker import Task, Worker

worker = Worker(queues=["loud"])


@worker.model("shout")
async def answer(task: Task) -> AsyncIterator[str]:
    for word in task.prompt.split():
        yield word.upper() + " "


worker.run()
