"""Parts of parts of a training step, and `hiremate`: against exhaustive search and what it promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.recompute import layers_milp
from lowtide.formulations.recompute.data import levels, recompute_data, time_of
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs import solve_highs
from lowtide.solvers.recompute.blocks import hiremate
from lowtide.solvers.recompute.blocks.parts import parts
from tests.oracles.brute_layers import Run, judged
from tests.solvers.recompute.layers import STEPS, layers, slower_than_once, tight
from tests.strategies import random_graph

FEW = {"save-budgets": "3", "peak-budgets": "2", "leaf": "2", "parts": "4"}


@pytest.mark.slow
def test_never_faster_than_exhaustive_search() -> None:
    specs = [f"gen:{kind}?n={n},train=1,seed={k}" for kind, n in (("sp", 4), ("chain", 4)) for k in range(2)]
    graphs = [lt.load(spec) for spec in specs]
    graphs += [random_graph(Random(seed), min_ops=4, max_ops=6, max_tensors=7) for seed in range(3)]
    assert slower_than_once(graphs, 70, "hiremate", FEW) >= 1


def promised(problem: lt.Recompute, options: dict[str, object]) -> list[tuple[int | None, int, int]]:
    """Of each solution of the first program at the top: its ticks, those of its runs, the units they need."""
    data = recompute_data(problem)
    context = Context(problem=problem, time_limit=None, options=options)
    known: hiremate.Known = {}
    top = hiremate.level_of(data, None, 3, context, known)
    assert top is not None
    ways, _ = hiremate.options_of(known, context)
    stated = hiremate.layers_of(top, ways, data.memory, 0)
    found: list[tuple[int | None, int, int]] = []

    def read(value: Callable[[object], float]) -> None:
        passes = dict[int, list[Run]]()
        steps = layers_milp.decode(built, value)
        for step in steps:
            kind = "back" if step.is_back else "forward"
            passes.setdefault(step.turn, []).append((kind, step.layer, step.option))
        runs = list(hiremate.runs_of(steps, top, ways))
        ticks = judged(stated, list(passes.values()))
        found.append((ticks, time_of(data, runs), max(levels(data, runs))))

    built = layers_milp.build(stated)
    solve_highs(built.model, Context(problem=problem, time_limit=None), decode=read, to_objective=lambda _: 0)
    return found


WITHIN: dict[str, object] = {
    "save-budgets": 3,
    "peak-budgets": 2,
    "leaf": 3,
    "parts": 4,
    "programs": "moment",
}


@pytest.mark.slow
@pytest.mark.parametrize("leaf", [1, 3])
def test_what_the_program_at_the_top_counts_is_enough(leaf: int) -> None:
    """Its ticks are those of the schedule, which fits the memory that it was given; initial bytes stay."""
    again = 0
    graphs = [layers([(2, 6), (1, 3)] * 2, [(2, 3)] * 4), lt.load("gen:chain?n=8,train=1,seed=1")]
    for graph, percent in product(graphs, (30, 85)):
        problem = tight(graph, percent)
        data = recompute_data(problem)
        for ticks, runs, needed in promised(problem, {**WITHIN, "leaf": leaf}):
            assert runs == ticks
            assert needed <= data.memory
            again += runs > sum(data.duration)
    assert again >= 1


def test_parts_cover_the_step_in_order() -> None:
    for spec in (*STEPS, "catalogue:llama-block-train", "catalogue:unet-4-train"):
        data = recompute_data(lt.Recompute(lt.load(spec.format(0))))
        found = parts(data, None, least=3, most=5, leaf=2)
        assert found is not None
        assert 3 <= len(found.blocks) <= 5
        forward = [i for block in found.blocks for i in block.forward]
        backward = [i for block in reversed(found.blocks) for i in block.backward]
        assert forward + backward == list(range(data.n))
        sizes = [len(block.forward) for block in found.blocks]
        assert max(sizes) <= 3 * (min(sizes) + 1)
        for block, behind in pairwise(found.blocks):
            assert block.forward.stop == behind.forward.start


def test_values_between_parts_are_those_that_others_read() -> None:
    graph = lt.load("catalogue:unet-4-train")
    data = recompute_data(lt.Recompute(graph))
    found = parts(data, None, least=3, most=5, leaf=2)
    assert found is not None
    behind = found.blocks[-1].forward.start
    own = (x for u, x in enumerate(data.values) if u not in found.kept)
    stays = next(data.tensors[x.tensor] for x in own if x.writer is not None and x.writer < behind)
    tensors = [replace(x, final=x.final or t in stays) for t, x in enumerate(graph.tensors)]
    data = recompute_data(lt.Recompute(replace(graph, tensors=tuple(tensors))))
    found = parts(data, None, least=3, most=5, leaf=2)
    assert found is not None
    assert any(data.values[u].final for u in found.kept)
    behind = found.blocks[-1].forward.start
    for u, x in enumerate(data.values):
        if x.writer is None or x.writer >= behind:
            assert u not in found.kept
            continue
        home = next(block for block in found.blocks if x.writer in block.forward)
        mine = {*home.forward, *home.backward}
        assert (u in found.kept) == (x.final or not mine.issuperset(x.readers))


def test_parts_that_are_the_same_are_solved_once() -> None:
    """Twice as many equal layers, cut into parts of one layer each: no more programs below the top."""
    facts = []
    for n in (4, 8):
        graph = layers([(2, 6)] * n, [(2, 3)] * n)
        options = {**FEW, "leaf": "1", "parts": "8"}
        facts.append(lt.solve(tight(graph, 50), "hiremate", time_limit=None, options=options).facts)
    assert facts[0]["parts"] * 2 == facts[1]["parts"]
    assert facts[0]["different_parts"] == facts[1]["different_parts"]


@pytest.mark.slow  # a graph of 90 ops
def test_where_rockmate_has_one_block_parts_are_faster() -> None:
    """A U-Net, whose skips leave no cut that one value crosses."""
    problem = tight(lt.load("catalogue:unet-4-train"), 55)
    options = {"save-budgets": "2", "peak-budgets": "1"}
    found = [lt.solve(problem, name, time_limit=None, options=options) for name in ("hiremate", "rockmate")]
    parts_, blocks = (result.objective for result in found)
    assert parts_ is not None
    assert blocks is not None
    assert problem.least_time < parts_ < blocks
