"""Where output goes: pipes that close, terminals, progress; and what loading the program loads."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lowtide.__main__ import main
from lowtide.cli.progress import Progress, readable
from lowtide.models.errors import UsageError
from tests.commands import command, lowtide, within

HEAVY = [
    "numpy",
    "ortools",
    "highspy",
    "pyomo",
    "onnx",
    "matplotlib",
    "networkx",
    "pandas",
    "numba",
    "rich",
    "pydot",
    "torch",
]
WAIT = """
import sys, time
import lowtide.cli.progress as progress
from lowtide.__main__ import main
progress.DELAY = 0.0
with progress.Progress() as show:
    show("incumbent 2097152, bound 1048576")
    while show._display is None or not show._display.live.is_started:
        time.sleep(0.01)
sys.exit(main(["list", "problems"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("list",), ("list", "--json"), ("--help",), ("show", "gen:chain")])
def test_closed_pipe_is_quiet(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        command(*arguments), stdout=writer, stderr=subprocess.PIPE, cwd=tmp_path, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", ["--help", "--version", "solve --help", "verify --help", "list --help"])
def test_help_goes_to_standard_output(tmp_path: Path, arguments: str) -> None:
    run = lowtide if arguments == "--help" else within
    done = run(*arguments.split(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "lowtide" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("code", ["import lowtide", "from lowtide.__main__ import main; main(['--help'])"])
def test_import_and_help_load_no_heavy_package(tmp_path: Path, code: str) -> None:
    check = f"import sys; print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{check}"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "method"), [("peak", "cpsat"), ("peak", "milp"), ("parallel-memory", "lp")]
)
def test_answer_of_each_engine_is_one_object(tmp_path: Path, problem: str, method: str) -> None:
    done = lowtide("solve", problem, "catalogue:two-branches", "--method", method, "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["verified"], done.stderr
    assert done.stdout.count("\n") == 1


def on_a_terminal(*words: str) -> tuple[int, str]:
    """Run a command on a pseudo-terminal; return its status and what it wrote."""
    terminal, end = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(words, stdin=end, stdout=end, stderr=end, env=env, close_fds=True)
    os.close(end)
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(terminal)
    return process.wait(timeout=600), b"".join(parts).decode()


@pytest.mark.slow
def test_terminal_gets_drawn_tables_and_live_progress() -> None:
    pytest.importorskip("rich")
    status, text = on_a_terminal(sys.executable, "-c", WAIT)
    assert status == 0
    assert "incumbent 2 MiB, bound 1 MiB, gap 50.00 %" in text
    assert "\x1b[" in text
    assert "Minimum peak memory" in text


def test_progress_in_a_pipe_waits_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as show:
        show("incumbent 12")
    assert capsys.readouterr().err == ""
    with Progress(always=True) as show:
        show("incumbent 12")
        show("incumbent 11")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" s  ")[1] for line in lines] == ["incumbent 12 B", "incumbent 11 B"]
    with Progress(always=True, quiet=True) as show:
        show("incumbent 12")
    assert capsys.readouterr().err == ""


def test_progress_in_a_pipe_shows_what_lasts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = threading.Event()
    monkeypatch.setattr("lowtide.cli.progress.DELAY", 0.01)
    with Progress(unit="ns") as show:
        monkeypatch.setattr(show, "_print", lambda now: shown.set())
        show("incumbent 2500000")
        assert shown.wait(30)  # though no further news come
    assert (
        readable("part: incumbent 2048 bytes, bound 5 ns", "ns")
        == "part: incumbent 2 KiB, bound 5 ns, gap 99.76 %"
    )
    assert readable("incumbent 2500000, bound 12", "ns") == "incumbent 2.5 ms, bound 12 ns, gap 100.00 %"


def test_error_inside_progress_is_passed_on() -> None:
    with pytest.raises(UsageError, match="no"), Progress():
        raise UsageError("no")


@pytest.mark.slow
def test_full_disk_is_an_error_in_one_line(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("list", "problems"),
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", [["show"], ["solve", "peak"], ["convert"], ["verify"]])
def test_loading_says_so_once_it_takes_long(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("lowtide.cli.progress.DELAY", 0.0)
    (tmp_path / "order.txt").write_text("0\n1\n2\n")
    more = {"convert": [str(tmp_path / "x.json")], "verify": ["--order", str(tmp_path / "order.txt")]}
    assert main([*verb, "gen:chain?n=3", *more.get(verb[0], [])]) == 0
    assert "loading gen:chain?n=3" in capsys.readouterr().err
