"""Builders of plans and templates. A mistake is an `InvalidArgument` before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel
from typing_extensions import Unpack

from . import _core, models
from .errors import InvalidArgument
from .params import CallOptions, StepOptions, TemplateOptions

# A placeholder of another step's output; a text in quotes stands as it is.
OUTPUT = re.compile(r"""\{\{\s*(?:"[^"]*"|'[^']*'|([a-z][a-z0-9-]*)\s*(?:\.output|\[\s*["']output))""")
CONDITION = re.compile(r"""steps\s*\[\s*["']([a-z][a-z0-9-]*)["']\s*\]""")


class Step:
    """A step of a definition, for the prompts and the dependencies of later steps."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    @property
    def id(self) -> str:
        return str(self._body["id"])

    @property
    def output(self) -> str:
        """The placeholder of its output: `f"Judge {extract.output}"`."""
        return f"{{{{{self.id}.output}}}}"

    def member(self, path: str) -> str:
        """The placeholder of a member of its output, such as `facts.0.name`."""
        return f"{{{{{self.id}.output.{path}}}}}"


class Definition:
    """The steps of a plan or a template."""

    def __init__(self) -> None:
        self._steps: dict[str, Step] = {}

    def step(
        self, id: str, prompt: str, *, depends_on: Iterable[Step | str] = (), schema: Any = None,
        **options: Unpack[StepOptions],
    ) -> Step:
        """Adds a step that calls a model. `schema` is the type or the JSON Schema of its output."""
        fields: dict[str, Any] = {"id": id, "prompt": prompt, **options}
        if schema is not None:
            fields["output_schema"] = _core.schema_of(schema)
        return self._add(fields, depends_on)

    def call(
        self, id: str, function: str, args: Mapping[str, Any] | None = None, *, depends_on: Iterable[Step | str] = (),
        schema: Any = None, **options: Unpack[CallOptions],
    ) -> Step:
        """Adds a step that calls a function of a worker. The strings of `args` may have placeholders.

        A string that is one placeholder and nothing else, such as `extract.output`, becomes the value with its type.
        """
        fields: dict[str, Any] = {"id": id, "function": function, "args": dict(args or {}), **options}
        if schema is not None:
            fields["output_schema"] = _core.schema_of(schema)
        return self._add(fields, depends_on)

    def wait_for(
        self, id: str, signal: str, *, depends_on: Iterable[Step | str] = (), schema: Any = None,
        condition: str | None = None, timeout_ms: int | None = None,
    ) -> Step:
        """Adds a step that waits for a signal, whose payload is its output."""
        fields: dict[str, Any] = {"id": id, "type": "wait", "signal": signal}
        given = {"condition": condition, "timeout_ms": timeout_ms}
        fields.update({name: it for name, it in given.items() if it is not None})
        if schema is not None:
            fields["schema"] = _core.schema_of(schema)
        return self._add(fields, depends_on)

    def _add(self, fields: dict[str, Any], depends_on: Iterable[Step | str]) -> Step:
        names = [it.id if isinstance(it, Step) else it for it in depends_on]
        if names:
            fields["depends_on"] = names
        body = _core.checked(models.StepRequest, fields)
        if body["id"] in self._steps:
            raise InvalidArgument(f"the step {body['id']} exists: give the second another id")
        step = self._steps[body["id"]] = Step(body)
        return step

    def _checked(self) -> list[dict[str, Any]]:
        """The steps: what they read and depend on exists, without a circle."""
        for step in self._steps.values():
            needs = set(step._body.get("dependsOn", ()))
            for name in sorted(needs - self._steps.keys()):
                raise InvalidArgument(f"step {step.id} depends on {name}, which is no step")
            for name in sorted(_reads(step._body) - needs):
                if name in self._steps:
                    raise InvalidArgument(f"step {step.id} reads the output of {name}: name it in depends_on")
                raise InvalidArgument(f"step {step.id} reads the output of {name}, which is no step")
        open_ = {it.id: set(it._body.get("dependsOn", ())) for it in self._steps.values()}
        while ready := [name for name, needs in open_.items() if not needs & open_.keys()]:
            for name in ready:
                del open_[name]
        if open_:
            raise InvalidArgument(f"the steps {', '.join(sorted(open_))} wait for each other")
        return [it._body for it in self._steps.values()]

    def body(self) -> dict[str, Any]:
        """The definition as it is sent."""
        raise NotImplementedError


def _reads(body: Mapping[str, Any]) -> set[str]:
    prompts = [body.get("prompt"), body.get("systemPrompt"), *_texts(body.get("messages")), *_texts(body.get("args"))]
    found = {name for text in prompts for name in OUTPUT.findall(text or "")}
    lists = body.get("forEach") or ""
    variables = set(lists) if isinstance(lists, dict) else {body.get("item") or "item"}
    for text in (body.get("condition"), *(lists.values() if isinstance(lists, dict) else [lists])):
        found |= {*OUTPUT.findall(text or ""), *CONDITION.findall(text or "")}
    return found - {"", "input", "env", "meta"} - variables


def _texts(args: Any) -> Iterator[str]:
    """The strings within args."""
    if isinstance(args, str):
        yield args
    elif isinstance(args, Mapping):
        for it in args.values():
            yield from _texts(it)
    elif isinstance(args, list):
        for it in args:
            yield from _texts(it)


class Plan(Definition):
    """A plan: `cb.plans.create(plan)`."""

    def __init__(self, name: str, *, description: str | None = None, tags: list[str] | None = None) -> None:
        super().__init__()
        given = {"name": name, "description": description, "tags": tags}
        self._fields = {name: it for name, it in given.items() if it is not None}

    def body(self) -> dict[str, Any]:
        return _core.checked(models.PlanRequest, {**self._fields, "steps": self._checked()})


class Template(Definition):
    """A version of a template: `cb.templates.publish(template)`.

    `input` and `output` are types (a pydantic model) or JSON Schemas.
    """

    def __init__(
        self, name: str, *, version: str, input: type[BaseModel] | Mapping[str, Any],
        industry: Literal["legal", "finance", "devops", "marketing", "healthcare", "custom"] = "custom",
        output: Any = None, **options: Unpack[TemplateOptions],
    ) -> None:
        super().__init__()
        self._fields: dict[str, Any] = {
            "name": name, "version": version, "industry": industry, "input_schema": _core.schema_of(input), **options
        }
        if output is not None:
            self._fields["output_schema"] = _core.schema_of(output)

    def body(self) -> dict[str, Any]:
        return _core.checked(models.TemplateRequest, {**self._fields, "steps": self._checked()})
