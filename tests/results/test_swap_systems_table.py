"""The table of swapping systems: what is measured of a plan and said of it, what its rows must obey."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.results.experiments.running import read_rows
from lowtide.results.experiments.swap_systems.compared import (
    AUTO,
    CHANNELS,
    by_question,
    is_published,
    ranks,
    reason,
    rows_of_systems,
    text,
)
from lowtide.results.experiments.swap_systems.table import (
    BUCKET,
    FORMS,
    MACHINES,
    ZERO,
    ZERO_MACHINE,
    Question,
    asked,
    peak_of,
    pool_height,
    rows_of,
    zero_rows,
)
from lowtide.solvers.registry import ROOMS

SMALL = Question("a100-40g-pcie3", "vit-b-16-train", 3.0)


@pytest.mark.slow
def test_a_row_has_what_its_plan_has() -> None:
    spec, peak, problem = asked(SMALL)
    (row,) = rows_of(SMALL, "g10")
    plan = lt.solve(problem, "g10", threads=1).plan
    assert plan is not None
    assert row["period"] == plan.period
    assert (row["instance"], row["peak"]) == (spec, peak)
    assert peak == peak_of("catalogue:vit-b-16-train")
    assert row["device"] == peak // 3
    moved = Counter[str]()
    for copy in plan.copies:
        low, high = copy.bytes or (0, problem.graph.tensors[copy.tensor].nbytes)
        moved[f"{copy.src}_{copy.dst}"] += high - low
    assert {name: row[name] for name in CHANNELS} == {n: moved[n] for n in CHANNELS}
    rates = {(c.src, c.dst): c.bytes_per_s for c in problem.machine.channels}
    assert len(set(rates.values())) == 2  # a faster and a slower one, under a cap each way
    each = [moved["gpu_host"] + moved["gpu_ssd"], moved["host_gpu"] + moved["ssd_gpu"]]
    slow = max(moved["gpu_ssd"], moved["ssd_gpu"])
    seconds = max(max(each) / rates["gpu", "host"], slow / rates["gpu", "ssd"])
    assert row["busy"] == pytest.approx(seconds * 1e9 / plan.period, abs=1e-4)  # type: ignore[operator]
    assert 0 < row["load"] <= row["device"]
    assert row["height"] >= row["load"]


@pytest.mark.slow
def test_batches_are_the_least_that_need_so_much() -> None:
    network = Question("a100-40g-pcie3", "shufflenet", 1.5)
    spec, peak, problem = asked(network)
    batch = int(spec.partition("batch=")[2].partition("&")[0])
    device = problem.machine.tiers[0].capacity
    assert device is not None
    below = peak_of(f"onnx:shufflenet?batch={batch - 1}&train=1&weights=1")
    assert below < 1.5 * device <= peak


def test_a_best_fit_allocator_knows_nothing_of_what_comes() -> None:
    # The largest first: y at 0, x at 4, z at 6. What y leaves is too small for w beside 3 that are held.
    stay = [Buffer(id=name, lower=0, upper=9, size=size) for name, size in (("x", 2), ("z", 1))]
    hole, late = Buffer(id="y", lower=0, upper=4, size=4), Buffer(id="w", lower=4, upper=9, size=5)
    away = Buffer(id="v", lower=0, upper=9, size=3, gaps=(Gap(1, 8),), pool="host")
    between = Buffer(id="u", lower=1, upper=8, size=3, pool="host")
    every = Buffers(buffers=(*stay, hole, late, away, between), pools={"": None, "host": None})
    assert pool_height(every, "") == 12
    assert pool_height(every, "host") == 3


@pytest.mark.slow
def test_a_row_of_zero_has_what_its_plan_has() -> None:
    (row,) = zero_rows("resnet50", "delayed updates")
    assert (row["method"], row["workload"]) == ("zero-offload", "resnet50, delayed updates")
    problem = load_problem(lt.Placement, row["instance"])
    result = lt.solve(problem, "zero-offload", threads=1, options={"bucket": str(BUCKET)})
    assert (row["period"], row["bound"]) == (result.objective, result.bound)
    assert row in [
        {k: v for k, v in known.items() if k in row} | {"seconds": row["seconds"]}
        for known in read_rows("swap_systems")
    ]


def row_of(period: int | None, busy: float, nbytes: int, **more: Any) -> dict[str, Any]:
    channels = dict.fromkeys(CHANNELS, 0) | {"gpu_host": nbytes}
    known = {"bound": 100, "ideal": 100, "peak": 2, "device": 1, "emergencies": 0, "gives_up": None}
    return {"period": period, "busy": busy, "busiest": "gpu to host", **known, **channels, **more}


def test_a_slowdown_has_a_reason() -> None:
    auto = row_of(100, 0.5, 50)
    assert reason(row_of(None, 0, 0), auto) == "capacity-bound; no plan"
    assert reason(auto, auto) == "capacity-bound; no op waits"
    assert (
        reason(row_of(200, 0.5, 100), auto)
        == "capacity-bound; 2.0 times the bytes of `auto`, gpu to host busy 50%"
    )
    assert reason(row_of(200, 0.25, 50), auto) == "capacity-bound; ops wait for copies, gpu to host busy 25%"
    divided = reason(row_of(200, 0.8, 50, emergencies=3), auto)
    assert divided.startswith("capacity-bound; does not fit, emergency evictions: 3; one channel carries")
    assert reason(row_of(101, 0.5, 50, bound=100, ideal=50), auto).startswith("bandwidth-bound; hardly an op")
    assert reason(row_of(200, 0.1, 9, peak=1), row_of(100, 0, 0, peak=1)).startswith(
        "all fits; moves what need"
    )


def test_no_system_is_faster_than_the_bound() -> None:
    table = read_rows("swap_systems")
    groups = by_question(table)
    known = {method.name for method in ROOMS["placement"].methods}
    assert {row["method"] for row in table} <= known
    assert len({*map(frozenset, groups)}) == 1  # the same systems everywhere
    assert {row["machine"] for row in table} == {*MACHINES, ZERO_MACHINE}
    others = [row for row in table if row["machine"] == ZERO_MACHINE]
    assert len(others) == len(ZERO) * len(FORMS)
    assert all(row["period"] >= row["bound"] >= row["ideal"] for row in others)
    for group in groups:
        for row in group.values():
            assert row["period"] is None or row["period"] >= row["bound"] >= row["ideal"], row
            if row["peak"] <= row["device"]:
                assert row["period"] == row["ideal"], row
            if row["period"] is not None:
                assert row["load"] <= min(row["device"], row["height"]), row
    assert {row["method"] for row in table if row["status"] == "infeasible"} == {AUTO}


def test_ranks_of_a_question_sum_to_those_of_a_contest() -> None:
    groups = by_question(read_rows("swap_systems"))
    ranked = [name for name in rows_of_systems(groups) if is_published(name)]
    count = len(ranked)
    for group in groups:
        assert sum(ranks(group, ranked).values()) == count * (count + 1) / 2


def test_systems_that_make_nearly_the_same_plans_are_one_row() -> None:
    groups = by_question(read_rows("swap_systems"))
    rows = rows_of_systems(groups)
    assert [names for names in rows.values() if len(names) > 1] == [["demand-lru", "dragon", "oc-dnn"]]
    assert sorted(name for names in rows.values() for name in names) == sorted({*groups[0]} - {AUTO})
    alike = [
        {name: {"period": p} for name, p in zip("abc", periods, strict=True)}
        for periods in ((1000, 1001, 1002), (5, None, 5), (None, None, 9))
    ]
    assert rows_of_systems(alike[:1]) == {"a": ["a", "b"], "c": ["c"]}
    assert rows_of_systems(alike[1:2]) == {"a": ["a", "c"], "b": ["b"]}
    assert rows_of_systems(alike[2:]) == {"a": ["a", "b"], "c": ["c"]}


def test_only_what_rests_on_published_code_or_text_has_a_rank() -> None:
    lines = {line[0]: line for line in text(read_rows("swap_systems"))["summary"].lines}
    assert lines["`deeptm`"][1] == "ours in its place"
    assert lines["`autoswap`"][1] == "published code"
    for line in lines.values():
        assert (line[4] != "-") is line[1].startswith("published"), line
        assert (line[5] != "-") is line[1].startswith("published"), line


def test_every_policy_declares_what_it_rests_on() -> None:
    policies = [
        m for m in ROOMS["placement"].methods if ".policies." in str(m.run) and m.name != "local-search"
    ]
    assert len(policies) > 20
    for method in policies:
        assert method.basis is not None, method.name
        assert method.abstracted.endswith("."), method.name
    missing = {
        "chen-meng": "Attention scores",
        "modnn": "Sub-batches, and gradients that go to the CPU",
        "layrub": "order of gradients",
        "gtbm": "regions",
        "flashneuron": "second phase",
        "deeptm": "Nothing is learned",
    }
    by_name = {method.name: method for method in policies}
    assert all(words in by_name[name].abstracted for name, words in missing.items())
