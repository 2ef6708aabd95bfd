"""The arrays of `models.memory` and `models.precedence` against the definitions."""

from __future__ import annotations

from itertools import islice, permutations

import pytest
from hypothesis import given

from lowtide.models.derived.memory import sequential_memory
from lowtide.models.derived.precedence import check_order, precedence
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Accounting, Graph, Op, Tensor
from tests.effort import many
from tests.oracles.brute_force import memory_profile, must_precede, order_peak, topological_orders
from tests.strategies import graphs

EXAMPLES = many(100)


@EXAMPLES
@given(graphs(max_ops=6))
def test_profile_of_every_order_is_that_of_the_definition(graph: Graph) -> None:
    memory = sequential_memory(graph)
    for order in islice(topological_orders(graph), 60):
        during, after = memory.profile(order)
        assert during == memory_profile(graph, order)
        assert memory.peak(order) == order_peak(graph, order)
        kept = sum(t.nbytes for t in graph.tensors if t.final)
        assert (after[-1] if after else memory.initial_bytes) == kept


@EXAMPLES
@given(graphs(max_ops=7))
def test_edges_have_the_closure_of_the_definition(graph: Graph) -> None:
    found = precedence(graph)
    n = len(graph.ops)
    pairs = must_precede(graph)
    reach = [[(i, j) in pairs for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                reach[i][j] |= reach[i][k] and reach[k][j]
    assert [[bool(found.ancestors[j] >> i & 1) for j in range(n)] for i in range(n)] == reach
    assert [[bool(found.descendants[i] >> j & 1) for j in range(n)] for i in range(n)] == reach
    starts, indices = found.successors_csr
    lists = [tuple(indices[starts[i] : starts[i + 1]]) for i in range(n)]
    assert lists == list(found.successors)
    assert found.n_edges == len(indices)


@EXAMPLES
@given(graphs(max_ops=5))
def test_check_order_accepts_the_topological_orders_only(graph: Graph) -> None:
    valid = set(topological_orders(graph))
    for order in permutations(range(len(graph.ops))):
        if order in valid:
            check_order(graph, order)
        else:
            with pytest.raises(InstanceError, match="precedence"):
                check_order(graph, order)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ((0, 2), r"place 1: found op 2, expected one in \[0, 2\)"),
        ((0, -1), r"place 1: found op -1, expected one in \[0, 2\)"),
        ((0, 0), "place 1: found op 0 'a' twice"),
        ((1, 0), "place 0: found op 1 'b' before op 0 'a', expected it after"),
        ((0,), "found 1 ops, expected 2; missing op 1 'b'"),
    ],
)
def test_a_wrong_order_is_named(order: tuple[int, ...], message: str) -> None:
    graph = Graph(
        name="two",
        tensors=(Tensor(name="x", nbytes=1),),
        ops=(Op(name="a", writes=(0,)), Op(name="b", reads=(0,))),
    )
    with pytest.raises(InstanceError, match=message):
        check_order(graph, order)


@pytest.mark.parametrize(("accounting", "during"), [("coexist", [7, 9, 11]), ("replace", [7, 6, 6])])
def test_in_place_update_counts_once(accounting: str, during: list[int]) -> None:
    """w (4 bytes) lives throughout; g (3) dies with the update, which has 2 bytes of workspace;
    s (4, dead) is written beside w's second update.
    """
    graph = Graph(
        name="update",
        tensors=(
            Tensor(name="w", nbytes=4, initial=True, final=True, kind="weight"),
            Tensor(name="g", nbytes=3, kind="gradient"),
            Tensor(name="s", nbytes=0 if accounting == "replace" else 7),
        ),
        ops=(
            Op(name="grad", reads=(0,), writes=(1,)),
            Op(name="update", reads=(0, 1), writes=(0,), workspace=2),
            Op(name="again", reads=(0,), writes=(0, 2), workspace=2 if accounting == "replace" else 0),
        ),
        accounting=Accounting(accounting),
    )
    assert sequential_memory(graph).profile((0, 1, 2))[0] == during
