"""Rows that are made again: a sample, drawn by the hash of the commit, of what no plan shows.

Drawn from: rows of methods that give the same objective whenever they run (``again = true`` in
``tables.toml``), witnesses that say how they are made (`lowtide.results.audits.witnesses`), and witnesses
that say OPTIMAL about problems that have no certificates. Who changes a table does not know which rows the
hash of the next commit draws.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...models.errors import LowtideError
from ...models.result import Status
from .claims import Claim, is_maximized
from .findings import Audit, about
from .recheck import problem_of

MOST_SECONDS = 30.0
"""Seconds that one row may take; a row that takes longer is left out, and the next one is drawn."""


def make_again(
    claims: Sequence[Claim],
    audit: Audit,
    seconds: float,
    draw: str,
    progress: Callable[[str], None] = lambda line: None,
) -> None:
    """Solve a sample again until the seconds are over, and add what comes out otherwise.

    Parameters
    ----------
    draw
        What the sample is drawn by: a text, such as `commit_of` returns.
    """
    from ...solvers.registry import ROOMS

    pool = [c for c in claims if c.objective is not None and _is_drawn(c, ROOMS)]
    pool.sort(key=lambda c: (c.problem, c.sha256, c.method, str(c)))
    random.Random(draw).shuffle(pool)
    deadline = time.monotonic() + seconds
    for claim in pool:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        progress(f"again: {claim}")
        for kind, message in _made(claim, min(left, MOST_SECONDS), audit):
            audit.contradictions.append(about(kind, message, [claim]))


def commit_of(folder: Path) -> str:
    """Return the hash of the commit that is checked out there, or of nothing where there is none."""
    call = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(call, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def _is_drawn(claim: Claim, rooms: object) -> bool:
    rooms_by_name = dict(rooms)  # type: ignore[call-overload]
    room = rooms_by_name.get(claim.problem)
    if room is None or claim.method not in {method.name for method in room.methods}:
        return False
    if claim.again or claim.made is not None:
        return True
    return claim.witness and claim.status is Status.OPTIMAL and not room.certify


def _made(claim: Claim, seconds: float, audit: Audit) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a claim, once its method has run again."""
    from ...solvers.solve import solve

    made = claim.made or {}
    try:
        problem = problem_of(claim, {})
        result = solve(
            problem,
            claim.method,
            threads=1,
            time_limit=seconds,
            seed=made.get("seed", 0),
            options=claim.parameters,
        )
    except LowtideError as error:
        yield "again-differs", f"{claim.method} cannot run again: {error}"
        return
    if result.reason is not None:  # it did not run to its end here
        return
    audit.again += 1
    assert claim.objective is not None
    if result.objective is None:
        yield "again-differs", f"made again, there is no answer, the record says {claim.objective}"
        return
    worse = result.objective - claim.objective
    worse = -worse if is_maximized(claim.problem) else worse
    if worse > 0 or (claim.again and worse):
        yield (
            "again-differs",
            f"made again, the objective is {result.objective}, the record says {claim.objective}",
        )
    if claim.status is Status.OPTIMAL and not claim.again and result.status is not Status.OPTIMAL:
        yield "again-differs", f"made again, it is {result.status}, the record says {claim.status}"
