from callboard import Callboard

with Callboard() as cb:
    print(cb.tasks.run("Name three uses of a message queue.", max_tokens=80))
