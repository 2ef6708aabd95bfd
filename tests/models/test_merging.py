"""Graphs with ops merged: what stands for what, and what cannot be merged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances.durations import with_durations
from lowtide.models.derived.merging import merge_ops, merged_numbers, sets_of, stated_merges, text_of


def three(**change: Any) -> lt.Graph:
    """Return a source, two readers of it, one reader of both of these, and one of the second alone."""
    names = ("in", "a", "b", "c", "d", "e")
    tensors = [lt.Tensor(name=x, nbytes=2**k, initial=k == 0, final=k == 5) for k, x in enumerate(names)]
    ops = [
        lt.Op(name="source", reads=(0,), writes=(1,), duration_ns=5),
        lt.Op(name="x", reads=(1,), writes=(2,), duration_ns=7),
        lt.Op(name="between", after=(1,), duration_ns=1),
        lt.Op(name="y", reads=(1,), writes=(3,), duration_ns=9, **change),
        lt.Op(name="both", reads=(2, 3), writes=(4,), inplace=((2, 4),), after=(2, 3)),
        lt.Op(name="one", reads=(3, 4), writes=(5,), inplace=((4, 5),)),
    ]
    stated = {
        "merges": [
            {"ops": ["y", "x"], "duration_ns": 11, "share": 3},
            {"ops": ["x", "z"], "duration_ns": 1},
        ],
        "blocks": [[0], [1, 2, 3], [4, 5]],
    }
    return lt.Graph(name="three", tensors=tuple(tensors), ops=tuple(ops), provenance=stated)


def test_two_readers_are_one_op_that_writes_one_tensor() -> None:
    graph = three()
    assert stated_merges(graph) == (((1, 3), 11, 3),)  # there is no op z
    assert merged_numbers(graph, [(1, 3)]) == [0, 1, 2, 1, 3, 4]
    merged = merge_ops(graph, [(3, 1)])
    assert [(t.name, t.nbytes) for t in merged.tensors] == [
        ("in", 1),
        ("a", 2),
        ("b+c", 12),
        ("d", 16),
        ("e", 32),
    ]
    assert [(op.name, op.reads, op.writes, op.after, op.inplace) for op in merged.ops] == [
        ("source", (0,), (1,), (), ()),
        ("x+y", (1,), (2,), (), ()),
        ("between", (), (), (1,), ()),
        ("both", (2,), (3,), (1, 2), ()),
        ("one", (2, 3), (4,), (), ((3, 4),)),
    ]
    assert (merged.ops[1].duration_ns, merged.ops[1].share) == (11, 3)
    assert merged.provenance["blocks"] == [[0], [1, 2], [3, 4]]
    assert stated_merges(merged) == ()
    assert text_of(graph, [(3, 1)]) == "x+y"
    assert sets_of(graph, "x+y;4+0") == [[1, 3], [4, 0]]


def test_the_measured_time_of_a_merge_is_no_time_of_its_first_op_on_another_device() -> None:
    graph = three()
    ops = tuple(replace(op, work=(lt.Work(nbytes=10**6),)) for op in graph.ops)
    merged = merge_ops(replace(graph, ops=ops), [(1, 3)])
    assert [len(op.work) for op in merged.ops] == [1, 0, 1, 1, 1]
    timed = with_durations(merged, lt.load_machine("l4"))
    assert timed.ops[1].duration_ns == 11 < timed.ops[0].duration_ns


@pytest.mark.parametrize(
    ("change", "sets", "words"),
    [
        ({}, [(1, 2)], r"found \[1, 2\], expected a merge that it states"),
        ({}, [(1, 3), (3, 1)], "an op in two merges"),
        ({"workspace": 1}, [(1, 3)], "read the same tensors after the same ops"),
        ({"kind": "other"}, [(1, 3)], "of one kind"),
        ({"after": (2,)}, [(1, 3)], "after the same ops"),
    ],
)
def test_what_cannot_be_merged(change: dict[str, Any], sets: list[tuple[int, ...]], words: str) -> None:
    with pytest.raises(lt.InstanceError, match=words):
        merge_ops(three(**change), sets)


def test_versions_and_wrong_statements_are_refused() -> None:
    graph = three()
    again = replace(graph, ops=(*graph.ops, lt.Op(name="again", writes=(1,))))
    with pytest.raises(lt.InstanceError, match="once"):
        stated_merges(again)
    for wrong in (7, [7], [{"ops": ["x"]}], [{"ops": [], "duration_ns": 1}]):
        with pytest.raises(lt.InstanceError, match=r"merges: found .*expected objects"):
            stated_merges(replace(graph, provenance={"merges": wrong}))
    with pytest.raises(lt.InstanceError, match="one kind"):
        stated_merges(replace(graph, provenance={"merges": [{"ops": ["x", "x"], "duration_ns": 1}]}))
    with pytest.raises(lt.InstanceError, match="unknown op 'w'"):
        sets_of(graph, "x+w")
