"""What the rows of `swap_systems` say of each system: means, ranks, where it is best and worst, and why."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from statistics import geometric_mean, mean
from typing import Any

from ....solvers.method import Method
from ....solvers.registry import find_method
from ...tables.spec import RIGHT, Cells, Column, Row, TableSpec

AUTO = "auto"
CHANNELS = ("gpu_host", "host_gpu", "gpu_ssd", "ssd_gpu")

ALIKE = 0.001
"""Share of a period by which those of two systems differ at most on a question where they count as alike."""
MOSTLY = 0.9
"""Share of the questions on which systems are alike that have one row; no other two reach a half."""

Group = dict[str, Row]
"""The rows of one question, by method."""


def by_question(table: Iterable[Row]) -> list[Group]:
    """Return the rows of every question that has a plan, and one of `auto`."""
    found: dict[str, Group] = {}
    for row in table:
        if row["bound"] is not None:
            found.setdefault(row["instance"], {})[row["method"]] = row
    return [group for group in found.values() if AUTO in group]


def question_name(row: Row) -> str:
    """Return what a question is called on its machine."""
    return f"{row['workload']} x {row['need']:g}" if row["need"] else str(row["workload"])


def slowdown(row: Row) -> float | None:
    """Return the period over the certified bound; None without a plan."""
    return None if row["period"] is None else row["period"] / row["bound"]


def moved(row: Row) -> int:
    """Return the bytes of all copies of an iteration."""
    return sum(row[channel] or 0 for channel in CHANNELS)


def rescued(row: Row) -> bool:
    """Return whether a system's own decisions do not fit, or it gives up by its own count."""
    return bool(row["emergencies"] or row["gives_up"])


def must_stall(row: Row) -> bool:
    """Return whether the bound proves a stall of more than a hundredth of the ideal time."""
    return bool(row["bound"] > 1.01 * row["ideal"])


def declared(name: str) -> Method:
    """Return what a method of `placement` declares, its basis among it."""
    return find_method("placement", name)


def is_published(name: str) -> bool:
    """Return whether a system rests on published code or text, and so is ranked."""
    basis = declared(name).basis
    return basis is not None and basis.is_published


def rows_of_systems(groups: list[Group]) -> dict[str, list[str]]:
    """Return the systems that are a row each, and with each those that make nearly the same plans.

    A system whose periods differ from those of one before by at most `ALIKE` on at least `MOSTLY` of the
    questions has no row of its own.
    """
    rows: dict[str, list[str]] = {}
    for name in groups[0]:
        if name != AUTO:
            twin = next((x for x in rows if _share_alike(groups, x, name) >= MOSTLY), name)
            rows.setdefault(twin, []).append(name)
    return rows


def _share_alike(groups: list[Group], one: str, other: str) -> float:
    """Return on which share of the questions two systems have nearly the same period."""
    return mean(_are_alike(group[one]["period"], group[other]["period"]) for group in groups)


def _are_alike(a: int | None, b: int | None) -> bool:
    return a == b if a is None or b is None else abs(a - b) <= ALIKE * min(a, b)


def ranks(group: Group, systems: Iterable[str]) -> dict[str, float]:
    """Return the rank of each of the systems on a question; ties share the mean of theirs, no plan is last.

    Examples
    --------
    >>> ranks({name: {"period": p} for name, p in {"a": 5, "b": 3, "c": None, "d": 5}.items()}, "abcd")
    {'a': 2.5, 'b': 1.0, 'c': 4.0, 'd': 2.5}
    """
    costs = {name: group[name]["period"] or float("inf") for name in systems}
    every = list(costs.values())
    return {
        name: sum(other < cost for other in every) + (1 + every.count(cost)) / 2
        for name, cost in costs.items()
    }


def kind(row: Row) -> str:
    """Say what makes a question hard."""
    if row["peak"] <= row["device"]:
        return "all fits"
    return "bandwidth-bound" if must_stall(row) else "capacity-bound"


