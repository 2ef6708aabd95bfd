"""Every command, file and line of Python in the documentation does what its page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Reader, agree, blocks, edited

PROGRAMS = [
    page
    for page in sorted(PAGES.rglob("*.md"))
    if "_build" not in page.parts and any(b.file or b.kind in ("console", "python") for b in blocks(page))
]


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: str(page.relative_to(PAGES)))
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    Reader(page, tmp_path).follow()


@pytest.mark.parametrize("name", ["order", "policy", "format"])
def test_a_small_extension_is_one_file_and_one_row(name: str) -> None:
    changed = [b for b in blocks(PAGES / "extend" / f"{name}.md") if b.file.count("/") > 1]
    new = [b for b in changed if b.kind == "python"]
    rows = [line for b in changed if b.kind == "diff" for line in b.text.splitlines() if line[:1] in "+-"]
    assert (len(new), len(rows)) == (1, 1)


def test_a_problem_is_three_places_and_four_files_that_learn_of_it() -> None:
    found = [b for b in blocks(PAGES / "extend" / "problem.md") if b.file]
    places = {
        b.file if "models" in b.file.split("/")[0] else b.file.rpartition("/")[0]
        for b in found
        if b.kind != "diff"
    }
    assert places == {"models/problems/rent.py", "formulations/rent", "solvers/rent"}
    assert len([b for b in found if b.kind == "diff"]) == 4


def test_an_edit_stands_under_its_line() -> None:
    assert edited("a\nb\nc\n", " b\n+x\n", "") == "a\nb\nx\nc\n"
    assert edited("a\nb\nc\n", "-b\n+x\n", "") == "a\nx\nc\n"
    with pytest.raises(AssertionError, match="found no line 'z'"):
        edited("a\n", " z\n+x\n", "")


def test_outputs_agree_up_to_dots() -> None:
    assert agree("peak ... bytes\n", "peak 12 bytes\n")
    assert not agree("peak 13 bytes\n", "peak 12 bytes\n")


def test_blocks_behind_a_directive_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```{methods} peak\n```\n\n```python\nx = 1\n```\n")
    assert [(b.kind, b.text, b.line) for b in blocks(page)] == [("python", "x = 1\n", 4)]
