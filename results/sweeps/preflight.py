"""Try methods with their parameters on a tiny instance, before anything is started.

A solver that is not installed, an option that a solver does not know and a value that a method refuses
show at once then, not in the middle of a sweep. Each solver library has a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...models.errors import BackendUnavailable, UsageError
from .runspec import Value, option_texts
from .supervise import child_environment

TINY = "catalogue:two-branches"
SECONDS = 30.0
"""All trials with one library; one that takes longer counts as good."""


class Trial(NamedTuple):
    """A method with parameters."""

    problem: str
    method: str
    parameters: Mapping[str, Value]


def complaints(trials: Sequence[Trial]) -> list[str | None]:
    """Return for each trial why it cannot be carried out, or None."""
    from ...solvers.registry import METHODS, find_method

    groups: dict[str | None, list[int]] = {}
    for i, trial in enumerate(trials):
        method = find_method(trial.problem, trial.method)
        if trial.parameters or method in METHODS:  # a user's method is not called without need
            groups.setdefault(method.engine, []).append(i)
    complaints: list[str | None] = [None] * len(trials)
    for places in groups.values():
        for place, text in zip(places, _try([trials[i] for i in places]), strict=False):
            complaints[place] = text
    return complaints


def _try(trials: Sequence[Trial]) -> list[str | None]:
    """Return what a process of its own says to the trials, as far as it came."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "lowtide.results.sweeps.preflight"],
            input=json.dumps(trials),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            text=True,
            check=False,
            env=child_environment(1),
        )
        text = done.stdout
    except subprocess.TimeoutExpired as error:
        text = (error.stdout or b"").decode() if not isinstance(error.stdout, str) else error.stdout
    return [json.loads(line[1:]) for line in text.splitlines() if line.startswith(">")]


def tried(trials: Iterable[tuple[str, str, Mapping[str, Value]]]) -> Iterator[str | None]:
    """Yield what is said to each trial, in this process."""
    from ...instances import load_problem
    from ...solvers.solve import solve

    for problem, method, parameters in trials:
        complaint = None
        try:
            options = option_texts(parameters)
            solve(load_problem(problem, TINY), method, time_limit=2, threads=1, options=options)
        except (UsageError, BackendUnavailable, ImportError) as error:
            complaint = str(error)
        yield complaint


def main() -> int:
    """Try what standard input lists; print one line for each trial."""
    for complaint in tried(json.load(sys.stdin)):
        print(">" + json.dumps(complaint), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
