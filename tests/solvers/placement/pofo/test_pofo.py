"""POFO's program on chains: exhaustive search, limits, and what `auto` makes of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.models.errors import UsageError
from tests.oracles.brute_jointly import fastest_jointly
from tests.problems.placement import working_set
from tests.solvers.placement.graphs import chain
from tests.solvers.placement.machines import two_tiers
from tests.solvers.placement.rerunning.second_runs import start_of

Starts = dict[str, tuple[str, ...]]
ANYWHERE: Starts = {}
GPU: Starts = {"input": ("gpu",)}
HOST: Starts = {"input": ("host",)}


def in_cells(seed: int, forwards: int, rates: tuple[int, ...]) -> lt.Placement:
    """Return a chain of tensors of one byte or none, which leave the device at once or not at all."""
    rng = Random(seed)
    graph = lt.load(f"gen:backprop-chain?l={forwards}")
    tensors = (replace(x, nbytes=rng.choice((0, 1, 1)) if t else 1) for t, x in enumerate(graph.tensors))
    ops = (replace(op, duration_ns=rng.randint(1, 2)) for op in graph.ops)
    graph = replace(graph, tensors=tuple(tensors), ops=tuple(ops))
    machine = two_tiers(working_set(graph) + rng.randint(0, 1), rng.choice(rates))
    return lt.Placement(graph, machine, start=rng.choice((GPU, HOST)), recompute=True)


def best_and_found(problem: lt.Placement) -> tuple[int | None, int | None]:
    """Return what exhaustive search finds and the program."""
    start = {t: (1 if "gpu" in problem.may_start("input") else 2) for t in start_of(problem)}
    best = fastest_jointly(problem.graph, problem.machine, start)
    return best, lt.solve(problem, "pofo", threads=1).objective


@pytest.mark.slow
def test_the_optimum_where_each_op_has_time_for_whole_bytes() -> None:
    """200 chains on which a copy takes no longer than an op: nothing that it leaves out is worth anything."""
    waiting = 0
    for seed in range(200):
        problem = in_cells(seed, 1 + seed % 2, (10**9,))
        best, found = best_and_found(problem)
        assert found == best
        waiting += found is not None and found > sum(op.duration_ns for op in problem.graph.ops)
    assert waiting > 50


@pytest.mark.slow
def test_never_below_the_optimum() -> None:
    """Where copies take several ops, those of whole bytes may begin before one op and end behind the next."""
    above = 0
    for seed in range(12):
        best, found = best_and_found(in_cells(seed, 2, (10**9 // 2, 10**9 // 4)))
        assert best is not None
        assert found is not None
        assert found >= best
        above += found > best
    assert above < 6


@pytest.mark.slow
def test_plans_of_any_sizes_verify_and_are_between_the_limits() -> None:
    """No slower than recomputation alone; without a rate, that; at once, each op once."""
    joined = 0
    for seed in range(24):
        rng = Random(seed)
        graph = chain(rng, rng.randint(0, 7))
        memory = working_set(graph) + rng.randint(0, 5)
        machine = two_tiers(memory, 10**9 // rng.choice((1, 2)))
        latency = rng.choice((0, 0, 1))
        machine = replace(machine, channels=tuple(replace(c, latency_ns=latency) for c in machine.channels))
        problem = lt.Placement(graph, machine, start=rng.choice((ANYWHERE, GPU, HOST)), recompute=True)
        result = lt.solve(problem, "pofo", threads=1)
        assert result.objective is not None, result.detail
        once = sum(op.duration_ns for op in graph.ops)
        assert (result.bound, result.status == "optimal") == (once, result.objective == once)
        joined += (
            result.plan is not None and len(result.plan.runs) > len(graph.ops) and bool(result.plan.copies)
        )
        alone = lt.solve(lt.Recompute(graph, memory=memory), "hetero-chain", threads=1).objective
        inside = replace(problem, start=GPU)
        slow = replace(inside, machine=two_tiers(memory, 1))
        if alone is not None:
            assert lt.solve(inside, "pofo", threads=1).objective <= alone  # type: ignore[operator]
            assert lt.solve(slow, "pofo", threads=1).objective == alone
        longer = tuple(replace(op, duration_ns=1000 * op.duration_ns) for op in graph.ops)
        fast = two_tiers(memory, 10**12)
        at_once = replace(problem, graph=replace(graph, ops=longer), machine=fast, start=ANYWHERE)
        assert lt.solve(at_once, "pofo", threads=1).objective // 1000 == once  # type: ignore[operator]
    assert joined > 1


def taped(seed: int, stages: int) -> lt.Graph:
    """Return a taped chain: tapes of any size or none, gradients and workspaces or none."""
    rng = Random(seed)
    options = f"saved={rng.choice((0, 3, 9))}&workspace={seed % 2}&gradients={seed // 2 % 2}&spread=3"
    return lt.load(f"gen:taped-chain?l={stages}&seed={seed}&largest=5&{options}")


def replace_sizes(graph: lt.Graph, **sizes: int) -> lt.Graph:
    """Return the graph with other bytes of some tensors, by name."""
    return replace(
        graph, tensors=tuple(replace(x, nbytes=sizes.get(x.name, x.nbytes)) for x in graph.tensors)
    )


def least_memory(graph: lt.Graph) -> int:
    return max(lt.Recompute(graph).least_bytes(i) for i in range(len(graph.ops)))


@pytest.mark.slow
def test_the_optimum_of_tiny_taped_chains() -> None:
    """Exhaustive search over modes, runs and copies; whole bytes, and none of gradients."""
    again, out = 0, 0
    for seed in (2, 6, 18, 22, 23, 32):
        rng = Random(seed)
        graph = lt.load(f"gen:taped-chain?l=2&seed={seed}&forward=1&backward=1&spread=2")
        small = {"a1": (0, 1, 1), "s1": (0, 1, 1), "s2": (0, 1, 1), "a0": (1,)}
        tensors = (replace(x, nbytes=rng.choice(small.get(x.name, (0,)))) for x in graph.tensors)
        graph = replace(graph, tensors=tuple(tensors))
        machine = two_tiers(least_memory(graph) + rng.randint(0, 1), 10**9)
        start = {"gradient": ("gpu",), "input": rng.choice((("gpu",), ("host",)))}
        problem = lt.Placement(graph, machine, start=start, recompute=True)
        places = {"memory": 1, "host": 2}
        where = {
            t: sum(places.get(tier, 0) for tier in problem.may_start(x.kind))
            for t, x in enumerate(graph.tensors)
            if x.initial
        }
        result = lt.solve(problem, "pofo", threads=1)
        assert result.objective == fastest_jointly(graph, problem.machine, where), (seed, result.detail)
        assert result.plan is not None
        again += len(result.plan.runs) > len(graph.ops)
        out += any(copy.dst == "host" for copy in result.plan.copies)
    assert again
    assert out


@pytest.mark.slow
def test_taped_chains_are_between_the_limits() -> None:
    """No rate: rotor's program. Copies at no time, room for a tape beside: each op once."""
    joined, tapes = 0, 0
    for seed in (*range(12), 61, 78, 116):
        rng = Random(seed)
        graph = taped(seed, rng.randint(1, 7))
        memory, rate = (
            least_memory(graph) + rng.randint(0, 12),
            10**9 * rng.choice((1, 2, 5)) // rng.choice((1, 3)),
        )
        start = rng.choice((ANYWHERE, {**GPU, "gradient": ("gpu",)}, {**HOST, "gradient": ("host",)}))
        problem = lt.Placement(graph, two_tiers(memory, rate), start=start, recompute=True)
        result = lt.solve(problem, "pofo", threads=1)
        assert result.objective is not None, result.detail
        assert result.plan is not None
        copied = {copy.tensor for copy in result.plan.copies if copy.dst == "host"}
        joined += len(result.plan.runs) > len(graph.ops) and bool(copied)
        tapes += any(graph.tensors[t].name[0] == "s" for t in copied)
        inside = replace(problem, start=ANYWHERE)
        alone = lt.solve(lt.Recompute(graph, memory=memory), "hetero-chain", threads=1).objective
        if alone is not None:
            slow = lt.Placement(graph, two_tiers(memory, 1), start=ANYWHERE, recompute=True)
            assert lt.solve(inside, "pofo", threads=1).objective <= alone  # type: ignore[operator]
            assert lt.solve(slow, "pofo", threads=1).objective == alone
        modes = [tuple(replace(m, duration_ns=1000 * m.duration_ns) for m in op.modes) for op in graph.ops]
        ops = tuple(replace(op, modes=some) for op, some in zip(graph.ops, modes, strict=True))
        beside = 1 + max(x.nbytes for x in graph.tensors if x.name[0] == "s")
        machine = two_tiers(memory + beside, 10**12)
        fast = lt.Placement(replace(graph, ops=ops), machine, start=ANYWHERE, recompute=True)
        at_once = lt.solve(fast, "pofo", threads=1)
        assert at_once.plan is not None
        assert len(at_once.plan.runs) == len(graph.ops)
        assert at_once.objective // 1000 == at_once.bound // 1000  # type: ignore[operator]
    assert joined > 1
    assert tapes > 1


