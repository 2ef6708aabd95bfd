"""Makespan on distributed memory: exhaustive search, one memory against `makespan`, plans, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.formulations.distributed.data import distributed_data
from lowtide.instances import load_problem
from lowtide.models.machine import part_of
from lowtide.models.plan import Copy, Free
from lowtide.models.verifier.verify import verify
from lowtide.solvers.context import Context
from lowtide.solvers.distributed.heft import ListScheduler, upward_ranks
from lowtide.solvers.distributed.lists import Some, offer_heft, on_some, sets_of_memories
from lowtide.solvers.distributed.models import solve_on_some
from tests.commands import refused
from tests.effort import seeds
from tests.oracles.brute_makespan import fastest_schedule
from tests.problems.distributed import on_one_memory, optimum, problem_of, scarce_at_the_start

FOUR = lt.load_machine("v100x4-16g-nvlink")


def held_to_the_optimum(problem: lt.Distributed, best: int | None, seed: int) -> None:
    for method in ("auto", "cpsat"):
        result = lt.solve(problem, method, threads=1)
        expected = ("infeasible", None, None) if best is None else ("optimal", best, best)
        bound = None if best is None else result.bound
        assert (result.status, result.objective, bound) == expected, (seed, method, result.detail)
    result = lt.solve(problem, "heft", threads=1)
    assert result.status in ("optimal", "feasible", "infeasible", "unknown"), (seed, result.detail)
    if best is None:
        assert result.objective is None, seed
    else:
        assert result.status != "infeasible", seed
        assert result.bound is None or result.bound <= best, seed
        assert result.objective is None or result.objective >= best, seed


@pytest.mark.slow
def test_all_methods_against_exhaustive_search() -> None:
    sent = 0
    for seed in seeds(60, least=15):
        problem = problem_of(seed)
        held_to_the_optimum(problem, optimum(problem), seed)
        plan = lt.solve(problem, threads=1).plan
        sent += plan is not None and bool(plan.copies)
    assert sent


@pytest.mark.slow
def test_memories_that_hold_about_what_is_there_at_the_start() -> None:
    for seed in seeds(400):
        problem = scarce_at_the_start(300 + seed)
        held_to_the_optimum(problem, optimum(problem), seed)


def test_one_memory_too_small_for_what_is_replaced_at_once() -> None:
    modes = (lt.Mode(duration_ns=1, processors=("fast",)), lt.Mode(duration_ns=9, processors=("slow",)))
    graph = lt.Graph(
        name="read once",
        accounting=lt.Accounting.REPLACE,
        tensors=(lt.Tensor(name="x", nbytes=5, initial=True),),
        ops=(lt.Op(name="a", reads=(0,), modes=modes),),
    )
    machine = pair()
    kinds = tuple(replace(p, kind=k) for p, k in zip(machine.processors, ("fast", "slow"), strict=True))
    tiers = (lt.Tier(name="a", capacity=2), lt.Tier(name="b", capacity=5))
    problem = lt.Distributed(graph, replace(machine, processors=kinds, tiers=tiers))
    for method in ("auto", "cpsat", "heft"):
        assert lt.solve(problem, method, threads=1).objective == 9, method


@pytest.mark.slow  # exhaustive search of five ops
def test_five_ops_against_exhaustive_search() -> None:
    for seed in seeds(100):
        problem = problem_of(5000 + seed, most_ops=5)
        held_to_the_optimum(problem, optimum(problem), seed)


def test_on_one_memory_it_is_makespan() -> None:
    for seed in seeds(40, least=15):
        problem = on_one_memory(problem_of(seed + 300))
        (memory,) = problem.machine.tiers
        counts = dict.fromkeys(sorted(p.kind for p in problem.machine.processors), 0)
        for p in problem.machine.processors:
            counts[p.kind] += 1
        best = fastest_schedule(problem.graph, counts, memory.capacity)
        result = lt.solve(problem, "cpsat", threads=1)
        assert (result.status, result.objective) == (("infeasible" if best is None else "optimal"), best), (
            seed
        )
        assert result.plan is None or not result.plan.copies


def test_memories_together_are_a_relaxation() -> None:
    tighter = 0
    for seed in seeds(80, least=30):
        problem = problem_of(seed + 700)
        best = optimum(problem)
        pooled = fastest_schedule(problem.pooled.graph, problem.pooled.kinds, problem.pooled.memory)
        assert best is None or (pooled is not None and pooled <= best), seed
        tighter += best != pooled
    assert tighter  # it is one, not the problem itself


@pytest.mark.slow
def test_plans_are_read_back_and_every_change_is_noticed() -> None:
    noticed = 0
    for seed in range(25):
        problem = problem_of(seed)
        result = lt.solve(problem, threads=1)
        if result.plan is None or not result.plan.copies:
            continue
        answer = problem.read(result.plan)
        assert problem.evaluate(answer) == result.objective
        assert problem.lower(answer).to_dict() == replace(result.plan, claim=None).to_dict()
        for k, _ in enumerate(answer.transfers):
            without = replace(answer, transfers=answer.transfers[:k] + answer.transfers[k + 1 :])
            assert problem.judge(without).violations, seed
            hasty = answer.transfers[k]._replace(start=answer.starts[answer.transfers[k].writer])
            assert problem.judge(replace(answer, transfers=(hasty, *without.transfers))).violations, seed
            noticed += 1
    assert noticed >= 3


def pair(
    *, memory: int | None = None, rate: int = 10**9, latency: int = 0, shared: bool = True
) -> lt.Machine:
    """Return two processors with a memory each, and a channel each way."""
    return lt.Machine(
        name="pair",
        tiers=tuple(lt.Tier(name=x, capacity=memory) for x in "ab"),
        processors=tuple(lt.Processor(name=f"p{x}", tiers=(lt.Access(tier=x),)) for x in "ab"),
        channels=tuple(
            lt.Channel(src=x, dst=y, bytes_per_s=rate, latency_ns=latency, shared=shared)
            for x, y in ("ab", "ba")
        ),
    )


def fork() -> lt.Graph:
    """Return an op whose two outputs of 4 and 2 bytes two ops of 10 ns read."""
    g = lt.GraphBuilder()
    g.op("s", writes=[g.tensor("x", 4), g.tensor("y", 2)], duration=1)
    g.op("u", reads=["x"], duration=10)
    g.op("v", reads=["y"], duration=10)
    return g.build()


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (pair(), 13),  # y is sent in 2 ns
        (pair(latency=3), 16),
        (pair(rate=5 * 10**8), 15),
        (pair(rate=10**8), 21),  # 20 ns to send y: one after another
        (pair(memory=6), 13),
        (pair(memory=5), None),  # x and y are written together
    ],
)
def test_two_readers_of_one_op(machine: lt.Machine, expected: int | None) -> None:
    result = lt.solve(lt.Distributed(fork(), machine), threads=1)
    assert result.objective == expected
    assert result.status == ("infeasible" if expected is None else "optimal")


@pytest.mark.parametrize(("shared", "expected"), [(True, 1 + 2 + 4 + 4 + 1), (False, 1 + 2 + 4 + 1)])
def test_a_shared_link_carries_one_transfer_at_a_time(shared: bool, expected: int) -> None:
    g = lt.GraphBuilder()
    g.op(
        "s", writes=[g.tensor("x", 4), g.tensor("y", 4)], modes=[lt.Mode(duration_ns=1, processors=("cpu",))]
    )
    g.op("u", reads=["x", "y"], modes=[lt.Mode(duration_ns=1, processors=("gpu",))])
    machine = pair(latency=2, shared=shared)
    kinds = tuple(replace(p, kind=k) for p, k in zip(machine.processors, ("cpu", "gpu"), strict=True))
    result = lt.solve(lt.Distributed(g.build(), replace(machine, processors=kinds)), threads=1)
    assert (result.status, result.objective) == ("optimal", expected)  # latencies overlap
    assert result.plan is not None
    assert verify(g.build(), result.plan).valid


def test_groups_of_channels_carry_one_transfer_at_a_time_at_their_rate() -> None:
    g = lt.GraphBuilder()
    modes = [[lt.Mode(duration_ns=2, processors=(kind,))] for kind in ("cpu", "gpu")]
    for k in (0, 1):
        g.op(f"s{k}", writes=[g.tensor(f"x{k}", 4)], modes=modes[k])
    for k in (0, 1):
        g.op(f"u{k}", reads=[f"x{1 - k}"], modes=modes[k])
    machine = pair()
    kinds = tuple(replace(p, kind=k) for p, k in zip(machine.processors, ("cpu", "gpu"), strict=True))
    both = replace(machine, processors=kinds)
    assert lt.solve(lt.Distributed(g.build(), both), threads=1).objective == 2 + 4 + 2
    group = lt.ChannelGroup(name="switch", channels=(("a", "b"), ("b", "a")), bytes_per_s=5 * 10**8)
    switched = lt.Distributed(g.build(), replace(both, groups=(group,)))
    assert lt.solve(switched, threads=1).objective == 2 + 8 + 8 + 2


def test_transfers_that_do_not_take_turns_are_refused_where_their_rates_would_fit() -> None:
    g = lt.GraphBuilder()
    modes = [[lt.Mode(duration_ns=2, processors=(kind,))] for kind in ("cpu", "gpu")]
    g.op("s", writes=[g.tensor("x", 1), g.tensor("y", 1)], modes=modes[0])
    g.op("u", reads=["x", "y"], modes=modes[1])
    machine = pair(rate=2 * 10**9)  # a byte takes a nanosecond of half the rate
    kinds = tuple(replace(p, kind=k) for p, k in zip(machine.processors, ("cpu", "gpu"), strict=True))
    problem = lt.Distributed(g.build(), replace(machine, processors=kinds))
    result = lt.solve(problem, threads=1)
    assert (result.status, result.objective) == ("optimal", 2 + 1 + 1 + 2)
    answer = lt.DistributedSchedule(
        starts=(0, 3), chosen=(0, 0), transfers=(lt.Send(0, 0, 1, 2), lt.Send(0, 1, 1, 2))
    )
    assert verify(problem.graph, problem.lower(answer), start_tiers={}).valid
    assert [v.kind for v in problem.judge(answer).violations] == ["channel-rate"]
    with pytest.raises(
        lt.InstanceError, match="hint: tensor 1 is sent over a->b at 2 ns, expected not before 3"
    ):
        lt.solve(problem, threads=1, hint=answer)


def test_heft_ranks_by_mean_times() -> None:
    data = distributed_data(lt.Distributed(fork(), pair()))
    assert upward_ranks(data) == [1 + 4 + 10, 10, 10]  # x is sent in 4 ns


def test_heft_fits_larger_graphs_into_memories() -> None:
    graph = lt.load("gen:layered?layers=8&width=6&seed=3")
    peak = lt.solve(lt.Peak(graph), "greedy", threads=1).objective
    assert peak is not None
    for share in (1, 2, 4):
        memory = peak // share + max(t.nbytes for t in graph.tensors) * 3
        tiers = tuple(replace(t, capacity=memory) for t in FOUR.tiers)
        problem = lt.Distributed(graph, replace(FOUR, tiers=tiers))
        lists = ListScheduler(distributed_data(problem))
        if lists.run(upward_ranks(lists.data)):
            assert problem.judge(problem.read(lists.answer())).verification.valid


def test_a_chain_stays_where_it_is_and_the_machine_is_what_was_asked_for() -> None:
    problem = load_problem(
        lt.Distributed, "gen:chain?n=5", machine="v100x4-16g-nvlink", memory="1MiB", processors=2
    )
    assert problem.memories == ("gpu0", "gpu1")
    assert problem.capacities == (2**20, 2**20)
    assert [c.src for c in problem.machine.channels] == ["gpu0", "gpu1"]
    result = lt.solve(problem, threads=1)
    assert result.plan is not None
    assert len({run.processor for run in result.plan.runs}) == 1
    assert not result.plan.copies


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--machine", "v100x4-16g-nvlink", "--method", "label-setting"), "method: found 'label-setting'"),
        (("--machine", "v100x4-16g-nvlink", "--method", "lns"), "expected one of auto, cpsat, heft"),
        (("--machine", "v100x4-16g-nvlink", "--processors", "5"), "processors: found 5, expected at most 4"),
        (
            ("--machine", "v100x4-16g-nvlink", "--processors", "cpu=1"),
            "found 1 of kind 'cpu', expected at most 0",
        ),
        (("--machine", "optane-node"), "found tiers dram and pmm, expected one memory without a rate"),
        (("--machine", "v100x4-16g-nvlink", "--sweep-memory", "3"), "sweep"),
    ],
)
def test_what_is_not_for_several_memories_is_refused(arguments, expected, tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert expected in refused("solve", "makespan", "catalogue:diamond", *arguments, cwd=tmp_path)


def test_wrong_answers_are_refused() -> None:
    problem = lt.Distributed(fork(), pair())
    good = problem.read(lt.solve(problem, "heft", threads=1).plan)
    with pytest.raises(lt.InstanceError, match="found 2 starts and 3 alternatives, expected 3 of each"):
        problem.read(replace(good, starts=good.starts[:2]))
    with pytest.raises(lt.InstanceError, match=r"op 1 'u': found alternative 2, expected one in \[0, 2\)"):
        problem.read(replace(good, chosen=(0, 2, 0)))
    with pytest.raises(lt.InstanceError, match="transfer of tensor 0, which op 1 does not write"):
        problem.read(replace(good, transfers=(lt.Send(1, 0, 1, 0),)))
    with pytest.raises(lt.InstanceError, match="from memory 'a' to number 0, expected a channel"):
        problem.read(replace(good, chosen=(0, 0, 0), transfers=(lt.Send(0, 0, 0, 0),)))
    with pytest.raises(lt.InstanceError, match="found int, expected a Plan or a DistributedSchedule"):
        problem.read(3)
    with pytest.raises(lt.InstanceError, match="found a schedule of other things, expected one of integers"):
        problem.read(replace(good, starts=(0, 1, None)))  # type: ignore[arg-type]
    plan = problem.lower(good)
    with pytest.raises(lt.InstanceError, match="found a plan of 2 runs, expected one of each op"):
        problem.read(replace(plan, runs=plan.runs[:2]))
    with pytest.raises(lt.InstanceError, match="expected all of it from the memory of the op that wrote it"):
        problem.read(replace(plan, copies=(Copy(0, "a", "b", 0, 4),)))
    with pytest.raises(lt.InstanceError, match="another machine"):
        problem.read(replace(plan, machine=pair(latency=1)))


def test_a_transfer_before_time_0_is_refused() -> None:
    problem = lt.Distributed(fork(), pair())
    good = problem.read(lt.solve(problem, "heft", threads=1).plan)
    early = replace(good, starts=(-9, *good.starts[1:]), transfers=(lt.Send(0, 0, 1, -5),))
    judged = problem.judge(problem.read(early))
    assert judged.objective is None
    assert "shape" in {v.kind for v in judged.violations}


def test_what_is_freed_too_early_is_noticed() -> None:
    problem = lt.Distributed(fork(), pair())
    plan = problem.lower(problem.read(lt.solve(problem, threads=1).plan))
    for k, free in enumerate(plan.frees):
        early = (*plan.frees[:k], Free(free.tensor, free.tier, free.time - 1), *plan.frees[k + 1 :])
        assert verify(problem.graph, replace(plan, frees=early), start_tiers={}).violations


def test_random_machines_are_what_they_are_meant_for() -> None:
    problems = [problem_of(seed) for seed in range(60)]
    assert any(p.machine.groups for p in problems)
    assert any(not c.shared for p in problems for c in p.machine.channels)
    assert any(len(p.memories) == 1 for p in problems)
    assert any(None in p.capacities for p in problems)
    assert any(p.untouched for p in problems)


@pytest.mark.slow
def test_auto_keeps_what_it_found_where_the_model_would_be_too_large() -> None:
    k = 2**29 + 1
    tensor = lt.Tensor(name="a", nbytes=2**34 + 1)
    ops = (
        lt.Op(name="make", duration_ns=5 * k, writes=(0,)),
        lt.Op(name="left", duration_ns=10 * k, reads=(0,), workspace=3),
        lt.Op(name="right", duration_ns=10 * k + 1, reads=(0,), workspace=3),
    )
    graph = lt.Graph(name="fork", tensors=(tensor,), ops=ops)
    machine = replace(FOUR, tiers=tuple(replace(tier, capacity=2**34 + 4) for tier in FOUR.tiers))
    problem = lt.Distributed(graph, part_of(machine, ("gpu0", "gpu1")))
    result = lt.solve(problem, threads=1, time_limit=1)
    assert result.status == "feasible", result.detail
    assert "less than 2^61" in result.detail
    with pytest.raises(lt.UsageError, match="less than 2"):
        lt.solve(problem, "cpsat", threads=1)


@pytest.mark.slow
def test_more_devices_are_never_worse_than_some_of_them() -> None:
    """Lists spread over all four devices and pay for transfers, those on two do not."""
    graph = lt.load("gen:layered?layers=4&width=6&seed=2")
    slow = replace(FOUR, channels=tuple(replace(c, bytes_per_s=10**3) for c in FOUR.channels))
    two, four = (lt.Distributed.of(graph, machine=slow, processors=k) for k in (2, 4))
    assert list(sets_of_memories(two)) == []
    assert list(sets_of_memories(four)) == [(0, 1), (0, 1, 2)]
    data = distributed_data(four)
    some = on_some(data, (0, 1))
    assert some is not None
    context = Context(problem=four)
    answer = offer_heft(some, context)
    assert answer is not None
    assert four.judge(answer).objective == two.evaluate(
        offer_heft(Some.all(distributed_data(two)), Context(problem=two))  # type: ignore[arg-type]
    )
    model = solve_on_some(some, answer, context)
    assert not model.infeasible
    assert context.bound is None  # what is proved on two devices is not on four
    assert context.incumbent == lt.solve(two, threads=1).objective
    result = lt.solve(four, threads=1, time_limit=2)
    assert result.objective is not None
    assert context.incumbent is not None
    assert result.objective <= context.incumbent
