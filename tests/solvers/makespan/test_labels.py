"""Label setting for makespan: against exhaustive search, its bounds, its beams; parts in series."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.makespan.data import makespan_data
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.makespan.labels import bound_kernel
from lowtide.solvers.makespan.labels import method as makespan_labels
from lowtide.solvers.makespan.labels.ideals import KnownIdeals, find_ideals
from lowtide.solvers.makespan.labels.method import Direction, _LabelSearch, set_labels
from lowtide.solvers.makespan.labels.search import Beam, Form, search
from lowtide.solvers.makespan.labels.shape import reversed_shape
from lowtide.solvers.makespan.labels.together import (
    SCALE,
    PriceVectors,
    find_prices,
    find_sets,
    price_bound,
    uniform_prices,
)
from lowtide.solvers.makespan.lists.method import in_sequence
from lowtide.solvers.makespan.lists.series import in_series, joined, solve_in_series
from lowtide.solvers.parts import Part
from tests.effort import seeds, share
from tests.oracles.brute_force import brute_force_peak
from tests.oracles.brute_makespan import fastest_schedule
from tests.problems.labels import makespan_of, one_pass, prepared, random_tree, small_problem
from tests.strategies import random_graph


class Durations(NamedTuple):
    """All that `_sums` asks of a shape."""

    duration: np.ndarray


@pytest.mark.parametrize("start", range(0, share(80), 20))
def test_labels_equal_exhaustive_search(start: int) -> None:
    for seed in range(start, start + 20):
        problem = small_problem(seed)
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        result = lt.solve(problem, "label-setting", threads=1)
        expected = ("infeasible", None) if best is None else ("optimal", best)
        assert (result.status, result.objective) == expected, f"seed {seed}: {result.detail}"


@pytest.mark.slow
def test_passes_without_a_limit_find_the_optimum_and_prune_nothing_that_is_needed() -> None:
    for seed in range(100, 100 + share(80)):
        problem = small_problem(seed)
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        if best is None:
            continue
        data, shape, ideals = prepared(problem)
        together = find_sets(shape, ideals, lambda: False)
        assert together is not None
        prices = find_prices(shape, together, Context(problem=problem), 10.0)
        everything = 1 + sum(data.duration)
        nothing = PriceVectors(0 * prices.rows[:1], prices.ended[:1])
        for some in (nothing, prices):
            for below in (everything, best // data.tick + 1):
                beam = one_pass(shape, some, below, 10**6)
                assert makespan_of(beam, shape) == best // data.tick, f"seed {seed}, below {below}"
                assert beam.least is None
        assert one_pass(shape, prices, best // data.tick, 10**6) == Beam(starts=None, least=None)


@pytest.mark.slow
def test_narrow_beams_and_cones_bound_from_below_and_their_schedules_are_valid() -> None:
    narrow = 0
    for seed in range(200, 200 + share(80)):
        problem = small_problem(seed)
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        if best is None:
            continue
        data, shape, _ = prepared(problem)
        for form in ("beam", "cone", "sample"):
            beam = one_pass(shape, uniform_prices(shape), 1 + sum(data.duration), 1, form=form)
            assert beam.starts is not None
            judged = problem.judge([s * data.tick for s in beam.starts])
            assert judged.objective is not None
            assert judged.objective >= best
            assert beam.least is None or min(judged.objective, beam.least * data.tick) <= best
            narrow += beam.least is not None
    assert narrow > share(40)


def test_the_price_bound_is_one_and_above_the_load_bound_somewhere() -> None:
    above = 0
    for seed in range(300, 300 + share(80)):
        problem = small_problem(seed)
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        if best is None:
            continue
        data, shape, ideals = prepared(problem)
        together = find_sets(shape, ideals, lambda: False)
        assert together is not None
        prices = find_prices(shape, together, Context(problem=problem), 10.0)
        for row, ended in zip(prices.rows, prices.ended, strict=True):
            member = (together.sets[together.latest >= ended, None] >> np.arange(data.n)) & 1
            assert (member @ row).max(initial=0) <= SCALE * problem.count
        assert price_bound(shape, prices) * data.tick <= best, f"seed {seed}"
        above += price_bound(shape, prices) > price_bound(shape, uniform_prices(shape))
    assert above > share(5, least=1)


def test_time_runs_backwards_with_the_same_sets_and_the_same_optimum() -> None:
    shared = 0
    for seed in range(600, 600 + share(60, least=12)):
        problem = small_problem(seed)
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        if best is None:
            continue
        data, _, ideals = prepared(problem)
        back = reversed_shape(data)
        shared += len(back.born_first) > 0
        mirrored = find_ideals(back, 10**6, lambda: False)
        assert mirrored is not None
        everything = (1 << data.n) - 1
        assert {everything ^ s for s in mirrored.sets.tolist()} == set(ideals.sets.tolist())
        beam = one_pass(back, uniform_prices(back), 1 + sum(data.duration), 10**6)
        assert makespan_of(beam, back) == best // data.tick
    assert shared > share(10, least=2)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, share(60), 20))
def test_narrow_passes_from_both_ends_prove_the_optimum(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Widths so small that labels are merged and dropped; each bound is looked at as it is raised."""
    monkeypatch.setattr(makespan_labels, "FIRST", ())
    monkeypatch.setattr(makespan_labels, "WIDTHS", (1, 3, 10, 30, 10**5))
    used = 0
    for seed in range(start, start + 20):
        rng = Random(seed)
        if seed % 2:
            problem = small_problem(seed, most_ops=7)
        else:
            graph = random_tree(rng, 7)
            problem = lt.Makespan(graph, rng.randint(2, 3), brute_force_peak(graph)[0] + rng.randint(0, 5))
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        if best is None:
            continue
        data = makespan_data(problem)
        context = Context(problem=problem)
        begins = dict.fromkeys(range(data.n), 0)
        for i, j in pairwise(brute_force_peak(problem.graph)[1]):
            begins[j] = begins[i] + problem.durations[i]
        context.offer([begins[i] for i in range(data.n)])
        raised = list[int]()
        raise_bound = context.raise_bound

        def seen(
            bound: int, *args: Any, raised: list[int] = raised, raise_bound: Any = raise_bound, **more: Any
        ) -> None:
            raised.append(bound)
            raise_bound(bound, *args, **more)

        monkeypatch.setattr(context, "raise_bound", seen)
        set_labels(data, problem, context)
        assert max(raised) <= best
        assert (context.bound, context.incumbent) == (best, best)
        used += len(set(raised)) > 1
    assert used


