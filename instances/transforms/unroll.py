"""Unrolling: the buffers of a plan that is executed several times, one iteration after the other.

A training step or an inference repeats. What lives on from one iteration to the next are the tensors that
are both initial and final (weights, optimizer states), the same that a periodic plan carries round its
period; all others are made anew: inputs arrive at the begin of each iteration, outputs leave at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

from ...models.buffers import Buffers
from ...models.errors import InstanceError
from ...models.graph import Graph
from ...models.lowering.buffers import buffers_of
from ...models.lowering.residencies import (
    Residency,
    first_moment,
    inplace_pairs,
    plan_length,
    residencies,
)
from ...models.plan import Plan

Spell = tuple[int, int, bool]
"""Begin and end of bytes in memory within an iteration, and whether they are there to its very end."""


def unroll(graph: Graph, plan: Plan, iterations: int) -> Buffers:
    """Return the buffers of a plan that is executed `iterations` times, back to back.

    Bytes of a tensor that is both initial and final, that the plan leaves in a tier at its end and has
    there at its start, stay where they are: one buffer spans the iterations. What is left at the end but
    not there at the start is released in between; what is there at the start but not left at the end
    appears. Where bytes are released at time 0, each iteration begins with a moment before that, as in
    `buffers_from_plan`. At every instant the buffers therefore weigh as much as at that instant of a single
    iteration.

    Parameters
    ----------
    graph, plan
        As for `buffers_from_plan`; an iteration takes the plan's period or, without one, lasts to its
        last event.
    iterations
        At least 1.

    Raises
    ------
    InstanceError
        If the number is out of range, an action is malformed, or bytes are released that are not allocated.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances.transforms.unroll import unroll
    >>> graph = lt.load("gen:chain?n=5&seed=1")
    >>> plan = lt.Plan.from_order(graph, range(5))
    >>> [len(unroll(graph, plan, k).buffers) for k in (1, 2, 3)]
    [5, 10, 15]
    """
    if type(iterations) is not int or iterations < 1:
        raise InstanceError(f"unroll, iterations: found {iterations!r}, expected an integer >= 1")
    alone = residencies(graph, plan)
    delay = first_moment(alone)
    listed, length = [_begun(r, delay) for r in alone], plan_length(plan) + delay
    carried: dict[tuple[int, int], list[Residency]] = {}
    result: list[Residency] = []
    for r in listed:
        tensor = graph.tensors[r.tensor]
        if tensor.initial and tensor.final:
            carried.setdefault((r.tensor, r.tier), []).append(r)
        else:
            result += [_later(r, k * length) for k in range(iterations)]
    for pieces in carried.values():
        result += _lasting(pieces, length, iterations)
    result.sort(key=attrgetter("tensor", "tier", "lower", "upper", "low"))
    delays = [k * length for k in range(iterations)]
    runs = [
        replace(run, start=run.start + delay + k, end=run.end + delay + k)
        for k in delays
        for run in plan.runs
    ]
    wanted = inplace_pairs(graph, plan, alone)
    pairs = list(_pairs(graph, wanted, listed, result, delays))
    buffers = buffers_of(graph, plan.machine, result, runs, pairs)
    return replace(buffers, name=f"{graph.name} x{iterations}")


def _begun(r: Residency, delay: int) -> Residency:
    """Return a residency of an iteration that begins at 0, where what is there at the start begins too."""
    gaps = tuple((a + delay, b + delay) for a, b in r.gaps)
    return replace(r, lower=max(r.lower + delay, 0), upper=r.upper + delay, gaps=gaps)


def _later(r: Residency, delay: int) -> Residency:
    return replace(r, lower=r.lower + delay, upper=r.upper + delay)


def _lasting(pieces: list[Residency], length: int, iterations: int) -> list[Residency]:
    """Return what the residencies of one tensor in one tier become that live on over the border."""
    listed: list[Residency] = []
    edges = sorted({edge for r in pieces for edge in (r.low, r.high)})
    for low, high in pairwise(edges):
        spells = sorted(s for r in pieces if r.low <= low and high <= r.high for s in _spells(r, length))
        for lower, upper, _ in _repeated(spells, length, iterations):
            listed.append(replace(pieces[0], lower=lower, upper=upper, gaps=(), low=low, high=high))
    listed.sort(key=attrgetter("lower", "upper", "low"))
    merged: list[Residency] = []
    for r in listed:
        if merged and replace(merged[-1], low=r.low, high=r.high) == r and merged[-1].high == r.low:
            merged[-1] = replace(merged[-1], high=r.high)
        else:
            merged.append(r)
    return merged


def _spells(r: Residency, length: int) -> list[Spell]:
    """Cut a residency at its gaps."""
    edges = [r.lower, *(edge for gap in r.gaps for edge in gap), r.upper]
    stays = not r.released and r.upper == length
    times = list(zip(edges[::2], edges[1::2], strict=True))
    return [(a, b, stays and b == length) for a, b in times if a < b]


def _repeated(spells: list[Spell], length: int, iterations: int) -> list[Spell]:
    """Return the spells of all iterations, those joined that meet at a border."""
    repeated: list[Spell] = []
    for k in range(iterations):
        for lower, upper, stays in spells:
            joined = lower == 0 and repeated and repeated[-1][2]
            begin = repeated.pop()[0] if joined else lower + k * length
            repeated.append((begin, upper + k * length, stays))
    return repeated


def _pairs(
    graph: Graph,
    wanted: list[tuple[int, int]],
    listed: list[Residency],
    result: list[Residency],
    delays: list[int],
) -> Iterator[tuple[int, int]]:
    """Return the in-place pairs of each iteration as positions in `result`."""
    if not wanted:
        return
    begins: dict[tuple[int, int, int], int] = {}
    ends: dict[tuple[int, int, int], int] = {}
    for n, r in enumerate(result):
        if r.high - r.low == graph.tensors[r.tensor].nbytes:
            begins[r.tensor, r.tier, r.lower] = n
            ends[r.tensor, r.tier, r.upper] = n
    for delay in delays:
        for a, b in wanted:
            place, later = listed[a], listed[b]
            first = ends.get((place.tensor, place.tier, place.upper + delay))
            second = begins.get((later.tensor, later.tier, later.lower + delay))
            if first is not None and second is not None:
                yield first, second
