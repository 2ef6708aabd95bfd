"""ONNX models that cannot be imported: one line that says what, where, found, expected."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from random import Random

import pytest

from lowtide.instances.onnx_import import load_onnx
from lowtide.models.errors import BackendUnavailable, InstanceError
from tests.onnx_models import node, save_model, transformer_block, value, weight

pytest.importorskip("onnx", reason="the package onnx is not installed")


NEXT_STEP = re.compile(r"; |as in \?|one of |did you mean|nearest|integer >= 1|none: ")


def failure(path: Path | str, **options: object) -> str:
    with pytest.raises(InstanceError) as caught:
        load_onnx(path, **options)  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text
    assert "found" in text
    assert NEXT_STEP.search(text), text
    return text


def test_unknown_names_and_missing_files(tmp_path: Path) -> None:
    assert "nearest: resnet50" in failure("resnet5")
    assert "found no such model" in failure("nothing-like-it")
    assert "found no such file" in failure(tmp_path / "missing.onnx")


def test_corrupt_and_empty_files(tmp_path: Path) -> None:
    path = save_model(tmp_path, [node("Relu", "x", "y")], [value("x", (1,))], [value("y", (1,))])
    content = path.read_bytes()
    for bad in (b"", b"not a model", content[: len(content) // 2], b"\xff" * 64):
        path.write_bytes(bad)
        assert "model.onnx" in failure(path)


@pytest.mark.slow
def test_damaged_bytes_load_or_fail_in_one_line(tmp_path: Path) -> None:
    path = transformer_block(tmp_path)
    content, chance = path.read_bytes(), Random(1)
    failures = []
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(chance.choice((1, 5))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            load_onnx(path, batch=2, dims={"length": 5}, train=True)
        except InstanceError as error:
            failures.append(str(error))
    assert 30 < len(failures) < 150
    assert not [text for text in failures if "\n" in text]


def test_symbolic_dimensions_must_be_given(tmp_path: Path) -> None:
    path = transformer_block(tmp_path)
    assert "batch_size, length" in failure(path)
    assert "found symbolic dimension length without a size" in failure(path, batch=2)
    assert "found unknown dimension len, expected" in failure(path, batch=2, dims={"len": 5})
    assert "found batch=2 and batch_size=3" in failure(path, batch=2, dims={"batch_size": 3})
    assert "found 0, expected an integer >= 1" in failure(path, batch=0, dims={"length": 4})


def test_anonymous_dimensions_have_a_name(tmp_path: Path) -> None:
    nodes, inputs = [node("Relu", "x", "y")], [value("x", (None, 3, None))]
    path = save_model(tmp_path, nodes, inputs, [value("y", (None, 3, None))])
    assert "x_0, x_2" in failure(path)
    sizes = {t.name: t.nbytes for t in load_onnx(path, batch=2, dims={"x_2": 5}).tensors}
    assert sizes["y"] == 120


def test_sizes_that_a_model_cannot_take(tmp_path: Path) -> None:
    path = save_model(tmp_path, [node("Abs", "x", "y")], [value("x", ())], [value("y", ())])
    assert "found batch=2" in failure(path, batch=2)
    assert "none: all dimensions are fixed" in failure(path, dims={"n": 2})


@pytest.mark.parametrize(
    ("op_type", "kind", "message"),
    [
        ("NonZero", "INT64", "output of NonZero '': found shape [2, "),
        ("Unique", "FLOAT", "output of Unique '': found shape ["),
    ],
)
def test_unknown_shapes(tmp_path: Path, op_type: str, kind: str, message: str) -> None:
    path = save_model(
        tmp_path,
        [node(op_type, "x", "h"), node("Identity", "h", "y")],
        [value("x", (2, 3))],
        [value("y", None, kind)],
    )
    assert message in failure(path)


def test_contradictions_strings_and_wrong_order(tmp_path: Path) -> None:
    inputs, outputs = [value("x", (2, 3))], [value("y", (2, 5))]
    nodes = [node("MatMul", "x w", "y")]
    path = save_model(tmp_path, nodes, inputs, outputs, [weight("w", 4, 5)])
    with pytest.raises(InstanceError, match="contradiction in shape inference"):
        load_onnx(path)
    words = [value("x", (2,), "STRING")], [value("y", (2,), "STRING")]
    path = save_model(tmp_path, [node("Identity", "x", "y")], *words)
    assert "found element type STRING" in failure(path)
    path = save_model(tmp_path, [node("Abs", "h", "y"), node("Abs", "x", "h")], inputs, outputs)
    assert "expected nodes in topological order" in failure(path)
    path = save_model(tmp_path, [node("Abs", "x", "h")], inputs, outputs)
    assert "found output 'y', which no node computes" in failure(path)


def test_without_the_package_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'lowtide\[onnx\]'"):
        load_onnx("resnet50")


@pytest.mark.parametrize(
    "symbol", ["n*" * 20_000 + "n", "-" * 150 + "n", "n\0", f"n*{2**80}", "n + True", "n//0"]
)
def test_symbols_that_are_no_size_are_asked_for(tmp_path: Path, symbol: str) -> None:
    """Of an expression over other dimensions a size is computed, but not of all that a file may hold."""
    path = save_model(tmp_path, [node("Relu", "x", "y")], [value("x", ("n", symbol))], [value("y", None)])
    assert "as in ?x_1=" in failure(path, dims={"n": 3})
    assert len(load_onnx(path, dims={"n": 3, "x_1": 2}).ops) == 1
