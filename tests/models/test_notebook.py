"""What notebooks show is well-formed, escaped, and says what is known."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from lowtide import Graph, Op, Peak, Plan, Tensor, load, solve
from lowtide.models.notebook import profile_svg


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


def test_no_picture_of_no_memory() -> None:
    graph = Graph(name="g", tensors=(), ops=(Op(name="noop"),))
    assert profile_svg(graph, Plan.from_order(graph, (0,))) == ""