def reason(row: Row, auto: Row) -> str:
    """Say what the time of a plan goes into, as far as the measured numbers tell.

    A slowdown of more than 2 % is put down to traffic if the busiest channel needs longer for the bytes of
    this plan than that of `auto` for its own by at least the square root of the slowdown; else to copies that
    ops wait for.
    """
    slow = slowdown(row)
    if slow is None:
        return f"{kind(row)}; no plan"
    words = [kind(row)]
    if row["emergencies"]:
        words.append(f"does not fit, emergency evictions: {row['emergencies']}")
    elif row["gives_up"]:
        words.append("gives up by its own count")
    busy = f"{row['busiest']} busy {row['busy']:.0%}"
    if row["period"] == row["ideal"]:
        words.append("no op waits")
    elif slow < 1.02:
        words.append(f"hardly an op waits longer than it must, {busy}")
    elif not moved(auto):
        words.append(f"moves what need not move, {busy}")
    elif row["busy"] * row["period"] < slow**0.5 * auto["busy"] * auto["period"]:
        words.append(f"ops wait for copies, {busy}")
    elif moved(row) < slow**0.5 * moved(auto):
        words.append(f"one channel carries what `auto` divides, {busy}")
    else:
        words.append(f"{moved(row) / moved(auto):.1f} times the bytes of `auto`, {busy}")
    return "; ".join(words)


def text(table: list[Row]) -> dict[str, Any]:
    """Return the fields of ``text.md``."""
    groups = by_question(table)
    machines = list(dict.fromkeys(group[AUTO]["machine"] for group in groups))
    compared = {row["instance"] for group in groups for row in group.values()}
    refused = {(row["machine"], question_name(row)) for row in table if row["status"] == "infeasible"}
    alike = rows_of_systems(groups)
    systems = _systems(groups, alike)
    return {
        "questions": len(groups),
        "stalling": sum(must_stall(group[AUTO]) for group in groups),
        "systems": sum(map(len, alike.values())),
        "ranked": sum(map(is_published, alike)),
        "alike": "; ".join(_words(groups, *names) for names in alike.values() if len(names) > 1),
        "beaten": ", ".join(_place(group[AUTO]) for group in groups if _is_beaten(group)) or "none",
        "refused": ", ".join(dict.fromkeys(name for _, name in sorted(refused))),
        "summary": SUMMARY.of(systems),
        "reasons": REASONS.of(system for system in systems if system["method"] != AUTO),
        "abstracted": ABSTRACTED.of(_declaration(name) for names in alike.values() for name in names),
        "zero": ZERO.of(row for row in table if row["bound"] is not None and row["instance"] not in compared),
        **{f"machine_{k}": _slowdowns(groups, systems, machine) for k, machine in enumerate(machines)},
    }


def _declaration(name: str) -> Row:
    method = declared(name)
    return {"method": name, **{key: getattr(method, key) for key in ("basis", "source", "abstracted")}}


def _words(groups: list[Group], first: str, *others: str) -> str:
    """Return on how many questions the other systems of a row make nearly the plans of the first."""
    counts = (f"{_share_alike(groups, first, name) * len(groups):.0f} (`{name}`)" for name in others)
    return f"`{first}` stands for {len(others) + 1} systems, as on {' and '.join(counts)} questions"


def _is_beaten(group: Group) -> bool:
    """Return whether a system is faster than `auto`."""
    return any(row["period"] is not None and row["period"] < group[AUTO]["period"] for row in group.values())


def _systems(groups: list[Group], alike: dict[str, list[str]]) -> list[Row]:
    """Return a row for each of the systems over all questions: `auto`, those with a rank, the others.

    In each part by the mean of the slowdowns.
    """
    placed = [ranks(group, filter(is_published, alike)) for group in groups]
    rows = [
        {
            "method": name,
            "label": ", ".join(f"`{x}`" for x in alike.get(name, [name])),
            "basis": declared(name).basis,
            **_standing(name, placed),
            **_measured([(group[name], group[AUTO]) for group in groups]),
        }
        for name in (AUTO, *alike)
    ]
    return sorted(rows, key=lambda row: (row["method"] != AUTO, row["rank"] is None, row["slowdown"]))


def _standing(name: str, placed: list[dict[str, float]]) -> Row:
    """Return the mean rank of a system and on how many questions it is first; None where it has none."""
    mine = [(rank[name], min(rank.values())) for rank in placed if name in rank]
    if not mine:
        return {"rank": None, "first": None}
    return {"rank": mean(rank for rank, _ in mine), "first": sum(rank == least for rank, least in mine)}


