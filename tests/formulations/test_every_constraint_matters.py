"""Every numbered constraint of every formulation matters: without it, a small instance has another verdict.

A verdict is what the model alone leads to: objective, bound, whether there is no solution, and whether the
judge finds the answer valid. Where an oracle or the problem's other methods say what it must be, the complete
model is held to that as well. Constraints that change no verdict are listed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from random import Random
from types import ModuleType
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.arena import olla_milp as olla
from lowtide.formulations.arena import rectangles_cpsat as rectangles
from lowtide.formulations.arena.data import arena_data
from lowtide.formulations.distributed import intervals_cpsat as distributed_cpsat
from lowtide.formulations.distributed.data import distributed_data
from lowtide.formulations.makespan import intervals_cpsat, ticks_milp
from lowtide.formulations.makespan.data import makespan_data
from lowtide.formulations.minio import cuts_cpsat, joint_cpsat, order_milp
from lowtide.formulations.minio.data import MinIOData, written_at_once
from lowtide.formulations.offsets import orders_milp, rectangles_cpsat, sections_cpsat
from lowtide.formulations.parallel import cut_milp, edges_cpsat, edges_milp, network
from lowtide.formulations.partition import latency_milp
from lowtide.formulations.partition import stages_milp as partition_milp
from lowtide.formulations.peak import (
    olla_milp,
    olla_tensors_milp,
    positions_cpsat,
    steps_cpsat,
    steps_milp,
)
from lowtide.formulations.pipeline import intervals_cpsat as pipeline_cpsat
from lowtide.formulations.placement import autotm_milp, sequence, slots_milp, tmof_milp, windows_cpsat
from lowtide.formulations.placement import intervals_cpsat as placement_cpsat
from lowtide.formulations.placement.pieces import coarse
from lowtide.formulations.placement.states import state_data
from lowtide.formulations.recompute import moccasin_cpsat, moments_milp, stages_milp
from lowtide.formulations.recompute.data import in_ns, recompute_data
from lowtide.formulations.recompute.stages_paging import CONSTRAINTS as PAGING
from lowtide.formulations.streams import rates_cpsat, stages_cpsat
from lowtide.models.buffers import Buffer, Buffers
from lowtide.models.derived.memory import sequential_memory
from lowtide.solvers.context import Context
from lowtide.solvers.engines.cpsat import solve_cpsat
from lowtide.solvers.engines.highs import solve_highs
from lowtide.solvers.minio.rules import tree_data
from lowtide.solvers.parallel import edges_cpsat as conflicts
from lowtide.solvers.recompute.models.moments import relaxed_data
from lowtide.solvers.recompute.models.paging import paging
from tests import offsets_solving, peak_solving, recompute_problems
from tests.distributed_problems import optimum as fastest
from tests.distributed_problems import problem_of
from tests.leaving_out import numbers, numbers_of_page, without
from tests.makespan_problems import optimum, problem_of_identical, problem_with_kinds
from tests.oracles.autotm_rules import fastest as fastest_by_rules
from tests.oracles.brute_arena import arena_cases, least_height
from tests.oracles.brute_minio import fewest_bytes
from tests.oracles.brute_parallel import least_critical_path, most_memory
from tests.oracles.brute_partition import best as least_load
from tests.oracles.brute_pipeline import least as least_of_pipeline
from tests.oracles.brute_placement import fastest as fastest_placement
from tests.oracles.brute_recompute import fastest_recomputation
from tests.oracles.brute_stages import fastest_in_stages
from tests.oracles.brute_streams import fastest_stages
from tests.oracles.random_placement import random_placement
from tests.partition_problems import random_latency, random_partition
from tests.pipeline_problems import small as pipeline_of_two
from tests.placement_cases import machine, random_graph, tiny_placement, with_modes, working_set
from tests.solvers.minio.test_solve import small_problems
from tests.solvers.placement.test_autotm import case as autotm_case
from tests.solvers.placement.test_slots import start_of
from tests.solvers.placement.test_slots_milp import case as slots_case
from tests.solvers.placement.test_slots_milp import ragged
from tests.solvers.placement.test_tmof import scaled, spill
from tests.solvers.placement.test_tmof_gpus import parallel
from tests.solvers.streams.test_devices import rates_question
from tests.solvers.streams.test_stages import question as stages_question
from tests.strategies import random_graph as any_graph
from tests.strategies import readers_graph

Verdict = tuple[Any, ...]

Part = int | str

NO_ANSWER = (lt.LowtideError, offsets_solving.WrongSolution, RuntimeError, LookupError, AssertionError)
"""What reading or solving ends with where a solution is none."""


@dataclass(frozen=True)
class Case:
    """A formulation, small instances, and how a model of one of them is judged."""

    name: str
    formulation: ModuleType
    battery: Callable[[], list[tuple[Any, Verdict | None]]]
    """Instances with the verdict of an oracle; None where there is none."""
    verdict: Callable[[ModuleType, Any], Verdict]
    implied: tuple[Part, ...] = ()
    """Constraints that change no verdict; the page says why."""
    chosen: tuple[Part, ...] = ()
    """Constraints that these instances are for, numbers or names of rows; else all."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The constraints that are left out one by one."""
        return self.chosen or tuple(numbers(self.formulation))


