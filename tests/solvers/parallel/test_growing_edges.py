"""A graph that gets edges: what is kept current is what would be computed from scratch."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.parallel import network as parallel_cut
from lowtide.models.derived.precedence import descendants_with
from lowtide.models.problems.memory_edges import earliest_starts
from lowtide.models.problems.parallel_memory import Moment, moment_bytes
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.parallel import growing as growing_module
from lowtide.solvers.parallel.adding import edges_by_rule
from lowtide.solvers.parallel.cases import search
from lowtide.solvers.parallel.closure import cut_arrays, largest_closure
from lowtide.solvers.parallel.edges import order_within
from lowtide.solvers.parallel.edges_auto import solve_auto
from lowtide.solvers.parallel.growing import Growing, StateExpired
from lowtide.solvers.parallel.growing_flow import GrowingFlow
from lowtide.solvers.parallel.growing_kernel import augment
from tests.oracles.brute_parallel import most_memory
from tests.strategies import random_graph, readers_graph


def check(graph: lt.Graph, rng: Random, plain: bool, edges: int) -> int:
    """Add random edges; return how many tensors lost their last but one last access."""
    growing, n = Growing(graph), len(graph.ops)
    flow = GrowingFlow(growing, 1, augment.py_func if plain else augment)
    shared = len(growing.network.shared)
    for _ in range(edges):
        found = flow.largest()
        scratch = largest_closure(cut_arrays(parallel_cut.build(graph, growing.edges)))
        assert found.gain == scratch.gain
        same = largest_closure(growing.cut())
        assert (found.happened == same.happened).all()
        moment = growing.network.moment(found.happened.tolist())
        assert growing.ends(found.happened).nbytes == moment_bytes(graph, moment)
        assert growing.after == descendants_with(graph, growing.edges)
        assert all(
            growing.before[j] >> i & 1 == growing.after[i] >> j & 1 for i in range(n) for j in range(n)
        )
        assert growing.start == earliest_starts(graph, growing.edges)
        assert max(growing.bottom) == max(s + d for s, d in zip(growing.start, growing.duration, strict=True))
        pairs = [(u, v) for u in range(n) for v in range(n) if u != v and not growing.after[v] >> u & 1]
        if not pairs:
            break
        growing.add(*rng.choice(pairs))
    return shared - len(growing.network.shared)


def test_what_is_kept_current_is_what_scratch_gives() -> None:
    closed = 0
    for seed in range(60):
        rng = Random(seed)
        closed += check(random_graph(rng, min_ops=3, max_ops=8, max_duration=5), rng, True, 10)
    assert closed > 5


def check_search(growing: Growing) -> None:
    """A search on a growing graph claims no more than its moments have, and finds the largest memory."""
    claims: list[tuple[Moment, int]] = []
    for processors in (None, 1, 2):
        found = search(growing.cut(), processors, found=lambda *claim: claims.append(claim))
        assert found.nbytes == found.bound == most_memory(growing.graph, set(growing.edges), processors)
    assert all(moment_bytes(growing.graph, moment) >= nbytes for moment, nbytes in claims)


def test_search_on_a_growing_graph_is_brute_force() -> None:
    for seed in range(150):
        rng = Random(seed)
        growing = Growing(readers_graph(rng, max_ops=5))
        for u in range(len(growing.after) - 1):
            growing.add(u, u + 1 + rng.randrange(len(growing.after) - u - 1))
        check_search(growing)


def test_a_tensor_dies_where_a_search_ends_its_last_reader() -> None:
    """Edges leave x and y one last reader each; one processor does not run c beside e, so c has ended."""
    tensors = (
        lt.Tensor(name="x", nbytes=4, initial=True),
        lt.Tensor(name="y", nbytes=4),
        lt.Tensor(name="z", nbytes=3),
        lt.Tensor(name="out", nbytes=3),
        lt.Tensor(name="kept", nbytes=4, final=True),
        lt.Tensor(name="small", nbytes=1, initial=True, final=True),
        lt.Tensor(name="none", nbytes=0, initial=True, final=True),
    )
    ops = (
        lt.Op(name="a", reads=(0,), writes=(1,), workspace=4),
        lt.Op(name="b", reads=(0,), writes=(2, 5)),
        lt.Op(name="c", reads=(0,), writes=(5, 4)),
        lt.Op(name="d", reads=(0, 1, 2), writes=(6,), workspace=1),
        lt.Op(name="e", reads=(1,), writes=(3,)),
    )
    growing = Growing(lt.Graph(name="last reader", tensors=tensors, ops=ops))
    for edge in ((0, 2), (3, 2), (0, 1), (3, 4)):
        growing.add(*edge)
    check_search(growing)


def test_compiled_is_plain() -> None:
    for seed in range(2):
        check(lt.load(f"gen:randwire?n=30&seed={seed}"), Random(seed), False, 12)


def test_many_edges_need_the_kernel_and_room() -> None:
    graph = lt.load("gen:randwire?n=60&seed=1")
    growing = Growing(graph)
    flow = GrowingFlow(growing)
    order = range(len(graph.ops))
    chain = [(i, i + 1) for i in order[:-1]] * 2
    gains = []
    for u, v in chain:
        gains.append(flow.largest().gain)
        growing.add(u, v)
    assert gains == sorted(gains, reverse=True)
    sequential = lt.verify(graph, lt.Plan.from_order(graph, order)).peaks
    assert flow.largest().gain == max(sequential.values())


def test_the_state_of_a_large_graph_looks_at_the_clock_while_it_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, looks = lt.load("gen:randwire?n=40&seed=2"), [0]
    monkeypatch.setattr(growing_module, "CHECKED", 10)

    def expired_at(last: int) -> Callable[[], bool]:
        def expired() -> bool:
            looks[0] += 1
            return looks[0] >= last

        return expired

    Growing(graph, expired_at(10**6))
    needed, looks[0] = looks[0], 0
    assert needed >= 2 * len(graph.ops) // 10
    for last in (1, needed // 2, needed):
        looks[0] = 0
        with pytest.raises(StateExpired):
            Growing(graph, expired_at(last))
        assert looks[0] == last, "nothing is built after it"
    looks[0] = 0
    assert edges_by_rule(graph, 181, "min-levels", expired=expired_at(1)) is None


def test_rules_refuse_graphs_whose_followers_take_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = lt.MemoryEdges(lt.load("gen:layered?layers=6&width=3&seed=1"), 10**6)
    assert lt.solve(problem, "min-levels", threads=1).edges == ()
    monkeypatch.setattr("lowtide.solvers.parallel.edges.MOST_OPS", 17)
    result = lt.solve(problem, "min-levels", threads=1)
    assert (str(result.status), result.detail) == ("unknown", "min-levels: found 18 ops, expected at most 17")


def test_auto_begins_nothing_when_the_time_is_up() -> None:
    problem = lt.MemoryEdges(lt.load("gen:randwire?n=40&seed=2"), 181)
    context = Context(problem=problem, threads=1, time_limit=0.0)
    assert solve_auto(problem, context).reason == "time"
    assert not context.known.turns
    assert (context.answer, context.bound_kind) == (None, "critical path")


def test_any_order_within_the_bound_will_do_and_a_bound_above_it_is_a_proof() -> None:
    graph = lt.load("gen:randwire?n=40&seed=2")
    least = lt.solve(lt.Peak(graph), threads=1).objective
    assert least is not None

    def found(bound: int, seconds: float | None = None) -> tuple[int, ...] | Outcome:
        problem = lt.MemoryEdges(graph, bound)
        return order_within(problem, Context(problem=problem, threads=1, time_limit=seconds))

    order, late, none = found(least), found(least, 0.0), found(least - 1)
    assert isinstance(order, tuple)
    assert isinstance(late, Outcome)
    assert isinstance(none, Outcome)
    assert lt.Peak(graph).evaluate(order) == least
    starts = earliest_starts(graph, ())
    first = tuple(sorted(range(len(graph.ops)), key=starts.__getitem__))
    assert found(10**9, 0.0) == first, "the order of earliest starts needs no time"
    assert (late.reason, late.infeasible) == ("time", False)
    assert (none.reason, none.infeasible) == (None, True)
    assert f"at least {least} bytes, above the bound {least - 1}" in none.detail
