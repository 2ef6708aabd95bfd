"""Lines of keys and elements in TOML texts."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.results.sweeps.toml_lines import Place, line_numbers
from tests.effort import many

EVERYTHING = r'''# comment with [ and "
title = "a # b"  # and so on
[a.b]
"q.r" = [1, [2,
  3], # c ]
 {x = 1, y.z = "}"}]
s = """
multi [ ""\"
 line"""
l = \'\'\'it's
a\'\'\'
d = 1979-05-27T07:32:00Z

[[r]]
k=1
[[r]]
k = -2.5e3
[r.sub]
z = true
[[r.subs]]
w = ''
'''.replace(r"\'", "'")


def places(value: Any, place: Place = ()) -> set[Place]:
    """Return every place of a parsed text."""
    found = {place} if place else set()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found.union(*(places(item, (*place, key)) for key, item in items))


def test_every_kind_of_value() -> None:
    found = line_numbers(EVERYTHING)
    assert {*found} == places(tomllib.loads(EVERYTHING))
    expected = {
        ("title",): 2,
        ("a", "b"): 3,
        ("a", "b", "q.r", 1, 0): 4,
        ("a", "b", "q.r", 1, 1): 5,
        ("a", "b", "q.r", 2, "y", "z"): 6,
        ("a", "b", "s"): 7,
        ("a", "b", "l"): 10,
        ("a", "b", "d"): 12,
        ("r", 0): 14,
        ("r", 0, "k"): 15,
        ("r", 1): 16,
        ("r", 1, "sub", "z"): 19,
        ("r", 1, "subs", 0, "w"): 21,
    }
    assert expected.items() <= found.items()


KEYS = st.text("ab-_ \"'é.#[]=", min_size=1, max_size=4)
TEXTS = st.text("ab \"'#[]{},=\n\\é", max_size=6)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.integers(-9, 9) | st.booleans() | TEXTS | st.sampled_from([0.5, -1e9]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def written(value: Any, breaks: list[bool]) -> str:
    """Return a value as TOML, with line ends and comments within lists here and there."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        if "'" not in value and "\n" not in value and breaks and breaks.pop():
            return f"'{value}'"
        return quoted(value)
    if isinstance(value, list):
        gap = "\n # ] , [\n" if breaks and breaks.pop() else " "
        return f"[{gap}{f',{gap}'.join(written(item, breaks) for item in value)}{gap}]"
    if isinstance(value, dict):
        pairs = (f"{quoted(key)} = {written(item, [])}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    return str(value)


@pytest.mark.slow
@given(TABLES, st.lists(TABLES, max_size=3), st.lists(st.booleans(), max_size=20))
@many(100)
def test_places_are_those_of_the_reader(
    head: dict[str, Any], rows: list[dict[str, Any]], breaks: list[bool]
) -> None:
    lines: list[str] = ["[head]"]
    lines += [f"{quoted(key)} = {written(value, breaks)}" for key, value in head.items()]
    for row in rows:
        lines += ["", "[[rows]] # a row"]
        lines += [f"{quoted(key)}={written(value, breaks)}" for key, value in row.items()]
    text = "\n".join(lines) + "\n"
    data = tomllib.loads(text)
    assert data == {"head": head, **({"rows": rows} if rows else {})}
    found = line_numbers(text)
    assert {*found} == places(data)
    for place, line in found.items():
        if place[0] == "head" and len(place) == 2:
            assert text.split("\n")[line - 1].startswith(quoted(str(place[1])))