def solved(formulation: ModuleType, problem: Any, built: Any, read: Any, to_objective: Any) -> Context:
    """Solve a model as it is; return what is found, with `refused` telling whether there is no solution."""
    context = Context(problem=problem, threads=1, time_limit=None)
    run = solve_cpsat if formulation.ENGINE == "cpsat" else solve_highs
    outcome = run(built.model, context, decode=read, to_objective=to_objective)
    context.refused = "infeasible" if outcome.infeasible else ""
    return context


def verdict_of(context: Context) -> Verdict:
    valid = context.answer is None or not context.problem.judge(context.answer).violations
    return context.incumbent, None if context.refused else context.bound, context.refused, valid


def proved(best: int | None) -> Verdict:
    return (None, None, "infeasible", True) if best is None else (best, best, "", True)


# peak: one order


def peak(formulation: ModuleType, graph: lt.Graph) -> Verdict:
    context, outcome = peak_solving.solve_model(formulation, graph)
    context.refused = "infeasible" if outcome.infeasible else ""
    return verdict_of(context)


def peak_battery() -> list[tuple[Any, Verdict | None]]:
    return [(graph, proved(best)) for graph, best in peak_solving.battery()]


# offsets: an allocation

SKEWED = Buffers(
    buffers=(
        Buffer(id="a", lower=0, upper=2, size=3, offset=0),
        Buffer(id="b", lower=1, upper=3, size=3, offset=1),
    ),
    inplace=(("a", "b"),),
)
"""A pair that overlaps and does not share its address."""


def offsets(formulation: ModuleType, buffers: Buffers) -> Verdict:
    return (offsets_solving.least_height(formulation, buffers),)


def offsets_battery() -> list[tuple[Any, Verdict | None]]:
    return [(buffers, (least,)) for buffers, least in [*offsets_solving.battery(60), (SKEWED, None)]]


def offsets_by_places(formulation: ModuleType, buffers: Buffers) -> Verdict:
    """Of the offsets themselves: what `decode` makes of the positions alone is valid without them."""
    changed = ModuleType(formulation.__name__)
    vars(changed).update(vars(formulation))
    vars(changed)["decode"] = lambda built, value: tuple(
        round(value(built.model.offset[i])) for i in range(built.data.count)
    )
    return offsets(changed, buffers)


# makespan: a schedule


def makespan(formulation: ModuleType, problem: lt.Makespan, **options: Any) -> Verdict:
    data = makespan_data(problem)
    built = formulation.build(data, horizon=data.horizon, **options)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, lambda ticks: ticks * data.tick))


