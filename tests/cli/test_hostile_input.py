"""Files and names made to do harm: one line says what is wrong, and nothing in a name steers the terminal."""

from __future__ import annotations

import csv
import gzip
import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances import read_csv, write_csv, write_graph
from lowtide.instances.formats.strict_json import (
    DEEPEST,
    UNPACK_VARIABLE,
    parse_json,
    parse_toml,
    read_bytes,
)
from lowtide.models.errors import InstanceError, UsageError
from lowtide.models.texts import LONGEST, as_cell, cut, escaped_json, from_cell, one_line, printable
from tests.commands import command, refused, within

NAME = "e\x1b[31mvil\x9b31m\n\u202ename $\\alpha_$ $x$"
SHOWN = "e\\x1b[31mvil\\x9b31m\\n\\u202ename $\\alpha_$ $x$"
GRAPH = {
    "format": "lowtide/graph",
    "version": 1,
    "name": NAME,
    "tensors": [{"name": NAME, "nbytes": 3}, {"name": "y", "nbytes": 5}],
    "ops": [{"name": NAME, "writes": [0], "workspace": 1}, {"name": "b", "reads": [0], "writes": [1]}],
}
MANY = 20_000
DEEP = {
    "lists.json": "[" * MANY + "]" * MANY,
    "objects.json": '{"a":' * MANY + "1" + "}" * MANY,
    "middle.json": '{"format": "lowtide/graph", "x": ' + "[" * 900 + "]" * 900 + "}",
    "open.json": "[" * MANY,
    "list.toml": "a = " + "[" * MANY + "]" * MANY,
    "keys.toml": ".".join("a" * 3000) + " = 1",
}
READERS = [
    "show",
    "verify",
    "solve peak",
    "solve offsets",
    "solve placement good.json --machine",
    "solve peak good.json --hint",
    "solve parallel-memory good.json --bound 9 --hint",
    "verify good.json --order order.txt --certificate",
    "explain",
    "convert --json out.json",
    "export peak good.lp --plan",
    "plot profile --out o.svg",
    "plot cactus --out o.svg",
    "table",
    "report --out o.html",
    "bench --out out",
    "job",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.json").write_text(json.dumps(GRAPH))
    (tmp_path / "order.txt").write_text("0 1")
    for name, text in DEEP.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("verb", READERS)
def test_deep_nesting_is_refused_everywhere(folder: Path, verb: str) -> None:
    for name in DEEP:
        done = within(*verb.split(), name, cwd=folder)
        assert (done.returncode, done.stdout) == (2, ""), (name, done)
        assert "Traceback" not in done.stderr
        assert done.stderr.splitlines()[-1].startswith("lowtide: error: ")
        assert len(done.stderr) < 3 * LONGEST


@pytest.mark.slow
def test_an_audit_calls_deep_files_malformed(folder: Path) -> None:
    (folder / "records.jsonl").write_text(DEEP["lists.json"] + "\n")
    done = within("audit", "records.jsonl", cwd=folder)
    assert done.returncode == 1
    assert "damaged" in done.stdout


def test_an_experiment_of_deep_files(folder: Path) -> None:
    """Records, list of runs, flat copy and experiment file of a folder, all of them nested too deeply."""
    shelf = folder / "exp" / "records" / "ab"
    shelf.mkdir(parents=True)
    for path in (shelf / "abcd.json", folder / "exp" / "runs.json"):
        path.write_text(DEEP["lists.json"])
    (folder / "exp" / "index.json.gz").write_bytes(gzip.compress(DEEP["lists.json"].encode()))
    (folder / "exp" / "experiment.toml").write_text(DEEP["list.toml"])
    for words in (("table", "exp"), ("report", "exp", "--out", "r.html"), ("bench", "--resume", "exp")):
        done = within(*words, cwd=folder)
        assert done.returncode == 2, done
        assert "found" in done.stderr


@pytest.mark.parametrize("depth", [DEEPEST - 1, DEEPEST])
def test_what_is_not_too_deep_is_read(depth: int) -> None:
    text = "[" * depth + "]" * depth
    assert json.dumps(parse_json(text.encode(), "x")) == text
    brackets = '["' + "[{" * 5000 + '"]'
    assert parse_json(brackets.encode(), "x") == ["[{" * 5000]
    assert parse_toml(f"a = {text}".encode(), "x") if depth < DEEPEST else True
    with pytest.raises(InstanceError, match="nested too deeply"):
        parse_json(("[" * 3 * depth + "]" * 3 * depth).encode(), "x")


def test_wrong_toml_is_named_with_its_line() -> None:
    for content, message in (
        (b"a = 1\nb = \xff", "x:2: found bytes that are not UTF-8"),
        (b"a = 1\na = 2", "x:2: found no TOML: Cannot overwrite a value"),
        (b"a = " + b"9" * 5000, "x:1: found no TOML: Exceeds the limit"),
    ):
        with pytest.raises(InstanceError) as info:
            parse_toml(content, "x")
        assert str(info.value).startswith(message)


# -- large files -----------------------------------------------------------------------------------------


def test_what_a_gzip_file_unpacks_to_is_limited(folder: Path) -> None:
    content = json.dumps(GRAPH).encode() + b" " * 2_000_000
    (folder / "g.json.gz").write_bytes(gzip.compress(content))
    line = refused("show", "g.json.gz", "--unpack-limit", "1MiB", cwd=folder, run=within)
    assert line == (
        "g.json.gz: found a gzip file that unpacks to more than 1,048,576 B (1 MiB), "
        "expected at most that (--unpack-limit SIZE, or none)"
    )
    for limit in ("2MiB", "none"):
        assert within("show", "g.json.gz", "--unpack-limit", limit, cwd=folder).returncode == 0
    assert within("show", "g.json.gz", cwd=folder).returncode == 0
    (folder / "g.json").write_bytes(content)
    assert "a file of more than" in refused(
        "show", "g.json", "--unpack-limit", "1MiB", cwd=folder, run=within
    )


def test_the_limit_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "good.json"
    monkeypatch.setenv(UNPACK_VARIABLE, "10B")
    with pytest.raises(InstanceError, match=r"more than 10 B"):
        read_bytes(file)
    assert within("show", "good.json", "--unpack-limit", "1MiB", cwd=folder).returncode == 0
    with pytest.raises(InstanceError, match=r"more than 10 B"):  # the flag is for one command
        read_bytes(file)
    monkeypatch.setenv(UNPACK_VARIABLE, "much")
    with pytest.raises(UsageError, match=f"{UNPACK_VARIABLE}: size: found 'much'"):
        read_bytes(file)


# -- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "show good.json",
        "solve peak good.json --progress",
        "solve makespan good.json --processors 2",
        "solve offsets good.json",
        "verify good.json --order order.txt",
        "convert good.json out.json",
    ],
)
def test_names_are_shown_with_their_control_characters_written_out(folder: Path, words: str) -> None:
    done = within(*words.split(), cwd=folder)
    assert done.returncode == 0, done
    assert SHOWN in done.stdout
    for text in (done.stdout, done.stderr):
        assert not {"\x1b", "\x9b", "\u202e"} & {*text}
    machine = within(*words.split(), "--json", cwd=folder)
    assert not {"\x1b", "\x9b", "\u202e"} & {*machine.stdout}
    assert machine.stdout.count("\n") == 1
    assert (
        NAME in str(json.loads(machine.stdout).values())
        or NAME in json.loads(machine.stdout).values()
        or (repr(NAME)[1:-1] in str(json.loads(machine.stdout)))
    )


