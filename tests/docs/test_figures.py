"""Numbers in prose, of problems and results: each is a figure of a table, or defines something."""

from __future__ import annotations

import ast
import math
import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lowtide.results.experiments.running import HERE, ROOT, read_rows
from lowtide.results.tables.columns import evaluated, number_of

PAGES = {
    path.stem: path
    for path in sorted((ROOT / "docs").glob("**/*.md"))
    if path.parent.name == "problems" or path.stem in ("index", "results")
}
FILES = [
    tomllib.loads(Path(__file__).with_name(name).read_text())
    for name in ("figures.toml", "figures_of_results.toml")
]
FIGURES: list[dict[str, Any]] = [figure for file in FILES for figure in file["figure"]]
GIVEN: dict[str, list[str]] = {page: words for file in FILES for page, words in file["given"].items()}
NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w])")
NO_PROSE = (
    r"```.*?```",  # commands and their output are carried out by other tests
    r"<!-- table:.*?<!-- end -->",  # copies of tables
    r"\$\$.*?\$\$|\$[^$\n]*\$",
    r"`[^`]*`",
    r"\]\([^)]*\)",
    r"\b(?:19|20)\d\d\b",  # years
)


def prose(page: Path) -> str:
    """Return the text of a page on one line, without what stands in other places as well."""
    text = page.read_text()
    for pattern in NO_PROSE[:2]:
        text = re.sub(pattern, " ", text, flags=re.DOTALL)
    return " ".join(text.split())


def uncovered(page: Path) -> list[str]:
    """Return the numbers of a page, with what is around them, that no figure and no definition has."""
    text = prose(page)
    said = [re.sub(r"[{}]", "", entry["text"]) for entry in FIGURES if entry["page"] == page.stem]
    known = [*map(re.escape, (*said, *GIVEN.get(page.stem, ()))), *NO_PROSE[2:]]
    covered = [match.span() for pattern in known for match in re.finditer(pattern, text)]
    return [
        text[max(0, number.start() - 40) : number.end() + 30]
        for number in NUMBER.finditer(text)
        if not any(start <= number.start() < end for start, end in covered)
    ]


def cell(where: dict[str, Any]) -> float:
    """Return the number that a cell, or several together, say."""
    table = HERE / where["table"] / "table.csv"
    assert table.exists()
    rows = [
        row
        for row in read_rows(where["table"])
        if all(fits(row[k], v) for k, v in where.get("where", {}).items())
    ]
    values = [row[where["column"]] for row in rows if row[where["column"]] is not None]
    assert values, where
    if where.get("of") == "count":
        return len(values)
    numbers = [float(number_of(value) or 0) for value in values]
    if where.get("of") == "mean_log":
        return math.exp(sum(map(math.log, numbers)) / len(numbers))
    if "of" in where:
        return {"min": min, "max": max}[where["of"]](numbers)
    assert len(set(numbers)) == 1, where
    return numbers[0]


def fits(value: Any, wanted: str) -> bool:
    text = "" if value is None else str(value)
    return re.search(wanted[1:], text) is not None if wanted.startswith("~") else text == wanted


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_number_is_a_figure_or_defines_something(page: Path) -> None:
    assert uncovered(page) == []


@pytest.mark.parametrize("entry", FIGURES, ids=lambda entry: f"{entry['page']}: {entry['text'][:40]}")
def test_a_figure_is_what_the_table_says(entry: dict[str, Any]) -> None:
    assert re.sub(r"[{}]", "", entry["text"]) in prose(PAGES[entry["page"]])
    (said,) = re.findall(r"\{(.*?)\}", entry["text"])
    shown = Decimal(said.replace(",", ""))
    cells = {name: cell(where) for name, where in entry.items() if isinstance(where, dict)}
    value = evaluated(ast.parse(entry["value"], mode="eval").body, cells)
    step = Decimal(entry.get("step", Decimal(1).scaleb(int(shown.as_tuple().exponent))))
    assert abs(Decimal(str(value)) - shown) <= step / 2, f"the table says {value}"


@pytest.mark.parametrize("page", GIVEN)
def test_definitions_are_on_their_page(page: str) -> None:
    text = prose(PAGES[page])
    assert [words for words in GIVEN[page] if words not in text] == []