def reservoir(formulation: ModuleType, problem: lt.Makespan) -> Verdict:
    return makespan(formulation, problem, form=intervals_cpsat.RESERVOIR)


@cache
def makespan_battery() -> list[tuple[Any, Verdict | None]]:
    """Problems in which what is there at the start fits: it is looked at before a model is built."""
    problems = [make(seed) for seed in range(30) for make in (problem_of_identical, problem_with_kinds)]
    return [
        (problem, proved(optimum(problem)))
        for problem in problems
        if problem.memory is None or sequential_memory(problem.graph).initial_bytes <= problem.memory
    ]


# arena: an order, addresses


def arena(formulation: ModuleType, problem: lt.Arena) -> Verdict:
    data = arena_data(problem)
    built = formulation.build(data)
    context = solved(
        formulation,
        problem,
        built,
        lambda value: formulation.decode(built, value),
        lambda units: units * data.unit,
    )
    return verdict_of(context)


@cache
def arenas() -> list[tuple[Any, Verdict | None]]:
    every = [*arena_cases(range(97))]
    small = [k for k, (g, _) in enumerate(every) if 2 <= len(g.ops) <= 4 and len(g.tensors) >= 3]
    chosen = [every[k] for k in (*small[:10], 64, 85, 96)]
    return [(lt.Arena(g, a), proved(least_height(g, a))) for g, a in chosen]


# distributed: a schedule, transfers


def distributed(formulation: ModuleType, problem: lt.Distributed) -> Verdict:
    data = distributed_data(problem)
    built = formulation.build(data, horizon=data.horizon)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, lambda ticks: ticks * data.tick))


@cache
def distributed_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [problem_of(seed) for seed in range(25)]
    return [(p, proved(fastest(p))) for p in problems if p.impossible() is None]


# partition: stages


def partition(formulation: ModuleType, problem: lt.Partition) -> Verdict:
    built = formulation.build(problem)
    return verdict_of(solved(formulation, problem, built, partial(formulation.decode, built), int))


@cache
def partition_battery() -> list[tuple[Any, Verdict | None]]:
    found: list[tuple[Any, Verdict | None]] = []
    for seed in range(24):
        problem = random_partition(seed, most_ops=4)
        problem = replace(problem, schedule="none", recompute="none", replicate=1, contiguous=seed % 3 > 0)
        problem = replace(problem, memory=seed % 8) if seed % 2 else problem
        found.append((problem, proved(least_load(problem))))
    return found


@cache
def latency_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [random_latency(seed) for seed in range(12)]
    return [(p, proved(least_load(p))) for p in problems]


# pipeline: starts


def pipeline(formulation: ModuleType, problem: lt.Pipeline) -> Verdict:
    built = formulation.build(problem)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, int))


def pipeline_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [pipeline_of_two(seed) for seed in (0, 1, 2, 3, 4, 5, 6, 7)]
    return [(p, proved(least_of_pipeline(p))) for p in problems if p.impossible() is None]


# minio: what is written


def minio_order(formulation: ModuleType, problem: lt.MinIO) -> Verdict:
    data = tree_data(problem, "test")
    order = tuple(range(data.n))
    some = formulation.demands(data, order)
    if not some:
        return (0, True)
    built = formulation.build(data, some)
    read = lambda value: written_at_once(data, order, formulation.decode(built, value))  # noqa: E731
    context = solved(formulation, problem, built, read, lambda units: units * data.unit)
    return context.incumbent, not problem.judge(context.answer).violations


def minio_orders() -> list[tuple[Any, Verdict | None]]:
    found: list[tuple[Any, Verdict | None]] = []
    for whole in (False, True):
        for _, problem in small_problems(8, whole):
            n = len(problem.graph.ops)
            least = fewest_bytes(problem.graph, problem.memory, whole=whole, order=range(n))
            found.append((problem, (least, True)))
    return found


def minio_joint(formulation: ModuleType, problem: lt.MinIO) -> Verdict:
    data = tree_data(problem, "test")
    built = formulation.build(data, [0] * data.n)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, lambda units: units * data.unit))