def test_errors_show_names_written_out_and_are_cut_in_the_middle(folder: Path) -> None:
    wrong = {**GRAPH, "ops": [{"name": "n" * 5000 + "\x1b", "writes": [0], "colour": 1}]}
    (folder / "bad.json").write_text(json.dumps(wrong))
    line = refused("show", "bad.json", cwd=folder, run=within)
    assert line.startswith("bad.json: op 0 'nnnn")
    assert " … " in line
    assert line.endswith("modes, name, reads, share, work, workspace, writes")
    assert len(line) <= LONGEST


FORMULAS = ["=1+1", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "'=1", "''-x", "=a b", '=a,b"c', "-"]
PLAIN = ["x", "-1", "+1.5e3", "'x", "3:=x@gpu@0", "'", "a=b"]


@pytest.mark.parametrize("name", [*FORMULAS, *PLAIN])
def test_cells_are_no_formulas_and_read_back_unchanged(tmp_path: Path, name: str) -> None:
    cell = as_cell(name)
    assert from_cell(cell) == name
    assert (cell == name) == (name in PLAIN)
    assert cell[0] not in "=@\t"
    ids = (name, f"{name} twin")
    buffers = lt.Buffers(
        buffers=tuple(lt.Buffer(id=i, lower=k, upper=k + 2, size=3, pool=name) for k, i in enumerate(ids)),
        inplace=(ids,),
    )
    write_csv(buffers, tmp_path / "b.csv")
    for row in csv.reader((tmp_path / "b.csv").read_text().splitlines()[1:]):
        for text in row:
            assert text[:1] not in ("=", "@", "\t")
    assert replace(read_csv(tmp_path / "b.csv"), name="") == buffers


