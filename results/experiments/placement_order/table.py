"""What a free order buys beside swapping: fixed orders, two steps, SwapAdvisor's joint search, and ours.

G10's workloads on a device of 24 GiB, or a quarter above what one op needs, training steps of
transformers and randomly wired networks on one of a part of their peak in the reference order, which is
no less than what one op needs. ``fixed``: `auto` in the graph's own order; ``two steps``: an order of
least peak memory, then `auto` in it; ``swapadvisor``; ``auto``: begins with the better of the first two
plans, so that it is never slower than these, and has as much time again. One thread each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import lowtide as lt

from ....instances import load_problem
from ....instances.formats.native_plan import write_plan
from ....models.derived.reordered import in_order
from ....models.plan import Plan
from ....solvers.largest import ideal_time
from ....solvers.placement.reductions.orders import of_first
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..placement_g10.table import PUBLISHED
from ..running import HERE, Case, read_rows
from ..swap_systems.table import peak_of

FOLDER = HERE / "placement_order"
MACHINE = "a100-40g-pcie3"
SECONDS = {"fixed": 8, "peak": 3, "two steps": 8, "swapadvisor": 8, "auto": 16}
"""Of each step, at most."""


class Network(NamedTuple):
    """A graph, the part of its peak that the device has, and whether it is an iteration of many."""

    spec: str
    part: float = 0.5
    periodic: bool = True


NETWORKS = {
    **{name: Network(f"catalogue:g10/{name}") for name in PUBLISHED},
    "gpt2-small-train": Network("catalogue:gpt2-small-train"),
    "bert-base-train": Network("catalogue:bert-base-train"),
    "llama-block-train": Network("catalogue:llama-block-train", 0.6),
    "moe-train": Network("catalogue:moe-train", 0.6),
    "nasnet-3-train": Network("catalogue:nasnet-3-train"),
    "nasnet-6": Network("catalogue:nasnet-6", 0.7, False),
    "randwire": Network("catalogue:ios/randwire_large", 0.8, False),
}
PICTURED = "nasnet-3-train"
"""The graph whose plans are kept, for the picture."""


def asked(name: str) -> str:
    """Return the specification of a question whose order is fixed."""
    network = NETWORKS[name]
    graph = lt.load(network.spec)
    least = max(
        sum(graph.tensors[t].nbytes for t in {*op.reads, *op.writes}) + op.least_workspace for op in graph.ops
    )
    device = (
        max(24 * 2**30, least * 5 // 4) if name in PUBLISHED else int(network.part * peak_of(network.spec))
    )
    device = max(device, least)
    return f"{network.spec}?machine={MACHINE}&device={device}B&periodic={int(network.periodic)}"


def cases() -> Iterator[Case]:
    """Yield a case for each graph."""
    for name in NETWORKS:
        yield Case(name, partial(rows_of, name))


def rows_of(name: str) -> list[Row]:
    """Return the rows of a graph; all plans were verified."""
    spec = asked(name)
    fixed = load_problem(lt.Placement, spec)
    free = replace(fixed, order="free")
    order = lt.solve(lt.Peak(fixed.graph), threads=1, time_limit=SECONDS["peak"]).order
    assert order is not None
    plans: list[Plan] = []
    rows = []
    for method in ("fixed", "two steps", "swapadvisor", "auto"):
        began = time.process_time()
        if method == "fixed":
            result = lt.solve(fixed, threads=1, time_limit=SECONDS[method])
            plan = result.plan
        elif method == "two steps":
            ordered = replace(fixed, graph=in_order(fixed.graph, order))
            result = lt.solve(ordered, threads=1, time_limit=SECONDS[method])
            plan = None if result.plan is None else of_first(result.plan, fixed.graph, order)
        else:
            hint = min(plans, key=free.evaluate) if method == "auto" and plans else None
            options = {"generations": "1000"} if method == "swapadvisor" else None  # it has time for more
            result = lt.solve(free, method, threads=1, time_limit=SECONDS[method], hint=hint, options=options)
            plan = result.plan
        assert result.status is not lt.Status.FAILED, result.detail
        if plan is not None:
            assert not free.judge(plan).violations
            if method != "swapadvisor":
                plans.append(plan)
        rows.append(
            {
                "graph": name,
                "ops": len(fixed.graph.ops),
                "device": fixed.machine.tiers[0].capacity,
                "ideal": ideal_time(fixed),
                "method": method,
                "time": None if plan is None else free.evaluate(plan),
                "bound": None if method == "two steps" else result.bound,
                "bound_kind": None if method == "two steps" else result.bound_kind,
                "seconds": round(time.process_time() - began, 1),
                "instance": spec if method == "fixed" else f"{spec}&order=free",
            }
        )
        if name == PICTURED and plan is not None and method in ("fixed", "auto"):
            write_plan(plan, FOLDER / f"{method}.json.gz")
    return rows


def text(table: list[Row]) -> Fields:
    """Return a line for each graph, and how often which is best."""
    spec = TableSpec(
        (
            Column("graph"),
            Column("ops", kind=","),
            Column("sum of durations, ms", lambda group: group[0]["ideal"] / 1e6, ",.3f"),
            *(
                Column(f"{method}, stall", partial(_stall, method), RIGHT)
                for method in ("fixed", "two steps", "swapadvisor", "auto")
            ),
            Column("bound of every order", partial(_stall, "bound"), RIGHT),
            Column("order buys", _bought, RIGHT),
        ),
        groups=("graph",),
    )
    groups = [[row for row in table if row["graph"] == name] for name in NETWORKS]
    known = [{row["method"]: row for row in group} for group in groups if group]
    steps = [min(g["fixed"]["time"], g["two steps"]["time"]) for g in known]
    ours = [g["auto"]["time"] for g in known]
    return {
        "table": spec.of(table),
        "limits": ", ".join(f"{seconds} s for {name}" for name, seconds in SECONDS.items()),
        "graphs": len(known),
        "faster": sum(g["auto"]["time"] < (g["fixed"]["time"] or 2**62) * 0.999 for g in known),
        "joint": sum(x < y * 0.999 for x, y in zip(ours, steps, strict=True)),
        "worse": sum(x > y for x, y in zip(ours, steps, strict=True)),
        "beaten": sum(
            g["swapadvisor"]["time"] is not None and g["swapadvisor"]["time"] < g["auto"]["time"]
            for g in known
        ),
        "near": sum(g["auto"]["time"] <= 1.01 * g["auto"]["bound"] for g in known),
    }


def _stall(method: str, group: list[Row]) -> str:
    """Say what a plan or the bound has above the durations, in percent of these."""
    row = next(row for row in group if row["method"] == ("auto" if method == "bound" else method))
    time = row["bound"] if method == "bound" else row["time"]
    return "no plan" if time is None else f"{time / row['ideal'] - 1:.1%}"


def _bought(group: list[Row]) -> str:
    times = {row["method"]: row["time"] for row in group}
    if times["fixed"] is None:
        return "a plan"
    return f"{1 - times['auto'] / times['fixed']:.1%}"


def draw() -> None:
    """Draw how the work of the pictured graph goes on over time, in its own and in a free order."""
    from ....instances.formats.native_plan import read_plan
    from ... import plot

    axes = plot.new_axes((7.0, 3.4))
    rows = {row["method"]: row for row in read_rows(FOLDER.name) if row["graph"] == PICTURED}
    ideal = rows["auto"]["ideal"]
    for method, label, colour in (
        ("fixed", "the graph's own order", "#CC3311"),
        ("auto", "free order", "#0077BB"),
    ):
        plan = read_plan(FOLDER / f"{method}.json.gz")
        times, done = [0.0], [0.0]
        for run in sorted(plan.runs, key=lambda run: run.start):
            times += [run.start / 1e3, run.end / 1e3]
            done += [done[-1], done[-1] + (run.end - run.start) / ideal * 100]
        end = rows[method]["time"] / 1e3
        axes.plot([*times, end], [*done, done[-1]], color=colour, label=f"{label}: {end:,.0f} us")
    bound = rows["auto"]["bound"] / 1e3
    axes.axvline(bound, color="#555555", linestyle="--", label=f"bound of every order: {bound:,.0f} us")
    axes.set_xlabel("time in the period, us")
    axes.set_ylabel("work done, %")
    axes.set_title("NASNet-A, a training iteration on half of its peak")
    axes.legend(loc="lower right")
    plot.save(axes, FOLDER / "placement_order.svg")
