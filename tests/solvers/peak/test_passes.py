"""Passes over executed sets: the compiled and the plain one agree; they settle what brute force does."""

from __future__ import annotations

from random import Random

import pytest

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.graph import Graph
from lowtide.solvers.peak.search import beam, compiled_pass
from lowtide.solvers.peak.search.beam import beam_pass
from lowtide.solvers.peak.search.passes import BeamPass
from lowtide.solvers.peak.search.plain_pass import plain_pass
from lowtide.solvers.peak.search.state_space import StateSpace, state_space
from tests.effort import seeds
from tests.oracles.brute_force import brute_force_peak, memory_profile, must_precede, start_bytes
from tests.strategies import random_graph

GIBIBYTE = 2**30


def both(
    space: StateSpace, limit: int, width: int, *, exhaustive: bool = False, most: int | None = None
) -> BeamPass:
    """Run both passes, which must agree, and return what they found."""
    plain = plain_pass(space, limit, width, lambda: False, exhaustive=exhaustive, most=most)
    compiled = compiled_pass.compiled_pass(
        space, limit, width, lambda: False, exhaustive=exhaustive, most=most, nbytes=GIBIBYTE
    )
    assert compiled == plain
    return compiled


def settles_like_brute_force(graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    memory = sequential_memory(graph)
    for backward in (False, True):
        space = state_space(graph, backward=backward)
        for limit in range(max(optimum - 3, memory.initial_bytes), optimum + 2):
            found = both(space, limit, 10**6, exhaustive=True)
            if limit >= optimum:
                assert found.order is not None
                assert memory.peak(found.order) <= limit
            else:
                assert found.order is None
                assert found.bound is not None
                assert limit < found.bound <= optimum


@pytest.mark.slow
@pytest.mark.parametrize("block", seeds(10, least=2))
def test_exhaustive_passes_settle_every_limit_like_brute_force(block: int) -> None:
    for seed in range(30):
        settles_like_brute_force(random_graph(Random(30 * block + seed), min_ops=2, max_ops=8))


def least_peak_by_sets(graph: Graph) -> int:
    """Return the least peak over all orders: every executed set, what ops need from the oracle's profile.

    What an op needs depends on the set before it alone, so any order of the set and of the rest serves;
    the ascending ones are valid.
    """
    n = len(graph.ops)
    edges = must_precede(graph)
    before = [{u for u, v in edges if v == w} for w in range(n)]
    least: dict[tuple[int, ...], int] = {(): start_bytes(graph)}
    for _ in range(n):
        following: dict[tuple[int, ...], int] = {}
        for done, peak in least.items():
            for v in range(n):
                if v not in done and before[v] <= set(done):
                    larger = tuple(sorted((*done, v)))
                    rest = [u for u in range(n) if u not in larger]
                    needed = memory_profile(graph, (*done, v, *rest))[len(done)]
                    following[larger] = min(following.get(larger, 2**62), max(peak, needed))
        least = following
    (peak,) = least.values()
    return peak


@pytest.mark.slow(reason="3,000 graphs of up to 12 ops against brute force: minutes")
@pytest.mark.parametrize("block", seeds(30))
def test_compiled_passes_find_the_brute_force_optimum_of_3000_graphs(block: int) -> None:
    for seed in range(100):
        rng = Random(f"passes {block} {seed}")
        graph = random_graph(rng, min_ops=2, max_ops=12, max_tensors=12)
        optimum = least_peak_by_sets(graph)
        assert len(graph.ops) > 6 or optimum == brute_force_peak(graph)[0]
        for backward in (False, True):
            space = state_space(graph, backward=backward)
            for limit in range(max(optimum - 1, start_bytes(graph)), optimum + 1):
                found = compiled_pass.compiled_pass(
                    space, limit, 10**6, lambda: False, exhaustive=True, most=None, nbytes=GIBIBYTE
                )
                if limit == optimum:
                    assert found.order is not None
                    assert sequential_memory(graph).peak(found.order) == optimum
                else:
                    assert found.bound == optimum


@pytest.mark.parametrize("width", [1, 2, 7, 40])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    "spec",
    [
        "gen:randwire?n=70&seed=1",
        "gen:randwire?n=40&seed=2&sizes=equal&accounting=replace",
        "gen:layered?layers=30&width=5&sizes=equal",
        "gen:sp?n=150&seed=3",
        "catalogue:decoder-2-train",
    ],
)
def test_beams_agree_step_by_step(
    spec: str, backward: bool, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same orders with ties everywhere, though levels are full early, tables grow and calls are short."""
    monkeypatch.setattr(compiled_pass, "STRETCH", 50)
    monkeypatch.setattr(compiled_pass, "FIRST_ROOM", 2)
    graph = lt.load(spec)
    memory, space = sequential_memory(graph), state_space(graph, backward=backward)
    best, limit, found = both(space, beam.largest(space), width), beam.largest(space), 0
    while best.order is not None and found < 5:
        peak = memory.peak(best.order)
        assert peak <= limit
        best, limit, found = both(space, peak - 1, width), peak - 1, found + 1
    assert found


@pytest.mark.parametrize("most", [10, 300, 3000, 30_000])
def test_both_passes_give_up_after_the_same_effort(most: int) -> None:
    graph = lt.load("gen:randwire?n=32&seed=1")
    for backward in (False, True):
        space = state_space(graph, backward=backward)
        for limit in (110, 125, 139, 150):
            both(space, limit, 300, exhaustive=True, most=most)
            both(space, limit, 20, most=most)


def test_sets_of_several_words() -> None:
    """A level of chains: every set of 130 ops is one word and a bit of the third."""
    graph = lt.load("gen:layered?layers=65&width=2&seed=4")
    optimum = lt.solve(lt.Peak(graph), "downsets").objective
    assert optimum is not None
    for backward in (False, True):
        space = state_space(graph, backward=backward)
        assert both(space, optimum, 10**6, exhaustive=True).order is not None
        assert both(space, optimum - 1, 10**6, exhaustive=True).bound == optimum


def test_an_exhaustive_pass_gives_up_where_a_step_has_more_sets_than_allowed() -> None:
    graph = lt.load("gen:randwire?n=32&seed=1")
    space = state_space(graph)
    optimum = lt.solve(lt.Peak(graph), "cpsat", threads=1).objective
    assert optimum is not None
    assert both(space, optimum - 1, 10**6, exhaustive=True).bound == optimum
    narrow = both(space, optimum - 1, 50, exhaustive=True)
    assert narrow.order is None
    assert narrow.bound is None
    assert narrow.gave_up is not None
    assert 1 < narrow.gave_up < len(graph.ops)


def test_a_pass_stops_before_it_holds_too_much() -> None:
    space = state_space(lt.load("gen:randwire?n=100&seed=0"))
    found = beam_pass(space, 300, 10**7, exhaustive=True, nbytes=2**20)
    assert found.out_of_memory
    assert found.gave_up is not None
    assert found.order is None
    assert found.bound is None


def test_a_long_step_is_left_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_pass, "STRETCH", 100)
    space = state_space(lt.load("gen:randwire?n=60&seed=0"))
    asked = 0

    def expired() -> bool:
        nonlocal asked
        asked += 1
        return asked > 500

    found = beam_pass(space, 249, 10**6, expired, exhaustive=True)
    assert found.gave_up is not None
    assert found.bound is None
    assert asked == 501


def test_an_interrupt_leaves_a_long_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_pass, "STRETCH", 100)
    asked = 0

    def expired() -> bool:
        nonlocal asked
        asked += 1
        if asked > 200:
            raise KeyboardInterrupt
        return False

    space = state_space(lt.load("gen:randwire?n=60&seed=0"))
    with pytest.raises(KeyboardInterrupt):
        beam_pass(space, 249, 10**6, expired, exhaustive=True)


def test_small_passes_and_huge_bytes_run_in_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object, **named: object) -> BeamPass:
        raise AssertionError("compiled")

    monkeypatch.setattr(compiled_pass, "compiled_pass", never)
    small = lt.load("catalogue:two-branches")
    assert beam_pass(state_space(small), 12, 10**6, exhaustive=True).order is not None
    graph = lt.load("gen:randwire?n=60&seed=0")
    with pytest.raises(AssertionError, match="compiled"):
        beam_pass(state_space(graph, backward=True), 249, 10**6, exhaustive=True)
    tensors = tuple(
        lt.Tensor(name=x.name, nbytes=x.nbytes * 2**52, kind=x.kind, initial=x.initial, final=x.final)
        for x in graph.tensors
    )
    huge = lt.Graph(name="huge", tensors=tensors, ops=graph.ops, accounting=graph.accounting)
    space = state_space(huge, backward=True)
    assert beam.largest(space) >= beam.LARGEST
    assert beam_pass(space, 249 * 2**52, 10**6, exhaustive=True).bound == 250 * 2**52
