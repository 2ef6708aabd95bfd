"""Readers on files that writers of the tests make, or those of other packages: nothing is lost or swapped."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.instances import load_buffers
from tests.effort import many


class Task(NamedTuple):
    """An op: its tensor's bytes, its time in ns, its workspace, and the tasks whose tensors it reads."""

    nbytes: int
    time: int
    workspace: int
    before: tuple[int, ...]


@st.composite
def tasks(draw: Any) -> list[Task]:
    count = draw(st.integers(1, 7))
    found = []
    for k in range(count):
        before = draw(st.sets(st.integers(0, k - 1), max_size=3)) if k else set()
        sizes = (draw(st.integers(0, 10**6)), draw(st.integers(1, 10**9)), draw(st.integers(0, 99)))
        found.append(Task(*sizes, tuple(sorted(before))))
    return found


Facts = dict[str, tuple[int, int, list[int], list[str]]]


def facts(graph: lt.Graph) -> Facts:
    """Return by op: time, workspace, bytes that it writes, and names of the ops that write what it reads."""
    writer = {t: op.name for op in graph.ops for t in op.writes}
    return {
        op.name: (
            op.duration_ns,
            op.workspace,
            [graph.tensors[t].nbytes for t in op.writes],
            sorted({writer[t] for t in op.reads if t in writer}),
        )
        for op in graph.ops
    }


def expected(given: list[Task], name: str = "n{}") -> Facts:
    return {
        name.format(k): (t.time, t.workspace, [t.nbytes], sorted(name.format(j) for j in t.before))
        for k, t in enumerate(given)
    }


def attributes(task: Task) -> dict[str, int]:
    return {"nbytes": task.nbytes, "duration_ns": task.time, "workspace": task.workspace}


def native(given: list[Task], path: Path) -> str:
    read = {j for t in given for j in t.before}
    data = {
        "format": "lowtide/graph",
        "version": 1,
        "name": "g",
        "tensors": [
            {"name": f"t{k}", "nbytes": t.nbytes, "final": k not in read} for k, t in enumerate(given)
        ],
        "ops": [
            {
                "name": f"n{k}",
                "duration_ns": t.time,
                "workspace": t.workspace,
                "reads": list(t.before),
                "writes": [k],
            }
            for k, t in enumerate(given)
        ],
    }
    path.write_text(json.dumps(data))
    return f"native:{path}"


def graphml(given: list[Task], path: Path) -> str:
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    for k, t in enumerate(given):
        graph.add_node(f"n{k}", **attributes(t))
        graph.add_edges_from((f"n{j}", f"n{k}") for j in t.before)
    nx.write_graphml(graph, path)
    return f"graphml:{path}"


def dot(given: list[Task], path: Path) -> str:
    import pydot

    graph = pydot.Dot(graph_type="digraph")
    for k, t in enumerate(given):
        graph.add_node(pydot.Node(f"n{k}", **attributes(t)))
    for k, t in enumerate(given):
        for j in t.before:
            graph.add_edge(pydot.Edge(f"n{j}", f"n{k}"))
    path.write_text(graph.to_string())
    return f"dot:{path}"


def workflow(given: list[Task], path: Path) -> str:
    data = {
        "name": "w",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {
                "tasks": [
                    {
                        "name": "x",
                        "id": f"n{k}",
                        "parents": [],
                        "children": [],
                        "inputFiles": [f"f{j}" for j in t.before],
                        "outputFiles": [f"f{k}"],
                    }
                    for k, t in reversed(list(enumerate(given)))
                ],
                "files": [{"id": f"f{k}", "sizeInBytes": t.nbytes} for k, t in enumerate(given)],
            },
            "execution": {
                "tasks": [
                    {"id": f"n{k}", "runtimeInSeconds": t.time / 1e9, "memoryInBytes": t.workspace}
                    for k, t in enumerate(given)
                ]
            },
        },
    }
    path.write_text(json.dumps(data))
    return f"wfcommons:{path}"


@pytest.mark.parametrize("write", [native, graphml, dot, workflow])
@given(given=tasks())
@many(60)
def test_graphs_of_other_writers(
    tmp_path_factory: pytest.TempPathFactory, write: Callable[[list[Task], Path], str], given: list[Task]
) -> None:
    path = tmp_path_factory.mktemp("graph") / "file"
    assert facts(lt.load(write(given, path))) == expected(given)