def minio_problems() -> list[tuple[Any, Verdict | None]]:
    return [
        (problem, proved(fewest_bytes(problem.graph, problem.memory, whole=whole)))
        for whole in (False, True)
        for _, problem in small_problems(8, whole)
    ]


def minio_parent_first(formulation: ModuleType, problem: lt.MinIO) -> Verdict:
    """Whether a node may come behind its parent, which reads nothing of it."""
    data = tree_data(problem, "test")
    built = formulation.build(data, [0] * data.n)
    built.model.add(built.place[2] < built.place[0])
    read = lambda value: None  # noqa: E731
    return (solved(formulation, problem, built, read, lambda units: units).refused,)


def minio_reversed() -> list[tuple[Any, Verdict | None]]:
    """Five nodes; of the first one a file without bytes goes to the third."""
    tensors = tuple(lt.Tensor(name=f"t{k}", nbytes=min(k, 1)) for k in range(4))
    parent = {0: 2, 1: 4, 2: 4, 3: 4}
    ops = tuple(
        lt.Op(name=f"o{i}", reads=tuple(t for t, p in parent.items() if p == i), writes=(i,) if i < 4 else ())
        for i in range(5)
    )
    problem = lt.MinIO(lt.Graph(name="no bytes", tensors=tensors, ops=ops), memory=9)
    return [(problem, ("infeasible",))]


SIZES, WAITS, GAIN = (3, 4), (2, 4), 4
"""Units of two parts, how many of them wait in a cut, and what it gains."""


def minio_cut(formulation: ModuleType, cutoff: int | None) -> Verdict:
    """The fewest units of two parts that meet a cut, below a cutoff."""
    from ortools.sat.python import cp_model

    data = MinIOData(
        memory=9,
        whole=False,
        parent=(2, 2, -1),
        need=(3, 4, 8),
        maker=(0, 1),
        size=SIZES,
        tensor=(0, 1),
    )
    built = formulation.build(data)
    formulation.add_cut(built, tuple(enumerate(WAITS)), GAIN)
    if cutoff is not None:
        formulation.add_cutoff(built, cutoff)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(built.model)
    return (None if status == cp_model.INFEASIBLE else round(solver.objective_value),)


def minio_cuts() -> list[tuple[Any, Verdict | None]]:
    least = min(
        sum(w)
        for w in product(*(range(size + 1) for size in SIZES))
        if sum(max(0, a - (f - s)) for a, f, s in zip(w, SIZES, WAITS, strict=True)) >= GAIN
    )
    return [(None, (least,)), (least + 1, (least,)), (least, (None,))]


# parallel: the most memory, and edges


def moments(formulation: ModuleType, problem: lt.ParallelMemory) -> Verdict:
    built = formulation.build(network.build(problem.graph), problem.processors)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    context = solved(formulation, problem, built, read, lambda units: -units * built.unit)
    return context.incumbent, context.bound


def parallel_battery() -> list[tuple[Any, Verdict | None]]:
    found: list[tuple[Any, Verdict | None]] = []
    for seed in range(30):
        graph = any_graph(Random(seed), max_ops=6)
        for processors in (None, 1, 2):
            most = most_memory(graph, processors=processors)
            found.append((lt.ParallelMemory(graph, processors=processors), (most, most)))
    return found


def edges(formulation: ModuleType, problem: lt.MemoryEdges) -> Verdict:
    """The length of the critical path that the model says, and whether its edges keep the bound."""
    graph = problem.graph
    built = formulation.build(graph, problem.bound)
    lengths: list[int] = []
    kept: list[bool] = []

    def read(value: Callable[[Any], float]) -> None:
        some = set(formulation.decode(built, graph, value))
        lengths[:] = [round(value(built.model.length))]
        kept[:] = [most_memory(graph, some) <= problem.bound]

    context = solved(formulation, problem, built, read, lambda ns: ns)
    return (*lengths, *kept, context.refused)


