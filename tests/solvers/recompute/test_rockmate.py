"""Blocks of a training step, programs within them, and `rockmate`: against exhaustive search and rotor."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.recompute.data import levels, recompute_data
from lowtide.solvers.recompute.blocks.cutting import cut
from lowtide.solvers.recompute.blocks.within import sweeps_of, way_of, within
from lowtide.solvers.recompute.heuristics.segments import turn
from tests.effort import seeds
from tests.oracles.brute_recompute import fastest_recomputation
from tests.problems.recompute import needed
from tests.solvers.recompute.layers import STEPS, layers, slower_than_once, tight
from tests.strategies import random_graph

FEW = {"save-budgets": "4", "peak-budgets": "2"}


@pytest.mark.parametrize("accounting", ["coexist", "replace"])
def test_on_plain_chains_it_is_rotor(accounting: str) -> None:
    """Blocks are single layers there: the best persistent schedule."""
    tried, turns = 0, set()
    for l in range(2, 6):  # noqa: E741
        for seed in range(2):
            spec = f"gen:backprop-chain?l={l},seed={seed},forward=3,backward=4,spread=3"
            graph = lt.load(f"{spec},accounting={accounting}")
            turns.add(turn(recompute_data(lt.Recompute(graph))) - l)
            for percent in (20, 60):
                problem = tight(graph, percent)
                found = lt.solve(problem, "rockmate", time_limit=None)
                assert found.objective == lt.solve(problem, "hetero-chain", time_limit=None).objective, (
                    spec,
                    percent,
                )
                tried += found.objective is not None and found.objective > problem.least_time
    assert tried >= 6
    assert turns == ({0} if accounting == "coexist" else {-1})


@pytest.mark.slow  # ten chains, each beside exhaustive search
def test_on_chains_of_single_layers_it_is_the_optimum() -> None:
    again = 0
    for seed in range(10):
        rng = Random(seed)
        n = rng.randint(3, 4)
        sizes = [(rng.randint(1, 3), rng.randint(1, 6)) for _ in range(n)]
        graph = layers(sizes, [(rng.randint(1, 4), rng.randint(1, 4)) for _ in range(n)])
        problem = tight(graph, rng.randint(30, 90))
        found = lt.solve(problem, "rockmate", time_limit=None, options=FEW)
        assert found.objective == fastest_recomputation(graph, problem.machine), seed
        again += found.objective is not None and found.objective > problem.least_time
    assert again >= 3


OVERWRITTEN = (126, 406, 2103)
"""Seeds of graphs in which a second run of what a part needs destroys what is read later."""


def overwritten(seed: int) -> lt.Recompute | None:
    """A random graph in less memory than each op once needs; None where nothing is to be decided."""
    rng = Random(seed)
    graph = random_graph(rng, min_ops=3, max_ops=7, max_tensors=7, max_duration=5)
    whole = lt.Recompute(graph)
    least = max(whole.start_bytes, *(whole.least_bytes(i) for i in range(len(graph.ops))))
    most = needed(graph)
    return lt.Recompute(graph, memory=rng.randrange(least, most)) if least < most else None


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rockmate", "hiremate", "tw-remat"])
def test_graphs_whose_tensors_are_written_again_never_fail(method: str) -> None:
    """Both accountings, in less memory than each op once needs: an answer, or none, and no false proof."""
    answers = 0
    for seed in (*OVERWRITTEN, *seeds(100, least=40)):
        problem = overwritten(seed)
        if problem is None:
            continue
        found = lt.solve(
            problem, method, time_limit=None, threads=1, options=FEW if method != "tw-remat" else {}
        )
        best = fastest_recomputation(problem.graph, problem.machine)
        assert found.status is not lt.Status.FAILED, (seed, found.detail)
        answers += found.objective is not None
        if best is not None:
            assert found.status is not lt.Status.INFEASIBLE, seed
            assert (found.bound or 0) <= best <= (found.objective or best), seed
        else:
            assert found.objective is None, seed
    assert answers


def test_a_block_hands_on_what_its_own_forwards_do_not_destroy() -> None:
    """`x` is updated, and overwritten within the same block: a sweep that saves nothing leaves the update."""
    x, z = lt.Tensor(name="x", nbytes=1, initial=True), lt.Tensor(name="z", nbytes=1)
    ops = (
        lt.Op(name="update", reads=(0,), writes=(0,), duration_ns=2),
        lt.Op(name="overwrite", writes=(0,), duration_ns=4),
        lt.Op(name="large", workspace=4, duration_ns=2),
        lt.Op(name="read", reads=(0,), duration_ns=3),
    )
    graph = lt.Graph(name="overwritten", accounting=lt.Accounting.REPLACE, tensors=(x, z), ops=ops)
    problem = lt.Recompute(graph, memory=4)
    found = lt.solve(problem, "rockmate", time_limit=None)
    assert found.status is not lt.Status.FAILED, found.detail
    assert fastest_recomputation(graph, problem.machine) is not None


@pytest.mark.slow
def test_never_faster_than_exhaustive_search() -> None:
    specs = [
        f"gen:{kind}?n={n},train=1,seed={k}" for kind, n in (("sp", 4), ("skipchain", 3)) for k in range(3)
    ]
    graphs = [lt.load(spec) for spec in specs]
    graphs += [random_graph(Random(seed), min_ops=4, max_ops=6, max_tensors=7) for seed in range(20)]
    assert slower_than_once(graphs, 40, "rockmate", FEW) >= 2


@pytest.mark.slow  # two steps of each kind
@pytest.mark.parametrize("spec", STEPS)
def test_what_the_program_over_blocks_promises_fits(spec: str) -> None:
    """The memory that it counts is enough for the schedule, whatever way the blocks run."""
    again = 0
    for seed in range(2):
        graph = lt.load(spec.format(seed) + f",accounting={('coexist', 'replace')[seed]}")
        problem = tight(graph, 50)
        found = lt.solve(problem, "rockmate", time_limit=None, options=FEW)
        assert "does not fit" not in found.detail, seed
        again += found.objective is not None and found.objective > problem.least_time
    assert again >= 1


@pytest.mark.slow
def test_what_later_blocks_find_is_there_before_they_run() -> None:
    """Also what an op leaves that runs once: it crosses, though it is no block's output."""
    problem = tight(lt.load("catalogue:resnet50-train"), 60)
    options = {"save-budgets": "2", "peak-budgets": "1"}
    found = lt.solve(problem, "rockmate", time_limit=None, options=options)
    assert found.objective is not None
    assert found.objective > problem.least_time
    data = recompute_data(problem)
    blocks = cut(data)
    assert any(block.output is None for block in blocks.blocks[:-1])
    for k in range(len(blocks.blocks) - 1):
        part = within(data, blocks, k)
        assert part.rest is not None
        needed = {t for p in part.once for t in part.graph.ops[p].writes}
        assert needed <= set(part.graph.ops[part.rest].reads)


