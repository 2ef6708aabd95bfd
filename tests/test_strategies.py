"""The generators reach the cases they promise, and the brute force agrees with hand-made ones."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

from lowtide.models.graph import Accounting, Graph, Op, Tensor
from tests.effort import many
from tests.oracles.brute_force import brute_force_peak, must_precede, order_peak, topological_orders
from tests.strategies import graphs, random_graph


def chain(accounting: Accounting) -> Graph:
    return Graph(
        name="chain",
        tensors=tuple(Tensor(name=f"t{i}", nbytes=n) for i, n in enumerate((3, 5, 2))),
        ops=(
            Op(name="a", writes=(0,)),
            Op(name="b", reads=(0,), writes=(1,)),
            Op(name="c", reads=(1,), writes=(2,)),
        ),
        accounting=accounting,
    )


@pytest.mark.parametrize(("accounting", "peak"), [("coexist", 8), ("replace", 5)])
def test_chain_peak(accounting: str, peak: int) -> None:
    assert brute_force_peak(chain(Accounting(accounting))) == (peak, (0, 1, 2))


def test_fork_peak_depends_on_the_order() -> None:
    graph = Graph(
        name="two chains",
        tensors=tuple(Tensor(name=f"t{i}", nbytes=n) for i, n in enumerate((1, 9, 1, 9))),
        ops=(
            Op(name="a", writes=(1,)),
            Op(name="b", writes=(3,)),
            Op(name="c", reads=(1,), writes=(0,)),
            Op(name="d", reads=(3,), writes=(2,)),
            Op(name="e", reads=(0, 2)),
        ),
    )
    assert order_peak(graph, (0, 1, 2, 3, 4)) == 19
    assert brute_force_peak(graph) == (11, (0, 2, 1, 3, 4))


def test_every_dependence_orders_two_ops() -> None:
    graph = Graph(
        name="hazards",
        tensors=(Tensor(name="x", nbytes=1, initial=True), Tensor(name="y", nbytes=1)),
        ops=(
            Op(name="r", reads=(0,)),
            Op(name="w", writes=(0,)),
            Op(name="w2", writes=(0,)),
            Op(name="r2", reads=(0,)),
            Op(name="free", writes=(1,)),
            Op(name="late", after=(4,)),
        ),
    )
    assert must_precede(graph) == {(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (4, 5)}
    assert len(list(topological_orders(graph))) == 15


def test_generator_reaches_every_structure() -> None:
    seen = dict.fromkeys(
        ("zero", "initial", "final", "both", "dead", "several", "update", "untouched", "workspace",
         "after", "inplace", "overwrite"),
        0,
    )  # fmt: skip
    for seed in range(200):
        graph = random_graph(Random(seed))
        written = [t for op in graph.ops for t in op.writes]
        read = {t for op in graph.ops for t in op.reads}
        for t, tensor in enumerate(graph.tensors):
            seen["zero"] += tensor.nbytes == 0
            seen["initial"] += tensor.initial
            seen["final"] += tensor.final
            seen["both"] += tensor.initial and tensor.final
            seen["dead"] += t in written and t not in read and not tensor.final
            seen["several"] += written.count(t) > 1
            seen["untouched"] += t not in read and t not in written
        for op in graph.ops:
            seen["update"] += bool(set(op.reads) & set(op.writes))
            fresh = set(op.writes) - set(op.reads)
            seen["overwrite"] += any(graph.tensors[t].initial for t in fresh)
            seen["workspace"] += op.workspace > 0
            seen["after"] += bool(op.after)
            seen["inplace"] += bool(op.inplace)
    assert min(seen.values()) >= 20, seen


@many(50)
@given(graphs(max_ops=5))
def test_reference_order_is_among_the_topological_orders(graph: Graph) -> None:
    orders = list(topological_orders(graph))
    assert orders[0] == tuple(range(len(graph.ops)))
    peak, order = brute_force_peak(graph)
    assert peak == order_peak(graph, order) <= order_peak(graph, orders[0])
