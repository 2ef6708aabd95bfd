"""Outputs have files of their own, and none that the command reads: exit 2 before anything is solved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances import write_buffers, write_graph, write_plan
from tests.commands import contents, refused, within

GRAPH = lt.load("gen:chain?n=5&seed=1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_graph(GRAPH, tmp_path / "g.json")
    graph = lt.load(tmp_path / "g.json")
    plan = lt.Plan.from_order(graph, range(5))
    write_plan(lt.solve(lt.Peak(graph)).plan or plan, tmp_path / "p.json")
    write_buffers(lt.Offsets.from_plan(graph, plan).buffers, tmp_path / "b.json")
    (tmp_path / "m.json").write_text(json.dumps(lt.load_machine("a100-40g-pcie3").to_dict()))
    (tmp_path / "order.txt").write_text("0 1 2 3 4")
    (tmp_path / "link.json").symlink_to("g.json")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "r.jsonl").write_text("{}\n")
    return tmp_path


CLASHES = [
    ("solve peak g.json --plan g.json", "--plan: found 'g.json', which is read"),
    ("solve peak g.json --plan ./sub/../g.json", "--plan: found './sub/../g.json', which is read"),
    ("solve peak native:g.json --plan link.json", "--plan: found 'link.json', which is read"),
    ("solve peak g.json --log link.json", "--log: found 'link.json', which is read"),
    (
        "solve peak g.json --plan o.json --certificate o.json",
        "--certificate: found 'o.json', the file of --plan",
    ),
    (
        "solve peak g.json --plan o.json --log sub/../o.json",
        "--log: found 'sub/../o.json', the file of --plan",
    ),
    ("solve peak g.json --hint p.json --plan p.json", "--plan: found 'p.json', which is read"),
    ("solve offsets p.json --plan g.json", "--plan: found 'g.json', which is read"),
    ("solve placement g.json --machine m.json --plan m.json", "--plan: found 'm.json', which is read"),
    ("solve parallel-memory g.json --bound 999 --apply g.json", "--apply: found 'g.json', which is read"),
    ("solve makespan g.json --sweep-memory 2 --plot s.svg --log s.svg", "s.svg"),
    ("convert g.json g.json", "OUT: found 'g.json', which is read"),
    ("convert link.json g.json", "OUT: found 'g.json', which is read"),
    ("explain b.json --capacity 1 --out b.json", "--out: found 'b.json', which is read"),
    ("explain p.json --capacity 1 --out g.json", "--out: found 'g.json', which is read"),
    ("export peak g.json --method milp --out g.json", "--out: found 'g.json', which is read"),
    ("table sub/r.jsonl --out sub/r.jsonl", "--out: found 'sub/r.jsonl', which is read"),
]


@pytest.mark.parametrize(("words", "message"), CLASHES)
def test_clashes_are_refused(folder: Path, words: str, message: str) -> None:
    assert message in refused(*words.split(), cwd=folder, run=within)


@pytest.mark.parametrize("name", ["g.svg", "p.svg", "order.svg"])
def test_pictures_are_outputs_too(folder: Path, name: str) -> None:
    (folder / name).symlink_to({"g": "g.json", "p": "p.json", "order": "order.txt"}[name[:-4]])
    words = ("g.json", "--order", "order.txt") if name == "order.svg" else ("p.json",)
    assert "which is read" in refused("plot", *words, "--out", name, cwd=folder, run=within)


def test_what_python_reads_may_be_written(folder: Path) -> None:
    graph = lt.load(folder / "g.json")
    write_graph(graph, folder / "g.json")
    assert lt.load(folder / "g.json") == graph


def test_other_files_are_written_over(folder: Path) -> None:
    before = contents(folder)
    done = within("solve", "peak", "g.json", "--plan", "p.json", "--log", "l.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert {**contents(folder), "p.json": b"", "l.txt": b""} == {**before, "p.json": b"", "l.txt": b""}
    assert within("verify", "p.json", cwd=folder).returncode == 0
