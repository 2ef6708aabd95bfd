"""Layer graphs of dnn-partitioning, PipeDream and Piper: what vanishes and what stays, by hand; faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lowtide as lt
from tests.small_files import LAYERS, MODES, PROFILE


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


@pytest.mark.parametrize(("unit", "ns"), [({}, 10**9), ({"timeUnit": "ms"}, 10**6)])
def test_modes_by_hand(unit: dict[str, str], ns: int, tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text(json.dumps({**MODES, **unit}))
    graph = lt.load(f"piper:{tmp_path}/small.json")
    assert [(op.name, op.kind, op.reads, op.writes) for op in graph.ops] == [
        ("a 9", "a", (), (0,)),
        ("b 7", "b", (0,), ()),
    ]
    assert [t.nbytes for t in graph.tensors] == [5]
    modes = [[(m.processors, m.duration_ns) for m in op.modes] for op in graph.ops]
    first = [(("t2",), ns), (("t2",), ns + ns // 2), (("t10",), ns // 2)]
    assert modes == [first, [(("t1",), 1)]]
    problem = lt.Hybrid.of(graph, memory=50)
    assert (problem.processors, problem.memory, problem.link, problem.micro) == (4, 50, 5, 12)
    assert problem.needs[0] == (
        lt.Need(weights=6, each=3, once=3),
        lt.Need(weights=6, once=3, again=True),
        lt.Need(weights=6, each=2, once=3, sync=((0, 4),)),
    )
    result = lt.solve(problem, threads=1)  # 1 s or ms, and 2 * 5 / 5 s of transfers
    assert result.objective == ns + 2 * 10**9


@pytest.mark.parametrize(
    ("scheme", "text", "words"),
    [
        ("dnn-partitioning", "[]", "expected layers of dnn-partitioning"),
        ("dnn-partitioning", json.dumps({**LAYERS, "nodes": LAYERS["nodes"][:3]}), "found KeyError 3"),
        ("dnn-partitioning", json.dumps({**LAYERS, "maxCPUs": "x"}), 'maxCPUs: found "x", expected'),
        ("piper", "[]", "expected layers of Piper"),
        ("piper", json.dumps({**MODES, "timeUnit": "h"}), "found KeyError 'h'"),
        ("piper", json.dumps({**MODES, "nodes": MODES["nodes"][:1]}), "found KeyError 9"),
        ("pipedream", PROFILE.replace("LSTM(1, 1) --", "LSTM"), "found line 'node3 -- LSTM forward"),
        ("pipedream", PROFILE + "\tnode9 -- node2\n", "found 'node9'"),
        ("pipedream", PROFILE + "\tnode3 -- node2\n", "found the cycle"),
    ],
)
def test_what_is_none_is_one_line(scheme: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text(text)
    with pytest.raises(lt.InstanceError, match="wrong: ") as error:
        lt.load(f"{scheme}:{tmp_path}/wrong")
    assert words in str(error.value)
    assert "\n" not in str(error.value)
