"""Two-way labels: against exhaustive search; reduced trees, guides, merged labels, beams; refusals."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.models.arrays import Integers
from lowtide.models.errors import UsageError
from lowtide.solvers.context import Context
from lowtide.solvers.makespan.trees import two_way_method as makespan_two_way
from lowtide.solvers.makespan.trees.projection import Reduced, both_shapes, lightest_first, reduced
from lowtide.solvers.makespan.trees.two_way import PassResult, guided_pass, renumbering
from lowtide.solvers.trees.task_tree import TaskTree, task_tree
from tests.effort import seeds
from tests.oracles.brute_makespan import fastest_schedule
from tests.strategies import random_tree


def tight(rng: Random, n: int) -> lt.Makespan:
    """Return a problem with little memory."""
    graph = random_tree(rng, n, largest=rng.choice((3, 20)), reaches=(2, 4, n), light=True)
    peak = lt.solve(lt.Peak(graph), "liu").objective
    assert peak is not None
    return lt.Makespan(graph, rng.randint(2, 4), peak + rng.choice((0, 0, 1, 3, 6)))


def one_after_another(problem: lt.Makespan) -> list[int]:
    """Return the starts of a sequential schedule within the memory."""
    plan = lt.solve(lt.Peak(problem.graph), "liu").plan
    assert plan is not None
    starts, now = [0] * len(problem.graph.ops), 0
    for i in plan.order:
        starts[i] = now
        now += problem.graph.ops[i].duration_ns
    return starts


def as_graph(tree: TaskTree, some: Reduced) -> lt.Graph:
    """Return a reduced tree as a graph, from its definition: a node's bytes as it runs are those it had."""
    places = range(len(some.kept))
    children = [tuple(c for c in places if some.parent[c] == k) for k in places]
    ops = tuple(
        lt.Op(
            name=f"t{v}",
            duration_ns=tree.duration[v],
            workspace=tree.needed[v] - some.held[k] - sum(some.held[c] for c in children[k]),
            reads=children[k],
            writes=(k,),
        )
        for k, v in enumerate(some.kept)
    )
    tensors = tuple(lt.Tensor(name=f"d{v}", nbytes=some.held[k]) for k, v in enumerate(some.kept))
    return lt.Graph(name="reduced", tensors=tensors, ops=ops)


def a_pass(
    problem: lt.Makespan, tree: TaskTree, away: list[int], turn: int, below: int, **more: object
) -> PassResult:
    """Return what a pass finds; with a width that is never met, unless one is given."""
    some = reduced(tree, away)
    assert problem.memory is not None
    shape = both_shapes(tree, some, problem.count, problem.memory, 1)[turn]
    options: dict[str, object] = {"guide": None, "width": 10**6} | more
    found = guided_pass(
        some.kept,
        shape,
        below=below,
        stop=np.zeros(1, dtype=np.int64),
        expired=lambda: False,
        **options,  # type: ignore[arg-type]
    )
    assert found is not None
    return found


def test_reduced_trees_are_never_slower_and_sometimes_as_fast() -> None:
    equal = cut = 0
    for seed in range(60):
        rng = Random(seed)
        problem = tight(rng, rng.randint(3, 6))
        tree = task_tree(problem, "test")
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        assert best is not None
        away = rng.sample(range(tree.root), rng.randint(1, min(3, tree.root)))
        for count in range(1, len(away) + 1):
            some = reduced(tree, away[:count])
            alone = fastest_schedule(as_graph(tree, some), problem.count, problem.memory)
            assert alone is not None, f"seed {seed}"
            assert alone <= best, f"seed {seed}"
            best = alone
            equal += count == 1 and alone == best
            cut += any(0 < some.held[k] < tree.out[v] for k, v in enumerate(some.kept[:-1]))
    assert equal >= 10
    assert cut >= 10


