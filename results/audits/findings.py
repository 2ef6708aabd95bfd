"""What an audit finds: contradictions, and how much was looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .claims import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Something that cannot be true.

    Attributes
    ----------
    kind
        One of the module's table.
    message
        A sentence for people, with the numbers.
    records
        Who says it: "source: name (method)".
    instance, instance_sha256, problem
        The question; None if that could not be read.
    """

    kind: str
    message: str
    records: tuple[str, ...]
    instance: str | None = None
    instance_sha256: str | None = None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**asdict(self), "records": list(self.records)}


@dataclass(slots=True)
class Audit:
    """The outcome: contradictions, and how much was looked at.

    Attributes
    ----------
    records, questions, plans, certificates
        How many claims were compared, about how many questions, and how many plans and certificates were
        verified again.
    without_plan
        How many records have an objective, but kept no plan.
    best_with_plan
        About how many questions the best objective has a plan that was verified again.
    instances
        How many instances that tables name were loaded, and have the hash that they say.
    unchecked
        (record, reason) of plans that could not be verified here, such as for want of the instance.
    tables, no_claims
        Tables that were read; (table, why) of those that say that they claim nothing.
    elsewhere
        Rows of tables about instances that cannot be loaded from here.
    unwitnessed
        By table: how many rows have no witness, by what is lacking (`lowtide.results.audits.witnessed`).
    again
        How many rows were made again.
    """

    contradictions: list[Contradiction] = field(default_factory=list)
    records: int = 0
    questions: int = 0
    plans: int = 0
    certificates: int = 0
    without_plan: int = 0
    best_with_plan: int = 0
    instances: int = 0
    unchecked: list[tuple[str, str]] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    no_claims: list[tuple[str, str]] = field(default_factory=list)
    elsewhere: int = 0
    unwitnessed: dict[str, Counter[str]] = field(default_factory=dict)
    again: int = 0

    def add(self, other: Audit) -> None:
        """Add what was found about other questions."""
        self.contradictions += other.contradictions
        self.unchecked += other.unchecked
        self.plans += other.plans
        self.certificates += other.certificates
        self.best_with_plan += other.best_with_plan
        self.instances += other.instances
        for table, counts in other.unwitnessed.items():
            self.unwitnessed.setdefault(table, Counter()).update(counts)


def about(kind: str, message: str, claims: Sequence[Claim]) -> Contradiction:
    """Return a contradiction of claims about one question."""
    first = claims[0]
    records = tuple(dict.fromkeys(map(str, claims)))
    return Contradiction(
        kind=kind,
        message=message,
        records=records,
        instance=first.instance,
        instance_sha256=first.sha256,
        problem=first.problem,
    )
