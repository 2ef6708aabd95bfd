"""Small pictures of the questions and the words, as SVG in the colours of the page they stand on.

``{picture} NAME`` puts one into a page; ``python docs/pictures.py`` writes the one of the README.
"""

# ruff: noqa: D401, E501 - drawings: what they show, coordinates side by side
from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

BLUE, ORANGE, GREEN, RED, VIOLET, GREY = "#3b82c4", "#dd852a", "#3f9d5f", "#cf5350", "#8a63c0", "#8b929b"
GREY_ON_ANY = "#7d8590"
"""Read on white and on black: a picture in a file does not know its page."""

README = Path(__file__).resolve().parent / "static" / "questions.svg"


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


# The seven questions, each within 200 x 120.


def _steps(
    heights: Iterable[int], x: float, base: float, step: float, unit: float
) -> list[tuple[float, float]]:
    points = [(x, base)]
    for height in heights:
        points += [(x, base - height * unit), (x + step, base - height * unit)]
        x += step
    return [*points, (x, base)]


def peak() -> str:
    """Two orders of the same ops."""
    worse, better = (2, 4, 6, 8, 7, 5, 3, 1), (2, 4, 3, 5, 4, 5, 3, 1)
    return (
        line(_steps(worse, 16, 106, 21, 11), GREY, dash=True)
        + line(_steps(better, 16, 106, 21, 11), BLUE)
        + line(((16, 106), (190, 106)), arrow=True)
        + text(104, 13, "reference order", size=10, colour=GREY)
        + text(104, 84, "least peak", size=10, colour=BLUE)
    )


def offsets() -> str:
    """Buffers in time and address."""
    rows = (
        (16, 74, 50, 32, BLUE),
        (16, 34, 30, 36, ORANGE),
        (70, 56, 70, 50, GREEN),
        (50, 30, 34, 22, VIOLET),
    )
    more = ((88, 30, 52, 22, RED), (144, 30, 40, 76, BLUE))
    return (
        "".join(box(*row) for row in rows + more)
        + line(((14, 26), (188, 26)), dash=True)
        + text(101, 19, "height", size=10)
    )


def placement() -> str:
    """Tiers, and a tensor that leaves and returns."""
    tiers = "".join(
        box(52, y, 136, 26, GREY, solid=0.08) + text(46, y + 17, name, "end", 10)
        for y, name in ((10, "device"), (48, "host"), (86, "SSD"))
    )
    return (
        tiers + box(56, 14, 36, 18, BLUE) + box(72, 52, 74, 18, BLUE) + box(142, 14, 42, 18, BLUE)
        + arc(84, 32, 92, 50, 2, BLUE) + arc(136, 52, 150, 34, 2, BLUE)
    )  # fmt: skip


def parallel() -> str:
    """A moment: what has ended, what runs."""
    at = {"a": (24, 60), "b": (72, 26), "c": (72, 94), "d": (124, 26), "e": (124, 94), "f": (176, 60)}
    edges = "".join(between(at[x], at[y]) for x, y in ("ab", "ac", "bd", "ce", "df", "ef"))
    colours = {"a": GREEN, "b": GREEN, "c": ORANGE, "d": ORANGE}
    return edges + "".join(
        node(*at[x], x, colours.get(x, GREY), solid=0.35 if x in colours else 0.08) for x in at
    )


def makespan() -> str:
    """A schedule on processors, and the memory under it."""
    bars = (
        (16, 10, 46, BLUE),
        (66, 10, 60, ORANGE),
        (130, 10, 40, GREEN),
        (16, 34, 70, VIOLET),
        (90, 34, 72, RED),
    )
    return (
        "".join(box(x, y, w, 18, c) for x, y, w, c in bars)
        + line(((172, 4), (172, 110)), dash=True)
        + line(_steps((3, 5, 4, 5, 3, 2), 16, 106, 26, 7), BLUE)
        + line(((14, 68), (186, 68)), RED, dash=True) + text(188, 64, "memory", "end", 9.5, RED)
    )  # fmt: skip


