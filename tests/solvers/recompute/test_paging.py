"""`poet`: what it takes from the machine, heuristics and limits; its optima are tested elsewhere."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from pyomo.repn import generate_standard_repn

import lowtide as lt
from lowtide.formulations.model import BuildTimeout
from lowtide.formulations.recompute import stages_milp as recompute_stages
from lowtide.formulations.recompute.data import in_ns, recompute_data
from lowtide.formulations.recompute.stages_milp import StagesModel
from lowtide.models.errors import UsageError
from lowtide.solvers.recompute.models import paging as recompute_paging
from lowtide.solvers.recompute.models.paging import paging


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
    assert (costs.tiers, costs.capacity[1:]) == (("memory", "disk"), (5,))
    assert costs.ticks == {(1, 0): (8 + 12, 4), (0, 1): (5 + 8 + 5 + 12, 5 + 4)}
    fine = in_ns(data)
    assert (fine.tick, fine.duration, fine.ns(7)) == (1, (30, 60), 7)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_tier_with_one_way_only_is_none(missing: int) -> None:
    ways = (channel("memory", "disk"), channel("disk", "memory"))
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=3"), machine=machine(ways[1 - missing]))
    with pytest.raises(UsageError, match="found no slower tier with channels from and to 'memory'"):
        paging(problem, recompute_data(problem))


@pytest.mark.parametrize(
    ("options", "fault"), [({"start": "some"}, "expected one of lists, none"), ({"no_such": "1"}, "no_such")]
)
def test_wrong_options(options: dict[str, str], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        lt.solve(chain(), "poet", options=options)


@pytest.mark.parametrize(("start", "objective"), [("lists", 12 * 9), ("none", None)])
def test_without_time_for_the_model_the_schedule_of_heuristics_is_what_comes_back(
    start: str, objective: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*given: object, **more: object) -> None:
        raise BuildTimeout

    monkeypatch.setattr(recompute_stages, "build", late)
    result = lt.solve(chain(), "poet", threads=1, time_limit=None, options={"start": start})
    assert result.objective == objective
    assert result.status != "optimal"
    assert "the MILP in stages with paging was not built in time" in result.detail


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


@pytest.mark.slow
def test_solutions_that_break_a_rule_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_last_run(*given: Any) -> list[Any]:
        return decode(*given)[:-1]

    decode = recompute_stages.decode_paged
    monkeypatch.setattr(recompute_stages, "decode_paged", without_the_last_run)
    result = lt.solve(chain(), "poet", threads=1, time_limit=None, options={"start": "none"})
    assert (result.status, result.objective) == ("unknown", None)


def updating() -> lt.Recompute:
    """To run `look` again wants x as it was before the update, which makes every copy of that stale."""
    sizes = {"x": 2, "y": 4, "z": 1}
    tensors = tuple(lt.Tensor(name=k, nbytes=v, initial=k == "x", final=k == "z") for k, v in sizes.items())
    ops = (
        lt.Op(name="look", reads=(0,), writes=(1,)),
        lt.Op(name="update", reads=(0,), writes=(0,)),
        lt.Op(name="end", reads=(0, 1), writes=(2,)),
        lt.Op(name="again", reads=(0, 1, 2), writes=(2,)),
    )
    return lt.Recompute(lt.Graph(name="updating", tensors=tensors, ops=ops), machine=DISK)


def drawn(built: StagesModel, rng: Random) -> bool:
    """Draw runs, stores and fetches, a few of them impossible; return whether all of them are possible.

    A run makes what the slower tier has of its tensors stale; what it leaves may be stored just after.
    """
    data, possible = built.data, True
    has = [False] * len(data.values)
    for u, *_, stored in built.first:
        has[u] = rng.random() < 0.5
        stored.set_value(int(has[u]))
    for place in built.places:
        run = isinstance(place.run, int) or rng.random() < 0.5
        if not isinstance(place.run, int):
            place.run.set_value(int(run))
        for u, _, _, fetched in place.before:
            fetch = rng.random() < (0.5 if run and has[u] else 0.02)
            fetched.set_value(int(fetch))
            possible = possible and (not fetch or (run and has[u]))
        stores = {u: rng.random() < (0.5 if run else 0.02) for u, *_ in place.behind}
        for u, _, _, stored in place.behind:
            stored.set_value(int(stores[u]))
            possible = possible and (run or not stores[u])
        if run:
            for u in (*data.writes[place.op], *data.destroys[place.op]):
                has[u] = stores.get(u, False)
    return possible


def rows_hold(built: StagesModel) -> bool:
    """Whether rows (8) and (9) hold with some G: each as large as its rows allow, in their sequence."""
    import pyomo.environ as pyo

    model = built.model
    for variable in model.G.values():
        variable.set_value(0)
    rows = [*model.slower_tier_has_it.values(), *model.moves_if_there.values()]
    room: dict[int, Any] = {id(variable): variable for variable in model.G.values()}
    above: dict[int, list[Any]] = {key: [] for key in room}
    for row in model.slower_tier_has_it.values():
        terms = generate_standard_repn(row.body)
        for variable, weight in zip(terms.linear_vars, terms.linear_coefs, strict=True):
            if id(variable) in room and weight > 0:
                above[id(variable)].append(row)
    for key, variable in room.items():
        variable.set_value(min([1, *(pyo.value(row.upper) - pyo.value(row.body) for row in above[key])]))
    return all(pyo.value(row.body) <= pyo.value(row.upper) for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("problem", [chain(), updating()], ids=["chain", "updating"])
def test_rows_of_paging_say_what_can_come_back(problem: lt.Recompute) -> None:
    data = in_ns(recompute_data(problem))
    built = recompute_stages.build(data, paging=replace(paging(problem, data), capacity=(None, None)))
    assert built is not None
    rng = Random(1)
    told = []
    for _ in range(120):
        told.append(drawn(built, rng))
        assert rows_hold(built) == told[-1]
    assert min(told.count(True), told.count(False)) >= 20
