"""Write the model that a method would solve, for other solvers, for reports and for bug reports."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from ..formulations import (
    offsets_cpsat,
    offsets_cpsat_sections,
    offsets_milp,
    peak_cpsat_positions,
    peak_cpsat_steps,
    peak_milp_olla,
    peak_milp_olla_tensors,
    peak_milp_steps,
)
from ..formulations.offsets_data import OffsetsData, offsets_data
from ..formulations.peak_data import PeakData, peak_data
from ..models.errors import UsageError
from ..models.files import check_writable, write_whole
from ..models.problem import Offsets, Peak, Problem

MILP_SUFFIXES = (".mps", ".lp")
"""Formats of MILP models, by Pyomo, with the names of the formulation."""

CPSAT_SUFFIXES = (".pb.txt", ".pbtxt", ".pb")
"""Formats of CP-SAT models: protocol buffers as text, or binary."""


def export_model(
    problem: Problem, method: str, path: str | os.PathLike[str], *, part: int | None = None
) -> None:
    """Write the model of a method to a file, whole or not at all.

    All values in it are in the greatest common divisor of the sizes, see `lowtide.formulations.peak_data`
    and `lowtide.formulations.offsets_data`. It has no hint and no bounds but those of the formulation.

    Parameters
    ----------
    problem
        What the model states.
    method
        One that builds a model: for `peak` "milp", "milp-tensors", "milp-steps", "cpsat" or
        "cpsat-positions", for `offsets` "milp", "cpsat" or "cpsat-sections".
    path
        Its suffix is the format: ``.mps`` or ``.lp`` for a MILP, ``.pb.txt`` (or ``.pbtxt``) or the
        binary ``.pb`` for CP-SAT.
    part
        Of `offsets`: pools, and stretches of time that no lifetime connects, are independent parts, each
        with a model of its own; which one, counted from 0 by pool, then time. Needed if there are several.

    Raises
    ------
    UsageError
        If the method builds no model, the suffix is of another kind, the file cannot be written, or there
        is no such part, or none is named and there are several.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Peak(lt.load("catalogue:chain"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_model(problem, "milp", f"{folder}/chain.mps")
    ...     Path(folder, "chain.mps").read_text().splitlines()[3]
    'NAME peak_in_units_of_1_bytes'
    """
    writers = _WRITERS[problem.name]
    if method not in writers:
        raise UsageError(
            f"export: found method {method!r}, expected one that builds a model: {', '.join(writers)}"
        )
    suffixes, write = writers[method]
    name = Path(path).name
    suffix = next((x for x in suffixes if name.endswith(x)), None)
    if suffix is None:
        raise UsageError(f"{path}: found another suffix, expected {', '.join(suffixes)} for method {method}")
    check_writable(path)
    data: PeakData | OffsetsData
    if problem.name == Offsets.name:
        data = _chosen_part(cast(Offsets, problem), part)
    elif part is None:
        data = peak_data(cast(Peak, problem))
    else:
        raise UsageError(f"export: found part {part} of problem {problem.name}, expected none")
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        # CP-SAT writes text if and only if the name ends in "txt".
        draft = Path(folder) / ("model.pb.txt" if suffix == ".pbtxt" else f"model{suffix}")
        write(data, draft)
        write_whole(path, draft.read_bytes())


def _chosen_part(problem: Offsets, part: int | None) -> OffsetsData:
    parts = offsets_data(problem.buffers)
    if part is None and len(parts) == 1:
        return parts[0]
    if part is not None and 0 <= part < len(parts):
        return parts[part]
    if not parts:
        raise UsageError("export: found no buffer with bytes, expected one")
    listed = [f"{k}: {_described(problem, data)}" for k, data in enumerate(parts[:8])]
    if len(parts) > 8:
        listed.append("…")
    found = "no part" if part is None else f"part {part}"
    raise UsageError(
        f"export: found {found}, expected one of {len(parts)} independent parts ({'; '.join(listed)})"
    )


def _described(problem: Offsets, data: OffsetsData) -> str:
    own = [problem.buffers.buffers[i] for i in data.numbers.tolist()]
    times = f"times {min(b.lower for b in own)} to {max(b.upper for b in own)}"
    pool = f", pool {data.pool!r}" if data.pool else ""
    return f"{data.count} buffer{'s' * (data.count > 1)}, {times}{pool}"


def _write_steps(data: PeakData, path: Path) -> None:
    _write_cpsat(peak_cpsat_steps.build(data, names=True).model, path)


def _write_positions(data: PeakData, path: Path) -> None:
    _write_cpsat(peak_cpsat_positions.build(data, names=True).model, path)


def _write_olla(data: PeakData, path: Path) -> None:
    _write_milp(peak_milp_olla.build(data).model, path)


def _write_olla_tensors(data: PeakData, path: Path) -> None:
    _write_milp(peak_milp_olla_tensors.build(data).model, path)


def _write_milp_steps(data: PeakData, path: Path) -> None:
    _write_milp(peak_milp_steps.build(data).model, path)


def _write_rectangles(data: OffsetsData, path: Path) -> None:
    _write_cpsat(offsets_cpsat.build(data, names=True).model, path)


def _write_sections(data: OffsetsData, path: Path) -> None:
    _write_cpsat(offsets_cpsat_sections.build(data, names=True).model, path)


def _write_orders(data: OffsetsData, path: Path) -> None:
    _write_milp(offsets_milp.build(data).model, path)


def _write_milp(model: Any, path: Path) -> None:
    model.write(str(path), io_options={"symbolic_solver_labels": True})


def _write_cpsat(model: Any, path: Path) -> None:
    if not model.export_to_file(str(path)):
        raise RuntimeError("CP-SAT could not write the model")


Writer = tuple[tuple[str, ...], Callable[[Any, Path], None]]

_WRITERS: Mapping[str, Mapping[str, Writer]] = {
    Peak.name: {
        "cpsat": (CPSAT_SUFFIXES, _write_steps),
        "cpsat-positions": (CPSAT_SUFFIXES, _write_positions),
        "milp": (MILP_SUFFIXES, _write_olla),
        "milp-tensors": (MILP_SUFFIXES, _write_olla_tensors),
        "milp-steps": (MILP_SUFFIXES, _write_milp_steps),
    },
    Offsets.name: {
        "cpsat": (CPSAT_SUFFIXES, _write_rectangles),
        "cpsat-sections": (CPSAT_SUFFIXES, _write_sections),
        "milp": (MILP_SUFFIXES, _write_orders),
    },
}
