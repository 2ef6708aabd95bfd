"""TMOF's model on several GPUs with a shared link: plans verify, and the forms stand in their order."""

from dataclasses import replace
from itertools import pairwise

import pytest

import lowtide as lt
from lowtide.formulations.placement.lanes import lanes
from lowtide.models.problems.placement import Placement
from tests.effort import chosen, seeds
from tests.solvers.placement.graphs import spill
from tests.solvers.placement.machines import RATE_IN, RATE_OUT, gpus
from tests.solvers.placement.reductions.replicas.gpu_cases import CASES, case, parallel

ROUNDING = 200
"""ns: copies end at whole ns, a few in each op."""


def alone(graph: lt.Graph, device: int, slower: int = 1) -> Placement:
    """The graph on one GPU, with a link that is `slower` times as slow."""
    bench = lt.Machine(
        tiers=(lt.Tier(name="gpu", capacity=device), lt.Tier(name="host")),
        processors=(lt.Processor(name="gpu", tiers=(lt.Access(tier="gpu"),)),),
        channels=(
            lt.Channel(src="gpu", dst="host", bytes_per_s=RATE_OUT // slower),
            lt.Channel(src="host", dst="gpu", bytes_per_s=RATE_IN // slower),
        ),
    )
    return Placement(graph, bench, start=dict.fromkeys(("input", "weight"), ("gpu",)))


def best(problem: Placement, share: str = "joint") -> int | None:
    """Return the optimum among the plans of a form, None if there are none."""
    result = lt.solve(problem, "tmof", threads=1, time_limit=None, options={"share": share})
    assert result.status is not lt.Status.FAILED, result.detail
    through = result.status is lt.Status.OPTIMAL or "Optimal" in result.detail
    none = result.status is lt.Status.INFEASIBLE or "Infeasible" in result.detail
    assert through or none, result.detail
    return result.objective


@pytest.mark.parametrize("seed", seeds(16))
def test_one_gpu_is_the_model_of_one_gpu(seed: int) -> None:
    graph, device = case(seed)
    expected = best(alone(graph, device))
    for share in ("joint", "disjoint", "oblivious"):
        assert best(parallel(graph, 1, device), share) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "device"), chosen(CASES))
def test_forms_stand_in_their_order(graph: lt.Graph, device: int) -> None:
    problem = parallel(graph, 2, device)
    joint = best(problem)
    single, slow = best(alone(graph, device)), best(alone(graph, device, 2))
    assert (joint is None) == (single is None) == (slow is None)
    if joint is None or single is None or slow is None:
        return
    assert single - ROUNDING <= joint <= slow + ROUNDING  # two plans of half the rate each are a joint one
    oblivious = best(problem, "oblivious")
    assert oblivious is not None
    assert joint <= oblivious + ROUNDING
    found = {share: best(problem, share) for share in ("disjoint", "bidirectional", "both")}
    for form in ("disjoint", "bidirectional"):
        if found["both"] is not None:
            value = found[form]
            assert value is not None
            assert value <= found["both"] + ROUNDING
        if (value := found[form]) is not None:
            assert joint <= value + ROUNDING


def test_a_shared_link_makes_two_gpus_wait_twice_as_long() -> None:
    graph = spill()
    exact = 3 * 100_000 + 2_000_000 + 1_666_667
    assert best(parallel(graph, 1, 20_000)) == pytest.approx(exact, abs=3)
    assert best(parallel(graph, 2, 20_000, shared=2)) == pytest.approx(exact, abs=3)
    assert best(parallel(graph, 2, 20_000)) == pytest.approx(300_000 + 2 * (exact - 300_000), abs=9)


def idle_pair() -> lt.Graph:
    """Two tensors of 10,000 bytes, of which one must be away while an op of 100 us is under way."""
    return lt.Graph(
        name="idle pair",
        tensors=(
            lt.Tensor(name="a", nbytes=10_000),
            lt.Tensor(name="b", nbytes=10_000),
            lt.Tensor(name="c", nbytes=5_000),
            lt.Tensor(name="d", nbytes=10_000),
            lt.Tensor(name="e", nbytes=5_000),
        ),
        ops=(
            lt.Op(name="make", writes=(0, 1), duration_ns=100_000),
            lt.Op(name="before", writes=(2,), duration_ns=100_000),
            lt.Op(name="fill", writes=(3,), duration_ns=100_000),
            lt.Op(name="behind", writes=(4,), duration_ns=100_000),
            lt.Op(name="use", reads=(0, 1), duration_ns=100_000),
        ),
    )


