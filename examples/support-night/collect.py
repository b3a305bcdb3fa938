"""Hands the mails of a day to the night's run, as soon as the run waits for them.

Usage: python3 collect.py INBOX

INBOX holds a file of mails for each day, such as 2026-11-27.json: a list of {id, from, subject, body}. A run may wait
before this program starts, or while it is away: it looks at every running one first. A signal is sent with the run's
id as its idempotency key, so a second one changes nothing.
"""

import json
import sys
from pathlib import Path

from callboard import Callboard
from callboard.errors import EventGap

TEMPLATE = "support-night-v1"


def hand_over(cb: Callboard, inbox: Path, run_id: str) -> None:
    run = cb.executions.get(run_id)
    if run.template_id != TEMPLATE or run.status != "running" or run.steps["mails"].waiting_for != "signal":
        return
    mails = json.loads((inbox / f"{run.input['night']}.json").read_text())
    run.signal("mails", mails, idempotency_key=f"mails-{run.id}")
    print(f"{len(mails)} mails for {run.title}", flush=True)


def main() -> None:
    inbox = Path(sys.argv[1])
    with Callboard() as cb:
        while True:
            since = cb.cursor()
            print(f"follows the runs of {TEMPLATE}", flush=True)
            for run in cb.executions.list(template_id=TEMPLATE, status="running"):
                hand_over(cb, inbox, run.id)
            try:
                for event in cb.events("step.waiting", since=since):
                    hand_over(cb, inbox, event.resource.execution_id)
            except EventGap:
                continue  # This program was away for longer than events are kept: look at the running ones again.


if __name__ == "__main__":
    main()
