"""What a method is given while it runs, and where it leaves what it finds.

A method calls `Context.offer` for each better answer and `Context.raise_bound` for each better proved
bound, as soon as it has them: an interrupted or crashed method loses nothing, and the trace is the same
for every method. What the context holds is a claim; `solve` has the verifier judge it.

Threads may share a context: what they offer and prove is compared and taken under its lock, and nothing is
taken any more once `solve` judges (`end`). Contexts of one problem share what is known (`Known`): the parts
of a method that take turns each have limits and options of their own (`lowtide.solvers.portfolio`).
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..models.problems.problem import Judgement, Problem
from ..models.result import TracePoint, Turn
from .clock import Clock


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a method ended.

    Attributes
    ----------
    reason
        Why it stopped without a proof: "time", "memory", "interrupted"; None if it ended by itself.
    infeasible
        It proved that there is no plan.
    refused
        Why the problem is not one for the method; empty if it is.
    detail
        The solver's own words, or a remark for people.
    facts
        Numbers that tables need, by name.
    """

    reason: str | None = None
    infeasible: bool = False
    refused: str = ""
    detail: str = ""
    facts: Mapping[str, int] = field(default_factory=dict)


@dataclass(kw_only=True)
class Known:
    """The best that is known of a problem.

    Attributes
    ----------
    answer, incumbent
        The best answer, as `Problem.read` returns it, and its objective; None while there is none.
    judgement
        Of the incumbent, if a careful context took it.
    bound, proof, bound_kind, evidence
        The best proved bound; "exact" or "floating"; what proved it, as `Result.bound_kind` says; what a
        certificate of it can be made from, or None.
    exact
        The best bound whose proof is exact, its kind and evidence; None while there is none.
    build_seconds
        Of building solver models, written by the method; None if there are none.
    trace, turns
        What was known when; and which part of a method had the time.
    lock
        Held while an answer or a bound is compared with the best one and takes its place.
    ended
        Whether answers and bounds come too late.
    infeasible
        How a part ended that proved that there is no answer; None if none has.
    offers
        Answers that were offered so far, better ones or not.
    done
        Steps that have been carried out and need not be repeated.
    """

    answer: Any = None
    incumbent: int | None = None
    judgement: Judgement | None = None
    bound: int | None = None
    proof: str | None = None
    bound_kind: str | None = None
    evidence: Any = None
    exact: tuple[int, str | None, Any] | None = None
    build_seconds: float | None = None
    trace: list[TracePoint] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    ended: bool = False
    infeasible: Outcome | None = None
    offers: int = 0
    done: set[str] = field(default_factory=set)


