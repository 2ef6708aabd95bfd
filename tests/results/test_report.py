"""The report says what the records say: its text, its commands, its charts."""

from __future__ import annotations

import json
import re
import shlex
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jinja2")

from lowtide.__main__ import main
from lowtide.models.derived.profile import MemoryProfile
from lowtide.models.errors import BackendUnavailable, UsageError
from lowtide.results.reports.report import report_html
from lowtide.results.reports.report_charts import (
    HEIGHT,
    SPARK_HEIGHT,
    WIDTH,
    Axis,
    memory_chart,
    own_gaps,
    sparkline,
    time_axis,
    value_ticks,
)
from lowtide.results.reports.report_text import command_of
from lowtide.results.reports.report_view import views
from tests.commands import answer, refused, within
from tests.experiments import proved, run, write
from tests.sweeps import record

SPEC = "catalogue:two-branches"
FREE = "gen:randwire?n=8,seed=3"
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "wbr"}


class Reader(HTMLParser):
    """Checks that tags are balanced and ids unique; collects texts, ids, links and attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.attributes: set[str] = set()
        self.feed(html)
        assert self.open == []
        assert len(self.ids) == len({*self.ids})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for key, value in attrs:
            self.attributes.add(key)
            if key == "id":
                self.ids.append(value or "")
            if key in ("href", "src", "action", "data", "poster", "srcset"):
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open[-1:] == ["script"] else self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def experiment(folder: Path) -> Path:
    """Four runs: a proof, a heuristic's answer, one killed, one crash."""
    run(folder, SPEC, "greedy", change=proved, trace=[[0.01, None, 3], [0.02, 16, 3], [0.2, 12, 12]])
    run(folder, SPEC, "reference", seed=1)
    empty: dict[str, Any] = {"keep_plan": False, "objective": None, "bound": None, "gap": None, "trace": []}
    run(folder, FREE, "greedy", status="unknown", killed_by="memory", reason="memory", **empty)
    run(folder, FREE, "reference", status="failed", reason="crash", detail="a <defect> & more", **empty)
    (folder / "experiment.toml").write_text('[experiment]\nname = "Small & <sweet>"\n')
    return folder


@pytest.mark.slow
def test_page_is_well_formed_and_its_links_lead_into_it(tmp_path: Path) -> None:
    page = Reader(report_html([experiment(tmp_path)]))
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert len(page.links) > 6


@pytest.mark.slow
def test_nothing_is_fetched_by_any_address(tmp_path: Path) -> None:
    html = report_html([experiment(tmp_path)])
    assert not re.search(r"https?:|//[a-z]|url\(|@import|<link|<img|<iframe|<object", html)
    assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html


@pytest.mark.slow
def test_text_names_experiment_methods_statuses_and_numbers(tmp_path: Path) -> None:
    text = Reader(report_html([experiment(tmp_path)])).text
    for part in (
        "Small & <sweet>",
        "4 runs of 2 methods on 2 instances; problem peak",
        "best objective 12 , best bound 12 bytes",
        "solved by 1 of 2",
        "a <defect> & more",
        "Memory of the best plan (greedy)",
        "10 s, 4 GiB, 1 thread",
        "lowtide 0.1.0",
    ):
        assert part in text, part


@pytest.mark.slow
def test_command_repeats_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = run(
        tmp_path, SPEC, "beam", seed=3, parameters={"width": 2}, limits={"seconds": 7.5, "threads": 1}
    )
    words = shlex.split(command_of(record))
    assert command_of(record) in Reader(report_html([tmp_path])).text
    assert words[0] == "lowtide"
    assert main([*words[1:], "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["method"], found["objective"]) == ("beam", record["objective"])


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"spec": "data:aten/a b.json.gz"}, "peak \"$LOWTIDE_DATA\"/'aten/a b.json.gz' --method"),
        (
            {"limits": {"seconds": None, "memory": None, "threads": 2}},
            "--time-limit none --seed 5 --threads 2",
        ),
        ({"limits": {"seconds": 9, "memory": 1024, "threads": 2}}, "--threads 2 --memory-limit 1024"),
        ({"parameters": {"b": True, "a": "x y"}}, "--solver-option 'a=x y' --solver-option b=true"),
    ],
)
def test_command_quotes_and_names_every_setting(changes: dict[str, Any], part: str) -> None:
    record = {"spec": SPEC, "problem": "peak", "method": "greedy", "seed": 5, **changes}
    assert part in command_of(record)


