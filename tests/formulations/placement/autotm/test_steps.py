"""Leaving out a kind of step of AutoTM's model, or a cost of its objective, is noticed."""

from collections.abc import Callable

import pytest

import lowtide as lt
from lowtide.formulations.placement.autotm import walks_milp as autotm_milp
from lowtide.formulations.placement.autotm.data import AutotmData
from lowtide.formulations.placement.autotm.items import TierPath
from lowtide.formulations.placement.autotm.steps import Role, Transition
from tests.oracles.autotm_rules import fastest
from tests.solvers.placement.autotm.cases import case

CASES = [
    (problem := case(seed, in_place=in_place), fastest(problem, "async"))
    for seed in range(8)
    for in_place in (True, False)
]


def right() -> bool:
    """Whether the MILP alone has the optima of all cases."""
    options = {"rounds": "0"}
    return all(
        lt.solve(problem, "autotm-async", threads=1, options=options).objective == best
        for problem, best in CASES
    )


def test_nothing_is_noticed_where_nothing_is_left_out() -> None:
    assert right()


def test_moves_that_cost_nothing_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotm_milp, "_moves", lambda built, cost: None)
    assert not right()


KINDS: dict[str, Callable[[Transition], bool]] = {
    "made in the fast memory": lambda s: s.src == 0 and s.use == 0,
    "made in the slow memory": lambda s: s.src == 0 and s.use == 1,
    "stays alone": lambda s: (s.src, s.dst) == (1, 1),
    "stays with a copy": lambda s: (s.src, s.dst, s.before) == (3, 3, ()),
    "stays in the slow memory": lambda s: (s.src, s.dst, s.before) == (2, 2, ()),
    "outward behind an op": lambda s: s.behind != (),
    "outward beside an op": lambda s: (0, 1) in s.beside,
    "inward before an op": lambda s: s.before != (),
    "inward beside an op": lambda s: (1, 0) in s.beside,
    "dropped": lambda s: s.src == 3 and s.dst == 2,
}


@pytest.mark.parametrize("kind", KINDS)
def test_leaving_out_a_step_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = AutotmData.steps

    def fewer(data: AutotmData, walk: TierPath, i: int) -> list[Transition]:
        some = steps(data, walk, i)
        return (
            some if walk.points[i].role in (Role.START, Role.END) else [s for s in some if not KINDS[kind](s)]
        )

    monkeypatch.setattr(AutotmData, "steps", fewer)
    assert not right()


def test_leaving_out_pinned_walks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = AutotmData.steps
    monkeypatch.setattr(
        AutotmData,
        "steps",
        lambda data, walk, i: [] if walk.pinned and not walk.fixed else steps(data, walk, i),
    )
    assert not right()
