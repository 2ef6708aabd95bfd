"""Small pictures of the questions and the words, as SVG in the colours of the page they stand on.

``{picture} NAME`` puts one into a page; ``python docs/pictures.py`` writes the one of the README.
"""

# ruff: noqa: D401, E501 - drawings: what they show, coordinates side by side
from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from drawing import BLUE, GREEN, GREY, ORANGE, RED, VIOLET, between, box, line, node, step_line, text
from questions import QUESTIONS, many, one
from result import systems

GREY_ON_ANY = "#7d8590"
"""Read on white and on black: a picture in a file does not know its page."""

README = Path(__file__).resolve().parent / "static" / "questions.svg"


def versions() -> str:
    """Writes make versions; reads, writes and `after` make precedence."""
    names = ("init", "read", "step", "use")
    at = [(50 + 130 * k, 72) for k in range(4)]
    return (
        "".join(node(x, y, name, BLUE, 20) for (x, y), name in zip(at, names, strict=True))
        + "".join(
            text(x, 116, words, size=11)
            for (x, _), words in zip(at, ("writes w", "reads w", "reads, writes w", "reads w"), strict=True)
        )
        + box(72, 6, 190, 18, GREEN, "w, version 1") + box(334, 6, 120, 18, ORANGE, "w, version 2")
        + between(at[0], at[1], GREEN, 23) + between(at[1], at[2], RED, 23) + between(at[2], at[3], ORANGE, 23)
        + text(115, 63, "read after write", size=10, colour=GREEN)
        + text(245, 63, "write after read", size=10, colour=RED)
        + text(375, 63, "read after write", size=10, colour=ORANGE)
    )  # fmt: skip


def _accounting(held: dict[str, tuple[int, int]], floors: dict[str, list[int]], total: Iterable[int]) -> str:
    sizes, colours = {"x": 2, "y": 3, "z": 1}, {"x": BLUE, "y": ORANGE, "z": GREEN}
    parts = [box(60 + 80 * k, 120, 80, 22, GREY, words, 0.08) for k, words in enumerate(("A", "B", "C", "D"))]
    for name, (first, last) in held.items():
        for k in range(first, last):
            floor = floors[name][k - first]
            parts.append(
                box(
                    60 + 80 * k,
                    116 - 18 * (floor + sizes[name]),
                    80,
                    18 * sizes[name],
                    colours[name],
                    f"{name}: {sizes[name]}",
                )
            )
    parts += [text(100 + 80 * k, 158, f"{many}") for k, many in enumerate(total)]
    return "".join(parts) + text(52, 135, "ops", "end") + text(52, 158, "bytes", "end")


def coexist() -> str:
    """What an op reads and writes is resident while it runs."""
    return _accounting(
        {"x": (0, 2), "y": (1, 3), "z": (2, 4)}, {"x": [0, 0], "y": [2, 0], "z": [3, 0]}, (2, 5, 4, 1)
    )


def replace() -> str:
    """Reads that die make room for what is written."""
    return _accounting({"x": (0, 1), "y": (1, 2), "z": (2, 3)}, {"x": [0], "y": [0], "z": [0]}, (2, 3, 1, 0))


def plan() -> str:
    """Runs, copies and residencies of a plan."""
    runs = (
        (70, 60, "F0"),
        (132, 60, "F1"),
        (194, 60, "F2"),
        (286, 60, "B2"),
        (348, 60, "B1"),
        (410, 60, "B0"),
    )
    rows = ((14, "processor"), (46, "device"), (78, "channel"), (110, "host"))
    return (
        "".join(text(62, y + 15, name, "end") for y, name in rows)
        + "".join(box(x, 14, w, 22, BLUE, name) for x, w, name in runs)
        + box(258, 14, 26, 22, RED, "", 0.15) + text(271, 10, "stall", size=10, colour=RED)
        + box(100, 46, 100, 22, ORANGE, "x") + box(310, 46, 160, 22, ORANGE, "x")
        + box(132, 78, 68, 22, GREEN, "copy out") + box(310, 78, 68, 22, GREEN, "copy in")
        + box(132, 110, 246, 22, ORANGE, "x")
        + line(((200, 42), (200, 74)), dash=True) + text(205, 62, "free", "start", 10)
        + line(((70, 148), (470, 148)), arrow=True) + text(270, 164, "ns; with a period the end is the beginning again")
    )  # fmt: skip


