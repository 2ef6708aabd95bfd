"""Other solvers: they read exported models, and write solutions."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

FILES: dict[str, Sequence[str]] = {
    "glpsol": ("glpsol", "{model}", "-o", "{solution}"),
    "glpsol raw": ("glpsol", "{model}", "-w", "{solution}"),
    "cbc": ("cbc", "{model}", "solve", "solu", "{solution}"),
    "highs": (),
}
"""Commands that read a model and write its solution; HiGHS is called as a library."""


def solve_elsewhere(solver: str, model: Path, solution: Path) -> float | None:
    """Have a solver read a model and write its solution; return the optimum, None without or unless HiGHS."""
    if solver == "highs":
        import highspy

        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.resetGlobalScheduler(True)
        highs.setOptionValue("mip_rel_gap", 0.0)
        assert highs.readModel(str(model)) == highspy.HighsStatus.kOk
        highs.run()
        highs.writeSolution(str(solution), 0)
        optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return float(highs.getObjectiveValue()) if optimal else None
    words = [word.format(model=model, solution=solution) for word in FILES[solver]]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return None
