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
column-unclaimed       a column of a committed table is neither claimed nor derived nor measured
row-doubled            two rows of a table have the same question, method and key
derived-differs        a cell is not what its formula gives
ledger-differs         a table has other rows or cells than the ledger says
unwitnessed            more or fewer rows lack a witness than the ledger says
witness-without-row    no row of a table has the objective of a witness
bound-above-neighbour  a bound of a question with more of a resource contradicts an objective
                       of one with less
worse-than-neighbour   the best objective of a question with more of a resource is worse
again-differs          a row that was made again came out otherwise
record-unproved        the best-known files name who submitted a value, or say certified, but no plan or
                       certificate beside them shows it (looked at if a folder around them is audited)
=====================  =====================================================================

What the catalogue and the package's best-known file know takes part like any record. An objective whose
plan turns out to be wrong is reported as such, and not held against the bounds of others.

Of committed tables (those beside a ``tables.toml``, or in a folder beside one) every instance is loaded, and
the best-known file must have what their best rows say: so a row that became better than it was is found, also
where no plan was kept. What else is asked of them: `lowtide.results.audits.witnessed`,
`lowtide.results.audits.ledger`, `lowtide.results.audits.neighbours`, `lowtide.results.tables.columns`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

from ...models.errors import LowtideError
from ...models.problems.peak import Peak
from ...models.problems.problem import Problem
from ...models.result import Status
from ..tables.columns import derived_faults
from .again import make_again
from .best_known import FOLDER, BestKnown, claims_of, read_best_known
from .claims import Claim, Question, best, is_beyond, is_maximized
from .evidence import TableRow, read_claims
from .findings import Audit, Contradiction, about
from .neighbours import compare_neighbours
from .recheck import problem_of, recheck, recheck_bound
from .witnessed import compare_with_ledger, count_unwitnessed, witnesses_without_row