def executed() -> str:
    """The executed sets of two chains a b and c d, with what each leaves in memory."""
    bits = {(i, j): f"{'ab'[:i]}{'cd'[:j]}" or "nothing" for i in range(3) for j in range(3)}
    memory = {
        (0, 0): 0,
        (1, 0): 3,
        (2, 0): 1,
        (0, 1): 2,
        (1, 1): 5,
        (2, 1): 3,
        (0, 2): 0,
        (1, 2): 3,
        (2, 2): 1,
    }
    place = {(i, j): (60 + 85 * (i + j), 95 + 32 * (j - i)) for i, j in bits}
    best = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2)]
    edges = "".join(
        between(place[i, j], place[to], BLUE if (i, j) in best and to in best else GREY, 24)
        for i, j in bits
        for to in ((i + 1, j), (i, j + 1))
        if to in bits
    )
    return edges + "".join(
        node(*place[key], bits[key], BLUE if key in best else GREY, 22) + text(place[key][0], place[key][1] + 33, f"{memory[key]}", size=10)
        for key in bits
    )  # fmt: skip


def descent() -> str:
    """A walk that climbs by less than a height and ends no higher than it began."""
    steps = (4, 5, 7, 6, 8, 5, 6, 3)
    return (
        line(step_line(steps, 60, 130, 40, 12)[1:-1], BLUE)
        + line(((50, 82), (400, 82)), dash=True) + text(44, 86, "M(X)", "end")
        + line(((50, 30), (400, 30)), RED, dash=True) + text(404, 34, "M(X) + h", "start", colour=RED)
        + text(76, 74, "X", size=11) + text(360, 112, "T: M(T) ≤ M(X)", size=11)
        + line(((60, 140), (390, 140)), arrow=True) + text(225, 156, "ops of the walk")
    )  # fmt: skip


def waist() -> str:
    """Two components, and an op that is comparable with all others."""
    at = {
        "a": (40, 30),
        "b": (100, 30),
        "c": (40, 100),
        "d": (100, 100),
        "f": (190, 65),
        "g": (270, 35),
        "h": (270, 95),
    }
    edges = ("ab", "cd", "bf", "df", "fg", "fh")
    oval = '<rect x="16" y="{}" width="108" height="50" rx="22" fill="none" stroke="currentColor" stroke-dasharray="4 3"/>'
    return (
        "".join(between(at[x], at[y], r=16) for x, y in edges)
        + "".join(node(*at[x], x, ORANGE if x == "f" else GREY, 14) for x in at)
        + oval.format(5) + oval.format(75) + text(70, 69, "components", size=10) + text(190, 95, "waist", size=11, colour=ORANGE)
    )  # fmt: skip


def moment() -> str:
    """A cut through the tensors that are live at a moment."""
    at = {"a": (30, 70), "b": (110, 30), "c": (110, 110), "d": (200, 30), "e": (200, 110), "f": (280, 70)}
    sizes = {"ab": 2, "ac": 3, "bd": 4, "ce": 6, "df": 1, "ef": 2}
    colours = {"a": GREEN, "b": GREEN, "c": GREEN}
    edges = "".join(
        between(at[x], at[y], ORANGE if x + y in ("bd", "ce") else "", 17)
        + text((at[x][0] + at[y][0]) / 2, (at[x][1] + at[y][1]) / 2 - 7, f"{sizes[x + y]}", size=10)
        for x, y in sizes
    )
    return (
        edges + "".join(node(*at[x], x, colours.get(x, GREY), 14) for x in at)
        + line(((168, 6), (168, 134)), RED, dash=True) + text(168, 148, "cut: 4 + 6 bytes", size=10.5, colour=RED)
    )  # fmt: skip