@pytest.mark.slow
def test_relaxed_passes_bound_from_below_and_meet_the_optimum_when_wide() -> None:
    merged = met = 0
    for seed in range(600, 600 + share(100)):
        rng = Random(seed)
        problem = small_problem(seed)
        slow = tuple(replace(op, duration_ns=rng.randint(1, 40)) for op in problem.graph.ops)
        problem = replace(problem, graph=replace(problem.graph, ops=slow))
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        if best is None:
            continue
        data, shape, _ = prepared(problem)
        below = 1 + sum(data.duration)
        for width in (1, 3, 10):
            beam = one_pass(shape, uniform_prices(shape), below, width, form="relaxed")
            if beam.least is not None:
                assert beam.least * data.tick <= best, f"seed {seed}, width {width}"
                merged += 1
                met += beam.least * data.tick == best
            else:
                assert makespan_of(beam, shape) == best // data.tick
    assert merged > share(50)
    assert met > share(20, least=4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(6, least=2))
def test_parts_in_series_have_the_optimum_of_the_whole(seed: int) -> None:
    shape = ["inception", "forkjoin"][seed % 2]
    graph = lt.load(f"gen:tasks?shape={shape}&n=16&cores=2&seed={seed}")
    least = lt.solve(lt.Peak(graph), threads=1).objective
    assert least is not None
    problem = lt.Makespan(graph, processors=2, memory=least + seed)
    parts = in_series(problem)
    assert [part.first for part in parts[1:]] == [part.end for part in parts[:-1]]
    answers = []
    for part in parts:
        result = lt.solve(part.problem, "label-setting", threads=1)
        assert result.plan is not None
        answers.append(part.problem.read(result.plan))
    whole = lt.solve(problem, "label-setting", threads=1)
    assert whole.status == "optimal"
    together = problem.judge(joined(parts, answers))
    assert together.objective == whole.objective
    assert together.verification.valid
    assert lt.solve(problem, threads=1).bound == whole.objective


