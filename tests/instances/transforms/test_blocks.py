"""Blocks of consecutive ops: the same data flow, coarser."""

from itertools import pairwise

import pytest

import lowtide as lt
from lowtide.instances.transforms.blocks import in_blocks
from tests.effort import seeds
from tests.problems.placement import random_graph


def peak(graph: lt.Graph) -> int:
    return lt.Peak(graph).evaluate(tuple(range(len(graph.ops))))


@pytest.mark.parametrize("seed", seeds(20))
@pytest.mark.parametrize("many", [1, 4, 9, 14])
def test_blocks_take_as_long_and_need_no_less_memory(seed: int, many: int) -> None:
    graph = random_graph(seed, 14)
    coarse = in_blocks(graph, many)
    assert len(coarse.ops) == many
    assert coarse.summary()["duration_ns"] == graph.summary()["duration_ns"]
    assert peak(coarse) >= peak(graph)
    kept = {t.name for t in graph.tensors if t.initial or t.final}
    assert kept <= {t.name for t in coarse.tensors}
    if many == len(graph.ops):
        assert peak(coarse) == peak(graph)


def test_a_block_reads_from_outside_and_writes_for_others() -> None:
    graph = lt.Graph(
        name="five",
        tensors=tuple(lt.Tensor(name=f"t{i}", nbytes=2**i) for i in range(5)),
        ops=(
            lt.Op(name="a", writes=(0,), duration_ns=10),
            lt.Op(name="b", reads=(0,), writes=(1,), duration_ns=5),
            lt.Op(name="c", reads=(1,), writes=(2,), duration_ns=5, workspace=3),
            lt.Op(name="d", reads=(0, 2), writes=(3,), duration_ns=10, after=(1,)),
            lt.Op(name="e", reads=(3,), writes=(4,), duration_ns=1),
        ),
    )
    block = in_blocks(graph, 4).ops[2]
    assert block.name == "c to d"
    assert (block.reads, block.writes, block.after) == ((0, 1), (2,), (1,))  # t2 is inside, t3 is number 2
    assert block.workspace == 4 + 3


def test_blocks_of_a_real_graph_have_like_durations() -> None:
    graph = lt.load("catalogue:resnet50-train?blocks=50")
    assert len(graph.ops) == 50
    assert lt.load(graph.source or "") == graph
    longest = max(op.duration_ns for op in lt.load("catalogue:resnet50-train").ops)
    part = graph.summary()["duration_ns"] // 50
    assert all(op.duration_ns <= part + longest for op in graph.ops)
    assert all(a.name != b.name for a, b in pairwise(graph.ops))


def test_bad_numbers_of_blocks() -> None:
    with pytest.raises(lt.InstanceError, match="expected 1 to 14"):
        in_blocks(random_graph(1, 14), 15)
    with pytest.raises(lt.InstanceError, match="expected an integer >= 1"):
        lt.load("gen:chain?n=5&blocks=none")
