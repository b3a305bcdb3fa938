"""The example of examples/support-night over three nights: docs/how-to/nightly.md.

The server's clock is set from night to night by libfaketime. In the first night the model is away for a while, in the
second the server is killed while an output waits for a reviewer, and the receiver while it is called; Friday's output
is reviewed on Monday.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from callboard import Callboard

from .conftest import BINARY, ROOT, Server

EXAMPLE = ROOT / "examples/support-night"
LIBRARY = str(next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")))
MODEL = "gpt-4.1-mini"
INPUT, OUTPUT = 0.0000004, 0.0000016
PROMPT_TOKENS, ANSWER_TOKENS = 200, 40
NIGHTS = ["2026-11-27", "2026-11-28", "2026-11-29"]


def mails(night: str) -> list[dict[str, str]]:
    return [
        {"id": f"{night}-{n}", "from": f"customer{n}@example.com", "subject": f"Order {n} of {night}",
         "body": "Where is it?" if n else "I am not sure what I want."}
        for n in range(5)
    ]


class Provider(BaseHTTPRequestHandler):
    """An OpenAI-compatible model that is less sure of the first mail of a night, and counts its calls."""

    calls: Counter[str] = Counter()
    lock = threading.Lock()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = body["messages"][-1]["content"]
        is_triage = prompt.startswith("Classify")
        subject = next(line for line in prompt.splitlines() if line.startswith("Subject: "))
        with self.lock:
            self.calls[f"{'triage' if is_triage else 'answer'} {subject}"] += 1
        unsure = not is_triage and "Order 0" in subject
        text = '{"category":"question","urgent":false}' if is_triage else f"Dear customer: {subject[9:]}"
        self.answer({
            "id": "c", "object": "chat.completion", "model": MODEL, "created": 1,
            "choices": [{
                "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text},
                "logprobs": {"content": [{"token": text, "logprob": -1.5 if unsure else -0.01, "top_logprobs": []}]},
            }],
            "usage": {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": ANSWER_TOKENS,
                      "total_tokens": PROMPT_TOKENS + ANSWER_TOKENS},
        })

    def answer(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Night:
    """The server with a set clock, and the programs of the example beside it."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.clock = directory, directory / "clock"
        self.programs: list[subprocess.Popen[bytes]] = []
        self.inbox, self.tables = directory / "inbox", directory / "tables"
        for folder in (self.inbox, self.tables):
            folder.mkdir()
        for night in NIGHTS:
            (self.inbox / f"{night}.json").write_text(json.dumps(mails(night)))
        self.set_clock("2026-11-26T20:00:00+01:00")
        self.clocked = {"LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": str(self.clock),
                        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}
        self.server = Server(
            directory, **self.clocked, CALLBOARD_WEBHOOKS__ALLOW="127.0.0.1/32", CALLBOARD_MODELS__DEFAULT=MODEL,
        )

    def set_clock(self, instant: str) -> None:
        offset = round(datetime.fromisoformat(instant).timestamp() - time.time())
        self.clock.write_text(f"{offset:+d}\n")

    def begins(self, instant: str) -> None:
        """Kills the server, and starts it again at that instant."""
        self.server.kill()
        self.set_clock(instant)
        self.server.start()

    def runs(self, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        log = (self.directory / "programs").open("ab")
        program = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | environment)
        self.programs.append(program)
        return program

    def told(self) -> str:
        return (self.directory / "programs").read_text()


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    it = Night(tmp_path)
    try:
        yield it
    finally:
        for program in it.programs:
            program.kill()
        it.server.kill()


