"""In-tree files: both orders of lines, comments, units, faults with their place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lowtide as lt

ROWS = ("1 0 12 0.01 9", "2 1 13 0.5 8", "3 1 14 0.0000004 7", "4 2 15 1e-3 6", "5 2 16 2 0")


def write(folder: Path, *rows: str) -> Path:
    path = folder / "small.tree.nf"
    path.write_text("\n".join(rows))
    return path


def node(graph: lt.Graph, name: str) -> lt.Op:
    return next(op for op in graph.ops if op.name == name)


def test_five_nodes_by_hand(tmp_path: Path) -> None:
    graph = lt.load(write(tmp_path, "# id parent exec time out", *ROWS, "% the end"))
    assert [op.name for op in graph.ops] == ["node 4", "node 5", "node 2", "node 3", "node 1"]
    assert [(op.workspace, op.duration_ns, op.reads, op.writes) for op in graph.ops] == [
        (15, 1000, (), (0,)),
        (16, 2_000_000, (), (1,)),
        (13, 500_000, (0, 1), (2,)),
        (14, 1, (), (3,)),
        (12, 10_000, (2, 3), (4,)),
    ]
    assert [(t.nbytes, t.kind, t.final) for t in graph.tensors] == [
        *((n, "activation", False) for n in (6, 0, 8, 7)),
        (9, "output", True),
    ]


def test_rows_in_any_order_and_units(tmp_path: Path) -> None:
    graph = lt.load(write(tmp_path, *ROWS))
    down = lt.load(write(tmp_path, *ROWS[::-1]))
    assert {op.name: (op.workspace, op.duration_ns) for op in graph.ops} == {
        op.name: (op.workspace, op.duration_ns) for op in down.ops
    }
    assert [op.name for op in down.ops] == ["node 3", "node 5", "node 4", "node 2", "node 1"]
    tree = write(tmp_path, *ROWS).rename(tmp_path / "small.tree")
    wide = lt.load(f"{tree}?unit_bytes=8&unit_ns=1000")
    assert wide == lt.load(f"tree:{tree}?unit_bytes=8&unit_ns=1000")
    assert (node(wide, "node 2").workspace, node(wide, "node 2").duration_ns) == (104, 500)
    assert sum(t.nbytes for t in wide.tensors) == 8 * sum(t.nbytes for t in graph.tensors)


@pytest.mark.parametrize(("time", "duration"), [("0", 1), ("2.4e-6", 2), ("2.5e-6", 3), ("3", 3_000_000)])
def test_times_are_rounded_half_up(time: str, duration: int, tmp_path: Path) -> None:
    assert lt.load(write(tmp_path, f"1 0 0 {time} 0")).ops[0].duration_ns == duration


@pytest.mark.parametrize("seed", range(5))
def test_every_random_tree_comes_back(seed: int, tmp_path: Path) -> None:
    drawn = lt.load(f"gen:intree?n=200&seed={seed}")
    parent = {t: i for i, op in enumerate(drawn.ops) for t in op.reads}
    rows = [
        f"{i + 1} {parent.get(i, -1) + 1} {3 * i} {(i + 1) / 10**6:.6f} {drawn.tensors[i].nbytes}"
        for i in range(200)
    ]
    random.Random(seed).shuffle(rows)
    graph = lt.load(write(tmp_path, *rows))
    number = {op.name: i for i, op in enumerate(graph.ops)}
    for i, op in enumerate(drawn.ops):
        same = node(graph, f"node {i + 1}")
        assert set(same.reads) == {number[f"node {t + 1}"] for t in op.reads}
        assert (same.workspace, same.duration_ns) == (3 * i, i + 1)
        assert graph.tensors[same.writes[0]].nbytes == drawn.tensors[i].nbytes
    sizes = [1] * 200
    for i, op in enumerate(graph.ops):
        sizes[i] += sum(sizes[t] for t in op.reads)
        assert all(i - sizes[i] < t < i for t in op.reads), "a subtree is not in one piece"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((), "small.tree.nf: found no node"),
        (("1 0 2 3",), 'small.tree.nf:1: found "1 0 2 3", expected ID PARENT EXEC TIME OUT'),
        (("1 0 2.5 3 4",), 'small.tree.nf:1, exec: found "2.5", expected an integer >= 0'),
        (("1 0 2 -3 4",), 'small.tree.nf:1, time: found "-3", expected a number >= 0'),
        (("1 0 2 nan 4",), "time: found"),
        (("0 1 2 3 4",), "small.tree.nf:1, id: found 0"),
        (("1 0 2 3 4", "1 0 2 3 4"), "small.tree.nf:2: found node 1 as in line 1"),
        (("1 0 2 3 4", "2 7 2 3 4"), "small.tree.nf:2, parent: found 7"),
        (("1 0 2 3 4", "2 0 2 3 4"), "found 2 roots (nodes 1, 2), expected one"),
        (("1 2 2 3 4", "2 1 2 3 4"), "found 0 roots, expected one"),
        (("1 0 2 3 4", "2 3 2 3 4", "3 2 2 3 4"), "small.tree.nf:2: found node 2 on a cycle"),
    ],
)
def test_faults_have_their_place(rows: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(lt.InstanceError) as caught:
        lt.load(write(tmp_path, *rows))
    assert message in str(caught.value)


def test_sums_stay_exact(tmp_path: Path) -> None:
    with pytest.raises(lt.InstanceError, match=r"small\.tree\.nf: nbytes: found the sum"):
        lt.load(f"{write(tmp_path, '1 0 0 3 999999999999999')}?unit_bytes=10000")


@pytest.mark.parametrize("seed", range(3))
def test_a_character_changed_anywhere_is_read_or_refused(seed: int, tmp_path: Path) -> None:
    rng, text = random.Random(seed), "\n".join(ROWS)
    for _ in range(150):
        at = rng.randrange(len(text))
        changed = text[:at] + rng.choice(["", "0", "7", "-", ".", "#", " ", "\n", "e", "²"]) + text[at + 1 :]
        path = write(tmp_path, changed)
        try:
            graph = lt.load(path)
        except lt.InstanceError as error:
            message = str(error)
        else:
            message = "expected"
            assert 1 <= len(graph.ops) <= 5
        assert "expected" in message
