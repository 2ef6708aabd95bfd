"""The best that is known about each question: objective and bound, and the runs that they come from.

The folder ``results/best_known`` is part of the package; it has a file for each problem. `update` only ever
improves it: an objective counts once its plan was verified again, or if a committed table says it (its plan
was verified when the table was made; ``table`` names it), a bound if nothing known contradicts it.

::

    {"format": "lowtide/best-known", "version": 1, "entries": [
     {"instance", "instance_sha256", "problem", "unit",
      "objective": {"value", "method", "date"?, "version"?, "table"?, "by"?} | null,
      "bound": {"value", "method", "date"?, "version"?, "proof"?, "table"?, "by"?} | null,
      "status"?, "history"?: [{"side", "value", "method", ...}], "tried"?: {METHOD: [objective, bound]}}]}

``status`` is one of `STATUSES`; that of a question that is open is left out. ``history`` has what was
best before, oldest first. ``tried`` has the best objective and the best bound of each method in the committed
tables, for questions of the library.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby
from pathlib import Path
from typing import Any, NamedTuple

from ...instances.formats.strict_json import (
    TEXT,
    Field,
    check_header,
    check_object,
    check_rows,
    dump_json,
    is_list,
    is_object,
    is_size,
    is_text,
    optional,
    parse_json,
    read_bytes,
    required,
)
from ...instances.spec import parse_spec
from ...models.errors import InstanceError, LowtideError
from ...models.files import write_whole
from ...models.problems.problem import Problem
from ...models.result import Status
from ..library.sets import sets
from .claims import Claim, Question, is_beyond, is_maximized, unit_of
from .recheck import recheck, recheck_bound

FORMAT = "lowtide/best-known"
FOLDER = Path(__file__).parents[1] / "best_known"
"""The files of the package, each named after its problem."""

_MARK = {
    "value": required(Field(is_size, "an integer >= 0")),
    "method": required(TEXT),
    "date": Field(optional(is_text), "a day such as 2026-01-31 or null"),
    "version": Field(optional(is_text), "a version or null"),
    "table": Field(is_text, "the name of a table"),
    "by": Field(is_text, "a name"),
}
_BOUND = {**_MARK, "proof": Field(lambda v: v in ("exact", "floating", None), '"exact", "floating" or null')}
STATUSES = ("certified", "agreed", "claimed", "open")
"""How well a question is known: open, or the best bound meets the best objective: by a certificate that the
checker confirmed, by two methods that share no engine and no kernel, or by the proof of one method."""
_PAST = {"side": required(Field(lambda v: v in ("objective", "bound"), '"objective" or "bound"')), **_BOUND}
_PAIR = Field(
    lambda v: is_list(v) and len(v) == 2 and all(x is None or is_size(x) for x in v), "objective and bound"
)
_ENTRY = {
    "instance": required(TEXT),
    "instance_sha256": required(TEXT),
    "problem": required(TEXT),
    "unit": required(TEXT),
    "objective": required(Field(optional(is_object), "an object or null")),
    "bound": required(Field(optional(is_object), "an object or null")),
    "status": Field(lambda v: v in STATUSES[:3], f"one of {', '.join(STATUSES[:3])}"),
    "history": Field(is_list, "a list of former values"),
    "tried": Field(is_object, "an object by method"),
}
_HEAD = {
    "format": required(TEXT),
    "version": required(Field(is_size, "an integer")),
    "entries": required(Field(is_list, "a list of entries")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A value and the run that it comes from; `proof` ("exact", "floating") of a bound only.

    `table` is the committed table that says so, where no plan of it is kept; `by` is who submitted it, None
    for the suite.
    """

    value: int
    method: str
    date: str | None = None
    version: str | None = None
    proof: str | None = None
    table: str | None = None
    by: str | None = None


class Past(NamedTuple):
    """What was best before: `side` is "objective" or "bound"."""

    side: str
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class BestKnown:
    """The best objective and the best bound of a question, each from a run of its own, or None.

    `status` is one of `STATUSES`; `history` has former values, oldest first; `tried` has the best objective
    and bound of each method in the committed tables.
    """

    instance: str
    sha256: str
    problem: str
    unit: str
    objective: Mark | None = None
    bound: Mark | None = None
    status: str = "open"
    history: tuple[Past, ...] = ()
    tried: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)


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


def read_best_known(path: str | os.PathLike[str] | None = None) -> dict[Question, BestKnown]:
    """Return the entries of a best-known file, or of a folder of them (default: the package's), by question.

    Raises
    ------
    InstanceError
        If a file is not exactly of the format, or two have a question.
    """
    known: dict[Question, BestKnown] = {}
    for file in best_known_files(FOLDER if path is None else path):
        _read_file(file, known)
    return known


