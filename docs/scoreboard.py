"""Pages of the library: for each set a table of records, CSV and BibTeX beside; the open questions.

Sphinx has them written into ``sets`` before it reads the pages; they are not committed. ::

    python docs/scoreboard.py [FOLDER]
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide import __version__
from lowtide.results.audits.best_known import read_best_known
from lowtide.results.audits.claims import is_maximized, unit_of
from lowtide.results.library.records import record_of
from lowtide.results.library.sets import LibrarySet, set_text, sets

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = Path(__file__).with_name("sets")
FEATURES = ("ops", "edges", "width", "depth")
COLUMNS = ("id", *FEATURES, "best", "bound", "gap", "status", "who", "how", "when", "command")
NUMBERS = (*FEATURES, "best", "bound", "gap")
TRIED = 5
"""Largest number of methods that the page of open questions names for a question: the line fits a screen."""

Record = dict[str, Any]


def write_pages(folder: Path = FOLDER) -> None:
    """Write all pages; a page that has not changed keeps its time, so that Sphinx does not read it again."""
    for name, text in pages().items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def pages() -> dict[str, str]:
    """Return the files by name: three of each set, and the page of open questions."""
    known = read_best_known()
    files = {}
    lacking: list[Record] = []
    for one_set in sets():
        records = [record_of(one_set, entry, known) for entry in one_set.entries]
        stem = "-".join(one_set.name.split("/")[1:])
        files[f"{stem}.md"] = set_page(one_set, stem, records)
        files[f"{stem}.csv"] = csv_text(records)
        files[f"{stem}.bib"] = bibtex(one_set)
        lacking += [record for record in records if record["status"] == "open"]
    files["open.md"] = open_page(lacking)
    return files


def set_page(one_set: LibrarySet, stem: str, records: Sequence[Record]) -> str:
    """Return the page of a set."""
    counts = sorted(Counter(record["status"] for record in records).items())
    words = ", ".join(f"{count} {status}" for status, count in counts)
    best = "largest" if is_maximized(one_set.problem) else "smallest"
    lines = [
        f"# {one_set.problem}/{one_set.name.rpartition('/')[2]}",
        "",
        f"Set {one_set.name}, {len(records)} questions of {one_set.created}: {words}. The best objective is "
        f"the {best} verified one, in {unit_of(one_set.problem)}. [The library](../library.md) has the "
        "meaning of the status.",
        "",
        f"Files: {{download}}`CSV <{stem}.csv>`, {{download}}`BibTeX <{stem}.bib>`. A run of your method: "
        f"`lowtide library run {one_set.problem}/{one_set.name.rpartition('/')[2]} --method NAME`.",
        "",
        *table(COLUMNS, records),
        "",
        f"Rule: {one_set.rule}",
    ]
    return "\n".join([*lines, ""])


def open_page(records: Sequence[Record]) -> str:
    """Return the page of the open questions: how far the bound is, and the best that methods reached."""
    rows = [{**record, "tried": tried(record)} for record in sorted(records, key=lambda r: -(r["gap"] or 1))]
    lines = [
        "# Open questions",
        "",
        f"The best bound known of {len(records)} questions does not meet the best objective known. The "
        "widest gaps come first. `tried`: the best objectives (and bounds) of methods in committed tables.",
        "",
        *table(("id", "ops", "best", "bound", "gap", "tried", "command"), rows),
    ]
    return "\n".join([*lines, ""])


def tried(record: Record) -> str:
    """Return what methods reached, the best first."""
    larger = is_maximized(record["set"].split("/")[1])
    pairs = [(method, *pair) for method, pair in record["tried"].items() if pair[0] is not None]
    pairs.sort(key=lambda item: (-item[1] if larger else item[1], item[0]))
    words = [
        f"{method} {objective:,}" + ("" if bound is None else f" ({bound:,})")
        for method, objective, bound in pairs[:TRIED]
    ]
    more = len(pairs) - TRIED
    return "; ".join([*words, *([f"{more} more"] if more > 0 else [])])


def table(columns: Sequence[str], records: Iterable[Record]) -> list[str]:
    """Return the lines of a table in Markdown."""
    heads = ["gap [%]" if column == "gap" else column for column in columns]
    lines = [_line(heads), _line(["---:" if column in NUMBERS else "---" for column in columns])]
    return lines + [_line([_cell(column, record) for column in columns]) for record in records]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _cell(column: str, record: Mapping[str, Any]) -> str:
    value = record["features"][column] if column in FEATURES else record[column]
    if value is None:
        return ""
    if column == "gap":
        return "< 0.01" if 0 < value < 5e-5 else f"{100 * value:.2f}"
    if column == "how" and record["table"] is not None:
        return f"{value}, table {record['table']}"
    return f"`{value}`" if column == "command" else f"{value:,}" if type(value) is int else str(value)


def csv_text(records: Iterable[Record]) -> str:
    """Return a table of all that is known, one question on each line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns: list[str] = []
    for record in records:
        flat = {k: v for k, v in record.items() if k not in ("features", "history", "tried")}
        flat |= record["features"]
        flat |= {key: json.dumps(record[key], separators=(",", ":")) for key in ("history", "tried")}
        if not columns:
            columns = [*flat]
            writer.writerow(columns)
        writer.writerow(["" if flat[column] is None else flat[column] for column in columns])
    return out.getvalue()


def bibtex(one_set: LibrarySet) -> str:
    """Return an entry to cite the set by; its hash is that of the file of the set."""
    fields = {
        "title": f"lowtide library, set {one_set.name}",
        "author": "{The lowtide developers}",
        "year": one_set.created[:4],
        "version": one_set.name.split("/")[0],
        "note": f"lowtide {__version__}, {len(one_set.entries)} questions, "
        f"sha256 {hashlib.sha256(set_text(one_set)).hexdigest()}",
    }
    lines = [f"  {key} = {{{value}}}," for key, value in fields.items()]
    return "\n".join([f"@misc{{lowtide-{one_set.name.replace('/', '-')},", *lines, "}", ""])


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", lambda _: write_pages())
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    write_pages(*map(Path, sys.argv[1:]))
