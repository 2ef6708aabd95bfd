"""Checkpointing of chains: closed forms, dynamic programs and strategies against exhaustive search."""

from __future__ import annotations

from functools import cache
from math import comb
from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.models.errors import UsageError
from lowtide.models.verifier.verify import Verification
from lowtide.solvers.recompute.chains.disk_revolve import disk_revolve, periodic_disk_revolve
from lowtide.solvers.recompute.chains.h_revolve import h_revolve
from lowtide.solvers.recompute.chains.mixed import least_mixed_forwards, mixed
from lowtide.solvers.recompute.chains.revolve import least_forwards, revolve
from tests.oracles.brute_recompute import fastest_recomputation
from tests.oracles.brute_slots import least_time

REPLACE = "&accounting=replace"
UNIT_TAPED = "&largest=1&saved=0&gradients=0&backward=1&spread=1"


def plain(l: int, more: str = REPLACE) -> lt.Graph:  # noqa: E741
    return lt.load(f"gen:backprop-chain?l={l}{more}")


def with_tiers(memory: int, slots: list[int | None], write: list[int], read: list[int]) -> lt.Machine:
    """Return a machine whose transfers of one byte take these times to each slower tier, and back."""
    names = [f"tier{k}" for k in range(len(slots))]
    ways = [("memory", n, w) for n, w in zip(names, write, strict=True)]
    ways += [(n, "memory", r) for n, r in zip(names, read, strict=True)]
    return lt.Machine(
        tiers=(
            lt.Tier(name="memory", capacity=memory),
            *(lt.Tier(name=n, capacity=c) for n, c in zip(names, slots, strict=True)),
        ),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
        channels=tuple(
            lt.Channel(src=a, dst=b, bytes_per_s=10**9, latency_ns=time - 1) for a, b, time in ways
        ),
    )


def verified(problem: lt.Recompute, method: str, **options: str) -> int | None:
    """Return the objective of a plan that verifies within the memory, None if the method has none.

    Methods that plan for a memory must not find schedules that exceed it: their programs' needs are exact
    or safe.
    """
    result = lt.solve(problem, method, threads=1, options=options)
    assert method in ("store-all", "recompute-all", "sqrt") or "its schedule needs" not in result.detail
    assert result.status in ("optimal", "feasible", "unknown", "infeasible"), result.detail
    if result.objective is not None:
        assert isinstance(result.verification, Verification)
        assert result.verification.valid
    return result.objective


@pytest.mark.parametrize(
    ("method", "memory", "again"),
    [("store-all", 6, 0), ("recompute-all", 3, 10), ("hybrid", 4, 4), ("revolve", 4, 3), ("revolve", 3, 10)],
)
def test_strategies_on_slides(method: str, memory: int, again: int) -> None:
    assert verified(lt.Recompute(plain(5), memory), method) == 11 + again
    assert verified(lt.Recompute(plain(5), memory - 1), method) != 11 + again


@cache
def recurrence(n: int, s: int) -> int:
    """Return t(n, s) by Griewank's recurrence."""
    if n == 1 or s == 1:
        return n * (n - 1) // 2
    return min(j + recurrence(n - j, s - 1) + recurrence(j, s) for j in range(1, n))


def test_revolve_is_its_recurrence() -> None:
    for n in range(1, 50):
        for s in range(1, 9):
            assert least_forwards(n, s) == recurrence(n, s)
            assert len(revolve(n - 1, s)) == n + recurrence(n, s)


@pytest.mark.parametrize(("n", "row"), [(5, [15, 11, 10, 9]), (10, [55, 30, 25, 24, 23, 22, 21, 20, 19])])
def test_forwards_of_revolve_in_the_literature(n: int, row: list[int]) -> None:
    for s, forwards in enumerate(row, start=1):
        assert verified(lt.Recompute(plain(n - 1), s + 2), "revolve") == forwards  # each backward has one
        assert verified(lt.Recompute(plain(n - 1, ""), s + 3), "revolve") == forwards