@dataclass(kw_only=True)
class Context:
    """Limits, options and the best that is known; one per solve, or part of one, for one problem.

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
    changed
        Called after each better answer and bound: to hand it on, where the problem is part of another one.
    clock, started
        What the seconds are counted on, and when it began.
    world
        When the trace began, on the clock of the whole.
    prepare
        Compiles those of these kernels that are missing, while the clock stands still; for methods that may
        end without them (`Method.late`).
    known
        The best that is known; contexts that share it work on the same problem.
    bound_seconds
        Of the room's cheap bound. None if there is none.
    careful
        Whether the verifier judges each better answer before it is taken. For methods that combine others,
        or that know no general proof that their answers are valid ones: what is taken then stays.
    models
        Variables and constraints of each model that an engine was given, those of parts of the work too.
    refused
        Why the answer that was offered last was not taken, if the context is careful.
    longest
        Seconds of the longest `attempt`, by its work.
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
    changed: Callable[[], None] = lambda: None
    clock: Clock = field(default_factory=Clock)
    started: float = math.nan
    world: tuple[Clock, float] | None = None
    prepare: Callable[[Sequence[str]], None] = lambda kernels: None
    known: Known = field(default_factory=Known)
    bound_seconds: float | None = None
    models: list[tuple[int, int]] = field(default_factory=list)
    careful: bool = False
    refused: str = ""
    longest: float = 0.0

    def __post_init__(self) -> None:
        if math.isnan(self.started):
            self.started = self.clock.now()
        self.world = self.world or (self.clock, self.started)

    def inner(
        self,
        problem: Problem,
        seconds: float = math.inf,
        prefix: str | None = "",
        *,
        turn: int = 0,
        options: Mapping[str, Any] | None = None,
        engine_options: Mapping[str, str] | None = None,
        known: Known | None = None,
    ) -> Context:
        """Return the context of a part of the work: another question, at most so many seconds, same limits.

        Its lines of progress begin with `prefix`; there are none if that is None. `turn` is added to the
        seed. Options are this context's own unless others are given; nothing is known unless it is given.
        """
        limit = min(seconds, self.remaining())
        return Context(
            problem=problem,
            method=self.method,
            time_limit=None if math.isinf(limit) else limit,
            seed=self.seed + turn,
            threads=self.threads,
            memory_limit=self.memory_limit,
            options=self.options if options is None else options,
            engine_options=self.engine_options if engine_options is None else engine_options,
            log=self.log,
            clock=self.clock,
            prepare=self.prepare,
            known=known or Known(),
            models=self.models,
            progress=lambda line: None if prefix is None else self.progress(f"{prefix}{line}"),
        )

    def since(self) -> float:
        """Return the seconds since the start of the trace, pauses included."""
        assert self.world is not None
        clock, began = self.world
        return clock.now() - began

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return self.clock.now() - self.started

    def remaining(self) -> float:
        """Return the seconds left for the method, at least 0; infinite without a limit.

        A part whose turn is over waits here for the next one.
        """
        left = self.clock.look()
        return max(0.0, min(self.ends - self.elapsed(), left))

    @property
    def ends(self) -> float:
        """Seconds after the start at which the method has to end; infinite without a limit."""
        return math.inf if self.time_limit is None else self.time_limit - self.kept_back

    @property
    def expired(self) -> bool:
        """Whether the time is up."""
        return self.remaining() <= 0

    @property
    def answer(self) -> Any:
        """The best answer, None while there is none."""
        return self.known.answer

    @property
    def incumbent(self) -> int | None:
        """Its objective."""
        return self.known.incumbent

    @property
    def judgement(self) -> Judgement | None:
        """The verifier's, of the answer, if there is one already."""
        return self.known.judgement

    @property
    def bound(self) -> int | None:
        """The best proved bound, None while there is none."""
        return self.known.bound

    @property
    def proof(self) -> str | None:
        """Whether the bound is "exact" or "floating"."""
        return self.known.proof

    @property
    def bound_kind(self) -> str | None:
        """What proved the bound."""
        return self.known.bound_kind

    @property
    def evidence(self) -> Any:
        """What a certificate of the bound can be made from."""
        return self.known.evidence

    @property
    def exact(self) -> tuple[int, str | None, Any] | None:
        """The best exact bound, its kind and evidence."""
        return self.known.exact

    @property
    def infeasible(self) -> bool:
        """Whether a part has proved that there is no answer."""
        return self.known.infeasible is not None

    @property
    def trace(self) -> list[TracePoint]:
        """What was known when."""
        return self.known.trace

    def once(self, step: str) -> bool:
        """Return whether a step is to be carried out, which it is once."""
        with self.known.lock:
            first = step not in self.known.done
            self.known.done.add(step)
        return first

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
        self.known.offers += 1
        answer = self.problem.read(item)
        value = self.problem.evaluate(answer)
        if not self._is_better(value):
            return value
        judgement = self.problem.judge(answer) if self.careful else None
        if judgement is not None and judgement.violations:
            self.refused = f"a plan does not verify: {judgement.violations[0].message}"
            return value
        with self.known.lock:
            if taken := self._is_better(value):
                known = self.known
                known.answer, known.incumbent, known.judgement = answer, value, judgement
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
            (`lowtide.solvers.placement.reductions.replicas.share`).
        """
        with self.known.lock:
            if self.known.ended:
                return
            if proof == "exact" and (self.exact is None or self._is_above(value, self.exact[0])):
                self.known.exact = value, kind, evidence
            if taken := self.bound is None or self._is_above(value, self.bound):
                known = self.known
                known.bound, known.proof, known.bound_kind, known.evidence = value, proof, kind, evidence
                self._note()
        if taken:
            self._tell()

    def end(self) -> None:
        """Take nothing any more: a thread that still runs must not change what is judged."""
        with self.known.lock:
            self.known.ended = True

    def drop_floating(self, objective: int) -> None:
        """Fall back on the best exact bound: a verified answer of this objective is better than the other."""
        with self.known.lock:
            known = self.known
            known.bound, known.bound_kind, known.evidence = known.exact or (None, None, None)
            known.proof = None if known.exact is None else "exact"
            known.trace = [
                replace(point, bound=None, bound_kind=None)
                if point.bound is not None and self._is_above(point.bound, objective)
                else point
                for point in known.trace
            ]

    def _is_above(self, a: int, b: int) -> bool:
        """Return whether a is worse than b as an objective, and so better as a bound."""
        return a < b if self.problem.maximize else a > b

    def _is_better(self, value: int) -> bool:
        """Return whether an answer of this objective would be taken."""
        return not self.known.ended and (self.incumbent is None or self._is_above(self.incumbent, value))

    def _note(self) -> None:
        self.trace.append(TracePoint(self.since(), self.incumbent, self.bound, self.bound_kind))

    def _tell(self) -> None:
        """Show the best that is known; without the lock, which whoever shows it must not wait for."""
        # With the unit: a part of the work may be another problem, counted in another one.
        values = {"incumbent": self.incumbent, "bound": self.bound}
        unit = getattr(self.problem, "unit", "")
        self.progress(", ".join(f"{k} {v} {unit}".rstrip() for k, v in values.items() if v is not None))
        self.changed()


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
