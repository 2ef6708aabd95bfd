"""Every method on several devices, and on merged ops, against exhaustive search and the definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from random import Random

import pytest

import lowtide as lt
from lowtide.models.derived.merging import merge_ops
from lowtide.models.plan import Plan
from lowtide.solvers.streams.merging import best_merges
from tests.effort import share
from tests.oracles.brute_distributed import fastest_distributed
from tests.oracles.brute_force import must_precede, topological_orders
from tests.oracles.brute_rates import fastest_at_any_rates
from tests.oracles.brute_streams import fastest_stages
from tests.oracles.schedule_rules import end_of, faults
from tests.solvers.streams.devices import tiny
from tests.solvers.streams.merges import question as question_of_merges

NS = 10**9


def with_synchronisations(problem: lt.Streams) -> int:
    """Return the least makespan without contention and memories, over all assignments and orders."""
    graph, best = problem.graph, sum(op.duration_ns for op in problem.graph.ops)
    n, streams = len(graph.ops), problem.streams or len(graph.ops)
    before = must_precede(graph)
    sent = {
        (i, j): max(
            [0]
            + [
                problem.latency_ns - (-graph.tensors[t].nbytes * NS // problem.link)
                for t in set(graph.ops[i].writes) & set(graph.ops[j].reads)
            ]
        )
        for i, j in before
    }
    orders = list(topological_orders(graph))
    for on in product(range(problem.devices), range(streams), repeat=n):
        places = [(on[2 * i], on[2 * i + 1]) for i in range(n)]
        if places and places[0] != (0, 0):
            continue
        for order in orders:
            free: dict[tuple[int, int], int] = {}
            end = [0] * n
            for j in order:
                begin = free.get(places[j], 0)
                for i, k in before:
                    if k == j and places[i] != places[j]:
                        lag = problem.sync_ns
                        if places[i][0] != places[j][0]:
                            lag = max(lag, sent[i, j])
                        begin = max(begin, end[i] + lag)
                end[j] = free[places[j]] = begin + graph.ops[j].duration_ns
            best = min(best, max(end, default=0))
    return best


def question(seed: int) -> lt.Streams:
    """Return a question of two or three devices, whose links are slow or fast."""
    rng = Random(seed)
    kind = seed % 4  # plain, within memories, synchronisations, contention
    most = 3 if kind >= 2 else 4
    return lt.Streams(
        tiny(rng, most),
        devices=rng.choice((2, 2, 3)) if kind != 2 else 2,
        streams=rng.choice((1, 1, 2)) if kind != 3 else rng.choice((1, 2, None)),
        parts=4,
        link=rng.choice((NS // 2, NS, 2 * NS)) if kind != 3 else NS,
        latency_ns=rng.choice((0, 0, 1, 3)),
        memory=rng.randint(1, 12) if kind == 1 else None,
        sync_ns=rng.choice((1, 2)) if kind == 2 else 0,
        contention="proportional" if kind == 3 else "none",
    )


def optimum(problem: lt.Streams) -> int | None:
    if problem.contention != "none":
        return fastest_at_any_rates(
            problem.graph,
            problem.devices,
            problem.streams,
            4,
            link=problem.link // NS,
            latency_ns=problem.latency_ns,
        )
    if problem.sync_ns:
        return with_synchronisations(problem)
    assert problem.distributed is not None
    return fastest_distributed(problem.graph, problem.distributed.machine)


def attack(seed: int) -> Counter[str]:
    """Hold every method's answer and bound on a question of several devices against the optimum."""
    problem, seen = question(seed), Counter[str]()
    known = optimum(problem)
    for method in ("auto", "heft", "hios-lp", "hios-mr", "cpsat", "rates-cpsat"):
        try:
            result = lt.solve(problem, method, threads=1, time_limit=20)
        except lt.UsageError:
            assert method in ("cpsat", "rates-cpsat")
            continue
        held(result, known, (seed, method))
        if result.plan is not None:
            assert faults(problem.graph, result.plan) == set(), (seed, method)
            assert end_of(result.plan) == result.objective, (seed, method)
        seen[str(result.status)] += 1
    return seen


def held(result: lt.Result, known: int | None, where: object) -> None:
    """Assert that a result claims nothing that the optimum contradicts; None: there is no answer."""
    assert result.status != "failed", (where, result.detail)
    if known is None:
        assert result.objective is None, where
        return
    assert result.status != "infeasible", where
    assert result.bound is None or result.bound <= known, (where, result.bound, known)
    assert result.objective is None or result.objective >= known, (where, result.objective, known)
    assert result.status != "optimal" or result.objective == known, (where, result.objective, known)