def test_disjoint_swapping_sends_other_tensors_out_on_each_gpu() -> None:
    problem = parallel(idle_pair(), 2, 25_000)
    result = lt.solve(problem, "tmof", threads=1, options={"share": "disjoint"})
    assert result.plan is not None
    gone = {(c.tensor // 2, c.dst, c.src) for c in result.plan.copies if c.dst == "host"}
    assert len(gone) == 2
    assert len({t for t, _, _ in gone}) == 2
    assert "at most 1 GPUs" in result.detail


def test_the_token_lets_one_gpu_swap_out_at_a_time() -> None:
    graph, device = case(5)
    result = lt.solve(parallel(graph, 3, device), "tmof", threads=1, options={"share": "bidirectional"})
    assert result.plan is not None
    runs = sorted({(run.start, run.op // 3) for run in result.plan.runs})
    for (begin, _), (end, _) in pairwise([*runs, (result.objective or 0, -1)]):
        some = [c for c in result.plan.copies if begin <= c.start < end]
        out = {c.src for c in some if c.dst == "host"}
        assert len(out) <= 1
        assert not out & {c.dst for c in some}


def test_lanes_hold_what_their_processors_run() -> None:
    graph, device = case(3)
    problem = parallel(graph, 2, device)
    first, second = lanes(problem)
    assert (first.device, second.device) == ("gpu0", "gpu1")
    assert first.problem.graph.to_dict()["ops"] != []
    sizes = [[t.nbytes for t in lane.problem.graph.tensors] for lane in (first, second)]
    assert sizes == [[t.nbytes for t in graph.tensors]] * 2
    assert sorted((*first.ops, *second.ops)) == list(range(2 * len(graph.ops)))


def test_what_couples_processors_otherwise_is_refused() -> None:
    graph, device = case(3)
    bench = gpus(2, device)
    with pytest.raises(lt.UsageError, match="several processors that share tiers or tensors"):
        lt.solve(Placement(graph, bench), "tmof")
    with pytest.raises(lt.UsageError, match="found 'mine', expected one of joint"):
        best(parallel(graph, 2, device), "mine")
    other = parallel(graph, 2, device)
    tier = replace(bench.tiers[1], capacity=device + 1)
    unlike = replace(other, machine=replace(bench, tiers=(bench.tiers[0], tier, bench.tiers[2])))
    with pytest.raises(lt.UsageError, match="expected copies of one"):
        best(unlike, "disjoint")
    lane = [replace(op, reads=(0, 1) if k == 3 else op.reads) for k, op in enumerate(other.graph.ops)]
    with pytest.raises(lt.UsageError, match="several processors that share tiers or tensors"):
        lt.solve(replace(other, graph=replace(other.graph, ops=tuple(lane))), "tmof")


def test_in_step_two_gpus_have_half_the_link_each_and_in_turn_they_are_faster() -> None:
    """Both must spill a tensor before a long op. In step both wait for two spills, in turn one waits."""
    graph = lt.Graph(
        name="one after the other",
        tensors=(lt.Tensor(name="x", nbytes=100), lt.Tensor(name="y", nbytes=100)),
        ops=(
            lt.Op(name="make", writes=(0,), duration_ns=10_000),
            lt.Op(name="long", writes=(1,), duration_ns=100_000),
            lt.Op(name="use", reads=(0,), duration_ns=10_000),
        ),
    )
    problem = parallel(graph, 2, 100)
    out, into = -(-100 * 10**9 // RATE_OUT), -(-100 * 10**9 // RATE_IN)
    tmof = lt.solve(problem, "tmof", threads=1)
    assert tmof.facts["form_bound"] == 120_000 + 2 * out + 2 * into
    assert "no plan of GPUs in step takes less than" in tmof.detail
    runs, copies, frees = list[lt.Run](), list[lt.Copy](), list[lt.Free]()
    for g in range(2):
        away = 10_000 + (g + 1) * out
        back = away + 100_000
        name = f"gpu{g}"
        copies += [lt.Copy(g, name, "host", away - out, away), lt.Copy(g, "host", name, back, back + into)]
        starts = (0, away, back + into)
        runs += [
            lt.Run(2 * k + g, 0, at, at + op.duration_ns, name)
            for k, (at, op) in enumerate(zip(starts, graph.ops, strict=True))
        ]
        frees += [lt.Free(g, name, away), lt.Free(2 + g, name, back)]
    plan = lt.Plan(machine=problem.machine, runs=tuple(runs), copies=tuple(copies), frees=tuple(frees))
    judged = problem.judge(plan)
    assert judged.violations == ()
    assert judged.objective == 120_000 + 2 * out + into < tmof.facts["form_bound"]
    assert tmof.bound == judged.objective  # of all plans: nothing is faster


@pytest.mark.parametrize(("graph", "device"), chosen(CASES[::3], least=4))
@pytest.mark.parametrize("many", [2, 3])
def test_bounds_of_several_gpus_stay_below_plans(graph: lt.Graph, device: int, many: int) -> None:
    problem = parallel(graph, many, device)
    joint = lt.solve(problem, "tmof", threads=1, time_limit=20)
    alone_on_its_share = lt.solve(alone(graph, device, many), "slot-lp", threads=1, time_limit=20)
    form = joint.facts.get("form_bound")
    if form is None:
        assert joint.status is lt.Status.INFEASIBLE
        return
    assert alone_on_its_share.objective is not None
    assert form <= alone_on_its_share.objective + ROUNDING
    assert joint.bound is not None
    assert joint.bound <= form
    if joint.objective is not None:
        assert form <= joint.objective
