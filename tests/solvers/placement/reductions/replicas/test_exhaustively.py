"""Two GPUs that do the same, with and without exchange of gradients, against exhaustive search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.reductions.replicas.runtime import RULES, carry_out
from tests.oracles.brute_tiers import faster
from tests.problems.placement import tiny_graph, working_set
from tests.solvers.placement.graphs import scaled
from tests.solvers.placement.reductions.replicas.gpu_cases import exchanging, found_in, parallel

MOST = 20_000
"""States of an exhaustive search, which suffice here: the seeds are those of 40 where they do."""
METHODS = ("slot-lp", "planner", "belady", "tmof", "tmof-online", "lp-bound", "serial")


def question(seed: int) -> Placement:
    """Two GPUs that must swap, on one link."""
    graph = scaled(tiny_graph(seed), 10_000)
    return parallel(graph, 2, working_set(graph) + seed % 3 * 10_000)


def exchange(seed: int) -> Placement:
    """Two or three ops and an exchange of a byte or two on each GPU, perhaps one between them, too."""
    rng, graph = Random(f"exchange {seed}"), tiny_graph(seed)
    ops = graph.ops[: 2 + seed % 2]
    used = sorted({t for op in ops for t in (*op.reads, *op.writes)})
    number = {t: i for i, t in enumerate(used)}
    graph = replace(
        graph,
        tensors=tuple(replace(graph.tensors[t], nbytes=rng.choice((1, 1, 2))) for t in used),
        ops=tuple(
            replace(
                op,
                reads=tuple(number[t] for t in op.reads),
                writes=tuple(number[t] for t in op.writes),
                duration_ns=rng.randint(1, 5) * 100,
                workspace=min(op.workspace, 1),
            )
            for op in ops
        ),
    )
    room = working_set(graph) + rng.randint(-2, 1)
    problem = exchanging(graph, 2, room, rng.randint(1, 2), rng.randint(0, 1))
    home = rng.choice([("host",), ("gpu0", "gpu1")])
    return replace(problem, start=dict.fromkeys(("input", "weight"), home))


def results(problem: Placement, methods: tuple[str, ...]) -> Iterator[lt.Result]:
    """Yield what methods find; those that refuse the problem are left out."""
    for method in methods:
        with suppress(lt.UsageError):
            result = lt.solve(problem, method, threads=1, time_limit=None)
            assert result.status is not lt.Status.FAILED, (method, result.detail)
            yield result


def never_faster(problem: Placement, bound: int) -> None:
    """Fail if exhaustive search finds a plan of whole tensors below a bound."""
    assert faster(replace(problem, whole=True), bound, MOST) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6, 7, 9, 17, 19, 21, 22])
def test_no_bound_is_above_exhaustive_search(seed: int) -> None:
    problem = question(seed)
    methods = ("slot-lp", "planner", ("auto", "belady", "tmof")[seed % 3])
    never_faster(problem, max(result.bound or 0 for result in results(problem, methods)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 4, 18, 19, 24, 27, 28, 30, 34, 38])
def test_no_bound_of_gpus_that_exchange_gradients_is_above_exhaustive_search(seed: int) -> None:
    problem = exchange(seed)
    never_faster(problem, max(result.bound or 0 for result in results(problem, METHODS)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 8, 18, 22, 0, 1])
def test_exhaustive_search_is_as_fast_as_any_plan_of_whole_tensors(seed: int) -> None:
    problem = replace(exchange(seed) if seed < 2 else question(seed), whole=True)
    times = [r.objective for r in results(problem, ("serial", "belady")) if r.objective is not None]
    found = found_in(problem)
    one = lt.solve(found.alone, "belady", threads=1, time_limit=None).plan
    plans = [] if one is None or found.lanes[0].received else [carry_out(found, [one, one], r) for r in RULES]
    for judged in map(problem.judge, plans):
        assert judged.violations == ()
        times += [judged.objective] if judged.objective is not None else []
    assert faster(problem, min(times) + 1, MOST) is not None