def _measured(pairs: list[tuple[Row, Row]]) -> Row:
    """Return means and extremes of the rows of a system, each beside that of `auto`."""
    done = [(row, auto) for row, auto in pairs if row["period"] is not None]
    slow = [row["period"] / row["bound"] for row, _ in done]
    heights = [row["height"] / row["load"] for row, _ in done]
    # Of equals, the one whose bound is furthest from the ideal says most.
    swapped = [pair for pair in done if pair[0]["peak"] > pair[0]["device"]]
    best = min(swapped, key=lambda pair: (slowdown(pair[0]), -pair[0]["bound"] / pair[0]["ideal"]))
    worst = max(pairs, key=lambda pair: slowdown(pair[0]) or float("inf"))
    return {
        "plans": len(done),
        "rescued": sum(rescued(row) for row, _ in done),
        "ratio": geometric_mean(row["ideal"] / row["period"] for row, _ in done),
        "slowdown": geometric_mean(slow),
        "free": _mean(row for row, _ in done if not must_stall(row)),
        "stalling": _mean(row for row, _ in done if must_stall(row)),
        "most": max(slow),
        "bytes": geometric_mean(moved(r) / moved(a) for r, a in done if moved(r) and moved(a)),
        "height": geometric_mean(heights),
        "highest": max(heights),
        "best": _place(best[0]),
        "why best": reason(*best),
        "worst": _place(worst[0]),
        "why worst": reason(*worst),
    }


def _mean(rows: Iterable[Row]) -> float | None:
    found = [row["period"] / row["bound"] for row in rows]
    return geometric_mean(found) if found else None


def _place(row: Row) -> str:
    """Return where a row is from, and its slowdown."""
    slow = slowdown(row)
    machine = row["machine"].partition("-")[0]
    return f"{question_name(row)}, {machine}: " + ("-" if slow is None else f"{slow:.2f}")


def _slowdowns(groups: list[Group], systems: list[Row], machine: str) -> Cells:
    """Return a line for each question on a machine, with the slowdown of every method."""
    columns = (
        Column("workload", lambda group: question_name(group[AUTO])),
        Column("peak / device", lambda group: group[AUTO]["peak"] / group[AUTO]["device"], ".2f"),
        Column("bound / ideal", lambda group: group[AUTO]["bound"] / group[AUTO]["ideal"], ".3f"),
        *(Column(f"`{s['method']}`", partial(_cell, s["method"]), RIGHT) for s in systems),
    )
    return TableSpec(columns).of(group for group in groups if group[AUTO]["machine"] == machine)


def _cell(method: str, group: Group) -> str | None:
    row = group[method]
    slow = slowdown(row)
    if slow is None:
        return None
    return f"{slow:.3f}" + ("\\*" if rescued(row) else "")


METHOD = Column("system", lambda row: row.get("label") or f"`{row['method']}`")
SUMMARY = TableSpec(
    (
        *(METHOD, Column("rests on", "basis")),
        *(Column("plans", kind="d"), Column("rescued", kind="d")),
        *(Column("mean rank", "rank", ".1f"), Column("first", kind="d")),
        *(Column("ideal / period", "ratio", ".3f"), Column("period / bound", "slowdown", ".3f")),
        *(Column("no stall needed", "free", ".3f"), Column("stall needed", "stalling", ".3f")),
        *(Column("worst", "most", ".2f"), Column("bytes / `auto`", "bytes", ".2f")),
        *(Column("height / load", "height", ".3f"), Column("at most", "highest", ".2f")),
    )
)
ABSTRACTED = TableSpec(
    (
        *(METHOD, Column("rests on", "basis"), Column("source")),
        Column("missing, replaced or inferred", "abstracted"),
    )
)
ZERO = TableSpec(
    (
        *(Column("iteration", lambda row: row["workload"]), METHOD),
        *(Column("ops", kind="d"), Column("GPU, GiB", lambda row: row["load"] / 2**30, ".2f")),
        Column("period, ms", lambda row: row["period"] / 1e6, ".1f"),
        Column("bound, ms", lambda row: row["bound"] / 1e6, ".1f"),
        Column("period / bound", slowdown, ".3f"),
        Column("busiest channel", lambda row: f"{row['busiest']} {row['busy']:.0%}"),
    )
)
REASONS = TableSpec(
    (
        *(METHOD, Column("best", lambda row: row["best"]), Column("because", "why best")),
        *(Column("worst", lambda row: row["worst"]), Column("because", "why worst")),
    )
)
