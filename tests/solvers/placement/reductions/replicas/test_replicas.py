"""Several GPUs that do the same: plans in step and in turn verify, bounds stay below exhaustive search."""

from dataclasses import replace
from itertools import pairwise

import pytest

import lowtide as lt
from lowtide.formulations.linear_program import LinearProgram
from lowtide.formulations.placement.lanes import lanes
from lowtide.formulations.placement.slots.bytes_lp import build
from lowtide.formulations.placement.states import state_data
from lowtide.instances import load_problem
from lowtide.instances.transforms.data_parallel import data_parallel
from lowtide.models.graph import Accounting
from lowtide.models.lowering.builder import PlanBuilder
from lowtide.models.problems.placement import Placement
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs_lp import primal_values
from lowtide.solvers.placement.reductions.replicas import runtime
from lowtide.solvers.placement.reductions.replicas.commands import Command, commands
from lowtide.solvers.placement.reductions.replicas.runtime import RULES, carry_out
from lowtide.solvers.placement.reductions.replicas.share import Replicas, replicas
from lowtide.solvers.placement.reductions.replicas.together import one_context
from lowtide.solvers.placement.slots.bytes import longest_stall
from tests.effort import chosen
from tests.solvers.placement.machines import RATE_IN, RATE_OUT, linked
from tests.solvers.placement.reductions.replicas.gpu_cases import CASES, found_in, in_step_program, parallel

SQUEEZENET = (
    "onnx:squeezenet?train=1,batch=64,blocks=14,machine=v100x4-16g-shared-pcie3,start=device,"
    "device=1000MiB,replicas={}"
)


WEIGHT = lt.Graph(
    name="weight",
    tensors=(lt.Tensor(name="w", nbytes=4, kind="weight", initial=True),),
    ops=(
        lt.Op(name="a", workspace=4, duration_ns=1000),
        lt.Op(name="b", reads=(0,), duration_ns=1000),
    ),
)
"""The weight is away while the first op runs."""
SPILL = lt.Graph(
    name="spill",
    tensors=(lt.Tensor(name="x", nbytes=4),),
    ops=(
        lt.Op(name="a", writes=(0,), duration_ns=1000),
        lt.Op(name="b", workspace=4, duration_ns=1000),
        lt.Op(name="c", reads=(0,), duration_ns=1000),
    ),
)


def check_bounds(problem: Placement, best: int) -> None:
    """Hold the bounds of all methods for replicas against a plan that verifies."""
    for method in ("auto", "slot-lp", "planner", "belady", "lp-bound", "tmof", "tmof-online", "serial"):
        result = lt.solve(problem, method, threads=1, time_limit=None)
        assert result.status is not lt.Status.FAILED, result.detail
        assert result.bound is not None
        assert result.bound <= best, (method, result.bound_kind)
        assert result.facts.get("in_step_bound", 0) <= result.facts.get("in_step", best), method
        assert "in_step_bound" not in result.facts or found_in(problem).closed


@pytest.mark.parametrize("kind", ["windows", "slot model", "a name of its own", None])
def test_whether_a_bound_holds_for_all_says_its_proof_not_its_name(kind: str | None) -> None:
    homes = ("gpu0", "gpu1")
    problem = Placement(data_parallel(WEIGHT, homes), linked(2, 8, 10**6, 500_000), start={"weight": homes})
    found = found_in(problem)
    assert found.scattered
    for averages in (False, True):
        whole = Context(problem=problem)
        one = one_context(found, whole, found.alone, 1.0)
        one.raise_bound(100, kind=kind, averages=averages)
        assert (one.linear, whole.bound) == ((100, 100) if averages else (None, None))


@pytest.mark.parametrize(
    ("memory", "many", "rate_in", "best"), [(4, 4, 10**6, 13_000), (8, 2, 500_000, 21_000)]
)
def test_bounds_hold_where_weights_start_elsewhere(memory: int, many: int, rate_in: int, best: int) -> None:
    """Both weights on idle GPUs, where nothing has to leave; or one of them on the other GPU."""
    bench = linked(many, memory, 10**6, rate_in)
    homes = tuple(f"gpu{g}" for g in range(many))
    graph = replace(data_parallel(WEIGHT, homes[:2]), ops=data_parallel(big(WEIGHT, memory), homes[:2]).ops)
    problem = Placement(graph, bench, start={"weight": homes})
    back = 4 * 10**9 // rate_in
    out = PlanBuilder(graph, bench)
    starts = ("gpu2", "gpu3") if many == 4 else ("gpu1", "gpu1")
    begin = 4000
    for g, home in enumerate(starts):
        out.start(g, home)
        away = 4000 * g
        out.copy(g, home, "host", away, away + 4000)
        out.free(g, home, away + 4000)
        first = 8000 if g and many == 2 else 0
        out.run(g, 0, first, first + 1000, homes[g])
        out.copy(g, "host", homes[g], begin, begin + back)
        out.free(g, "host", begin + back)
        begin += back
        out.run(2 + g, 0, begin, begin + 1000, homes[g])
    assert problem.evaluate(out.plan()) == best
    check_bounds(problem, best)


