from callboard.worker import Worker

worker = Worker()


@worker.function
def add(a: int, b: int = 1) -> int:
    return a + b


worker.run()
