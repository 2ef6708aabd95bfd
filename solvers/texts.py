"""Texts that state a problem without a method: MiniZinc models and PSPLIB files, and solutions of MiniZinc.

Of MiniZinc's output both forms are read: ``name = value;``, and JSON (``--output-mode json``). With several
solutions, the last one counts, which is the best.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..formulations.minizinc import Values
from ..models.errors import InstanceError, UsageError
from ..models.problems.problem import Problem
from ..models.result import Result
from .build import result_of
from .registry import room_of

FORMULATIONS = "...formulations"
"""Package of the modules that write texts, seen from this one."""

_END = re.compile(r"^-{10}\s*$", re.MULTILINE)
_STATUS = re.compile(r"^={5}(\w+)={5}\s*$", re.MULTILINE)
_ASSIGNED = re.compile(r"^\s*(\w+)\s*=\s*([^;]*);", re.MULTILINE)
_LIST = re.compile(r"\[([^]]*)\]")


def text_of(
    problem: Problem, path: str | os.PathLike[str], *, part: int | None, options: Mapping[str, Any]
) -> Callable[[], str]:
    """Return a function that makes the text of a problem in the format of a path's suffix.

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
    _check_settings(problem, suffix)
    return partial(_function(files[suffix]), problem)


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
    _check_settings(problem, ".mzn")
    answer = _function(files[".mzn"].replace(":text", ":answer"))
    return result_of(problem, problem.read(answer(problem, minizinc_values(path))), "minizinc")


def minizinc_values(path: str | os.PathLike[str]) -> Values:
    """Return the numbers of each variable of the last solution in a file.

    Raises
    ------
    InstanceError
        If the file cannot be read, or has no solution.
    """
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "bytes that are not UTF-8"
        raise InstanceError(f"{os.fspath(path)}: found {reason}, expected a solution file") from None
    for solution in reversed(_END.split(text)):
        values = _json_values(solution) if solution.lstrip().startswith("{") else _plain_values(solution)
        if values:
            return values
    status = _STATUS.search(text)
    raise InstanceError(
        f"{os.fspath(path)}: found {status[1] if status else 'no value of a variable'}, expected MiniZinc's "
        "output with 'name = [...];', or its JSON"
    )


def _check_settings(problem: Problem, suffix: str) -> None:
    if settings := (*problem.freedoms, *problem.demands):
        raise UsageError(f"export to {suffix}: found a problem with {settings[0]}, expected one without")


def _function(name: str) -> Callable[..., Any]:
    from importlib import import_module

    module, function = name.split(":")
    loaded: Callable[..., Any] = getattr(import_module(f"{FORMULATIONS}.{module}", __name__), function)
    return loaded


def _plain_values(text: str) -> dict[str, list[int]]:
    values = {}
    for name, value in _ASSIGNED.findall(text):
        listed = _LIST.search(value)
        items = (listed[1] if listed else value).split(",")
        numbers = _integers([item.rpartition(":")[2].strip() for item in items if item.strip()])
        if numbers is not None:
            values[name] = numbers
    return values


def _json_values(text: str) -> dict[str, list[int]]:
    try:
        loaded, _ = json.JSONDecoder().raw_decode(text.strip())
    except ValueError as error:
        raise InstanceError(f"solution: found JSON that cannot be read ({error})") from None
    values = {}
    for name, value in loaded.items():
        numbers = _integers(value if isinstance(value, list) else [value])
        if numbers is not None:
            values[name] = numbers
    return values


def _integers(items: list[Any]) -> list[int] | None:
    """Return the numbers; None if an item is no integer."""
    try:
        return [int(str(item)) for item in items]
    except ValueError:
        return None
