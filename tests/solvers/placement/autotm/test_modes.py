"""AutoTM's model of ops with tables of kernel times and algorithms: its optima are those of its rules."""

from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from tests.effort import many
from tests.oracles.autotm_rules import fastest
from tests.problems.placement import tiny_graph, working_set
from tests.solvers.placement.autotm.cases import FORMS
from tests.solvers.placement.machines import DRAM, PMM, node


def profiled(room: int) -> lt.Machine:
    """Return the node on which ops use PMM in the time of their mode, nothing added."""
    machine = node(room)
    (cpu,) = machine.processors
    plain = replace(cpu, tiers=(lt.Access(tier=DRAM), lt.Access(tier=PMM)))
    return replace(machine, processors=(plain,))


def with_tables(graph: lt.Graph, rng: Random, algorithms: int) -> lt.Graph:
    """Give each op a time and a workspace for each algorithm and each set of operands in PMM."""
    ops = []
    for op in graph.ops:
        operands = sorted({*op.reads, *op.writes})
        modes = [
            lt.Mode(
                duration_ns=rng.randint(1, 40) + 30 * tiers.count(PMM),
                workspace=rng.randint(0, 4),
                operands=tuple(zip(operands, tiers, strict=True)),
            )
            for _ in range(algorithms)
            for tiers in product((DRAM, PMM), repeat=len(operands))
        ]
        kept = [mode for mode in modes if rng.random() < 0.9] or modes  # a profile may have holes
        ops.append(replace(op, modes=tuple(kept)))
    return replace(graph, ops=tuple(ops))


@pytest.mark.slow
@given(seed=st.integers(0, 10**9), form=st.sampled_from(FORMS), added=st.booleans())
@many(60)
def test_optimum_of_tables_and_algorithms(seed: int, form: str, added: bool) -> None:
    rng = Random(seed)
    graph = with_tables(tiny_graph(seed), rng, rng.choice((1, 2)))
    room = rng.randint(0, working_set(graph) + 4)
    problem = lt.Placement(
        graph,
        node(room) if added else profiled(room),
        periodic=rng.random() < 0.3,
        start={"input": (DRAM, PMM)},
    )
    result = lt.solve(problem, f"autotm-{form}", threads=1, time_limit=None)
    assert result.objective == fastest(problem, form), result.detail


@pytest.mark.slow
@given(seed=st.integers(0, 10**9), form=st.sampled_from(FORMS))
@many(40)
def test_optimum_of_algorithms_on_a_device(seed: int, form: str) -> None:
    rng = Random(seed)
    graph = tiny_graph(seed)
    ops = tuple(
        replace(
            op,
            modes=tuple(
                lt.Mode(duration_ns=rng.randint(1, 100), workspace=rng.randint(0, 8))
                for _ in range(rng.randint(1, 3))
            ),
        )
        for op in graph.ops
    )
    graph = replace(graph, ops=ops)
    problem = lt.Placement(graph, node(working_set(graph) + rng.randint(0, 6), in_place=False))
    result = lt.solve(problem, f"autotm-{form}", threads=1, time_limit=None)
    assert result.objective == fastest(problem, form), result.detail


def one_op(table: dict[tuple[str, str], int], room: int) -> lt.Placement:
    """Return an op that reads and writes 10 bytes, with a profiled time by tiers."""
    modes = tuple(
        lt.Mode(duration_ns=ns, operands=tuple(enumerate(tiers))) for tiers, ns in sorted(table.items())
    )
    graph = lt.Graph(
        name="profile",
        tensors=(
            lt.Tensor(name="x", nbytes=10, kind="weight", initial=True),
            lt.Tensor(name="y", nbytes=10, final=True),
        ),
        ops=(lt.Op(name="op", reads=(0,), writes=(1,), modes=modes),),
    )
    return lt.Placement(graph, profiled(room))


def test_times_of_a_profile_are_not_those_of_operands_added_up() -> None:
    table = {(DRAM, DRAM): 100, (DRAM, PMM): 180, (PMM, DRAM): 170, (PMM, PMM): 175}
    for room, best in ((20, 100), (19, 170), (9, 175)):  # both in PMM is faster than the write alone
        problem = one_op(table, room)
        result = lt.solve(problem, "autotm-static", threads=1, time_limit=None)
        assert result.objective == fastest(problem, "static") == best
        assert result.status is lt.Status.OPTIMAL or best > 100


def test_what_was_not_profiled_is_not_taken() -> None:
    table = {(DRAM, DRAM): 100, (PMM, PMM): 900}
    assert lt.solve(one_op(table, 19), "autotm-static", threads=1, time_limit=None).objective == 900


def test_the_algorithm_with_less_workspace_where_its_room_would_cost_a_move() -> None:
    # `kept` is idle beside the convolution; 10 bytes go out in 100 ns and return in 50
    def problem(slow: int) -> lt.Placement:
        graph = lt.Graph(
            name="algorithms",
            tensors=(lt.Tensor(name="kept", nbytes=10), lt.Tensor(name="out", nbytes=5)),
            ops=(
                lt.Op(name="make", writes=(0,), duration_ns=10),
                lt.Op(
                    name="conv",
                    writes=(1,),
                    modes=(lt.Mode(duration_ns=100, workspace=6), lt.Mode(duration_ns=slow, workspace=5)),
                ),
                lt.Op(name="use", reads=(0,), duration_ns=10),
            ),
        )
        return lt.Placement(graph, node(20, in_place=False))

    for slow, best in ((240, 260), (260, 270)):
        result = lt.solve(problem(slow), "autotm-sync", threads=1, time_limit=None)
        assert result.objective == fastest(problem(slow), "sync") == best
        assert result.plan is not None
        assert result.plan.runs[1].mode == (best == 260)


@pytest.mark.parametrize("more", [0, 1])
def test_workspaces_that_are_no_multiple_of_a_unit(more: int) -> None:
    # units of 64 bytes: both tensors and the workspace of one byte fit if there is one byte more
    half = 2**22
    graph = lt.Graph(
        name="odd",
        tensors=(lt.Tensor(name="a", nbytes=half), lt.Tensor(name="b", nbytes=half)),
        ops=(
            lt.Op(name="make", writes=(0,), modes=in_either(0)),
            lt.Op(name="work", writes=(1,), modes=in_either(1, workspace=1)),
            lt.Op(name="use", reads=(0, 1), duration_ns=100),
        ),
    )
    problem = lt.Placement(graph, node(2 * half + more))
    best = fastest(problem, "static")
    assert best is not None
    assert (best == 300) == bool(more)
    for rounds in ("0", "3"):  # the MILP alone, whose sizes are rounded, proves less
        result = lt.solve(problem, "autotm-static", threads=1, time_limit=None, options={"rounds": rounds})
        assert result.objective is not None
        assert result.objective >= best
        assert result.objective == best or rounds == "0"
        bound = result.facts.get("form_bound")
        assert bound is not None
        assert bound <= best


def in_either(tensor: int, workspace: int = 0) -> tuple[lt.Mode, ...]:
    """Return modes that write a tensor in DRAM or PMM."""
    return tuple(
        lt.Mode(duration_ns=ns, workspace=workspace, operands=((tensor, tier),))
        for ns, tier in ((100, DRAM), (200, PMM))
    )
