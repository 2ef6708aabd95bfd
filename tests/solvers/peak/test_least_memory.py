"""Least memory between fixed ops: against enumeration, another solver's flows, and itself started anew."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given

import lowtide as lt
from lowtide.models.derived.precedence import precedence
from lowtide.models.graph import Graph
from lowtide.solvers.flows import closure_flow
from lowtide.solvers.peak.bounds import least_memory
from lowtide.solvers.peak.bounds.least_memory import LeastMemory
from lowtide.solvers.peak.search.state_space import StateSpace, state_space
from tests.effort import many
from tests.solvers.peak.downsets import downsets, live_bytes
from tests.strategies import graphs, random_graph

FAMILIES = (
    "gen:layered?layers=20&width=6",
    "gen:sp?n=150",
    "gen:intree?n=120",
    "gen:randwire?n=60&train=1",
    "gen:layered?layers=8&width=8&train=1",
    "onnx:squeezenet?train=1",
)


def flow_of_ortools(space: StateSpace, inside: set[int], outside: set[int]) -> int:
    """Return the least M by another maximum flow: nothing contracted, fixed ops tied to source and sink."""
    from ortools.graph.python.max_flow import SimpleMaxFlow

    flow, far = SimpleMaxFlow(), 2**50
    source = space.n + len(space.groups)
    profits = [*(-a for a in space.increase), *space.group_bytes]
    for x, profit in enumerate(profits):
        if profit > 0:
            flow.add_arc_with_capacity(source, x, profit)
        elif profit < 0:
            flow.add_arc_with_capacity(x, source + 1, -profit)
    for v in inside:
        flow.add_arc_with_capacity(source, v, far)
    for v in outside:
        flow.add_arc_with_capacity(v, source + 1, far)
    for x, needs in enumerate([*space.before, *space.groups]):
        for y in needs:
            flow.add_arc_with_capacity(x, y, 4 * far)
    assert flow.solve(source, source + 1) == flow.OPTIMAL
    chosen = {x for x in flow.get_source_side_min_cut() if x != source}
    assert inside <= chosen
    assert not outside & chosen
    return space.start - sum(profits[int(x)] for x in chosen)


def random_question(graph: Graph, rng: Random) -> tuple[set[int], set[int]]:
    """Return ops to fix in and out that allow a downset."""
    ancestors = precedence(graph).ancestors
    inside = {v for v in range(len(graph.ops)) if rng.random() < 0.05}
    above = {v for v in range(len(graph.ops)) if any(ancestors[u] >> v & 1 for u in inside)} | inside
    outside = {v for v in range(len(graph.ops)) if v not in above and rng.random() < 0.05}
    return inside, outside


def is_downset(space: StateSpace, members: np.ndarray) -> bool:
    return all(members[u] for v in range(space.n) if members[v] for u in space.before[v])


@many(100)
@given(graphs(max_ops=7))
def test_minimum_is_that_of_enumeration_and_its_set_is_the_largest(graph: Graph) -> None:
    least, rng = LeastMemory(state_space(graph)), Random(len(graph.ops))
    for _ in range(3):
        inside, outside = random_question(graph, rng)
        allowed = [d for d in downsets(graph) if inside <= d and not outside & d]
        memory = {d: live_bytes(graph, d) for d in allowed}
        found = least.minimum(sorted(inside), sorted(outside))
        assert found.members is not None
        assert found.memory == min(memory.values())
        chosen = frozenset(np.flatnonzero(found.members).tolist())
        assert memory[chosen] == found.memory
        assert all(d <= chosen for d in allowed if memory[d] == found.memory)


@pytest.mark.parametrize("seed", range(8))
def test_minimum_is_that_of_another_flow_with_all_features(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(
        rng, min_ops=30, max_ops=60, max_tensors=60, max_nbytes=30, single_writer=seed % 3 > 0
    )
    space = state_space(graph)
    least = LeastMemory(space)
    for _ in range(10):
        inside, outside = random_question(graph, rng)
        assert least.minimum(inside, outside).memory == flow_of_ortools(space, inside, outside)


@pytest.mark.parametrize("spec", FAMILIES)
def test_a_kept_preflow_changes_no_minimum(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same questions, compiled and plain, with a preflow kept early and without one."""
    graph, rng = lt.load(spec), Random(1)
    space = state_space(graph)
    questions = [random_question(graph, rng) for _ in range(12)]
    anew = [LeastMemory(space, compiled=False).minimum(*question) for question in questions]
    monkeypatch.setattr(least_memory, "SWEEPS", -1)
    for compiled in (False, True):
        least = LeastMemory(space, compiled=compiled)
        for question, expected in zip(questions, anew, strict=True):
            found = least.minimum(*question)
            assert found.memory == expected.memory == flow_of_ortools(space, *question)
            assert found.members is not None
            assert expected.members is not None
            assert found.members.tolist() == expected.members.tolist()
            assert is_downset(space, found.members)


def test_compilation_in_the_middle_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    space = state_space(lt.load("gen:randwire?n=80"))
    plain = LeastMemory(space, compiled=False).minimum([], [40])
    monkeypatch.setattr(least_memory, "PLAIN_WORK", 1500)
    monkeypatch.setattr(least_memory, "PLAIN_BUDGET", 100)
    least = LeastMemory(space)
    found = least.minimum([], [40])
    assert least.compiled
    assert found.memory == plain.memory


@pytest.mark.parametrize("patience", [0, 1, 3, 10, 30])
def test_a_stopped_flow_bounds_the_minimum(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_memory, "PLAIN_BUDGET", 200)
    monkeypatch.setattr(least_memory, "SWEEPS", -1)  # the kept preflow is stopped too
    space = state_space(lt.load("gen:layered?layers=30&width=8&train=1"))
    whole = LeastMemory(space).minimum([100], [150])
    looks = iter(range(10**6))
    least = LeastMemory(space)
    stopped = least.minimum([100], [150], expired=lambda: next(looks) >= patience)
    assert stopped.members is None
    assert stopped.memory <= whole.memory
    assert least.minimum([100], [150]).memory == whole.memory


def test_bounds_of_a_stopped_flow_only_rise() -> None:
    space = state_space(lt.load("gen:layered?layers=30&width=8"))
    net = LeastMemory(space)._net
    closure_flow.fix(net, [], [120])
    bounds, done = [], False
    while not done:
        done = closure_flow.advance(net, 50)
        bounds.append(net.now[closure_flow.PAID])
    assert bounds == sorted(bounds)
    assert len(set(bounds)) > 3


def test_bytes_beyond_64_bits_are_refused() -> None:
    graph = lt.Graph(
        name="huge", tensors=(lt.Tensor(name="x", nbytes=2**61),), ops=(lt.Op(name="a", writes=(0,)),)
    )
    assert not LeastMemory.fits(state_space(graph))
    with pytest.raises(ValueError, match=r"2\*\*62"):
        LeastMemory(state_space(graph))


def test_no_ops() -> None:
    space = state_space(lt.Graph(name="nothing", tensors=(), ops=()))
    assert LeastMemory(space).minimum([], []).memory == 0
