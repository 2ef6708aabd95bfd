"""A known schedule as one in stages, and as values of the variables of `stages_milp`."""

from __future__ import annotations

from collections.abc import Sequence

from .data import RecomputeData, fits
from .stages_milp import StagesModel


def stages_of(data: RecomputeData, runs: Sequence[int]) -> list[list[int]] | None:
    """Return the ops that each stage of the partitioned form runs, or None if it is none of its schedules.

    Within a stage the ops are put in the reference order; a schedule within the memory is what counts.
    """
    stages: list[list[int]] = [[]]
    for i in runs:
        t = len(stages) - 1
        if i > t or i in stages[t]:
            return None
        if i == t or data.useful[i] >= t:
            stages[t].append(i)
        if i == t:
            stages.append([])
    if stages.pop() or len(stages) < data.n:
        return None
    return [sorted(stage) for stage in stages]


def _needed_after(built: StagesModel, chosen: set[tuple[int, int]]) -> list[list[bool]]:
    """Return by place whether each value is needed after it."""
    data = built.data
    needed = [x.final for x in data.values]
    after: list[list[bool]] = []
    for place in reversed(built.places):
        after.append(list(needed))
        if (place.stage, place.op) in chosen:
            for u in data.writes[place.op]:
                needed[u] = False
            for u in data.reads[place.op]:
                needed[u] = True
    return after[::-1]


def set_values(built: StagesModel, hint: Sequence[int]) -> None:
    """Give every variable its value in a schedule with early discards; nothing if the runs are none."""
    data = built.data
    stages = stages_of(data, hint) if built.partitioned else _ascending(hint)
    if stages is None or not fits(data, [i for stage in stages for i in stage]):
        return
    if not built.partitioned and len(stages) > built.places[-1].stage + 1:
        return
    chosen = {(t, i) for t, stage in enumerate(stages) for i in stage}
    values = data.values
    before = [x.at_start for x in values]
    for place, now in zip(built.places, _needed_after(built, chosen), strict=True):
        runs = (place.stage, place.op) in chosen
        if not isinstance(place.run, int):
            place.run.set_value(int(runs))
        for u, variable in place.kept:
            variable.set_value(int(now[u]))
        for u, variable in place.held:
            variable.set_value(int(runs or any(before[v] for v in (u, *values[u].rivals))))
        for u in data.touches[place.op]:
            before[u] = now[u]
        level = sum(x.nbytes for x, there in zip(values, before, strict=True) if there)
        place.level.set_value(level * built.scale)
    for unused in (built.model.X, built.model.G):
        for variable in unused.values():
            variable.set_value(0)


def _ascending(runs: Sequence[int]) -> list[list[int]]:
    """Return the runs cut where an op follows a larger one, or itself."""
    stages: list[list[int]] = []
    for i in runs:
        if not stages or i <= stages[-1][-1]:
            stages.append([])
        stages[-1].append(i)
    return stages
