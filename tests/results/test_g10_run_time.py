"""The run time of G10's artifact: against a second one, page by page, and against the published figures."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.results.experiments.g10_run_time import memory_kernel, order_kernel, pages_kernel
from lowtide.results.experiments.g10_run_time.run_time import PAGE, Faulted, RunTime, Setting, System
from lowtide.results.experiments.g10_run_time.table import faulted as measured_faults
from lowtide.results.experiments.g10_run_time.table import (
    flashneuron,
    furthest,
    graph_of,
    is_reference,
    others,
    packed,
)
from lowtide.results.experiments.placement_g10.table import PUBLISHED
from lowtide.results.experiments.running import read_rows
from tests.effort import many
from tests.oracles.naive_paging import Naive
from tests.problems.placement import random_graph

PLACES = ("nowhere", "slow", "host", "device")
MOVES = ("from nowhere", "from slow", "from host", "to slow", "to host", "to nowhere")
DROPS = ("dropped from device", "dropped from host")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the kernels as Python: compiling them takes longer than these cases."""
    monkeypatch.setattr(pages_kernel, "carry_out", pages_kernel.carry_out.py_func)
    monkeypatch.setattr("lowtide.results.experiments.g10_run_time.hints.sort", order_kernel.sort.py_func)


def drawn(seed: int, system: System) -> tuple[RunTime, Naive]:
    """Return a random iteration on a machine that it does not fit on, on both run times."""
    rng = np.random.default_rng(seed)
    small = random_graph(seed, int(rng.integers(3, 12)))
    graph = replace(
        small,
        tensors=tuple(replace(t, nbytes=max(1, t.nbytes) * PAGE - 1) for t in small.tensors),
        ops=tuple(replace(op, duration_ns=op.duration_ns * 50 + 1) for op in small.ops),
    )
    n, count = len(graph.ops), len(graph.tensors)
    pages = [-(-t.nbytes // PAGE) for t in graph.tensors]
    least = max(sum(pages[t] for t in {*op.reads, *op.writes}) for op in graph.ops)
    faulted = Faulted(*rng.integers(0, 4_000_000, (2, n))) if rng.random() < 0.5 else None
    setting = Setting(
        device=int(rng.integers(least, least + 20)) * PAGE,
        host=int(rng.choice([0, 4, 15, 1000])) * PAGE,
        slow_rate=float(rng.choice([3.2e9, 6.4e9, 15.754e9])),
        batch=int(rng.integers(5, 12)),
        allocation=float(rng.choice([8.14e-7, 1e-4])),
        ahead=int(rng.integers(1, 4)),
        iterations=3,
        measured=bool(rng.integers(2)),
    )
    run = RunTime(graph, system, faulted, setting)
    if system == System.G10 and rng.random() < 0.7:  # any hints, which need make no sense
        hints = np.stack(
            [np.sort(rng.integers(0, n, 30)), rng.integers(0, count, 30), rng.integers(0, 4, 30)]
        )
        run.program = run.program._replace(hints=np.ascontiguousarray(hints, dtype=np.int64))
    told = [(k, t, PLACES[to]) for k, t, to in run.program.hints.T.tolist()]
    window = setting.ahead if system == System.DEEPUM else 0
    return run, Naive(graph, setting, told, window, faulted)


def compare(run: RunTime, second: Naive) -> None:
    """Assert that both say the same, or that both find no way on."""
    course = run.carry_out()
    assert course.ends.tolist() == second.carry_out()
    assert course.moved.sum(axis=0).tolist() == [second.moved.get(name, 0) for name in (*MOVES, *DROPS)]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.usefixtures("plain")
@many(120)
@given(seed=st.integers(0, 2**32 - 1), system=st.sampled_from(System))
@example(seed=130, system=System.LRU)  # 0 bytes per ms
def test_a_second_run_time_says_the_same(seed: int, system: System) -> None:
    compare(*drawn(seed, system))


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
@many(60)
@given(seed=st.integers(0, 2**32 - 1), system=st.sampled_from(System))
def test_pages_are_conserved_and_those_of_an_op_are_there(seed: int, system: System) -> None:
    run, _ = drawn(seed, system)
    memory, ended = run.memory, 0
    while not run.step(1):
        run.check()
        if memory.s[memory_kernel.DONE] > ended:  # it goes on without waiting, or its last page has come
            k, ended = ended % len(run.cycles), ended + 1
            for t in run.accesses[0, run.ops[k] : run.ops[k + 1]].tolist():
                at = memory.where[memory.tensors[t] : memory.tensors[t + 1]]
                assert (at >= 0).all()
                assert (memory.arrivals[at] >= 0).all()
    took = np.diff(run.ends, prepend=0)
    assert (took >= np.tile(run.cycles, run.setting.iterations)).all()


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("field", [memory_kernel.RESIDENT, memory_kernel.ON_HOST, memory_kernel.MOVED])
def test_a_page_that_is_lost_is_noticed(field: int) -> None:
    run, _ = drawn(3, System.LRU)
    while not run.step():
        pass
    run.check()
    run.memory.s[field] += 1
    with pytest.raises(RuntimeError, match="pages on device and host, expected others"):
        run.check()


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("system", System)
def test_what_the_device_holds_never_waits_after_the_first_iteration(system: System) -> None:
    graph = lt.load("catalogue:accumulate")
    run = RunTime(graph, system)
    assert run.carry_out().periods[1] == run.cycles.sum()


def test_an_op_that_exceeds_the_device_is_refused() -> None:
    with pytest.raises(lt.LowtideError, match="op 1 'op1': found 2 pages, expected at most 1"):
        RunTime(lt.load("catalogue:chain"), System.LRU, setting=Setting(device=PAGE))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "cycles"), [(System.LRU, 23580084389), (System.DEEPUM, 10992552904), (System.G10, 8773229325)]
)
def test_published_periods_come_out_to_a_cycle_an_op(system: System, cycles: int) -> None:
    graph = lt.load("catalogue:g10/bert_base-256")
    course = RunTime(graph, system, measured_faults("bert_base-256")).carry_out()
    assert abs(min(course.periods) - cycles) <= len(graph.ops)


