"""The pool of the library: questions with their features, and how well they are known.

The questions are those of ``results/best_known`` that load without files of one's own and that no committed
row calls infeasible. Their class follows from the committed tables:

* ``open``: the best bound known does not meet the best objective known;
* ``easy``: they meet, and a row of `auto` proves it in at most `EASY` seconds; or no row of `auto` says its
  seconds, and no row of a method that proves optima ended without the proof, or `auto` closes it, on one
  thread, in `EASY` seconds (in a reference run, else now);
* ``hard``: they meet, otherwise.

Of a family at most `DRAWN` questions of each class enter, drawn by the hash of version and question. Sets
whose questions are all measured are listed in the file. ::

    python -m lowtide.results.experiments.library.pool [SET]    # what is lacking, or of such as peak/open
"""

from __future__ import annotations

import csv
import hashlib
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ....instances.catalogue import entries
from ....instances.formats.strict_json import dump_json, read_json
from ....instances.spec import Spec, parse_spec
from ....models.files import write_packed
from ....models.problems import PROBLEMS
from ....models.result import Status
from ....models.texts import from_cell
from ....solvers.method import Proves
from ....solvers.registry import methods
from ....solvers.solve import solve
from ...audits.best_known import BestKnown, read_best_known
from ...audits.claims import Question
from ...library.features import Features, asked_in, counts_of
from ...library.sets import VERSION
from ...sweeps.job import load_question
from ...tables.declared import TABLE, read_declared, records_of_row
from ..running import HERE, say
from .reference import read_runs

POOL = Path(__file__).with_name("pool.json.gz")
DRAWN = 12
"""Largest number of questions of a family and a class; few more than a set takes, since each is loaded."""
ASKED = (
    *("peak", "offsets", "makespan", "recompute", "placement", "arena", "hybrid", "memory-edges", "minio"),
    *("partition", "pipeline", "distributed", "streams", "parallel-memory"),
)
"""Problems of the version, first those that most is known of."""
EASY = 10.0
"""Largest wall time, in seconds, of the proof of an easy question; at 60 only two problems had hard ones."""
UNCLEAR = "unclear"
"""The class of a question until a run decides between easy and hard."""
LICENCES = {"ios": "MIT", "layers": "MIT"}
"""Licences of folders of the catalogue, by the NOTICE there; all others are under Apache-2.0."""

Row = dict[str, Any]


def measure(only: str = "") -> None:
    """Add to the pool the questions that it lacks, and write it; what an interruption leaves is kept.

    Parameters
    ----------
    only
        What ``PROBLEM/CLASS`` of a question that is loaded begins with.
    """
    rows = {(row["problem"], row["spec"]): row for row in read_pool()} if POOL.exists() else {}
    graphs: dict[tuple[str, str], Features] = {}
    drawn = list(_drawn())
    other: list[BestKnown] = []
    for number, (level, known) in enumerate(drawn, start=1):
        key = (known.problem, known.instance)
        if key not in rows and f"{known.problem}/{level}".startswith(only):
            if load_question(known.problem, known.instance).instance.sha256 != known.sha256:
                say(f"{known.instance}: another hash than that of the best known, left out")
                other.append(known)
                continue
            rows[key] = _row(known, graphs)
            if not number % 10:
                say(f"{number} of {len(drawn)}")
                _write(list(rows.values()), {f"{k.problem}/{level}" for level, k in drawn})
    drawn = [(level, known) for level, known in drawn if known not in other]
    lacking = {f"{k.problem}/{level}" for level, k in drawn if (k.problem, k.instance) not in rows}
    for level, known in drawn:
        row = rows.get((known.problem, known.instance))
        if row is not None and level != UNCLEAR:
            row["class"] = level
        elif row is not None and row["class"] == UNCLEAR:
            row["class"] = "easy" if _is_closed_now(known) else "hard"
    keys = [(known.problem, known.instance) for _, known in drawn]
    _write([rows[key] for key in keys if key in rows], lacking)
    say(f"{sum(key in rows for key in keys)} of {len(keys)}; lacking: {', '.join(sorted(lacking)) or 'none'}")


def _write(rows: list[Row], lacking: Collection[str] = ()) -> None:
    complete = sorted({f"{row['problem']}/{row['class']}" for row in rows} - {*lacking})
    data = {"format": "lowtide/pool", "version": 1, "complete": complete, "rows": rows}
    write_packed(POOL, dump_json(data, ("rows",)))


def read_pool() -> list[Row]:
    """Return the rows of the pool."""
    rows: list[Row] = read_json(POOL)["rows"]
    return rows


def complete_rows() -> list[Row]:
    """Return the rows of the sets whose questions are all measured."""
    complete = read_json(POOL)["complete"]
    return [row for row in read_pool() if f"{row['problem']}/{row['class']}" in complete]


