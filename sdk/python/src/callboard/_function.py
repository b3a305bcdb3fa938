"""A function of a worker: its schemas, and its call with the args of a task."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from ._assigned import Failure, Task
from .errors import ConfigurationError

NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Function:
    """A function that the worker announces. Its schemas come from its signature.

    A parameter of the type `Task` gets the task itself, and is no arg.
    """

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name, self.call = name, call
        try:
            hints = get_type_hints(call, include_extras=True)
        except NameError as error:
            raise ConfigurationError(f"the types of the function {name} cannot be read: {error}") from None
        self._task: str | None = None
        self._names: list[str] = []
        fields: dict[str, Any] = {}
        for parameter in inspect.signature(call).parameters.values():
            hint = hints.get(parameter.name, Any)
            if hint is Task:
                self._task = parameter.name
                continue
            if parameter.kind not in NAMED:
                raise ConfigurationError(f"the function {name} takes args by name: {parameter} has none")
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            # Members of a model cannot have every name that a parameter can.
            fields[f"arg{len(fields)}"] = (Annotated[hint, Field(alias=parameter.name)], default)
            self._names.append(parameter.name)
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
        self._args: type[BaseModel] = create_model(name, __config__=config, **fields)
        self._has_result = "return" in hints
        self._result: TypeAdapter[Any] = TypeAdapter(hints.get("return", Any))

    def announcement(self) -> dict[str, Any]:
        """The function as `register` names it."""
        told: dict[str, Any] = {"name": self.name, "inputSchema": self._args.model_json_schema()}
        if self._has_result:
            told["outputSchema"] = self._result.json_schema(mode="serialization")
        if about := inspect.getdoc(self.call):
            told["description"] = about[:1024]
        return told

    def arguments(self, task: Task) -> dict[str, Any]:
        """The keyword arguments of the call. Raises a `Failure` that names the place of each wrong arg."""
        try:
            args = self._args.model_validate(dict(task.args or {}))
        except ValidationError as error:
            faults = [f"{'.'.join(['args', *map(str, it['loc'])])}: {it['msg']}" for it in error.errors()]
            raise Failure("; ".join(faults)[:1000], retryable=False) from None
        given = {name: getattr(args, f"arg{number}") for number, name in enumerate(self._names)}
        return given if self._task is None else {**given, self._task: task}

    def value(self, result: Any) -> Any:
        """The result as plain JSON."""
        try:
            return self._result.dump_python(result, mode="json", by_alias=True, warnings="error")
        except ValueError as error:
            raise Failure(f"the function {self.name} returned no JSON of its type: {error}"[:1000],
                          retryable=False) from None
