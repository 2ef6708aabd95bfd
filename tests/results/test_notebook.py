"""What notebooks show is well-formed, escaped, and says what is known."""

from __future__ import annotations

import doctest
import re
import sys
from base64 import b64decode
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import pytest

from lowtide import (
    Buffers,
    Graph,
    Machine,
    Offsets,
    Op,
    Peak,
    Plan,
    Status,
    Tensor,
    UsageError,
    load,
    load_buffers,
    load_machine,
    solve,
    verify,
)
from lowtide.instances import load_problem
from lowtide.results.notebook import profile_svg, to_frame
from lowtide.results.plot import new_figure
from lowtide.results.result_picture import picture_of, plot_result


def words(html: str) -> str:
    """Return the text of well-formed HTML."""
    tree = ElementTree.fromstring(html.replace("&middot;", "·"))
    return " ".join(" ".join(tree.itertext()).split())


def test_graph_shows_counts_and_sizes_by_kind() -> None:
    graph = load("gen:unet?depth=1&weights=1").drop({"weight"})
    text = words(graph._repr_html_())
    assert f"{len(graph.ops)} ops" in text
    assert "activation" in text
    assert "weight: 0 bytes counted of" in text


def test_result_shows_status_peak_and_picture() -> None:
    result = solve(Peak(load("catalogue:two-branches")), "greedy")
    html = replace(result, bound=11)._repr_html_()
    text = words(html)
    for part in (
        "two-branches",
        "feasible",
        "12 B",
        "bound 11 B",
        "gap 8.33 %",
        "memory over time: peak 12 B",
    ):
        assert part in text
    assert "<svg" in html


def test_result_without_a_plan_has_no_picture() -> None:
    result = replace(solve(Peak(load("catalogue:diamond")), "greedy"), plan=None, objective=None)
    assert "<svg" not in result._repr_html_()


def test_plan_shows_counts() -> None:
    graph = load("catalogue:diamond")
    text = words(Plan.from_order(graph, range(4))._repr_html_())
    assert "plan for diamond" in text
    assert "runs 4" in text


def test_names_are_escaped() -> None:
    name = '<script>alert("1")</script>'
    graph = Graph(name=name, tensors=(Tensor(name="x", nbytes=1),), ops=(Op(name="a", writes=(0,)),))
    result = replace(solve(Peak(graph), "reference"), detail=name, method=name, reason=name)
    for item in (graph, result, result.plan):
        assert item is not None
        html = item._repr_html_()
        assert "<script" not in html
        assert name in words(html)


@pytest.mark.parametrize("spec", ["catalogue:two-branches", "gen:chain?n=5000&seed=1"])
def test_picture_is_small_and_holds_the_peak(spec: str) -> None:
    graph = load(spec)
    svg = profile_svg(graph, Plan.from_order(graph, range(len(graph.ops))))
    assert len(svg) < 20_000
    area = ElementTree.fromstring(svg).find("{http://www.w3.org/2000/svg}path")
    assert area is not None
    heights = [float(y) for y in re.findall(r"V([\d.]+)", area.attrib["d"])]
    assert min(heights) == 0.0


def drawn(html: str) -> str:
    """Return the words of the picture within HTML, which is an image of SVG."""
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert data is not None
    return b64decode(data[1]).decode()


