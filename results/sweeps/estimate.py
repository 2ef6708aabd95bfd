"""How long the rest of an experiment takes: from the runs that are done, else at most their limits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .runspec import RunSpec

START_SECONDS = 1.0
"""What a run takes beyond its limit: its process, its instance, the verifier."""
UNLIMITED_SECONDS = 60.0
"""What is assumed of a run without a time limit of which nothing is known."""

Kind = tuple[str, str, float | None]
"""Problem, method and time limit: runs that are alike."""


class Estimate(NamedTuple):
    """Seconds of work of one slot, and whether every kind of run has been seen."""

    seconds: float
    seen: bool


class Estimator:
    """Counts runs by kind, and the seconds of those that are done."""

    def __init__(self, left: Iterable[RunSpec], done: Iterable[Mapping[str, Any]]) -> None:
        self.left: Counter[Kind] = Counter(map(_kind, left))
        self._count: Counter[Kind] = Counter()
        self._seconds: defaultdict[Kind, float] = defaultdict(float)
        for record in done:
            self._learn((record["problem"], record["method"], record["limits"]["seconds"]), record)

    def finish(self, run: RunSpec, record: Mapping[str, Any] | None) -> None:
        """Take a run off; its record, if this process made it, tells how long such runs take."""
        kind = _kind(run)
        self.left[kind] -= 1
        if record is not None:
            self._learn(kind, record)

    def expected(self, kind: Kind) -> float:
        """Return the seconds that a run of a kind takes: the mean of those that are done, else its limit."""
        if count := self._count[kind]:
            return self._seconds[kind] / count
        return START_SECONDS + (UNLIMITED_SECONDS if kind[2] is None else kind[2])

    def rest(self) -> Estimate:
        """Return the seconds that the runs that are left take, one after another."""
        kinds = [kind for kind, count in self.left.items() if count]
        seconds = sum((self.left[kind] * self.expected(kind) for kind in kinds), 0.0)
        return Estimate(seconds, all(self._count[kind] for kind in kinds))

    def _learn(self, kind: Kind, record: Mapping[str, Any]) -> None:
        if (seconds := record["seconds"]["total"]) is not None:
            self._count[kind] += 1
            self._seconds[kind] += seconds


def _kind(run: RunSpec) -> Kind:
    return run.problem, run.method, run.limits.seconds
