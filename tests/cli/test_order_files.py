"""Orders of users in text files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide import Graph, Op, Plan, save
from lowtide.cli.sources import read_order
from lowtide.cli.verify import order_faults
from lowtide.models.derived.precedence import check_order
from lowtide.models.errors import InstanceError

GRAPH = Graph(
    name="g",
    tensors=(),
    ops=tuple(Op(name=name) for name in ("a", "b c", "#d", "twin", "twin", "2")),
)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("0 1 2", [0, 1, 2]),
        ("a\nb c\n#d is a comment\n3\n", [0, 1, 3]),
        ("# all of it\n\n  5   4\t3 # backwards\n2", [5, 4, 3, 2]),
        ("2", [2]),
        ("", []),
        ("a 0", [0, 0]),
    ],
)
def test_words_are_indices_or_names(tmp_path: Path, text: str, order: list[int]) -> None:
    (tmp_path / "order.txt").write_text(text)
    assert read_order(str(tmp_path / "order.txt"), GRAPH) == order


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0\n9", r"order\.txt:2: found op 9, expected an index in \[0, 6\)"),
        (b"twin", r"the name of 2 ops, expected an index \(3, 4\)"),
        (b"tvin", "found unknown op 'tvin', did you mean 'twin'?"),
        (b"-1", "found op -1, expected an index"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_other_words_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "order.txt").write_bytes(content)
    with pytest.raises(InstanceError, match=message):
        read_order(str(tmp_path / "order.txt"), GRAPH)


@pytest.mark.parametrize("name", ["plan.json", "plan.json.gz"])
def test_the_order_of_a_plan_is_that_of_its_starts(tmp_path: Path, name: str) -> None:
    path, order = tmp_path / name, [5, 0, 2, 1, 4, 3]
    save(Plan.from_order(GRAPH, order), path)
    assert read_order(str(path), GRAPH) == order
    with pytest.raises(InstanceError, match="found a plan for 'g', expected one for 'other'"):
        read_order(str(path), Graph(name="other", tensors=(), ops=GRAPH.ops[:5]))


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 2, 1], [2, 0, 1], [0, 1], [0, 0, 1, 2], []])
def test_faults_are_found_iff_the_order_is_invalid(order: list[int]) -> None:
    graph = Graph(name="g", tensors=(), ops=(Op(name="a"), Op(name="b"), Op(name="c", after=(0,))))
    try:
        check_order(graph, order)
    except InstanceError:
        assert order_faults(graph, order)
    else:
        assert order_faults(graph, order) == []
