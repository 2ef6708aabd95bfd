"""Leaving out an edge of AutoTM's model, or a cost of its objective, is noticed."""

import pytest

import lowtide as lt
from lowtide.formulations.placement import autotm_milp as placement_autotm
from tests.oracles.autotm_rules import fastest
from tests.solvers.placement.test_autotm import case

CASES = [
    (problem := case(seed, in_place=in_place), fastest(problem, "async"))
    for seed in range(8)
    for in_place in (True, False)
]


def right() -> bool:
    """Whether all cases have their optima."""
    return all(lt.solve(problem, "autotm-async", threads=1).objective == best for problem, best in CASES)


def test_nothing_is_noticed_where_nothing_is_left_out() -> None:
    assert right()


def test_moves_that_cost_nothing_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_autotm, "_moves", lambda built, cost: None)
    assert not right()


@pytest.mark.parametrize(
    "kind", ["made-fast", "made-slow", "pinned", "stay-a", "stay-b", "stay-p", "write", "drop", "read"]
)
def test_leaving_out_an_edge_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = placement_autotm.path_edges
    monkeypatch.setattr(placement_autotm, "path_edges", lambda item: [e for e in edges(item) if e[0] != kind])
    assert not right()
