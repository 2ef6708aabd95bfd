"""What a method returns: status, verified objective, proved bound, plan, trace, provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from .errors import UsageError
from .units import exact_value, format_gap

if TYPE_CHECKING:
    from .buffers import Buffers
    from .cost_network import Strategies
    from .fact import Fact
    from .graph import Graph
    from .plan import Plan
    from .verifier.allocation import AllocationVerdict
    from .verifier.sharding import ShardingVerdict
    from .verifier.verdict import Verification


class Status(StrEnum):
    """What is known at the end."""

    OPTIMAL = "optimal"
    """Proved: the bound equals the verified objective."""
    FEASIBLE = "feasible"
    """A verified plan, not proved optimal."""
    INFEASIBLE = "infeasible"
    """Proved: there is no plan."""
    UNKNOWN = "unknown"
    """Nothing to show."""
    FAILED = "failed"
    """A crash, or an answer that does not verify; `Result.detail` says which."""


@dataclass(frozen=True, slots=True)
class TracePoint:
    """What was known after `seconds`: incumbent and proved bound with its kind, None while there is none."""

    seconds: float
    incumbent: int | None
    bound: int | None
    bound_kind: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A part of a method at work: from when, how long, and what it changed.

    Attributes
    ----------
    part
        Its name.
    start, seconds
        From the start of the solve.
    before, after
        Incumbent and bound when the turn began and when it ended.
    ended
        "done" if the part has nothing more to do, "paused", "time" if it had used all that it was given, or
        "crash", "memory", "refused".
    detail
        The part's own words.
    """

    part: str
    start: float
    seconds: float
    before: tuple[int | None, int | None]
    after: tuple[int | None, int | None]
    ended: str
    detail: str = ""

    def record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "part": self.part,
            "start": round(self.start, 6),
            "seconds": round(self.seconds, 6),
            "before": list(self.before),
            "after": list(self.after),
            "ended": self.ended,
            **({"detail": self.detail} if self.detail else {}),
        }