def buffers() -> str:
    """Buffers with a hole, an in-place pair, the load and the height."""
    return (
        box(70, 86, 120, 34, BLUE, "x") + box(120, 44, 60, 38, ORANGE, "y") + box(194, 86, 90, 34, GREEN, "z: in place of x")
        + box(290, 86, 100, 34, VIOLET, "w") + box(230, 52, 110, 30, RED, "v")
        + line(((60, 42), (400, 42)), dash=True) + text(406, 46, "height", "start")
        + line(((60, 124), (400, 124)), arrow=True) + text(230, 140, "time") + text(52, 80, "address", "end")
    )  # fmt: skip


def window() -> str:
    """What must pass a channel between two instants."""
    return (
        "".join(box(40 + 46 * k, 60, 42, 22, BLUE, f"{k}") for k in range(9))
        + line(((178, 20), (178, 96)), RED, dash=True) + line(((362, 20), (362, 96)), RED, dash=True)
        + line(((182, 30), (358, 30)), RED, arrow=True)
        + text(270, 12, "a window: at least 9 GB must come in", size=11, colour=RED)
        + text(270, 50, "3 s of ops, 3.2 GB/s: so it lasts 2.8 s", size=10)
        + text(178, 110, "instant", size=10) + text(362, 110, "instant", size=10)
    )  # fmt: skip


def stages() -> str:
    """Stages of Checkmate: row t ends with the first run of op t."""
    parts = []
    again = {(3, 1), (4, 2), (4, 0)}
    for t in range(5):
        parts.append(text(60, 26 + 26 * t, f"stage {t}", "end", 10.5))
        for i in range(t + 1):
            first = i == t
            filled = first or (t, i) in again
            colour = BLUE if first else ORANGE if filled else GREY
            parts.append(
                box(
                    70 + 44 * i,
                    10 + 26 * t,
                    40,
                    22,
                    colour,
                    f"op {i}" if filled else "",
                    0.35 if filled else 0.05,
                )
            )
    return (
        "".join(parts)
        + text(310, 52, "first run", "start", colour=BLUE)
        + text(310, 74, "run again", "start", colour=ORANGE)
    )


WORDS: dict[str, tuple[Callable[[], str], int, int]] = {
    "versions": (versions, 490, 125),
    "coexist": (coexist, 400, 168),
    "replace": (replace, 400, 168),
    "plan": (plan, 490, 172),
    "executed": (executed, 460, 200),
    "descent": (descent, 470, 165),
    "waist": (waist, 310, 135),
    "moment": (moment, 310, 155),
    "buffers": (buffers, 450, 148),
    "window": (window, 480, 120),
    "stages": (stages, 400, 145),
}

PICTURES = {
    **{name: (draw, 200, 120) for name, (draw, _) in QUESTIONS.items()},
    **WORDS,
    "questions": (many, 880, 525),
    "systems": (systems, 400, 345),
}


def svg(name: str, colour: str = "") -> str:
    """Return a picture; in a page its text has the page's colour."""
    draw, width, height = PICTURES[name]
    style = f"color:{colour}" if colour else f"min-width:{min(width, 480)}px" if width > 400 else ""
    return _svg(draw, width, height, (draw.__doc__ or name).strip(), style)


def question(name: str) -> str:
    """Return the picture of a question between its name and its words."""
    return _svg(lambda: f'<g transform="translate(8,0)">{one(name)}</g>', 216, 168, QUESTIONS[name][1])


def _svg(draw: Callable[[], str], width: int, height: int, words: str, style: str = "") -> str:
    styled = f' style="{style}"' if style else ""
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="context-stroke"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif" role="img" aria-label="{words}"{styled}>{head}{draw()}</svg>\n'
    )


if __name__ == "__main__":
    README.write_text(svg("questions", GREY_ON_ANY))