def test_compiled_and_plain_schedules_agree() -> None:
    from lowtide.solvers.recompute.chains import mixed as mixed_module
    from lowtide.solvers.recompute.chains import revolve as module

    n, slots = 3000, 3
    long = revolve(n - 1, slots)
    plain_codes = np.empty_like(long)
    assert module._emit.py_func(0, n, slots, n - 1, plain_codes, 0) == len(long)
    assert (plain_codes == long).all()
    found = mixed(n, slots)
    assert found is not None
    plain_codes = np.empty_like(found[1])
    assert mixed_module._emit.py_func(n, slots, plain_codes) == len(found[1])
    assert (plain_codes == found[1]).all()


@pytest.mark.slow
def test_h_revolve_is_exhaustive_search_in_the_slot_model() -> None:
    rng = Random(1)
    used = 0
    for _ in range(40):
        l, slots = rng.randint(1, 5), [rng.randint(0, 2), rng.randint(0, 2)]  # noqa: E741
        if rng.random() < 0.3:
            slots.append(1)
        write = [0, *(rng.randint(1, 9) for _ in slots[1:])]
        read = [0, *(rng.randint(1, 9) for _ in slots[1:])]
        forward, backward = rng.randint(1, 4), rng.randint(1, 4)
        found = h_revolve(l, slots, write, read, forward, backward)
        expected = least_time(l, slots, write, read, forward, backward)
        assert (None if found is None else found[0]) == expected, (l, slots, write, read, forward, backward)
        if found is None:
            continue
        graph = plain(l, f"{REPLACE}&forward={forward}&backward={backward}")
        machine = with_tiers(slots[0] + 2, list(slots[1:]), write[1:], read[1:])
        assert verified(lt.Recompute(graph, machine=machine), "h-revolve") == expected
        used += any(code > 2 * l for code in found[1])
    assert used > 5


@pytest.mark.slow
def test_disk_revolve_is_h_revolve_with_a_slot_for_each_state() -> None:
    rng = Random(2)
    for _ in range(40):
        l, c, w, r = rng.randint(0, 30), rng.randint(1, 4), rng.randint(1, 9), rng.randint(1, 9)  # noqa: E741
        cost, _ = disk_revolve(l, c, w, r, 2, 3)
        other = h_revolve(l, [c, l + 1], [0, w], [0, r], 2, 3)
        assert other is not None
        assert cost == other[0], (l, c, w, r)
        periodic, _, period = periodic_disk_revolve(l, c, w, r, 2, 3)
        assert periodic >= cost
        machine = with_tiers(c + 2, [None], [w], [r])
        problem = lt.Recompute(plain(l, f"{REPLACE}&forward=2&backward=3"), machine=machine)
        assert verified(problem, "disk-revolve") == cost
        assert verified(problem, "periodic-disk-revolve") == periodic
        assert 0 <= period <= l


def test_a_disk_that_is_read_at_once_is_read_after_one_forward() -> None:
    """Two forwards with one slot: x_0 is read again instead of being run from."""
    for l in (5, 9, 12):  # noqa: E741
        other = h_revolve(l, [1, l + 1], [0, 2], [0, 0], 1, 1)
        assert other is not None
        assert disk_revolve(l, 1, 2, 0, 1, 1)[0] == other[0]


def mixed_table(n: int, s: int) -> np.ndarray:
    """Return the least forwards of mixed checkpointing by slots and steps, by Maddison's recurrence."""
    table = np.full((s + 1, n + 1), 2**60)
    for k in range(s + 1):
        for m in range(1, n + 1):
            if m <= k + 1:
                table[k, m] = m
            elif k:
                i = np.arange(1, m)
                split = (i + table[k - 1, m - i] + table[k, i]).min()
                table[k, m] = min(1 + table[k - 1, m - 1], split)
    return table


