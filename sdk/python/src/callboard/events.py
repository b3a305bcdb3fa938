"""Events of the server's log."""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from ._base import Base


class Subject(Base):
    """The item that an event is about."""

    kind: str
    """Such as `task`, `execution`, `step`, `hitl`."""
    id: str
    version: int | None = None
    """Grows from event to event of one item."""
    execution_id: str | None = None
    """The execution of a step."""


class Event(Base):
    """An event."""

    event: str
    """The name, such as `task.completed`."""
    cursor: str | None = None
    """The place in the log, for `since`; none for `task.delta` and `queue.depth`, which are not kept."""
    at: AwareDatetime
    resource: Subject
    data: dict[str, Any] = Field(default_factory=dict)
    """The item as a list shows it."""
