"""Options of instances: converted from text, checked for type and range, unknown ones refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..models.errors import InstanceError
from .formats.strict_json import nearest, show

Value = int | float | bool | str

_TRUTH = {"0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}


class Parameter(NamedTuple):
    """What one option may be: its default (which gives the type), its range, choices or pattern."""

    default: Value
    text: str
    least: float = 0
    most: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""

    @property
    def expected(self) -> str:
        """Return the words for the values that it takes."""
        if self.pattern:
            return f"a text like {self.default}"
        if self.choices:
            return " or ".join(self.choices)
        if isinstance(self.default, bool):
            return "0 or 1"
        kind = "an integer" if isinstance(self.default, int) else "a number"
        limit = "" if self.most is None else f" and <= {self.most}"
        return f"{kind} >= {self.least}{limit}"


def typed_options(
    given: Mapping[str, object], parameters: Mapping[str, Parameter], where: str
) -> dict[str, Value]:
    """Return a value for every parameter: the given one, converted and checked, or the default.

    Parameters
    ----------
    given
        Values as text (from a specification) or already typed (keywords).
    parameters
        What there is to set.
    where
        The specification, for messages.

    Raises
    ------
    InstanceError
        If an option is unknown, of the wrong type, or out of range.
    """
    for key in given:
        if key not in parameters:
            raise InstanceError(
                f"instance {where!r}: found unknown option {key!r}, {nearest(key, parameters)}"
            )
    values: dict[str, Value] = {}
    for key, parameter in parameters.items():
        value = convert(given[key], parameter) if key in given else parameter.default
        if value is None:
            raise InstanceError(
                f"instance {where!r}, option {key}: found {show(given[key])}, expected {parameter.expected}"
            )
        values[key] = value
    return values


def convert(value: object, parameter: Parameter) -> Value | None:
    """Return the value in the parameter's type, or None if it is not one of those that it takes."""
    default = parameter.default
    if isinstance(default, bool):
        return _TRUTH.get(str(value).lower()) if isinstance(value, str | int) else None
    if parameter.pattern:
        return value if isinstance(value, str) and re.fullmatch(parameter.pattern, value, re.ASCII) else None
    if isinstance(default, str):
        return str(value) if value in parameter.choices else None
    if isinstance(value, bool):
        return None
    number: int | float | None = None
    if isinstance(value, int) or (isinstance(value, float) and isinstance(default, float)):
        number = value
    elif isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value, re.ASCII):
        number = int(value)
    elif isinstance(value, str) and isinstance(default, float):
        number = float(value) if re.fullmatch(r"-?\d*\.?\d+(e-?\d+)?", value, re.ASCII) else None
    if number is None or not number >= parameter.least:
        return None
    if parameter.most is not None and number > parameter.most:
        return None
    return number if isinstance(default, int) else float(number)