@pytest.mark.slow
def test_auto_of_a_taped_chain_has_its_plan_and_those_that_always_save() -> None:
    """Never above the program; below it where every forward saves and copies are planned."""
    graph = lt.load("gen:taped-chain?l=6&seed=1")
    problem = lt.Placement(graph, two_tiers(150, 10**9), start=ANYWHERE, recompute=True)
    found = lt.solve(problem, threads=1, time_limit=None)
    program = lt.solve(problem, "pofo", threads=1).objective
    saves = next(turn for turn in found.parts if turn.part == "every forward saves")
    assert program is not None
    assert saves.before[0] is not None
    assert saves.after[0] is not None
    assert saves.after[0] < saves.before[0] <= program
    assert found.objective == saves.after[0]


@pytest.mark.parametrize("seed", [5, 7, 8])
def test_a_gradient_that_is_given_is_there_during_every_forward(seed: int) -> None:
    rng = Random(seed)
    graph = taped(seed, rng.randint(2, 6))
    tensors = (replace(x, nbytes=9) if x.initial and x.kind == "gradient" else x for x in graph.tensors)
    graph = replace(graph, tensors=tuple(tensors))
    machine = two_tiers(least_memory(graph) + rng.randint(0, 6), 10**9 // 2)
    problem = lt.Placement(graph, machine, start={**GPU, "gradient": ("gpu",)}, recompute=True)
    assert lt.solve(problem, "pofo", threads=1).status == "feasible"


def test_taped_chains_run_on_any_machine() -> None:
    """Its first tier is what they call the memory; what they lose goes to a tier from which nothing comes."""
    machine = lt.load_machine("a100-40g-pcie3")
    graph = lt.load("gen:taped-chain?l=3")
    problem = lt.Placement(graph, machine, start=GPU, recompute=True)
    assert [tier.name for tier in problem.machine.tiers] == ["memory", "lost", "host", "ssd"]
    assert problem.may_start("input") == ("memory",)
    assert replace(problem, whole=True).machine == problem.machine
    assert replace(problem, machine=machine) == problem
    with pytest.raises(lt.InstanceError, match="'gpu0', did you mean gpu\\?"):
        replace(problem, machine=machine, start={"input": ("gpu0",)})
    assert lt.Placement(graph, machine, recompute=True).may_start("input") == ("ssd",)
    assert lt.Placement(graph, machine).machine == machine


def test_coarse_slots_are_safe() -> None:
    graph = lt.load("gen:backprop-chain?l=12&largest=1000&forward=900&backward=900&spread=3&seed=2")
    machine = two_tiers(working_set(graph) + 500, 10**9 // 4)
    problem = lt.Placement(graph, machine, start={}, recompute=True)
    fine, coarse = (
        lt.solve(problem, "pofo", threads=1, options={"memory-slots": x}).objective for x in ("400", "40")
    )
    assert fine is not None
    assert coarse is not None
    assert fine <= coarse


def test_auto_starts_from_its_plan() -> None:
    problem = replace(in_cells(3, 2, (10**9 // 4,)), start=ANYWHERE)
    best = lt.solve(problem, "pofo", threads=1).objective
    assert best is not None
    turn = next(turn for turn in lt.solve(problem, threads=1).parts if turn.part == "pofo")
    assert turn.after[0] == best


def test_what_it_refuses() -> None:
    problem = lt.Placement(lt.load("gen:backprop-chain?l=2"), two_tiers(9, 10**9), recompute=True)
    small = replace(problem.machine, tiers=(problem.machine.tiers[0], lt.Tier(name="host", capacity=1)))
    other = replace(problem, graph=lt.load("catalogue:diamond"))
    for wrong, words in (
        (replace(problem, recompute=False), "found no ops that may run again"),
        (replace(problem, whole=True), "found copies of whole tensors, expected none"),
        (replace(problem, machine=small), "room for 3 bytes"),
        (other, "^method pofo: graph 'diamond' is no such chain"),
    ):
        with pytest.raises(UsageError, match=words):
            lt.solve(wrong, "pofo")


def test_what_leaves_before_a_forward_stays_until_it_has_run() -> None:
    """A wait of whole ns lets more out than it is for: a byte of x2, which F2 reads behind the wait."""
    graph = lt.load("gen:backprop-chain?l=4")
    sizes, ns, spaces = (
        (3, 5, 2, 5, 4, 1, 0, 0, 1, 1),
        (1, 1, 2, 1, 1, 1, 1, 1, 1),
        (0, 0, 1, 0, 0, 1, 1, 1, 0),
    )
    tensors = (replace(x, nbytes=size) for x, size in zip(graph.tensors, sizes, strict=True))
    ops = (replace(op, duration_ns=d, workspace=w) for op, d, w in zip(graph.ops, ns, spaces, strict=True))
    graph = replace(graph, tensors=tuple(tensors), ops=tuple(ops))
    result = lt.solve(lt.Placement(graph, two_tiers(9, 3 * 10**9), start=GPU, recompute=True), "pofo")
    assert result.objective == 15, result.detail
    assert result.plan is not None
    start = next(run.start for run in result.plan.runs if run.op == 2)
    assert [x.bytes for x in result.plan.copies if x.tensor == 2 and x.end <= start] == [(0, 1)]


@pytest.mark.parametrize("where", [{}, {"gradient": ("host",)}, {"gradient": ("gpu",)}])
def test_what_starts_in_another_tier_than_values_go_to(where: Starts) -> None:
    """The input comes from the SSD, inputs of segments leave for the host: 8 bytes at 1 GB/s come first."""
    graph = replace_sizes(lt.load("gen:taped-chain?l=4&seed=3&forward=9&backward=9&spread=2"), a0=8, d4=2)
    machine = two_tiers(least_memory(graph), 10**9)
    ssd = (lt.Channel(src=a, dst=b, bytes_per_s=10**9) for a, b in (("gpu", "ssd"), ("ssd", "gpu")))
    machine = replace(
        machine, tiers=(*machine.tiers, lt.Tier(name="ssd")), channels=(*machine.channels, *ssd)
    )
    problem = lt.Placement(graph, machine, start={"input": ("ssd",), **where}, recompute=True)
    result = lt.solve(problem, "pofo", threads=1)
    assert result.plan is not None, result.detail
    begin = 10 if problem.may_start("gradient") == ("host",) else 8
    assert min(run.start for run in result.plan.runs) == begin
    assert {(x.tensor, x.tier) for x in result.plan.start} >= {(0, "ssd")}
    assert any(copy.dst == "host" for copy in result.plan.copies)


def test_an_input_that_nothing_brings() -> None:
    graph = lt.load("gen:backprop-chain?l=2")
    machine = two_tiers(9, 10**9)
    ways = (lt.Channel(src=a, dst=b, bytes_per_s=10**9) for a, b in (("ssd", "host"), ("host", "ssd")))
    machine = replace(
        machine, tiers=(*machine.tiers, lt.Tier(name="ssd")), channels=(*machine.channels, *ways)
    )
    problem = lt.Placement(graph, machine, recompute=True)
    with pytest.raises(UsageError, match="tensor 'x0' at first in ssd, expected a tier with room"):
        lt.solve(problem, "pofo")