def best_known_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a folder, or the file itself."""
    return sorted(Path(path).glob("*.json")) if Path(path).is_dir() else [Path(path)]


def _read_file(path: Path, known: dict[Question, BestKnown]) -> None:
    where = os.fspath(path)
    data = parse_json(read_bytes(where), where)
    check_header(data, "best-known", where)
    check_object(data, _HEAD, where)
    check_rows(data["entries"], _ENTRY, where, "entry")
    for i, row in enumerate(data["entries"]):
        for side, fields in (("objective", _MARK), ("bound", _BOUND)):
            if row[side] is not None:
                check_object(row[side], fields, f"{where}: entry {i} {row['instance']!r}, {side}")
        past, tried = row.get("history", []), row.get("tried", {})
        check_rows(past, _PAST, f"{where}: entry {i} {row['instance']!r}, history", "value", key="method")
        check_object(tried, dict.fromkeys(tried, _PAIR), f"{where}: entry {i} {row['instance']!r}, tried")
        question = (row["instance_sha256"], row["problem"])
        if question in known:
            raise InstanceError(f"{where}: entry {i}: found {row['instance']!r} twice, expected it once")
        entry = BestKnown(
            instance=row["instance"],
            sha256=row["instance_sha256"],
            problem=row["problem"],
            unit=row["unit"],
            objective=None if row["objective"] is None else Mark(**row["objective"]),
            bound=None if row["bound"] is None else Mark(**row["bound"]),
            history=tuple(Past(x["side"], Mark(**{k: x[k] for k in x if k != "side"})) for x in past),
            tried={method: (pair[0], pair[1]) for method, pair in tried.items()},
        )
        if "status" in row and not is_closed(entry):
            raise InstanceError(
                f"{where}: entry {i} {row['instance']!r}: found status {row['status']!r}, expected none "
                "where the bound does not meet the objective"
            )
        known[question] = replace(entry, status=row.get("status", "claimed" if is_closed(entry) else "open"))


def is_closed(known: BestKnown) -> bool:
    """Return whether the best bound meets the best objective."""
    marks = known.objective, known.bound
    return marks[0] is not None and marks[1] is not None and marks[0].value == marks[1].value


def write_best_known(known: Mapping[Question, BestKnown], path: str | os.PathLike[str] = FOLDER) -> None:
    """Write a best-known file, or one for each problem into a folder: each whole or not at all.

    One entry a line, in a fixed order.
    """
    entries = sorted(known.values(), key=lambda k: (k.problem, k.instance, k.sha256))
    files = {Path(path): entries}
    if Path(path).is_dir():
        some = groupby(entries, key=lambda k: k.problem)
        files = {Path(path, f"{problem}.json"): list(group) for problem, group in some}
    for file, rows in files.items():
        data = {"format": FORMAT, "version": 1, "entries": [entry_dict(k) for k in rows]}
        write_whole(file, dump_json(data, ("entries",)))


def find_best_known(sha256: str, problem: str) -> BestKnown | None:
    """Return what the package knows about a question, or None."""
    file = FOLDER / f"{problem}.json"
    return read_best_known(file).get((sha256, problem)) if file.exists() else None


def claims_of(known: Mapping[Question, BestKnown], source: str) -> list[Claim]:
    """Return the entries as claims: one for each objective, one for each bound."""
    claims = []
    for entry in known.values():
        for side, mark in (("objective", entry.objective), ("bound", entry.bound)):
            if mark is not None:
                claim = Claim(
                    source=source,
                    name=f"{entry.instance}, {side}",
                    instance=entry.instance,
                    sha256=entry.sha256,
                    problem=entry.problem,
                    method=mark.method,
                    status=Status.FEASIBLE if side == "objective" else Status.UNKNOWN,
                    date=mark.date,
                    version=mark.version,
                )
                claims.append(
                    replace(claim, objective=mark.value)
                    if side == "objective"
                    else replace(claim, bound=mark.value, proof=mark.proof, verified=False)
                )
    return claims


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


def entry_dict(known: BestKnown) -> dict[str, Any]:
    """Return an entry of a best-known file as JSON values."""

    def mark(item: Mark | None, keys: Iterable[str]) -> dict[str, Any] | None:
        if item is None:
            return None
        found = {key: getattr(item, key) for key in keys}
        return {key: value for key, value in found.items() if value is not None}

    more = {
        "status": known.status if known.status != "open" else None,
        "history": [{"side": past.side, **(mark(past.mark, _BOUND) or {})} for past in known.history],
        "tried": {method: [*pair] for method, pair in known.tried.items()},
    }
    return {
        "instance": known.instance,
        "instance_sha256": known.sha256,
        "problem": known.problem,
        "unit": known.unit,
        "objective": mark(known.objective, _MARK),
        "bound": mark(known.bound, _BOUND),
        **{key: value for key, value in more.items() if value},
    }
