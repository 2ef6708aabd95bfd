"""``lowtide solve PROBLEM``: each problem has its own flags, wherever it stands among them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lowtide.models.problems import PROBLEMS
from tests.commands import answer, refused, within

SPEC = "gen:chain?n=4&seed=1"

OWN = {
    "peak": {"--certificate", "--certificate-limit"},
    "offsets": {"--capacity"},
    "placement": {
        "--machine",
        "--device",
        "--host",
        "--periodic",
        "--whole",
        "--order",
        "--recompute",
        "--addresses",
        "--page",
        "--start",
        "--certificate",
        "--certificate-limit",
    },
    "makespan": {"--machine", "--processors", "--memory", "--sweep-memory", "--plot"},
    "arena": {"--alignment", "--certificate", "--certificate-limit"},
    "distributed": {"--machine", "--processors", "--memory"},
    "parallel-memory": {
        "--processors",
        "--bound",
        "--apply",
        "--simulate",
        "--certificate",
        "--certificate-limit",
    },
    "recompute": {"--memory", "--slots", "--machine", "--addresses", "--page", "--sweep-memory", "--plot"},
    "minio": {"--memory", "--whole"},
    "pipeline": {"--memory", "--objective", "--stages", "--micro"},
    "partition": {
        "--processors",
        "--memory",
        "--link",
        "--contiguous",
        "--schedule",
        "--micro",
        "--recompute",
        "--replicate",
        "--sync",
        "--objective",
    },
    "hybrid": {
        "--processors",
        "--memory",
        "--link",
        "--micro",
        "--replicate",
        "--tensor",
        "--recompute",
    },
    "sharding": set(),
    "tiles": {"--raster", "--pointwise", "--place"},
    "streams": {"--streams", "--contention", "--parts", "--sync-ns", "--memory", "--link"},
}
OWN["memory-edges"] = OWN["parallel-memory"]
EVERY = {flag for flags in OWN.values() for flag in flags}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_help_shows_the_flags_of_the_problem_alone(problem: str, tmp_path: Path) -> None:
    done = within("solve", problem, "--help", cwd=tmp_path)
    assert done.returncode == 0
    shown = set(re.findall(r"--[a-z-]+", done.stdout.partition("usage:")[2].partition("\n\n")[0]))
    assert {"--method", "--time-limit", "--hint", "--json", "--progress", "--quiet"} <= shown
    assert shown & EVERY == OWN[problem]


def test_help_names_every_problem(tmp_path: Path) -> None:
    shown = within("solve", "--help", cwd=tmp_path).stdout
    assert all(f"\n    {problem} " in shown for problem in PROBLEMS)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_flags_of_others_are_refused_with_their_owners(problem: str, tmp_path: Path) -> None:
    for flag in sorted(EVERY - OWN[problem] - {"--parts"}):  # a second name of --show-parts, but with streams
        owners = " or ".join(name for name in PROBLEMS if flag in OWN[name])
        expected = f"solve: found {flag} with problem {problem}, expected it with {owners}"
        assert refused("solve", problem, SPEC, flag, "1", cwd=tmp_path) == expected


def test_parts_are_those_of_the_method_but_for_streams(tmp_path: Path) -> None:
    for flag in ("--parts", "--show-parts"):
        assert "reference order |" in within("solve", "peak", SPEC, flag, cwd=tmp_path).stdout
    for problem in PROBLEMS:
        assert ("--show-parts, --parts" in within("solve", problem, "--help", cwd=tmp_path).stdout) is (
            problem != "streams"
        )
    found = answer("solve", "streams", SPEC, "--parts", "3", cwd=tmp_path)
    assert found["status"] == "optimal"


def test_options_may_stand_before_the_problem(tmp_path: Path) -> None:
    behind = answer("solve", "makespan", SPEC, "--processors", "2", "--method", "cpsat", cwd=tmp_path)
    before = answer("solve", "--method", "cpsat", "--processors", "2", "makespan", SPEC, cwd=tmp_path)
    assert [before[key] for key in ("problem", "method", "objective", "instance")] == [
        behind[key] for key in ("problem", "method", "objective", "instance")
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("peek", SPEC), "problem: found 'peek', did you mean peak or pipeline?"),
        (("--methd", "cpsat", "peak", SPEC), "solve: found unknown option '--methd', did you mean --method"),
        (("peak", SPEC, "--sede", "1"), "solve: found unknown option '--sede', did you mean --seed"),
        ((), "solve: the following arguments are required: PROBLEM"),
        (("peak",), "solve: the following arguments are required: spec"),
        (("makespan", SPEC, "--memory", "x"), "solve: argument --memory: found 'x', expected bytes such as"),
        (("hybrid", SPEC, "--link", "50%"), "solve: argument --link: found '50%', expected bytes such as"),
        (("hybrid", f"{SPEC}&link=50%"), f"instance '{SPEC}&link=50%', option link: found \"50%\", expected"),
    ],
)
def test_wrong_words_are_named(arguments: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    assert refused("solve", *arguments, cwd=tmp_path).startswith(expected)
