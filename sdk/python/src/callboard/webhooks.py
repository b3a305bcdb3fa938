"""Verifies webhooks (docs/webhooks.md)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping

from pydantic import AwareDatetime

from ._base import Base
from .errors import InvalidSignature

TOLERANCE = 300.0


class WebhookUsage(Base):
    """Tokens and cost: of a task's last answer, or of a whole execution."""

    input: int
    output: int
    total_cost: float | None = None
    """USD, of an execution; of a task it stands in `details`."""


class WebhookError(Base):
    """Why a task or an execution failed."""

    code: str
    message: str
    step_id: str | None = None


class WebhookReview(Base):
    """The decision of a reviewer."""

    by: str
    at: AwareDatetime
    was_modified: bool


class WebhookDetails(Base):
    """What a task says more with `callbackDetails`."""

    tags: list[str]
    title: str | None = None
    model: str
    confidence: float | None = None
    total_cost: float
    attempt: int
    error: WebhookError | None = None
    review: WebhookReview | None = None


class Webhook(Base):
    """An event of a task or an execution. The same webhook may arrive more than once: keep the `delivery` of those
    you handled."""

    event: str
    task_id: str | None = None
    """The task; in `execution.awaiting_approval` the one whose output waits."""
    execution_id: str | None = None
    plan_id: str | None = None
    template_id: str | None = None
    step_id: str | None = None
    status: str
    output: str | None = None
    usage: WebhookUsage
    tags: list[str] | None = None
    title: str | None = None
    completed_at: AwareDatetime | None = None
    """None while an output waits for a reviewer."""
    error: WebhookError | None = None
    details: WebhookDetails | None = None
    environment: str | None = None
    """`test` for a task of the sandbox."""
    delivery: str = ""
    """The `webhook-id`: the same for each attempt."""


def verify(
    secret: str, body: bytes, headers: Mapping[str, str], *, tolerance: float = TOLERANCE, now: float | None = None
) -> Webhook:
    """Checks the headers of a webhook and reads it; raises `InvalidSignature`.

    `body` is the body as it arrived, byte for byte. `tolerance` is the greatest age in seconds, which stops replays.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        id, timestamp = lower["webhook-id"], lower["webhook-timestamp"]
        given = lower["webhook-signature"].split(" ")
    except KeyError as error:
        raise InvalidSignature(f"the webhook has no header {error.args[0]}") from None
    if not timestamp.isdigit() or abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise InvalidSignature("the webhook is too old, or a clock is wrong")
    signed = f"{id}.{timestamp}.".encode() + body
    digest = base64.b64encode(hmac.new(_key(secret), signed, hashlib.sha256).digest()).decode()
    if not any(hmac.compare_digest(it.encode(), f"v1,{digest}".encode()) for it in given):
        raise InvalidSignature("the signature of the webhook is not of this secret and body")
    return _read(body, id)


def verify_body(secret: str, body: bytes) -> Webhook:
    """Checks the member `signature`, for receivers that do not get the headers. It does not stop replays."""
    digest = hmac.new(secret.encode(), body[:-87] + b"}", hashlib.sha256).hexdigest()
    if not hmac.compare_digest(body[-87:], f',"signature":"sha256={digest}"}}'.encode()):
        raise InvalidSignature("the signature in the webhook is not of this secret and body")
    return _read(body, "")


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidSignature("the secret is no webhook secret: `callboard webhooks secret` shows it") from None


def _read(body: bytes, delivery: str) -> Webhook:
    return Webhook.model_validate({**json.loads(body), "delivery": delivery})
