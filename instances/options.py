"""Options of instances: converted from text, checked for type and range, unknown ones refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..models.errors import InstanceError
from ..models.parameter import Parameter, Value, convert
from .formats.strict_json import nearest, show

__all__ = ["Parameter", "Value", "convert", "typed_option", "typed_options"]


def typed_options(
    given: Mapping[str, object], parameters: Mapping[str, Parameter], where: str
) -> dict[str, Value]:
    """Return a value for every parameter: the given one, converted and checked, or the default.

    Parameters
    ----------
    given
        Values as text (from a specification) or already typed (keywords).

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
    return {
        key: typed_option(key, given[key], parameter, where) if key in given else parameter.default
        for key, parameter in parameters.items()
    }


def typed_option(key: str, given: object, parameter: Parameter, where: str) -> Any:
    """Return the value of one option, converted and checked; of a limit that is none, None.

    Raises
    ------
    InstanceError
        As `typed_options`.
    """
    if parameter.kind in ("limit", "rate") and given in (None, "none"):
        return None
    value = convert(given, parameter)
    if value is None:
        raise InstanceError(
            f"instance {where!r}, option {key}: found {show(given)}, expected {parameter.expected}"
        )
    return value
