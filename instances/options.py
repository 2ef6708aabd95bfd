"""Options of instances: converted from text, checked for type and range, unknown ones refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..models.errors import InstanceError
from ..models.parameter import Parameter, Value, convert
from .formats.strict_json import nearest, show
from .spec import Spec, parse_spec

__all__ = ["Parameter", "Value", "convert", "plain_spec", "typed_option", "typed_options"]


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


def plain_spec(spec: str | os.PathLike[str], options: Mapping[str, object], scheme: str) -> Spec:
    """Return a specification without options: of a file, of the scheme, or of an entry of the catalogue.

    Raises
    ------
    InstanceError
        If an option is given, or the scheme is another one.
    """
    parsed = parse_spec(spec)
    typed_options({**parsed.options, **options}, {}, str(parsed))
    if parsed.scheme not in ("path", "catalogue", scheme):
        raise InstanceError(
            f"instance '{parsed}': found scheme {parsed.scheme!r}, expected {scheme} or catalogue"
        )
    return parsed


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
