"""What the rows of committed tables claim: which question each is about, and which cells are whose answers.

A folder of tables has a file ``tables.toml``, which says of every ``.csv`` in it, and of every ``table.csv``
in a folder in it by the name of that folder, either why it claims nothing, or what::

    [offsets_speed]
    no_claims = "seconds of several programs"

    [[placement_chains]]
    problem = "placement"
    instance = "gen:skipchain?n={ops}&seed={seed}[&whole={whole}]"
    claims = [{ method = "slot-lp", status = "status", objective = "makespan", bound = "bound" }]
    elsewhere = { set = ["files"] }

``instance`` is the specification of the row's question, from its cells; what stands in brackets is left out
where one of its cells is empty. A table whose rows bring the column ``instance`` needs none. A file's path
counts from the folder. ``column`` (default ``instance``) is where the specification stands in the table, and
``column`` with ``_sha256`` where the hash of the question does; further blocks of the same name are further
questions of the same rows. Of a claim, ``method`` is a text with cells in braces, the others are columns:
``status`` (without one it follows from the numbers), ``objective``, ``bound``, ``gap``, which must be that of
these two, ``options``, those of the method (``reads=once``, several with commas), and ``proven``, a column
that is filled where the objective is a proved optimum (``true``: everywhere). Rows with one of the listed
values in a column of ``elsewhere`` are about instances that cannot be loaded from here.

The two columns are written with `with_questions` (`lowtide.results.tables.spec`); ``lowtide audit`` reads all
of it. What the other columns are says ``[columns.NAME]`` (`lowtide.results.tables.columns`). ``again`` lists
those of a claim's methods that give the same objective whenever they run with these options (``true``: all of
them): the audit makes some of their rows again.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ...instances.formats.strict_json import (
    Field,
    check_object,
    is_list,
    is_object,
    is_text,
    read_bytes,
    required,
    show,
)
from ...instances.spec import resolved_spec
from ...models.errors import InstanceError
from ...models.problems import PROBLEMS

FILE = "tables.toml"
COLUMNS = "columns"
"""What says of all tables what their columns are."""
TABLE = "table.csv"
"""The rows of an experiment, in a folder of its own beside `FILE`."""

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TableClaim:
    """What a row says by one method; the names of columns, and `method` a text with cells in braces."""

    method: str
    objective: str | None = None
    bound: str | None = None
    status: str | None = None
    gap: str | None = None
    options: str | None = None
    proven: str | bool = False
    again: bool | tuple[str, ...] = False


@dataclass(frozen=True, kw_only=True)
class TableQuestion:
    """A question of each row; `column` is where its specification stands, `instance` how it is made."""

    problem: str
    claims: tuple[TableClaim, ...]
    column: str = "instance"
    instance: str | None = None
    elsewhere: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """The column of the question's hash."""
        return f"{self.column}_sha256"

    def spec(self, row: Row) -> str | None:
        """Return the specification of a row's question; None if it is not to be had from here."""
        if any(_text(row.get(key)) in some for key, some in self.elsewhere.items()):
            return None
        if self.instance is None:
            return _text(row.get(self.column)) or None
        return filled(self.instance, row)


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A table: its questions, or why it claims nothing."""

    name: str
    questions: tuple[TableQuestion, ...] = ()
    no_claims: str | None = None


def filled(template: str, row: Row) -> str:
    """Return a text with a row's cells in its braces; brackets go where one of their cells is empty.

    Of several ``?`` (a cell may have options of its own) the first stays, the others become ``&``.

    Raises
    ------
    InstanceError
        If a column is missing.

    Examples
    --------
    >>> filled("gen:{kind}?n={n}[&seed={seed}]", {"kind": "sp", "n": 5, "seed": None})
    'gen:sp?n=5'
    """

    def cell(match: re.Match[str]) -> str:
        if match[1] not in row:
            raise InstanceError(f"template {template!r}: found no column {match[1]!r}, expected one")
        return _text(row[match[1]])

    def part(match: re.Match[str]) -> str:
        names = re.findall(r"\{([^}]*)\}", match[1])
        return match[1] if all(_text(row.get(name)) for name in names) else ""

    text = re.sub(r"\{([^}]*)\}", cell, re.sub(r"\[([^\]]*)\]", part, template))
    head, mark, options = text.partition("?")
    return head + mark + options.replace("?", "&")


def read_declared(folder: str | os.PathLike[str]) -> dict[str, Declared] | None:
    """Return what a folder's ``tables.toml`` says by the name of the table; None if there is none.

    Raises
    ------
    InstanceError
        If the file is not of the format.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    try:
        data = tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InstanceError(f"{path}: found no TOML ({error})") from None
    return {n: _declared(n, value, f"{path}, {n}") for n, value in data.items() if n != COLUMNS}


