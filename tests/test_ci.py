"""What runs elsewhere is what `.ci/run` runs: all of its parts, with actions that cannot change."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN = (ROOT / ".ci/run").read_text()
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()


def test_the_workflow_runs_all_parts() -> None:
    (parts,) = re.findall(r"\|\| set -- (.*)", RUN)
    (matrix,) = re.findall(r"^ +part: \[(.*)\]", WORKFLOW, re.MULTILINE)
    further = re.findall(r"part: ([\w-]+) }", WORKFLOW)
    assert sorted([*matrix.split(", "), *further]) == sorted(parts.split())


def test_actions_are_pinned_to_commits() -> None:
    used = re.findall(r"uses: (\S+)", WORKFLOW)
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name) for name in used)


def test_an_unknown_part_is_refused() -> None:
    done = subprocess.run([ROOT / ".ci/run", "tests"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "found tests, expected test, lint" in done.stderr
