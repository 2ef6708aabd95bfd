"""The DOT parser: the grammar, against pydot where that reads it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.instances.formats.dot_text import parse_dot, quoted
from lowtide.models.errors import InstanceError
from tests.effort import many


def parts(text: str) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    graph = parse_dot(text, "t.dot")
    nodes = {node: graph.nodes[node] for node in graph}
    return graph.graph, nodes, list(graph.edges(data=True))


def test_names_attributes_and_graph() -> None:
    graph, nodes, edges = parts(
        'digraph "my g" { rankdir=LR; graph [a=1, b="2"; c]; x [k=v] [l=-.5]; "y \\"z\\"" ; x -> 7.5 [w=3] }'
    )
    assert graph == {"name": "my g", "rankdir": "LR", "a": "1", "b": "2", "c": "true"}
    assert nodes == {"x": {"k": "v", "l": "-.5"}, 'y "z"': {}, "7.5": {}}
    assert edges == [("x", "7.5", {"w": "3"})]


def test_comments_keywords_in_any_case_and_no_semicolons() -> None:
    _, nodes, edges = parts("# c\nDIGRAPH G {/* { */ Node [s=1] a // }\n b -> a Edge [t=2] a -> c\n# x\n}")
    assert nodes == {"a": {"s": "1"}, "b": {"s": "1"}, "c": {"s": "1"}}
    assert edges == [("a", "c", {"t": "2"}), ("b", "a", {})]


def test_subgraphs_have_defaults_of_their_own_and_ends_may_be_groups() -> None:
    _, nodes, edges = parts(
        "digraph { node [s=1]; subgraph c { node [s=2]; a -> b [e=1] } d; {a; b} -> {c d} -> e; }"
    )
    assert {name: data["s"] for name, data in nodes.items()} == {
        "a": "2",
        "b": "2",
        "d": "1",
        "c": "1",
        "e": "1",
    }
    pairs = [(u, v) for u, v, _ in edges]
    assert sorted(pairs) == sorted(
        [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "e"), ("d", "e")]
    )


def test_ports_html_concatenation_and_continued_strings() -> None:
    _, nodes, edges = parts(
        'digraph { a:p:sw -> "b":n; c [l=<<b>x > y</b>>, m="u" + "v", n="w\\\nx"] }'.replace("x > y", "x")
    )
    assert [(u, v) for u, v, _ in edges] == [("a", "b")]
    assert nodes["c"] == {"l": "<<b>x</b>>", "m": "uv", "n": "wx"}


def test_strict_merges_parallel_edges() -> None:
    assert parts("strict digraph { a -> b [x=1]; a -> b [y=2] }")[2] == [("a", "b", {"x": "1", "y": "2"})]
    assert len(parts("digraph { a -> b [x=1]; a -> b [y=2] }")[2]) == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "t.dot, line 1, column 1: found the end of the file, expected 'digraph'"),
        ("graph { a }", "found \"graph\", expected 'digraph' (a directed graph)"),
        ("digraph { a -- b }", "line 1, column 13: found \"--\", expected '->' (a directed graph)"),
        ("digraph {\n  a ->\n}", 'line 3, column 1: found "}", expected a name'),
        ("digraph { a", "found the end of the file, expected a name"),
        ("digraph { a [x=] }", 'found "]", expected a name'),
        ("digraph { a [x=1 }", 'found "}", expected a name'),
        ("digraph { a } digraph { b }", 'found "digraph", expected one graph only'),
        ('digraph { "a }', 'found "\\"", expected DOT'),
        ("digraph { a [x=<b] }", "found an open '<', expected a '>' that closes it"),
        ("digraph { a $ }", 'line 1, column 13: found "$", expected DOT'),
        ("digraph { subgraph { a }", "found the end of the file, expected a name"),
        ("digraph " + "{" * 3000, "found subgraphs nested too deeply"),
    ],
)
def test_bad_text_is_one_line_with_its_place(text: str, found: str) -> None:
    with pytest.raises(InstanceError) as error:
        parse_dot(text, "t.dot")
    assert found in str(error.value)
    assert "\n" not in str(error.value)


@many(100)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_quoting_is_undone_by_parsing(text: str) -> None:
    graph = parse_dot(f"digraph {{ n [k={quoted(text)}] }}", "t.dot")
    assert graph.nodes["n"]["k"] == text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@many(30)
@given(st.integers(0, 10**6))
def test_same_nodes_and_edges_as_pydot(seed: int) -> None:
    pydot = pytest.importorskip("pydot")
    rng = Random(seed)
    names = ["a", "b1", '"c d"', "3.5", '"x\\"y"']
    lines = []
    for _ in range(rng.randint(1, 6)):
        chain = " -> ".join(rng.choice(names) for _ in range(rng.randint(1, 4)))
        lines.append(chain + rng.choice(["", " [w=1]", ' [w="2", color=red]']))
    text = "digraph g {" + rng.choice(["; ", "\n"]).join(lines) + "}"
    (theirs,) = pydot.graph_from_dot_data(text)
    ours = parse_dot(text, "t.dot")
    edges = [(quotes_off(e.get_source()), quotes_off(e.get_destination())) for e in theirs.get_edge_list()]
    assert sorted(ours.edges()) == sorted(edges)
    nodes = {quotes_off(n.get_name()) for n in theirs.get_node_list()} | {x for e in edges for x in e}
    assert set(ours.nodes) == nodes


def quotes_off(name: str) -> str:
    return name[1:-1].replace('\\"', '"') if name.startswith('"') else name
