"""On large graphs: work that grows as the graph does, and loops that end soon after the time is up."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from random import Random
from typing import Any

import networkx as nx
import pytest
from networkx.algorithms.approximation import treewidth_min_degree, treewidth_min_fill_in

import lowtide as lt
from lowtide.formulations.distributed.data import distributed_data
from lowtide.formulations.hybrid.data import hybrid_data
from lowtide.formulations.makespan import intervals_cpsat
from lowtide.formulations.makespan.data import makespan_data
from lowtide.formulations.model import BuildTimeout, ModelSize, ticker
from lowtide.formulations.offsets.data import offsets_data
from lowtide.formulations.parallel import cut_milp, network
from lowtide.formulations.partition.data import partition_data
from lowtide.formulations.peak.data import forced_bound
from lowtide.formulations.recompute import moments_milp
from lowtide.formulations.recompute.data import recompute_data
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.solvers.context import Context
from lowtide.solvers.distributed.heft import ListScheduler, upward_ranks
from lowtide.solvers.distributed.lists import raise_bounds
from lowtide.solvers.engines.model import solve_model
from lowtide.solvers.hybrid import piper
from lowtide.solvers.makespan.bounds.bounds import does_not_fit
from lowtide.solvers.offsets.search import Prepared
from lowtide.solvers.recompute.blocks import rockmate
from lowtide.solvers.recompute.blocks.cutting import cut
from lowtide.solvers.recompute.blocks.parts import parts
from lowtide.solvers.recompute.blocks.within import within
from lowtide.solvers.recompute.heuristics.treewidth import (
    DECOMPOSITIONS,
    decomposition,
    held_on,
    schedule,
    separators,
)
from lowtide.solvers.recompute.models.least_memory import LOOK, least_need
from tests.steps import Looks, steps
from tests.strategies import random_graph

MACHINE = "v100x4-16g-nvlink"


def chain(n: int) -> lt.Graph:
    return lt.load(f"gen:chain?n={n}&seed=1")


def moments(n: int) -> Callable[[], object]:
    data = recompute_data(lt.Recompute(chain(n), memory=1))
    _ = data.inputs, data.footprint
    return lambda: moments_milp.by_need(data)


def least(n: int) -> Callable[[], object]:
    data = recompute_data(lt.Recompute(chain(n), memory=10**6))
    _ = data.inputs, data.destroys
    return lambda: least_need(data, stop=lambda: True)


def layers(n: int) -> Callable[[], object]:
    problem = lt.Hybrid(chain(n), processors=4, micro=4)
    _ = problem.all_needs
    return lambda: hybrid_data(problem)


def lists(n: int) -> Callable[[], object]:
    data = distributed_data(lt.Distributed(chain(4 * n), lt.load_machine(MACHINE)))
    return lambda: ListScheduler(data)


def upward(n: int) -> Callable[[], object]:
    data = distributed_data(lt.Distributed(chain(n), lt.load_machine(MACHINE)))
    return lambda: upward_ranks(data)


@pytest.mark.parametrize("work", [moments, least, layers, lists, upward])
def test_work_on_twice_as_many_ops_is_about_twice_as_much(work: Callable[[int], Callable[[], Any]]) -> None:
    work(10)()  # what is imported
    small, large = (steps(work(n)) for n in (LOOK // 4, LOOK // 2))
    assert small < large < 2.5 * small


def test_budgets_of_a_block_ask_one_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    data = recompute_data(lt.Recompute(lt.load("gen:layered?layers=6&width=3")))
    block = within(data, cut(data), 0)
    assert len(block.ops) > 2
    made: list[lt.Recompute] = []

    def counted(graph: lt.Graph) -> lt.Recompute:
        made.append(lt.Recompute(graph))
        return made[-1]

    monkeypatch.setattr(rockmate, "Recompute", counted)
    list(rockmate.budgets(block, [], 2, 2))
    assert len(made) == 1


def test_least_need_ends_within_one_look_of_the_clock() -> None:
    data = recompute_data(lt.Recompute(chain(3 * LOOK), memory=10**6))
    for last in (1, 2, 4, 9):
        clock = Looks(last)
        need, op = least_need(data, clock)
        assert clock.count == last + (last <= 2), "the looks while needs are added up, then one more"
        assert need == data.footprint[op]


def test_tree_decompositions_are_those_of_networkx() -> None:
    known: dict[str, Any] = {"min-degree": treewidth_min_degree, "min-fill": treewidth_min_fill_in}
    for seed in range(60):
        whole: Any = nx.gnp_random_graph(1 + seed % 12, 0.3, seed=seed)
        for name, rule in DECOMPOSITIONS.items():
            graph = {i: set(whole[i]) - {i} for i in whole}
            tree = decomposition(graph, rule(graph), lambda: None)
            width, wanted = known[name](whole)
            assert max(map(len, tree)) - 1 == width
            assert list(tree.nodes) == list(wanted.nodes)
            assert list(tree.edges) == list(wanted.edges)


def stopped_at(last: int, call: Callable[[Callable[[], None]], object]) -> int:
    """Return the looks of what looks at a clock until it is up."""
    clock = Looks(last)
    with pytest.raises(BuildTimeout):
        call(ticker(clock))
    return clock.count


def test_programs_over_parts_and_separators_end_with_the_look_at_which_the_time_is_up() -> None:
    data = recompute_data(lt.Recompute(lt.load("gen:layered?layers=8&width=4"), memory=100))
    root = separators(data, "min-fill")[1]
    runs = schedule(data, root, 2)
    assert runs is not None
    for last in (1, 5, 20):
        assert stopped_at(last, lambda tick: separators(data, "min-degree", tick)) == last
        assert stopped_at(last, lambda tick: schedule(data, root, 2, tick)) == last
        assert stopped_at(last, lambda tick: held_on(data, runs, tick)) == last
        assert stopped_at(last, lambda tick: parts(data, None, least=2, most=4, leaf=2, tick=tick)) == last


def test_models_are_given_up_with_the_look_at_which_the_time_is_up() -> None:
    graph = lt.load("gen:layered?layers=6&width=4")
    makespan = makespan_data(lt.Makespan(graph, 2, 10**6))
    cut_network = network.build(graph)
    for last in (1, 5, 20):
        for build in (
            lambda clock: intervals_cpsat.build(makespan, horizon=50, expired=clock),
            lambda clock: cut_milp.build(cut_network, expired=clock),
        ):
            clock = Looks(last)
            with pytest.raises(BuildTimeout):
                build(clock)
            assert clock.count == last


def test_no_model_is_built_when_the_time_is_up() -> None:
    problem = lt.Peak(chain(3))
    outcome = solve_model(
        Context(problem=problem, time_limit=1e-9),
        cut_milp,
        lambda: pytest.fail("built"),
        what="the model",
        size=ModelSize(1, 1, 1),
        to_objective=int,
        decode=lambda built, value: None,
    )
    assert (outcome.reason, outcome.detail) == ("time", "the model was not built in time")


def test_a_bound_on_what_fits_is_taken_from_accesses_when_the_time_is_up() -> None:
    """While b runs x is live for c, which b does not access."""
    x, y, z = (lt.Tensor(name=name, nbytes=4) for name in "xyz")
    ops = (
        lt.Op(name="a", writes=(0, 1)),
        lt.Op(name="b", reads=(1,), writes=(2,)),
        lt.Op(name="c", reads=(0, 2)),
    )
    graph = lt.Graph(name="beside", tensors=(x, y, z), ops=ops)
    for memory, whole in ((12, False), (11, True), (7, True)):
        problem = lt.Makespan(graph, 1, memory)
        data = makespan_data(problem)
        assert forced_bound(data.bytes) * data.bytes.unit == 12
        assert bool(does_not_fit(problem, data)) == whole
        assert bool(does_not_fit(problem, data, lambda: True)) == (memory < 8)


def test_no_bound_of_the_relaxation_is_begun_when_the_time_is_up() -> None:
    problem = lt.Distributed(chain(4), lt.load_machine(MACHINE))
    context = Context(problem=problem, time_limit=1e-9)
    assert raise_bounds(problem, context).reason is None
    assert context.bound is None
    assert raise_bounds(problem, context := Context(problem=problem)).reason is None
    assert context.bound is not None


def test_ranks_of_a_list_schedule_end_with_the_look_at_which_the_time_is_up() -> None:
    data = distributed_data(lt.Distributed(chain(30), lt.load_machine(MACHINE)))
    for last in (1, 5, 40):
        assert stopped_at(last, lambda tick: upward_ranks(data, tick)) == last


def test_stages_of_many_layers_come_from_some_beginnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few sums allowed, one stage of all layers is left; the program over all ideals is not begun."""
    graph = lt.load("gen:layered?layers=5&width=3")
    problem = lt.Hybrid(graph, processors=2, micro=2, replicate=1, tensor=1)
    whole, few = (Context(problem=problem, options={"most": 40_000}) for _ in range(2))
    piper.solve_ideals(problem, whole)
    monkeypatch.setattr(piper, "LINE", 1)
    monkeypatch.setattr(piper, "LARGEST", 1)
    monkeypatch.setattr(piper, "BLOCK", 1)
    outcome = piper.solve_ideals(problem, few)
    assert outcome.detail.startswith("more than 0 ideals")
    assert not problem.judge(few.answer).violations
    assert few.incumbent == sum(op.duration_ns for op in graph.ops)
    assert whole.closed
    assert whole.incumbent is not None
    assert whole.incumbent < few.incumbent


