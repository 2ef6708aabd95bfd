"""The picture of a result on the first page: published swapping systems beside a certified bound."""

from __future__ import annotations

import math

from drawing import BLUE, GREY, RED, box, line, text

from lowtide.results.experiments.running import read_rows
from lowtide.results.experiments.swap_systems.compared import AUTO, by_question, is_published, rows_of_systems

MACHINES = ("a100-40g-pcie3", "h200-node")
"""Those of the 50 questions of `swap_systems`; the other rows are of ZeRO's machine."""


def slowdowns() -> dict[str, float]:
    """Return period over bound of `auto` and of systems with a rank: geometric means, the least first."""
    ratios: dict[str, list[float]] = {}
    rows = [row for row in read_rows("swap_systems") if row["machine"] in MACHINES]
    systems = {AUTO, *filter(is_published, rows_of_systems(by_question(rows)))}
    for row in rows:
        if row["method"] in systems and row["period"]:
            ratios.setdefault(row["method"], []).append(math.log(row["period"] / row["bound"]))
    means = {method: math.exp(sum(logs) / len(logs)) for method, logs in ratios.items()}
    return dict(sorted(means.items(), key=lambda item: item[1]))


def systems() -> str:
    """Bars: the time of an iteration over its certified bound, for auto and for each published system."""
    rows, left, unit = slowdowns(), 100, 75
    parts = [text(8, 14, "time of a training iteration over the certified bound", "start", 12)]
    for k, (method, ratio) in enumerate(rows.items()):
        y, colour = 24 + 15 * k, BLUE if method == "auto" else GREY
        name = "lowtide auto" if method == "auto" else method
        parts += [
            text(left - 5, y + 10, name, "end", 11, BLUE if method == "auto" else ""),
            box(left, y, round(ratio * unit, 1), 12, colour, solid=0.75 if method == "auto" else 0.3),
            text(round(left + ratio * unit + 5, 1), y + 10, f"{ratio:.2f}", "start", 11),
        ]
    bottom, edge = 26 + 15 * len(rows), left + unit
    bound = line(((edge, 20), (edge, bottom + 2)), RED, dash=True)
    return "".join(parts) + bound + text(edge, bottom + 14, "1: no plan is faster", size=11, colour=RED)
