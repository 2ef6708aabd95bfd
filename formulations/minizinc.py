"""Text of MiniZinc models: a hand-written model, with its data assigned at its end.

A file is whole: ``minizinc model.mzn`` needs no second file. Sets of numbers begin with 0, as in the graph.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping

from ..models.errors import InstanceError
from ..models.texts import printable

Entry = int | str | Iterable[int]
"""An element of an array: a number, a text, or a set of numbers."""

Data = Mapping[str, int | Mapping[str, Iterable[Entry]]]
"""By parameter its number; by set, as the model calls it, the arrays over it by their names."""

Values = Mapping[str, list[str]]
"""A solution: the elements of each array by its name."""

WIDTH = 100
"""Columns of a line of data, chosen by hand: long arrays are wrapped there."""


def with_data(model: str, about: str, data: Data) -> str:
    """Return the text of a file.

    Parameters
    ----------
    model
        Declares the parameters and sets that `data` has.
    about
        What the data are of, for the comment above them.
    data
        The values of all parameters.
    """
    lines = [model.strip(), "", *(f"% {line}" for line in textwrap.wrap(f"Data: {about}", WIDTH))]
    for name, value in data.items():
        if isinstance(value, int):
            lines.append(f"{name} = {value};")
            continue
        for array, entries in value.items():
            lines += _wrapped(f"{array} = array1d({name}, [{', '.join(map(_literal, entries))}]);")
    return "\n".join(lines) + "\n"


def integers(values: Values, name: str, length: int) -> list[int]:
    """Return the elements of an array of a solution.

    Raises
    ------
    InstanceError
        If the solution does not have it, has it in another length, or an element is no integer.
    """
    found = values.get(name, [])
    try:
        if len(found) == length:
            return [int(element) for element in found]
    except ValueError:
        pass
    raise InstanceError(f"solution: found {name} = [{', '.join(found)}], expected {length} integers")


def _literal(entry: Entry) -> str:
    if isinstance(entry, str):
        return json.dumps(printable(entry), ensure_ascii=False)  # as in MiniZinc: \" and \\
    return str(entry) if isinstance(entry, int) else "{" + ", ".join(map(str, entry)) + "}"


def _wrapped(line: str) -> list[str]:
    """Return the same in lines; it is not broken inside a text."""
    if len(line) <= WIDTH or '"' not in line:
        return textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_long_words=False)
    return line.replace('", "', '",\n  "').splitlines()
