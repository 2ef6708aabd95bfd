"""Forced orders: every good order obeys them, and every pair that one minimum forces is found."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given

import lowtide as lt
from lowtide.formulations.peak.data import PeakData, forced_bound, op_bytes, order_peak, peak_data
from lowtide.formulations.peak.forced_orders import with_forced_orders
from lowtide.models.graph import Graph
from tests.effort import many
from tests.oracles.brute_force import brute_force_peak, topological_orders
from tests.strategies import graphs, random_graph

EXAMPLES = many(100)


@cache
def cases() -> list[tuple[Graph, PeakData, list[tuple[int, ...]]]]:
    """Return graphs on which pairs are forced often enough, with their data and all their orders."""
    found = [
        random_graph(Random(seed), min_ops=5, max_ops=6, max_nbytes=9, after=False) for seed in range(120)
    ]
    for accounting in ("coexist", "replace"):
        for shape in ("randwire?n=5", "intree?n=6", "sp?n=7", "layered?layers=3&width=2"):
            found += [lt.load(f"gen:{shape}&seed={seed}&accounting={accounting}") for seed in range(12)]
    data = [peak_data(lt.Peak(graph)) for graph in found]
    return [(graph, x, list(topological_orders(graph))) for graph, x in zip(found, data, strict=True)]


def limits(data: PeakData, orders: list[tuple[int, ...]]) -> list[tuple[tuple[int, ...], int]]:
    """Return known orders with limits: optimal and reference order, each tight and with some slack."""
    known = [min(orders, key=lambda order: order_peak(data, order)), tuple(range(data.n))]
    return [(order, order_peak(data, order) + slack) for order in known for slack in (0, 2)]


@pytest.mark.slow
def test_good_orders_obey_what_is_forced_and_keep_their_peaks() -> None:
    pairs = 0
    for _, data, orders in cases():
        peaks = [order_peak(data, order) for order in orders]
        for known, limit in limits(data, orders):
            forced = with_forced_orders(data, known, limit=limit)
            pairs += sum(map(int.bit_count, forced.ancestors)) - sum(map(int.bit_count, data.ancestors))
            assert forced_bound(data) <= forced_bound(forced) <= limit
            for order, peak in zip(orders, peaks, strict=True):
                if peak <= limit:
                    assert order_peak(forced, order) == peak
                    assert obeys(forced, order)
    assert pairs >= 300


def obeys(data: PeakData, order: tuple[int, ...]) -> bool:
    """Whether an order agrees with ancestors, descendants and windows."""
    done = 0
    for place, i in enumerate(order):
        if data.ancestors[i] & ~done or data.descendants[i] & done:
            return False
        if not data.earliest[i] <= place <= data.latest[i]:
            return False
        done |= 1 << i
    return True


@pytest.mark.slow
def test_every_pair_that_one_minimum_forces_is_found() -> None:
    """By the definition: the least cost of each op over all executed sets with, and without, another one.

    Until nothing changes: the executed sets are those of the orders that obey what is forced so far.
    """
    for _, data, orders in cases():
        steps = costs_of_steps(orders, data)
        for known, limit in limits(data, orders):
            forced = with_forced_orders(data, known, limit=limit)
            good = [x for x in steps if is_downset(x[1], forced) and is_downset(x[1] | 1 << x[0], forced)]
            for w in range(data.n):
                for u in range(data.n):
                    without = [cost for op, done, cost in good if op == w and not done >> u & 1]
                    within = [cost for op, done, cost in good if op == w and done >> u & 1]
                    if u != w:
                        assert (min(without, default=limit + 1) > limit) == (forced.ancestors[w] >> u & 1)
                        assert (min(within, default=limit + 1) > limit) == (forced.descendants[w] >> u & 1)


def is_downset(done: int, data: PeakData) -> bool:
    """Whether a set of ops contains the ancestors of each of them."""
    return not any(data.ancestors[i] & ~done for i in range(data.n) if done >> i & 1)


def costs_of_steps(orders: list[tuple[int, ...]], data: PeakData) -> list[tuple[int, int, int]]:
    """Return op, executed set before it and memory while it runs, for all steps of all orders."""
    own, steps = op_bytes(data), {}
    for order in orders:
        masks = [0]
        for i in order:
            masks.append(masks[-1] | 1 << i)
        for i, (before, after) in zip(order, pairwise(masks), strict=True):
            if (i, before) not in steps:
                done = after if data.replace else before
                live = sum(x.nbytes for x in data.lifetimes if _exists(x.born, x.last, done))
                steps[i, before] = data.base + live + own.extra[i]
    return [(i, before, cost) for (i, before), cost in steps.items()]


def _exists(born: int | None, last: tuple[int, ...], done: int) -> bool:
    """Whether a lifetime is live between the ops when `done` have run."""
    return (born is None or bool(done >> born & 1)) and not (last and all(done >> i & 1 for i in last))


@EXAMPLES
@given(graph=graphs(max_ops=7))
def test_extended_precedence_is_closed_and_reduced(graph: Graph) -> None:
    data = peak_data(lt.Peak(graph))
    forced = with_forced_orders(data, brute_force_peak(graph)[1])
    for i, before in enumerate(forced.predecessors):
        mask = 0
        for j in before:
            mask |= forced.ancestors[j] | 1 << j
        assert mask == forced.ancestors[i]
        assert not any(forced.ancestors[k] >> j & 1 for j in before for k in before)
        assert sum(1 << j for j in range(data.n) if forced.ancestors[j] >> i & 1) == forced.descendants[i]
    assert sum(x.nbytes for x in forced.lifetimes) == sum(x.nbytes for x in data.lifetimes)


def test_second_branch_of_an_optimal_order_is_forced_behind_the_first() -> None:
    graph = lt.load("catalogue:two-branches")
    data = peak_data(lt.Peak(graph))
    _, order = brute_force_peak(graph)
    forced = with_forced_orders(data, order)
    assert sum(map(int.bit_count, forced.ancestors)) > sum(map(int.bit_count, data.ancestors))
    assert forced.earliest == forced.latest or forced_bound(forced) * data.unit <= 12


def test_no_work_leaves_the_data_as_they_are() -> None:
    data = peak_data(lt.Peak(lt.load("catalogue:randwire-20-0")))
    for none in (with_forced_orders(data, range(data.n), most_work=0), expired_at_once(data)):
        assert (none.ancestors, none.earliest, none.latest) == (data.ancestors, data.earliest, data.latest)


def expired_at_once(data: PeakData) -> PeakData:
    """Return what is forced when the time is up before the first flow."""
    return with_forced_orders(data, range(data.n), expired=lambda: True)


def test_order_above_the_limit_is_refused() -> None:
    data = peak_data(lt.Peak(lt.load("catalogue:chain")))
    with pytest.raises(ValueError, match="the order has a peak of 8 units, expected at most the limit of 7"):
        with_forced_orders(data, (0, 1, 2), limit=7)
