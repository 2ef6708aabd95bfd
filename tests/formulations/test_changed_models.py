"""Changes of formulations that are easily made by mistake: each changes the verdict of some small instance.

The instances are those that every constraint is tried on (`tests.formulations.cases`).
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.formulations.cases import arena, partition, recompute, streams
from tests.formulations.cases.case import NO_ANSWER, Case


class Change(NamedTuple):
    """A text of a formulation that stands there once, and what stands there instead."""

    case: str
    old: str
    new: str


CHANGES = [
    Change("arena rectangles", "if above < units:", "if 2 * above < units:"),
    Change("arena rectangles", "low = built.address[a] + above", "low = built.address[a] + above + 1"),
    Change("arena rectangles", "built.gone[k] - sum(used)", "built.gone[k]"),
    Change("partition latency", "(len(v.readers) + 1)", "len(v.readers)"),
    Change("partition latency", "sum(max(t or 0 for t in row)", "sum(min(t or 0 for t in row)"),
    Change("recompute stages", "(1, at.run), (-1, room)]", "(-1, room)]"),
    Change("streams stages", "users = sorted({*writers, *(", "users = sorted({*("),
    Change("streams stages", "[built.run_by(k, i) for i in w", "[built.run_by(k - 1, i) for i in w"),
]

CASES = {case.name: case for room in (arena, partition, recompute, streams) for case in room.CASES}


def changed(formulation: ModuleType, change: Change) -> ModuleType:
    source = inspect.getsource(formulation)
    assert source.count(change.old) == 1, change
    found = ModuleType(formulation.__name__)
    vars(found).update({k: vars(formulation)[k] for k in ("__file__", "__package__", "__spec__")})
    text = source.replace(change.old, change.new)
    exec(compile(text, formulation.__file__ or "", "exec"), vars(found))
    return found


def notices(case: Case, other: ModuleType) -> bool:
    for problem, must in case.battery():
        try:
            if case.verdict(other, problem) != (must or case.verdict(case.formulation, problem)):
                return True
        except NO_ANSWER:
            return True
    return False


@pytest.mark.slow(reason="a model for each instance until one tells")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.case}: {change.new}")
def test_an_instance_tells_a_changed_model(change: Change) -> None:
    case = CASES[change.case]
    assert notices(case, changed(case.formulation, change))
