"""The pages of the library: every question with its record, its command and its citation."""

from __future__ import annotations

import csv
import io
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from lowtide.results.audits.best_known import read_best_known
from lowtide.results.library.sets import sets
from tests.docs.pages import PAGES


@pytest.fixture(scope="module")
def scoreboard() -> dict[str, Any]:
    return runpy.run_path(str(PAGES / "scoreboard.py"))


@pytest.fixture(scope="module")
def pages(scoreboard: dict[str, Any]) -> dict[str, str]:
    files: dict[str, str] = scoreboard["pages"]()
    return files


@pytest.mark.slow
def test_every_question_has_its_record_on_a_page(pages: dict[str, str]) -> None:
    known = read_best_known()
    lacking = []
    for one_set in sets():
        stem = "-".join(one_set.name.split("/")[1:])
        rows = list(csv.DictReader(io.StringIO(pages[f"{stem}.csv"])))
        lines = [line for line in pages[f"{stem}.md"].splitlines() if line.startswith(f"| {stem}-")]
        assert len(lines) == len(one_set.entries)
        for entry, line, row in zip(one_set.entries, lines, rows, strict=True):
            record = known[entry.sha256, one_set.problem]
            best = None if record.objective is None else record.objective.value
            assert (row["sha256"], row["best"], row["status"]) == (
                entry.sha256,
                "" if best is None else str(best),
                record.status,
            )
            assert f"| {'' if best is None else format(best, ',')} |" in line
            assert f"`lowtide solve {one_set.problem} '{entry.spec}'`" in line
            lacking += [entry.id] if record.status == "open" else []
        assert one_set.name in pages[f"{stem}.bib"]
        assert len(pages[f"{stem}.bib"].splitlines()) == 7
    assert sorted(re.findall(r"^\| ([a-z0-9-]+-\d{3}) \|", pages["open.md"], re.M)) == sorted(lacking)


def test_a_page_that_has_not_changed_is_not_written(scoreboard: dict[str, Any], tmp_path: Path) -> None:
    write, page = scoreboard["write_pages"], tmp_path / "sets" / "a.md"
    times = []
    for text in ("x", "x", "y"):
        write.__globals__["pages"] = lambda text=text: {"a.md": text}
        write(page.parent)
        assert page.read_text() == text
        times.append(page.stat().st_mtime_ns)
    assert times[0] == times[1] < times[2]


def test_gaps_tell_nearly_closed_from_closed(scoreboard: dict[str, Any]) -> None:
    cell = scoreboard["_cell"]
    assert [cell("gap", {"gap": gap}) for gap in (0.0, 1e-9, 0.5, None)] == ["0.00", "< 0.01", "50.00", ""]
