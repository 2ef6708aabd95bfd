"""Text of MiniZinc models: a hand-written model, with its data assigned at its end.

A file is whole: ``minizinc model.mzn`` needs no second file. Sets of numbers begin with 0, as in the graph.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

from ..models.errors import InstanceError

Entry = int | str | Iterable[int]
"""An element of an array: a number, a text, or a set of numbers."""

Data = Mapping[str, int | tuple[str, Iterable[Entry]]]
"""By parameter: a number, or the name of the index set and the elements of an array."""

Values = Mapping[str, list[int]]
"""A solution: the numbers of each variable by its name; a single number is a list of one."""

WIDTH = 100
"""Columns of a line of data, chosen by hand: long arrays are wrapped there."""


def with_data(model: str, about: str, data: Data) -> str:
    """Return the text of a file.

    Parameters
    ----------
    model
        Declares the parameters that `data` assigns.
    about
        What the data are of, for the comment above them.
    data
        The values of all parameters.
    """
    lines = [model.strip(), "", *_comment(f"Data: {about}")]
    for name, value in data.items():
        if isinstance(value, int):
            lines.append(f"{name} = {value};")
            continue
        index, entries = value
        lines += _wrapped(f"{name} = array1d({index}, [{', '.join(map(_literal, entries))}]);")
    return "\n".join(lines) + "\n"


def array(values: Values, name: str, length: int) -> list[int]:
    """Return the numbers of an array of a solution.

    Raises
    ------
    InstanceError
        If the solution does not have it, or has it in another length.
    """
    numbers = values.get(name)
    if numbers is None or len(numbers) != length:
        count = "no value" if numbers is None else f"{len(numbers)} numbers"
        raise InstanceError(f"solution: found {count} of {name}, expected {length} numbers")
    return numbers


def _literal(entry: Entry) -> str:
    if isinstance(entry, str):
        shown = "".join(c if c.isprintable() else "?" for c in entry)
        return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(entry) if isinstance(entry, int) else "{" + ", ".join(map(str, entry)) + "}"


def _comment(text: str) -> list[str]:
    return [f"% {line}" for line in textwrap.wrap(text, WIDTH)]


def _wrapped(line: str) -> list[str]:
    """Return the same in lines; it is not broken inside a text."""
    if len(line) <= WIDTH or '"' not in line:
        return textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_long_words=False)
    return line.replace('", "', '",\n  "').splitlines()