def edges_battery() -> list[tuple[Any, Verdict | None]]:
    found: list[tuple[Any, Verdict | None]] = []
    for problem, least in edge_problems():
        if not network.build(problem.graph).shared:
            expected = ("infeasible",) if least is None else (least, True, "")
            found.append((problem, expected))
    return found


@cache
def edge_problems() -> list[tuple[lt.MemoryEdges, int | None]]:
    found = []
    for seed in range(24):
        rng = Random(seed)
        if seed % 2:
            graph = readers_graph(rng, max_ops=4)
        else:
            graph = any_graph(rng, min_ops=3, max_ops=4, max_duration=4)
        most = most_memory(graph)
        problem = lt.MemoryEdges(graph, rng.randint(most // 2, most))
        found.append((problem, least_critical_path(graph, problem.bound)))
    return found


def edges_by_conflicts(formulation: ModuleType, problem: lt.MemoryEdges) -> Verdict:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conflicts, "formulation", formulation)
        context = Context(problem=problem, threads=1, time_limit=None)
        outcome = conflicts.solve_cpsat(problem, context)
    context.refused = "infeasible" if outcome.infeasible else ""
    return context.incumbent, context.bound if context.incumbent is not None else None, context.refused


def conflicts_battery() -> list[tuple[Any, Verdict | None]]:
    return [
        (problem, (least, least, "infeasible" if least is None else "")) for problem, least in edge_problems()
    ]


# placement: where tensors are


def intervals(formulation: ModuleType, problem: lt.Placement) -> Verdict:
    data = state_data(problem)
    horizon = data.ideal + sequence.longest_stall(data)
    tick = formulation.common_tick(data, sequence.rates(data, beside=False)[0])
    built = formulation.build(data, horizon, tick=tick, rows=data.periodic)
    read = lambda value: formulation.decode(built, value, problem)  # noqa: E731
    context = solved(formulation, problem, built, read, lambda ticks: ticks * built.tick)
    return context.incumbent, context.refused, verdict_of(context)[3]


def windows(formulation: ModuleType, problem: lt.Placement) -> Verdict:
    from ortools.sat.python import cp_model

    data = state_data(problem, modes=True)
    built = formulation.build(data, data.ideal + sequence.longest_stall(data))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(built.model)
    return solver.status_name(status), status == cp_model.OPTIMAL and solver.objective_value


@cache
def tiny_placements(*seeds: int) -> list[tuple[Any, Verdict | None]]:
    problems = [tiny_placement(seed) for seed in seeds]
    found = [(p, fastest_placement(p.graph, p.machine, start_of(p))) for p in problems]
    return [(p, (best, "infeasible" if best is None else "", True)) for p, best in found]


def intervals_battery() -> list[tuple[Any, Verdict | None]]:
    return tiny_placements(1, 2, 3, 5, 6, 8, 10)


def periods_battery() -> list[tuple[Any, Verdict | None]]:
    some = [(replace(random_placement(seed), whole=True), None) for seed in (101, 381, 758, 893)]
    to_the_end = random_placement(74, ops=5, accounting=lt.Accounting.REPLACE)  # its last op updates a tensor
    barred = random_placement(525, ops=5)  # what may not start in a tier would stay there round the end
    return [*some, (replace(to_the_end, whole=True), (4859, "", True)), (replace(barred, whole=True), None)]


def windows_battery() -> list[tuple[Any, Verdict | None]]:
    graph = scaled(random_graph(4, 9), 10_000)
    some = [
        lt.Placement(graph, machine(working_set(graph), host, ssd=True), whole=True) for host in (0, 60_000)
    ]
    two = lt.Placement(graph, machine(working_set(graph), 90_000, ssd=False), whole=True)
    tiny = [*map(tiny_placement, (1, 2, 3, 5)), with_modes(tiny_placement(1), 1)]
    return [(problem, None) for problem in [*some, two, *tiny]]


def by_method(method: str, module: ModuleType, **options: str) -> Callable[[ModuleType, Any], Verdict]:
    """Return the verdict of a method of `placement` that builds its models by `build` of a module."""

    def verdict(formulation: ModuleType, problem: lt.Placement) -> Verdict:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "build", formulation.build)
            result = lt.solve(problem, method, threads=1, time_limit=None, options=options)
        return result.objective, str(result.status), result.facts.get("form_bound")

    return verdict


