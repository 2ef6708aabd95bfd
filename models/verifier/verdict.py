"""What the verifier says: violations with their witnesses, profiles, peaks, and the objectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..errors import VerificationError

Profile = tuple[tuple[int, int], ...]
"""``(time, bytes)`` points of a right-continuous step function; the first is at time 0, after its events."""

PLAN_KINDS = (
    "graph",
    "shape",
    "start",
    "missing-run",
    "repeated-run",
    "duration",
    "processor-kind",
    "processor-overlap",
    "precedence",
    "read",
    "write-conflict",
    "copy-source",
    "copy-target",
    "channel",
    "channel-rate",
    "group-rate",
    "free",
    "capacity",
    "final",
    "period",
)
"""The kinds of violation of a plan (`lowtide.models.verifier.verify` states each rule)."""

SHOWN = 10
"""Violations that an error message lists in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule with its witness; what does not apply is None or empty.

    Parameters
    ----------
    kind
        Of a plan one of `PLAN_KINDS`; of an allocation ``missing``, ``unknown``, ``offset``, ``overlap``,
        ``alignment``, ``capacity`` or ``fixed``, which begin with ``allocation-`` in a plan's verdict.
    message
        A sentence for people: who, what, when, and what was expected.
    time
        Nanosecond at which the fault shows.
    op, tensor, tier
        What is concerned, as the plan refers to it.
    other
        The second op (of `precedence`, overlaps and conflicts).
    run, copy, free, entry
        Position of the action in ``plan.runs``, ``plan.copies``, ``plan.frees``, ``plan.start``.
    other_run, other_copy
        Position of the second action, where one is involved.
    resource
        The processor, the channel (``src->dst``) or the group.
    buffers
        Ids of the buffers concerned.
    """

    kind: str
    message: str
    time: int | None = None
    op: int | None = None
    tensor: int | None = None
    tier: str | None = None
    other: int | None = None
    run: int | None = None
    copy: int | None = None
    free: int | None = None
    entry: int | None = None
    other_run: int | None = None
    other_copy: int | None = None
    resource: str | None = None
    buffers: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that apply."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {key: value for key, value in values.items() if value is not None and value != ()}

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def sorted_violations(violations: list[Violation]) -> tuple[Violation, ...]:
    """Return them by time, then kind, then witness; those without a time first."""

    def key(v: Violation) -> tuple[Any, ...]:
        numbers = (v.time, v.op, v.run, v.copy, v.free, v.entry, v.tensor, v.other)
        time, *rest = (-1 if x is None else x for x in numbers)
        return (time, v.kind, *rest, v.tier or "", v.buffers, v.message)

    return tuple(sorted(violations, key=key))


def raise_violations(violations: tuple[Violation, ...], what: str) -> None:
    """Raise a `VerificationError` that lists the first violations, if there are any."""
    if not violations:
        return
    count = len(violations)
    lines = [f"{what}: found {count} violation{'s' * (count > 1)}, expected none"]
    lines += [f"  {v}" for v in violations[:SHOWN]]
    if count > SHOWN:
        lines.append(f"  … and {count - SHOWN} more")
    raise VerificationError("\n".join(lines))


def verdict_words(violations: tuple[Violation, ...]) -> str:
    """Return whether there are violations: how many, and the first."""
    count = len(violations)
    return f"{count} violation{'s' * (count > 1)}, first {violations[0]}" if violations else "valid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The verdict on a plan, and what the plan costs.

    Parameters
    ----------
    violations
        All of them, by time, then kind.
    profiles
        Bytes held in each tier; of a periodic plan over one period.
    peaks
        The most bytes that each tier ever holds: the largest value of its profile, or what is there at
        time 0 before any event, if that is more.
    makespan
        Nanoseconds: the period, or the latest end of a run or copy (0 if there is none).
    stall
        Nanoseconds within the makespan during which no run executes.
    traffic
        Bytes copied by ``(source tier, destination tier)``; pairs without traffic are absent.
    recomputed
        Runs beyond the first of each op.
    heights
        By tier, the bytes that the plan's allocation needs; empty if the plan has none that is judged.
    """

    violations: tuple[Violation, ...]
    profiles: Mapping[str, Profile]
    peaks: Mapping[str, int]
    makespan: int
    stall: int
    traffic: Mapping[tuple[str, str], int]
    recomputed: int
    heights: Mapping[str, int] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """Whether no rule is broken."""
        return not self.violations

    def __repr__(self) -> str:
        peaks = ", ".join(f"{tier} {peak} bytes" for tier, peak in self.peaks.items())
        return f"Verification({verdict_words(self.violations)}; peaks: {peaks}; makespan {self.makespan} ns)"

    def raise_if_invalid(self) -> None:
        """Raise an error that lists the first violations, if there are any.

        Raises
        ------
        VerificationError
            If the plan breaks a rule.
        """
        raise_violations(self.violations, "plan")
