"""Bad input exits 2 with one line that says what, where, found, expected; nothing is written."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from lowtide import load
from lowtide.instances import write_graph
from tests.commands import answer, refused, within

SOLVE = ("solve", "peak")
GOOD: dict[str, Any] = {
    "format": "lowtide/graph",
    "version": 1,
    "name": "g",
    "tensors": [{"name": "x", "nbytes": 3}, {"name": "y", "nbytes": 5}],
    "ops": [{"name": "a", "writes": [0]}, {"name": "b", "reads": [0], "writes": [1]}],
}


def broken(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


def with_op(**changes: Any) -> str:
    return broken(ops=[GOOD["ops"][0], {**GOOD["ops"][1], **changes}])


def with_size(nbytes: Any) -> str:
    return broken(tensors=[GOOD["tensors"][0], {"name": "y", "nbytes": nbytes}])


GRAPHS = {
    "not JSON": ('{"format": ', "line 1"),
    "wrong format": (broken(format="lowtide/plan"), 'expected "lowtide/graph"'),
    "wrong version": (broken(version=2), "found 2, expected 1"),
    "unknown key": (broken(colour="blue"), "colour"),
    "negative size": (with_size(-1), "-1"),
    "fractional size": (with_size(2.5), "2.5"),
    "index out of range": (with_op(reads=[9]), "9"),
    "cycle through after": (
        broken(ops=[{"name": "a", "writes": [0], "after": [1]}, {"name": "b", "reads": [0]}]),
        "cycle",
    ),
    "reference order is no execution": (
        broken(ops=list(reversed(GOOD["ops"]))),
        "before its first write",
    ),
}


@pytest.mark.parametrize("mistake", GRAPHS)
def test_graph_file(tmp_path: Path, mistake: str) -> None:
    text, names = GRAPHS[mistake]
    (tmp_path / "g.json").write_text(text)
    line = refused(*SOLVE, "g.json", "--plan", "p.json", cwd=tmp_path)
    assert line.startswith("g.json")
    assert names in line
    assert "expected" in line


def test_missing_file(tmp_path: Path) -> None:
    assert refused("show", "nowhere.json", cwd=tmp_path).startswith("nowhere.json: found no such file")


def test_truncated_gz(tmp_path: Path) -> None:
    (tmp_path / "g.json.gz").write_bytes(gzip.compress(json.dumps(GOOD).encode())[:-20])
    assert "truncated gzip" in refused("convert", "g.json.gz", "out.json", cwd=tmp_path)


def test_corrupt_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    (tmp_path / "m.onnx").write_bytes(b"\x08\xff\xff no model")
    assert refused("convert", "m.onnx", "out.json", cwd=tmp_path).startswith("m.onnx")


def test_onnx_with_unknown_shapes_names_the_dimension(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    info = [onnx.helper.make_tensor_value_info(name, 1, ["frames", 3]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", info[:1], info[1:])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "m.onnx")
    assert "frames" in refused("convert", "m.onnx", "out.json", cwd=tmp_path)
    answer("convert", "m.onnx", "out.json", "--set", "frames=4", cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*SOLVE, "ggen:chain"), "did you mean gen?"),
        ((*SOLVE, "gen:chain", "--method", "gredy"), "did you mean greedy or serenity?"),
        ((*SOLVE, "gen:chain", "--time-limit", "0"), "found '0', expected seconds > 0"),
        ((*SOLVE, "gen:chain", "--plan", "no/such/folder/p.json"), "found no folder"),
    ],
)
def test_command(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments, cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*SOLVE, "gen:chian"), "did you mean chain"),
        ((*SOLVE, "gen:chain?m=3"), "unknown option 'm'"),
        (("solve", "peek", "gen:chain"), "did you mean peak or pipeline?"),
        (
            ("solve", "best", "gen:chain"),
            "expected one of arena, distributed, hybrid, makespan, memory-edges",
        ),
        ((*SOLVE, "gen:chain", "--time-limit", "-3"), "time-limit"),
        ((*SOLVE, "gen:chain", "--time-limit", "inf"), "found 'inf'"),
        ((*SOLVE, "gen:chain", "--threads", "0"), "expected an integer >= 1"),
        ((*SOLVE, "gen:chain", "--memory-limit", "4 apples"), "found '4 apples'"),
        ((*SOLVE, "gen:chain", "--solver-option", "k"), "expected KEY=VALUE"),
        ((*SOLVE, "gen:chain", "--method", "greedy", "--solver-option", "k=1"), "found 'k'"),
        ((*SOLVE, "gen:chain", "--plan", "."), "found a folder"),
        ((*SOLVE, "gen:chain", "--log", "no/such/folder/log"), "found no folder"),
        ((*SOLVE, "gen:chain", "--metod", "greedy"), "did you mean --method"),
        ((*SOLVE, "gen:chain", "--meth", "greedy"), "unknown option '--meth'"),
        ((*SOLVE, "gen:chain", "extra"), "unknown argument 'extra'"),
        (("solve", "peak"), "required: spec"),
        (("slove", "peak", "gen:chain"), "did you mean solve"),
        ((), "found no verb"),
        (("list", "method"), "'method'"),
        (("show", "gen:chain", "--largest", "-1"), "'-1'"),
        (("convert", "gen:chain", "g.xml"), "found no known ending"),
        (("convert", "gen:chain", "no/such/folder/g.json"), "found no folder"),
        (("convert", "gen:chain", "g.json", "--drop", "wight"), "found kind 'wight'"),
        (("convert", "gen:chain", "g.json", "--accounting", "both"), "found 'both'"),
        (("convert", "gen:chain", "g.json", "--set", "n=3", "--set", "n=4"), "found 'n' twice"),
        (("plot", "p.json", "-o", "x.gif"), "found ending '.gif'"),
        (("plot", "p.json", "-o", "no/such/folder/x.svg"), "found no folder"),
        (("verify", "p.json"), "p.json: found no such file"),
        (("verify", "gen:chain", "--order", "nowhere.txt"), "nowhere.txt: found No such file"),
        (("export", "peak", "gen:chain", "-o", "m.mps"), "found no method"),
    ],
)
def test_command_within(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments, cwd=tmp_path, run=within)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "write permission" in refused(*SOLVE, "gen:chain", "--plan", "p.json", cwd=tmp_path, run=within)
    tmp_path.chmod(0o700)


def test_plan_of_another_graph(tmp_path: Path) -> None:
    answer(*SOLVE, "catalogue:diamond", "--method", "reference", "--plan", "p.json", cwd=tmp_path)
    line = refused("verify", "p.json", "--graph", "catalogue:chain", cwd=tmp_path, run=within)
    assert load("catalogue:chain").sha256 in line
    assert load("catalogue:diamond").sha256 in line
    refused("plot", "p.json", "--graph", "catalogue:chain", "-o", "x.svg", cwd=tmp_path, run=within)
    refused(*SOLVE, "catalogue:chain", "--hint", "p.json", cwd=tmp_path, run=within)


def test_plan_that_names_no_graph(tmp_path: Path) -> None:
    answer(*SOLVE, "catalogue:diamond", "--method", "reference", "--plan", "p.json", cwd=tmp_path)
    data = json.loads((tmp_path / "p.json").read_text())
    data["graph"]["source"] = None
    (tmp_path / "p.json").write_text(json.dumps(data))
    assert "expected --graph SPEC" in refused("verify", "p.json", cwd=tmp_path, run=within)


def test_graph_where_a_plan_is_expected(tmp_path: Path) -> None:
    write_graph(load("catalogue:diamond"), tmp_path / "g.json")
    line = refused("verify", "g.json", cwd=tmp_path, run=within)
    assert '"lowtide/plan"' in line
    assert "--order" in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("source letf right join", "order.txt:1: found unknown op 'letf', did you mean 'left'?"),
        ("0 1\n2 4", "order.txt:2: found op 4, expected an index in [0, 4)"),
    ],
)
def test_order_file(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "order.txt").write_text(text)
    assert words in refused("verify", "catalogue:diamond", "--order", "order.txt", cwd=tmp_path, run=within)


def test_bound_above_the_peak(tmp_path: Path) -> None:
    (tmp_path / "order.txt").write_text("0 1 2 3")
    arguments = ("verify", "catalogue:diamond", "--order", "order.txt", "--bound", "1KiB")
    assert "found 1024" in refused(*arguments, cwd=tmp_path, run=within)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"plan": None}, "without a plan"), ({"bound": "12"}, "bound"), ({"status": "fine"}, "'fine'")],
)
def test_run_record(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    record = answer(*SOLVE, "catalogue:diamond", "--method", "reference", "--plan", "p.json", cwd=tmp_path)
    (tmp_path / "r.json").write_text(json.dumps({**record, **change}))
    assert words in refused("plot", "r.json", "-o", "x.svg", cwd=tmp_path, run=within)


@pytest.mark.slow
def test_pictures_without_matplotlib(tmp_path: Path) -> None:
    answer(*SOLVE, "catalogue:diamond", "--method", "reference", "--plan", "p.json", cwd=tmp_path)
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    env = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    line = refused("plot", "p.json", "-o", "x.svg", cwd=tmp_path, env=env)
    assert "pip install 'lowtide[plot]'" in line


@pytest.mark.parametrize("words", [("-v",), ("-v", "list"), ("--json",), ("--",)])
def test_an_option_before_the_verb_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    line = refused(*words, cwd=tmp_path)
    assert line.startswith(f"found unknown option '{words[0]}' before the verb, expected one of list, show")