QUESTIONS = {
    "placement": ("catalogue:two-branches?machine=a100-40g-pcie3", "timeline", "gpu → host"),
    "makespan": ("catalogue:two-branches?processors=2", "gantt", "p1"),
    "distributed": ("catalogue:two-branches?machine=v100x4-16g-nvlink", "timeline", "gpu0"),
    "pipeline": ("gen:stages?p=2&m=2", "timeline", "gpu0"),
    "recompute": ("catalogue:two-branches?memory=1KiB", "cells", "memory 1"),
    "minio": ("gen:intree?n=5&seed=1&memory=1KiB", "timeline", "memory → storage"),
    "offsets": ("catalogue:minimalloc/example", "allocations", "b5"),
    "arena": ("catalogue:two-branches", "allocations", "b5"),
    "memory-edges": ("catalogue:two-branches?bound=1KiB", "gantt", "busy"),
    "parallel-memory": ("catalogue:two-branches", "profile", ""),
    "hybrid": ("catalogue:two-branches?processors=2&micro=2", "stages", "micro-batches"),
    "partition": ("catalogue:two-branches?processors=2", "gantt", "stage 1"),
    "peak": ("catalogue:two-branches", "profile", ""),
    "tiles": ("catalogue:mlsys2026/1", "profile", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_each_problem_has_its_picture(name: str) -> None:
    spec, kind, words_of_it = QUESTIONS[name]
    result = solve(load_problem(name, spec), threads=1)
    assert picture_of(result) == kind
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        html = result._repr_html_()
    ElementTree.fromstring(html)
    if kind == "profile":
        assert "<svg" in html
    else:
        assert words_of_it in drawn(html)
    figure = new_figure()
    result.plot(**({"ax": figure.subplots()} if kind == "profile" else {"figure": figure}))
    assert figure.axes
    with pytest.raises(UsageError, match="plot: found kind 'pie', expected one of profile, "):
        result.plot("pie")


def test_without_matplotlib_there_is_no_picture_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = solve(load_problem("offsets", "catalogue:minimalloc/example"), threads=1)
    html = result._repr_html_()
    assert "<img" not in html
    assert "optimal" in words(html)


def test_machine_shows_tiers_processors_and_channels() -> None:
    html = load_machine("v100x4-16g-shared-pcie3")._repr_html_()
    text = words(html)
    for part in (
        "gpu3",
        "14.90 GiB",
        "host",
        "unlimited",
        "11.18 GiB/s each way",
        "gpu3 → host 11.18 GiB/s none",
    ):
        assert part in text
    assert len(re.findall("<td[^>]*right", html)) == 5 + 2 * 8  # capacities; rates and latencies
    slow = "45 µs"
    assert slow in words(load_machine("a100-40g-pcie3-45us")._repr_html_())
    kinds = [f"<b>{k}" for k in range(14)]
    html = Machine.single(kinds=kinds)._repr_html_()
    assert "<b>110" in words(html)
    assert "… 2 more" in words(html)
    svg = ElementTree.fromstring(html).find("{*}svg")
    assert svg is not None
    *above, tier = (
        [float(box.attrib[k]) for k in ("x", "y", "width", "height")]
        for box in svg.iter()
        if "rx" in box.attrib
    )
    centre, ends = tier[0] + tier[2] / 2, [tier[1], *(box[1] for box in above)]
    assert len(above) == 13
    for (x, y, width, height), end in zip(above, ends, strict=False):  # each above the one before
        assert tier[0] < x == centre - width / 2
        assert 0 < y < y + height < end
    texts = [text.attrib for text in svg.iter() if "text-anchor" in text.attrib]
    assert {float(text["x"]) for text in texts} == {centre}
    for _, y, _, height in (*above, tier):
        assert sum(y < float(text["y"]) < y + height for text in texts) == 1 + (y == tier[1])
    (line,) = (path.attrib["d"] for path in svg.iter() if "d" in path.attrib)
    assert line == f"M{centre:g} {above[0][1] + above[0][3]:g}L{centre:g} {tier[1]:g}"
    assert tier[0] + tier[2] <= float(svg.attrib["width"])


def test_buffers_show_their_load_or_their_addresses() -> None:
    buffers = load_buffers("catalogue:minimalloc/example")
    text = words(buffers._repr_html_())
    assert "buffers 5 bytes 20 B" in text
    assert "alive over time: at most 12 B at once" in text
    result = solve(Offsets(buffers), threads=1)
    assert result.allocation is not None
    placed = replace(
        buffers, buffers=tuple(replace(b, offset=result.allocation[b.id]) for b in buffers.buffers)
    )
    assert "data:image/svg" in placed._repr_html_()
    assert "<svg" not in Buffers(buffers=())._repr_html_()


def test_reprs_are_a_line() -> None:
    result = solve(load_problem("placement", "gen:chain?n=400&machine=a100-40g-pcie3"), "belady")
    assert result.plan is not None
    for item in (result, result.plan, result.verification, result.plan.machine):
        assert len(repr(item)) < 250
    peak = solve(Peak(load("catalogue:two-branches")), "greedy")
    assert repr(peak) == "Result(peak of 'two-branches' by greedy: feasible, 12 B)"
    known = replace(peak, bound=11, reason="time")
    assert repr(known).endswith("feasible (stopped: time), 12 B, bound 11 B, gap 8.33 %)")
    assert repr(replace(peak, bound=12, status=Status.OPTIMAL)).endswith("optimal, 12 B = bound)")
    assert "4 runs" in repr(Plan.from_order(load("catalogue:diamond"), range(4)))
    offsets = solve(load_problem("offsets", "catalogue:minimalloc/example"), threads=1)
    assert repr(offsets.verification) == "AllocationVerdict(valid; heights: 12 bytes)"
    wrong = verify(load("catalogue:diamond"), [3, 0, 1, 2])
    assert repr(wrong).startswith("Verification(4 violations, first precedence: ")


def test_frames_hold_actions_or_buffers() -> None:
    result = solve(load_problem("placement", "catalogue:two-branches?machine=a100-40g-pcie3"), "belady")
    assert result.plan is not None
    assert result.graph is not None
    frame = result.to_frame()
    assert len(frame) == len(result.plan.runs) + len(result.plan.copies) + len(result.plan.frees)
    assert list(frame.start) == sorted(frame.start)
    copies = frame[frame.action == "copy"].sort_index()
    assert [int(n) for n in copies.nbytes] == [
        result.graph.tensors[c.tensor].nbytes if c.bytes is None else c.bytes[1] - c.bytes[0]
        for c in result.plan.copies
    ]
    runs = frame[frame.action == "run"].sort_index()
    assert list(runs.op) == [result.graph.ops[r.op].name for r in result.plan.runs]
    offsets = solve(load_problem("offsets", "catalogue:minimalloc/example"), threads=1)
    table = offsets.to_frame().set_index("id")
    assert dict(table.offset) == offsets.allocation
    with pytest.raises(UsageError, match="result of peak: found no plan"):
        replace(solve(Peak(load("catalogue:diamond")), "greedy"), plan=None).to_frame()


def test_examples_are_true() -> None:
    for function in (plot_result, to_frame):
        for example in doctest.DocTestFinder().find(function):
            assert not doctest.DocTestRunner().run(example).failed


def test_no_picture_of_no_memory() -> None:
    graph = Graph(name="g", tensors=(), ops=(Op(name="noop"),))
    assert profile_svg(graph, Plan.from_order(graph, (0,))) == ""