def slots(formulation: ModuleType, item: tuple[lt.Placement, bool]) -> Verdict:
    """The optimum of the lower or upper model where pieces are cut."""
    problem, upper = item
    data = state_data(problem)
    cut = ragged(coarse(data), 1)
    built = formulation.build(cut, most=sequence.longest_stall(data), upper=upper)
    context = solved(formulation, problem, built, lambda value: None, lambda ns: ns)
    return context.bound, context.refused


def trade() -> lt.Placement:
    """One tensor has to leave before another one has room: a stall whose first part must count."""
    tensors = (
        lt.Tensor(name="a", nbytes=10_000),
        lt.Tensor(name="b", nbytes=10_000, initial=True, kind="input"),
    )
    ops = (lt.Op(name="make", writes=(0,)), lt.Op(name="other", reads=(1,)), lt.Op(name="use", reads=(0,)))
    graph = lt.Graph(name="trade", tensors=tensors, ops=ops)
    return lt.Placement(graph, machine(10_000, None, ssd=False), whole=True, start={"input": ("host",)})


def slots_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [trade(), *map(tiny_placement, (1, 2, 3, 5)), *map(slots_case, (0, 1, 4))]
    return [((problem, upper), None) for problem in problems for upper in (False, True)]


def autotm_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [autotm_case(seed, in_place=some) for seed in range(8) for some in (True, False)]
    return [(problem, (fastest_by_rules(problem, "async"),)) for problem in problems]


def autotm(formulation: ModuleType, problem: lt.Placement) -> Verdict:
    return by_method("autotm-async", autotm_milp, rounds="0")(formulation, problem)[:1]


def tmof_battery() -> list[tuple[Any, Verdict | None]]:
    found: list[Any] = [lt.Placement(spill(), machine(20_000, None, ssd=False))]
    for seed in (1, 4, 7, 12, 17):
        graph = scaled(random_graph(seed, 9), 10_000)
        bench = machine(working_set(graph) + (seed % 7) * 30_000, None, ssd=False)
        start = {"input": ("gpu",), "weight": ("gpu", "host")[: 1 + seed % 2]}
        found.append(lt.Placement(graph, bench, start=start))
    return [(problem, None) for problem in found]


def tmof_shared(share: str) -> Callable[[ModuleType, Any], Verdict]:
    return by_method("tmof", tmof_milp, share=share)


def tmof_in_turn() -> list[tuple[Any, Verdict | None]]:
    return [(parallel(spill(), 2, 20_000), None), (parallel(spill(), 3, 20_000, shared=2), None)]


# recompute: what runs again


def stages(formulation: ModuleType, problem: lt.Recompute, *, free: bool = False) -> Verdict:
    count = len(problem.graph.ops) + 2 if free else None
    built = formulation.build(recompute_data(problem), stages=count)
    found = recompute_problems.milp(problem, built.model, lambda value: formulation.decode(built, value))
    return found.incumbent, found.answer is None or not problem.judge(found.answer).violations


def stages_battery() -> list[tuple[Any, Verdict | None]]:
    return [
        (problem, (fastest_in_stages(problem.graph, problem.memory or 0), True))
        for problem in recompute_problems.battery()
    ]


def free_stages(formulation: ModuleType, problem: lt.Recompute) -> Verdict:
    return stages(formulation, problem, free=True)


def free_battery() -> list[tuple[Any, Verdict | None]]:
    return [
        (problem, (fastest_recomputation(problem.graph, problem.machine), True))
        for problem in recompute_problems.battery()
    ]


