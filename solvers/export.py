"""Write the model that a method would solve, for other solvers, for reports and for bug reports."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..formulations.makespan import intervals_cpsat as makespan_cpsat
from ..formulations.makespan import ticks_milp as makespan_milp
from ..formulations.makespan.data import MakespanData, makespan_data
from ..formulations.offsets import (
    orders_milp as offsets_milp,
)
from ..formulations.offsets import (
    rectangles_cpsat as offsets_cpsat,
)
from ..formulations.offsets import (
    sections_cpsat as offsets_cpsat_sections,
)
from ..formulations.offsets.data import OffsetsData, offsets_data
from ..formulations.peak import (
    olla_milp as peak_milp_olla,
)
from ..formulations.peak import (
    olla_tensors_milp as peak_milp_olla_tensors,
)
from ..formulations.peak import (
    positions_cpsat as peak_cpsat_positions,
)
from ..formulations.peak import (
    steps_cpsat as peak_cpsat_steps,
)
from ..formulations.peak import (
    steps_milp as peak_milp_steps,
)
from ..formulations.peak.data import PeakData, peak_data
from ..formulations.recompute import (
    moccasin_cpsat as recompute_moccasin,
)
from ..formulations.recompute import (
    moments_milp as recompute_moments,
)
from ..formulations.recompute import (
    stages_milp as recompute_stages,
)
from ..formulations.recompute.data import in_ns, recompute_data
from ..models.errors import UsageError
from ..models.files import check_writable, write_whole
from ..models.problems.makespan import Makespan
from ..models.problems.offsets import Offsets
from ..models.problems.peak import Peak
from ..models.problems.problem import Problem
from ..models.problems.recompute import Recompute
from .recompute.models.moccasin import COPIES
from .recompute.models.moments import relaxed_data
from .recompute.models.paging import paging
from .solve import solve

MILP_SUFFIXES = (".mps", ".lp")
"""Formats of MILP models, by Pyomo, with the names of the formulation."""

CPSAT_SUFFIXES = (".pb.txt", ".pbtxt", ".pb")
"""Formats of CP-SAT models: protocol buffers as text, or binary."""

HORIZON_SECONDS = 60.0
"""For the list schedules whose makespan is the horizon of models of `makespan`."""


class MakespanWithin(NamedTuple):
    """The data of `makespan`, and the ticks within which a model looks for schedules."""

    data: MakespanData
    horizon: int


def export_model(
    problem: Problem, method: str, path: str | os.PathLike[str], *, part: int | None = None
) -> None:
    """Write the model of a method to a file, whole or not at all.

    All values in it are in the greatest common divisor of the sizes (and of the durations), see
    `lowtide.formulations.peak.data`, `lowtide.formulations.offsets.data`,
    `lowtide.formulations.makespan.data` and `lowtide.formulations.recompute.data`. It has no hint and no
    bounds but those of the formulation; models of `makespan` end with the best list schedule that is found
    within `HORIZON_SECONDS`. Of `recompute`, "checkmate", "moccasin" (at most `COPIES` runs of each op) and
    "poet" are models of schedules in partitioned stages, whose optimum is no bound on the problem; "moments"
    (those of a longest path) is a relaxation, whose optimum is one.

    Parameters
    ----------
    problem
        What the model states.
    method
        One that builds a model: for `peak` "milp", "milp-tensors", "milp-steps", "cpsat" or
        "cpsat-positions", for `offsets` "milp", "cpsat" or "cpsat-sections", for `makespan` "milp", "cpsat"
        or "cpsat-reservoir", for `recompute` "checkmate", "moccasin", "moments" or "poet".
    path
        Its suffix is the format: ``.mps`` or ``.lp`` for a MILP, ``.pb.txt`` (or ``.pbtxt``) or the
        binary ``.pb`` for CP-SAT.
    part
        Of `offsets`: pools, and stretches of time that no lifetime connects, are independent parts, each
        with a model of its own; which one, counted from 0 by pool, then time. Needed if there are several.

    Raises
    ------
    UsageError
        If the problem or the method has no model, the model is too large, the suffix is of another kind, the
        file cannot be written, or there is no such part, or none is named and there are several.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Peak(lt.load("catalogue:chain"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_model(problem, "milp", f"{folder}/chain.mps")
    ...     Path(folder, "chain.mps").read_text().splitlines()[3]
    'NAME peak_in_units_of_1_bytes'
    """
    if problem.name not in _WRITERS:
        raise UsageError(f"export: found problem {problem.name}, expected one of {', '.join(_WRITERS)}")
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
    data: PeakData | OffsetsData | MakespanWithin | Recompute
    if problem.name == Offsets.name:
        data = _chosen_part(cast(Offsets, problem), part)
    elif part is not None:
        raise UsageError(f"export: found part {part} of problem {problem.name}, expected none")
    elif problem.name == Makespan.name:
        data = _with_horizon(cast(Makespan, problem))
    elif problem.name == Recompute.name:
        data = _possible(cast(Recompute, problem))
    else:
        data = peak_data(cast(Peak, problem))
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


def _with_horizon(problem: Makespan) -> MakespanWithin:
    data = makespan_data(problem)
    known = solve(problem, "list", time_limit=HORIZON_SECONDS, threads=1).objective
    return MakespanWithin(data, data.horizon if known is None else known // data.tick)


def _possible(problem: Recompute) -> Recompute:
    if (why := problem.impossible()) is not None:
        raise UsageError(
            f"export: found a problem without schedules ({why}), expected one that may have some"
        )
    return problem


def _write_cumulative(item: MakespanWithin, path: Path) -> None:
    _write_cpsat(makespan_cpsat.build(item.data, horizon=item.horizon).model, path)


def _write_reservoir(item: MakespanWithin, path: Path) -> None:
    form = makespan_cpsat.RESERVOIR
    _write_cpsat(makespan_cpsat.build(item.data, horizon=item.horizon, form=form).model, path)


def _write_ticks(item: MakespanWithin, path: Path) -> None:
    _write_milp(makespan_milp.build(item.data, horizon=item.horizon).model, path)


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


def _write_stages(problem: Recompute, path: Path) -> None:
    _write_stages_model(recompute_stages.build(recompute_data(problem)), path)


def _write_paging(problem: Recompute, path: Path) -> None:
    data = recompute_data(problem)
    _write_stages_model(recompute_stages.build(in_ns(data), paging=paging(problem, data)), path)


def _write_stages_model(built: recompute_stages.StagesModel | None, path: Path) -> None:
    assert built is not None  # it takes the time that it needs
    _write_milp(built.model, path)


def _write_moments(problem: Recompute, path: Path) -> None:
    relaxed = relaxed_data(problem)
    if relaxed is None:
        raise UsageError(
            f"export: found machine {problem.machine.name!r}, whose processor accesses slower tiers, "
            "expected one that accesses the fast memory only: method moments has no model of others"
        )
    data, slower = relaxed
    built = recompute_moments.build(data, recompute_moments.longest_path(data), slower=slower)
    assert built is not None  # it takes the time that it needs
    _write_milp(built.model, path)


def _write_retentions(problem: Recompute, path: Path) -> None:
    _write_cpsat(recompute_moccasin.build(recompute_data(problem), copies=COPIES).model, path)


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
    Makespan.name: {
        "cpsat": (CPSAT_SUFFIXES, _write_cumulative),
        "cpsat-reservoir": (CPSAT_SUFFIXES, _write_reservoir),
        "milp": (MILP_SUFFIXES, _write_ticks),
    },
    Recompute.name: {
        "checkmate": (MILP_SUFFIXES, _write_stages),
        "moccasin": (CPSAT_SUFFIXES, _write_retentions),
        "moments": (MILP_SUFFIXES, _write_moments),
        "poet": (MILP_SUFFIXES, _write_paging),
    },
}
