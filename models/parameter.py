"""Parameters: what an option of an instance or a problem may be, converted from text and checked."""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import UsageError
from .units import parse_bytes

Value = int | float | bool | str

_TRUTH = {"0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}

_EXPECTED = {
    "size": "bytes such as 4096, 512MiB or 4GiB",
    "limit": "bytes such as 4096, 512MiB or 4GiB, or none",
    "rate": "bytes per second such as 25GiB, or none",
    "machine": "a name that lowtide list machines shows, or a .toml or .json file",
    "processors": "an integer >= 1, or kinds with counts such as cpu=4,gpu=1",
    "tiers": "tiers such as host or host+ssd, or anywhere",
    "banks": "banks with bytes such as sram=64KiB/dram",
    "pools": "kinds of tensors such as weight+state, or weight+state/gradient",
}


class Parameter(NamedTuple):
    """What one option may be.

    Attributes
    ----------
    default
        The value where nothing is given, which gives the type; of problems their own default holds instead.
    text
        What it means.
    least, most, choices, pattern
        The range of numbers; the texts that it may be, or a regular expression of them.
    kind
        "size" (bytes), "limit" (bytes or none), "rate" (bytes per second or none), "machine" (name or file),
        "processors" (a count, or kinds with counts), "tiers" (names joined by +), "pools" (kinds joined by
        +, pools by /), "banks" (names with bytes); else the type of the default says it: a flag, a count, a
        number, a choice.
    required
        Whether there is no answer without it.
    flag
        Whether the command line has it, as ``--NAME``.
    """

    default: Value
    text: str
    least: float = 0
    most: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    kind: str = ""
    required: bool = False
    flag: bool = True

    @property
    def expected(self) -> str:
        """Return the words for the values that it takes."""
        if self.kind:
            return _EXPECTED[self.kind]
        if self.pattern:
            return f"a text like {self.default}"
        if self.choices:
            return " or ".join(self.choices)
        if isinstance(self.default, bool):
            return "0 or 1"
        kind = "an integer" if isinstance(self.default, int) else "a number"
        limit = "" if self.most is None else f" and <= {self.most}"
        return f"{kind} >= {self.least}{limit}"


def _number(value: object, fractions: bool) -> int | float | None:
    if isinstance(value, int) or (isinstance(value, float) and fractions):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value, re.ASCII):
        return int(value)
    if isinstance(value, str) and fractions and re.fullmatch(r"-?\d*\.?\d+(e-?\d+)?", value, re.ASCII):
        return float(value)
    return None


def convert(value: object, parameter: Parameter) -> Value | None:
    """Return the value in the parameter's type, or None if it is not one of those that it takes."""
    default = parameter.default
    if parameter.kind in ("size", "limit", "rate"):
        if type(value) is int:
            return value if value >= parameter.least else None
        try:
            return parse_bytes(value) if isinstance(value, str) else None
        except UsageError:
            return None
    if parameter.kind:
        return str(value)
    if isinstance(default, bool):
        return _TRUTH.get(str(value).lower()) if isinstance(value, str | int) else None
    if parameter.pattern:
        return value if isinstance(value, str) and re.fullmatch(parameter.pattern, value, re.ASCII) else None
    if isinstance(default, str):
        return str(value) if value in parameter.choices else None
    if isinstance(value, bool):
        return None
    number = _number(value, isinstance(default, float))
    if number is None or not number >= parameter.least:
        return None
    if parameter.most is not None and number > parameter.most:
        return None
    return number if isinstance(default, int) else float(number)
