"""The simulator's tables keep their books, and its kernel is what its plain Python is.

What a row means is said in `lowtide.solvers.placement.simulator.tables`; after every event it is counted anew
from the states of the chunks, the channels and the running op alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowtide.models.graph import Accounting
from lowtide.solvers.placement.simulator import simulator_kernel
from lowtide.solvers.placement.simulator import tables as t
from lowtide.solvers.placement.simulator.problem import simulated_problem
from lowtide.solvers.placement.simulator.simulator import simulate
from lowtide.solvers.placement.world.channels import ABSENT, ARRIVING, COMING, NONE, PRESENT, VALID
from tests.effort import seeds
from tests.random_decisions import random_decisions, random_problem


def check(d: Any, knobs: Any, s: Any) -> None:
    """Hold every count against the chunks."""
    x, tensors, chunks = s[t.S.scalars], knobs.tensors, knobs.chunks
    size, owner = d[t.D.chunk_bytes, :chunks], d[t.D.owner, :chunks]
    device, going = s[t.S.on_device, :chunks], s[t.S.leaving_chunk, :chunks]
    copy = s[t.S.on_host : t.S.on_slow + 1, :chunks]
    workspace = d[t.D.workspace, x[t.X.op] - x[t.X.base]] if x[t.X.running] else 0
    assert x[t.X.used] == workspace + size[device != ABSENT].sum()
    assert x[t.X.used_1 : t.X.used_2 + 1].tolist() == [size[some != NONE].sum() for some in copy]
    assert (x[t.X.used : t.X.used_2 + 1] <= d[t.D.capacity, :3]).all()
    alive, leaving = s[t.S.alive, :tensors] > 0, s[t.S.leaving, :tensors] >= 0
    assert x[t.X.pending] == size[(device == PRESENT) & leaving[owner]].sum()
    absent = np.bincount(owner, device != PRESENT, tensors)
    assert (s[t.S.absent_chunks, :tensors] == absent)[alive].all()
    assert (s[t.S.copies_out, :tensors] == np.bincount(owner, going, tensors)).all()
    somewhere = (device != ABSENT) | (copy == VALID).any(axis=0)
    assert somewhere[alive[owner]].all(), "no chunk of what exists is lost"
    flights = s[t.S.flight, :4]
    assert sorted(np.flatnonzero(going)) == sorted(c for c in flights[:2] if c >= 0)
    assert sorted(np.flatnonzero(device == ARRIVING)) == sorted(c for c in flights[2:] if c >= 0)
    for c, where in zip(flights[:2], copy, strict=True):
        assert sorted(np.flatnonzero(where == COMING)) == ([c] if c >= 0 else [])
    for c, where in zip(flights[2:], copy, strict=True):
        assert c < 0 or where[c] == VALID
    for g in range(knobs.caps):
        cap, *inside = d[t.D.caps, 5 * g : 5 * g + 5]
        rates = s[t.S.flight_rate, :4]
        assert sum(rates[c] for c in range(4) if inside[c] and flights[c] >= 0) <= cap


@pytest.mark.parametrize("accounting", list(Accounting))
def test_after_every_event_the_counts_are_those_of_the_chunks(
    accounting: Accounting, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, fire = simulator_kernel.simulate, simulator_kernel.fire

    def checked(d: Any, knobs: Any, events: Any, s: Any, log: Any) -> bool:
        check(d, knobs, s)
        changed: bool = fire(d, knobs, events, s, log)
        check(d, knobs, s)
        return changed

    monkeypatch.setattr(simulator_kernel, "fire", checked)
    ended = 0
    for seed in seeds(20):
        case = simulated_problem(random_problem(seed, accounting=accounting), chunk=[None, 3, 5][seed % 3])
        decisions = random_decisions(case, seed, seed % 4)
        monkeypatch.setattr(simulator_kernel, "simulate", compiled)
        fast = simulate(case, decisions)
        monkeypatch.setattr(simulator_kernel, "simulate", compiled.py_func)
        plain = simulate(case, decisions)
        for name in ("time", "stuck", "emergencies", "evictions"):
            assert getattr(plain, name) == getattr(fast, name), (seed, name)
        assert plain.time is None or plain.plan() == fast.plan(), seed
        ended += plain.time is not None
    assert ended