def relative_gap(objective: int | None, bound: int | None) -> float | None:
    """Return |objective - bound| / objective; 0 if both are equal; None if one is absent, or no share exists.

    Examples
    --------
    >>> relative_gap(125, 100), relative_gap(0, 0), relative_gap(0, 1), relative_gap(None, 1)
    (0.2, 0.0, None, None)
    """
    if objective is None or bound is None:
        return None
    if objective == bound:
        return 0.0
    return abs(objective - bound) / objective if objective else None


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of one solve.

    Attributes
    ----------
    objective
        Recomputed by the verifier from the plan; None without a plan.
    bound
        Proved lower bound (of `parallel-memory`, which is maximized, upper bound); None if there is none.
    reason
        Why it stopped before a proof: "time", "memory", "interrupted", "crash"; "exhausted" if `auto` had
        search exhausted; None of a method that ended by itself.
    proof
        "exact" (integer reasoning) or "floating" (a MILP solver's, rounded up to the next integer
        with a margin); None without a bound.
    bound_kind
        What proved the bound, such as "working set", "forced bytes", "cut", "descents", "exhaustive
        pass" (`peak`), "load", "branch and bound" (`offsets`), "CP-SAT", "HiGHS"; None if there is
        none, or if the method does not say.
    facts
        Numbers that the method says about its plan or itself, by name: ``emergencies`` and ``evictions`` of
        policies for `placement`, ``gives_up`` where one fails by its own count, ``simulations`` of its local
        search, ``form_bound`` in ns of AutoTM; ``variables`` and ``constraints`` of the largest model that an
        engine was given, if any was.
    evidence
        What a certificate of the bound can be made from, if the method kept it; it is no part of the record.
    about
        What the problem says of the answer besides its objective (``Problem.facts``): peaks, traffic,
        stages; its record has them among the `facts`.
    seconds
        Of building, solving and verifying; of proving the certificate and checking it.
    trace
        Incumbent, bound and its kind over time.
    parts
        The turns of the method's parts, if it has such, in order.
    allocation
        Offset by buffer id, of problem `offsets`.
    edges
        Pairs of ops, of problem `memory-edges`: the first must end before the second starts.
    strategies
        A strategy of each node, of problem `sharding`.
    certificate
        What became of the certificate of the bound, if one was asked for: ``path`` (None if none was
        written), ``kind``, ``bytes``, ``checked``, ``detail``; or None.
    constrained
        Whether rows were added to the model: status and bound then speak of the question with these rows.
    """

    problem: str
    method: str
    instance: str
    unit: str
    status: Status
    objective: int | None = None
    bound: int | None = None
    reason: str | None = None
    proof: str | None = None
    bound_kind: str | None = None
    evidence: Any = field(default=None, repr=False)
    plan: Plan | None = None
    allocation: Mapping[str, int] | None = field(default=None, repr=False)
    edges: tuple[tuple[int, int], ...] | None = field(default=None, repr=False)
    strategies: Strategies | None = field(default=None, repr=False)
    detail: str = ""
    facts: Mapping[str, int] = field(default_factory=dict)
    about: tuple[Fact, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    trace: tuple[TracePoint, ...] = ()
    parts: tuple[Turn, ...] = ()
    certificate: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    constrained: bool = False
    verification: Verification | AllocationVerdict | ShardingVerdict | None = field(default=None, repr=False)
    graph: Graph | None = field(default=None, repr=False)
    buffers: Buffers | None = field(default=None, repr=False)
    _repr_html_: ClassVar[Callable[[Any], str]]
    plot: ClassVar[Callable[..., Any]]
    to_frame: ClassVar[Callable[[Any], Any]]

    @property
    def gap(self) -> float | None:
        """As `relative_gap` says."""
        return relative_gap(self.objective, self.bound)

    def __repr__(self) -> str:
        words = [f"{self.status}{f' (stopped: {self.reason})' if self.reason else ''}"]
        if self.objective is not None:
            equal = " = bound" if self.bound == self.objective else ""
            words.append(exact_value(self.objective, self.unit) + equal)
        if self.bound is not None and self.bound != self.objective:
            words.append(f"bound {exact_value(self.bound, self.unit)}")
            words += [] if self.gap is None else [f"gap {format_gap(self.gap)}"]
        if self.status in (Status.FAILED, Status.INFEASIBLE, Status.UNKNOWN) and self.detail:
            is_answer = self.status is Status.INFEASIBLE or len(self.detail) <= 100
            words.append(self.detail if is_answer else f"{self.detail[:99]}…")
        rows = " with added rows" if self.constrained else ""
        return f"Result({self.problem} of {self.instance!r} by {self.method}{rows}: {', '.join(words)})"

    @property
    def order(self) -> tuple[int, ...]:
        """The ops by start time, as the plan runs them (recomputed ops appear again).

        Raises
        ------
        UsageError
            If there is no plan.
        """
        if self.plan is None:
            raise UsageError(f"result of {self.problem}: found no plan ({self.status}), expected one")
        return self.plan.order

    def record(self, plan: str | None = None) -> dict[str, Any]:
        """Return the run record: JSON values, `plan` is the path it was saved to."""
        starts = None if self.plan is None else self.plan.start_tiers
        verdict: Any = None if self.plan is None else self.verification  # of the plan, not of an allocation
        return {
            "instance": self.instance,
            "problem": self.problem,
            "method": self.method,
            "status": str(self.status),
            "objective": self.objective,
            "bound": self.bound,
            "gap": self.gap,
            "reason": self.reason,
            "proof": self.proof,
            "bound_kind": self.bound_kind,
            "verified": self.verification is not None and self.verification.valid,
            "detail": self.detail,
            "facts": {**self.facts, **{fact.name: fact.value for fact in self.about}},
            "peaks": dict(getattr(verdict, "peaks", {})),
            "traffic": {f"{a}->{b}": n for (a, b), n in getattr(verdict, "traffic", {}).items()},
            "stall": getattr(verdict, "stall", None),
            "recomputed": getattr(verdict, "recomputed", None),
            "seconds": {k: round(v, 6) for k, v in self.seconds.items()},
            "trace": [[round(p.seconds, 6), p.incumbent, p.bound, p.bound_kind] for p in self.trace],
            **({"parts": [turn.record() for turn in self.parts]} if self.parts else {}),
            **({"constrained": True} if self.constrained else {}),
            **({} if starts is None else {"start_tiers": {k: list(v) for k, v in sorted(starts.items())}}),
            **({} if self.edges is None else {"edges": [list(edge) for edge in self.edges]}),
            "certificate": None if self.certificate is None else dict(self.certificate),
            "versions": dict(self.versions),
            **({} if self.durations is None else {"durations": self.durations}),
            "plan": plan,
        }

    @property
    def durations(self) -> str | None:
        """Where the durations come from, in words; None of objectives in bytes, which they are no part of."""
        return None if self.graph is None or self.unit != "ns" else self.graph.durations
