"""Algorithms of convolutions: what they count, against naive counts, and the modes of imported networks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances.onnx_import import load_onnx
from lowtide.instances.transforms.convolution import (
    DATA,
    RESULT,
    WEIGHTS,
    Convolution,
    algorithms,
    modes,
)
from lowtide.instances.transforms.roofline import duration_ns
from tests.onnx_models import node, save_model, value, weight

CONV = Convolution(
    samples=2, inputs=3, outputs=5, groups=1, image=(6, 9), result=(6, 9), kernel=(3, 3), plain=True
)


def test_direct_and_implicit_gemm_count_every_product() -> None:
    for conv in (CONV, replace(CONV, inputs=4, outputs=6, groups=2, image=(13, 19), plain=False)):
        c, k = conv.inputs // conv.groups, conv.outputs // conv.groups
        counted = sum(
            1
            for _ in product(
                range(conv.samples), range(conv.groups), range(k), range(6), range(9), range(c), range(9)
            )
        )
        assert conv.multiply_adds == counted
        for part, rows, columns in (
            (RESULT, 2 * 6 * 9, k),
            (DATA, 2 * conv.image[0] * conv.image[1], c),
            (WEIGHTS, 9 * c, k),
        ):
            direct, gemm = [*algorithms(conv, part)][:2]
            assert (direct.instructions, direct.workspace, gemm.workspace) == (2 * counted, 0, 0)
            tiles = len(range(0, rows, 128)) * len(range(0, columns, 32))
            assert gemm.instructions == -(-counted * tiles * 128 * 32 // (rows * columns))


def test_fft_and_winograd_by_hand() -> None:
    found = {part: {x.name: x for x in algorithms(CONV, part)} for part in (RESULT, DATA, WEIGHTS)}
    # Images of 8 by 11 in 8 by 16: log2 is 7; 8 * 9 complex frequencies; 6 + 15 + 10 planes.
    for some in found.values():
        assert some["FFT"].instructions == 31 * (5 * 128 * 7 // 2) + 72 * 4 * 30
        assert some["FFT"].workspace == 31 * 72 * 8
    # Tiles of 2 by 2: 3 * 5, of 4 by 4: 2 * 3, of two samples.
    two, four = "Winograd F(2 x 2, 3 x 3)", "Winograd F(4 x 4, 3 x 3)"
    assert found[RESULT][two].instructions == 16 * 30 * 15 + 32 * 30 * 3 + 28 * 15 + 24 * 30 * 5
    assert found[DATA][two].instructions == 16 * 30 * 15 + 32 * 30 * 5 + 28 * 15 + 24 * 30 * 3
    assert found[RESULT][two].workspace == found[DATA][two].workspace == 16 * 15 * 4
    assert two not in found[WEIGHTS]
    for part in (RESULT, WEIGHTS):
        assert found[part][four].instructions == 36 * 12 * 15 + 144 * 12 * 3 + 72 * 15 + 100 * 12 * 5
    for some in found.values():
        assert some[four].workspace == 36 * (12 * 3 + 15 + 12 * 5) * 4


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"plain": False}, 2),
        ({"groups": 1, "kernel": (3,), "image": (6,), "result": (6,)}, 2),
        ({"inputs": 4, "outputs": 6, "groups": 2}, 2),
        ({"kernel": (5, 5)}, 3),
        ({"kernel": (5, 5), "result": (253, 9)}, 2),  # images of 257
        ({"kernel": (1, 1), "result": (1, 1), "image": (1, 1)}, 3),
        ({}, 5),
    ],
)
def test_where_algorithms_serve(changed: dict[str, Any], names: int) -> None:
    assert len([*algorithms(replace(CONV, **changed), RESULT)]) == names


def test_modes_are_those_that_no_other_one_beats() -> None:
    seen = Counter[int]()
    for n, c, k, side, kernel in product((1, 64), (3, 64, 256), (64, 256), (7, 56), (1, 3, 5, 11)):
        conv = replace(
            CONV,
            samples=n,
            inputs=c,
            outputs=k,
            image=(side, side),
            result=(side, side),
            kernel=(kernel, kernel),
        )
        for part in (RESULT, DATA, WEIGHTS):
            nbytes = 4 * (n * (c + k) * side**2 + c * k * kernel**2)
            rows = [
                (x.workspace, duration_ns(nbytes + 2 * x.workspace, x.instructions))
                for x in algorithms(conv, part)
            ]
            best = {
                row for row in rows if not any(o != row and o[0] <= row[0] and o[1] <= row[1] for o in rows)
            }
            found = [(m.workspace, m.duration_ns) for m in modes(conv, part, nbytes)]
            assert found == sorted(best)
            seen[len(found)] += 1
    assert {*seen} >= {1, 2, 3}


def test_imported_convolutions_have_modes(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w b", "h", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "h", "r"),
        node("Conv", "r v", "y", kernel_shape=[3, 3], strides=[2, 2]),
    ]
    weights = [weight("w", 32, 16, 3, 3), weight("b", 32), weight("v", 8, 32, 3, 3)]
    path = save_model(tmp_path, nodes, [value("x", [4, 16, 20, 20])], [value("y", [4, 8, 9, 9])], weights)
    plain, moded = (load_onnx(path, train=True, conv=conv) for conv in ("", "modes"))
    assert plain.tensors == moded.tensors
    assert [(op.name, op.reads, op.writes) for op in plain.ops] == [
        (op.name, op.reads, op.writes) for op in moded.ops
    ]
    first = replace(CONV, samples=4, inputs=16, outputs=32, image=(20, 20), result=(20, 20))
    second = replace(first, inputs=32, outputs=8, result=(9, 9), plain=False)
    expected = {0: (first, RESULT), 2: (second, RESULT), 4: (second, DATA), 5: (second, WEIGHTS)}
    by_kind = [k for k, op in enumerate(moded.ops) if "Conv" in op.kind]
    expected = dict(zip(by_kind, [*expected.values(), (first, WEIGHTS)], strict=True))
    for k, (old, new) in enumerate(zip(plain.ops, moded.ops, strict=True)):
        if k not in expected:
            assert old == new
            continue
        moved = sum(moded.tensors[t].nbytes for t in (*new.reads, *new.writes))
        conv, part = expected[k]
        weights_bytes = 4 * conv.outputs * conv.inputs * 9 + 128 * (conv is first)
        dropped = weights_bytes if part != WEIGHTS else 0
        assert new.all_modes == modes(conv, part, moved + dropped), new.name


def test_the_option_of_a_specification() -> None:
    graph = lt.load("onnx:squeezenet?batch=8&train=1&conv=modes")
    assert graph.name == "squeezenet?train=1&batch=8&conv=modes"
    assert {len(op.modes) for op in graph.ops} == {0, 2}
    with pytest.raises(lt.InstanceError, match='option conv: found "some", expected modes'):
        lt.load("onnx:squeezenet?conv=some")