def big(graph: lt.Graph, memory: int) -> lt.Graph:
    """Return the graph whose first op needs a whole GPU."""
    return replace(graph, ops=(replace(graph.ops[0], workspace=memory), *graph.ops[1:]))


def test_bounds_hold_where_gpus_have_channels_between_them() -> None:
    """One GPU after the other spills to its neighbour; the host is far away."""
    bench = linked(2, 4, 10_000, 10_000, between=10**9)
    graph = data_parallel(SPILL, ["gpu0", "gpu1"])
    problem = Placement(graph, bench)
    out = PlanBuilder(graph, bench)
    for g, (home, other) in enumerate((("gpu0", "gpu1"), ("gpu1", "gpu0"))):
        t = 3008 * g
        out.run(g, 0, t, t + 1000, home)
        out.copy(g, home, other, t + 1000, t + 1004)
        out.free(g, home, t + 1004)
        out.run(2 + g, 0, t + 1004, t + 2004, home)
        out.copy(g, other, home, t + 2004, t + 2008)
        out.free(g, other, t + 2008)
        out.run(4 + g, 0, t + 2008, t + 3008, home)
        out.free(g, home, t + 3008)
    assert problem.evaluate(out.plan()) == 6016
    check_bounds(problem, 6016)


@pytest.mark.parametrize(("graph", "device"), chosen(CASES))
@pytest.mark.parametrize("many", [2, 3])
def test_plans_in_step_and_in_turn_stand_in_their_order(graph: lt.Graph, device: int, many: int) -> None:
    problem = parallel(graph, many, device)
    found = found_in(problem)
    assert found.even == (many == 2)
    result = lt.solve(problem, "slot-lp", threads=1, time_limit=None)
    alone = lt.solve(found.alone, "slot-lp", threads=1, time_limit=None)
    assert result.status is not lt.Status.FAILED, result.detail
    if result.objective is None:
        return
    assert result.bound is not None
    assert alone.bound is not None
    assert alone.bound <= result.bound <= result.objective
    assert result.objective == min(result.facts[key] for key in ("in_step", "in_turn") if key in result.facts)
    if "in_step_bound" in result.facts and "in_step" in result.facts:
        assert alone.bound <= result.facts["in_step_bound"] <= result.facts["in_step"]


@pytest.mark.parametrize(("graph", "device"), chosen(CASES))
def test_the_program_of_gpus_in_step_has_the_optimum_of_one_on_its_share(
    graph: lt.Graph, device: int
) -> None:
    def optimum(program: LinearProgram) -> float:
        context = Context(problem=problem)
        values = primal_values(program, context, 60.0, vertex=True)
        assert values is not None
        return sum(c * x for c, x in zip(program.cost, values, strict=True))

    problem = parallel(graph, 2, device)
    if problem.impossible():
        return
    found = found_in(problem)
    alone, shared = state_data(found.alone), state_data(found.shared)
    stall = 2 * longest_stall(shared)
    together = in_step_program(build(alone, stall=stall), 2)
    assert optimum(together) == pytest.approx(optimum(build(shared, stall=stall).program), rel=1e-6, abs=1)


@pytest.mark.slow
def test_two_gpus_in_step_on_squeezenet() -> None:
    result = lt.solve(load_problem("placement", SQUEEZENET.format(2)), "slot-lp", threads=1, time_limit=None)
    assert result.facts["in_step_bound"] == 133_155_599
    assert 133_155_599 <= result.facts["in_step"] <= 133_155_633  # TMOF's plan: 133,160,425
    assert result.bound is not None
    assert result.objective is not None
    assert 100_205_054 <= result.bound <= result.objective <= 100_330_000  # in turn: not in step


