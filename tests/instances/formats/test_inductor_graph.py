"""Kernels of torch.compile: tuples, mutations and outputs by hand; faults with their place."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from tests.small_files import INDUCTOR


def load(data: Any, folder: Path) -> lt.Graph:
    path = folder / "small_fused.json"
    path.write_text(json.dumps(data))
    return lt.load(path)


def test_a_tuple_is_allocated_at_once_and_freed_item_by_item(tmp_path: Path) -> None:
    graph = load(INDUCTOR, tmp_path)
    assert graph.name == "small_fused"
    found = [
        (op.name, {graph.tensors[t].name for t in op.reads}, {graph.tensors[t].name for t in op.writes})
        for op in graph.ops
    ]
    assert found == [
        ("op0", {"tangent"}, {"buf0", "buf1", "buf2"}),
        ("op1", {"buf0", "buf1"}, set()),
        ("op2", {"buf0", "buf2"}, set()),
        ("op3", {"buf1"}, {"buf3"}),
        ("op4_op5", {"buf1", "buf2", "buf3"}, {"buf4", "buf5"}),
    ]
    assert [t.nbytes for t in graph.tensors] == [40, 0, 10, 20, 0, 5, 7]
    assert [t.name for t in graph.tensors if t.initial] == ["tangent"]
    assert [t.name for t in graph.tensors if t.final] == ["buf5"]
    assert lt.Peak(graph).evaluate(range(5)) == 70  # op0: 40 of the input, 30 of both items


def test_what_no_item_frees_stays(tmp_path: Path) -> None:
    data = deepcopy(INDUCTOR)
    data["buffers"][1]["size_alloc"] = 34
    graph = load(data, tmp_path)
    assert [(t.name, t.nbytes, t.final) for t in graph.tensors[7:]] == [("buf0 unfreed", 4, True)]
    assert lt.Peak(graph).evaluate(range(5)) == 74


def _tuple_in_a_tuple(data: Any) -> None:
    data["buffers"][2] |= {"size_free": 0, "size": 0}
    data["buffers"][3] |= {"size_free": 30, "size": 30, "deps": ["buf1"]}


def test_an_item_of_a_tuple_in_a_tuple(tmp_path: Path) -> None:
    data = deepcopy(INDUCTOR)
    _tuple_in_a_tuple(data)
    graph = load(data, tmp_path)
    assert [graph.tensors[t].name for t in graph.ops[0].writes] == ["buf0", "buf2"]


def changed(change: Callable[[Any], object]) -> Any:
    data = deepcopy(INDUCTOR)
    change(data)
    return data


FAULTS: dict[str, Any] = {
    "buffer 1 'buf0', size_free: found -1, expected an integer >= 0": changed(
        lambda d: d["buffers"][1].update(size_free=-1)
    ),
    "node 0 'op0', found no key 'buffer_names'": changed(lambda d: d["nodes"][0].pop("buffer_names")),
    "buffer 'buf1', deps: found unknown buffer 'buf9'": changed(
        lambda d: d["buffers"][2].update(deps=["buf9", "buf0"])
    ),
    "buffer 'buf0': found it twice": changed(lambda d: d["buffers"].append(d["buffers"][1])),
    "node 'op0': found it twice": changed(lambda d: d["nodes"][1].update(name="op0")),
    "node 'op1': found buffer 'buf0' made before": changed(
        lambda d: d["nodes"][1]["buffer_names"].append("buf0")
    ),
    "node 'op1': found buffer 'tangent' made before": changed(
        lambda d: d["nodes"][1]["buffer_names"].append("tangent")
    ),
    "buffer 'buf3': found no node that makes it": changed(lambda d: d["nodes"][3].update(buffer_names=[])),
    "buffer 'buf0': found 30 bytes allocated and 31 freed": changed(
        lambda d: d["buffers"][2].update(size_free=11)
    ),
    "buffer 'buf2': found 20 bytes freed that nothing allocated": changed(
        lambda d: d["buffers"][3].update(deps=["tangent"])
    ),
    "op 0 'op1', reads: found tensor 1 'buf0' before its first write": changed(
        lambda d: d["nodes"].insert(0, d["nodes"].pop(1))
    ),
}


@pytest.mark.parametrize("message", FAULTS)
def test_faults_have_their_place(message: str, tmp_path: Path) -> None:
    with pytest.raises(lt.InstanceError) as caught:
        load(FAULTS[message], tmp_path)
    assert message in str(caught.value)