def test_tables_of_hostile_instances(tmp_path: Path) -> None:
    run = {"problem": "peak", "method": "=cmd()", "status": "optimal", "objective": -3, "bound": -3}
    record = {**run, "instance": "=1+1", "seconds": {"total": 1.0}}
    (tmp_path / "r.jsonl").write_text(json.dumps(record) + "\n")
    done = within("table", "r.jsonl", "--format", "csv", "--value", "objective", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = list(csv.reader(done.stdout.splitlines()))
    assert rows[1][0] == "'=1+1"
    assert rows[0][1].startswith("'=cmd()")
    assert rows[1][1] == "-3"


def test_texts() -> None:
    assert printable("a\tb\x00\u2028c") == "a\\tb\\x00\\u2028c"
    assert printable("a\nb\n", keep="\n") == "a\nb\n"
    assert printable("Größe 12 µs 你好 😀") == "Größe 12 µs 你好 😀"
    assert escaped_json('"\x7f\x9b\u202e\ud800"') == '"\\u007f\\u009b\\u202e\\ud800"'
    assert json.loads(escaped_json('"\x7f\x9b\u202e"')) == "\x7f\x9b\u202e"
    assert one_line("a\n  b") == "a b"
    assert cut("x" * LONGEST) == "x" * LONGEST
    long = cut("a" * 500 + "b" * 500)
    assert len(long) == LONGEST
    assert (long[0], long[-1]) == ("a", "b")


# -- the shell around ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_closed_streams(folder: Path, closed: tuple[int, ...]) -> None:
    """No traceback, and nothing that is printed gets into the files that are written."""
    redirections = " ".join(f"{number}>&-" for number in closed)
    words = shlex.join(command("solve", "peak", "good.json", "--plan", "p.json", "--progress", "--json"))
    done = subprocess.run(
        f"{words} {redirections}", shell=True, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done
    assert "Traceback" not in done.stderr
    assert (done.stdout == "") == (1 in closed)
    assert within("verify", "p.json", cwd=folder).returncode == 0


@pytest.mark.parametrize("word", ["a\0b.json", "\udcff.json"])
def test_words_that_name_nothing(tmp_path: Path, word: str) -> None:
    assert refused("show", word, cwd=tmp_path, run=within).startswith(f"found {printable(repr(word))}, exp")


def test_nothing_is_written_that_could_not_be_read(tmp_path: Path) -> None:
    graph = lt.Graph(name="\ud800", tensors=(), ops=(lt.Op(name="f"),))
    with pytest.raises(InstanceError, match="expected JSON values"):
        write_graph(graph, tmp_path / "g.json")
    assert not (tmp_path / "g.json").exists()
    write_graph(replace(graph, name="😀"), tmp_path / "g.json")
    assert lt.load(tmp_path / "g.json").name == "😀"


RECORD = {
    **{"instance": "i", "problem": "peak", "method": "auto", "status": "optimal", "objective": 8, "bound": 8},
    **{"reason": None, "seconds": {"solve": 0.1}, "trace": [[0.1, 8, None]], "parameters": {}},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seconds", "x"),
        ("seconds", {"solve": "x"}),
        ("bound", 10**19),
        ("objective", True),
        ("reason", -1),
        ("trace", [[0.1]]),
        ("trace", [["x", 8, 8]]),
        ("parameters", []),
        ("verified", 1),
        ("name", {}),
    ],
)
def test_records_with_wrong_fields_are_left_out(tmp_path: Path, key: str, value: object) -> None:
    (tmp_path / "r.jsonl").write_text(f"{json.dumps(RECORD)}\n{json.dumps({**RECORD, key: value})}\n")
    done = within("table", "r.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"line 2: found {key}" in done.stderr
    assert "it is left out" in done.stderr