@given(given=tasks())
@many(60)
def test_task_graphs_of_the_standard_set(tmp_path_factory: pytest.TempPathFactory, given: list[Task]) -> None:
    path = tmp_path_factory.mktemp("graph") / "x.stg"
    lines = [f"{k} {t.time} {len(t.before)} {' '.join(map(str, t.before))}" for k, t in enumerate(given)]
    path.write_text("\n".join([f"{len(given)}", *lines, "# the end", "9 9"]))
    found = {name: (time, before) for name, (time, _, _, before) in facts(lt.load(path)).items()}
    assert found == {
        f"task {k}": (t.time, sorted(f"task {j}" for j in t.before)) for k, t in enumerate(given)
    }


@given(given=tasks())
@many(60)
def test_trees(tmp_path_factory: pytest.TempPathFactory, given: list[Task]) -> None:
    path = tmp_path_factory.mktemp("graph") / "x.tree"
    parent = [max(t.before, default=0) + 1 if k else 0 for k, t in enumerate(given)]
    rows = [
        f"{k} {up} {t.workspace} {t.time} {t.nbytes}"
        for k, (up, t) in enumerate(zip(parent, given, strict=True), 1)
    ]
    path.write_text("\n".join(rows[::-1]))
    children = {up: [f"node {k}" for k, x in enumerate(parent, 1) if x == up] for up in range(len(given) + 1)}
    assert facts(lt.load(f"{path}?unit_ns=1")) == {
        f"node {k + 1}": (t.time, t.workspace, [t.nbytes], sorted(children[k + 1]))
        for k, t in enumerate(given)
    }


@given(given=tasks())
@many(60)
def test_layers_of_piper(tmp_path_factory: pytest.TempPathFactory, given: list[Task]) -> None:
    path = tmp_path_factory.mktemp("graph") / "x.json"
    readers = {k: [j for j, t in enumerate(given) if k in t.before] for k in range(len(given))}
    nodes = [
        {
            "id": 10 + k,
            "name": "n",
            "TMPCs": {
                "4": [
                    {
                        "id": "vanilla",
                        "timePerSample": t.time / 1e6,
                        "parameterSize": t.workspace,
                        "memoryUsageA": 1,
                        "memoryUsageB": 2,
                        "syncTimeFw": {str(10 + j): j for j in t.before},
                        "syncTimeBw": {str(10 + j): 100 + j for j in readers[k]},
                    }
                ]
            },
        }
        for k, t in enumerate(given)
    ]
    edges = [
        {"sourceId": 10 + j, "destId": 10 + k, "communicationCost": given[j].nbytes}
        for k, t in enumerate(given)
        for j in t.before
    ]
    head = {"maxDevices": 4, "maxMemoryPerDevice": 9, "bandwidth": 3, "mbsInBatch": 2, "timeUnit": "ms"}
    path.write_text(json.dumps({**head, "nodes": nodes[::-1], "edges": edges[::-1]}))
    graph = lt.load(f"piper:{path}")
    found = facts(graph)
    needs = graph.provenance["hybrid"]["needs"]
    for op, (need,) in zip(graph.ops, needs, strict=True):
        k = int(op.name.removeprefix("n ")) - 10
        assert op.modes[0].processors == ("t4",)
        assert op.modes[0].duration_ns == given[k].time
        assert found[op.name][2] == [given[k].nbytes] * len(readers[k])
        assert found[op.name][3] == sorted(f"n {10 + j}" for j in given[k].before)
        assert (need["weights"], need["each"], need["once"]) == (given[k].workspace, 1, 2)
        sync = sorted([*filter(None, given[k].before), *(100 + j for j in readers[k])])
        assert sorted(nbytes for _, nbytes in need["sync"]) == sync


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 50), st.integers(1, 50), st.integers(0, 10**9), st.none() | st.integers(0, 99)
        ),
        min_size=1,
        max_size=6,
    ),
    newline=st.sampled_from(["\n", "\r\n"]),
)
@many(60)
def test_buffers_of_the_csv_package(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int | None]], newline: str
) -> None:
    path = tmp_path_factory.mktemp("buffers") / "x.csv"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=newline, quoting=csv.QUOTE_ALL)
    writer.writerow(["size", "id", "upper", "lower", "offset"])
    for k, (lower, length, size, offset) in enumerate(rows):
        writer.writerow([size, f'b "{k}", x', lower + length, lower, "" if offset is None else offset])
    path.write_bytes(text.getvalue().encode())
    found = [(b.id, b.lower, b.upper, b.size, b.offset) for b in load_buffers(path).buffers]
    assert found == [(f'b "{k}", x', a, a + n, size, at) for k, (a, n, size, at) in enumerate(rows)]
