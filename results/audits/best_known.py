"""The best that is known about each question: objective and bound, and the runs that they come from.

The folder ``results/best_known`` is part of the package; it has a file for each problem.
`lowtide.results.audits.improvements` only ever improves it.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
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
from ...models.errors import InstanceError
from ...models.files import write_whole
from ...models.result import Status
from .claims import Claim, Question

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
