"""`auto` of recompute: its parts, each by itself."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.solvers.context import Context
from lowtide.solvers.portfolio import run
from lowtide.solvers.recompute.auto import PARTS
from lowtide.solvers.recompute.blocks import rockmate

BEST = 13
"""Ns that backprop-chain of five forwards takes in five cells, as the closed form of Revolve has it."""


def chain_problem() -> lt.Recompute:
    return lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_each_part_ends_by_itself_and_claims_nothing_false(part: object) -> None:
    problem = chain_problem()
    context = Context(problem=problem)
    outcome = run([x for x in PARTS if x is part], problem, context)
    assert "failed" not in outcome.detail
    assert not outcome.infeasible
    assert context.bound is None or context.bound <= BEST
    assert context.incumbent is None or context.incumbent >= BEST
    assert {turn.part for turn in context.known.turns} <= {part.name for part in PARTS}


@pytest.mark.parametrize("name", ["chain", "rules", "worst moment", "annealing", "rockmate", "tw-remat"])
def test_these_parts_find_a_fastest_schedule_alone(name: str) -> None:
    problem = chain_problem()
    context = Context(problem=problem)
    run([part for part in PARTS if part.name == name], problem, context)
    assert context.incumbent == BEST


def test_programs_within_blocks_that_were_cut_short_are_solved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rockmate, "FIRST", 1e-6)
    result = lt.solve(chain_problem(), "rockmate", time_limit=20, threads=1)
    assert result.objective == BEST
    assert result.reason is None


def test_ops_with_modes_are_no_question_for_parts_of_graphs() -> None:
    problem = lt.Recompute(lt.load("gen:taped-chain?l=6,seed=1"), memory=200)
    served = [part.name for part in PARTS if not part.refuses(problem)]
    assert served == ["store-all", "chain"]