def until(what: str, found: Callable[[], Any], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := found():
            return result
        time.sleep(0.1)
    pytest.fail(f"it never comes that {what}")


def test_three_nights_lose_nothing_and_do_nothing_twice(night: Night) -> None:
    server = night.server
    admin = Callboard(server.url, server.key("admin"))
    operator = {"CALLBOARD_SERVER": server.url, "CALLBOARD_API_KEY": server.key("operator")}
    secret = admin.webhooks.secret().secret
    Provider.calls.clear()
    provider = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    port = provider.server_port
    provider.server_close()  # The model is away at first.
    night.runs(BINARY, "worker", "--base-url", f"http://127.0.0.1:{port}/v1", "--concurrency", "4",
               CALLBOARD_SERVER=server.url, CALLBOARD_API_KEY=server.key("worker"))
    night.runs(sys.executable, str(EXAMPLE / "collect.py"), str(night.inbox), **operator)

    def receive(port: int = 0) -> tuple[subprocess.Popen[bytes], int]:
        before = night.told().count("http://127.0.0.1")
        program = night.runs(sys.executable, str(EXAMPLE / "receive.py"), str(night.tables), str(port),
                             CALLBOARD_WEBHOOK_SECRET=secret, **operator, **night.clocked)
        until("the receiver listens", lambda: night.told().count("http://127.0.0.1") > before)
        return program, int(night.told().split("http://127.0.0.1:")[-1].split()[0])

    receiver, hook = receive()
    admin.templates.publish(yaml.safe_load((EXAMPLE / "template.yaml").read_text()))
    schedule = json.loads((EXAMPLE / "schedule.json").read_text())
    schedule["target"]["callbackUrl"] = f"http://127.0.0.1:{hook}/callboard"
    admin.schedules.create(**schedule)
    table = {it: night.tables / f"{it}.csv" for it in NIGHTS}

    def runs(status: str) -> list[Any]:
        return list(admin.executions.list(template_id="support-night-v1", status=status))

    def held() -> list[Any]:
        return [it for it in admin.hitl.pending() if it.step_id == "answer"]

    until("collect.py follows the runs", lambda: "follows the runs" in night.told())

    # Friday: the provider is away, and the tasks wait for it.
    night.begins("2026-11-27T01:59:58+01:00")
    until("the model is closed", lambda: any(it.closed_because == "unavailable" for it in admin.models.list()))
    provider = ThreadingHTTPServer(("127.0.0.1", port), Provider)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    friday = until("an answer waits for a reviewer", held)[0]
    assert friday.title == "customer0@example.com: Order 0 of 2026-11-27"
    until("somebody is called", lambda: f"{friday.task_id} waits for a reviewer" in night.told())
    assert runs("running")[0].title == "Support mails of 2026-11-27"

    # Saturday: Friday's output still waits. The server dies while Saturday's waits too, and the receiver as it is called.
    night.begins("2026-11-28T01:59:58+01:00")
    saturday = until("two outputs wait", lambda: (found := held()) and len(found) == 2 and found)[0]
    assert saturday.title == "customer0@example.com: Order 0 of 2026-11-28"
    receiver.kill()
    receiver.wait()
    saturday.approve(comment="fine")
    until("Saturday's run is completed", lambda: runs("completed"))
    assert not table[NIGHTS[1]].exists()
    receive(hook)
    until("Saturday's table is there", table[NIGHTS[1]].exists, 90)

    # Sunday and Monday: Friday's is reviewed, with an edit; Sunday's as it is.
    night.begins("2026-11-29T01:59:58+01:00")
    until("two outputs wait, and nothing else runs", lambda: len(held()) == 2 and not list(admin.tasks.list(status="running")))
    night.begins("2026-11-30T09:00:00+01:00")
    for item in held():
        item.approve(**({"modified_output": "Dear customer: ask us."} if item.task_id == friday.task_id else {}))
    for it in NIGHTS:
        until(f"the table of {it} is there", table[it].exists, 90)
    until("every webhook is delivered", lambda: not list(admin.webhooks.deliveries(status="pending")))

    assert sorted(it.title for it in runs("completed")) == [f"Support mails of {it}" for it in NIGHTS]
    assert len(Provider.calls) == 30 and set(Provider.calls.values()) == {1}, Provider.calls
    price = 10 * (PROMPT_TOKENS * INPUT + ANSWER_TOKENS * OUTPUT)
    for it in runs("completed"):
        assert it.usage.total_cost == pytest.approx(price)
    for it in NIGHTS:
        with table[it].open() as file:
            rows = list(csv.DictReader(file))
        assert [row["id"] for row in rows] == [mail["id"] for mail in mails(it)]
        answers = [f"Dear customer: {mail['subject']}" for mail in mails(it)]
        assert [row["answer"] for row in rows] == (["Dear customer: ask us."] + answers[1:] if it == NIGHTS[0] else answers)
    provider.shutdown()