def test_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    bad = "</script><script>alert(1)</script>\"'`{{ 1234567 * 7 }}"
    record = run(tmp_path, SPEC, keep_plan=False)
    write(tmp_path, {**record, "spec": bad, "method": bad, "detail": bad, "parameters": {bad: bad}})
    html = report_html([tmp_path], title=bad)
    page = Reader(html)
    assert "<script>alert" not in html
    assert str(1234567 * 7) not in html
    for script in page.scripts[:-1]:
        json.loads(script)


@pytest.mark.slow
def test_records_of_any_fault_are_shown(tmp_path: Path) -> None:
    experiment(tmp_path)
    (tmp_path / "records" / "00").mkdir()
    (tmp_path / "records" / "00" / "00cut.json").write_text('{"name": ')
    (tmp_path / "runs.json").write_text(json.dumps([{"name": "0" * 16}]))
    run(tmp_path, SPEC, "beam", bound=14, keep_plan=False)
    text = Reader(report_html([tmp_path])).text
    assert "00cut.json: found" in text
    assert "1 planned run has no record yet" in text
    assert "bound-above-objective" in text


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["plan", "instance"])
def test_profile_is_drawn_only_of_a_plan_that_verifies(tmp_path: Path, damage: str) -> None:
    record = run(tmp_path, SPEC, "greedy")
    if damage == "plan":
        (tmp_path / record["plan"]).write_bytes(b"")
    else:
        write(tmp_path, {**record, "instance_sha256": "0" * 64})
    text = Reader(report_html([tmp_path])).text
    assert "Memory of the best plan" not in text
    assert "No memory profile: " in text


@pytest.mark.slow
def test_next_best_plan_is_drawn_if_the_best_is_damaged(tmp_path: Path) -> None:
    record = run(tmp_path, SPEC, "greedy")
    run(tmp_path, SPEC, "reference")
    (tmp_path / record["plan"]).unlink()
    assert "Memory of the best plan (reference)" in Reader(report_html([tmp_path])).text


@pytest.mark.slow
def test_profiles_can_be_left_out(tmp_path: Path) -> None:
    page = Reader(report_html([experiment(tmp_path)], profiles=False))
    assert "Memory of the best plan" not in page.text


@pytest.mark.slow
def test_profile_values_are_exact(tmp_path: Path) -> None:
    run(tmp_path, SPEC, "reference")
    page = Reader(report_html([tmp_path]))
    (profile,) = [data for s in page.scripts[:-1] if "times" in (data := json.loads(s))]
    totals = [sum(values) for values in zip(*(s["values"] for s in profile["series"]), strict=True)]
    assert max(totals) == 16
    assert len(profile["times"]) == len(totals) + 1
    assert profile["x"]["unit"] == "op"


BUFFERS = """id,lower,upper,size,gaps
<b>&"x",0,4,3072,
y,2,6,2048,3-4 4-5@1024:2048
z,4,8,3072,
"""


def allocation_data(page: Reader) -> dict[str, Any]:
    (found,) = [data for s in page.scripts[:-1] if "rectangles" in (data := json.loads(s))]
    return dict(found)


@pytest.mark.slow
def test_an_allocation_is_drawn_with_exact_values(tmp_path: Path) -> None:
    spec = str(tmp_path / "stairs.csv")
    Path(spec).write_text(BUFFERS.replace('<b>&"x"', '"<b>&""x"""'))
    run(tmp_path, spec, "greedy", problem="offsets")
    html = report_html([tmp_path])
    page = Reader(html)
    assert "Best allocation (greedy)" in page.text
    assert "height = bound, 5 KiB" in page.text
    assert "<b>&" not in html
    data = allocation_data(page)
    assert data["x"] == {"low": 0, "high": 8, "unit": "", "times": None}
    assert (data["names"], data["sizes"]) == (['<b>&"x"', "y", "z"], [3072, 2048, 3072])
    rows = [data["rectangles"][k : k + 5] for k in range(0, len(data["rectangles"]), 5)]
    assert [row[:3] for row in rows] == [[0, 0, 4], [1, 2, 3], [1, 4, 5], [1, 5, 6], [2, 4, 8]]
    assert [high - low for *_, low, high in rows] == [3072, 2048, 1024, 2048, 3072]
    assert max(row[4] for row in rows) == 5120


