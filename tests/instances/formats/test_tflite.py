"""TensorFlow Lite models: by hand, damaged ones, and files that TensorFlow wrote."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import lowtide as lt
from tests.damage import little_memory
from tests.effort import chosen
from tests.tflite_files import Repeated, encode, model, operator, tensor

TENSORS = [
    tensor("x", 2, 3),
    tensor("w", 2, buffer=1),
    tensor("a", 4, kind=9),
    tensor("", 5, kind=7),
    tensor("unused", 9),
    tensor("state", 2, variable=True),
    tensor("y", 3, kind=4),
]
OPERATORS = [
    operator(0, [0, -1, 1], [2]),
    operator(3, [0, 5], [3]),
    operator(1, [2, 3, 2], [6]),
]


def read(folder: Path, table: Any, **options: object) -> lt.Graph:
    path = folder / "x.tflite"
    path.write_bytes(table if isinstance(table, bytes) else encode(table))
    return lt.load(path, **options)


def test_a_model_by_hand(tmp_path: Path) -> None:
    graph = read(tmp_path, model(TENSORS, OPERATORS, [0], [6]))
    assert [(op.name, op.kind, op.reads, op.writes) for op in graph.ops] == [
        ("a", "builtin 19", (0, 1), (2,)),
        ("tensor 3", "own", (0, 5), (3,)),
        ("y", "builtin 55", (2, 3), (6,)),
    ]
    assert [(t.name, t.nbytes, t.kind, t.initial, t.final) for t in graph.tensors] == [
        ("x", 24, "input", True, False),
        ("w", 0, "weight", True, True),
        ("a", 4, "activation", False, False),
        ("tensor 3", 10, "activation", False, False),
        ("unused", 36, "activation", False, False),
        ("state", 0, "state", True, True),
        ("y", 24, "output", False, True),
    ]
    # x 24, a 4 and what the own operator makes, 10; then a, that and y
    assert lt.verify(graph, range(3)).peaks == {"memory": 38}
    kept = read(tmp_path, model(TENSORS, OPERATORS, [0], [6]), weights=1)
    assert [t.nbytes for t in kept.tensors] == [24, 8, 4, 10, 36, 8, 24]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (b"", 'found "" in bytes 4 to 8, expected TFL3'),
        (b"\0\0\0\0TFL2", "expected TFL3"),
        (b"\0\0\0\0TFL3", "found 0 subgraphs"),
        (b"\xff\xff\xff\xffTFL3", "found a reference to byte"),
        (model(TENSORS, OPERATORS, [0], [6], _2=[]), "found 0 subgraphs, expected one, without control flow"),
        (model(TENSORS, OPERATORS, [0], [6], _2=[{}, {}]), "found 2 subgraphs"),
        (model(TENSORS, OPERATORS, [0], [7]), "subgraph: found tensor 7, expected one of 7, or -1"),
        (model(TENSORS, OPERATORS, [-2], [6]), "found tensor -2"),
        (model(TENSORS, [operator(4, [0], [2])], [0], [2]), "operator 0: found code 4, expected one of 4"),
        (model(TENSORS, [operator(0, [9], [2])], [0], [2]), "operator 0: found tensor 9"),
        (model(TENSORS, OPERATORS[2:], [0], [6]), r"x\.tflite: op 0 'y', reads: found tensor 2 'a' before"),
        (
            model([tensor("x", -1)], [], [0], []),
            r"tensor 0 'x': found shape \[-1\], expected at most 16 sizes",
        ),
        (model([tensor("x", *[1] * 17)], [], [0], []), "expected at most 16 sizes"),
        (model([tensor("x", *[2**31 - 1] * 3)], [], [0], []), r"nbytes"),
        (model([tensor("x", 1, kind=5)], [], [0], []), "found type 5, expected one of whole bytes"),
        (model([tensor("x", 1, buffer=2)], [], [0], []), "found buffer 2, expected one of 2"),
    ],
)
def test_what_is_no_such_model_is_refused(table: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(lt.InstanceError, match=message):
        read(tmp_path, table)


@pytest.mark.slow
def test_damaged_bytes_are_refused_or_read(tmp_path: Path) -> None:
    whole = encode(model(TENSORS, OPERATORS, [0], [6]))
    messages: list[str] = []
    with little_memory():
        for seed in chosen(range(4000), least=150):
            rng, content = Random(seed), bytearray(whole)
            for _ in range(rng.randint(1, 4)):
                content[rng.randrange(len(content))] = rng.choice((0, 1, 4, 255, rng.randrange(256)))
            damaged = bytes(content[: rng.randrange(len(content))] if rng.random() < 0.1 else content)
            try:
                read(tmp_path, damaged)
            except lt.InstanceError as error:
                messages.append(str(error))
    assert len(messages) > 20
    assert not [text for text in messages if "\n" in text]


def test_texts_that_many_tensors_share_do_not_take_long(tmp_path: Path) -> None:
    shared = Repeated(50_000, tensor("n" * 200_000, 1))  # ten billion letters in 400 kB
    with pytest.raises(
        lt.InstanceError, match="found vectors that overlap, expected each with bytes of its own"
    ):
        read(tmp_path, model(shared, [], [0], []))
    assert len(read(tmp_path, model([tensor("x", 1)] * 1000, [], [0], [])).tensors) == 1000
