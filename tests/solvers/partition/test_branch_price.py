"""Stages in any order as columns: against exhaustive search, with branching, and two public inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.partition.data import partition_data
from lowtide.instances import load_problem
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.partition import auto
from lowtide.solvers.partition.branch_price import KIND, ColumnSearch, Pricing, Rule, solve_branch_price
from tests.effort import seeds
from tests.oracles.brute_partition import best
from tests.problems.partition import random_partition


def tight(seed: int) -> lt.Partition:
    """Return six ops of like times, each with a weight, on two accelerators and the host."""
    rng = Random(seed)
    g = lt.GraphBuilder()
    for i in range(6):
        reads = [f"x{j}" for j in range(i) if rng.random() < 0.3]
        weight = g.tensor(f"w{i}", rng.randint(0, 4), initial=True, final=True)
        output = g.tensor(f"x{i}", rng.choice((0, 0, 1, 3)))
        modes = [lt.Mode(duration_ns=rng.randint(3, 9), processors=("acc",))]
        modes.append(lt.Mode(duration_ns=rng.randint(5, 15), processors=("cpu",)))
        g.op(f"o{i}", reads=[*reads, weight], writes=[output], modes=modes)
    devices = {"acc": 2, "cpu": 1}
    return lt.Partition(g.build(), devices, rng.choice((None, 5, 8)), 10**9, contiguous=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [37, 45])
def test_it_branches_on_pairs_and_kinds(seed: int) -> None:
    problem = tight(seed)
    result = lt.solve(problem, "branch-price", threads=1)
    assert result.facts["nodes"] > 2
    assert result.objective == result.bound == best(problem)


def price_of_the_best(
    problem: lt.Partition, kind: str, prices: Sequence[int], most: int, rules: Sequence[Rule]
) -> int:
    """Return the highest price of a stage, by the letter, over all sets of ops."""
    ops, found = problem.graph.ops, 0
    k = [name for name, _ in problem.kinds].index(kind)
    for some in (set(x) for r in range(1, 7) for x in combinations(range(6), r)):
        load = sum(problem.modes[i][kind][0] for i in some)
        for i, op in enumerate(ops):
            near = {i, *(j for j, other in enumerate(ops) if op.writes[0] in other.reads)}
            if kind == "acc" and some & near and near - some:
                load += problem.graph.tensors[op.writes[0]].nbytes
        held = sum(problem.graph.tensors[t].nbytes for i in some for t in ops[i].reads[-1:])
        fits = kind == "cpu" or problem.memory is None or held <= problem.memory
        kept = (
            ((a in some) == (b in some) if holds else not {a, b} <= some)
            if b is not None
            else a not in some or (on == k) == holds
            for a, b, on, holds in rules
        )
        if load <= most and fits and all(kept):
            found = max(found, sum(prices[i] for i in some))
    return found


def test_no_stage_has_a_higher_price() -> None:
    for seed in seeds(8):
        problem, rng = tight(seed), Random(seed)
        search = ColumnSearch(problem=problem, data=partition_data(problem), context=Context(problem=problem))
        prices, most = tuple(rng.randint(-5, 9) for _ in range(6)), rng.randint(5, 30)
        a, b = sorted(rng.sample(range(6), 2))
        on_kind = Rule(rng.randrange(6), None, rng.randrange(2), seed % 2 > 0)
        rules = (Rule(a, b, 0, rng.random() < 0.5), on_kind)
        for k, (kind, _) in enumerate(problem.kinds):
            found = Pricing(search, k, rules, most).highest(prices, 10)
            assert found == (price_of_the_best(problem, kind, prices, most, rules), True), (seed, kind)
        assert all(column.load <= most for column in search.columns)


def test_a_price_that_is_not_proved_is_a_bound() -> None:
    problem = load_problem(lt.Partition, "catalogue:layers/bert24-inference", contiguous="no")
    data = partition_data(problem)
    prices = tuple(max(t or 0 for t in row) for row in data.times)
    found = []
    for effort in (0.001, 10.0):
        search = ColumnSearch(problem=problem, data=data, context=Context(problem=problem))
        price = Pricing(search, 0, (), 17_000_000).highest(prices, effort)
        assert price is not None
        found.append((*price, max(sum(prices[c] for c in x.classes) for x in search.columns)))
    (early, _, known), (late, exact, best_known) = found
    assert exact
    assert late == best_known >= known
    assert early >= late


@pytest.mark.parametrize("seed", [3, 8, 19, 25])
def test_prices_that_add_up_to_as_much_prove_nothing(seed: int) -> None:
    problem = tight(seed)
    result = lt.solve(problem, "branch-price", threads=1)
    assert result.objective == result.bound == best(problem)


@pytest.mark.slow
def test_without_all_rounds_there_is_no_proof() -> None:
    problem = tight(45)
    optimum, whole = best(problem), Context(problem=problem)
    assert solve_branch_price(problem, whole).reason is None
    for rounds in (0, 1, 4, 11):
        context = Context(problem=problem)
        solve_branch_price(problem, context, rounds=rounds)
        assert optimum is not None
        assert context.incumbent is not None
        assert context.bound is not None
        assert context.bound <= optimum <= context.incumbent, rounds
        assert context.bound < context.incumbent, rounds


def test_other_questions_are_refused() -> None:
    for change in ({"contiguous": True}, {"objective": "time"}, {"replicate": 2}):
        result = lt.solve(replace(tight(0), **change), "branch-price", threads=1)
        assert (result.status, "any order" in (result.detail or "")) == ("unknown", True), change


def test_optima_of_stages_in_any_order() -> None:
    for seed in seeds(24):
        problem = replace(random_partition(seed), schedule="none", recompute="none", replicate=1)
        problem = replace(problem, contiguous=False)
        result, expected = lt.solve(problem, "branch-price", threads=1), best(problem)
        assert result.objective == expected, seed
        assert result.status == ("infeasible" if expected is None else "optimal"), seed


@pytest.mark.slow  # a public input of 28 classes; table partition_optima has the other one
def test_bert_24_in_any_order() -> None:
    problem = load_problem(lt.Partition, "catalogue:layers/bert24-training", contiguous="no")
    result = lt.solve(problem, "branch-price", threads=1, time_limit=None)
    assert (result.objective, result.bound, result.bound_kind) == (39_789_548, 39_789_548, KIND)


def test_auto_tells_prices_to_have_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It proves BERT-24 of 28 classes; in a third of the time it may not, and the MILP beside it does not."""
    limits: list[float] = []

    def priced(problem: lt.Partition, context: Context, *, rounds: int | None) -> Outcome:
        limits.append(context.time_limit or 0)
        assert rounds is None
        context.raise_bound(context.incumbent or 0, kind=KIND)
        return Outcome()

    monkeypatch.setattr(auto, "solve_branch_price", priced)
    for name in ("bert24-inference", "gnmt-inference"):
        problem = load_problem(lt.Partition, f"catalogue:layers/{name}", contiguous="no")
        lt.solve(problem, threads=1, time_limit=3000)
    assert len(limits) == 2
    assert min(limits) > 2000
