"""What makes code hard to read only shrinks (tests/layout.toml), and what is counted is what is meant."""

from __future__ import annotations

import ast
import tomllib

import pytest

from tests import layout


@pytest.mark.slow
def test_no_count_is_above_its_limit() -> None:
    assert layout.above(layout.counts(), tomllib.loads(layout.FILE.read_text())) == []


def test_complexity_of_each_choice() -> None:
    text = """
def f(a, b):
    for x in a:
        if x and b or x > 3:
            continue
    else:
        b = [y for y in a if y]
    try:
        assert b if a else 2
    except ValueError:
        def inside():
            return 1 if a else 2
    match a:
        case 1: pass
        case _: pass
"""
    named = {name: layout.complexity(node) for name, node in layout.functions(ast.parse(text))}
    # for, its else, if, and, or, comprehension and its if, assert, its if, except, case
    assert named == {"f": 12, "f.inside": 2}


def test_constants_with_a_number() -> None:
    text = 'A = 2**10 - 1\n"""Bytes."""\nB, C = 1, -2.5\nD = "x"\nE = True\nF = A + 1\nG: int = 7\n'
    assert dict(layout.constants(ast.parse(text))) == {"A": "Bytes.", "B": None, "C": None, "G": None}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("found = 1\n", ["found"]),
        ("def f():\n    found = 1\n    return found\n", []),
        ("def f():\n    found = 1\n    x = 2\n    y = 3\n    return found\n", ["found"]),
        ("def f(late):\n    x = 2\n    y = 3\n    return late\n", ["late"]),
        ("def f():\n    a = [some for some in x]\n    y = 3\n    z = 4\n    b = [some for some in y]\n", []),
        ("def f():\n    found = 1\n    y = 3\n    z = 4\n    b = [found for a in y]\n", ["found"]),
        ("class ByWay:\n    told: int\n", ["by_way", "told"]),
        ("def as_told():\n    x.so_many = 1\n", ["as_told", "so_many"]),
        ("foundation = something = under_way = 1\n", []),
        ("from . import allocation as found, way\n", ["found"]),
    ],
)
def test_reserved_words(text: str, names: list[str]) -> None:
    assert sorted(layout.reserved("module", ast.parse(text))) == names


def test_a_module_with_a_reserved_name() -> None:
    assert layout.reserved("solvers.far_found", ast.parse("")) == ["far_found"]


def test_a_count_above_its_limit_is_named() -> None:
    tables = {"complexity": {"a.py:f": 30, "a.py:g": 26}}
    assert layout.above(tables, {"complexity": {"a.py:f": 30}}) == ["complexity: a.py:g is 26, expected <= 0"]
