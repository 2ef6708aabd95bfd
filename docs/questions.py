"""Small pictures of the questions, each within 200 x 120."""

# ruff: noqa: D401, E501 - drawings: what they show, coordinates side by side
from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from drawing import BLUE, GREEN, GREY, ORANGE, RED, VIOLET, arc, between, box, line, node, step_line, text


def peak() -> str:
    """Two orders of the same ops."""
    worse, better = (2, 4, 6, 8, 7, 5, 3, 1), (2, 4, 3, 5, 4, 5, 3, 1)
    return (
        line(step_line(worse, 16, 106, 21, 11), GREY, dash=True)
        + line(step_line(better, 16, 106, 21, 11), BLUE)
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
        + line(step_line((3, 5, 4, 5, 3, 2), 16, 106, 26, 7), BLUE)
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
        + line(step_line((2, 6, 6, 6, 5, 2), 14, 112, 27, 6), GREEN)
        + line(((12, 74), (188, 74)), RED, dash=True) + text(188, 70, "device", "end", 9.5, RED)
    )  # fmt: skip


def arena() -> str:
    """An order, and under it the buffers in time and address."""
    order = (("b", BLUE), ("a", ORANGE), ("d", GREEN), ("c", VIOLET))
    rows = (
        (16, 80, 90, 28, BLUE),
        (62, 46, 44, 30, ORANGE),
        (110, 46, 76, 40, GREEN),
        (110, 90, 76, 18, VIOLET),
    )
    return (
        "".join(node(30 + 46 * k, 16, name, c, r=12) for k, (name, c) in enumerate(order))
        + "".join(line(((43 + 46 * k, 16), (62 + 46 * k, 16)), arrow=True) for k in range(3))
        + line(((14, 40), (188, 40)), dash=True) + text(101, 37, "height", size=9)
        + "".join(box(*row) for row in rows)
    )  # fmt: skip


def partition() -> str:
    """A chain of layers, cut between devices, and the load of each."""
    colours = (BLUE, BLUE, ORANGE, ORANGE, ORANGE, GREEN)
    return (
        "".join(line(((38 + 30 * k, 40), (44 + 30 * k, 40))) for k in range(5))
        + "".join(node(26 + 30 * k, 40, str(k + 1), c, r=12) for k, c in enumerate(colours))
        + line(((71, 18), (71, 62)), dash=True) + line(((161, 18), (161, 62)), dash=True)
        + text(40, 14, "device 0", size=9) + text(116, 14, "device 1", size=9) + text(178, 14, "2", size=9)
        + box(16, 86, 48, 14, BLUE) + box(78, 80, 76, 20, ORANGE) + box(168, 92, 20, 8, GREEN)
        + text(116, 75, "largest load", size=9, colour=ORANGE)
    )  # fmt: skip


def hybrid() -> str:
    """Two stages: three replicas of one device, and a group of two that split each layer."""
    return (
        "".join(box(20, 12 + 28 * r, 64, 20, BLUE) + text(52, 26 + 28 * r, "1 2 3", size=9) for r in range(3))
        + "".join(line(((88, 22 + 28 * r), (108, 44)), arrow=r == 1) for r in range(3))
        + box(112, 22, 64, 20, ORANGE) + box(112, 46, 64, 20, ORANGE)
        + text(144, 36, "½ 4 5", size=9) + text(144, 60, "½ 4 5", size=9)
        + text(52, 104, "3 replicas", size=9, colour=BLUE) + text(144, 84, "a group of 2", size=9, colour=ORANGE)
    )  # fmt: skip


def sharding() -> str:
    """Three ops, each with one of its strategies chosen, costs between them, and usage below a limit."""
    rows = ((30, 1), (90, 0), (150, 2))
    return (
        "".join(line(((x + 17, 30), (x + 43, 30))) for x in (30, 90))
        + "".join(
            box(x - 14, 4 + 18 * s, 28, 14, ORANGE if s == chosen else BLUE) for x, chosen in rows for s in range(3)
        )
        + text(60, 24, "+ 4", size=9) + text(120, 24, "+ 1", size=9)
        + line(((16, 72), (184, 72)), dash=True) + text(184, 69, "limit", "end", 9)
        + box(16, 90, 54, 12, GREEN) + box(70, 78, 60, 24, GREEN) + box(130, 86, 54, 16, GREEN)
    )  # fmt: skip


def tiles() -> str:
    """A strip of rows times a strip of columns makes a tile."""
    return (
        box(16, 30, 44, 44, GREY, solid=0.08) + box(16, 30, 44, 14, BLUE)
        + box(76, 30, 44, 44, GREY, solid=0.08) + box(76, 30, 14, 44, GREEN)
        + box(144, 30, 44, 44, GREY, solid=0.08) + box(144, 30, 14, 14, ORANGE)
        + line(((124, 52), (140, 52)), arrow=True) + text(68, 56, "x", size=10)
        + text(102, 98, "fast memory holds the coloured parts", size=9)
    )  # fmt: skip


def pipeline() -> str:
    """Three micro-batches on three devices: forward, backward, gradients of weights."""
    rows, colours = ("FFF..BWBWBW", ".FF.BFBWBWW", "..FBFBFBWWW"), {"F": RED, "B": BLUE, "W": GREEN}
    return "".join(
        text(30, 30 + 34 * d, str(d), "end", 10)
        + "".join(
            box(round(36 + 13.6 * t, 1), 16 + 34 * d, 13.6, 20, colours[op])
            + text(round(42.8 + 13.6 * t, 1), 30 + 34 * d, op, size=9)
            for t, op in enumerate(row)
            if op in colours
        )
        for d, row in enumerate(rows)
    )


QUESTIONS: dict[str, tuple[Callable[[], str], str]] = {
    "peak": (peak, "which order needs the least memory?"),
    "offsets": (offsets, "which address for each buffer?"),
    "arena": (arena, "which order, and which addresses?"),
    "placement": (placement, "where is each tensor, and when?"),
    "parallel-memory": (parallel, "how much can a runtime need?"),
    "makespan": (makespan, "how fast within a memory?"),
    "streams": (streams, "which ops run concurrently?"),
    "pipeline": (pipeline, "which micro-batch runs when?"),
    "partition": (partition, "which layers on which device?"),
    "hybrid": (hybrid, "how many devices for each stage?"),
    "sharding": (sharding, "how is each op split?"),
    "recompute": (recompute, "which ops run again?"),
    "minio": (minio, "what is written to a storage?"),
    "tiles": (tiles, "which ops run together, in which tiles?"),
}
"""The problems, as in the table of the first page."""


def one(name: str) -> str:
    """The picture of a question, with its name above and its words below."""
    draw, question = QUESTIONS[name]
    words = text(100, 14, name, size=13) + text(100, 160, question, size=11)
    return f'{words}<g transform="translate(0,22)">{draw()}</g>'


def many() -> str:
    """The questions, four in a row."""
    return "".join(
        f'<g transform="translate({12 + 215 * (k % 4)},{175 * (k // 4)})">{one(name)}</g>'
        for k, name in enumerate(QUESTIONS)
    )
