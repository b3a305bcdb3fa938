from callboard import Callboard

with Callboard() as cb:
    print(cb.tasks.run_function("add", {"a": 2}))
