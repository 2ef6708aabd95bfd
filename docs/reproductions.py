"""Published figures beside those here: what each paper states, and what the committed rows have.

``{reproductions} values`` and ``{reproductions} set-ups`` (`directives`) put the tables into a page; every
figure of the suite is counted from rows, never written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import geometric_mean
from typing import Any, NamedTuple

from lowtide.results.experiments.__main__ import load
from lowtide.results.experiments.running import read_rows

Row = dict[str, Any]
HEADINGS = ("source", "published", "here", "what differs", "experiment")


class Reproduction(NamedTuple):
    """A paper's figure: where it stands, what it says, the experiment that has ours, and what differs."""

    source: str
    published: str
    experiment: str
    here: Callable[[list[Row]], str]
    differs: str


def equal(name: str, unit: str, key: str = "ours") -> Callable[[list[Row]], str]:
    """Return what counts the rows of an algorithm that have the published value."""

    def count(rows: list[Row]) -> str:
        of = [row for row in rows if row["algorithm"].startswith(name) and row["published"] is not None]
        return f"{sum(row[key] == row['published'] for row in of)} of {len(of)} {unit}"

    return count


def cycles(rows: list[Row]) -> str:
    """Count the periods of G10's artifact that are those published."""
    text = load("g10_run_time").text(rows)
    exact = text["exact"] + text["exact_batches"] + text["exact_swept"]
    every = text["paged"] + text["of_batches"] + text["swept"]
    return f"{exact} of {every} periods to a cycle an op"


def loads(rows: list[Row]) -> str:
    """Count the optima that are what dnn-partitioning states, and how many ns they differ by."""
    of = [
        row
        for row in rows
        if row["method"] == "ideals" and row["contiguous"] and row["stated_ms"] is not None
    ]
    apart = [abs(row["load"] - round(row["stated_ms"] * 1e6)) for row in of]
    proved = sum(row["status"] == "optimal" for row in of)
    return f"{proved} of {len(of)} proved, at most {max(apart)} ns apart"


def bubbles(rows: list[Row]) -> str:
    """Count the spans of ZB-H1 and ZB-H2 that are the formulas of the paper."""
    right = every = 0
    for row in rows:
        weights = {"zb-h1": 1, "zb-h2": 2}.get(row["method"])
        options = dict(option.split("=") for option in row["options"].split("&"))
        uniform = all("-" not in value for value in options.values())
        if weights is None or row["objective"] != "span" or row["time"] is None or not uniform:
            continue
        f, b, w = (int(options.get(name, 1)) for name in "fbw")
        p, m = int(options["p"]), int(options["m"])
        every += 1
        right += row["time"] == m * (f + b + w) + (p - 1) * (f + b - weights * w)
    return f"{right} of {every} spans"


def times_of_batches(system: str) -> Callable[[list[Row]], str]:
    """Return what tells the least and the greatest multiple of the batch without swapping."""

    def text(rows: list[Row]) -> str:
        stays = {row["network"]: row["batch"] for row in rows if row["method"] == "no swapping"}
        times = [row["batch"] / stays[row["network"]] for row in rows if row["method"] == system]
        return f"{min(times):.1f} to {max(times):.1f} times the batch"

    return text


def slowdown(method: str) -> Callable[[list[Row]], str]:
    """Return what tells the mean slowdown against DRAM for everything, at AutoTM's ratios."""

    def text(rows: list[Row]) -> str:
        of = [row for row in rows if row["method"] == method and row["ratio"] <= 4]
        return f"{geometric_mean(row['period'] / row['ideal'] for row in of) - 1:.1%} on {len(of)} questions"

    return text


def not_optimal(kinds: Sequence[str]) -> Callable[[list[Row]], str]:
    """Return what tells how often a best post-order is no optimal order, and the greatest increase."""

    def text(rows: list[Row]) -> str:
        ratios = [row["postorder"] / row["least"] for row in rows if row["set"] in kinds]
        return (
            f"{sum(r > 1 for r in ratios) / len(ratios):.1%} of {len(ratios)}, at most {max(ratios) - 1:.1%}"
        )

    return text


def harpoons(rows: list[Row]) -> str:
    """Count the harpoons whose post-order and least peak are the closed forms."""
    of = [row for row in rows if row["closed least"] is not None]
    right = sum((r["postorder"], r["least"]) == (r["closed postorder"], r["closed least"]) for r in of)
    return f"{right} of {len(of)} pairs of values"


def means(rows: list[Row]) -> str:
    """Count the published means that lie between the least and the most mean of five graphs here."""
    inside = total = 0
    for (method, n, devices), known in load("hios_means").ELSEWHERE.items():
        total += 1
        ratios = [
            [
                r[method] / r["cpsat"]
                for r in rows
                if (r["ops"], r["layers"], r["devices"]) == (n, layers, devices)
            ]
            for layers in sorted({r["layers"] for r in rows if r["ops"] == n and r["devices"] == devices})
        ]
        fives = [[sum(x[i : i + 5]) / 5 for i in range(0, len(x), 5)] for x in ratios]
        inside += any(min(of) <= known <= max(of) for of in fives)
    return f"{inside} of {total} means within those of five graphs"


