"""Texts that state a problem without a method: MiniZinc models and PSPLIB files, and solutions of MiniZinc.

All forms of MiniZinc's output are read (``--output-mode item``, ``dzn`` and ``json``). With several
solutions, the last one counts, which is the best.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..formulations.minizinc import Values
from ..models.errors import InstanceError, UsageError
from ..models.files import read_text
from ..models.problems.problem import Problem
from ..models.result import Result
from .build import result_of
from .method import load
from .registry import room_of

_END = "\n----------"
"""Ends each solution."""

_STATUS = re.compile(r"^={5}(\w+)={5}\s*$", re.MULTILINE)
_ARRAY = re.compile(r'\b(\w+)"?\s*[=:]\s*(?:array1d\([^][;]*)?\[([^][;]*)\]')


def text_of(
    problem: Problem, path: str | os.PathLike[str], *, part: int | None, options: Mapping[str, Any]
) -> str:
    """Return the text of a problem in the format of a path's suffix.

    Raises
    ------
    UsageError
        If the problem has no such text, or something is given that only models of methods take.
    """
    files, suffix = room_of(problem).files, Path(path).suffix
    if suffix not in files:
        texts = f", or a file {', '.join(files)}" if files else ""
        raise UsageError(f"{path}: found no method, expected one that builds a model{texts}")
    given = [*([] if part is None else [f"part {part}"]), *(f"option {name}" for name in options)]
    if given:
        raise UsageError(f"export to {suffix}: found {given[0]}, expected none: the whole problem is stated")
    text: str = load(files[suffix])(problem)
    return text


def read_minizinc(problem: Problem, path: str | os.PathLike[str]) -> Result:
    """Return the verified result of a solution that MiniZinc has of the exported model.

    Raises
    ------
    UsageError
        If the problem has no MiniZinc model.
    InstanceError
        If the file cannot be read, or has no solution of the model.
    """
    files = room_of(problem).files
    if ".mzn" not in files:
        raise UsageError("decode: found no method, expected that of the exported model")
    answer = load(files[".mzn"].replace(":text", ":answer"))
    return result_of(problem, problem.read(answer(problem, minizinc_values(path))), "minizinc")


def minizinc_values(path: str | os.PathLike[str]) -> Values:
    """Return the elements of each array of the last solution in a file.

    Raises
    ------
    InstanceError
        If the file cannot be read, or has no solution.
    """
    text = read_text(path, "a solution file")
    arrays = _ARRAY.findall(text.rpartition(_END)[0] or text)
    if not arrays:
        status = _STATUS.search(text)
        raise InstanceError(
            f"{os.fspath(path)}: found {status[1] if status else 'no value of a variable'}, expected "
            "MiniZinc's output with 'name = [...];', or its JSON"
        )
    return {
        name: [element.rpartition(":")[2].strip() for element in listed.split(",") if element.strip()]
        for name, listed in arrays
    }
