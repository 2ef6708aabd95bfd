"""What `auto` does under a time limit it does first under a larger one: steps on a clock of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

import lowtide as lt
from lowtide.solvers.context import Context
from lowtide.solvers.placement import auto
from tests.placement_questions import TWO, steps

COSTS = {"setting": 3.0, "policy": 2.0, "bound": 5.0, "belady": 1.0, "slots": 11.0}
"""Seconds of each kind of step."""


@dataclass(kw_only=True)
class Clocked(Context):
    """A context whose clock goes on with steps only."""

    now: float = 0.0

    def elapsed(self) -> float:
        return self.now


def recorded(problem: lt.Placement, limit: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the steps that `auto` begins within a limit, where none finds anything."""
    context, begun = Clocked(problem=problem, time_limit=limit, threads=1), list[str]()

    def spend(name: str) -> None:
        begun.append(name)
        context.now += COSTS[name.split()[0]]

    def each(kind: str, many: int) -> Any:
        def some(*given: object, **more: object) -> Iterator[str]:
            for k in range(many):
                spend(f"{kind} {k}")
                yield ""

        return some

    def first(*given: object) -> str:
        return "no plan"

    monkeypatch.setattr(auto, "first_plan", first)
    monkeypatch.setattr(auto, "try_settings", each("setting", 9))
    monkeypatch.setattr(auto, "price_steps", each("bound", 5))
    monkeypatch.setattr(auto, "raise_by_prices", lambda *given, **more: None)
    monkeypatch.setattr(auto, "_slots_of_period", lambda parts: parts.run("slots", lambda: spend("slots")))
    monkeypatch.setattr(auto, "_slots", lambda *given: spend("slots"))
    monkeypatch.setattr(auto, "_follow", lambda *given: spend("policy"))
    monkeypatch.setattr(auto, "_without_planner", lambda parts: None)
    monkeypatch.setattr(auto, "_last_resorts", lambda parts: None)
    auto.solve_auto(problem, context)
    return begun


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("most_ops", [400, 0])
def test_a_larger_limit_begins_as_a_smaller_one(
    periodic: bool, most_ops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "MOST_OPS", most_ops)
    problem = lt.Placement(steps(), TWO, periodic=periodic)
    found = [recorded(problem, limit, monkeypatch) for limit in (2.0, 5.0, 10.0, 17.0, 40.0, 100.0)]
    for less, more in pairwise(found):
        assert more[: len(less)] == less
    assert len(found[0]) < len(found[2]) < len(found[-1])
    assert {name.split()[0] for name in found[-1]} >= {"setting"} | ({"bound"} if periodic else {"setting"})
    if periodic:  # neither plans nor bounds have to wait for the other's end
        assert {name.split()[0] for name in found[2]} == {"setting", "policy", "bound"}
