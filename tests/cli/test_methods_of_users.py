"""Methods of users join through an entry point; whatever they do, the record says the truth."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lowtide.solvers.registry import registered
from tests.commands import answer, command, lowtide, refused, users_methods, within

SOLVE = ("solve", "peak", "catalogue:two-branches")


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Return the environment in which they are installed."""
    return users_methods(tmp_path / "site")


@pytest.fixture
def joined(installed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install them here, too."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    registered.cache_clear()
    yield
    registered.cache_clear()
    sys.modules.pop("user_methods", None)


@pytest.mark.slow
def test_users_method_is_listed_and_solves(tmp_path: Path, installed: dict[str, str]) -> None:
    listed = answer("list", "methods", cwd=tmp_path, env=installed)["methods"]
    (mine,) = [row for row in listed if row["name"] == "user-backwards"]
    assert (mine["problem"], mine["summary"]) == ("peak", "As late as possible.")
    found = answer(*SOLVE, "--method", "user-backwards", cwd=tmp_path, env=installed)
    assert found["versions"]["user-methods"] == "1.0"
    assert (found["status"], found["verified"]) == ("feasible", True)


@pytest.mark.parametrize(
    ("method", "reason", "words"),
    [
        ("user-crash", "crash", "ValueError: no such luck"),
        ("user-wrong", "crash", "precedence"),
        ("user-boastful", None, "above the verified objective"),
    ],
)
@pytest.mark.usefixtures("joined")
def test_failed_exits_1(tmp_path: Path, method: str, reason: str | None, words: str) -> None:
    found = answer(*SOLVE, "--method", method, cwd=tmp_path, status=1)
    assert (found["status"], found["reason"]) == ("failed", reason)
    assert words in found["detail"]


@pytest.mark.usefixtures("joined")
def test_infeasible_exits_1_and_nothing_to_show_0(tmp_path: Path) -> None:
    found = answer(*SOLVE, "--method", "user-impossible", cwd=tmp_path, status=1)
    assert (found["status"], found["objective"]) == ("infeasible", None)
    found = answer(*SOLVE, "--method", "user-gives_up", "--plan", "p.json", cwd=tmp_path)
    assert (found["status"], found["plan"]) == ("unknown", None)
    assert not (tmp_path / "p.json").exists()


@pytest.mark.slow
def test_what_a_library_prints_stays_out_of_the_answer(tmp_path: Path, installed: dict[str, str]) -> None:
    done = lowtide(*SOLVE, "--method", "user-chatty", "--json", cwd=tmp_path, env=installed)
    assert json.loads(done.stdout)["status"] == "feasible"
    assert set(done.stderr.splitlines()) == {"at once", "held back until the process ends"}


def interrupted(folder: Path, env: dict[str, str], method: str) -> subprocess.CompletedProcess[str]:
    """Run a method that waits, and press Ctrl-C once it does."""
    process = subprocess.Popen(
        command(*SOLVE, "--method", method, "--plan", "p.json", "--json"),
        cwd=folder,
        env={**env, "PATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A background job may have been started with the signal ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    ready = process.stderr.readline()
    assert ready == "ready\n", ready + process.stderr.read()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess([], process.returncode, out, err)


@pytest.mark.slow
def test_ctrl_c_keeps_the_incumbent(tmp_path: Path, installed: dict[str, str]) -> None:
    done = interrupted(tmp_path, installed, "user-patient")
    assert (done.returncode, done.stderr) == (0, "")
    record = json.loads(done.stdout)
    assert (record["status"], record["reason"], record["objective"]) == ("feasible", "interrupted", 16)
    assert within("verify", "p.json", cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_ctrl_c_without_an_incumbent_exits_130(tmp_path: Path, installed: dict[str, str]) -> None:
    done = interrupted(tmp_path, installed, "user-empty_handed")
    assert done.returncode == 130
    assert json.loads(done.stdout)["status"] == "unknown"
    assert not (tmp_path / "p.json").exists()


@pytest.mark.usefixtures("joined")
def test_an_entry_point_that_is_wrong_harms_no_other_method(tmp_path: Path) -> None:
    points = tmp_path / "site" / "user_methods-1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text() + "gone = no_such_module:f\nnumber = user_methods:__name__\n")
    assert answer(*SOLVE, "--method", "user-backwards", cwd=tmp_path)["status"] == "feasible"
    listed = within("list", "methods", "--json", cwd=tmp_path)
    assert {"user-backwards", "greedy"} <= {row["name"] for row in json.loads(listed.stdout)["methods"]}
    assert "entry point gone = no_such_module:f: found ModuleNotFoundError" in listed.stderr
    for name, words in (("gone", "ModuleNotFoundError"), ("number", "expected a function")):
        assert words in refused(*SOLVE, "--method", name, cwd=tmp_path)