def recompute() -> str:
    """A chain forward and back, one op run again."""
    fore = [(20 + 38 * k, 30) for k in range(5)]
    back = [(x, 92) for x, _ in fore]
    return (
        "".join(between(a, b) for a, b in pairwise(fore))
        + "".join(between(b, a) for a, b in pairwise(back))
        + between(fore[4], back[4]) + line(((20, 45), (20, 77)), dash=True, arrow=True)
        + "".join(node(x, y, f"F{k}", ORANGE if k in (1, 2) else BLUE, 12) for k, (x, y) in enumerate(fore))
        + "".join(node(x, y, f"B{k}", GREY, 12) for k, (x, y) in enumerate(back))
        + arc(52, 18, 98, 18, -20, ORANGE) + text(75, 65, "run again", size=10, colour=ORANGE)
    )  # fmt: skip


def minio() -> str:
    """A tree, and an output that waits in a storage."""
    at = {"a": (20, 24), "b": (20, 64), "c": (66, 44), "d": (66, 92), "e": (116, 66)}
    return (
        "".join(between(at[x], at[y]) for x, y in ("ac", "bc", "ce", "de"))
        + "".join(node(*at[x], x, GREY, 12) for x in at)
        + box(146, 10, 46, 30, ORANGE, "storage") + arc(78, 36, 142, 24, -14, ORANGE) + arc(168, 44, 128, 60, 4, ORANGE)
    )  # fmt: skip


def streams() -> str:
    """Ops side by side on one device, an op that waits for another stream, the device full."""
    one, other = ((14, 44), (62, 58), (124, 54)), ((62, 34), (100, 70))
    return (
        "".join(box(x, y, w, 18, c) for y, c, bars in ((12, BLUE, one), (40, ORANGE, other)) for x, w in bars)
        + line(((58, 30), (64, 39)), arrow=True) + line(((168, 40), (176, 31)), arrow=True)
        + line(_steps((2, 6, 6, 6, 5, 2), 14, 112, 27, 6), GREEN)
        + line(((12, 74), (188, 74)), RED, dash=True) + text(188, 70, "device", "end", 9.5, RED)
    )  # fmt: skip


QUESTIONS: dict[str, tuple[Callable[[], str], str]] = {
    "peak": (peak, "which order needs the least memory?"),
    "offsets": (offsets, "which address for each buffer?"),
    "placement": (placement, "where is each tensor, and when?"),
    "parallel-memory": (parallel, "how much can a runtime need?"),
    "makespan": (makespan, "how fast within a memory?"),
    "streams": (streams, "what runs beside what?"),
    "recompute": (recompute, "what to compute again?"),
    "minio": (minio, "what to write to a storage?"),
}


def _many() -> str:
    parts = []
    for k, (name, (draw, question)) in enumerate(QUESTIONS.items()):
        x, y = 12 + 215 * (k % 4), 175 * (k // 4)
        words = text(100, 14, name, size=13) + text(100, 160, question, size=11)
        parts.append(
            f'<g transform="translate({x},{y})">{words}<g transform="translate(0,22)">{draw()}</g></g>'
        )
    return "".join(parts)


# The words.


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
        line(_steps(steps, 60, 130, 40, 12)[1:-1], BLUE)
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
    "questions": (_many, 880, 350),
}


def svg(name: str, colour: str = "") -> str:
    """Return a picture; in a page its text has the page's colour."""
    draw, width, height = PICTURES[name]
    words = (draw.__doc__ or "The eight questions.").strip()
    style = f' style="color:{colour}"' if colour else f' style="min-width:{min(width, 480)}px"'
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="context-stroke"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif" role="img" aria-label="{words}"{style}>{head}{draw()}</svg>\n'
    )


if __name__ == "__main__":
    README.write_text(svg("questions", GREY_ON_ANY))