def test_the_runtime_keeps_to_the_order_of_each_plan_and_a_runtime_that_does_not_breaks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, device = CASES[-1]
    found = found_in(parallel(graph, 2, device))
    one = lt.solve(found.alone, "slot-lp", threads=1, time_limit=None).plan
    assert one is not None
    for rule in RULES:
        plan = carry_out(found, [one, one], rule)
        assert found.problem.judge(plan).violations == ()
        assert sorted(run.op for run in plan.runs) == list(range(len(found.problem.graph.ops)))
        strict = carry_out(found, [one, one], rule, strict=True)
        assert found.problem.judge(strict).violations == ()
        assert found.problem.evaluate(plan) <= found.problem.evaluate(strict)
    apart = lt.Graph(name="apart", tensors=(), ops=tuple(lt.Op(name=x, duration_ns=5) for x in "ab"))
    idle = found_in(parallel(apart, 2, 1))
    two = lt.solve(idle.alone, "planner", threads=1, time_limit=None).plan
    assert two is not None
    for strictly, what, some, plan in (
        (True, "end", found, one),
        (False, "tensor", found, one),
        (False, "run", idle, two),
    ):

        def hasty(
            found: Replicas, plan: lt.Plan, *, strict: bool, what: str = what
        ) -> tuple[list[Command], list[int]]:
            some, used = commands(found, plan, strict=strict)
            for command in some:
                command.waits = {key: max(0, n - (key[0] == what)) for key, n in command.waits.items()}
            return some, used

        monkeypatch.setattr(runtime, "commands", hasty)
        assert some.problem.judge(carry_out(some, [plan, plan], strict=strictly)).violations != ()

    def roomy(found: Replicas, plan: lt.Plan, *, strict: bool) -> tuple[list[Command], list[int]]:
        some, used = commands(found, plan, strict=strict)
        return some, [-found.problem.graph.tensors[0].nbytes * 100 for _ in used]

    monkeypatch.setattr(runtime, "commands", roomy)
    assert found.problem.judge(carry_out(found, [one, one])).violations != ()


@pytest.mark.parametrize(("graph", "device"), chosen(CASES[::2], least=5))
def test_either_runtime_carries_out_any_plan(graph: lt.Graph, device: int) -> None:
    for accounting in Accounting:
        problem = parallel(replace(graph, accounting=accounting), 3, device)
        found = found_in(problem)
        for method in ("belady", "demand-lru", "local-search"):
            options = {"runs": "30"} if method == "local-search" else {}
            one = lt.solve(found.alone, method, threads=1, time_limit=None, options=options).plan
            if one is None:
                continue
            for rule in RULES:
                for strict in (False, True):
                    plan = carry_out(found, [one] * 3, rule, strict=strict)
                    assert problem.judge(plan).violations == ()


def test_the_token_is_held_by_one_gpu_at_a_time_until_it_has_nothing_to_copy_out() -> None:
    graph, device = CASES[-1]
    found = found_in(parallel(graph, 3, device))
    one = lt.solve(found.alone, "belady", threads=1, time_limit=None).plan
    assert one is not None
    plan = carry_out(found, [one] * 3, "token")
    assert found.problem.judge(plan).violations == ()
    for first in plan.copies:
        for other in plan.copies:
            meet = first.start < other.end and other.start < first.end
            if first.dst == "host" and first is not other and meet:
                assert other.src == "host"
                assert other.dst != first.src
    outs = sorted((c.start, c.end, c.src) for c in plan.copies if c.dst == "host")
    passed = sum(1 for (_, _, a), (_, _, b) in pairwise(outs) if a != b)
    assert 2 <= passed < len(outs) - 1


@pytest.mark.parametrize("method", ["planner", "auto", "belady", "local-search"])
def test_a_period_of_several_gpus_in_step(method: str) -> None:
    spec = (
        "gen:skipchain?n=12,seed=1,machine=v100x4-16g-shared-pcie3,device=500MB,replicas=2,periodic=1,"
        "start.input=host"
    )
    options = {"runs": "50"} if method == "local-search" else {}
    problem = load_problem("placement", spec)
    result = lt.solve(problem, method, threads=1, time_limit=None, options=options)
    assert result.objective is not None
    assert result.verification is not None
    assert result.verification.valid
    assert result.bound is not None
    assert result.bound <= result.objective


def test_one_replica_on_a_machine_of_four_is_one_gpu() -> None:
    spec = "gen:skipchain?n=8,seed=1,machine={},device=450MB,start=device"
    one = load_problem("placement", spec.format("v100-16g-pcie3"))
    four = load_problem("placement", spec.format("v100x4-16g-shared-pcie3") + ",replicas=1")
    for method in ("planner", "slot-lp"):
        results = [lt.solve(p, method, threads=1, time_limit=None) for p in (one, four)]
        assert results[0].objective == results[1].objective
        assert results[0].bound == results[1].bound