def read_columns(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a folder's ``tables.toml`` says of columns, by the name of the table."""
    path = Path(folder) / FILE
    found: dict[str, Any] = tomllib.loads(read_bytes(path).decode()).get(COLUMNS, {})
    return found


def declared_of(path: Path) -> Declared | None:
    """Return what is said of a ``.csv``: in the file beside it, or beside its folder; None if nothing is."""
    declared = (read_declared(path.parent) or {}).get(path.stem)
    if declared is None and path.name == TABLE:
        folder = path.resolve().parent
        declared = (read_declared(folder.parent) or {}).get(folder.name)
    return declared


def with_questions(declared: Declared, rows: Iterable[Row], folder: Path) -> list[dict[str, Any]]:
    """Return the rows with the specification and the hash of each of their questions.

    A hash that a row has with that specification stays; else the instance is loaded, each once.

    Parameters
    ----------
    folder
        What the paths of files count from.

    Raises
    ------
    InstanceError
        If an instance cannot be loaded.
    """
    completed = [dict(row) for row in rows]
    for question in declared.questions:
        for row in completed:
            spec = question.spec(row)
            if spec is None:
                row[question.sha256] = None
                continue
            if spec != row.get(question.column) or not row.get(question.sha256):
                row[question.sha256] = _hash(question.problem, resolved_spec(spec, str(folder)))
            row[question.column] = spec
    return completed


@cache
def _hash(problem: str, spec: str) -> str:
    from ..sweeps.job import load_question

    return load_question(problem, spec).instance.sha256


def columns_with_questions(declared: Declared, columns: Sequence[str]) -> list[str]:
    """Return the columns of a table, and those of its questions that are not among them, at the end."""
    added = [name for q in declared.questions for name in (q.column, q.sha256)]
    return [*columns, *(name for name in dict.fromkeys(added) if name not in columns)]


def declared_columns(declared: Declared) -> list[str]:
    """Return the columns that make a table's questions and claims."""
    made_of = [q.instance or "" for q in declared.questions]
    return [*needed_columns(declared), *(n for text in made_of for n in re.findall(r"\{([^}]*)\}", text))]


def needed_columns(declared: Declared) -> list[str]:
    """Return the columns that a table must have for its claims to be read."""
    names: list[str] = []
    for question in declared.questions:
        names += [question.column, question.sha256, *question.elsewhere]
        for claim in question.claims:
            names += re.findall(r"\{([^}]*)\}", claim.method)
            names += [
                name
                for name in (
                    *(claim.objective, claim.bound, claim.status, claim.gap),
                    *(claim.options, claim.proven),
                )
                if isinstance(name, str)
            ]
    return list(dict.fromkeys(names))


def records_of_row(declared: Declared, row: Row, where: str) -> Iterator[dict[str, Any]]:
    """Yield what a row claims as run records; none of a question that cannot be loaded from here.

    Raises
    ------
    InstanceError
        If the row lacks its question, or does not name the one that its own cells say.
    """
    for question in declared.questions:
        spec = question.spec(row)
        if spec is None and question.elsewhere:
            continue
        for key in (question.column, question.sha256):
            if not row[key]:
                raise InstanceError(f"{where}, {key}: found nothing, expected the question of the row")
        if spec != row[question.column]:
            raise InstanceError(
                f"{where}, {question.column}: found {show(row[question.column])}, expected {show(spec)}, "
                "which the other cells say"
            )
        for claim in question.claims:
            record = _record(claim, row, where)
            if record is not None:
                again = claim.again
                yield {
                    "again": again if isinstance(again, bool) else record["method"] in again,
                    "instance": spec,
                    "instance_sha256": row[question.sha256],
                    "problem": question.problem,
                    "started": row.get("date") or None,
                    "version": row.get("version") or None,
                    **record,
                }


def is_elsewhere(declared: Declared, row: Row) -> bool:
    """Return whether a row has questions, all of them about instances that cannot be loaded from here."""
    questions = declared.questions
    return bool(questions) and all(q.elsewhere and q.spec(row) is None for q in questions)


def _record(claim: TableClaim, row: Row, where: str) -> dict[str, Any] | None:
    """Return method, status, objective and bound; None where all cells are empty."""
    objective = _number(claim.objective, row, where)
    bound = _number(claim.bound, row, where)
    _check_gap(claim, row, objective, bound, where)
    status = _text(row[claim.status]) if claim.status is not None else ""
    proven = claim.proven is True or bool(claim.proven and _text(row[claim.proven]) not in ("", "False"))
    if proven or (claim.bound is None and status == "optimal"):
        bound = objective
    if not status:
        status = "unknown" if objective is None else "optimal" if objective == bound else "feasible"
        if objective is None and bound is None:
            return None
    if (objective is not None) is not (status in ("optimal", "feasible")):
        said = "nothing" if objective is None else str(objective)
        raise InstanceError(f"{where}, {claim.objective}: found {said} beside status {status}")
    options = _text(row[claim.options]) if claim.options is not None else ""
    return {
        "method": filled(claim.method, row),
        "parameters": dict(option.split("=", 1) for option in options.split(",") if option),
        "status": status,
        "objective": objective,
        "bound": bound,
    }


def _check_gap(claim: TableClaim, row: Row, objective: int | None, bound: int | None, where: str) -> None:
    """Raise unless the gap, if there is such a column, is that of objective and bound."""
    if claim.gap is None:
        return
    expected = None
    if objective is not None and bound is not None:
        expected = (objective - bound) / objective if objective else 0.0
    text = _text(row[claim.gap])
    try:
        stated = float(text) if text else None
    except ValueError:
        stated = math.nan
    if stated is None or expected is None:
        right = stated is expected
    else:
        right = math.isclose(stated, expected, rel_tol=1e-9)
    if not right:
        said = "nothing" if expected is None else f"{expected!r}, that of objective and bound"
        raise InstanceError(f"{where}, {claim.gap}: found {show(text)}, expected {said}")


def _number(column: str | None, row: Row, where: str) -> int | None:
    text = "" if column is None else _text(row[column])
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise InstanceError(f"{where}, {column}: found {show(text)}, expected an integer or none") from None


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _claim(data: Mapping[str, Any]) -> TableClaim:
    said: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return TableClaim(**said)


def _is_texts(value: Any) -> bool:
    return is_object(value) and all(is_list(v) and all(map(is_text, v)) for v in value.values())


_QUESTION = {
    "problem": required(Field(lambda v: v in PROBLEMS, f"one of {', '.join(PROBLEMS)}")),
    "claims": required(Field(lambda v: is_list(v) and v and all(map(is_object, v)), "a list of tables")),
    "column": Field(is_text, "a string"),
    "instance": Field(is_text, "a string"),
    "elsewhere": Field(_is_texts, "lists of strings by column"),
}
_CLAIM = {
    "method": required(Field(is_text, "a string")),
    "objective": Field(is_text, "a column"),
    "bound": Field(is_text, "a column"),
    "status": Field(is_text, "a column"),
    "gap": Field(is_text, "a column"),
    "options": Field(is_text, "a column"),
    "proven": Field(lambda v: v is True or is_text(v), "a column or true"),
    "again": Field(lambda v: v is True or (is_list(v) and all(map(is_text, v))), "true or a list of methods"),
}
_NONE = {"no_claims": required(Field(is_text, "a string that says why"))}


def _declared(name: str, value: Any, where: str) -> Declared:
    if is_object(value):
        check_object(value, _NONE, where)
        return Declared(name=name, no_claims=value["no_claims"])
    if not is_list(value):
        raise InstanceError(f"{where}: found {show(value)}, expected questions or no_claims")
    questions = []
    for i, block in enumerate(value, start=1):
        check_object(block, _QUESTION, f"{where}, question {i}")
        for claim in block["claims"]:
            check_object(claim, _CLAIM, f"{where}, question {i}, claims")
        questions.append(
            TableQuestion(
                problem=block["problem"],
                claims=tuple(_claim(claim) for claim in block["claims"]),
                column=block.get("column", "instance"),
                instance=block.get("instance"),
                elsewhere={key: tuple(some) for key, some in block.get("elsewhere", {}).items()},
            )
        )
    return Declared(name=name, questions=tuple(questions))
