"""DOT and GraphML: lossless for full graphs; plain DAGs by stated conventions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.instances import from_networkx, load, load_machine, save, to_networkx
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Graph, Op, Tensor
from lowtide.models.work import Work
from tests.effort import many
from tests.strategies import graphs, random_graph, with_work

ENDINGS = (".dot", ".gv", ".graphml", ".graphml.gz")
MANY = many(25)


def survives(graph: Graph, path: Path) -> None:
    save(graph, path)
    back = load(path)
    assert (back.tensors, back.name, back.accounting) == (graph.tensors, graph.name, graph.accounting)
    assert back == graph
    assert back.provenance == graph.provenance
    assert [(op.all_work, op.work) for op in back.ops] == [(op.all_work, op.work) for op in graph.ops]
    first = path.read_bytes()
    save(back, path)
    assert path.read_bytes() == first


@pytest.mark.slow
@MANY
@given(graph=graphs(), seed=st.integers(0, 10**6))
def test_round_trip(graph: Graph, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("round")
    with_modes = random_graph(Random(seed), mode_tiers=("hbm", "dram"), mode_kinds=("gpu",))
    options: dict[str, Any] = {"mode_tiers": ("hbm", "dram"), "mode_kinds": ("gpu",)}
    worked = with_work(Random(seed), every=True, **options)
    for k, g in enumerate((graph, with_modes, worked)):
        for ending in ENDINGS:
            survives(g, folder / f"g{k}{ending}")
        back = from_networkx(to_networkx(g))
        assert back == g
        assert [op.all_work for op in back.ops] == [op.all_work for op in g.ops]


@MANY
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_in_dot(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    tensors = (Tensor(name=text, nbytes=1),)
    ops = (Op(name=text, kind=text, writes=(0,)),)
    graph = Graph(name=text, tensors=tensors, ops=ops, provenance={"a": text})
    survives(graph, tmp_path_factory.mktemp("text") / "g.dot")


@MANY
@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")))
def test_any_text_of_xml_survives_in_graphml(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    graph = Graph(name=text, tensors=(), ops=(Op(name=text, kind=text),), provenance={"a": text})
    survives(graph, tmp_path_factory.mktemp("text") / "g.graphml")


def test_text_that_xml_cannot_hold_is_refused(tmp_path: Path) -> None:
    graph = Graph(name="g", tensors=(), ops=(Op(name="a\x01"),))
    with pytest.raises(InstanceError, match=r"label: found .* expected text that XML can hold"):
        save(graph, tmp_path / "g.graphml")
    assert not list(tmp_path.iterdir())


def dag(nodes: Mapping[str, Any], edges: list[tuple[Any, ...]]) -> nx.DiGraph[str]:
    result: nx.DiGraph[str] = nx.DiGraph()
    result.add_nodes_from(nodes.items())
    result.add_edges_from(edges)
    return result


@pytest.mark.parametrize("size", ["nbytes", "memory", "mem", "size", "weight", "Memory"])
def test_size_on_nodes_is_one_tensor_for_all_successors(size: str) -> None:
    nodes = {"a": {size: 5, "time": 7}, "b": {size: "3"}, "c": {size: 2.0, "workspace": 1}}
    graph = from_networkx(dag(nodes, [("a", "b"), ("a", "c")]), name="fork")
    assert graph.name == "fork"
    assert graph.tensors == (
        Tensor(name="a", nbytes=5),
        Tensor(name="b", nbytes=3, kind="output", final=True),
        Tensor(name="c", nbytes=2, kind="output", final=True),
    )
    assert graph.ops == (
        Op(name="a", duration_ns=7, writes=(0,)),
        Op(name="b", reads=(0,), writes=(1,)),
        Op(name="c", reads=(0,), writes=(2,), workspace=1),
    )


def test_size_on_edges_is_one_tensor_for_each() -> None:
    graph = from_networkx(
        dag({}, [("a", "b", {"size": 4}), ("a", "c", {"size": 6}), ("b", "c", {"size": 1})])
    )
    assert [(t.name, t.nbytes) for t in graph.tensors] == [("a->b", 4), ("a->c", 6), ("b->c", 1)]
    assert [(op.reads, op.writes) for op in graph.ops] == [((), (0, 1)), ((0,), (2,)), ((1, 2), ())]


def test_sizes_on_both_and_control_edges() -> None:
    nodes = {"a": {"nbytes": 5}, "b": {}, "c": {"nbytes": 1, "final": "false"}}
    graph = from_networkx(dag(nodes, [("a", "b"), ("a", "c", {"nbytes": 9}), ("b", "c")]))
    assert [(t.name, t.nbytes, t.final) for t in graph.tensors] == [
        ("a", 5, False),
        ("c", 1, False),
        ("a->c", 9, False),
    ]
    assert [(op.reads, op.writes, op.after) for op in graph.ops] == [
        ((), (0, 2), ()),
        ((0,), (), ()),
        ((2,), (1,), (1,)),
    ]


def test_the_reference_order_takes_the_first_listed_ready_node() -> None:
    nodes = {name: {"nbytes": 1} for name in "dcba"}
    assert [op.name for op in from_networkx(dag(nodes, [("a", "d"), ("b", "d")])).ops] == list("cbad")


def test_nodes_state_work_whose_durations_are_given_or_a_machines(tmp_path: Path) -> None:
    work = [{"nbytes": 10**6, "multiply_adds": 10**9, "dtype": "bf16"}]
    nodes = {"a": {"size": 5, "time": 7, "work": work}, "b": {"size": 3, "work": json.dumps(work)}}
    source = dag(nodes, [("a", "b")])
    graph = from_networkx(source)
    assert graph.ops[0].work == graph.ops[1].work == (Work(nbytes=10**6, multiply_adds=10**9, dtype="bf16"),)
    assert (graph.durations, graph.ops[0].duration_ns) == ("given", 7)
    source.nodes["a"]["work"] = json.dumps(work)
    nx.write_graphml(source, tmp_path / "g.graphml")
    timed = load(tmp_path / "g.graphml", durations="h100-80g")
    rates = load_machine("h100-80g").compute
    assert rates is not None
    assert [op.duration_ns for op in timed.ops] == [rates.duration_ns(op.work) for op in graph.ops]
    assert timed.durations == "roofline of h100-80g, bf16"


def test_zero_time_dummies_vanish_into_after() -> None:
    nodes = {"s": {"time": 0}, "a": {"size": 1}, "j": {"time": 0}, "k": {"time": "0"}, "b": {"size": 2}}
    graph = from_networkx(dag(nodes, [("s", "a"), ("a", "j"), ("j", "k"), ("k", "b")]))
    assert [(op.name, op.reads, op.after) for op in graph.ops] == [("a", (), ()), ("b", (), (0,))]


def test_parallel_edges_are_tensors_of_their_own() -> None:
    source: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    source.add_edge("a", "b", nbytes=1)
    source.add_edge("a", "b", nbytes=2)
    assert [t.nbytes for t in from_networkx(source).tensors] == [1, 2]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (dag({"a": {"size": 1}}, [("a", "b"), ("b", "c"), ("c", "b")]), "the cycle b -> c -> b"),
        (dag({"a": {"size": 1}}, [("a", "a")]), "found the cycle a -> a, expected an acyclic graph"),
        (dag({}, [("a", "b")]), "found no size on any node or edge, expected an attribute nbytes"),
        (dag({"a": {"size": 1.5}}, []), "node 'a', size: found 1.5, expected an integer >= 0"),
        (dag({"a": {"size": -1}}, []), "node 'a', size: found -1, expected an integer >= 0"),
        (dag({"a": {"size": "big"}}, []), "node 'a', size: found \"big\""),
        (dag({"a": {"size": True}}, []), "node 'a', size: found true"),
        (dag({"a": {"size": 1, "time": 0}}, []), "duration: found 0 on a node with data"),
        (dag({"a": {"size": 1, "time": -2}}, []), "node 'a', time: found -2"),
        (dag({"a": {"size": 1, "work": "["}}, []), "node 'a', work, line 1, column 2: found"),
        (dag({"a": {"size": 1, "work": 3}}, []), "node 'a', work: found 3, expected a list of work"),
        (dag({"a": {"size": 1, "work": '[{"nbytes": "x"}]'}}, []), "node 'a', work 0, nbytes: found \"x\""),
        (dag({}, [("a", "b", {"data": "x"})]), "edge 'a' -> 'b', data: found \"x\""),
        (dag({"a": {"size": 2**62}}, []), "nbytes: found the sum"),
        (nx.Graph([("a", "b")]), "found an undirected graph, expected a directed one"),
    ],
)
def test_bad_plain_dag_is_one_line(source: nx.Graph[Any], found: str) -> None:
    with pytest.raises(InstanceError) as error:
        from_networkx(source, where="here")
    assert str(error.value).startswith("here: ")
    assert found in str(error.value)
    assert "\n" not in str(error.value)


def broken(change: Any) -> nx.DiGraph[str]:
    source = to_networkx(load("catalogue:diamond"))
    change(source)
    return source


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda s: s.remove_node("op1"), "found no node op1, expected one"),
        (lambda s: s.add_node("weird"), "found node 'weird', expected opNUMBER or tensorNUMBER"),
        (lambda s: s.add_edge("tensor0", "tensor1", position=0), "found edge tensor0 -> tensor1"),
        (lambda s: s.add_edge("op0", "op1"), "found edge op0 -> op1 with position null"),
        (lambda s: s.nodes["tensor0"].pop("nbytes"), "tensor 0 's', found no key 'nbytes'"),
        (lambda s: s.nodes["tensor0"].update(nbytes="x"), "tensor 0 's', nbytes: found \"x\""),
        (lambda s: s.nodes["op0"].update(modes="["), "node op0, modes, line 1, column 2: found"),
        (lambda s: s.nodes["op0"].update(work="[3]"), "op 0 'source', work 0"),
        (lambda s: s.graph.update(version=3), "version: found 3, expected 1"),
        (lambda s: s.graph.update(format="x"), 'format: found "x"'),
        (lambda s: s.add_edge("op3", "op0", position=0), "after: found the cycle op 0 'source'"),
    ],
)
def test_bad_full_graph_is_one_line(change: Any, found: str) -> None:
    with pytest.raises(InstanceError) as error:
        from_networkx(broken(change), where="here")
    assert str(error.value).startswith("here")
    assert found in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("g.graphml", b"", "no element found"),
        ("g.graphml", b"<a", "expected GraphML"),
        ("g.graphml", b"<a/>", "expected GraphML"),
        ("g.graphml", b'{"format": 1}', "expected GraphML"),
        ("g.graphml.gz", b"abc", "expected a gzip file"),
        ("g.dot", b"\xff", "offset 0 that is no UTF-8"),
        ("g.dot", b"digraph {\n a -> ; }", 'line 2, column 7: found ";", expected a name'),
        ("g.dot", b"digraph { a -> b -> a [nbytes=1] }", "found the cycle a -> b -> a"),
    ],
)
def test_bad_file_is_one_line(name: str, content: bytes, found: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InstanceError) as error:
        load(tmp_path / name)
    assert str(error.value).startswith(str(tmp_path / name))
    assert found in str(error.value)
    assert "\n" not in str(error.value)


def test_a_dot_file_as_researchers_write_it(tmp_path: Path) -> None:
    path = tmp_path / "workflow.dot"
    path.write_text(
        """digraph workflow {
            node [shape=box];            // for the picture
            read  [label="read input", memory=100, duration=5];
            split [memory=60, duration=2];
            read -> split;
            subgraph cluster_0 { node [memory=30]; left; right }
            split -> {left right} -> merge;
            merge [memory=10, op=Concat];
        }"""
    )
    graph = load(path)
    assert graph.name == "workflow"
    assert [op.name for op in graph.ops] == ["read input", "split", "left", "right", "merge"]
    assert [t.nbytes for t in graph.tensors] == [100, 60, 30, 30, 10]
    assert graph.ops[4].reads == (2, 3)
    assert graph.ops[4].kind == "Concat"
