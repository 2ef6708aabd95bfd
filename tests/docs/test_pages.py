"""Every command, file and line of Python in the documentation does what its page says."""

from __future__ import annotations

import re
import runpy
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

import lowtide as lt
from lowtide.__main__ import build_parser
from lowtide.instances.formats.strict_json import Field
from lowtide.models.problems import PROBLEMS
from lowtide.results.sweeps.experiment import KEYS
from tests.docs.pages import PAGES, Reader, agree, blocks, edited, needs_jax, needs_torch

EXPERIMENTS = PAGES.parent / "results" / "experiments"

PROGRAMS = [
    page
    for page in [PAGES.parent / "README.md", PAGES.parent / "CONTRIBUTING.md", *sorted(PAGES.rglob("*.md"))]
    if "_build" not in page.parts
    and any(b.file or b.kind in ("console", "python") for b in blocks(page))
    and not needs_torch(page)
    and not needs_jax(page)
]


SLOW = ("CONTRIBUTING", "estimates", "experiments", "library", "llm", "machines", "record", "start")
"""Pages that take seconds, besides those of problems and of extensions."""


def listed(page: Path) -> ParameterSet:
    """Return a page as a case; some take seconds, the rest is quick."""
    slow = page.parent.name in ("extend", "problems") or page.stem in SLOW
    return pytest.param(page, id=str(page.relative_to(PAGES.parent)), marks=pytest.mark.slow if slow else ())


@pytest.mark.slow
@pytest.mark.parametrize("page", [listed(page) for page in PROGRAMS])
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


def test_the_readme_is_one_page() -> None:
    assert len((PAGES.parent / "README.md").read_text().splitlines()) <= 120


def test_the_readme_and_the_first_page_ask_the_same_of_every_problem() -> None:
    rows = {
        path: re.findall(r"^\| \[`.*", path.read_text().replace("(docs/", "("), re.MULTILINE)
        for path in (PAGES.parent / "README.md", PAGES / "index.md")
    }
    first, second = rows.values()
    assert first == second
    pages = re.findall(r"\((problems/\w+\.md)\)", "".join(first))
    on_pages = "".join((PAGES / page).read_text() for page in pages)
    assert [name for name in PROBLEMS if f"```{{methods}} {name}\n" not in on_pages] == []


def test_every_public_name_is_on_the_page_of_python() -> None:
    page = (PAGES / "python.md").read_text()
    missing = [name for name in lt.__all__ if f":: lowtide.{name}\n" not in page]
    assert missing == ["__version__", "plot"]  # the module of plot is there with its functions


@pytest.mark.parametrize(
    "module",
    ["native", "native_plan", "native_machine", "native_measurement", "native_buffers", "native_certificate"],
)
def test_every_key_of_a_native_file_is_on_the_page_of_formats(module: str) -> None:
    page = (PAGES / "formats.md").read_text()
    tables = vars(import_module(f"lowtide.instances.formats.{module}")).values()
    keys = {
        key for table in tables if isinstance(table, dict) for key, v in table.items() if isinstance(v, Field)
    }
    assert keys
    assert [key for key in sorted(keys) if not re.search(rf"\b{key}\b", page)] == []


def test_every_fact_of_a_result_is_explained() -> None:
    sources = "".join(path.read_text() for path in (PAGES.parent / "models" / "problems").glob("*.py"))
    facts = {words.strip() for words in re.findall(r'Fact\(\s*f?"([a-z ]+)', sources)}
    lines = re.findall(r"^\| \[`(.*?)`\]\{#line-", (PAGES / "concepts.md").read_text(), re.MULTILINE)
    assert len(facts) > 10
    assert [fact for fact in sorted(facts) if not any(line.startswith(fact) for line in lines)] == []
    assert lines == sorted(lines, key=str.lower)


def test_every_key_of_an_experiment_is_on_its_page() -> None:
    page = (PAGES / "experiments.md").read_text()
    assert [
        key for keys in KEYS.values() for key in keys if f"| `{key}` |" not in page and f"[{key}]" not in page
    ] == []


def test_the_picture_of_the_questions_is_as_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PAGES))
    pictures = runpy.run_path(str(PAGES / "pictures.py"))
    assert pictures["README"].read_text() == pictures["svg"]("questions", pictures["GREY_ON_ANY"])


def test_the_map_of_the_packages_is_as_their_docstrings_say() -> None:
    rooms = runpy.run_path(str(PAGES / "rooms.py"))
    text = rooms["PAGE"].read_text()
    assert len(rooms["drawn"]().splitlines()) > 20
    assert rooms["drawn"]() in text
    assert rooms["written"](text) == text


def test_files_that_contributing_names_are_there() -> None:
    text = (PAGES.parent / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:docs|formulations|instances|models|solvers|tests)/[\w./]+)`", text)
    assert len(named) > 20
    missing = [path for path in named if not (PAGES.parent / path).exists()]
    assert [path for path in missing if path != "docs/_build/html"] == []


def test_make_help_shows_every_target() -> None:
    text = (PAGES.parent / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)", text, re.MULTILINE)
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=PAGES.parent, capture_output=True, text=True, check=True
    )
    shown = [line.split()[0] for line in done.stdout.splitlines()]
    assert sorted(shown) == sorted(phony.replace("\\", " ").split())
    assert all(len(line.split()) > 2 for line in done.stdout.splitlines())


def test_every_verb_is_on_the_page_of_the_command_line() -> None:
    page = (PAGES / "cli.md").read_text()
    assert [verb for verb in build_parser()[1].choices if f"```{{flags}} {verb}\n" not in page] == []


def test_every_committed_table_is_on_the_page_of_results() -> None:
    page = (PAGES / "results.md").read_text()
    tables = sorted(path.parent.name for path in EXPERIMENTS.glob("*/table.md"))
    assert [name for name in tables if f"```{{committed}} {name}\n" not in page] == []
