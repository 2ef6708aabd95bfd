"""Leaving out a constraint of AutoTM's model, or a cost of its objective, is noticed."""

from collections.abc import Callable
from typing import Any

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
PARTS = {
    "1-paths": ("_paths", slice(None)),
    "3-modes": ("_modes", slice(None)),
    "4-memory": ("_memory", slice(None)),
    "5-time-of-ops": ("_slots", slice(0, None, 2)),
    "6-time-of-copies-beside": ("_slots", slice(1, None, 2)),
}
"""The function that adds the rows of a constraint, and which of its rows these are."""


def right() -> bool:
    """Whether all cases have their optima."""
    return all(lt.solve(problem, "autotm-async", threads=1).objective == best for problem, best in CASES)


def without(part: Callable[..., Any], rows: slice) -> Callable[..., Any]:
    def build(built: Any, *others: Any) -> Any:
        before = len(built.model.rows)
        result = part(built, *others)
        for number in list(built.model.rows)[before:][rows]:
            built.model.rows[number].deactivate()
        return result

    return build


def test_nothing_is_noticed_where_nothing_is_left_out() -> None:
    assert right()


@pytest.mark.parametrize("name", PARTS)
def test_leaving_out_a_constraint_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, rows = PARTS[name]
    monkeypatch.setattr(placement_autotm, function, without(getattr(placement_autotm, function), rows))
    assert not right()


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
