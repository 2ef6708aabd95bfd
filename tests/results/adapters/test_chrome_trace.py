"""Chrome traces of plans: counters against another reckoning of the memory, events against the plan."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.adapters import chrome_trace
from lowtide.models.derived.profile import memory_profiles
from tests.commands import answer, refused
from tests.effort import chosen
from tests.question_of_each import problem_of
from tests.random_plans import FLAVOURS, random_case

SOLVED = {
    "peak": "greedy",
    "makespan": "mem-booking",
    "placement": "belady",
    "streams": "asap",
    "pipeline": "1f1b",
    "recompute": "segments",
    "minio": "auto",
    "distributed": "heft",
    "hybrid": "auto",
    "tiles": "greedy",
}


def ns(us: float) -> int:
    """Return microseconds as nanoseconds, which they are to the last digit."""
    exact = Fraction(repr(us)) * 1000
    assert exact.denominator == 1
    return int(exact)


def check(graph: lt.Graph, plan: lt.Plan) -> dict[str, Any]:
    """Check a trace against the plan, and its counters against the profile of the pictures."""
    found: dict[str, Any] = json.loads(json.dumps(chrome_trace.trace(graph, plan)))
    events = found["traceEvents"]
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in events
        if e["ph"] == "M" and e["name"] == "thread_name"
    }
    lanes = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            lanes[e["pid"], e["tid"]].append((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), e))
    for lane in lanes.values():
        lane.sort(key=lambda item: item[:2])
        assert all(a[1] <= b[0] for a, b in pairwise(lane))
    runs = Counter(
        (threads[key], start, end, e["args"]["op"], e["args"]["mode"], e["name"])
        for key, lane in lanes.items()
        for start, end, e in lane
        if key[0] == chrome_trace.PROCESSORS
    )
    assert runs == Counter(
        (
            r.processor,
            r.start,
            r.end,
            r.op,
            r.mode,
            graph.ops[r.op].name or graph.ops[r.op].kind or f"op {r.op}",
        )
        for r in plan.runs
    )
    copies = Counter(
        (
            threads[key].rpartition(" (")[0] or threads[key],
            start,
            end,
            *map(e["args"].get, ("tensor", "low", "high")),
        )
        for key, lane in lanes.items()
        for start, end, e in lane
        if key[0] == chrome_trace.CHANNELS
    )
    expected: Counter[tuple[Any, ...]] = Counter()
    for c in plan.copies:
        what = (c.tensor, *(c.bytes or (0, graph.tensors[c.tensor].nbytes)))
        for turn in (0,) if plan.period is None else (0, plan.period):
            start, end = max(c.start - turn, 0), min(c.end - turn, plan.period or c.end)
            expected[(f"{c.src} → {c.dst}", start, end, *what)] += start < end or (
                c.start == c.end and not turn
            )
    assert copies == +expected
    counters: dict[str, dict[int, int]] = defaultdict(dict)
    for e in events:
        if e["ph"] == "C":
            assert ns(e["ts"]) not in counters[e["name"]]
            counters[e["name"]][ns(e["ts"])] = e["args"]["bytes"]
    for tier, memory in memory_profiles(graph, plan).items():
        shown = counters[f"bytes in {tier}"]
        values = [shown[max(t for t in shown if t <= time)] for time in memory.times[:-1].tolist()]
        assert values == memory.total.tolist(), tier
    return found


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_trace_of_random_plans(flavour: str) -> None:
    seen = 0
    for seed in chosen(range(60), least=20):
        case = random_case(Random(seed), flavour)
        if lt.verify(case.graph, case.plan).valid:
            check(case.graph, case.plan)
            seen += bool(case.plan.runs)
    assert seen > 5


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow if x == "makespan" else ()) for x in SOLVED]
)
def test_answers_of_every_problem_with_times_have_a_trace(name: str) -> None:
    graph = lt.load("gen:chain?n=6&train=1" if name == "recompute" else "gen:intree?n=9&seed=2")
    problem = problem_of(name, graph)
    result = lt.solve(problem, SOLVED[name], time_limit=5)
    assert result.plan is not None
    assert result.graph is not None
    check(result.graph, result.plan)


def test_a_copy_over_the_end_of_a_period_comes_round() -> None:
    machine = lt.Machine(
        tiers=(lt.Tier(name="gpu"), lt.Tier(name="host")),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="gpu"),)),),
        channels=(lt.Channel(src="host", dst="gpu", bytes_per_s=10**9),),
    )
    graph = lt.Graph(
        name="g",
        tensors=(lt.Tensor(name="w", nbytes=4, kind="weight", initial=True, final=True),),
        ops=(lt.Op(name="f", reads=(0,), duration_ns=2),),
    )
    plan = lt.Plan(
        machine=machine,
        start=(lt.Resident(0, "host"), lt.Resident(0, "gpu", valid=False)),
        runs=(lt.Run(0, 0, 2, 4, "p"),),
        copies=(lt.Copy(0, "host", "gpu", 8, 12),),
        frees=(lt.Free(0, "gpu", 5),),
        period=10,
    )
    events = check(graph, plan)["traceEvents"]
    assert [(e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == 2] == [
        (0, 0.002),
        (0.008, 0.002),
    ]
    assert [
        (e["ts"], e["args"]["bytes"]) for e in events if e["ph"] == "C" and e["name"] == "bytes in gpu"
    ] == [
        (0, 4),
        (0.005, 0),
        (0.008, 4),
    ]


def test_what_is_no_valid_plan_is_refused() -> None:
    graph = lt.load("catalogue:diamond")
    plan = lt.Plan.from_order(graph, range(4))
    with pytest.raises(lt.VerificationError):
        chrome_trace.trace(graph, replace(plan, runs=plan.runs[:-1]))
    with pytest.raises(lt.InstanceError, match=r"trace, plan: found None, expected a Plan; result\.plan"):
        chrome_trace.trace(graph, None)  # type: ignore[arg-type]


def test_convert_writes_a_trace(tmp_path: Path) -> None:
    graph = lt.load("catalogue:diamond")
    lt.save(lt.solve(lt.Peak(graph), "greedy"), tmp_path / "plan.json")
    said = answer("convert", "plan.json", "trace.json", cwd=tmp_path)
    assert said == {
        "source": "plan.json",
        "graph": "diamond",
        "format": "Chrome trace",
        "written": "trace.json",
    }
    plan, _ = lt.load_plan(tmp_path / "plan.json")
    expected = chrome_trace.trace(graph, plan)
    assert json.loads((tmp_path / "trace.json").read_text()) == expected
    answer("convert", "plan.json", "trace.json.gz", "--graph", "catalogue:diamond", cwd=tmp_path)
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes())) == expected
    assert "found no known ending, expected one of .json" in refused(
        "convert", "plan.json", "t.svg", cwd=tmp_path
    )
    assert "found --drop with a plan" in refused(
        "convert", "plan.json", "t.json", "--drop", "weight", cwd=tmp_path
    )
    assert "expected it with a plan" in refused(
        "convert", "gen:chain", "t.json", "--graph", "x", cwd=tmp_path
    )
    assert "expected another file" in refused("convert", "plan.json", "plan.json", cwd=tmp_path)
    assert "sha256" in refused("convert", "plan.json", "t.json", "--graph", "gen:chain", cwd=tmp_path)
