"""Solution files of other solvers: values of variables by name.

Each line is looked at alone: the first word that is the name of a column, and the number behind it. So HiGHS
(``name value``), Gurobi, CPLEX's plain text and SCIP (``name value (obj:c)``), CBC (``number name value
cost``) and glpsol's report (``number name status activity``; a long name has its values on the next line) are
read, and glpsol's ``j number value``. Of CP-SAT the response as text has ``solution: value``, in the order of
the variables. Columns that are not named stand for 0; lists of rows, which other words announce, are passed
over.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import ReferenceType

from ..formulations.pyomo_terms import silent_pyomo
from ..models.errors import InstanceError
from ..models.files import read_text

_BEHIND = re.compile(r"#\s*(Dual|Basis)", re.IGNORECASE)
_ROWS = re.compile(r"#\s*Rows|\s*No\.\s+Row name", re.IGNORECASE)
_COLUMNS = re.compile(r"#\s*Columns|\s*No\.\s+Column name", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def read_solution(path: str | os.PathLike[str], labels: Mapping[str, str]) -> dict[str, float]:
    """Return values by the name of the variable.

    Parameters
    ----------
    labels
        Names of variables by what the file calls them, in the order of the columns.

    Raises
    ------
    InstanceError
        If the file cannot be read, or names no variable.
    """
    text = read_text(path, "a solution file")
    found = dict(_by_place(text, list(labels.values())) or _by_name(text, labels))
    if not found:
        example = next(iter(labels), "a name")
        raise InstanceError(
            f"{os.fspath(path)}: found no value of a variable, expected lines such as '{example} 1'; was the "
            "model exported from the same instance, by the same method?"
        )
    return found


def _by_place(text: str, names: list[str]) -> list[tuple[str, float]]:
    """Return values that are listed in the order of the columns; none if they are not."""
    listed = [float(x) for x in re.findall(r"^\s*solution:\s*(-?\d+)\s*$", text, re.MULTILINE)]
    if listed:
        return list(zip(names, listed, strict=False))
    numbered = re.findall(r"^j (\d+) (?:[bufls] )?(\S+)", text, re.MULTILINE)
    return [(names[int(k) - 1], float(x)) for k, x in numbered if 0 < int(k) <= len(names)]


def _by_name(text: str, labels: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    rows, waiting = False, ""
    for line in text.splitlines():
        if _BEHIND.match(line):  # of linear programs HiGHS lists the columns again, with other values
            return
        if _ROWS.match(line) or _COLUMNS.match(line):
            rows = _ROWS.match(line) is not None
            continue
        words = line.split()
        if rows or not words:
            continue
        place = next((k for k, word in enumerate(words[:2]) if word in labels), None)
        name = waiting if place is None else words[place]
        waiting = ""
        after = words if place is None else words[place + 1 :]
        value = next((word for word in after if _NUMBER.fullmatch(word)), None)
        if name and value is not None:
            yield labels[name], float(value)
        elif name:
            waiting = name


def mps_labels(model: Any) -> dict[str, str]:
    """Return the names of a MILP's variables by what its files call them, in the order of the columns."""
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        with silent_pyomo():
            _, number = model.write(f"{folder}/model.mps", io_options={"symbolic_solver_labels": True})
        text = Path(folder, "model.mps").read_text("utf-8")
    columns = text.partition("\nCOLUMNS\n")[2].partition("\nRHS\n")[0]
    listed = dict.fromkeys(words[0] for line in columns.splitlines() if len(words := line.split()) > 1)
    symbols = model.solutions.symbol_map[number].bySymbol
    found = {label: symbols[label] for label in listed if label in symbols}
    named = ((label, item() if isinstance(item, ReferenceType) else item) for label, item in found.items())
    return {label: str(item.name) for label, item in named if item is not None}