def test_closed_form_of_mixed_checkpointing_is_its_recurrence() -> None:
    table = mixed_table(450, 12)
    assert least_mixed_forwards(2, 0) is None
    for s in range(1, 13):
        assert [least_mixed_forwards(n, s) for n in range(1, 451)] == table[s, 1:].tolist()
    # Where the least number r of runs of a step changes, with more slots than the above.
    table = mixed_table(300, 30)
    for s in range(13, 31):
        for n in (s, s + 1, s + 2, comb(s + 2, 2) - 1, comb(s + 2, 2), comb(s + 2, 2) + 1):
            if n <= 300:
                assert least_mixed_forwards(n, s) == table[s, n]


@pytest.mark.slow
def test_mixed_checkpointing_of_long_chains_fits_its_slots() -> None:
    rng = Random(3)
    for _ in range(5):
        l, s = rng.randint(50, 160), rng.randint(1, 14)  # noqa: E741
        graph = lt.load(f"gen:taped-chain?l={l}{UNIT_TAPED}")
        forwards = least_mixed_forwards(l, s)
        assert forwards is not None
        assert verified(lt.Recompute(graph, s + 2), "mixed") == forwards + l
    for l, s in ((5000, 40), (20_000, 9), (300, 299), (300, 298), (4000, 2)):  # noqa: E741
        found = mixed(l, s)
        assert found is not None
        assert slots_of(l, found[1].tolist()) <= s


def slots_of(l: int, codes: list[int]) -> int:  # noqa: E741
    """Return the most slots that a mixed schedule has in use at once; fail if it cannot be carried out.

    The state that the last forward made is at hand, and so is its data if the backward follows at once.
    """
    needed: list[tuple[bool, bool]] = []  # by forward: whether what it reads, what it makes, is read later
    later: set[int] = set()
    for code in reversed(codes):
        if not l <= code < 2 * l:
            state = code % (2 * l)
            needed.append((state in later, state + 1 in later))
            later.discard(state + 1)
            later.add(state)
    states: set[int] = {0}
    data: set[int] = set()
    most, left = 0, l
    for code, after in zip(codes, [*codes[1:], -1], strict=True):
        if l <= code < 2 * l:
            assert 2 * l - code == left
            data.remove(left)
            left -= 1
            continue
        state = code % (2 * l)
        assert state in states
        reads_again, made_is_read = needed.pop()
        if not reads_again:
            states.remove(state)
        most = max(most, len(states - {state + 1}) + len(data))
        if made_is_read:
            states.add(state + 1)
        if code < l:
            data.add(state + 1)
            most = max(most, len(states - {state + 1}) + len(data) - (after == 2 * l - state - 1))
    assert left == 0
    return most


def test_unit_taped_chains_are_mixed_checkpointing() -> None:
    for l in (1, 2, 5, 12):  # noqa: E741
        graph = lt.load(f"gen:taped-chain?l={l}{UNIT_TAPED}")
        for s in range(1, 6):
            found = mixed(l, s)
            assert found is not None
            assert verified(lt.Recompute(graph, s + 2), "mixed") == found[0] + l
            assert verified(lt.Recompute(graph, s + 2), "hetero-chain") == found[0] + l


@pytest.mark.slow
@pytest.mark.parametrize("accounting", ["replace", "coexist"])
def test_hetero_chain_is_exact_on_unit_chains(accounting: str) -> None:
    for l in (0, 1, 2, 3, 4):  # noqa: E741
        graph = plain(l, f"&accounting={accounting}")
        for memory in range(2, l + 4):
            best = fastest_recomputation(graph, lt.Machine.single(memory))
            assert verified(lt.Recompute(graph, memory), "hetero-chain") == best, (l, memory)


@pytest.mark.slow
def test_hetero_chain_on_chains_of_any_sizes_is_never_below_the_optimum_and_often_there() -> None:
    same = other = 0
    for seed in range(40):
        rng = Random(seed)
        l = rng.randint(1, 3)  # noqa: E741
        spec = f"&largest=4&spread=3&seed={seed}&accounting={rng.choice(('replace', 'coexist'))}"
        graph = plain(l, spec)
        least = max(lt.Recompute(graph).least_bytes(i) for i in range(len(graph.ops)))
        memory = least + rng.randint(0, 6)
        best = fastest_recomputation(graph, lt.Machine.single(memory))
        found = verified(lt.Recompute(graph, memory), "hetero-chain")
        assert found is None or (best is not None and found >= best), f"seed {seed}"
        same += found == best
        other += found != best
    assert same >= 3 * other


