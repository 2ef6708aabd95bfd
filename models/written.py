"""Data that is written as JSON objects: its fields in their order."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

Mask = int
"""A set of ops as a bit mask (bit v: op v); in JSON a string of hexadecimal digits."""


class Written:
    """Data whose JSON object has its `kind`, if there is one, and its fields, annotated as texts.

    Tuples become lists, and what is annotated `Mask` hexadecimal digits.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        assert is_dataclass(self)
        kind = getattr(type(self), "kind", None)  # what every object of the class is; no field
        data = {"kind": kind} if isinstance(kind, str) else {}
        for field in fields(self):
            value = getattr(self, field.name)
            data[field.name] = f"{value:x}" if field.type == "Mask" else _json(value)
        return data


def _json(value: Any) -> Any:
    if isinstance(value, Written):
        return value.to_dict()
    if isinstance(value, tuple | list):
        nested = value and isinstance(value[0], Written | tuple | list)
        return [_json(x) for x in value] if nested else list(value)
    return value
