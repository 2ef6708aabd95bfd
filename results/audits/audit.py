"""Do any two records contradict each other? Every statement about a question is held against the others.

=====================  =====================================================================
kind                   what is wrong
=====================  =====================================================================
bound-above-objective  a proved bound lies above an objective that the verifier has seen
infeasible-with-plan   one record says that there is no plan, another one has a plan
two-optima             two proved optima differ
optimal-without-proof  a record says OPTIMAL, but bound and objective are not the same number
not-verified           a record has an objective that the verifier has not confirmed
plan-missing           the plan that a record names is not there
plan-invalid           the plan cannot be read, is for another graph, or does not verify
objective-differs      the plan's objective is not the one on record
malformed              a record is none
=====================  =====================================================================

What the catalogue and the package's best-known file know takes part like any record. An objective whose
plan turns out to be wrong is reported as such, and not held against the bounds of others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...models.problem import Peak, Problem
from ...models.result import Status
from .best_known import FILE, claims_of, read_best_known
from .claims import Claim, Question
from .evidence import read_claims
from .recheck import recheck

PLANS = ("all", "optimal", "none")
"""Which plans `audit` can verify again."""

SHOWN = 5
"""Records that a message names; `Contradiction.records` names all."""


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
    records, questions, plans
        How many claims were compared, about how many questions, and how many plans were verified again.
    without_plan
        How many records have an objective, but kept no plan.
    unchecked
        (record, reason) of plans that could not be verified here, such as for want of the instance.
    passed_over
        Tables that could not be compared, in words.
    """

    contradictions: list[Contradiction] = field(default_factory=list)
    records: int = 0
    questions: int = 0
    plans: int = 0
    without_plan: int = 0
    unchecked: list[tuple[str, str]] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)


def audit(
    paths: Sequence[str | os.PathLike[str]] = (),
    *,
    best_known: str | os.PathLike[str] = FILE,
    plans: str = "all",
    progress: Callable[[str], None] = lambda line: None,
) -> Audit:
    """Compare all claims about the same questions, and verify their plans again.

    Parameters
    ----------
    paths
        Experiments, tables, records, best-known files, or folders around them.
    best_known
        The best-known file that takes part besides.
    plans
        "all", "optimal" (only of records that say OPTIMAL) or "none".
    progress
        Called with a line of text for each question whose plans are verified.

    Raises
    ------
    InstanceError
        If a path is missing or is nothing that has claims.

    Examples
    --------
    >>> audit().contradictions
    []
    """
    evidence = read_claims(paths)
    found = Audit(records=len(evidence.claims), passed_over=list(evidence.passed_over))
    found.contradictions += [
        Contradiction(kind="malformed", message=message, records=(where,))
        for where, message in evidence.malformed
    ]
    by_question: dict[Question, list[Claim]] = {}
    for claim in (*evidence.claims, *_known(best_known)):
        by_question.setdefault(claim.question, []).append(claim)
    found.without_plan = sum(c.objective is not None and c.plan is None for c in evidence.claims)
    found.questions = len({claim.question for claim in evidence.claims})
    for claims in by_question.values():
        wrong = _recheck_plans(claims, plans, found, progress)
        _compare([c for c in claims if id(c) not in wrong], found)
    return found


def compare(claims: Iterable[Claim]) -> list[Contradiction]:
    """Return the contradictions between claims, by their numbers alone: no plan is read."""
    by_question: dict[Question, list[Claim]] = {}
    for claim in claims:
        by_question.setdefault(claim.question, []).append(claim)
    found = Audit()
    for about in by_question.values():
        _compare(about, found)
    return found.contradictions


def _known(best_known: str | os.PathLike[str]) -> list[Claim]:
    """Return the claims of the best-known file and of the catalogue."""
    from ...instances.catalogue import entries

    claims = claims_of(read_best_known(best_known), os.fspath(best_known))
    for entry in entries().values():
        known = entry.peak
        upper = known.upper if known.optimum is None else known.optimum
        lower = known.lower if known.optimum is None else known.optimum
        if upper is None and lower is None:
            continue
        claims.append(
            Claim(
                source="catalogue",
                name=entry.name,
                instance=f"catalogue:{entry.name}",
                sha256=entry.sha256,
                problem=Peak.name,
                method=known.source or "no source",
                status=Status.FEASIBLE if known.optimum is None else Status.OPTIMAL,
                objective=upper,
                bound=lower,
            )
        )
    return claims


def _recheck_plans(
    claims: Sequence[Claim], plans: str, found: Audit, progress: Callable[[str], None]
) -> set[int]:
    """Verify the plans of a question's claims again; return the identities of claims found wrong."""
    if plans == "none":
        return set()
    chosen = [
        c
        for c in claims
        if c.plan is not None and (c.status is Status.OPTIMAL if plans == "optimal" else c.verified)
    ]
    if chosen:
        progress(f"{chosen[0].instance}: {len(chosen)} plans")
    problems: dict[Question, Problem] = {}
    wrong = set()
    for claim in chosen:
        result = recheck(claim, problems)
        if result.fault is not None:
            kind, message = result.fault
            found.contradictions.append(_about(kind, message, [claim]))
            wrong.add(id(claim))
        elif result.unchecked is not None:
            found.unchecked.append((str(claim), result.unchecked))
        else:
            found.plans += 1
    return wrong


def _compare(claims: Sequence[Claim], found: Audit) -> None:
    """Add the contradictions between claims about one question."""
    add = found.contradictions.append
    for claim in claims:
        if claim.status is Status.OPTIMAL and (claim.objective is None or claim.objective != claim.bound):
            add(_about("optimal-without-proof", f"objective {claim.objective}, bound {claim.bound}", [claim]))
        if claim.objective is not None and not claim.verified and claim.status is not Status.FAILED:
            add(_about("not-verified", f"objective {claim.objective} without a verdict", [claim]))
    with_plan = [c for c in claims if c.objective is not None and c.verified]
    if not with_plan:
        return
    best = min(with_plan, key=lambda c: c.objective or 0)
    assert best.objective is not None
    above = [c for c in claims if c.bound is not None and c.bound > best.objective]
    if above:
        highest = max(c.bound for c in above if c.bound is not None)
        message = f"bound {highest} above the objective {best.objective} of {best}"
        add(_about("bound-above-objective", message, [*above, best]))
    none = [c for c in claims if c.status is Status.INFEASIBLE]
    if none:
        message = f"said to be infeasible, but {best} has a plan with objective {best.objective}"
        add(_about("infeasible-with-plan", message, [*none, best]))
    optima: dict[int, list[Claim]] = {}
    for claim in with_plan:
        if claim.status is Status.OPTIMAL and claim.objective is not None:
            optima.setdefault(claim.objective, []).append(claim)
    if len(optima) > 1:
        values = " and ".join(str(value) for value in sorted(optima))
        add(
            _about(
                "two-optima", f"{values} are all said to be optimal", [c for v in optima.values() for c in v]
            )
        )


def _about(kind: str, message: str, claims: Sequence[Claim]) -> Contradiction:
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