def paged(formulation: ModuleType, problem: lt.Recompute) -> Verdict:
    data = recompute_data(problem)
    built = formulation.build(in_ns(data), paging=paging(problem, data))
    read = lambda value: problem.with_discards(formulation.decode_paged(built, value))  # noqa: E731
    found = recompute_problems.milp(problem, built.model, read)
    return found.incumbent, found.answer is None or not problem.judge(found.answer).violations


def paged_battery() -> list[tuple[Any, Verdict | None]]:
    return [
        (problem, (fastest_recomputation(problem.graph, problem.machine), True))
        for problem in recompute_problems.paged_battery()
    ]


def relaxation(formulation: ModuleType, problem: lt.Recompute) -> Verdict:
    """The bound by all moments of a longest path; None if the relaxation has no solution."""
    relaxed = relaxed_data(problem)
    assert relaxed is not None
    data, slower = relaxed
    built = formulation.build(data, formulation.longest_path(data), slower=slower)
    return (solved(formulation, problem, built, lambda value: None, data.ns).bound,)


def relaxation_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [*recompute_problems.battery(), *recompute_problems.paged_battery()]
    more = ("ends_on_the_disk", "beside_the_path", "after_the_update")
    return [
        (problem, None) for problem in [*problems, *(getattr(recompute_problems, name)() for name in more)]
    ]


def retentions(formulation: ModuleType, problem: lt.Recompute) -> Verdict:
    data = recompute_data(problem)
    built = formulation.build(data, copies=data.n)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    context = solved(formulation, problem, built, read, data.ns)
    return context.incumbent, verdict_of(context)[3]


# streams: stages of groups


def groups(formulation: ModuleType, problem: lt.Streams) -> Verdict:
    built = formulation.build(problem)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, lambda ns: ns))


def groups_battery() -> list[tuple[Any, Verdict | None]]:
    return [
        (
            p,
            proved(
                fastest_stages(
                    p.graph,
                    p.contention,
                    p.device.parts,
                    sync_ns=p.sync_ns,
                    memory=p.memory,
                    streams=p.streams,
                )
            ),
        )
        for p in map(stages_question, (*range(20), 56, 84))
    ]


def rates_battery() -> list[tuple[Any, Verdict | None]]:
    return [(p, proved(best)) for p, best in map(rates_question, range(14))]


FREE = ("runs_once", "runs_after")
"""Rows that only free stages have."""

ROWS = [name for name in stages_milp.CONSTRAINTS if name not in (*FREE, *PAGING)]