def test_graphs_that_meet_in_no_op_and_replace_are_not_cut() -> None:
    graph = lt.load("gen:tasks?shape=inception&n=40&cores=2&seed=3")
    assert len(in_series(lt.Makespan(graph, 2))) == 3
    assert len(in_series(lt.Makespan(replace(graph, accounting=lt.Accounting.REPLACE), 2))) == 1
    assert len(in_series(lt.Makespan(lt.load("gen:tasks?shape=layered&n=20"), 2))) == 1


def test_label_setting_refuses_what_it_is_not_for() -> None:
    graph = lt.load("gen:tasks?shape=layered&n=80")
    with pytest.raises(lt.UsageError, match="at most 62 ops"):
        lt.solve(lt.Makespan(graph, 2), "label-setting", threads=1)


@pytest.mark.slow
def test_threads_and_widths_change_the_time_and_not_the_optimum() -> None:
    graph = lt.load("gen:tasks?shape=layered&n=40&cores=4&seed=0")
    _, shape, _ = prepared(lt.Makespan(graph, 4, memory=107))
    found = [
        search(
            shape,
            KnownIdeals(),
            uniform_prices(shape),
            below=24_000,
            width=width,
            stop=np.zeros(1, dtype=np.int64),
            expired=lambda: False,
            threads=threads,
        )
        for width, threads in ((20_000, 1), (20_000, 2), (200_000, 3))
    ]
    assert found[0] == found[1]
    assert found[2] is not None
    assert found[2].least is None
    assert makespan_of(found[2], shape) == 23_509


@pytest.mark.slow
def test_what_dominates_a_label_takes_its_bound_in_relaxed_passes() -> None:
    """Graphs of 7 to 11 ops where bounds that labels keep, or bytes counted twice, were above the optimum."""
    for seed in (21, 149, 172, 202, 213, 227, 305, 319, 343, 357, 422, 456, 472, *range(20))[: share(33)]:
        rng = Random(seed)
        graph = random_graph(rng, min_ops=7, max_ops=11)
        ops = tuple(replace(op, duration_ns=rng.randint(1, 30)) for op in graph.ops)
        graph = replace(graph, accounting=lt.Accounting.COEXIST, ops=ops)
        least = lt.solve(lt.Peak(graph), "downsets", threads=1).objective
        assert least is not None
        problem = lt.Makespan(graph, rng.randint(2, 4), least + rng.randint(0, 6))
        data, shape, ideals = prepared(problem)
        together = find_sets(shape, ideals, lambda: False)
        assert together is not None
        prices = find_prices(shape, together, Context(problem=problem), 10.0)
        everything = 1 + sum(data.duration)
        best = makespan_of(one_pass(shape, prices, everything, 10**6), shape)
        assert best is not None
        for width in (1, 4, 20, 50):
            for below in (everything, best + 1):
                beam = one_pass(shape, prices, below, width, form="relaxed")
                assert beam.least is None or beam.least <= best, f"seed {seed}, width {width}"


