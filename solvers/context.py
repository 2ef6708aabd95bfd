"""What a method is given while it runs, and where it leaves what it finds.

A method calls `Context.offer` for each better answer and `Context.raise_bound` for each better proved
bound, as soon as it has them: an interrupted or crashed method loses nothing, and the trace is the same
for every method. What the context holds is a claim; `solve` has the verifier judge it.

Threads may share a context: what they offer and prove is compared and taken under its lock, and nothing is
taken any more once `solve` judges (`end`).
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..models.problems.problem import Judgement, Problem
from ..models.result import TracePoint


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a method ended.

    Attributes
    ----------
    reason
        Why it stopped without a proof: "time", "memory", "interrupted"; None if it ended by itself.
    infeasible
        It proved that there is no plan.
    detail
        The solver's own words, or a remark for people.
    facts
        Numbers that tables need, by name.
    """

    reason: str | None = None
    infeasible: bool = False
    detail: str = ""
    facts: Mapping[str, int] = field(default_factory=dict)


@dataclass(kw_only=True)
class Context:
    """Limits, options and the best that is known; one per solve, for one problem.

    Attributes
    ----------
    problem, method
        What is solved, and the name of the method that runs; empty where `solve` did not call it.
    time_limit
        Seconds from `started`; None for no limit.
    kept_back
        Seconds of these in which the answer is judged after the method has ended.
    seed, threads
        For everything random; for every solver.
    memory_limit
        Bytes that the method may use, or None.
    options
        The method's own options by name, typed: given, or by default.
    engine_options
        All others that were given (``--solver-option``), as text: the engine's.
    log
        File to which the solver's own log goes, or None.
    progress
        Called with one line of text now and then.
    answer, incumbent
        The best answer, as `Problem.read` returns it, and its objective; None while there is none.
    bound, proof, bound_kind, evidence
        The best proved bound; "exact" or "floating"; what proved it, as `Result.bound_kind` says; what a
        certificate of it can be made from, or None.
    exact
        The best bound whose proof is exact, its kind and evidence; None while there is none.
    build_seconds, bound_seconds
        Of building solver models, written by the method; of the room's cheap bound. None if there are none.
    careful
        Whether the verifier judges each better answer before it is taken. For methods that combine others,
        or that know no general proof that their answers are valid ones: what is taken then stays.
    models
        Variables and constraints of each model that an engine was given, those of parts of the work too.
    judgement, refused
        Of the incumbent, and why the answer that was offered last was not taken, if the context is careful.
    longest
        Seconds of the longest `attempt`, by its work.
    lock
        Held while an answer or a bound is compared with the best one and takes its place.
    ended
        Whether answers and bounds come too late.
    done
        Steps that have been carried out and need not be repeated.
    """

    problem: Problem
    method: str = ""
    time_limit: float | None = None
    kept_back: float = 0.0
    seed: int = 0
    threads: int = 1
    memory_limit: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    engine_options: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    progress: Callable[[str], None] = lambda line: None
    started: float = field(default_factory=time.perf_counter)
    answer: Any = None
    incumbent: int | None = None
    bound: int | None = None
    proof: str | None = None
    bound_kind: str | None = None
    evidence: Any = None
    exact: tuple[int, str | None, Any] | None = None
    build_seconds: float | None = None
    bound_seconds: float | None = None
    models: list[tuple[int, int]] = field(default_factory=list)
    careful: bool = False
    judgement: Judgement | None = None
    refused: str = ""
    longest: float = 0.0
    trace: list[TracePoint] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    ended: bool = False
    done: set[str] = field(default_factory=set)

    def inner(self, problem: Problem, seconds: float, prefix: str, turn: int = 0) -> Context:
        """Return the context of a part of the work: another problem, at most so many seconds, same limits.

        `turn` is added to the seed.
        """
        return Context(
            problem=problem,
            method=self.method,
            time_limit=None if math.isinf(seconds) else min(seconds, self.remaining()),
            seed=self.seed + turn,
            threads=self.threads,
            memory_limit=self.memory_limit,
            options=self.options,
            engine_options=self.engine_options,
            log=self.log,
            models=self.models,
            progress=lambda line: self.progress(f"{prefix}{line}"),
        )

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.started

    def remaining(self) -> float:
        """Return the seconds left for the method, at least 0; infinite without a limit."""
        return max(0.0, self.ends - self.elapsed())

    @property
    def ends(self) -> float:
        """Seconds after the start at which the method has to end; infinite without a limit."""
        return math.inf if self.time_limit is None else self.time_limit - self.kept_back

    @property
    def expired(self) -> bool:
        """Whether the time is up."""
        return self.remaining() <= 0

    @contextmanager
    def attempt(self, times: float = 1.0) -> Iterator[None]:
        """Take the time of a step that nothing stops once it has begun, of so many `times` the usual work."""
        began = self.elapsed()
        yield
        self.longest = max(self.longest, (self.elapsed() - began) / times)

    def late(self, times: float = 1.0) -> bool:
        """Return whether the time is up, or would be in another attempt, as the longest one was."""
        return self.remaining() <= times * self.longest

    @property
    def closed(self) -> bool:
        """Whether nothing is left to do: the bound has met the incumbent, or that one is good enough."""
        if self.incumbent is None:
            return False
        return self.incumbent == self.bound or self.problem.satisfied(self.incumbent)

    def offer(self, item: object) -> int:
        """Take an answer as incumbent if it is the best so far; return its objective.

        A careful context takes it only if the verifier finds it valid.

        Raises
        ------
        InstanceError
            If it is no answer to the problem: a defect of the method.
        """
        self.refused = ""
        answer = self.problem.read(item)
        value = self.problem.evaluate(answer)
        if not self._is_better(value):
            return value
        judgement = self.problem.judge(answer) if self.careful else None
        if judgement is not None and judgement.violations:
            self.refused = f"a plan does not verify: {judgement.violations[0].message}"
            return value
        with self.lock:
            if taken := self._is_better(value):
                self.answer, self.incumbent, self.judgement = answer, value, judgement
                self._note()
        if taken:
            self._tell()
        return value

    def raise_bound(
        self,
        value: int,
        proof: str = "exact",
        *,
        kind: str | None = None,
        evidence: Any = None,
        averages: bool = False,
    ) -> None:
        """Take a proved lower bound (an upper one if the objective is maximized) if it is the best so far.

        Parameters
        ----------
        value
            In the unit of the problem.
        proof
            "exact" for integer reasoning, "floating" for that of a MILP solver.
        kind
            What proved it, in a few words that people and tables show; None if the method does not say.
        evidence
            What a certificate can be made from without proving it once more, or None.
        averages
            Whether it bounds the average of several plans, too; whoever proves it knows
            (`lowtide.solvers.placement.replicas.share`).
        """
        with self.lock:
            if self.ended:
                return
            if proof == "exact" and (self.exact is None or self._is_above(value, self.exact[0])):
                self.exact = value, kind, evidence
            if taken := self.bound is None or self._is_above(value, self.bound):
                self.bound, self.proof, self.bound_kind, self.evidence = value, proof, kind, evidence
                self._note()
        if taken:
            self._tell()

    def end(self) -> None:
        """Take nothing any more: a thread that still runs must not change what is judged."""
        with self.lock:
            self.ended = True

    def drop_floating(self, objective: int) -> None:
        """Fall back on the best exact bound: a verified answer of this objective is better than the other."""
        with self.lock:
            self.bound, self.bound_kind, self.evidence = self.exact or (None, None, None)
            self.proof = None if self.exact is None else "exact"
            self.trace = [
                replace(point, bound=None, bound_kind=None)
                if point.bound is not None and self._is_above(point.bound, objective)
                else point
                for point in self.trace
            ]

    def _is_above(self, a: int, b: int) -> bool:
        """Return whether a is worse than b as an objective, and so better as a bound."""
        return a < b if self.problem.maximize else a > b

    def _is_better(self, value: int) -> bool:
        """Return whether an answer of this objective would be taken."""
        return not self.ended and (self.incumbent is None or self._is_above(self.incumbent, value))

    def _note(self) -> None:
        self.trace.append(TracePoint(self.elapsed(), self.incumbent, self.bound, self.bound_kind))

    def _tell(self) -> None:
        """Show the best that is known; without the lock, which whoever shows it must not wait for."""
        # With the unit: a part of the work may be another problem, counted in another one.
        values = {"incumbent": self.incumbent, "bound": self.bound}
        unit = getattr(self.problem, "unit", "")
        self.progress(", ".join(f"{k} {v} {unit}".rstrip() for k, v in values.items() if v is not None))


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
