"""What is saved is what is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest

import lowtide as lt

X, Y = (lt.Buffer(id=k, lower=i, upper=i + 2, size=4) for i, k in enumerate("xy"))


def test_graphs_buffers_plans_and_answers_come_back(tmp_path: Path) -> None:
    graph = lt.load("catalogue:diamond")
    lt.save(graph, tmp_path / "graph.dot")
    assert lt.load(tmp_path / "graph.dot") == graph
    result = lt.solve(lt.Peak(graph), "greedy")
    for item, name in ((result, "result.json"), (result.plan, "plan.json.gz")):
        assert item is not None
        lt.save(item, tmp_path / name)
        assert lt.load_plan(tmp_path / name) == (result.plan, graph)
    buffers = lt.Buffers(buffers=(X, Y), name="two")
    for name in ("two.csv", "two.json"):
        lt.save(buffers, tmp_path / name)
        assert lt.load_buffers(tmp_path / name).sha256 == buffers.sha256
    found = lt.solve(lt.Offsets(buffers))
    lt.save(found, tmp_path / "found.csv")
    placed = lt.load_buffers(tmp_path / "found.csv")
    assert {b.id: b.offset for b in placed.buffers} == found.allocation


@pytest.mark.parametrize("name", ["g.json", "g.json.gz", "g.dot", "g.graphml"])
@pytest.mark.parametrize("share", [None, 3])
def test_shares_of_ops_and_modes_come_back(name: str, share: int | None, tmp_path: Path) -> None:
    modes = [(), (lt.Mode(share=2),), (lt.Mode(share=share),), (lt.Mode(), lt.Mode(duration_ns=2, share=3))]
    ops = tuple(lt.Op(name=f"op{k}", share=share, modes=some) for k, some in enumerate(modes))
    graph = lt.Graph(name="shares", tensors=(), ops=ops)
    lt.save(graph, tmp_path / name)
    assert lt.load(tmp_path / name) == graph


def test_what_cannot_be_saved_is_said(tmp_path: Path) -> None:
    result = lt.solve(lt.Peak(lt.load("catalogue:diamond")), "greedy")
    none = replace(result, plan=None, objective=None, status=lt.Status.UNKNOWN)
    for item, name, message in (
        (result, "x.txt", "expected one of .csv, .json, .json.gz"),
        (result.plan, "x.csv", "expected one of .json, .json.gz"),
        (result, "x.csv", "found ending .csv, expected .json"),
        (none, "x.json", "save: found a result without an answer (unknown)"),
        (3, "x.json", "save: found 3, expected a Graph, Buffers, a Plan or a Result"),
    ):
        with pytest.raises(lt.UsageError) as info:
            lt.save(item, tmp_path / name)  # type: ignore[arg-type]
        assert message in str(info.value)
    assert not list(tmp_path.iterdir())


def test_digraphs_are_loaded_as_they_are() -> None:
    dag = nx.DiGraph([("a", "b"), ("a", "c")])
    nx.set_node_attributes(dag, dict.fromkeys("abc", "4kB"), "nbytes")
    nx.set_node_attributes(dag, {"a": "2us"}, "duration")
    graph = lt.load(dag)
    assert graph == lt.from_networkx(dag)
    assert graph.source is None
    assert [t.nbytes for t in graph.tensors] == [4000] * 3
    assert [op.duration_ns for op in graph.ops] == [2000, 1, 1]
    assert len(lt.load(dag, blocks=2).ops) == 2
    assert lt.load(lt.to_networkx(graph)) == graph
    with pytest.raises(lt.InstanceError, match="found unknown option 'memory', expected none"):
        lt.load(dag, memory=1)
    nx.set_node_attributes(dag, {"a": "4 cats"}, "nbytes")
    with pytest.raises(
        lt.InstanceError, match="node 'a', nbytes: found \"4 cats\", expected an integer >= 0"
    ):
        lt.load(dag)
