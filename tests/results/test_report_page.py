"""The report in a real browser: sorting, filters, links, read-outs, keyboard, narrow screens, no requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lowtide.results.reports import report
from tests.browser import Page, browser, executable
from tests.experiments import proved, run

pytest.importorskip("jinja2")
pytestmark = pytest.mark.skipif(executable() is None, reason="no Chromium or Chrome is installed")

SPECS = ("catalogue:two-branches", "catalogue:diamond", "catalogue:harpoon")


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of nine runs: every method on every graph."""
    folder = tmp_path_factory.mktemp("report")
    for k, spec in enumerate(SPECS):
        trace = [[0.01, None, 3], [0.02, 16, 3], [0.2 + k, 12, 5 + k]]
        run(folder, spec, "greedy", change=proved, seconds={"solve": 0.5 * (k + 1)})
        run(folder, spec, "reference", seconds={"solve": 0.01 * (3 - k)}, trace=trace)
        run(folder, spec, "beam", seconds={"solve": None}, keep_plan=False, status="failed", objective=None)
    path = folder / "report.html"
    report.write_report([folder], path)
    return path


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser() as page:
        yield page


@pytest.fixture
def page(tab: Page, html: Path) -> Iterator[Page]:
    """The report, freshly loaded; afterwards nothing may have been asked for, and no script have failed."""
    tab.requests.clear()
    tab.resize(1280)
    tab.open(html)
    yield tab
    assert set(tab.requests) == {html.as_uri()}
    assert tab.errors == []


def column(page: Page, number: int, table: str = "#all-runs") -> list[str]:
    """Return the texts of a column, of the rows that are shown."""
    script = f"[...document.querySelectorAll('{table} tbody tr')].filter(r => r.offsetHeight)"
    found: list[str] = page.run(f"{script}.map(r => r.cells[{number}].innerText.trim())")
    return found