@pytest.mark.parametrize("width", [10**6, 6, 2])
def test_same_as_exhaustive_search_or_a_bound_below_it(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loose = 0
    for seed in seeds(60, least=30):
        rng = Random(1000 + seed)
        problem = tight(rng, rng.randint(2, 7))
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        assert best is not None
        monkeypatch.setattr(makespan_two_way, "FIRST", rng.choice((1, 2, 4)))
        monkeypatch.setattr(makespan_two_way, "STEPS", rng.choice(((2, 6), (1, 1), (0, 2))))
        monkeypatch.setattr(makespan_two_way, "BEAM", rng.choice((1, 50)))
        monkeypatch.setattr(makespan_two_way, "WIDTH", width)
        monkeypatch.setattr(makespan_two_way, "WIDEST", 2 * width)
        context = Context(problem=problem)
        context.offer(one_after_another(problem))
        outcome = makespan_two_way.two_way(problem, context)
        assert outcome.reason is None
        assert context.bound is not None
        assert context.incumbent is not None
        assert context.bound <= best <= context.incumbent, f"seed {seed}"
        assert not problem.judge(context.answer).violations
        loose += not context.closed
    assert loose == 0 if width > 10 else loose < 30


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.slow
def test_the_rest_of_a_fastest_schedule_takes_as_long_as_the_guide_says(turn: int) -> None:
    looked = 0
    for seed in range(60):
        rng = Random(2000 + seed)
        problem = tight(rng, rng.randint(3, 10))
        tree = task_tree(problem, "test")
        found = lt.solve(problem, "label-setting", threads=1)
        assert found.objective is not None
        assert found.plan is not None
        starts, end = {r.op: r.start for r in found.plan.runs}, found.objective
        ends = {i: s + tree.duration[i] for i, s in starts.items()}
        order = lightest_first(tree)
        guide = a_pass(problem, tree, order[: rng.randint(0, tree.root)], turn, end + 1).guide
        assert guide is not None
        known = dict(zip(guide.sets.tolist(), guide.least.tolist(), strict=True))
        # As the pass sees it, and at each instant at which something ends as the other way sees it.
        when = starts if turn == 0 else {i: end - e for i, e in ends.items()}
        for t in {when[i] for i in guide.kept}:
            begun = [i for i in guide.kept if when[i] <= t]
            mask = sum(1 << k for k, i in enumerate(guide.kept) if when[i] <= t)
            assert known[mask] <= max(when[i] for i in begun), f"seed {seed}"
            looked += 1
    assert looked > 150


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.slow
def test_guides_lower_no_bound_and_keep_the_fastest_schedule(turn: int) -> None:
    fewer = 0
    for seed in range(40):
        rng = Random(3000 + seed)
        problem = tight(rng, 9)
        tree = task_tree(problem, "test")
        best = lt.solve(problem, "label-setting", threads=1).objective
        assert best is not None
        away = lightest_first(tree)[: rng.randint(0, 5)]
        first = a_pass(problem, tree, away, 1 - turn, best + 1)
        assert first.bound <= best
        plain = a_pass(problem, tree, [], turn, best + 1)
        guided = a_pass(problem, tree, [], turn, best + 1, guide=first.guide)
        assert plain.bound == guided.bound == best, f"seed {seed}"
        assert a_pass(problem, tree, [], turn, best, guide=first.guide).bound == best
        assert plain.guide is not None
        assert guided.guide is not None
        assert set(guided.guide.sets.tolist()) <= set(plain.guide.sets.tolist())
        fewer += len(guided.guide.sets) < len(plain.guide.sets)
    assert fewer >= 5


def with_long_light_ops(rng: Random, n: int) -> lt.Makespan:
    """Return a tree in which many ops have no bytes, so that long ones are taken away first."""
    reach = rng.choice((2, 4, n))
    parent = [rng.randint(i + 1, min(n - 1, i + reach)) for i in range(n - 1)]
    durations = [rng.choice((1, 2, 3, 6, 9)) for _ in range(n)]
    nbytes = [rng.choice((0, 0, 1, 5, 20)) for _ in range(n)]
    tensors = tuple(lt.Tensor(name=f"d{i}", nbytes=nbytes[i], final=i == n - 1) for i in range(n))
    ops = tuple(
        lt.Op(
            name=f"t{i}",
            duration_ns=durations[i],
            reads=tuple(c for c in range(i) if parent[c] == i),
            writes=(i,),
        )
        for i in range(n)
    )
    graph = lt.Graph(name="tree", tensors=tensors, ops=ops)
    peak = lt.solve(lt.Peak(graph), "liu").objective
    assert peak is not None
    return lt.Makespan(graph, rng.randint(2, 4), peak + rng.choice((0, 1, 5, 20)))


@pytest.mark.parametrize("seed", [110, 1528, 1574, 2064, *seeds(40, least=16)])
def test_long_ops_away_make_no_bound_too_high(seed: int) -> None:
    """With heads and tails of the whole tree the first four had bounds above the optimum."""
    rng = Random(seed)
    problem = with_long_light_ops(rng, rng.randint(7, 12))
    tree = task_tree(problem, "test")
    best = lt.solve(problem, "label-setting", threads=1).objective
    assert best is not None
    order, guide = lightest_first(tree), None
    turn, count, below = rng.randint(0, 1), rng.randint(3, tree.n - 1), best + rng.choice((1, 1, 1, 2, 5))
    for _ in range(4):
        found = a_pass(problem, tree, order[: tree.n - count], turn, below, guide=guide, width=100_000)
        assert found.bound <= best
        if found.guide is None:
            break
        guide, turn, count = found.guide, 1 - turn, min(tree.n, count + rng.choice((0, 1, 2)))


@pytest.mark.slow
def test_beams_bound_what_they_drop() -> None:
    found = proven = 0
    for seed in range(40):
        rng = Random(4000 + seed)
        problem = tight(rng, 8)
        tree = task_tree(problem, "test")
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        assert best is not None
        beam = a_pass(problem, tree, [], seed % 2, 10**6, width=2, beam=True)
        assert beam.bound <= best
        assert not beam.merged
        found += beam.starts is not None
        proven += beam.bound == best
    assert found >= 30
    assert proven >= 3


def test_masks_are_renumbered() -> None:
    rng = Random(1)
    wide = sorted(rng.sample(range(62), 40))
    narrow = sorted(rng.sample(wide, 17))
    masks: Integers = np.array([rng.getrandbits(40) for _ in range(50)])
    expected = [sum(1 << k for k, v in enumerate(narrow) if m >> wide.index(v) & 1) for m in masks.tolist()]
    assert renumbering(wide, narrow)(masks).tolist() == expected


def test_fifty_ops_on_four_processors_with_the_least_memory() -> None:
    """The load bound is 13,819; it was 49% apart before there were two-way labels."""
    graph = lt.load("gen:tasks?shape=tree&n=50&cores=4&seed=2")
    result = lt.solve(lt.Makespan(graph, 4, 76), "two-way-labels", threads=1)
    assert (result.status, result.objective, result.bound) == (lt.Status.OPTIMAL, 26861, 26861)


@pytest.mark.slow
def test_trees_with_too_many_ops_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(makespan_two_way, "MOST_OPS", 5)
    monkeypatch.setattr(makespan_two_way, "FIRST", 2)
    tight_ones = 0
    for seed in range(30):
        problem = tight(Random(5000 + seed), 8)
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        assert best is not None
        context = Context(problem=problem)
        before = context.offer(one_after_another(problem))
        makespan_two_way.two_way(problem, context)
        assert context.bound is not None
        assert context.bound <= best
        assert context.incumbent == before
        tight_ones += context.bound == best
    assert tight_ones >= 3


def test_two_threads_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowtide.solvers.makespan.labels import steps

    monkeypatch.setattr(steps, "SPLIT", 10)
    problem = tight(Random(7), 14)
    tree = task_tree(problem, "test")
    one, two = (a_pass(problem, tree, [], 0, 10**6, threads=k) for k in (1, 2))
    assert one.starts == two.starts
    assert one.bound == two.bound


def test_stops_at_once() -> None:
    problem = tight(Random(3), 9)
    context = Context(problem=problem, time_limit=0)
    context.offer(one_after_another(problem))
    assert makespan_two_way.two_way(problem, context).reason == "time"
    assert context.bound is None


def test_other_graphs_are_refused() -> None:
    long = lt.Makespan(lt.load("gen:intree?n=63&seed=1"), 2, 10**9)
    with pytest.raises(UsageError, match="found 63 ops, expected at most 62"):
        lt.solve(long, "two-way-labels")
    other = lt.Makespan(lt.load("gen:randwire?n=16&seed=1"), 2, 10**9)
    with pytest.raises(UsageError, match="expected"):
        lt.solve(other, "two-way-labels")
    assert makespan_two_way.no_two_way(other)
    assert not makespan_two_way.no_two_way(tight(Random(1), 5))