@pytest.mark.parametrize("seed", range(20))
def test_data_of_stages_are_made_once_and_in_the_order_of_the_least_ops(seed: int) -> None:
    graph = random_graph(Random(seed), min_ops=2, max_ops=9)
    problem = lt.Partition(graph, processors=2)
    data = partition_data(problem)
    assert partition_data(problem) is data
    assert hybrid_data(asked := lt.Hybrid(graph, processors=2)) is hybrid_data(asked)
    wanted: Any = nx.DiGraph()
    wanted.add_nodes_from(range(len(graph.ops)))
    wanted.add_edges_from((b, c) for c, some in enumerate(data.before) for b in some)
    order = nx.lexicographical_topological_sort(wanted)
    assert [data.members[c] for c in order] == sorted(data.members)


def test_tables_of_a_search_that_are_not_finished_go_with_it() -> None:
    """Else each order that `arena` searches for an instant leaves its tables behind, for the collector."""
    graph = lt.load("gen:layered?layers=6&width=4")
    plan = lt.Plan.from_order(graph, range(len(graph.ops)))
    prepared = Prepared(max(offsets_data(buffers_from_plan(graph, plan)), key=lambda part: part.count))
    begun = prepared.make()
    next(begun)
    del begun
    gone = weakref.ref(prepared)
    gc.disable()
    try:
        del prepared
        assert gone() is None
    finally:
        gc.enable()