def greedy(rows: list[Row]) -> str:
    """Tell the proved or bounded latency beside the greedy split of dnn-partitioning."""
    of = [r for r in rows if r["greedy_ms"] is not None and r["latency"] is not None]
    better = [r["greedy_ms"] * 1e6 / r["latency"] for r in of]
    return f"{min(better):.2f} to {max(better):.2f} times as fast on {len(of)}"


VALUES = (
    Reproduction(
        "Griewank and Walther, Revolve (TOMS 2000)",
        "least forwards, closed form",
        "recompute_chains",
        equal("Revolve", "counts"),
        "nothing",
    ),
    Reproduction(
        "Maddison, mixed checkpointing (J. Comput. Sci. 2024)",
        "least forwards, recursion",
        "recompute_chains",
        equal("Mixed", "counts"),
        "nothing",
    ),
    Reproduction(
        "Aupy et al., Disk-Revolve (SIAM J. Sci. Comput. 2016)",
        "costs with a disk, each checkpoint read once",
        "recompute_chains",
        equal("Disk-Revolve, read once", "costs"),
        "nothing",
    ),
    Reproduction(
        "Herrmann and Pallez, H-Revolve (TOMS 2020)",
        "costs with two levels",
        "recompute_chains",
        equal("H-Revolve", "costs"),
        "nothing",
    ),
    Reproduction(
        "G10 (MICRO 2023), artifact",
        "periods in cycles of UVM, DeepUM and G10, with sweeps",
        "g10_run_time",
        cycles,
        "nothing for the periods that agree; why the others do not stands in the table",
    ),
    Reproduction(
        "Tarnawski et al., dnn-partitioning (NeurIPS 2020)",
        "largest load of contiguous splits",
        "partition_optima",
        loads,
        "times are rounded to whole ns",
    ),
    Reproduction(
        "Qi et al., zero bubble (ICLR 2024)",
        "bubbles (p - 1)(F + B - W) and (p - 1)(F + B - 2W)",
        "pipeline_schedules",
        bubbles,
        "nothing",
    ),
    Reproduction(
        "Jacquelin et al. (IPDPS 2011)",
        "harpoons, post-order and least peak, closed forms",
        "trees",
        harpoons,
        "nothing",
    ),
)
"""Figures that are compared one by one: the same question, the same unit."""

SET_UPS = (
    Reproduction(
        "Jacquelin et al. (IPDPS 2011), as a course quotes it",
        "assembly trees: 4.2 % of the best post-orders are not optimal, at most 18 % above",
        "trees",
        not_optimal(("assembly", "files")),
        "the trees: grids and public files here",
    ),
    Reproduction(
        "the same",
        "random weights: 61 % not optimal, at most 22 % above",
        "trees",
        not_optimal(("random",)),
        "trees are drawn here",
    ),
    Reproduction(
        "AutoTM (ASPLOS 2020)",
        "asynchronous form: 27.7 % slower than DRAM alone (geometric mean)",
        "placement_autotm",
        slowdown("autotm-async"),
        "measured runs of larger networks there, a roofline without fusion here",
    ),
    Reproduction(
        "the same", "first touch: 71.9 % slower", "placement_autotm", slowdown("first-touch"), "the same"
    ),
    Reproduction(
        "TFLMS (arXiv 1807.02037)",
        "4.7 times the batch on ResNet-50, 2 times on 3D U-Net",
        "swap_batches",
        times_of_batches("tflms-v1"),
        "other networks; 40 GiB here",
    ),
    Reproduction(
        "FlashNeuron (FAST 2021)",
        "12.4 to 14.0 times the batch on four networks",
        "swap_batches",
        times_of_batches("flashneuron"),
        "other networks; 16 GB there, 40 GiB here",
    ),
    Reproduction(
        "HIOS (CLUSTER 2023), lists of several devices",
        "six means over five random graphs of another program",
        "hios_means",
        means,
        "graphs are drawn by the same ranges, with other random numbers",
    ),
    Reproduction(
        "dnn-partitioning (NeurIPS 2020)",
        "latency of its greedy split",
        "partition_latency",
        greedy,
        "its own program was run for four inputs",
    ),
)
"""Figures beside each other whose questions are not the same; the column says what differs."""

TABLES = {"values": VALUES, "set-ups": SET_UPS}


def table(entries: Iterable[Reproduction]) -> str:
    """Return the rows as a Markdown table."""
    lines = [HEADINGS, ("---",) * len(HEADINGS)]
    for entry in entries:
        link = f"[`{entry.experiment}`](/results.md#{entry.experiment})"
        here = entry.here(read_rows(entry.experiment))
        lines.append((entry.source, entry.published, here, entry.differs, link))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