def audit(
    paths: Sequence[str | os.PathLike[str]] = (),
    *,
    best_known: str | os.PathLike[str] = FOLDER,
    plans: str = "all",
    jobs: int = 1,
    again: float = 0,
    draw: str = "",
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
    jobs
        Processes that load and verify.
    again, draw
        Seconds in which a sample of rows is made again, and what it is drawn by: the hash of a commit.
    progress
        Called with a line of text for each question whose plans are verified.

    Raises
    ------
    InstanceError
        If a path is missing or is nothing that has claims.
    """
    evidence = read_claims(paths, without=best_known)
    found = Audit(
        contradictions=[Contradiction(kind=k, message=m, records=(w,)) for k, w, m in evidence.faults],
        records=len(evidence.claims),
        tables=evidence.tables,
        no_claims=evidence.no_claims,
        elsewhere=evidence.elsewhere,
    )
    known = read_best_known(best_known)
    files = Path(best_known).resolve()
    whole = plans == "all" and any(Path(path).resolve() in files.parents for path in paths)
    abouts: dict[Question, About] = {}
    for claim in (*evidence.claims, *_claims_of(known, best_known)):
        entry = About(known.get(claim.question), whole)
        abouts.setdefault(claim.question, entry).claims.append(claim)
    for row in evidence.rows:
        if row.question in abouts:
            abouts[row.question].rows.append(row)
    found.without_plan = sum(c.objective is not None and c.plan is None for c in evidence.claims)
    found.questions = len({claim.question for claim in evidence.claims})
    # in the order of the instances: what is loaded for one question may do for the next
    ordered = [item for _, item in sorted(abouts.items(), key=lambda i: (i[1].claims[0].instance, i[0]))]
    if jobs == 1:
        _audit_all(ordered, plans, found, progress)
    else:
        with ProcessPoolExecutor(jobs) as pool:
            parts = [ordered[i : i + CHUNK] for i in range(0, len(ordered), CHUNK)]
            for part, other in zip(parts, pool.map(_audit_part, parts, repeat(plans)), strict=True):
                progress(f"{part[-1].claims[0].instance}: {other.plans} plans")
                found.add(other)
    in_tables = {a.claims[0].question: [c for c in a.claims if c.table is not None] for a in ordered}
    found.contradictions += compare_neighbours({q: best_of(some) for q, some in in_tables.items() if some})
    if plans == "all":
        for ledger in evidence.ledgers:
            compare_with_ledger(ledger, found)
    if again:
        make_again(evidence.claims, found, again, draw, progress)
    return found


CHUNK = 40
"""Questions that a process audits at a time."""


@dataclass(slots=True)
class About:
    """All that is on record about one question; `whole`: the folder around the best-known files is read."""

    known: BestKnown | None
    whole: bool
    claims: list[Claim] = field(default_factory=list)
    rows: list[TableRow] = field(default_factory=list)


def _audit_part(part: Sequence[About], plans: str) -> Audit:
    """Return what is found about some questions: the work of a process."""
    found = Audit()
    _audit_all(part, plans, found, lambda line: None)
    return found


def _audit_all(part: Sequence[About], plans: str, audit: Audit, progress: Callable[[str], None]) -> None:
    for item in part:
        problems: dict[Question, Problem] = {}
        if plans != "none":
            _check_instances(item.claims, problems, audit, progress)
        for row in item.rows:
            for fault in derived_faults(row.columns, row.cells, problems.get(row.question)):
                where = (f"{row.table}: row {row.number}",)
                audit.contradictions.append(
                    Contradiction(kind="derived-differs", message=fault, records=where)
                )
        wrong, right, certified = _recheck_plans(item.claims, plans, problems, audit, progress)
        _compare([c for c in item.claims if id(c) not in wrong], audit)
        _better_than_known(item.claims, item.known, audit)
        if item.whole and item.known is not None:
            _without_proof(item.known, right, certified, audit)
        count_unwitnessed(item.claims, right, certified, audit)
        witnesses_without_row(item.claims, audit)


def best_of(claims: Sequence[Claim]) -> tuple[Claim | None, Claim | None]:
    """Return a claim with the best objective of a question, and one with the best bound."""
    bounds = [claim for claim in claims if claim.bound is not None]
    if not bounds:
        return best([c for c in claims if c.verified]), None
    pick = min if is_maximized(claims[0].problem) else max
    return best([c for c in claims if c.verified]), pick(bounds, key=lambda c: c.bound or 0)


def compare(claims: Iterable[Claim]) -> list[Contradiction]:
    """Return the contradictions between claims, by their numbers alone: no plan is read."""
    by_question: dict[Question, list[Claim]] = {}
    for claim in claims:
        by_question.setdefault(claim.question, []).append(claim)
    audit = Audit()
    for claims_about in by_question.values():
        _compare(claims_about, audit)
    return audit.contradictions


def _claims_of(known: Mapping[Question, BestKnown], best_known: str | os.PathLike[str]) -> list[Claim]:
    """Return the claims of the best-known file and of the catalogue."""
    from ...instances.catalogue import entries

    claims = claims_of(known, os.fspath(best_known))
    for entry in entries().values():
        peak = entry.peak
        upper = peak.upper if peak.optimum is None else peak.optimum
        lower = peak.lower if peak.optimum is None else peak.optimum
        if upper is None and lower is None:
            continue
        claims.append(
            Claim(
                source="catalogue",
                name=entry.name,
                instance=f"catalogue:{entry.name}",
                sha256=entry.sha256,
                problem=Peak.name,
                method=peak.source or "no source",
                status=Status.FEASIBLE if peak.optimum is None else Status.OPTIMAL,
                objective=upper,
                bound=lower,
            )
        )
    return claims


def _check_instances(
    claims: Sequence[Claim], problems: dict[Question, Problem], audit: Audit, progress: Callable[[str], None]
) -> None:
    """Load every instance that a table names for a question; what can be loaded joins the problems."""
    by_spec: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.table is not None:
            by_spec.setdefault(claim.instance, []).append(claim)
    for alike in by_spec.values():
        progress(f"{alike[0].instance}, {alike[0].problem}")
        loaded: dict[Question, Problem] = {}
        try:
            problem_of(alike[0], loaded)
        except LowtideError as error:
            audit.contradictions.append(about("instance-differs", str(error), alike))
            continue
        audit.instances += 1
        problems |= loaded


def _recheck_plans(
    claims: Sequence[Claim],
    plans: str,
    problems: dict[Question, Problem],
    audit: Audit,
    progress: Callable[[str], None],
) -> tuple[set[int], list[Claim], list[Claim]]:
    """Verify plans and certificates of a question's claims again.

    Returns
    -------
    tuple
        The identities of wrong claims, the claims whose plan is right, those whose certificate is.
    """
    if plans == "none":
        return set(), [], []
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
    certified = []
    for check, some in ((recheck, with_plan), (recheck_bound, with_certificate)):
        for claim in some:
            result = check(claim, problems)
            if result.fault is not None:
                kind, message = result.fault
                audit.contradictions.append(about(kind, message, [claim]))
                wrong.add(id(claim))
            elif result.unchecked is not None:
                audit.unchecked.append((str(claim), result.unchecked))
            elif check is recheck:
                audit.plans += 1
                right.append(claim)
            else:
                audit.certificates += 1
                certified.append(claim)
    first = best([c for c in claims if id(c) not in wrong and c.verified])
    audit.best_with_plan += first is not None and any(c.objective == first.objective for c in right)
    return wrong, right, certified


def _better_than_known(claims: Sequence[Claim], known: BestKnown | None, audit: Audit) -> None:
    """Add the rows of committed tables, and what was submitted, that say more than the best-known file."""
    for claim in claims:
        if claim.table is None and claim.by is None:
            continue
        for side, value in (("objective", claim.objective), ("bound", claim.bound)):
            mark = None if known is None else getattr(known, side)
            if value is None or (side == "objective" and not claim.verified):
                continue
            larger = is_maximized(claim.problem) is (side == "objective")
            if mark is None or (value > mark.value if larger else value < mark.value):
                said = "nothing" if mark is None else str(mark.value)
                message = f"{side} {value}, where the best known is {said}"
                audit.contradictions.append(about("better-than-known", message, [claim]))


def _without_proof(
    known: BestKnown, right: Sequence[Claim], certified: Sequence[Claim], audit: Audit
) -> None:
    """Add what the best-known file says was submitted or certified, and nothing shows."""
    shown = (
        ("objective", known.objective, {claim.objective for claim in right}, False),
        ("bound", known.bound, {claim.bound for claim in certified}, known.status == "certified"),
    )
    for side, mark, values, is_certified in shown:
        if mark is None or mark.value in values or (mark.by is None and not is_certified):
            continue
        what = f"{side} {mark.value}, {'certified' if is_certified else f'submitted by {mark.by}'}"
        message = f"found {what}, expected a plan or a certificate beside the tables or in plans"
        where = (f"best known: {known.instance} ({known.problem})",)
        audit.contradictions.append(Contradiction(kind="record-unproved", message=message, records=where))


def _alone(claims: Sequence[Claim]) -> Iterator[Contradiction]:
    """Yield what contradicts itself."""
    for claim in claims:
        if claim.status is Status.OPTIMAL and (claim.objective is None or claim.objective != claim.bound):
            yield about("optimal-without-proof", f"objective {claim.objective}, bound {claim.bound}", [claim])
        if claim.objective is not None and not claim.verified and claim.status is not Status.FAILED:
            yield about("not-verified", f"objective {claim.objective} without a verdict", [claim])


def _compare(claims: Sequence[Claim], audit: Audit) -> None:
    """Add the contradictions between claims about one question."""
    add = audit.contradictions.append
    audit.contradictions += _alone(claims)
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
        add(about("bound-above-objective", message, [*above, first]))
    none = [c for c in claims if c.status is Status.INFEASIBLE]
    if none:
        message = f"said to be infeasible, but {first} has a plan with objective {first.objective}"
        add(about("infeasible-with-plan", message, [*none, first]))
    optima: dict[int, list[Claim]] = {}
    for claim in with_plan:
        if claim.status is Status.OPTIMAL and claim.objective is not None:
            optima.setdefault(claim.objective, []).append(claim)
    if len(optima) > 1:
        values = " and ".join(str(value) for value in sorted(optima))
        add(
            about(
                "two-optima", f"{values} are all said to be optimal", [c for v in optima.values() for c in v]
            )
        )
