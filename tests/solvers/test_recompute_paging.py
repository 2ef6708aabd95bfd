"""`poet`: what it takes from the machine, heuristics and limits; its optima are tested elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations import recompute_stages
from lowtide.formulations.recompute_data import recompute_data
from lowtide.models.errors import UsageError
from lowtide.solvers import recompute_paging
from lowtide.solvers.recompute_paging import in_ns, paging


def channel(src: str, dst: str, latency_ns: int = 0) -> lt.Channel:
    return lt.Channel(src=src, dst=dst, bytes_per_s=10**9 // 2, latency_ns=latency_ns)


def machine(*channels: lt.Channel) -> lt.Machine:
    return lt.Machine(
        tiers=(lt.Tier(name="memory"), lt.Tier(name="tape", capacity=99), lt.Tier(name="disk", capacity=11)),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
        channels=channels,
    )


DISK = machine(channel("memory", "disk", 5), channel("disk", "memory"), channel("memory", "tape"))
"""There is no way back from the tape."""


def chain(memory: int = 4) -> lt.Recompute:
    """A chain in which to write a byte and to read it takes 4 ns, less than a run, 9 ns."""
    graph = lt.load("gen:backprop-chain?l=4&forward=9&backward=9")
    ways = machine(channel("memory", "disk"), channel("disk", "memory"))
    return lt.Recompute(graph, memory=memory, machine=ways)


def test_costs_are_those_of_a_tier_that_values_come_back_from() -> None:
    """In units of two bytes; x and y are one bundle, whose tensors are moved one by one."""
    sizes = {"x": 4, "y": 6, "z": 2}
    tensors = tuple(lt.Tensor(name=name, nbytes=n, final=name == "z") for name, n in sizes.items())
    ops = (
        lt.Op(name="a", writes=(0, 1), duration_ns=30, workspace=2),
        lt.Op(name="b", reads=(0, 1), writes=(2,), duration_ns=60),
    )
    problem = lt.Recompute(lt.Graph(name="pair", tensors=tensors, ops=ops), memory=12, machine=DISK)
    data = recompute_data(problem)
    assert (data.unit, data.tick, data.tensors) == (2, 30, ((0, 1), (2,)))
    costs = paging(problem, data)
    assert (costs.tier, costs.capacity) == ("disk", 5)
    assert costs.read == (8 + 12, 4)
    assert costs.write == (5 + 8 + 5 + 12, 5 + 4)
    fine = in_ns(data)
    assert (fine.tick, fine.duration, fine.ns(7)) == (1, (30, 60), 7)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_tier_with_one_way_only_is_none(missing: int) -> None:
    ways = (channel("memory", "disk"), channel("disk", "memory"))
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=3"), machine=machine(ways[1 - missing]))
    with pytest.raises(UsageError, match="found no slower tier with channels from and to 'memory'"):
        paging(problem, recompute_data(problem))


@pytest.mark.parametrize(
    ("options", "fault"), [({"start": "some"}, "expected lists or none"), ({"no_such": "1"}, "no_such")]
)
def test_wrong_options(options: dict[str, str], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        lt.solve(chain(), "poet", options=options)


@pytest.mark.parametrize(("start", "objective"), [("lists", 12 * 9), ("none", None)])
def test_without_time_for_the_model_the_schedule_of_heuristics_is_what_comes_back(
    start: str, objective: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recompute_stages, "build", lambda *given, **more: None)
    result = lt.solve(chain(), "poet", threads=1, time_limit=60, options={"start": start})
    assert (result.objective, result.reason) == (objective, "time")
    assert result.detail.startswith("the MILP in stages with paging was not built")


def test_no_model_is_built_where_each_op_once_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute_stages, "build", lambda *given, **more: pytest.fail("built a model"))
    result = lt.solve(chain(6), "poet", threads=1)
    assert (result.status, result.objective) == ("optimal", 9 * 9)


def test_a_model_too_large_for_the_memory_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute_stages, "build", lambda *given, **more: pytest.fail("built a model"))
    result = lt.solve(chain(), "poet", threads=1, memory_limit=10**5, options={"start": "none"})
    assert (result.status, result.reason) == ("unknown", "memory")


def test_the_model_begins_with_the_schedule_of_heuristics(monkeypatch: pytest.MonkeyPatch) -> None:
    hints: list[list[int]] = []
    monkeypatch.setattr(recompute_paging, "set_values", lambda built, runs: hints.append(list(runs)))
    for start in ("lists", "none"):
        result = lt.solve(chain(), "poet", threads=1, time_limit=None, options={"start": start})
        assert result.objective == 89
        assert result.detail.startswith("a fastest schedule in partitioned stages with paging")
        assert [len(runs) for runs in hints] == [12]


def test_solutions_that_break_a_rule_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_last_run(*given: Any) -> list[Any]:
        return decode(*given)[:-1]

    decode = recompute_stages.decode_paged
    monkeypatch.setattr(recompute_stages, "decode_paged", without_the_last_run)
    result = lt.solve(chain(), "poet", threads=1, time_limit=None, options={"start": "none"})
    assert (result.status, result.objective) == ("unknown", None)
