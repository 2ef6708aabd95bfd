"""What small pictures consist of, as SVG: texts, boxes, ops, lines and arrows."""

# ruff: noqa: E501 - shapes in one line
from __future__ import annotations

from collections.abc import Iterable

BLUE, ORANGE, GREEN, RED, VIOLET, GREY = "#3b82c4", "#dd852a", "#3f9d5f", "#cf5350", "#8a63c0", "#8b929b"


def text(x: float, y: float, words: str, anchor: str = "middle", size: float = 11, colour: str = "") -> str:
    """Return a line of text."""
    fill = colour or "currentColor"
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="{fill}">{words}</text>'


def box(x: float, y: float, w: float, h: float, colour: str, words: str = "", solid: float = 0.3) -> str:
    """Return a rectangle with a text in its middle."""
    shape = (
        f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="2" fill="{colour}" '
        f'fill-opacity="{solid}" stroke="{colour}" stroke-width="1.2"/>'
    )
    return shape + (text(x + w / 2, y + h / 2 + 4, words) if words else "")


def node(x: float, y: float, words: str, colour: str = GREY, r: float = 13, solid: float = 0.3) -> str:
    """Return an op: a circle with its name."""
    shape = (
        f'<circle cx="{x}" cy="{y}" r="{r}" fill="{colour}" fill-opacity="{solid}" '
        f'stroke="{colour}" stroke-width="1.4"/>'
    )
    return shape + text(x, y + 4, words, size=10.5)


def line(
    points: Iterable[tuple[float, float]], colour: str = "", dash: bool = False, arrow: bool = False
) -> str:
    """Return a line through points, the last one with an arrow's head."""
    path = " ".join(f"{x},{y}" for x, y in points)
    extra = (' stroke-dasharray="4 3"' if dash else "") + (' marker-end="url(#head)"' if arrow else "")
    return f'<polyline points="{path}" fill="none" stroke="{colour or "currentColor"}" stroke-width="1.4"{extra}/>'


def arc(x: float, y: float, x2: float, y2: float, bend: float, colour: str = "") -> str:
    """Return a bent arrow."""
    middle = f"{(x + x2) / 2} {(y + y2) / 2 + bend}"
    return (
        f'<path d="M {x} {y} Q {middle} {x2} {y2}" fill="none" stroke="{colour or "currentColor"}" '
        'stroke-width="1.4" marker-end="url(#head)"/>'
    )


def between(a: tuple[float, float], b: tuple[float, float], colour: str = "", r: float = 15) -> str:
    """Return an arrow from one op to another."""
    (x, y), (x2, y2) = a, b
    far = ((x2 - x) ** 2 + (y2 - y) ** 2) ** 0.5
    dx, dy = (x2 - x) / far * r, (y2 - y) / far * r
    return line(
        ((round(x + dx, 1), round(y + dy, 1)), (round(x2 - dx, 1), round(y2 - dy, 1))), colour, arrow=True
    )


def step_line(
    heights: Iterable[int], x: float, base: float, step: float, unit: float
) -> list[tuple[float, float]]:
    """Return a step function from and to the base."""
    points = [(x, base)]
    for height in heights:
        points += [(x, base - height * unit), (x + step, base - height * unit)]
        x += step
    return [*points, (x, base)]