def place(page: Page, what: str) -> tuple[float, float, float, float]:
    """Scroll to an element and return its left, top, width and height."""
    page.run(f"document.querySelector({what!r}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = page.run(f"JSON.stringify(document.querySelector({what!r}).getBoundingClientRect())")
    values = re.findall(r'"(left|top|width|height)":([\d.-]+)', box)
    found = {key: float(value) for key, value in values}
    return found["left"], found["top"], found["width"], found["height"]


def head(page: Page, name: str) -> str:
    """Return a selector of the heading of a column of the runs."""
    names = page.run("[...document.querySelectorAll('#all-runs thead th')].map(h => h.innerText.trim())")
    (at,) = [k for k, text in enumerate(names, start=1) if text.startswith(name)]
    return f"#all-runs thead th:nth-child({at})"


def sort(page: Page, name: str) -> None:
    page.run(f"document.querySelector('{head(page, name)} button').click()")


def choose(page: Page, what: str, value: str) -> None:
    page.run(f"document.getElementById('{what}').value = '{value}'")
    page.run(f"document.getElementById('{what}').dispatchEvent(new Event('input', {{bubbles: true}}))")


def times(page: Page) -> list[float | None]:
    return [None if text == "-" else float(text.split()[0]) for text in column(page, 7)]


@pytest.mark.slow
def test_numbers_sort_as_numbers_both_ways_and_absent_ones_stay_last(page: Page) -> None:
    sort(page, "Time")
    ascending = times(page)
    assert ascending == [0.01, 0.02, 0.03, 0.5, 1.0, 1.5, None, None, None]
    assert page.run(f"document.querySelector('{head(page, 'Time')}').ariaSort") == "ascending"
    sort(page, "Time")
    assert times(page) == [1.5, 1.0, 0.5, 0.03, 0.02, 0.01, None, None, None]
    assert page.run(f"document.querySelector('{head(page, 'Time')}').ariaSort") == "descending"


@pytest.mark.slow
def test_words_sort_as_words_and_one_column_at_a_time(page: Page) -> None:
    sort(page, "Time")
    sort(page, "Method")
    assert column(page, 1) == ["beam"] * 3 + ["greedy"] * 3 + ["reference"] * 3
    sorted_ones = (
        "[...document.querySelectorAll('#all-runs th')].filter(h => !['none', null].includes(h.ariaSort))"
    )
    assert page.run(f"{sorted_ones}.length") == 1


def test_heading_sorts_by_keyboard(page: Page) -> None:
    page.run(f"document.querySelector('{head(page, 'Time')} button').focus()")
    page.press("Enter")
    assert times(page)[0] == 0.01


def test_text_and_choices_filter_and_clear(page: Page) -> None:
    page.run("document.querySelector('#run-text').focus()")
    page.type("catalogue DIAM")
    assert column(page, 0) == ["catalogue:diamond"] * 3
    assert page.run("document.querySelector('#runs output').innerText") == "3 of 9 runs"
    choose(page, "status", "failed")
    assert column(page, 1) == ["beam"]
    choose(page, "method", "greedy")
    assert column(page, 1) == []
    assert page.run("document.querySelector('.nothing[data-of=all-runs]').offsetHeight > 0")
    page.run("document.querySelector('#runs button[type=reset]').click()")
    page.run("new Promise(done => setTimeout(done, 20))")
    assert len(column(page, 1)) == 9
    assert page.run("document.querySelector('#runs output').innerText") == "9 runs"


def test_sorting_keeps_the_filter(page: Page) -> None:
    page.run("document.querySelector('#run-text').focus()")
    page.type("harpoon")
    sort(page, "Method")
    assert column(page, 0) == ["catalogue:harpoon"] * 3


def test_instances_filter(page: Page) -> None:
    page.run("document.querySelector('#question-text').focus()")
    page.type("two")
    shown = "[...document.querySelectorAll('.question')].filter(d => d.offsetHeight).map(d => d.dataset.text)"
    assert page.run(shown) == ["catalogue:two-branches"]


@pytest.mark.slow
def test_long_tables_are_shown_by_and_by(
    tab: Page, html: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "PAGE", 4)
    report.write_report([html.parent], tmp_path / "r.html")
    tab.open(tmp_path / "r.html")
    assert len(column(tab, 0)) == 4
    sort(tab, "Time")
    assert times(tab) == [0.01, 0.02, 0.03, 0.5]
    tab.run("document.querySelector('.further[data-of=all-runs] button').click()")
    assert len(column(tab, 0)) == 8
    tab.run("document.querySelector('.further[data-of=all-runs] button').click()")
    assert len(column(tab, 0)) == 9
    assert tab.run("document.querySelector('.further[data-of=all-runs]').offsetHeight") == 0


def test_link_of_a_run_unfolds_its_command(page: Page) -> None:
    assert page.run("document.querySelector('#q1').open") is False
    page.run("document.querySelector('#all-runs tbody a').click()")
    page.run("new Promise(done => setTimeout(done, 50))")
    anchor = page.run("location.hash.slice(1)")
    assert page.run(f"document.getElementById('{anchor}').closest('details').open") is True
    command = page.run(f"document.querySelector('#{anchor}-more code').innerText")
    assert command.startswith("lowtide solve peak catalogue:")
    assert page.run(f"document.querySelector('#{anchor}-more').offsetHeight") > 0
    assert page.run("document.activeElement.closest('tr').id") == anchor


def test_address_with_a_run_opens_it(tab: Page, html: Path) -> None:
    tab.open(html, "#q2r1")
    assert tab.run("document.querySelector('#q2').open") is True
    tab.open(html)


def test_command_is_copied_or_selected(page: Page) -> None:
    page.run("document.querySelector('#all-runs .copy').click()")
    page.run("new Promise(done => setTimeout(done, 100))")
    assert page.run("document.querySelector('#all-runs .copy').innerText") in ("copied", "selected")


def read_out(page: Page) -> str:
    found: str = page.run("[...document.querySelectorAll('.tip')].find(t => !t.hidden)?.innerText ?? ''")
    return " ".join(found.split())


@pytest.fixture
def opened(page: Page) -> Page:
    """The page with the question of `two-branches` unfolded."""
    page.run("document.querySelector('.question[data-text$=two-branches]').open = true")
    return page


MEMORY = ".question[open] .chart:nth-of-type(2)"
PROGRESS = ".question[open] .chart:nth-of-type(1)"


def test_pointer_reads_the_memory_of_the_plan(opened: Page) -> None:
    left, top, width, height = place(opened, f"{MEMORY} .plot")
    totals = []
    for k in range(6):
        opened.move(left + width * (k + 0.5) / 6, top + height / 2)
        totals.append(read_out(opened))
    assert all(re.match(r"op \d total \d+ B", text) for text in totals), totals
    assert max(int(text.split()[3]) for text in totals) == 12
    opened.move(left - 200, top - 100)
    assert read_out(opened) == ""


def test_arrow_keys_read_incumbent_bound_and_gap(opened: Page) -> None:
    opened.run(f"document.querySelector('{PROGRESS}').focus()")
    opened.press("Home")
    opened.press("End")
    assert read_out(opened).startswith("200 ms incumbent bound gap greedy")
    assert read_out(opened).endswith("reference, seed 0 12 B 5 B 58.3 %")
    opened.press("Escape")
    assert read_out(opened) == ""


def test_run_unfolds_by_keyboard(opened: Page) -> None:
    opened.run("document.querySelector('.question[open] button.more').focus()")
    opened.press("Enter")
    more = "document.querySelector('.question[open] button.more')"
    assert opened.run(f"{more}.getAttribute('aria-expanded')") == "true"
    assert opened.run(f"document.getElementById({more}.getAttribute('aria-controls')).offsetHeight") > 0


def test_first_stop_of_the_tab_key_skips_to_the_runs(page: Page) -> None:
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"


def test_every_control_has_a_name(page: Page) -> None:
    nameless = """[...document.querySelectorAll('button, input, select, [role=region], figure')].filter(e =>
        !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.[0]?.textContent.trim()))"""
    assert page.run(f"{nameless}.map(e => e.outerHTML.slice(0, 80))") == []


@pytest.mark.parametrize("width", [390, 1280])
def test_page_is_no_wider_than_the_window(page: Page, width: int) -> None:
    page.resize(width, 844, mobile=width < 800)
    page.run("document.querySelectorAll('details').forEach(d => { d.open = true })")
    page.run("document.querySelectorAll('button.more').forEach(b => b.click())")
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run("Math.max(...[...document.querySelectorAll('.plot')].map(p => p.offsetWidth))") < width


def luminance(page: Page, what: str) -> float:
    """Return how light the background of an element is, 0 to 255."""
    found: str = page.run(f"getComputedStyle(document.querySelector('{what}')).backgroundColor")
    return sum(map(float, re.findall(r"[\d.]+", found)[:3])) / 3


@pytest.mark.slow
def test_theme_follows_the_system_until_the_reader_chooses(page: Page) -> None:
    try:
        page.prefer("dark")
        assert luminance(page, "body") < 60
        page.prefer("light")
        assert luminance(page, "body") > 200
        names: list[Any] = []
        for _ in range(3):
            page.run("document.querySelector('#theme').click()")
            names.append(
                (page.run("document.querySelector('#theme .name').innerText"), luminance(page, "body"))
            )
        assert [name for name, _ in names] == ["light", "dark", "auto"]
        assert names[1][1] < 60 < 200 < names[0][1]
    finally:
        page.prefer("light")


@pytest.mark.slow
def test_no_request_would_be_let_through(page: Page) -> None:
    blocked = page.run("fetch('https://example.org/').then(() => 'fetched', () => 'blocked')")
    assert blocked == "blocked"
    page.run("new Promise(done => setTimeout(done, 50))")
    assert page.errors
    assert all("Content Security Policy" in error for error in page.errors)
    page.errors.clear()
    page.requests[:] = page.requests[:1]


STAIRS = "id,lower,upper,size\na,0,4,3072\nb,2,6,2048\nc,4,8,3072\n"


@pytest.fixture
def allocated(tab: Page, tmp_path: Path) -> Iterator[Page]:
    """A report of one allocation, its question unfolded: a from 0, c from 4 on, b above them, or below."""
    (tmp_path / "stairs.csv").write_text(STAIRS)
    run(tmp_path, str(tmp_path / "stairs.csv"), "greedy", problem="offsets")
    report.write_report([tmp_path], tmp_path / "r.html")
    tab.requests.clear()
    tab.resize(1280)
    tab.open(tmp_path / "r.html")
    tab.run("document.querySelector('.question').open = true")
    yield tab
    assert tab.errors == []


@pytest.mark.slow
def test_pointer_tells_which_buffer_lies_where(allocated: Page) -> None:
    left, top, width, height = place(allocated, ".wide .plot")
    found = {}
    for k in range(8):
        for address in (512, 1536, 2560, 3584, 4608):
            allocated.move(left + width * (k + 0.5) / 8, top + height * (1 - address / (5120 * 1.03)))
            found[k, address] = read_out(allocated)
    cells = {name: [key for key, text in found.items() if text.startswith(f"{name} size")] for name in "abc"}
    assert {name: len(keys) for name, keys in cells.items()} == {"a": 12, "b": 8, "c": 12}
    assert {k for k, _ in cells["b"]} == {2, 3, 4, 5}
    (text,) = {found[key] for key in cells["a"]}
    assert re.fullmatch(r"a size 3 KiB address [\d,]+ to [\d,]+ time 0 to 4", text)
    assert sum(text == "" for text in found.values()) == 8
    allocated.move(left - 200, top - 100)
    assert read_out(allocated) == ""


@pytest.mark.slow
def test_arrow_keys_go_from_buffer_to_buffer(allocated: Page) -> None:
    place(allocated, ".wide .plot")
    allocated.move(1, 1)
    allocated.run("document.querySelector('.chart.wide').focus()")
    told = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        allocated.press(key)
        told.append(read_out(allocated)[0])
    assert told == ["a", "b", "c", "c", "b"]
    assert allocated.run("document.querySelector('.spot').offsetWidth") > 300
    allocated.press("Escape")
    assert read_out(allocated) == ""


@pytest.mark.slow
def test_an_allocation_fits_a_narrow_screen(allocated: Page) -> None:
    allocated.resize(360, 700, mobile=True)
    assert allocated.run("document.documentElement.scrollWidth") <= 360
