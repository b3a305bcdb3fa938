"""Decisions without a server."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from callboard import Plan, Template, _core, errors, webhooks
from callboard._core import EventParser, Text
from pydantic import BaseModel

from .conftest import ROOT

VECTORS = json.loads((ROOT / "docs/webhooks/vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS["vectors"])
def test_webhooks_are_verified(vector: dict[str, Any]) -> None:
    body, headers, secret = vector["body"].encode(), vector["headers"], VECTORS["secret"]
    now = float(headers["webhook-timestamp"]) + 299
    found = webhooks.verify(secret, body, {name.upper(): it for name, it in headers.items()}, now=now)
    assert (found.output, found.delivery) == (vector["output"], headers["webhook-id"])
    assert webhooks.verify_body(secret, body).output == vector["output"]
    for wrong in (
        lambda: webhooks.verify(secret, body.replace(b"completed", b"complete!"), headers, now=now),
        lambda: webhooks.verify(secret[:-4] + "AAAA", body, headers, now=now),
        lambda: webhooks.verify("hunter2", body, headers, now=now),
        lambda: webhooks.verify(secret, body, {**headers, "webhook-id": "dlv_0"}, now=now),
        lambda: webhooks.verify(secret, body, {}, now=now),
        lambda: webhooks.verify(secret, body, headers, now=now + 2),
        lambda: webhooks.verify_body(secret, body.replace(b"completed", b"complete!")),
        lambda: webhooks.verify_body(secret, b"{}"),
    ):
        with pytest.raises(errors.InvalidSignature):
            wrong()


def test_events_are_read_however_they_are_cut() -> None:
    stream = ': hello\n\nid: e1\n\nevent: a\ndata: {"x":\ndata: "é\u2028"}\n\nid: e2\r\nevent: b\r\ndata: 1\r\n\r\n'.encode()
    for size in range(1, len(stream)):
        parser = EventParser()
        found = [it for at in range(0, len(stream), size) for it in parser.feed(stream[at : at + size])]
        assert [(it.name, it.id, it.data) for it in found] == [("a", "e1", {"x": "é\u2028"}), ("b", "e2", 1)]
    parser = EventParser()
    assert list(parser.feed(b"id: e7\n\n")) == [] and parser.last_id == "e7"
    # The place of an event that was cut off is that of the one before.
    assert list(parser.feed(b"id: e8\ndata: 1\n")) == [] and parser.last_id == "e7"
    assert [it.id for it in parser.feed(b"\n")] == ["e8"] and parser.last_id == "e8"


def told(*events: tuple[str, dict[str, Any]]) -> list[str | None]:
    text = Text()
    return [text.new(name, data) for name, data in events]


def delta(offset: int, text: str) -> tuple[str, dict[str, Any]]:
    return "delta", {"offset": offset, "text": text}


def snapshot(output: str | None) -> tuple[str, dict[str, Any]]:
    return "snapshot", {"status": "running", "output": output}


def end(output: str) -> tuple[str, dict[str, Any]]:
    return "end", {"status": "completed", "output": output}


RESTART: tuple[str, dict[str, Any]] = ("restart", {"attempt": 2})


def test_a_text_goes_on_over_breaks() -> None:
    assert told(snapshot(None), delta(0, "ab"), delta(2, "c"), end("abc")) == ["", "ab", "c", ""]
    # Another connection shows more, as much, or less than was told; a piece may overlap.
    assert told(delta(0, "ab"), snapshot("abcd"), delta(4, "e"), end("abcde")) == ["ab", "cd", "e", ""]
    assert told(delta(0, "abc"), snapshot("ab"), delta(2, "cd"), end("abcd")) == ["abc", "", "d", ""]
    assert told(delta(0, "abc"), delta(1, "bcd"), end("abcd")) == ["abc", "d", ""]
    # Pieces that were missed come with the end.
    assert told(delta(0, "ab"), delta(3, "d"), end("abcd")) == ["ab", "", "cd"]
    assert told(delta(0, "ab"), snapshot(None), end("abcd")) == ["ab", "", "cd"]


def test_another_attempt_is_void_only_if_it_differs() -> None:
    assert told(delta(0, "ab"), RESTART, delta(0, "a"), delta(1, "bc"), end("abc")) == ["ab", "", "", "c", ""]
    assert told(delta(0, "ab"), RESTART, delta(0, "x")) == ["ab", "", None]
    assert told(RESTART, delta(0, "x"), end("x")) == ["", "x", ""]
    # A reviewer's text in its place.
    assert told(delta(0, "ab"), end("a")) == ["ab", None]
    assert told(delta(0, "ab"), end("xyz")) == ["ab", None]


def test_a_request_is_repeated_only_where_that_is_safe() -> None:
    refused = errors.Unavailable("x", status=503, retryable=True, retry_after=2.0)
    limited = errors.RateLimited("x", status=429, retryable=True)
    broken = errors.ServerUnreachable("x")
    away = errors.ServerUnreachable("x")
    away.__cause__ = httpx.ConnectError("refused")
    get, post = _core.call("GET", "/"), _core.call("POST", "/")
    keyed = _core.call("POST", "/", key=None)
    for error in (refused, limited, broken, away):
        assert _core.may_repeat(get, error) and _core.may_repeat(keyed, error)
    assert [_core.may_repeat(post, it) for it in (refused, limited, broken, away)] == [False, True, False, True]
    assert _core.pause(0, refused) == 2.0
    assert _core.pause(0, errors.Unavailable("x", status=503, retryable=True, retry_after=3600.0)) is None
    assert _core.pause(0, errors.NotFound("x", status=404)) is None
    assert 7 < (_core.pause(90, broken) or 0) <= 12
    assert keyed.headers["Idempotency-Key"] != _core.call("POST", "/", key=None).headers["Idempotency-Key"]


def test_a_name_cannot_leave_its_place() -> None:
    assert _core.call("GET", "/api/queues/{name}", {"name": "a/../b?c=ä"}).path == "/api/queues/a%2F..%2Fb%3Fc%3D%C3%A4"


def test_addresses_are_read_as_the_command_line_does() -> None:
    for text in ("http://H:80", "http://h/", "http://h/api", " http://h/api/ "):
        assert str(_core.server_url(text)).rstrip("/") == "http://h"
    for bad in ("h:8080", "", "ftp://h", "http://h?x=1", "http://u:hunter2@h", "https://h/?api_key=hunter2"):
        with pytest.raises(errors.ConfigurationError) as refused:
            _core.server_url(bad)
        assert "hunter2" not in str(refused.value)


def test_a_mistake_in_a_plan_is_found_before_it_is_sent() -> None:
    def refused(match: str, *steps: dict[str, Any]) -> None:
        plan = Plan("p")
        with pytest.raises(errors.InvalidArgument, match=match):
            for step in steps:
                plan.step(**step)
            plan.body()

    refused("the step a exists", {"id": "a", "prompt": "x"}, {"id": "a", "prompt": "x"})
    refused("depends on b, which is no step", {"id": "a", "prompt": "x", "depends_on": ["b"]})
    refused("reads the output of a: name it", {"id": "a", "prompt": "x"}, {"id": "b", "prompt": "{{ a.output.x }}"})
    refused("reads the output of c, which is no step", {"id": "b", "prompt": "x", "condition": "{{c.output}} == 1"})
    refused("reads the output of d, which is no step",
            {"id": "b", "prompt": "x", "for_each": {"one": "{{d.output}}"}, "max_items": 3})
    refused("a, b wait for each other", {"id": "a", "prompt": "x", "depends_on": ["b"]},
            {"id": "b", "prompt": "x", "depends_on": ["a"]})
    refused("StepRequest: id: String should match", {"id": "A", "prompt": "x"})
    refused("temperature", {"id": "a", "prompt": "x", "temperature": 3})
    refused("max_token: Extra", {"id": "a", "prompt": "x", "max_token": 1})
    refused("steps: List should have at least 1 item")
    plan = Plan("p")
    plan.step("a", '{{"{{b.output}}"}} {{input.x}} {{item.output}}', for_each="{{input.rows}}")
    plan.step("c", "{{row.output}} {{item.index}}", depends_on=["a"], for_each={"row": "{{a.output}}"}, max_items=3)
    assert [it["forEach"] for it in plan.body()["steps"]] == ["{{input.rows}}", {"row": "{{a.output}}"}]


def test_a_template_takes_types_as_schemas() -> None:
    class Input(BaseModel):
        text: str

    template = Template("t", version="1.0.0", input=Input, output=list[int], hitl={"sample_rate": 0.5})
    template.step("a", "x", schema=Input, retry={"max_attempts": 2})
    body = template.body()
    assert body["inputSchema"]["required"] == ["text"] and body["outputSchema"]["type"] == "array"
    assert body["hitl"] == {"sampleRate": 0.5} and body["steps"][0]["retry"] == {"maxAttempts": 2}
    with pytest.raises(errors.InvalidArgument, match="version"):
        Template("t", version="1", input=Input).body()