def _drawn() -> Iterator[tuple[str, BestKnown]]:
    """Yield class and entry of each question of the pool, in a fixed order."""
    attempts = _attempts()
    groups: dict[tuple[str, str, str], list[tuple[str, BestKnown]]] = {}
    for question, known in read_best_known().items():
        bundled = known.instance.startswith(("catalogue:", "gen:", "onnx:")) and ".toml" not in known.instance
        tried = attempts.get(question, [])
        if bundled and known.problem in ASKED and all(run["status"] != "infeasible" for run in tried):
            family = _source(parse_spec(known.instance))[0]
            key = (known.problem, class_of(known, tried), family)
            groups.setdefault(key, []).append((drawn_by(known.sha256), known))
    for (_, level, _), group in sorted(groups.items(), key=lambda item: (ASKED.index(item[0][0]), item[0])):
        yield from ((level, known) for _, known in sorted(group, key=lambda pair: pair[0])[:DRAWN])


def drawn_by(sha256: str) -> str:
    """Return what the questions of a version are drawn by."""
    return hashlib.sha256(f"{VERSION} {sha256}".encode()).hexdigest()


def _attempts() -> dict[Question, list[Row]]:
    """Return the records of the committed tables by question, with the ``seconds`` of their rows or None."""
    records: dict[Question, list[Row]] = {}
    for name, declared in (read_declared(HERE) or {}).items():
        path = HERE / name / TABLE
        if not path.is_file() or not declared.questions:
            continue
        with path.open(newline="") as file:
            for number, cells in enumerate(csv.DictReader(file), start=2):
                row = {key: from_cell(text or "") for key, text in cells.items()}
                for record in records_of_row(declared, row, f"{name}: row {number}"):
                    question = (record["instance_sha256"], record["problem"])
                    seconds = float(row["seconds"]) if row.get("seconds") else None
                    records.setdefault(question, []).append({**record, "seconds": seconds})
    for run in read_runs():
        seconds = sum(run["seconds"][part] or 0 for part in ("build", "solve"))
        records.setdefault((run["instance_sha256"], run["problem"]), []).append({**run, "seconds": seconds})
    return records


def class_of(known: BestKnown, attempts: list[Row]) -> str:
    """Return the class of a question: ``easy``, ``hard``, ``open``, or `UNCLEAR` if a run must decide."""
    if known.objective is None or known.bound is None or known.objective.value != known.bound.value:
        return "open"
    proofs = [a for a in attempts if a.get("objective") is not None and a["objective"] == a.get("bound")]
    times = [a["seconds"] for a in proofs if a["method"] == "auto" and a["seconds"] is not None]
    if times:
        return "easy" if min(times) <= EASY else "hard"
    exact = {m.name for m in methods() if m.problem == known.problem and m.proves is Proves.OPTIMUM}
    failed = (a for a in attempts if a["method"] in exact and a not in proofs and a["status"] != "infeasible")
    measured = any("limits" in a for a in attempts)  # a reference run, of 10 s, without the proof
    return "easy" if not any(failed) else "hard" if measured else UNCLEAR


def _is_closed_now(known: BestKnown) -> bool:
    """Return whether `auto` proves an optimum on one thread while a question counts as easy."""
    result = solve(load_question(known.problem, known.instance), time_limit=EASY, threads=1)
    return result.status is Status.OPTIMAL


def _row(known: BestKnown, graphs: dict[tuple[str, str], Features]) -> Row:
    """Return the row of a question; those about one graph load it once (the audit checks each hash)."""
    spec = parse_spec(known.instance)
    asked = _asked(known.problem, spec)
    about = "offsets" if PROBLEMS[known.problem].about == "buffers" else "peak"
    left_out = {*asked, "exchange"}  # which stands beside replicas alone
    base = str(Spec(spec.scheme, spec.name, {k: v for k, v in spec.options.items() if k not in left_out}))
    if (about, base) not in graphs:
        graphs[about, base] = counts_of(load_question(about, base))
    family, origin, licence = _source(spec)
    return {
        "problem": known.problem,
        "class": UNCLEAR,
        "family": family,
        "spec": known.instance,
        "sha256": known.sha256,
        "question": asked,
        "features": {**graphs[about, base], **asked_in(spec)},
        "origin": origin,
        "licence": licence,
    }


def _asked(problem: str, spec: Spec) -> dict[str, str]:
    """Return the options of a specification that are the problem's own."""
    parameters = PROBLEMS[problem].parameters
    prefixes = tuple(name for name in parameters if name.endswith("."))
    return {k: v for k, v in spec.options.items() if k in parameters or (prefixes and k.startswith(prefixes))}


def _source(spec: Spec) -> tuple[str, str, str]:
    """Return family, origin ("real" or "generated") and licence of what a specification names."""
    if spec.scheme == "onnx":
        return f"onnx:{spec.name}", "real", "Apache-2.0"
    if spec.scheme == "gen":
        return f"gen:{spec.name}", "real" if spec.name == "llm" else "generated", "Apache-2.0"
    entry = entries()[spec.name]
    if entry.spec is not None:
        return _source(parse_spec(entry.spec))
    folder, slash, _ = spec.name.partition("/")
    return f"catalogue:{folder}", "real", LICENCES.get(folder, "Apache-2.0") if slash else "Apache-2.0"


if __name__ == "__main__":
    measure(*sys.argv[1:])
