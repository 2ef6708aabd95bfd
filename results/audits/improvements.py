"""What claims of records improve of the best that is known.

An objective counts once its plan was verified again, or if a committed table says it (its plan was verified
when the table was made); a bound if nothing known contradicts it. Nothing that is known gets worse.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from ...instances.spec import parse_spec
from ...models.errors import LowtideError
from ...models.problems.problem import Problem
from ...models.result import Status
from ..library.sets import sets
from .best_known import FOLDER, BestKnown, Mark, Past, is_closed, read_best_known, write_best_known
from .claims import Claim, Question, is_beyond, is_maximized, unit_of
from .recheck import recheck, recheck_bound


class Better(NamedTuple):
    """An improvement: `side` is "objective" or "bound", `old` None if nothing was known."""

    instance: str
    problem: str
    side: str
    old: int | None
    new: int
    method: str


class Update(NamedTuple):
    """What an update changed, and in words what it would have taken but for a doubt."""

    changes: list[Better]
    refused: list[str]


def update(claims: Iterable[Claim], path: str | os.PathLike[str] = FOLDER) -> Update:
    """Improve a best-known file, or a folder of them, by what records say.

    Nothing that is known gets worse. A better objective is taken only if its plan is there and verifies
    again, or if a committed table says it; a better bound only if the plan of its record, if it has one,
    does, and if it is not above the best objective. A question about which the records and the file
    contradict each other is left as it is (``lowtide audit`` lists the records).

    Parameters
    ----------
    claims
        Those of experiments: `lowtide.results.audits.evidence.read_claims`.
    path
        What to improve; default: the package's folder. Nothing is touched if nothing improves.

    Returns
    -------
    Update
        The changes made, and what was refused.

    Raises
    ------
    InstanceError
        If the file is bad input.
    UsageError
        If the file cannot be written.
    """
    old = read_best_known(path) if Path(path).exists() else {}
    known, done = improved(old, claims)
    if known != old:
        write_best_known(known, path)
    return done


def improved(
    known: Mapping[Question, BestKnown], claims: Iterable[Claim]
) -> tuple[dict[Question, BestKnown], Update]:
    """Return the entries improved by claims, as `update` does it, and what changed; nothing is written."""
    known = dict(known)
    by_question: dict[Question, list[Claim]] = {}
    for claim in claims:
        by_question.setdefault(claim.question, []).append(claim)
    done = Update([], [])
    listed = {(entry.sha256, one_set.problem) for one_set in sets() for entry in one_set.entries}
    for question, about in by_question.items():
        first = about[0]
        entry = known.get(question) or BestKnown(
            instance=portable_name(first.instance),
            sha256=first.sha256,
            problem=first.problem,
            unit=unit_of(first.problem),
        )
        problems: dict[Question, Problem] = {}
        better = _improved(entry, about, problems, done.refused)
        if question in listed:
            better = replace(better, tried=_tried(entry, about))
        better = _with_past(entry, better, about, problems)
        for side in ("objective", "bound"):
            old, new = getattr(entry, side), getattr(better, side)
            if new != old:
                value = None if old is None else old.value
                done.changes.append(Better(entry.instance, entry.problem, side, value, new.value, new.method))
        if better.objective is not None or better.bound is not None:
            known[question] = better
    return known, done


def _tried(entry: BestKnown, claims: Sequence[Claim]) -> dict[str, tuple[int | None, int | None]]:
    """Return the best verified objective and the best bound of each method in committed tables."""
    tried = dict(entry.tried)
    best, strongest = (max, min) if is_maximized(entry.problem) else (min, max)
    for claim in claims:
        if claim.table is None or claim.witness or (claim.objective is None and claim.bound is None):
            continue
        objective, bound = tried.get(claim.method, (None, None))
        if claim.verified and claim.objective is not None:
            objective = claim.objective if objective is None else best(objective, claim.objective)
        if claim.bound is not None:
            bound = claim.bound if bound is None else strongest(bound, claim.bound)
        tried[claim.method] = objective, bound
    return dict(sorted(tried.items()))


def _with_past(
    old: BestKnown, new: BestKnown, claims: Sequence[Claim], problems: dict[Question, Problem]
) -> BestKnown:
    """Return the new entry with the history of the old one and with its status."""
    past = [
        Past(side, mark)
        for side in ("objective", "bound")
        if (mark := getattr(old, side)) is not None and mark.value != getattr(new, side).value
    ]
    new = replace(new, history=(*old.history, *past))
    if not is_closed(new):
        return replace(new, status="open")
    bound = None if new.bound is None else new.bound.value
    if is_closed(old) and not past and old.status == "certified":
        return new
    for claim in claims:
        proves = claim.certificate is not None and claim.bound == bound
        if proves and recheck_bound(claim, problems).objective is not None:
            return replace(new, status="certified")
    return replace(new, status="agreed" if _agreed(new) else "claimed")


def _agreed(known: BestKnown) -> bool:
    """Return whether two methods proved the optimum that share no engine and no kernel, neither is `auto`."""
    from ...solvers.registry import ROOMS

    room = ROOMS.get(known.problem)
    proved = {method for method, (objective, bound) in known.tried.items() if objective == bound}
    exact = [
        m for m in (room.methods if room else ()) if m.name in proved - {"auto"} and m.proves == "optimum"
    ]
    return any(
        a.run != b.run and (a.engine is None or a.engine != b.engine) and not {*a.kernels} & {*b.kernels}
        for a, b in combinations(exact, 2)
    )


def portable_name(spec: str) -> str:
    """Return what to call an instance elsewhere: of paths only the names of the files.

    Examples
    --------
    >>> portable_name("onnx:resnet50?train=1"), portable_name("somewhere/graph.json.gz")
    ('onnx:resnet50?train=1', 'graph.json.gz')
    """
    try:
        parsed = parse_spec(spec)
    except LowtideError:
        return spec
    machine = parsed.options.get("machine", "")
    options = {**parsed.options, "machine": os.path.basename(machine)} if "/" in machine else parsed.options
    if parsed.scheme in ("path", "native"):
        return str(replace(parsed, scheme="path", name=os.path.basename(parsed.name), options=options))
    return str(replace(parsed, options=options)) if options != parsed.options else spec


def _improved(
    entry: BestKnown, claims: Sequence[Claim], problems: dict[Question, Problem], refused: list[str]
) -> BestKnown:
    """Return the entry with the best verified objective and the best bound of the claims."""
    objective = entry.objective
    sign = -1 if is_maximized(entry.problem) else 1
    by_objective = sorted(
        (c for c in claims if c.objective is not None),
        key=lambda c: (sign * _objective(c), c.plan is None),
    )
    for claim in by_objective:
        if objective is not None and sign * _objective(claim) >= sign * objective.value:
            confirms = _objective(claim) == objective.value and claim.plan is not None
            if not (confirms and objective.table is not None):
                break
        if doubt := _doubt(claim, problems, needs_plan=True):
            refused.append(f"{claim}: objective {claim.objective}, {doubt}")
            continue
        objective = _mark(claim, _objective(claim), None)
        break
    bound = entry.bound
    for claim in sorted((c for c in claims if c.bound is not None), key=_strength, reverse=True):
        value = claim.bound or 0
        if bound is not None and _strength(claim) <= (sign * bound.value, bound.proof == "exact"):
            break
        if doubt := _doubt(claim, problems, needs_plan=False):
            refused.append(f"{claim}: bound {value}, {doubt}")
            continue
        bound = _mark(claim, value, claim.proof)
        break
    if objective is not None and bound is not None and is_beyond(bound.value, objective.value, entry.problem):
        side = "below" if is_maximized(entry.problem) else "above"
        refused.append(
            f"{entry.instance}, {entry.problem}: bound {bound.value} ({bound.method}) {side} "
            f"objective {objective.value} ({objective.method})"
        )
        return entry
    return replace(entry, objective=objective, bound=bound)


def _objective(claim: Claim) -> int:
    assert claim.objective is not None
    return claim.objective


def _strength(claim: Claim) -> tuple[int, bool]:
    """Return how strong a bound is: upper ones, of what is maximized, the lower the stronger."""
    assert claim.bound is not None
    return (-claim.bound if is_maximized(claim.problem) else claim.bound), claim.proof == "exact"


def _doubt(claim: Claim, problems: dict[Question, Problem], *, needs_plan: bool) -> str | None:
    """Return why a claim is not taken, or None."""
    if claim.status is Status.FAILED:
        return "the run failed"
    if claim.plan is None:
        return "without a plan to verify" if needs_plan and claim.table is None else None
    found = recheck(claim, problems)
    return found.fault[1] if found.fault is not None else found.unchecked


def _mark(claim: Claim, value: int, proof: str | None) -> Mark:
    return Mark(
        value=value,
        method=claim.method,
        date=claim.date,
        version=claim.version,
        proof=proof,
        table=claim.table if claim.plan is None else None,
        by=claim.by,
    )
