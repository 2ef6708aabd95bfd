"""Leaving out a part of a model of recomputation is noticed; so are copies and hints that are gone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import pytest

import lowtide as lt
from lowtide.formulations.recompute import (
    moccasin_cpsat as recompute_moccasin,
)
from lowtide.formulations.recompute import (
    moments_milp as recompute_moments,
)
from lowtide.formulations.recompute import (
    stages_milp as recompute_stages,
)
from lowtide.formulations.recompute import (
    stages_paging as recompute_stages_paging,
)
from lowtide.formulations.recompute.data import in_ns, recompute_data, time_of
from lowtide.formulations.recompute.stages_hint import stages_of
from lowtide.models.errors import UsageError
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs import solve_highs
from lowtide.solvers.recompute.models.moments import relaxed_data
from lowtide.solvers.recompute.models.paging import paging
from tests.oracles.brute_recompute import fastest_recomputation
from tests.oracles.brute_stages import fastest_in_stages
from tests.recompute_problems import chain_with_disk, milp, tight_problem, with_copies

CUTS = ("leaves_something",)
"""Rows that exclude no optimum."""

PAGED = recompute_stages_paging.FAMILIES

FREE = ("runs_once", "runs_after")
"""Rows that only free stages have."""


def problems(seeds: tuple[int, ...], *, single_writer: bool | None = None) -> list[lt.Recompute]:
    found = [tight_problem(seed, single_writer=single_writer) for seed in seeds]
    assert None not in found
    return [problem for problem in found if problem is not None]


BATTERY = [*problems((1, 14, 17, 72, 116)), *problems((227, 609, 631), single_writer=False)]


def with_little_room(
    sizes: tuple[int, ...], ops: tuple[lt.Op, ...], memory: int, disk: int | None = None, finals: int = 0
) -> lt.Recompute:
    """Initial tensors of so many bytes, of which the first few are final; runs one after another."""
    made = {t for op in ops for t in op.writes if t not in op.reads}
    tensors = tuple(
        lt.Tensor(name=f"t{k}", nbytes=size, initial=k not in made, final=k < finals)
        for k, size in enumerate(sizes)
    )
    one_by_one = tuple(replace(op, after=(i - 1,) if i else ()) for i, op in enumerate(ops))
    machine = lt.Machine(
        tiers=(lt.Tier(name="memory"), lt.Tier(name="disk", capacity=disk)),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
        channels=(
            lt.Channel(src="memory", dst="disk", bytes_per_s=10**9, latency_ns=10),
            lt.Channel(src="disk", dst="memory", bytes_per_s=10**9),
        ),
    )
    return lt.Recompute(
        lt.Graph(name="little room", tensors=tensors, ops=one_by_one), memory=memory, machine=machine
    )


def full_disk() -> lt.Recompute:
    """One large value would go to the disk, if that had room for it; two small ones have to."""
    ops = (
        lt.Op(name="begin", reads=(0, 1, 2)),
        lt.Op(name="large", workspace=5),
        lt.Op(name="one", reads=(0, 1)),
        lt.Op(name="two", reads=(0, 2)),
    )
    return with_little_room((5, 2, 2), ops, 10, disk=4)


def crowded() -> lt.Recompute:
    """What comes back takes room while it is read, which another value has to leave."""
    ops = (
        lt.Op(name="begin", reads=(0, 1)),
        lt.Op(name="large", workspace=6),
        lt.Op(name="reads", reads=(0,), writes=(2,)),
        lt.Op(name="end", reads=(1, 2)),
    )
    return with_little_room((4, 2, 4), ops, 9)


def updated() -> lt.Recompute:
    """What comes back and is written in place takes its bytes once."""
    ops = (
        lt.Op(name="begin", reads=(0,)),
        lt.Op(name="large", workspace=6),
        lt.Op(name="update", reads=(0,), writes=(0,)),
    )
    return with_little_room((4,), ops, 7, finals=1)


def read_twice() -> lt.Recompute:
    """What came back for one op stays for the next one."""
    ops = (
        lt.Op(name="begin", reads=(0,)),
        lt.Op(name="large", workspace=6),
        lt.Op(name="one", reads=(0,)),
        lt.Op(name="two", reads=(0,)),
    )
    return with_little_room((4,), ops, 7)


def in_stages(problem: lt.Recompute, *, free: bool, without: str | None = None) -> bool:
    """Whether the model, maybe without a family of rows, has what exhaustive search finds."""
    assert problem.memory is not None
    if free:
        best = fastest_recomputation(problem.graph, problem.machine)
    else:
        best = fastest_in_stages(problem.graph, problem.memory)
    stages = len(problem.graph.ops) + 2 if free else None
    built = recompute_stages.build(recompute_data(problem), stages=stages)
    assert built is not None
    if without is not None:
        built.model.del_component(without)
    try:
        found = milp(problem, built.model, lambda value: recompute_stages.decode(built, value))
    except lt.InstanceError:  # the solution is no sequence of runs
        return False
    if found.answer is None or best is None:
        return found.answer is None and best is None
    return found.incumbent == best and not problem.judge(found.answer).violations


def with_paging(problem: lt.Recompute, without: str | None = None) -> bool:
    """Whether the model with paging has what exhaustive search finds."""
    data = recompute_data(problem)
    costs = paging(problem, data)
    built = recompute_stages.build(in_ns(data), paging=costs)
    assert built is not None
    if without is not None:
        built.model.del_component(without)
    found = milp(
        problem,
        built.model,
        lambda value: problem.with_discards(recompute_stages.decode_paged(built, value)),
    )
    best = fastest_recomputation(problem.graph, problem.machine)
    return found.incumbent == best and not problem.judge(found.answer).violations


def bound(problem: lt.Recompute, without: str | None = None) -> int | None:
    """The bound by all moments of a longest path; None if the relaxation has no solution."""
    relaxed = relaxed_data(problem)
    assert relaxed is not None
    data, slower = relaxed
    built = recompute_moments.build(data, recompute_moments.longest_path(data), slower=slower)
    assert built is not None
    if without is not None:
        built.model.del_component(without)
    context = Context(problem=problem)
    outcome = solve_highs(built.model, context, decode=lambda value: None, to_objective=data.ns)
    assert outcome.reason is None
    return None if outcome.infeasible else context.bound


def test_complete_models_have_the_optima() -> None:
    for problem in BATTERY:
        assert in_stages(problem, free=False)
        assert in_stages(problem, free=True)


@pytest.mark.parametrize("family", [f for f in recompute_stages.FAMILIES if f not in (*CUTS, *PAGED)])
def test_leaving_out_rows_of_stages_is_noticed(family: str) -> None:
    free = family in FREE
    assert not all(in_stages(problem, free=free, without=family) for problem in BATTERY)


@pytest.mark.parametrize("family", CUTS)
def test_leaving_out_cuts_changes_no_optimum(family: str) -> None:
    assert all(in_stages(problem, free=False, without=family) for problem in BATTERY)


def paged_battery() -> list[lt.Recompute]:
    chains = [chain_with_disk(seed) for seed in (5, 18, 38)]
    return [
        full_disk(),
        crowded(),
        updated(),
        read_twice(),
        *(problem for problem in chains if problem is not None),
    ]


def test_complete_models_with_paging_have_the_optima() -> None:
    assert [with_paging(problem) for problem in paged_battery()] == [True] * 7


@pytest.mark.parametrize("family", PAGED)
def test_leaving_out_rows_of_paging_is_noticed(family: str) -> None:
    assert not all(with_paging(problem, family) for problem in paged_battery())


def ends_on_the_disk() -> lt.Recompute:
    """What the first op leaves is final and has to make room; to run that op again takes too long."""
    ops = (lt.Op(name="a", writes=(0,), duration_ns=100), lt.Op(name="b", workspace=8))
    return with_little_room((5,), ops, 10, finals=1)


@pytest.mark.parametrize("family", recompute_moments.FAMILIES)
def test_leaving_out_rows_of_moments_weakens_a_bound(family: str) -> None:
    weaker = 0
    for problem in [*BATTERY, *paged_battery(), ends_on_the_disk()]:
        complete, rest = bound(problem), bound(problem, family)
        assert complete is None or (rest is not None and rest <= complete)
        weaker += rest != complete
    assert weaker > 0


def test_what_ends_in_a_slower_tier_is_written_there() -> None:
    problem = ends_on_the_disk()
    assert bound(problem) == fastest_recomputation(problem.graph, problem.machine) == 100 + 1 + 15


def test_what_is_computed_again_need_not_be_there_all_through() -> None:
    """The first value is there as the second op starts, and at the end, but not while the third one runs."""
    tensors = tuple(lt.Tensor(name=f"t{k}", nbytes=size, final=k != 1) for k, size in enumerate((5, 1, 1)))
    ops = (
        lt.Op(name="a", writes=(0,)),
        lt.Op(name="b", reads=(0,), writes=(1,)),
        lt.Op(name="c", reads=(1,), writes=(2,), workspace=8),
    )
    problem = lt.Recompute(lt.Graph(name="again", tensors=tensors, ops=ops), memory=10)
    built = recompute_moments.build(recompute_data(problem), [1])
    assert built is not None
    best = fastest_recomputation(problem.graph, problem.machine)
    assert milp(problem, built.model, lambda value: None).bound == best == 4


def test_moments_are_on_a_longest_path() -> None:
    for problem in BATTERY:
        data = recompute_data(problem)
        path = recompute_moments.longest_path(data)
        assert all(data.ancestors[later] >> earlier & 1 for earlier, later in pairwise(path))
        steps = nx.DiGraph([(j, i) for i in range(data.n) for j in (*data.inputs[i], *data.after[i])])
        assert len(path) == max(1, nx.dag_longest_path_length(steps) + 1)


def test_models_are_not_built_after_the_time() -> None:
    data = recompute_data(BATTERY[0])
    assert recompute_moments.build(data, [0], expired=lambda: True) is None
    assert recompute_stages.build(data, expired=lambda: True) is None


@pytest.mark.parametrize("problem", [BATTERY[0], BATTERY[1]], ids=["one", "two"])
def test_sizes_of_many_units_change_nothing(problem: lt.Recompute) -> None:
    """Models of more units than `EXACT_UNITS` are scaled; one byte more than a multiple has that effect."""
    factor = 3 * recompute_stages.EXACT_UNITS + 1
    tensors = tuple(replace(x, nbytes=x.nbytes * factor + (x.nbytes > 0)) for x in problem.graph.tensors)
    ops = tuple(replace(op, workspace=op.workspace * factor) for op in problem.graph.ops)
    assert problem.memory is not None
    graph = replace(problem.graph, tensors=tensors, ops=ops)
    large = lt.Recompute(graph, memory=problem.memory * factor + len(tensors))
    assert recompute_data(large).memory > recompute_stages.EXACT_UNITS
    assert in_stages(large, free=False)
    assert bound(large) == bound(problem)


def in_intervals(problem: lt.Recompute) -> bool:
    """Whether retention intervals, with all copies, have what exhaustive search in stages finds."""
    assert problem.memory is not None
    try:
        found = with_copies(problem, len(problem.graph.ops))
    except lt.InstanceError:  # the solution is no sequence of runs
        return False
    if found.answer is not None and problem.judge(found.answer).violations:
        return False
    return found.incumbent == fastest_in_stages(problem.graph, problem.memory)


def test_complete_retention_intervals_have_the_optima() -> None:
    assert all(in_intervals(problem) for problem in BATTERY)


@pytest.mark.parametrize("part", ["add_no_overlap", "add_cumulative", "add_implication"])
def test_leaving_out_a_part_of_retention_intervals_is_noticed(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ortools.sat.python.cp_model import CpModel

    monkeypatch.setattr(CpModel, part, lambda model, *given: None)
    assert not all(in_intervals(problem) for problem in BATTERY)


def test_most_copies_are_as_many_as_are_said() -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5)
    assert with_copies(problem, 1).incumbent is None
    assert with_copies(problem, 2).incumbent == 13


def test_areas_beyond_sixty_four_bits_are_refused() -> None:
    tensors = (lt.Tensor(name="x", nbytes=1),)
    data = recompute_data(
        lt.Recompute(lt.Graph(name="one", tensors=tensors, ops=(lt.Op(name="a", writes=(0,)),)))
    )
    with pytest.raises(UsageError, match=r"times 1 slots, expected less than 2\^61"):
        recompute_moccasin.build(replace(data, memory=2**60 - 1), copies=1)
    assert recompute_moccasin.build(replace(data, memory=2**60 - 2), copies=1).complete


def decoded(built: recompute_moccasin.MoccasinModel, said: dict[int, int]) -> list[int]:
    return recompute_moccasin.decode(built, lambda variable: said[variable.index])


def test_hints_of_retention_intervals_say_everything() -> None:
    looked = 0
    chain = lt.Recompute(lt.load("gen:backprop-chain?l=3"), memory=4)
    for problem in (*BATTERY, chain):
        data = recompute_data(problem)
        answer = with_copies(problem, data.n).answer
        if answer is None:
            continue
        stages = stages_of(data, [action.op for action in answer if isinstance(action, lt.Compute)])
        assert stages is not None
        runs = [i for stage in stages for i in stage]
        built = recompute_moccasin.build(data, copies=data.n, hint=runs)
        hint = built.model.proto.solution_hint
        said = dict(zip(hint.vars, hint.values, strict=True))
        names = {k: x.name for k, x in enumerate(built.model.proto.variables)}
        silent = {name for k, name in names.items() if name and k not in said}
        absent = {name[2:] for k, name in names.items() if name.startswith("a ") and not said[k]}
        gone = {f"s {copy}" for copy in absent}
        for u, x in enumerate(data.values):
            gone |= {f"e {u} {c}" for c in range(data.n) if f"{x.writer} {c}" in absent}
        # Lengths and what stays to the end follow; copies that are not there are nowhere.
        assert {name for name in silent if name[0] not in "lf"} == gone
        assert decoded(built, said) == runs
        fixed = with_copies(problem, data.n, hint=runs)
        assert fixed.incumbent == data.ns(time_of(data, runs))
        looked += 1
    assert looked >= 3
