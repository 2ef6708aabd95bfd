"""The work of ops: hashes do not see it, the graph format keeps it, and so does what makes ops from ops."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.instances import graph_from_dict, load, read_graph, write_graph
from lowtide.instances.formats.native import sparse_dict
from lowtide.instances.generators.backward import training_graph
from lowtide.instances.transforms.blocks import in_blocks
from lowtide.instances.transforms.data_parallel import data_parallel
from lowtide.instances.transforms.optane import on_optane
from lowtide.instances.transforms.roofline import duration_ns
from lowtide.instances.transforms.tile import tiled
from lowtide.instances.transforms.zero import on_zero
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Graph, Mode, Op
from lowtide.models.work import DTYPES, Work, together
from tests.strategies import with_work, works

HASHES = {
    "gen:unet?depth=2&train=1&weights=1": "586131da66a705a4",
    "gen:transformer?layers=2&train=1&split=1&weights=1&blocks=7": "5c5895a22ee4c25a",
    "gen:transformer?layers=1&weights=1&train=1&tile=100KB": "f338b9fd1443fb93",
    "gen:unet?depth=2&train=1&node=zero": "1d7a6d7e35b2ae7c",
    "gen:unet?depth=2&train=1&node=zero-delayed": "f8c1702e37b023f4",
    "gen:unet?depth=2&train=1&node=optane-roofline": "2722b4567d18ffb2",
    "gen:unet?depth=2&train=1&compress.activation=2": "41262f0159083f69",
    "gen:unet?depth=2&train=1&copies=gpu0+gpu1&barriers=1&exchange=5MB": "b328b0e02eb8e849",
    "gen:nasnet?cells=3&train=1": "7de46d41cd64f834",
    "gen:tinyml": "d6f814829f1a562f",
    "gen:randwire?n=8&seed=1&train=1": "58c4b214985e18ea",
    "gen:chain?n=6&seed=2&train=1&compress.activation=2": "f491db33988cb565",
    "gen:flexgen?layers=2": "d3a61d490dacce37",
    "gen:sharded": "098cbd0858a75cba",
    "gen:tensor-parallel": "68dd39a3ac75121b",
    "onnx:squeezenet?train=1&batch=4": "f63c480993829515",
    "onnx:squeezenet?train=1&conv=modes&copies=a+b": "0c6afa2adcf16da8",
}
"""The first digits of hashes as they were before ops stated their work."""


def stated(graph: Graph) -> list[object]:
    return [(op.work, [mode.work for mode in op.all_modes]) for op in graph.ops]


def in_a_mode(spec: str) -> Graph:
    """Return a graph whose ops have a mode that states their work."""
    graph = load(spec)
    return replace(graph, ops=tuple(replace(op, work=(), modes=(Mode(work=op.work),)) for op in graph.ops))


def total(graph: Graph) -> dict[str, tuple[int, int]]:
    """Return all bytes and multiply-adds by data type."""
    nbytes, arithmetic = Counter[str](), Counter[str]()
    for op in graph.ops:
        for part in op.work:
            nbytes[part.dtype] += part.times * part.nbytes
            arithmetic[part.dtype] += part.times * part.multiply_adds
    return {dtype: (nbytes[dtype], arithmetic[dtype]) for dtype in DTYPES}


@pytest.mark.parametrize("spec", HASHES)
def test_hashes_are_as_they_were_before_ops_stated_work(spec: str) -> None:
    if spec.startswith("onnx:"):
        pytest.importorskip("onnx")
    assert load(spec).sha256[:16] == HASHES[spec]


@pytest.mark.slow
@given(seed=st.integers(0, 10**6))
def test_work_is_no_part_of_the_question_and_survives_a_file(seed: int) -> None:
    graph = with_work(Random(seed), mode_tiers=("a", "b"))
    bare = replace(
        graph,
        ops=tuple(
            replace(op, work=(), modes=tuple(replace(mode, work=()) for mode in op.modes)) for op in graph.ops
        ),
    )
    assert graph.sha256 == bare.sha256
    assert graph.ops == bare.ops
    assert graph.states_work == (graph.to_dict() != bare.to_dict())
    for data in (sparse_dict(graph), graph.to_dict()):
        again = graph_from_dict(json.loads(json.dumps(data)))
        assert stated(again) == stated(graph)
        assert again == graph


def test_work_survives_packed_files(tmp_path: Path) -> None:
    graph = load("gen:unet?depth=1&train=1")
    assert graph.states_work
    write_graph(graph, tmp_path / "graph.json.gz")
    assert stated(read_graph(tmp_path / "graph.json.gz")) == stated(graph)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (3, "work: found 3, expected a list of work"),
        ([{"nbytes": True}], "op 0 'a', work 0, nbytes: found true, expected an integer >= 0"),
        ([{}, {"multiply_adds": 1.5}], "work 1, multiply_adds: found 1.5, expected an integer >= 0"),
        ([{"multiply_adds": "9"}], 'work 0, multiply_adds: found "9", expected an integer >= 0'),
        ([{"times": 0}], "work 0, times: found 0, expected an integer >= 1"),
        ([{"dtype": "fp64"}], 'work 0, dtype: found "fp64", expected one of fp32'),
        ([{"dtype": []}], "work 0, dtype: found [], expected one of fp32"),
        ([{"flops": 2}], "found unknown key"),
        ([{"nbytes": 2**62}], "work, nbytes: found 4611686018427387904, expected less than 2"),
    ],
)
def test_wrong_work_in_a_file_is_named(work: object, message: str) -> None:
    row = {"name": "a", "work": work}
    data = {"format": "lowtide/graph", "version": 1, "name": "g", "tensors": [], "ops": [row]}
    with pytest.raises(InstanceError) as error:
        graph_from_dict(data)
    assert message in str(error.value)
    if isinstance(work, list):
        data["ops"] = [{"name": "a", "modes": [{"work": work}]}]
        with pytest.raises(InstanceError):
            graph_from_dict(data)


def test_work_is_checked_where_it_is_made() -> None:
    for wrong in ({"nbytes": -1}, {"multiply_adds": 1.0}, {"times": 0}, {"dtype": "half"}, {"dtype": 3}):
        with pytest.raises(InstanceError, match="work, "):
            Work(**wrong)
    makers: list[Any] = [Mode, partial(Op, name="a")]
    for make in makers:
        with pytest.raises(InstanceError, match=r"work: found 3, expected a tuple of Work"):
            make(work=3)
        with pytest.raises(InstanceError, match=r"work: found 3, expected a Work"):
            make(work=[3])
        assert make(work=[Work()]).work == (Work(),)


@pytest.mark.slow
@given(parts=st.lists(st.lists(works, min_size=1, max_size=3), max_size=4))
def test_together_keeps_the_sum_and_no_kernel_twice(parts: list[list[Work]]) -> None:
    joined = together(parts)
    graph = Graph(name="", tensors=(), ops=tuple(Op(name="", work=tuple(x)) for x in parts))
    assert total(Graph(name="", tensors=(), ops=(Op(name="", work=joined),))) == total(graph)
    kernels = [replace(x, times=1) for x in joined]
    assert len({*kernels}) == len(kernels)
    assert together([*parts, ()]) == ()


@given(seed=st.integers(0, 10**6), many=st.integers(1, 8))
def test_blocks_and_copies_keep_the_sum_of_work(seed: int, many: int) -> None:
    graph = with_work(Random(seed), every=True)
    blocks = in_blocks(graph, min(many, len(graph.ops)))
    assert total(blocks) == total(graph)
    copies = data_parallel(graph, ("x", "y"))
    assert total(copies) == {dtype: (2 * a, 2 * b) for dtype, (a, b) in total(graph).items()}


@settings(max_examples=5)
@given(tile=st.integers(100, 2000))
def test_tiles_keep_the_sum_of_work(tile: int) -> None:
    graph = load("gen:transformer?layers=1&d_model=16&heads=2&vocab=40&seq=8&weights=1&train=1")
    assert total(tiled(graph, tile)) == total(graph)


@given(seed=st.integers(0, 10**6), split=st.booleans())
def test_a_backward_op_does_the_work_of_its_forward_op_for_each_gradient(seed: int, split: bool) -> None:
    forward = load(f"gen:randwire?n=5&k=2&seed={seed}")
    rng = Random(seed)
    ops = (
        replace(op, work=(Work(nbytes=rng.randint(0, 99), multiply_adds=5, times=2),), duration_ns=7)
        for op in forward.ops
    )
    trained = training_graph(replace(forward, ops=tuple(ops)), split=split)
    by_name = {op.name: op for op in trained.ops}
    assert all(op.work for op in trained.ops)
    for op in trained.ops:
        if op.name.endswith((".backward", ".weights")):
            like = by_name[op.name.rpartition(".")[0]]
            (one,), (part,) = like.work, op.work
            assert op.duration_ns * one.times == like.duration_ns * part.times
            assert (part.nbytes, part.multiply_adds) == (one.nbytes, one.multiply_adds)
    assert not training_graph(forward).states_work


def test_what_transformations_add_states_its_bytes_where_others_state_work() -> None:
    graph = load("gen:unet?depth=1&train=1&compress.activation=2")
    for op in graph.ops:
        if op.kind in ("Compress", "Decompress"):
            moved = sum(graph.tensors[t].nbytes for t in (*op.reads, *op.writes))
            assert op.work == (Work(nbytes=moved),)
    assert {"Compress", "Decompress"} < {op.kind for op in graph.ops}
    exchange = load("gen:unet?depth=1&train=1&copies=a+b&exchange=100")
    assert [op.work for op in exchange.ops if op.kind == "Exchange"] == [(Work(nbytes=100),)] * 2
    plain = load("gen:chain?n=4&train=1&copies=a+b&exchange=100&compress.activation=2")
    assert not plain.states_work


def test_a_block_does_the_work_of_the_mode_of_its_ops() -> None:
    spec = "gen:unet?depth=1&train=1"
    assert total(in_blocks(in_a_mode(spec), 3)) == total(load(spec))


def test_durations_of_a_socket_and_of_updates_on_a_host_are_no_work_of_a_device() -> None:
    assert not load("gen:unet?depth=1&train=1&node=optane").states_work
    assert not on_optane(in_a_mode("gen:unet?depth=1&train=1")).states_work
    zero = load("gen:unet?depth=1&train=1&node=zero-delayed")
    assert {op.kind for op in zero.ops if not op.work} == {"Update", "Change"}
    assert {op.all_modes[0].processors for op in zero.ops if not op.work} == {("cpu",)}
    again = on_zero(in_a_mode("gen:unet?depth=1&train=1"))
    assert {op.modes[0].processors for op in again.ops if not op.all_work} == {("cpu",)}


def test_each_algorithm_of_a_convolution_states_its_own_work() -> None:
    pytest.importorskip("onnx")
    graph = load("onnx:squeezenet?conv=modes")
    several = [op for op in graph.ops if op.modes]
    assert several
    for op in graph.ops:
        for item in op.modes or (op,):
            (work,) = item.work
            assert item.duration_ns == duration_ns(work.nbytes, work.multiply_adds)
    for op in several:
        bytes_of = [mode.work[0].nbytes - 2 * mode.workspace for mode in op.modes]
        assert {*bytes_of} == {op.work[0].nbytes}
    both = load("onnx:squeezenet?conv=modes&copies=a+b")
    assert [[m.work for m in op.modes] for op in both.ops if len(op.modes) > 1][::2] == [
        [m.work for m in op.modes] for op in several
    ]