def test_blocks_cover_the_step_and_one_value_crosses() -> None:
    for spec in (*STEPS, "catalogue:llama-block-train", "catalogue:unet-4-train"):
        data = recompute_data(lt.Recompute(lt.load(spec.format(0))))
        found = cut(data)
        forward = [i for block in found.blocks for i in block.forward]
        backward = [i for block in reversed(found.blocks) for i in block.backward]
        assert forward + backward == list(range(data.n))
        assert len(forward) == turn(data) + 1
        for block, behind in pairwise(found.blocks):
            crossing = {
                u
                for u, x in enumerate(data.values)
                if u not in found.kept and x.writer is not None and x.writer < behind.forward.start
                if any(behind.forward.start <= i < len(forward) for i in x.readers)
            }
            assert crossing <= {block.output}


def test_a_block_takes_what_it_takes_in_the_step() -> None:
    """With every op once: what is counted beside a block and within it is what the step needs."""
    data = recompute_data(lt.Recompute(lt.load("catalogue:llama-block-train")))
    found, needs = cut(data), levels(data, range(data.n))
    saved = 0
    for k, block in enumerate(found.blocks):
        part = within(data, found, k)
        way = way_of(part, range(len(part.ops)))
        inside = max(needs[i] for i in block.forward)
        assert inside <= found.base + found.top[-1] + saved + way.before
        behind = max((needs[i] for i in block.backward), default=0)
        assert behind <= found.base + found.through[k] + saved + way.after
        saved += way.saved - part.output


def test_what_one_pass_saves_nothing_of_runs_again_without_what_runs_once() -> None:
    data = recompute_data(lt.Recompute(lt.load("catalogue:resnet50-train")))
    found = cut(data)
    assert found.once
    for k in range(len(found.blocks) - 1):
        first, again = sweeps_of(data, found, k)
        block = found.blocks[k]
        assert set(again) <= set(first) <= set(block.forward)
        assert set(first) >= found.once & set(block.forward)
        assert not found.once & set(again)


def test_blocks_that_are_the_same_are_solved_once() -> None:
    """Twice as many equal layers: no more programs."""
    facts = []
    for n in (4, 8):
        graph = layers([(2, 6)] * n, [(2, 3)] * n)
        facts.append(lt.solve(tight(graph, 50), "rockmate", time_limit=None, options=FEW).facts)
    assert facts[0]["blocks"] * 2 == facts[1]["blocks"]
    assert facts[0]["different_blocks"] == facts[1]["different_blocks"]
    assert facts[0]["programs"] == facts[1]["programs"]


def test_budgets_are_kept() -> None:
    """What a program within a block finds for what is saved saves no more, and takes what it says."""
    data = recompute_data(lt.Recompute(layers([(2, 6)] * 4, [(2, 3)] * 4)))
    found = cut(data)
    assert len(found.blocks) == 4
    for k in range(len(found.blocks) - 1):
        part = within(data, found, k)
        whole = way_of(part, range(len(part.ops)))
        problem = part.problem(part.output + 5, part.largest_peak)
        result = lt.solve(problem, "local-search", time_limit=None, options={"rounds": "1"})
        assert result.plan is not None
        way = way_of(part, [run.op for run in result.plan.runs])
        assert way.saved <= part.output + 5 < whole.saved
        assert way.forward + way.backward == whole.forward + whole.backward + 2
        assert result.objective == way.forward + way.backward + 1  # the rest takes a tick


@pytest.mark.slow  # programs within four kinds of blocks
def test_programs_of_checkmate_find_the_same() -> None:
    """Blocks so small that both end with a proof."""
    for seed in range(3):
        problem = tight(lt.load(f"gen:chain?n=6,train=1,seed={seed}"), 50)
        found = [
            lt.solve(problem, "rockmate", time_limit=None, options={**FEW, "programs": name}).objective
            for name in ("moment", "checkmate")
        ]
        assert found[0] == found[1], seed
