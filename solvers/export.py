"""Write the model that a method would solve, for other solvers, for reports and for bug reports."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..formulations import peak_cpsat_positions, peak_cpsat_steps, peak_milp_olla, peak_milp_steps
from ..formulations.peak_data import PeakData, peak_data
from ..models.errors import UsageError
from ..models.files import check_writable, write_whole
from ..models.problem import Problem

MILP_SUFFIXES = (".mps", ".lp")
"""Formats of MILP models, by Pyomo, with the names of the formulation."""

CPSAT_SUFFIXES = (".pb.txt", ".pbtxt", ".pb")
"""Formats of CP-SAT models: protocol buffers as text, or binary."""


def export_model(problem: Problem, method: str, path: str | os.PathLike[str]) -> None:
    """Write the model of a method to a file, whole or not at all.

    All values in it are in the greatest common divisor of the graph's sizes, see
    `lowtide.formulations.peak_data`. It has no hint and no bounds but those of the formulation.

    Parameters
    ----------
    problem
        What the model states.
    method
        One that builds a model: "milp", "milp-steps", "cpsat" or "cpsat-positions".
    path
        Its suffix is the format: ``.mps`` or ``.lp`` for a MILP, ``.pb.txt`` (or ``.pbtxt``) or the
        binary ``.pb`` for CP-SAT.

    Raises
    ------
    UsageError
        If the method builds no model, the suffix is of another kind, or the file cannot be written.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Peak(lt.load("catalogue:chain"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_model(problem, "milp", f"{folder}/chain.mps")
    ...     Path(folder, "chain.mps").read_text().splitlines()[3]
    'NAME peak_in_units_of_1_bytes'
    """
    if method not in _WRITERS:
        raise UsageError(
            f"export: found method {method!r}, expected one that builds a model: {', '.join(_WRITERS)}"
        )
    suffixes, write = _WRITERS[method]
    name = Path(path).name
    suffix = next((x for x in suffixes if name.endswith(x)), None)
    if suffix is None:
        raise UsageError(f"{path}: found another suffix, expected {', '.join(suffixes)} for method {method}")
    check_writable(path)
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        # CP-SAT writes text if and only if the name ends in "txt".
        draft = Path(folder) / ("model.pb.txt" if suffix == ".pbtxt" else f"model{suffix}")
        write(peak_data(problem), draft)
        write_whole(path, draft.read_bytes())


def _write_steps(data: PeakData, path: Path) -> None:
    _write_cpsat(peak_cpsat_steps.build(data, names=True).model, path)


def _write_positions(data: PeakData, path: Path) -> None:
    _write_cpsat(peak_cpsat_positions.build(data, names=True).model, path)


def _write_olla(data: PeakData, path: Path) -> None:
    _write_milp(peak_milp_olla.build(data).model, path)


def _write_milp_steps(data: PeakData, path: Path) -> None:
    _write_milp(peak_milp_steps.build(data).model, path)


def _write_milp(model: Any, path: Path) -> None:
    model.write(str(path), io_options={"symbolic_solver_labels": True})


def _write_cpsat(model: Any, path: Path) -> None:
    if not model.export_to_file(str(path)):
        raise RuntimeError("CP-SAT could not write the model")


_WRITERS: Mapping[str, tuple[tuple[str, ...], Callable[[PeakData, Path], None]]] = {
    "cpsat": (CPSAT_SUFFIXES, _write_steps),
    "cpsat-positions": (CPSAT_SUFFIXES, _write_positions),
    "milp": (MILP_SUFFIXES, _write_olla),
    "milp-steps": (MILP_SUFFIXES, _write_milp_steps),
}
