"""Layer graphs of dnn-partitioning and PipeDream: what vanishes and what stays, by hand; faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt


def node(number: int, ms: float, size: float, colour: int | None, backward: bool = False) -> dict[str, Any]:
    times = {"fpgaLatency": ms, "cpuLatency": 10 * ms, "supportedOnFpga": number != 4}
    own = {} if colour is None else {"colorClass": colour}
    return {"id": number, "name": f"n{number}", **times, "size": size, "isBackwardNode": backward, **own}


LAYERS: dict[str, Any] = {
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "maxSizePerFPGA": 100.0,
    # a weight and an input without time vanish into n2; n3 has another neighbour besides n2, and stays
    "nodes": [
        node(0, 0, 7.0, 0),
        node(1, 0, 0.0, None),
        node(2, 0.0015, 5.0, 2),
        node(3, 0, 0.0, 3),
        node(4, 0.002, 0.0, 4),
        node(5, 0.001, 3.0, 2, True),
    ],
    "edges": [
        {"sourceId": a, "destId": b, "cost": cost, "size": size}
        for a, b, cost, size in (
            (1, 0, 0.5, 50.0),
            (0, 2, 0.5, 50.0),
            (2, 3, 0.25, 25.0),
            (3, 4, 0.25, 999.0),
            (4, 5, 0.5, 50.0),
        )
    ],
}


def test_layers_by_hand(tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text(json.dumps({**LAYERS, "expert": [[0, 1, 2, 5], [3, 4]]}))
    graph = lt.load(f"dnn-partitioning:{tmp_path}/small.json")
    assert [op.name for op in graph.ops] == ["n2", "n3", "n4", "n5"]
    modes = [[(m.processors, m.duration_ns) for m in op.modes] for op in graph.ops]
    assert modes[:2] == [[(("acc",), 1500), (("cpu",), 15000)], [(("acc",), 1), (("cpu",), 1)]]
    assert modes[2] == [(("cpu",), 20000)]
    weights = [{t.nbytes for i in op.reads if (t := graph.tensors[i]).initial} for op in graph.ops]
    assert weights == [{5, 7}, set(), set(), {3}]
    made = [graph.tensors[op.writes[0]].nbytes for op in graph.ops[:3]]
    assert made == [25, 25, 50]  # by the costs, at 100 bytes a ms
    assert graph.provenance["layers"] == {
        "processors": {"acc": 2, "cpu": 1},
        "memory": 100,
        "link": 100_000,
        "together": [[0, 3]],
        "backward": [3],
        "expert": [[0, 3], [1, 2]],
    }


def test_people_do_not_split_what_accelerators_cannot_run(tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text(json.dumps({**LAYERS, "expert": [[0, 1, 2, 5], [3, 4]]}))
    result = lt.solve(
        lt.Partition.of(lt.load(f"dnn-partitioning:{tmp_path}/small.json")), "expert", threads=1
    )
    assert (result.status, result.detail) == ("unknown", "devices of kind acc cannot run all ops")


PROFILE = """node1 -- Input0 -- forward_compute_time=9.5, backward_compute_time=0.000, activation_size=8.0, parameter_size=0.000
node2 -- Conv2d(3, 64, kernel_size=(3, 3)) -- forward_compute_time=0.0015, backward_compute_time=0.003, activation_size=16.0, parameter_size=4.000
node3 -- LSTM(1, 1) -- forward_compute_time=0.002, backward_compute_time=0.000, activation_size=[6.0; 2.0], parameter_size=0.000
\tnode1 -- node2
\tnode2 -- node3
"""  # noqa: E501


def test_a_profile_by_hand(tmp_path: Path) -> None:
    (tmp_path / "small.txt").write_text(PROFILE)
    graph = lt.load(f"pipedream:{tmp_path}/small.txt")
    found = [(op.name, op.duration_ns, [graph.tensors[t].name for t in op.reads]) for op in graph.ops]
    assert found == [
        ("node2", 1500, ["node2 weights"]),
        ("node3", 2000, ["node2"]),
        ("node3 backward", 1, ["node3"]),
        ("node2 backward", 3000, ["node2", "node2 weights", "node2 gradient from node3"]),
    ]
    assert [t.nbytes for t in graph.tensors] == [16, 8, 16, 4]
    assert graph.provenance["layers"] == {"together": [[0, 3], [1, 2]], "backward": [2, 3]}


@pytest.mark.parametrize(
    ("scheme", "text", "words"),
    [
        ("dnn-partitioning", "[]", "expected layers of dnn-partitioning"),
        ("dnn-partitioning", json.dumps({**LAYERS, "nodes": LAYERS["nodes"][:3]}), "found KeyError 3"),
        ("dnn-partitioning", json.dumps({**LAYERS, "maxCPUs": "x"}), "found ValueError"),
        ("pipedream", PROFILE.replace("LSTM(1, 1) --", "LSTM"), "found line 'node3 -- LSTM forward"),
        ("pipedream", PROFILE + "\tnode9 -- node2\n", "found 'node9'"),
        ("pipedream", PROFILE + "\tnode3 -- node2\n", "found the cycle"),
    ],
)
def test_what_is_none_is_one_line(scheme: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text(text)
    with pytest.raises(lt.InstanceError, match="wrong: found") as error:
        lt.load(f"{scheme}:{tmp_path}/wrong")
    assert words in str(error.value)
    assert "\n" not in str(error.value)