@pytest.mark.slow
def test_an_allocation_of_a_graph_has_kinds_and_counts_ops(tmp_path: Path) -> None:
    run(tmp_path, FREE, "greedy", problem="offsets")
    page = Reader(report_html([tmp_path]))
    assert allocation_data(page)["x"]["unit"] == "op"
    assert "Memory of the best plan" not in page.text


@pytest.mark.slow
def test_an_allocation_that_does_not_verify_is_not_drawn(tmp_path: Path) -> None:
    record = run(tmp_path, FREE, "greedy", problem="offsets")
    (tmp_path / record["plan"]).write_bytes(b"")
    text = Reader(report_html([tmp_path])).text
    assert "Best allocation" not in text
    assert "No allocation: " in text


@pytest.mark.slow
def test_of_thousands_of_rectangles_the_largest_are_read_and_all_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lowtide.results.reports.report_allocation.MOST", 40)
    spec = str(tmp_path / "many.csv")
    rows = [f"{k},{100 * k},{100 * k + 60 + k % 7},{1000 + k}" for k in range(400)]
    rows.append("far,10000000000,10000000001,1")
    Path(spec).write_text("\n".join(["id,lower,upper,size", *rows]))
    run(tmp_path, spec, "greedy", problem="offsets")
    html = report_html([tmp_path])
    page = Reader(html)
    data = allocation_data(page)
    assert len(data["rectangles"]) == 5 * len(data["names"]) == 200
    assert "Values can be read off the 40 largest of 401 rectangles." in page.text
    assert data["x"]["high"] == 801  # starts and ends
    assert {data["x"]["times"][str(k)] for k in data["rectangles"][1::5]} <= {100 * k for k in range(400)}
    drawn = re.findall(r'<path class="block thin c\d" d="([^"]+)"', html)
    across = sum(int(width) for width in re.findall(r"h(\d+)v1h", "".join(drawn)))
    assert across > 0.3 * 1000 * 400
    assert "10e9" in page.text


@pytest.mark.slow
def test_several_folders_and_files_of_records_make_one_report(tmp_path: Path) -> None:
    one = run(tmp_path / "a", SPEC, "greedy")
    two = run(tmp_path / "b", FREE, "greedy")
    (tmp_path / "rows.jsonl").write_text(json.dumps({**one, "name": "x" * 16, "method": "other"}))
    text = Reader(report_html([tmp_path / "a", tmp_path / "b", tmp_path / "rows.jsonl"])).text
    assert "3 runs of 2 methods on 2 instances" in text
    assert two["name"] in text
    assert "a, b, rows.jsonl" in text


@pytest.mark.slow
def test_questions_with_other_problems_stand_apart(tmp_path: Path) -> None:
    record = run(tmp_path, SPEC, "greedy", keep_plan=False)
    write(tmp_path, {**record, "name": "y" * 16, "problem": "makespan", "unit": "ns"})
    text = Reader(report_html([tmp_path])).text
    assert "2 questions; problems peak, makespan" in text or "problems makespan, peak" in text


def test_question_takes_the_best_of_all_runs_but_failed_ones() -> None:
    base = {"instance": "g", "instance_sha256": "1", "problem": "peak", "unit": "bytes", "seconds": {}}
    runs = [("a", "feasible", 12, 8), ("b", "feasible", 15, 10), ("c", "failed", 3, 99)]
    records = [
        {**base, "method": m, "status": s, "objective": o, "bound": b, "gap": None} for m, s, o, b in runs
    ]
    (question,) = views(records)
    assert (question.objective, question.bound, question.status) == (12, 10, "feasible")
    assert question.gap == pytest.approx(2 / 12)


def test_gap_of_a_run_is_to_the_best_bound_of_its_question() -> None:
    base = record("a", seed=0, trace=[])
    (question,) = views(
        [{**base, "method": m, "objective": o, "bound": b} for m, o, b in (("x", 20, 5), ("y", None, 15))]
    )
    assert {r.setting: r.gap for r in question.runs} == {"x": 0.25, "y": None}


def test_question_that_is_maximized_has_its_best_above_and_its_bound_below() -> None:
    base = record("a", problem="parallel-memory", trace=[])
    (question,) = views(
        [{**base, "method": m, "objective": o, "bound": b} for m, o, b in (("x", 75, 200), ("y", 100, 100))]
    )
    assert (question.objective, question.bound, question.status) == (100, 100, "optimal")


