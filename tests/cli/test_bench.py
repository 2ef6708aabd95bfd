"""lowtide bench and lowtide job: what they print, write and refuse."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lowtide.cli.progress import SweepProgress, clock
from lowtide.models.errors import UsageError
from lowtide.results.sweeps.folder import read_runs, write_runs
from lowtide.results.sweeps.job import run_job
from lowtide.results.sweeps.local import RunEvent
from tests.commands import (
    answer,
    command,
    contents,
    lowtide,
    refused,
    users_methods,
    within,
    without_progress,
)
from tests.run_records import random_records
from tests.sweep_methods import records_of

TEXT = """\
[limits]
seconds = 20
[[runs]]
problem = "peak"
instances = ["catalogue:diamond", "catalogue:two-branches"]
methods = ["greedy", "beam"]
"""
PLANS = Path(__file__).parents[2] / "results" / "plans"
LARGE = {"offsets", "peak_compilers"}
"""Plans whose instances take seconds to load."""


@pytest.fixture
def experiment(tmp_path: Path, trials_here: None) -> Path:
    (tmp_path / "exp.toml").write_text(TEXT)
    return tmp_path


@pytest.mark.slow
def test_bench_runs_everything_once(experiment: Path) -> None:
    found = answer("bench", "exp.toml", "--out", "out", "--jobs", "2", "--quiet", cwd=experiment)
    seconds = found.pop("seconds")
    assert seconds > 0
    statuses = {"feasible": 2, "optimal": 2}
    expected = {"out": "out", "runs": 4, "done": 4, "finished": 4, "statuses": statuses, "interrupted": False}
    assert found == expected
    records = records_of(experiment / "out")
    assert [*sorted(records)] == sorted(run.name for run in read_runs(experiment / "out"))
    assert (experiment / "out" / "experiment.toml").read_text() == TEXT
    before = contents(experiment / "out" / "records")
    again = answer("bench", "exp.toml", "--out", "out", "--quiet", cwd=experiment)
    assert (again["done"], again["finished"]) == (4, 0)
    assert contents(experiment / "out" / "records") == before


@pytest.mark.slow
def test_more_runs_later(experiment: Path) -> None:
    within("bench", "exp.toml", "--out", "out", "--quiet", cwd=experiment)
    (experiment / "exp.toml").write_text(TEXT.replace('"beam"', '"reference"'))
    done = within("bench", "exp.toml", "--out", "out", "--quiet", "--json", cwd=experiment)
    assert "out: 2 records of other runs stay there" in done.stderr
    assert json.loads(done.stdout)["finished"] == 2
    assert len(records_of(experiment / "out")) == 6


@pytest.mark.slow
def test_best_known_file_only_improves(experiment: Path) -> None:
    (experiment / "exp.toml").write_text("[experiment]\nsave_plans = true\n" + TEXT)
    better = ("--update-best-known", "--best-known", "best.json")
    done = within("bench", "exp.toml", "--out", "out", "--quiet", *better, cwd=experiment)
    assert "catalogue:diamond: peak bound nothing -> 8 (beam)" in done.stderr
    best = json.loads((experiment / "best.json").read_text())
    assert sorted(entry["objective"]["value"] for entry in best["entries"]) == [8, 12]
    done = within("bench", "--resume", "out", "--quiet", *better, cwd=experiment)
    assert "nothing is better" in done.stderr
    assert json.loads((experiment / "best.json").read_text()) == best


@pytest.mark.slow
def test_dry_run_lists_the_runs_and_writes_nothing(experiment: Path) -> None:
    before = contents(experiment)
    done = within("bench", "exp.toml", "--dry-run", "--jobs", "2", cwd=experiment)
    assert contents(experiment) == before
    assert done.stdout.count("to do") == 4 + 1
    assert done.stdout.endswith(
        "4 of 4 runs to do: beam 2, greedy 2\nat most about 0:00:42 with 2 at a time\n"
    )
    found = answer("bench", "exp.toml", "--dry-run", "--out", "out", cwd=experiment)
    assert (len(found["runs"]), len(found["pending"]), found["seconds"]) == (4, 4, 84)
    assert contents(experiment) == before


@pytest.mark.slow
def test_prepared_folder_is_worked_off_by_jobs(experiment: Path) -> None:
    done = within("bench", "exp.toml", "--out", "out", "--prepare", "--quiet", cwd=experiment)
    assert (done.returncode, records_of(experiment / "out")) == (0, {})
    names = answer("bench", "--resume", "out", "--dry-run", cwd=experiment)["pending"]
    found = answer("job", "out", *names[:2], cwd=experiment)
    assert [record["name"] for record in found["records"]] == names[:2]
    assert within("job", "out", names[2], "--here", cwd=experiment).returncode == 0
    assert {*records_of(experiment / "out")} == {*names[:3]}
    assert answer("bench", "--resume", "out", "--dry-run", cwd=experiment)["pending"] == names[3:]
    # A name that is done already is left alone.
    before = contents(experiment / "out" / "records")
    assert within("job", "out", names[0], cwd=experiment).returncode == 0
    assert contents(experiment / "out" / "records") == before


@pytest.mark.slow
def test_job_of_a_file(tmp_path: Path) -> None:
    run = {"instance": "catalogue:diamond", "problem": "peak", "method": "beam", "limits": {"seconds": 20}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    before = contents(tmp_path)
    found = answer("job", "run.json", cwd=tmp_path)
    assert (found["status"], found["objective"], found["log"]) == ("optimal", 8, None)
    assert contents(tmp_path) == before
    found = answer("job", "run.json", "--out", "out", cwd=tmp_path)
    assert records_of(tmp_path / "out") == {found["name"]: found}


def test_bad_experiment_starts_and_writes_nothing(experiment: Path) -> None:
    (experiment / "exp.toml").write_text(TEXT.replace("greedy", "gredy").replace("seconds", "second"))
    before = contents(experiment)
    done = within("bench", "exp.toml", "--out", "out", cwd=experiment)
    assert (done.returncode, done.stdout) == (2, "")
    lines = without_progress(done.stderr).splitlines()
    assert [line.startswith("lowtide: error: exp.toml:") for line in lines] == [True, True]
    assert "2: limits, second: found an unknown key, did you mean seconds?" in lines[0]
    assert "6: runs 1, methods 1: found 'gredy', did you mean greedy" in lines[1]
    assert contents(experiment) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "found neither, expected EXPERIMENT.toml or --resume DIR"),
        (("exp.toml",), "found no --out, expected --out DIR"),
        (("exp.toml", "--resume", "out"), "found both"),
        (("exp.toml", "--out", "out", "--join"), "found --join without --resume"),
        (("exp.toml", "--out", "o", "--best-known", "b"), "found --best-known without --update-best-known"),
        (("--resume", "."), "found no runs.json"),
        (("--resume", "."), "expected the folder of an experiment"),
        (("exp.toml", "--out", "."), "found 'exp.toml' in it, expected a new or empty folder"),
        (("exp.toml", "--out", "exp.toml"), "found a file, expected a folder"),
        (("exp.toml", "--out", "exp.toml/x"), "expected a folder that can be made"),
        (("exp.toml", "--out", "o", "--retry", "optimal"), "invalid choice: 'optimal'"),
        (("exp.toml", "--out", "o", "--jobs", "0"), "expected an integer >= 1"),
    ],
)
def test_usage(experiment: Path, words: tuple[str, ...], message: str) -> None:
    assert message in refused("bench", *words, cwd=experiment, run=within)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere",), "found no such file"),
        ((".",), "found no names"),
        ((".", "abc"), "found no runs.json"),
        (("exp.toml",), "expected JSON"),
        (("exp.toml", "abc"), "found no folder, expected that of an experiment"),
        ((".", "abc", "--out", "o"), "found --out"),
    ],
)
def test_usage_of_job(experiment: Path, words: tuple[str, ...], message: str) -> None:
    assert message in refused("job", *words, cwd=experiment, run=within)


def test_runs_of_other_sources_are_not_carried_out(experiment: Path) -> None:
    within("bench", "exp.toml", "--out", "out", "--prepare", cwd=experiment)
    runs = experiment / "out" / "runs.json"
    write_runs(runs.parent, [replace(run, source_hash="0" * 16) for run in read_runs(runs.parent)])
    line = refused("bench", "--resume", "out", cwd=experiment, run=within)
    assert "planned with other solver sources (0000000000000000, now" in line
    with pytest.raises(UsageError, match="other solver sources"):
        run_job(runs.parent, read_runs(runs.parent)[0].name)


def test_too_many_threads_are_remarked(experiment: Path) -> None:
    (experiment / "exp.toml").write_text(TEXT.replace("seconds = 20", "seconds = 20\nthreads = 500"))
    done = within("bench", "exp.toml", "--dry-run", "--jobs", "3", cwd=experiment)
    assert re.search(r"3 jobs of 500 threads share \d+ cores", done.stderr)


@pytest.mark.slow
def test_failed_run_exits_1_and_names_its_log(experiment: Path) -> None:
    within("bench", "exp.toml", "--out", "out", "--prepare", "--quiet", cwd=experiment)
    out = experiment / "out"
    runs = read_runs(out)[:2]
    write_runs(out, [replace(runs[0], instance_sha256="0" * 64), runs[1]])
    done = within("bench", "--resume", "out", "--quiet", cwd=experiment)
    assert done.returncode == 1
    assert re.search(
        r"failed: \w+ catalogue:\S+: instance .* found sha256 .*out/logs/../\w+\.log", done.stderr
    )
    assert "failed 1" in done.stdout


def test_plain_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = list(random_records(8, methods=("greedy",)))
    runs = [run for run, _ in pairs]
    with SweepProgress(runs, [], jobs=2) as progress:
        for run, record in pairs:
            progress(RunEvent("started", run))
            progress(RunEvent("finished", run, record))
    lines = capsys.readouterr().err.splitlines()
    assert re.match(r"lowtide: 1/8  peak greedy width=16 gen:layered\S+ seed 0: \w+ in .* s; about", lines[0])
    assert lines[-1].startswith("lowtide: 8/8  ")
    assert lines[-1].endswith("took 0:00:00")
    assert len(lines) == 2


@pytest.mark.slow
def test_terminal_shows_bar_runs_and_time_left(experiment: Path) -> None:
    pytest.importorskip("rich")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("bench", "exp.toml", "--out", "out"),
        cwd=experiment,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(ours)
    assert process.wait(60) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert "0/4" in text
    assert "4/4" in text
    assert "left" in text
    assert re.search(r"peak (greedy|beam) catalogue:\S+ seed 0 +\d+ of 20 s", text)
    assert "feasible 2  optimal 2" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LARGE else [])
        for path in sorted(PLANS.glob("*.toml"))
    ],
)
def test_committed_experiments_can_be_read(path: Path) -> None:
    pytest.importorskip("onnx")
    found = answer("bench", path, "--dry-run", cwd=path.parent)
    assert found["pending"], path


def test_clock() -> None:
    assert [clock(s) for s in (0, 59.6, 3661)] == ["0:00:00", "0:01:00", "1:01:01"]


@pytest.mark.slow
def test_resuming_says_which_finished_runs_are_of_other_code(experiment: Path, tmp_path: Path) -> None:
    env = users_methods(tmp_path / "site")
    (experiment / "exp.toml").write_text(TEXT.replace('"beam"', '"user-backwards"'))
    lowtide("bench", "exp.toml", "--out", "out", "--quiet", cwd=experiment, env=env)
    resume = ("bench", "--resume", "out", "--quiet")
    assert "has changed" not in lowtide(*resume, cwd=experiment, env=env).stderr
    with (tmp_path / "site" / "user_methods.py").open("a") as file:
        file.write("# changed\n")
    done = lowtide(*resume, cwd=experiment, env=env)
    assert "the code of user-backwards has changed since they ran" in done.stderr
