"""The base of the generated models."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


def wire_name(name: str) -> str:
    """The name of a member on the wire; a word of Python has an underscore behind it here."""
    return to_camel(name.removesuffix("_"))


class Base(BaseModel):
    """A model whose members are snake_case in Python and camelCase on the wire."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=wire_name, populate_by_name=True, hide_input_in_errors=True, protected_namespaces=(),
        defer_build=True,
    )
