"""When an output may lie over an input: lowering, verifier, and ops carried out on bytes agree everywhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product
from random import Random

import pytest

import lowtide as lt
from lowtide.models.buffers import Buffer
from lowtide.models.graph import Graph, Op, Tensor
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.lowering.order import lower_order
from lowtide.models.verifier.allocation import verify_allocation
from tests.effort import seeds
from tests.oracles.brute_force import topological_orders
from tests.oracles.naive_cells import Owner, holds
from tests.strategies import random_graph

HIGHEST = 3
"""The last address that is tried."""


def in_place(seed: int) -> Graph:
    """Return a graph whose ops list every pair of a read and a write, of few bytes."""
    graph = random_graph(Random(seed), min_ops=1, max_ops=3, max_tensors=4, max_nbytes=2)
    ops = tuple(
        replace(op, inplace=tuple((r, w) for r in op.reads for w in op.writes if r != w)) for op in graph.ops
    )
    return replace(graph, ops=ops)


def owner_of(buffer: Buffer) -> Owner:
    """Return what a buffer of a plan holds."""
    return "w" if "/workspace@" in buffer.id else "t", int(buffer.id.partition(":")[0])


def compare(graph: Graph) -> tuple[int, int]:
    """Judge every choice of addresses for some orders; return how many are valid, and how many share."""
    valid = shared = 0
    for order in islice(topological_orders(graph), 2):
        plan = lower_order(graph, order)
        buffers = buffers_from_plan(graph, plan)
        many = len(buffers.buffers)
        for chosen in islice(product(range(HIGHEST + 1), repeat=many), 4**4):
            offsets = dict(zip((b.id for b in buffers.buffers), chosen, strict=True))
            expected = holds(graph, order, {owner_of(b): offsets[b.id] for b in buffers.buffers})
            assert verify_allocation(buffers, offsets).valid == expected, (order, offsets)
            assert lt.verify(graph, replace(plan, allocation=offsets)).valid == expected, (order, offsets)
            valid += expected
            alone = replace(buffers, inplace=())
            shared += expected and not verify_allocation(alone, offsets).valid
    return valid, shared


@pytest.mark.slow
@pytest.mark.parametrize("block", seeds(30))
def test_every_allocation_of_small_graphs_is_judged_alike(block: int) -> None:
    found = [compare(in_place(10 * block + k)) for k in range(10)]
    assert sum(valid for valid, _ in found)
    assert sum(shared for _, shared in found) or block


def test_an_output_that_is_there_from_the_start_shares_no_address() -> None:
    graph = Graph(
        name="update",
        tensors=(Tensor(name="x", nbytes=20, initial=True), Tensor(name="y", nbytes=1, initial=True)),
        ops=(Op(name="a", reads=(0, 1), writes=(1,), inplace=((0, 1),)),),
    )
    arena = lt.Arena(graph)
    assert arena.judge(arena.read(lt.Addressed((0,), (0, 0, None)))).objective is None
    assert lt.solve(arena, threads=1).objective == 21
    unread = replace(graph, ops=(Op(name="a", reads=(0,), writes=(1,), inplace=((0, 1),)),))
    arena = lt.Arena(unread)
    assert arena.judge(arena.read(lt.Addressed((0,), (0, 0, None)))).objective is None