def test_the_committed_figures_are_those_published() -> None:
    rows = [row for row in read_rows("g10_run_time") if is_reference(row) and not row["measured"]]
    assert len(rows) == 4 * len(PUBLISHED)
    for row in rows:
        assert (row["period"] is None) == (row["published"] is None), row
        assert row["ideal"] == pytest.approx(
            sum(op.duration_ns for op in graph_of(row["workload"]).ops) * 1.2, abs=1e4
        )
    assert furthest(rows) < 0.03
    fails = {row["workload"] for row in rows if row["period"] is None}
    assert fails == {"vit-1280", "inceptionv3-1536"}
    (again,) = (row for row in rows if (row["workload"], row["system"]) == ("bert_base-256", "flashneuron"))
    assert flashneuron(graph_of(again["workload"]), 3.2)["period"] == again["period"]


def test_other_batches_and_machines_come_out_too() -> None:
    rows = [row for row in read_rows("g10_run_time") if not is_reference(row) and not row["measured"]]
    assert {row["workload"] for row in rows} >= {*packed("batches")}
    assert all((row["period"] is None) == (row["published"] is None) for row in rows)
    assert furthest(rows) < 0.03
    assert not others([row for row in rows if row["system"] == "g10"])


def test_batches_differ_in_sizes_and_times_alone() -> None:
    sizes: dict[str, list[tuple[int, list[int]]]] = {}
    for name, batch in packed("batches").items():
        graph, base = graph_of(name), graph_of(batch["of"])
        assert [(op.reads, op.writes) for op in graph.ops] == [(op.reads, op.writes) for op in base.ops]
        for one, workload in ((graph, name), (base, batch["of"])):
            network, _, samples = workload.rpartition("-")
            kept = [t.nbytes for t in one.tensors if t.kind != "workspace"]
            sizes.setdefault(network, []).append((int(samples), kept))
    assert len(sizes) == 4
    for points in sizes.values():
        for (low, smaller), (high, larger) in pairwise(sorted(points)):
            pairs = zip(smaller, larger, strict=True)  # sizes are whole pages
            assert all(a <= b and b * low <= (a + PAGE) * high for a, b in pairs)