def test_different_gpus_or_caps_are_no_replicas() -> None:
    graph, device = CASES[0]
    problem = parallel(graph, 2, device)
    machine = problem.machine
    tiers = (replace(machine.tiers[0], capacity=device + 1), *machine.tiers[1:])
    assert replicas(replace(problem, machine=replace(machine, tiers=tiers))) is None
    slow = tuple(
        replace(c, bytes_per_s=c.bytes_per_s - 1) if c.src == "gpu1" else c for c in machine.channels
    )
    assert replicas(replace(problem, machine=replace(machine, channels=slow))) is None
    three = data_parallel(graph, [p.kind for p in parallel(graph, 3, device).machine.processors])
    wide = replace(parallel(graph, 3, device), graph=three)
    pairs = wide.machine.groups[0].channels[:2]
    two = (lt.ChannelGroup(name="two of three", channels=pairs, bytes_per_s=RATE_OUT),)
    assert replicas(replace(wide, machine=replace(wide.machine, groups=two))) is None
    other = replace(graph, ops=(replace(graph.ops[0], duration_ns=7), *graph.ops[1:]))
    mixed = data_parallel(other, ["gpu0", "gpu1"])
    halves = zip(problem.graph.ops[::2], mixed.ops[1::2], strict=True)
    ops = tuple(op for pair in halves for op in pair)
    assert replicas(replace(problem, graph=replace(problem.graph, ops=ops))) is None


def test_what_is_shared_is_divided() -> None:
    graph, device = CASES[0]
    problem = parallel(graph, 2, device)
    machine = problem.machine
    tiers = (*machine.tiers[:2], replace(machine.tiers[2], capacity=10**6 + 1), lt.Tier(name="ssd"))
    channels = (
        *machine.channels,
        lt.Channel(src="host", dst="ssd", bytes_per_s=1001),
        lt.Channel(src="ssd", dst="host", bytes_per_s=2000),
    )
    found = found_in(replace(problem, machine=replace(machine, tiers=tiers, channels=channels)))
    assert [t.capacity for t in found.shared.machine.tiers] == [device, 500_000, None]
    assert [c.bytes_per_s for c in found.shared.machine.channels] == [RATE_OUT, RATE_IN, 500, 1000]
    assert [g.bytes_per_s for g in found.shared.machine.groups] == [RATE_OUT // 2, RATE_IN // 2]
    assert [c.bytes_per_s for c in found.alone.machine.channels] == [RATE_OUT, RATE_IN, 1001, 2000]
    assert not found.even
    assert not found.roomy
    assert len(lanes(found.problem)) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "device"), chosen([*CASES[3::2], CASES[1]], least=2))
@pytest.mark.parametrize("barriers", [1, 3])
def test_nobody_goes_on_behind_a_barrier_before_all_are_there(
    graph: lt.Graph, device: int, barriers: int
) -> None:
    barriers = min(barriers, len(graph.ops) - 1)
    free = parallel(graph, 3, device)
    kinds = [p.kind for p in free.machine.processors]
    problem = replace(free, graph=data_parallel(graph, kinds, barriers))
    found = found_in(problem)
    for method in ("planner", "slot-lp", "tmof-online"):
        result = lt.solve(problem, method, threads=1, time_limit=None)
        assert result.status is not lt.Status.FAILED, result.detail
    one = lt.solve(found.alone, "belady", threads=1, time_limit=None).plan
    if one is None:
        return
    n = len(graph.ops)
    for rule in RULES:
        for strict in (False, True):
            plan = carry_out(found, [one] * 3, rule, strict=strict)
            assert problem.judge(plan).violations == ()
            begin = {run.op: run.start for run in plan.runs}
            end = {run.op: run.end for run in plan.runs}
            for k in (i * n // (barriers + 1) for i in range(1, barriers + 1)):
                assert min(begin[3 * k + g] for g in range(3)) >= max(end[3 * k - 3 + g] for g in range(3))


def test_barriers_are_seen_to() -> None:
    graph, device = CASES[-1]
    free = parallel(graph, 2, device)
    found = found_in(free)
    one = lt.solve(found.alone, "belady", threads=1, time_limit=None).plan
    assert one is not None
    plan = carry_out(found, [one] * 2, "turn")
    kinds = [p.kind for p in free.machine.processors]
    barred = replace(free, graph=data_parallel(graph, kinds, len(graph.ops) - 1))
    assert {v.kind for v in barred.judge(replace(plan, graph_sha256=None)).violations} == {"precedence"}
    spec = "gen:chain?n=4,machine=v100x4-16g-shared-pcie3,replicas=2,barriers={}"
    assert load_problem(Placement, spec.format(3)).graph.ops[2].after == (0, 1)
    with pytest.raises(lt.LowtideError, match="found 4 barriers, expected 0 to 3"):
        load_problem(Placement, spec.format(4))
    with pytest.raises(lt.LowtideError, match="found barriers, expected copies or replicas with them"):
        lt.load("gen:chain?n=4,barriers=1")
