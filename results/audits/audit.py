"""Do any two records contradict each other? Every statement about a question is held against the others.

=====================  =====================================================================
kind                   what is wrong
=====================  =====================================================================
bound-above-objective  a proved bound lies above an objective that the verifier has seen (below
                       it, where larger objectives are better)
infeasible-with-plan   one record says that there is no plan, another one has a plan
two-optima             two proved optima differ
optimal-without-proof  a record says OPTIMAL, but bound and objective are not the same number
not-verified           a record has an objective that the verifier has not confirmed
plan-missing           the plan that a record names is not there
plan-invalid           the plan cannot be read, is for another graph, or does not verify
objective-differs      the plan's objective is not the one on record
certificate-missing    the certificate that a record names is not there
certificate-invalid    the certificate cannot be read, is for another question, or does not hold
bound-differs          the certificate proves less than the bound on record
instance-differs       the instance that a table names cannot be loaded, or has another hash
better-than-known      a row of a committed table is better than what the best-known file says
malformed              a record is none
table-unread           a table cannot be read, or nobody says what it claims
=====================  =====================================================================

What the catalogue and the package's best-known file know takes part like any record. An objective whose
plan turns out to be wrong is reported as such, and not held against the bounds of others.

Of committed tables (those beside a ``tables.toml``, or in a folder beside one) every instance is loaded, and
the best-known file must have what their best rows say: so a row that became better than it was is found, also
where no plan was kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...models.errors import LowtideError
from ...models.problems.peak import Peak
from ...models.problems.problem import Problem
from ...models.result import Status
from .best_known import FOLDER, BestKnown, claims_of, read_best_known
from .claims import Claim, Question, is_beyond, is_maximized
from .evidence import read_claims
from .recheck import problem_of, recheck, recheck_bound


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


def audit(
    paths: Sequence[str | os.PathLike[str]] = (),
    *,
    best_known: str | os.PathLike[str] = FOLDER,
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
        "all", "optimal" (only of records that say OPTIMAL) or "none": which plans are verified again, and
        certificates of the same records. With "none" the instances of tables are not loaded either.
    progress
        Called with a line of text for each question whose plans are verified.

    Raises
    ------
    InstanceError
        If a path is missing or is nothing that has claims.
    """
    evidence = read_claims(paths, without=best_known)
    found = Audit(
        records=len(evidence.claims),
        tables=evidence.tables,
        no_claims=evidence.no_claims,
        elsewhere=evidence.elsewhere,
    )
    for kind, faults in (("malformed", evidence.malformed), ("table-unread", evidence.unread)):
        found.contradictions += [
            Contradiction(kind=kind, message=message, records=(where,)) for where, message in faults
        ]
    by_question: dict[Question, list[Claim]] = {}
    for claim in (*evidence.claims, *_known(best_known)):
        by_question.setdefault(claim.question, []).append(claim)
    known = read_best_known(best_known)
    found.without_plan = sum(c.objective is not None and c.plan is None for c in evidence.claims)
    found.questions = len({claim.question for claim in evidence.claims})
    # in the order of the instances: what is loaded for one question may do for the next
    for question, claims in sorted(by_question.items(), key=lambda item: (item[1][0].instance, item[0])):
        problems: dict[Question, Problem] = {}
        if plans != "none":
            _check_instances(claims, problems, found, progress)
        wrong = _recheck_plans(claims, plans, problems, found, progress)
        _compare([c for c in claims if id(c) not in wrong], found)
        _better_than_known(claims, known.get(question), found)
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


def _check_instances(
    claims: Sequence[Claim],
    problems: dict[Question, Problem],
    found: Audit,
    progress: Callable[[str], None],
) -> None:
    """Load every instance that a table names for a question; what can be loaded joins the problems."""
    by_spec: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.table is not None:
            by_spec.setdefault(claim.instance, []).append(claim)
    for some in by_spec.values():
        progress(f"{some[0].instance}, {some[0].problem}")
        loaded: dict[Question, Problem] = {}
        try:
            problem_of(some[0], loaded)
        except LowtideError as error:
            found.contradictions.append(_about("instance-differs", str(error), some))
            continue
        found.instances += 1
        problems |= loaded


def _recheck_plans(
    claims: Sequence[Claim],
    plans: str,
    problems: dict[Question, Problem],
    found: Audit,
    progress: Callable[[str], None],
) -> set[int]:
    """Verify plans and certificates of a question's claims again; return the identities of wrong claims."""
    if plans == "none":
        return set()
    chosen = [c for c in claims if (c.status is Status.OPTIMAL if plans == "optimal" else c.verified)]
    with_plan = [c for c in chosen if c.plan is not None]
    with_certificate = [c for c in chosen if c.certificate is not None]
    if with_plan or with_certificate:
        progress(
            f"{chosen[0].instance}: {len(with_plan)} plans"
            + (f", {len(with_certificate)} certificates" if with_certificate else "")
        )
    wrong = set()
    right = []
    for check, some in ((recheck, with_plan), (recheck_bound, with_certificate)):
        for claim in some:
            result = check(claim, problems)
            if result.fault is not None:
                kind, message = result.fault
                found.contradictions.append(_about(kind, message, [claim]))
                wrong.add(id(claim))
            elif result.unchecked is not None:
                found.unchecked.append((str(claim), result.unchecked))
            elif check is recheck:
                found.plans += 1
                right.append(claim)
            else:
                found.certificates += 1
    first = best([c for c in claims if id(c) not in wrong and c.verified])
    found.best_with_plan += first is not None and any(c.objective == first.objective for c in right)
    return wrong


def best(claims: Sequence[Claim]) -> Claim | None:
    """Return a claim with the best objective, if one has any."""
    some = [c for c in claims if c.objective is not None]
    if not some:
        return None
    return (max if is_maximized(some[0].problem) else min)(some, key=lambda c: c.objective or 0)


def _better_than_known(claims: Sequence[Claim], known: BestKnown | None, found: Audit) -> None:
    """Add the rows of committed tables that say more than the best-known file."""
    for claim in claims:
        if claim.table is None:
            continue
        for side, value in (("objective", claim.objective), ("bound", claim.bound)):
            mark = None if known is None else getattr(known, side)
            if value is None or (side == "objective" and not claim.verified):
                continue
            larger = is_maximized(claim.problem) is (side == "objective")
            if mark is None or (value > mark.value if larger else value < mark.value):
                said = "nothing" if mark is None else str(mark.value)
                message = f"{side} {value}, where the best known is {said}"
                found.contradictions.append(_about("better-than-known", message, [claim]))


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
    first = best(with_plan)
    assert first is not None
    assert first.objective is not None
    maximized = is_maximized(first.problem)
    above = [c for c in claims if c.bound is not None and is_beyond(c.bound, first.objective, c.problem)]
    if above:
        highest = (min if maximized else max)(c.bound for c in above if c.bound is not None)
        side = "below" if maximized else "above"
        message = f"bound {highest} {side} the objective {first.objective} of {first}"
        add(_about("bound-above-objective", message, [*above, first]))
    none = [c for c in claims if c.status is Status.INFEASIBLE]
    if none:
        message = f"said to be infeasible, but {first} has a plan with objective {first.objective}"
        add(_about("infeasible-with-plan", message, [*none, first]))
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
