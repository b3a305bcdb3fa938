from callboard import Callboard

with Callboard() as cb:
    for piece in cb.tasks.stream("Tell me what a lease is.", max_tokens=80):
        print(piece, end="", flush=True)
    print()