def merged(graph: lt.Graph, sets: list[tuple[int, ...]]) -> lt.Graph:
    """Return the graph with sets of ops as one op each, from the definition; names do not matter."""
    stated = {tuple(sorted(x["ops"])): x for x in graph.provenance["merges"]}
    of = {i: some for some in sets for i in some}
    tensor: dict[int, int] = {}
    tensors: list[lt.Tensor] = []
    for t, x in enumerate(graph.tensors):
        writer = next((i for i, op in enumerate(graph.ops) if t in op.writes), None)
        group = of.get(writer, ()) if writer is not None else ()
        outputs = [u for i in group for u in graph.ops[i].writes] or [t]
        if t == outputs[0]:
            tensor |= dict.fromkeys(outputs, len(tensors))
            total = sum(graph.tensors[u].nbytes for u in outputs)
            final = any(graph.tensors[u].final for u in outputs)
            tensors.append(replace(x, nbytes=total, final=final, name=f"x{len(tensors)}"))
    ops = []
    for i, op in enumerate(graph.ops):
        some = of.get(i, (i,))
        if i != some[0]:
            continue
        if len(some) > 1:
            found = stated[tuple(sorted(f"o{k}" for k in some))]
            op = replace(op, duration_ns=found["duration_ns"], share=found["share"])
        reads = tuple(sorted({tensor[t] for t in op.reads}))
        ops.append(replace(op, reads=reads, writes=tuple(sorted({tensor[t] for t in op.writes}))))
    return lt.Graph(name="merged", tensors=tuple(tensors), ops=tuple(ops), accounting=graph.accounting)


def choices(graph: lt.Graph) -> Iterator[list[tuple[int, ...]]]:
    known = sorted(tuple(sorted(int(name[1:]) for name in x["ops"])) for x in graph.provenance["merges"])
    for count in range(len(known) + 1):
        for sets in combinations(known, count):
            if sum(map(len, sets)) == len({i for some in sets for i in some}):
                yield list(sets)


def attack_merges(seed: int) -> Counter[str]:
    """Hold the choice of merges, and every method of stages on it, against all choices and all stages."""
    rng, seen = Random(seed), Counter[str]()
    problem = question_of_merges(seed, most=5)
    problem = replace(
        problem,
        streams=rng.choice((None, None, 1, 2)),
        memory=rng.choice((None, None, rng.randint(2, 6))),
    )

    def least(graph: lt.Graph) -> int | None:
        return fastest_stages(
            graph,
            problem.contention,
            4,
            sync_ns=problem.sync_ns,
            memory=problem.memory,
            streams=problem.streams,
        )

    values = {tuple(sets): least(merged(problem.graph, sets)) for sets in choices(problem.graph)}
    best = min((x for x in values.values() if x is not None), default=None)
    sets = best_merges(problem)
    chosen = replace(problem, graph=merge_ops(problem.graph, sets))
    here = values[tuple(sorted(sets))]
    if problem.memory is None and problem.streams is None:
        assert here == best, seed
    some = rng.choice(sorted(values))
    asked = [(chosen, here), (replace(problem, graph=merge_ops(problem.graph, some)), values[some])]
    for question_, known in asked:
        for method in ("auto", "ios", "greedy", "ios-cpsat", "tenants"):
            try:
                result = lt.solve(question_, method, threads=1, time_limit=20)
            except lt.UsageError:  # which is for chains
                assert method == "tenants"
                continue
            held(result, known, (seed, method))
            seen[str(result.status)] += 1
            if isinstance(result.plan, Plan):
                assert question_.judge(question_.read(result.plan)).objective == result.objective
    return seen


@pytest.mark.slow
def test_every_method_on_several_devices() -> None:
    seen: Counter[str] = sum((attack(seed) for seed in range(share(120))), Counter())
    assert seen["optimal"] > seen["feasible"] > 0, seen


@pytest.mark.slow
def test_every_method_on_several_devices_of_more_questions() -> None:
    assert sum((attack(seed) for seed in range(1000, 1000 + share(300))), Counter())["optimal"]


@pytest.mark.slow
def test_every_method_on_merged_ops() -> None:
    seen: Counter[str] = sum((attack_merges(seed) for seed in range(share(120))), Counter())
    assert seen["optimal"] > 0, seen


@pytest.mark.slow
def test_every_method_on_merged_ops_of_more_questions() -> None:
    assert sum((attack_merges(seed) for seed in range(1000, 1000 + share(200))), Counter())["optimal"]


def attack_sets(seed: int) -> Counter[str]:
    """Hold which sets of ops may be merged against what the graph states."""
    rng, graph, seen = Random(seed), question_of_merges(seed, most=5).graph, Counter[str]()
    known = {tuple(sets) for sets in choices(graph)}
    n = len(graph.ops)
    for _ in range(6):
        count = rng.choice((1, 1, 2))
        sets = [tuple(sorted(rng.sample(range(n), min(n, rng.choice((1, 2, 2, 3)))))) for _ in range(count)]
        if known and rng.random() < 0.5:
            sets = [*rng.choice(sorted(known)), *sets[: rng.choice((0, 0, 1))]]
        try:
            found = merge_ops(graph, sets)
        except lt.InstanceError:
            assert tuple(sorted(sets)) not in known, (seed, sets)
            seen["refused"] += 1
            continue
        assert tuple(sorted(sets)) in known, (seed, sets)
        expected = merged(graph, sets)
        rows = [[(op.reads, op.writes, op.duration_ns, op.share) for op in x.ops] for x in (found, expected)]
        assert rows[0] == rows[1], (seed, sets)
        sizes = [[(t.nbytes, t.initial, t.final) for t in x.tensors] for x in (found, expected)]
        assert sizes[0] == sizes[1], (seed, sets)
        seen["merged"] += 1
    return seen


def test_only_stated_sets_of_ops_are_merged() -> None:
    seen: Counter[str] = sum((attack_sets(seed) for seed in range(share(600))), Counter())
    assert min(seen["refused"], seen["merged"]) > 0, seen
