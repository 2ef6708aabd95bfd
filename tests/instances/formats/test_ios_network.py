"""Networks in blocks: edges, roofline and blocks by hand; what is none is one line."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from tests.small_files import NETWORK


def test_a_network_by_hand(tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text(json.dumps(NETWORK))
    # 1e9 operations and 1e9 bytes a second, in two parts of 50 elements
    graph = lt.load(f"ios:{tmp_path}/small.json?parts=2&outputs=50&tflops=0.001&gb_per_s=1&launch_ns=7")
    assert [t.nbytes for t in graph.tensors] == [192, 400, 200, 4, 4000]
    assert [(op.name, op.reads, op.writes) for op in graph.ops] == [
        ("conv1", (0,), (1,)),
        ("conv2", (0, 1), (2,)),
        ("conv3", (2,), (3,)),
        ("conv4", (3,), (4,)),
    ]
    assert [(op.share, op.duration_ns) for op in graph.ops] == [(2, 1007), (1, 2007), (1, 2007), (2, 4051)]
    assert [t.final for t in graph.tensors] == [False, False, False, False, True]
    assert graph.provenance["blocks"] == [[0, 1], [2], [3]]


@pytest.mark.parametrize(
    ("steps", "value", "expected"),
    [
        (("blocks",), None, "TypeError"),
        (("blocks", 0, "nodes", 1, "name"), "1", "ValueError a name twice"),
        (("blocks", 0, "nodes", 1, "inputs"), [["5"]], "KeyError '5'"),
        (("blocks", 0, "nodes", 1, "flops"), 10**400, "OverflowError"),
        (("blocks", 1, "parts"), [["5"]], "KeyError '5'"),
    ],
)
def test_what_is_no_network_is_one_line(
    tmp_path: Path, steps: tuple[Any, ...], value: Any, expected: str
) -> None:
    element = data = deepcopy(NETWORK)
    for step in steps[:-1]:
        element = element[step]
    element[steps[-1]] = value
    (tmp_path / "bad.json").write_text(json.dumps(data))
    with pytest.raises(lt.InstanceError, match=f"bad.json: found {expected}.*, expected a network in blocks"):
        lt.load(f"ios:{tmp_path}/bad.json")