CASES = [
    *(Case(f"peak {m.__name__.rpartition('.')[2]}", m, peak_battery, peak)
      for m in (steps_cpsat, positions_cpsat, olla_milp, olla_tensors_milp, steps_milp)),
    Case("offsets rectangles", rectangles_cpsat, offsets_battery, offsets, implied=(5,)),
    Case("offsets sections", sections_cpsat, offsets_battery, offsets, implied=(5,)),
    Case("offsets orders", orders_milp, offsets_battery, offsets_by_places),
    Case("makespan cumulative", intervals_cpsat, makespan_battery, makespan),
    Case("makespan reservoir", intervals_cpsat, makespan_battery, reservoir),
    Case("makespan ticks", ticks_milp, makespan_battery, makespan),
    Case("distributed intervals", distributed_cpsat, distributed_battery, distributed),
    Case("partition stages", partition_milp, partition_battery, partition),
    Case("partition latency", latency_milp, latency_battery, partition),
    Case("pipeline intervals", pipeline_cpsat, pipeline_battery, pipeline, implied=(5,)),
    Case("arena rectangles", rectangles, arenas, arena, implied=(5, 8)),
    Case("arena olla", olla, arenas, arena),
    Case("minio order", order_milp, minio_orders, minio_order),
    Case("minio joint", joint_cpsat, minio_problems, minio_joint, (1, 4), (1, 3, 4)),
    Case("minio joint, parent first", joint_cpsat, minio_reversed, minio_parent_first, (), (2,)),
    Case("minio cuts", cuts_cpsat, minio_cuts, minio_cut),
    Case("parallel moments", cut_milp, parallel_battery, moments),
    Case("parallel edges", edges_milp, edges_battery, edges, implied=(1, 2)),
    Case("parallel conflicts", edges_cpsat, conflicts_battery, edges_by_conflicts),
    Case("placement intervals", placement_cpsat, intervals_battery, intervals, (9,), (2, 3, 4, 5, 6, 9)),
    Case("placement intervals in periods", placement_cpsat, periods_battery, intervals, (), (6, 7, 8)),
    Case("placement windows", windows_cpsat, windows_battery, windows),
    Case("placement slots", slots_milp, slots_battery, slots),
    Case("placement autotm", autotm_milp, autotm_battery, autotm),
    Case("placement tmof", tmof_milp, tmof_battery, by_method("tmof", tmof_milp), (), (1, 2, 3, 4, 5)),
    Case("placement tmof disjoint", tmof_milp, tmof_in_turn, tmof_shared("disjoint"), (), (6,)),
    Case("placement tmof bidirectional", tmof_milp, tmof_in_turn, tmof_shared("bidirectional"), (), (7,)),
    Case("recompute stages", stages_milp, stages_battery, stages, ("leaves_something",), tuple(ROWS)),
    Case("recompute free stages", stages_milp, free_battery, free_stages, (), FREE),
    Case("recompute paging", stages_milp, paged_battery, paged, (), PAGING),
    Case("recompute moments", moments_milp, relaxation_battery, relaxation, (), moments_milp.CONSTRAINTS),
    Case("streams stages", stages_cpsat, groups_battery, groups, implied=(9,)),
    Case("streams rates", rates_cpsat, rates_battery, groups, implied=(1,)),
    Case("recompute retentions", moccasin_cpsat, stages_battery, retentions, implied=(2,)),
]  # fmt: skip


@cache
def verdicts(number: int) -> list[tuple[Any, Verdict | None, Verdict]]:
    """Return the instances of a case, the oracle's verdicts, and those of the complete model."""
    case = CASES[number]
    return [(x, must, case.verdict(case.formulation, x)) for x, must in case.battery()]


def notices(number: int, part: Part) -> bool:
    """Whether an instance has another verdict without a constraint."""
    case = CASES[number]
    changed = without(case.formulation, part)
    for problem, _, right in verdicts(number):
        try:
            if case.verdict(changed, problem) != right:
                return True
        except NO_ANSWER:
            return True
    return False


EVERY = [
    pytest.param(k, part, id=f"{case.name} {part}") for k, case in enumerate(CASES) for part in case.parts
]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_complete_models_have_the_verdicts_of_oracles(number: int) -> None:
    for problem, must, found in verdicts(number):
        assert must is None or found == must, problem


@pytest.mark.parametrize(("number", "part"), EVERY)
def test_without_a_constraint_a_verdict_changes(number: int, part: Part) -> None:
    assert notices(number, part) == (part not in CASES[number].implied)


@pytest.mark.parametrize("formulation", dict.fromkeys(case.formulation for case in CASES))
def test_every_constraint_is_on_the_page_and_in_a_case(formulation: ModuleType) -> None:
    cases = [case for case in CASES if case.formulation is formulation]
    tried = {part for case in cases for part in case.parts}
    if isinstance(part := next(iter(tried)), str):
        assert tried == set(formulation.CONSTRAINTS), part
        return
    page = numbers_of_page(formulation)
    page += numbers_of_page(network) if formulation is cut_milp else []
    assert tried <= set(page)
    if hasattr(formulation, "CONSTRAINTS"):
        assert page == sorted(tried)
        for number, constrain in enumerate(formulation.CONSTRAINTS, 1):
            assert (constrain.__doc__ or "").startswith(f"Constraint {number}")
