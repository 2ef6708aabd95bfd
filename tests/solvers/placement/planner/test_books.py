"""The planner's tables keep their books: after every event, each count is what the chunks say.

What a column means is said in `lowtide.solvers.placement.planner.tables`; here it is counted anew from the
states of the chunks, the channels and the running op alone.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.solvers.placement.planner import run as planner_run
from lowtide.solvers.placement.planner.planner_kernel import simulate
from lowtide.solvers.placement.planner.setting import PlannerSetting
from lowtide.solvers.placement.planner.tables import AWAYS, CLEANS, DIRTIES, SLOWS, PlannerTables
from lowtide.solvers.placement.world.channels import (
    ABSENT,
    ARRIVING,
    COMING,
    HOST_IN,
    HOST_OUT,
    NONE,
    PRESENT,
    SLOW_IN,
    SLOW_OUT,
    STAGED,
    VALID,
)
from tests.effort import seeds
from tests.problems.placement import machine, random_graph, working_set


def counted(w: PlannerTables) -> dict[str, Any]:
    """Return what the chunks say of the columns of the tensors."""
    y, count = w.chunk, len(w.tensor) - 1
    on_host, on_slow, here = y["on_host"] == VALID, y["on_slow"] == VALID, y["on_device"] == PRESENT
    away = (y["on_device"] == ABSENT) | (y["on_device"] == STAGED)
    by_chunk = {
        "here": here,
        "dirty": here & ~on_host & ~on_slow,
        "clean": here & (on_host | on_slow),
        "clean_host": here & on_host,
        "away_host": away & on_host,
        "away_slow": away & on_slow & ~on_host,
        "slow_bytes": np.where((y["on_slow"] == NONE) | on_host, 0, y["length"]),
    }
    owner = y["owner"]
    return {key: np.bincount(owner, column, count).astype(np.int64) for key, column in by_chunk.items()}


def check(w: PlannerTables) -> None:
    """Hold every count against the chunks."""
    s, x, y = w.state[0], w.tensor[:-1], w.chunk
    counts = counted(w)
    for key, column in counts.items():
        assert x[key].tolist() == column.tolist(), key
    entry = x["entry"][y["owner"]]
    staged = y["on_device"] == STAGED
    on_device = (y["on_device"] == PRESENT) | (y["on_device"] == ARRIVING)
    workspace = 0 if s.running < 0 else w.op[s.running].workspace
    assert s.used == workspace + y["length"][on_device].sum()
    assert s.host_used == y["length"][(y["on_host"] != NONE) & (entry & 4 == 0)].sum()
    assert s.slow_used == y["length"][((y["on_slow"] != NONE) | staged) & (entry & 2 == 0)].sum()
    assert s.staging == staged.sum()
    assert (s.used <= s.memory, s.host_used <= s.host_room, s.slow_used <= s.slow_room) == (True, True, True)
    assert s.staging <= s.slots
    somewhere = (y["on_device"] != ABSENT) | (y["on_host"] == VALID) | (y["on_slow"] == VALID)
    assert somewhere.tolist() == (x["alive"] > 0)[y["owner"]].tolist()
    assert not ((y["on_host"] == VALID) & (y["on_slow"] == VALID)).any(), "no chunk has two copies outside"
    lists = {
        kind: counts[key] for kind, key in ((DIRTIES, "dirty"), (CLEANS, "clean"), (SLOWS, "slow_bytes"))
    }
    for kind, column in {**lists, AWAYS: counts["away_host"] + counts["away_slow"]}.items():
        assert w.lists[kind, : w.listed[kind]].tolist() == np.flatnonzero(column).tolist()
    for k, states in ((HOST_IN, (ARRIVING, STAGED)), (SLOW_IN, (ARRIVING,)), (HOST_OUT, ()), (SLOW_OUT, ())):
        if (c := w.channel[k].carried) < 0:
            continue
        outer = y[c].on_host if k in (HOST_IN, HOST_OUT) else y[c].on_slow
        assert outer == (VALID if states else COMING) or (k == SLOW_OUT and y[c].on_device == STAGED)
        assert y[c].on_device in states if states else y[c].leaving
        assert 0 <= w.channel[k].low <= w.channel[k].low + w.channel[k].left <= y[c].length


def checked(w: PlannerTables, iterations: int, events: int) -> tuple[int, int]:
    """Simulate one event, and check."""
    ended: tuple[int, int] = simulate(w, iterations, 1)
    check(w)
    return ended


@pytest.mark.parametrize("periodic", [False, True])
def test_after_every_event_the_counts_are_those_of_the_chunks(
    periodic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_run, "simulate", checked)
    plans = 0
    for seed in seeds(60):
        rng = Random(seed)
        graph = replace(random_graph(seed), accounting=rng.choice(list(lt.Accounting)))
        capacity = working_set(graph) + rng.randint(0, 6)
        host = rng.choice((None, 4, 8, 20))
        bench = machine(capacity, host)
        starts = {"input": rng.choice((("ssd",), ("host",), ("gpu",), ("gpu", "host", "ssd")))}
        problem = lt.Placement(graph, bench, periodic=periodic, start=starts)
        setting = PlannerSetting(
            chunk=rng.choice((1, 2, 5)), lead=rng.choice((0, 2)), slots=rng.choice((0, 1, 3)),
            horizon=rng.choice((10, 10**9)), gate=rng.random() < 0.5, displace=rng.random() < 0.5,
            eager=rng.random() < 0.5,
        )  # fmt: skip
        plans += isinstance(planner_run.simulated_plan(problem, setting), lt.Plan)
    assert plans