@pytest.mark.slow
def test_hetero_chain_on_taped_chains_is_never_below_the_optimum_and_often_there() -> None:
    same = other = 0
    for seed in range(16):
        rng = Random(seed)
        graph = lt.load(f"gen:taped-chain?l=2&largest=3&saved=3&workspace=2&spread=3&seed={seed}")
        base = lt.Recompute(graph)
        memory = max(base.least_bytes(i) for i in range(len(graph.ops))) + rng.randint(0, 5)
        problem = lt.Recompute(graph, memory)
        best = fastest_recomputation(graph, problem.machine)
        found = verified(problem, "hetero-chain")
        assert found is None or (best is not None and found >= best), f"seed {seed}"
        same += found == best
        other += found != best
    assert same >= 3 * other


def test_coarser_slots_of_memory_are_safe() -> None:
    worse = 0
    for seed in range(12):
        graph = lt.load(f"gen:taped-chain?l=9&largest=50&saved=90&workspace=20&seed={seed}")
        problem = lt.Recompute(graph, 700)
        fine = verified(problem, "hetero-chain", **{"memory-slots": "700"})
        coarse = verified(problem, "hetero-chain", **{"memory-slots": "30"})
        assert fine is not None
        assert coarse is None or coarse >= fine
        worse += coarse != fine
    assert worse > 0


def test_sqrt_needs_one_more_sweep() -> None:
    n = 100
    graph = plain(n - 1)
    # Of ten segments the last one is kept by the first sweep; the others take nine forwards once more.
    assert verified(lt.Recompute(graph, 19), "sqrt") == 199 + 81
    assert verified(lt.Recompute(graph, 18), "sqrt") is None


@pytest.mark.slow
def test_auto_proves_the_least_in_cells_and_uses_slower_tiers() -> None:
    for memory, again in ((4, 2), (6, 0)):
        result = lt.solve(lt.Recompute(plain(5), memory), time_limit=None, threads=1)
        assert (result.status, result.objective) == ("optimal", 11 + again)
    machine = with_tiers(3, [None], [2], [2])
    slow = lt.Recompute(plain(10, f"{REPLACE}&forward=9&backward=9"), machine=machine)
    best, revolved = verified(slow, "auto"), verified(slow, "h-revolve")
    assert best is not None
    assert revolved is not None
    assert best <= revolved
    graph = lt.load("gen:taped-chain?l=9")
    found = lt.solve(lt.Recompute(graph, 200), threads=1)
    assert (found.status, found.objective) == (
        "feasible",
        verified(lt.Recompute(graph, 200), "hetero-chain"),
    )


def test_other_graphs_are_refused() -> None:
    for method, spec, words in (
        ("revolve", "gen:chain?n=5", "no such chain"),
        ("revolve", "gen:taped-chain?l=3", "no such chain"),
        ("mixed", "gen:backprop-chain?l=3", "no such chain"),
        ("h-revolve", "gen:backprop-chain?l=9&spread=3", "different times of forwards"),
        ("disk-revolve", "gen:backprop-chain?l=9", "expected a machine with a second one"),
        ("hetero-chain", "catalogue:diamond", "no such chain"),
        ("mixed", "gen:taped-chain?l=3&accounting=replace", "expected coexist"),
    ):
        with pytest.raises(UsageError, match=words):
            lt.solve(lt.Recompute(lt.load(spec), 100), method)


def test_too_little_memory_is_said() -> None:
    result = lt.solve(lt.Recompute(plain(5), 2), "revolve")
    assert result.status == "unknown"
    assert "found no room for one slot" in result.detail