def test_room_is_the_largest_sums_of_durations_that_fit() -> None:
    rng = Random(1)
    for _ in range(300):
        duration = [rng.choice([rng.randint(1, 300), 63, 64, 65, 128]) for _ in range(rng.randint(1, 8))]
        chosen = [d for d in duration if rng.random() < 0.7]
        bits = np.zeros(rng.randint(1, 10), dtype=np.uint64)
        bound_kernel.write_sums(Durations(np.array(chosen, dtype=np.int64)), (1 << len(chosen)) - 1, bits)
        sums = {0}
        for d in chosen:
            sums |= {x + d for x in sums}
        found = {64 * w + b for w in range(len(bits)) for b in range(64) if int(bits[w]) >> b & 1}
        assert found == {x for x in sums if x < 64 * len(bits)}
        until, now, processors = rng.randrange(64 * len(bits)), rng.randrange(200), rng.randint(1, 4)
        ends = sorted(now + rng.randint(0, 300) for _ in range(rng.randint(0, processors)))
        free = [until - end for end in ends] + [until - now] * (processors - len(ends))
        rows = np.array(ends + [0] * (processors - len(ends)), dtype=np.int64)
        room = bound_kernel.room_until(bits, until, now, rows, len(ends), processors)
        assert room == sum(max(x for x in sums if x <= y) for y in free if y > 0)


def test_samples_that_lose_no_label_raise_the_bound_by_a_tick() -> None:
    for seed in range(700, 700 + share(12)):
        problem = small_problem(seed)
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        if best is None:
            continue
        data, shape, _ = prepared(problem)
        prices = uniform_prices(shape)
        assert one_pass(shape, prices, best // data.tick, 10**6, form="sample") == Beam(
            starts=None, least=None
        )
        beam = one_pass(shape, prices, best // data.tick + 1, 10**6, form="sample")
        assert makespan_of(beam, shape) == best // data.tick


def test_a_search_that_is_stopped_proves_nothing() -> None:
    _, shape, _ = prepared(lt.Makespan(lt.load("gen:tasks?n=20&seed=1"), processors=2, memory=80))
    stop = np.ones(1, dtype=np.int64)
    assert find_ideals(shape, 10**6, lambda: False, stop=stop) is None
    assert (
        search(
            shape,
            KnownIdeals(),
            uniform_prices(shape),
            below=10**6,
            width=10,
            stop=stop,
            expired=lambda: False,
        )
        is None
    )


def test_samples_end_without_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """With next to no memory for labels there are samples only; none of them finds anything here."""
    problem = lt.Makespan(lt.load("gen:tasks?n=20&seed=1"), 2)
    data, shape, _ = prepared(problem)
    context = Context(problem=problem, memory_limit=2_000_000)
    context.raise_bound(context.offer(np.cumsum([0, *problem.durations[:-1]]).tolist()) - 1)
    forms = list[Form]()

    def nothing(run: _LabelSearch, form: Form, width: int, way: Direction | None = None) -> bool:
        forms.append(form)
        return False

    monkeypatch.setattr(_LabelSearch, "one_pass", nothing)
    back = reversed_shape(data)
    run = _LabelSearch(
        data=data,
        context=context,
        stop=np.zeros(1, dtype=np.int64),
        forth=Direction(shape, KnownIdeals(), uniform_prices(shape)),
        back=Direction(back, KnownIdeals(), uniform_prices(back)),
    )
    run.go(lambda: False)
    assert set(forms) == {"beam", "sample"}
    assert "memory" in run.detail


def test_bounds_of_pieces_are_added_and_their_schedules_joined() -> None:
    problem = lt.Makespan(lt.load("gen:tasks?shape=inception&n=40&cores=2&seed=3"), 2)
    pieces, asked = in_series(problem), list[int]()

    fastest = [lt.solve(piece.problem, "list", threads=1).objective for piece in pieces]

    def solved(piece: lt.Makespan, inner: Context) -> Outcome:
        assert inner.answer is not None
        asked.append(len(piece.graph.ops))
        inner.raise_bound(1 + len(asked))
        inner.offer(lt.solve(piece, "list", threads=1).plan)
        return Outcome(detail="gave up")

    context = Context(problem=problem, time_limit=None)
    before = context.offer(in_sequence(problem, range(len(problem.graph.ops))))
    outcome = solve_in_series(pieces, problem, context, solved, Part(name="none", run=lambda *_: None))
    assert asked == sorted(len(piece.problem.graph.ops) for piece in pieces)
    assert context.bound == 2 + 3 + 4
    assert context.incumbent == sum(value for value in fastest if value is not None) < before
    assert "gave up" in outcome.detail
