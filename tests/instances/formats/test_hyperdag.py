"""HyperDAG files: by hand, files of OneStopParallel, and random graphs by a writer of the test's own."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import lowtide as lt
from tests.effort import chosen

DATA = Path(__file__).parents[2] / "data" / "hyperdag"
SMALL = """\
%% by hand
2 4 5
% hyperedges
1 7 3
0 5 2
3 0 0
0 6 1
2 4 0
1 0 1
1 2
1 3
0 0
0 2
0 1
"""
"""Vertex 2 makes hyperedge 1 (memory 3) for 3; vertex 0 makes hyperedge 0 (memory 2) for 2 and 1."""


def read(folder: Path, text: str, **options: object) -> lt.Graph:
    path = folder / "x.hdag"
    path.write_text(text)
    return lt.load(path, **options)


def test_a_file_by_hand(tmp_path: Path) -> None:
    graph = read(tmp_path, SMALL)
    assert [op.name for op in graph.ops] == ["vertex 0", "vertex 1", "vertex 2", "vertex 3"]
    assert [(op.reads, op.writes, op.duration_ns, op.kind) for op in graph.ops] == [
        ((), (0,), 6, "type 1"),
        ((0,), (), 1, "type 1"),
        ((0,), (1,), 4, "type 0"),
        ((1,), (), 1, "type 0"),
    ]
    assert [t.nbytes for t in graph.tensors] == [2, 3]
    assert lt.verify(graph, range(4)).peaks == {"memory": 5}
    other = read(tmp_path, SMALL, weight="communication", unit_bytes=10, unit_ns=100)
    assert [t.nbytes for t in other.tensors] == [50, 70]
    assert [op.duration_ns for op in other.ops] == [600, 1, 400, 1]


def test_the_layout_without_hyperedges(tmp_path: Path) -> None:
    graph = read(tmp_path, "%% HyperDAG_DB\n1 3 3\n0 1\n0 0\n0 2\n0 5 9\n1 6 8\n2 4 7\n")
    assert [(op.name, op.reads, op.writes, op.duration_ns) for op in graph.ops] == [
        ("vertex 1", (), (0,), 6),
        ("vertex 0", (0,), (), 5),
        ("vertex 2", (0,), (), 4),
    ]
    assert [t.nbytes for t in graph.tensors] == [8]


@pytest.mark.parametrize("path", sorted(DATA.glob("*.hdag")), ids=lambda path: path.stem)
def test_files_of_one_stop_parallel(path: Path) -> None:
    lines = [line.split() for line in path.read_text().splitlines() if line[0] != "%"]
    edges, vertices, pins = map(int, lines[0])
    graph = lt.load(path)
    assert (len(graph.tensors), len(graph.ops)) == (edges, vertices)
    assert sum(len(op.reads) + len(op.writes) for op in graph.ops) == pins
    assert sum(op.duration_ns for op in graph.ops) == sum(
        int(line[1]) for line in lines[1 + edges : 1 + edges + vertices]
    )
    makers = {t: op.name for op in graph.ops for t in op.writes}
    first = dict(reversed([(int(e), v) for e, v in lines[-pins:]]))
    assert makers == {e: f"vertex {v}" for e, v in first.items()}
    assert lt.solve(lt.Peak(graph), "greedy").objective is not None


def text_of(graph: lt.Graph, rng: Random) -> tuple[str, str]:
    """Return the file of a graph in both layouts, its lines shuffled where order means nothing."""
    edges = [f"{t} 1 {tensor.nbytes}" for t, tensor in enumerate(graph.tensors)]
    vertices = [f"{i} {op.duration_ns} 0" for i, op in enumerate(graph.ops)]
    pins = []
    for t in range(len(graph.tensors)):
        (source,) = [i for i, op in enumerate(graph.ops) if t in op.writes]
        pins.append([f"{t} {source}", *(f"{t} {i}" for i, op in enumerate(graph.ops) if t in op.reads)])
    rng.shuffle(pins)
    old = [
        f"{i} {op.duration_ns} {graph.tensors[op.writes[0]].nbytes if op.writes else 0}"
        for i, op in enumerate(graph.ops)
    ]
    for rows in (edges, vertices, old):
        rng.shuffle(rows)
    flat = [pin for group in pins for pin in group]
    head = f"{len(edges)} {len(vertices)} {len(flat)}"
    return "\n".join([head, *edges, *vertices, *flat]), "\n".join(["% old", head, *flat, *old, "%"])


def test_random_graphs_come_back(tmp_path: Path) -> None:
    for seed in chosen(range(100), least=20):
        whole = lt.load("gen:layered", seed=seed)
        for text in text_of(whole, Random(seed)):
            graph = read(tmp_path, text)
            names = [f"vertex {i}" for i in range(len(whole.ops))]
            assert sorted(op.name for op in graph.ops) == sorted(names)
            mine = {op.name: op for op in graph.ops}
            for name, op in zip(names, whole.ops, strict=True):
                assert (mine[name].reads, mine[name].writes) == (tuple(sorted(op.reads)), op.writes)
                assert mine[name].duration_ns == op.duration_ns
            assert [t.nbytes for t in graph.tensors] == [t.nbytes for t in whole.tensors]
            assert lt.verify(graph, names).peaks == lt.verify(whole, range(len(whole.ops))).peaks


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (SMALL, "% nothing\n", "x.hdag: found no line"),
        ("2 4 5", "2 4", 'x.hdag:2: found "2 4", expected the numbers of hyperedges'),
        ("2 4 5", "0 4 5", "each >= 1"),
        ("2 4 5", "2 4 6", "found 11 lines after the first, expected 12 .* or 10 without"),
        ("2 4 5", "2 4 999999999999999", "found 11 lines"),
        (
            "1 7 3",
            "1 7",
            'x.hdag:4: found "1 7", expected hyperedge, communication and memory weight, each id below 2',
        ),
        ("1 7 3", "2 7 3", "each id below 2 once"),
        ("1 7 3", "0 7 3", "each id below 2 once"),
        ("1 7 3", "1 7 -3", 'found "-3", expected an integer >= 0'),
        ("1 7 3", "1 7 1e3", 'found "1e3", expected an integer'),
        ("1 7 3", "1 7 9999999999999999999", "expected an integer"),
        ("3 0 0", "4 0 0", "each id below 4 once"),
        (
            "0 2\n0 1\n",
            "0 2\n0 2\n",
            'x.hdag:14: found "0 2", expected a hyperedge below 2 and a vertex below 4, each pair once',
        ),
        ("0 2\n0 1\n", "0 2\n2 1\n", "a hyperedge below 2"),
        ("0 2\n0 1\n", "0 2\n0 4\n", "a vertex below 4"),
        (SMALL, "2 2 1\n0 1 1\n1 1 1\n0 1 0\n1 1 0\n0 0\n", "hyperedge 1: found no pin"),
        ("0 2\n0 1\n", "0 2\n1 0\n", "found the cycle vertex 0 -> vertex 2 -> vertex 0"),
        ("1 7 3", "1 7 999999999999999\n% x", None),
    ],
)
def test_what_is_not_the_format_is_refused(old: str, new: str, message: str | None, tmp_path: Path) -> None:
    assert old in SMALL
    text = SMALL.replace(old, new)
    if message is None:
        read(tmp_path, text)
        return
    with pytest.raises(lt.InstanceError, match=message):
        read(tmp_path, text)


def test_sums_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(lt.InstanceError, match=r"x\.hdag: "):
        read(tmp_path, SMALL.replace("1 7 3", "1 7 999999999999999"), unit_bytes=10**6)