@pytest.mark.parametrize(
    ("trace", "path"),
    [
        ([[0.1, 12, 12]], f"M60 {SPARK_HEIGHT}H120"),
        ([[0.01, None, 3], [0.1, 10, 0]], "M60 0H120"),
        ([[0.01, 10, None]], ""),
        ([], ""),
    ],
)
def test_sparkline_runs_from_whole_gap_at_the_top_to_none_on_the_base_line(
    trace: list[list[Any]], path: str
) -> None:
    assert sparkline(own_gaps(trace), 1.0, Axis(0.01, 1, log=True)) == path


def profile_of(*total: int) -> MemoryProfile:
    """Return so many bytes of activations in each ns."""
    held = np.array(total)
    return MemoryProfile("t", np.arange(len(total) + 1), {"activation": held}, held)


@pytest.mark.parametrize(
    ("bound", "levels", "said"),
    [
        (None, ["peak"], ["peak, 12 B"]),
        (12, ["peak"], ["peak = bound, 12 B"]),
        (7, ["peak", "bound"], ["peak, 12 B", "bound, 7 B"]),
    ],
)
def test_a_memory_chart_has_a_line_for_the_peak_and_one_for_a_lower_bound(
    bound: int | None, levels: list[str], said: list[str]
) -> None:
    memory = profile_of(12, 5)
    chart = memory_chart("x", memory, reference=memory, bound=bound, counts_ops=True, kinds=["activation"])
    assert "line reference" not in dict(chart.paths)
    lines = [(style, path) for style, path in chart.paths if "level" in style]
    assert [style for style, _ in lines] == [f"line level-{name}" for name in levels]
    assert all(path.endswith(f"H{WIDTH}") for _, path in lines)
    assert [name for name, style in chart.legend if "level" in style] == said


def test_a_memory_chart_shows_another_reference_order_in_steps() -> None:
    memory = profile_of(9, 5)
    for total in ((3, 12), (12, 3)):
        other = profile_of(*total)
        chart = memory_chart("x", memory, reference=other, bound=None, counts_ops=True, kinds=["activation"])
        first, second = (round(HEIGHT * (1 - n / (12 * 1.04))) for n in total)
        assert dict(chart.paths)["line reference"] == f"M0 {first}H{WIDTH // 2}V{second}H{WIDTH}"
        assert ("reference order, 12 B", "line reference") in chart.legend


def test_axes_have_round_ticks_within_them() -> None:
    assert [t.label for t in value_ticks(Axis(0, 60 * 2**20), "bytes")] == ["0", "20 MiB", "40 MiB", "60 MiB"]
    assert [t.label for t in value_ticks(Axis(0, 3), "")] == ["0", "1", "2", "3"]
    axis = time_axis([0.02, 5.0])
    assert (axis.low, axis.high) == (0.01, 5.0)
    assert axis.position(0.01) == 0
    assert axis.position(5.0) == 1
    assert axis.position(0) == 0


@pytest.mark.slow
def test_command_writes_the_file_and_says_its_size(tmp_path: Path) -> None:
    experiment(tmp_path / "out")
    found = answer("report", "out", "-o", "r.html", "--title", "T", cwd=tmp_path)
    assert found["nbytes"] == (tmp_path / "r.html").stat().st_size
    assert "<title>T</title>" in (tmp_path / "r.html").read_text()
    done = within("report", "out", "-o", "r.html", cwd=tmp_path)
    assert "memory profile of greedy" in done.stderr


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("nothing", "-o", "r.html"), "nothing"),
        (("empty", "-o", "r.html"), "records"),
        (("out", "-o", "r.pdf"), "r.pdf: found another ending, expected .html"),
        (("out", "-o", "no/r.html"), "no"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, words: tuple[str, ...], part: str) -> None:
    experiment(tmp_path / "out")
    (tmp_path / "empty" / "records").mkdir(parents=True)
    assert part in refused("report", *words, cwd=tmp_path, run=within)


def test_without_jinja2_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment(tmp_path)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(BackendUnavailable, match=r"lowtide\[report\]"):
        report_html([tmp_path])


def test_no_records_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    with pytest.raises(UsageError, match="no run records"):
        report_html([tmp_path])
