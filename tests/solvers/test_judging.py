"""What `solve` keeps back for the verifier, and the garbage collector while it runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import lowtide as lt
from lowtide.solvers import solve as solving
from lowtide.solvers.clock import Clock
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.engines.garbage import ALLOCATIONS, collected_rarely
from lowtide.solvers.judging import PART, judging_seconds
from lowtide.solvers.registry import ROOMS

PEAK = lt.Peak(lt.load("gen:chain?n=10"))  # 10 ops, 19 accesses


@pytest.mark.slow
def test_judging_takes_time_for_each_op_and_access() -> None:
    assert judging_seconds(PEAK, 60.0) == pytest.approx(29e-6 * ROOMS["peak"].judging)
    assert judging_seconds(PEAK, None) == 0.0
    assert judging_seconds(PEAK, 1e-6) == PART * 1e-6, "a method has its half in any case"


def test_judging_of_an_allocation_takes_time_for_each_buffer() -> None:
    buffers = lt.Buffers(buffers=(lt.Buffer(id="x", lower=0, upper=3, size=4),))
    assert judging_seconds(lt.Offsets(buffers), 60.0) == pytest.approx(1e-6 * ROOMS["offsets"].judging)


def test_a_method_ends_before_the_time_that_is_kept_back() -> None:
    now = [0.0]
    context = Context(problem=PEAK, time_limit=5.0, kept_back=2.0, clock=Clock(source=lambda: now[0]))
    assert context.remaining() == 3.0
    assert context.inner(PEAK, 10.0, "").time_limit == 3.0
    now[0] = 3.0
    assert context.expired
    assert Context(problem=PEAK, kept_back=0.0).remaining() == float("inf")


def test_solve_keeps_back_what_judging_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(solving, "judging_seconds", lambda problem, limit: 59.5)

    def spy(problem: lt.Problem, context: Context) -> range:
        seen.append(context.ends)
        return range(10)

    monkeypatch.setattr("lowtide.solvers.method.Method.load", lambda self: spy)
    assert lt.solve(PEAK, "reference").objective == PEAK.evaluate(range(10))
    assert seen == [0.5]


LARGE = lt.Peak(
    lt.Graph(
        name="one", tensors=(lt.Tensor(name="x", nbytes=5000),), ops=(lt.Op(name="makes x", writes=(0,)),)
    )
)


@pytest.mark.parametrize("exact", [None, 7])
def test_a_floating_bound_above_a_verified_answer_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, exact: int | None
) -> None:
    best = LARGE.evaluate(range(1))

    def claims(problem: lt.Problem, context: Context) -> Outcome:
        if exact is not None:
            context.raise_bound(exact, kind="known")
        context.raise_bound(best - 1, "floating", kind="HiGHS")
        context.raise_bound(best + 5, "floating", kind="HiGHS")
        context.offer(range(1))
        return Outcome(detail="HiGHS: Optimal")

    monkeypatch.setattr("lowtide.solvers.method.Method.load", lambda self: claims)
    result = lt.solve(LARGE, "reference")
    assert (result.status, result.objective, result.bound) == (lt.Status.FEASIBLE, best, exact)
    assert (result.proof, result.bound_kind) == ((None, None) if exact is None else ("exact", "known"))
    assert f"bound {best + 5} is above the verified objective: not taken" in result.detail
    assert all(point.bound is None or point.bound <= best for point in result.trace)


@pytest.mark.parametrize(("more", "proof"), [(1, "exact"), (6, "floating")])
def test_an_exact_bound_above_a_verified_answer_is_a_failure_and_so_is_one_far_above(
    more: int, proof: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = LARGE.evaluate(range(1))

    def claims(problem: lt.Problem, context: Context) -> Outcome:
        context.raise_bound(best + more, proof)
        context.offer(range(1))
        return Outcome()

    monkeypatch.setattr("lowtide.solvers.method.Method.load", lambda self: claims)
    result = lt.solve(LARGE, "reference")
    assert result.status is lt.Status.FAILED
    assert "claims the bound" in result.detail


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Thresholds as a process begins with, whatever other tests have left."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_collector_runs_rarely_and_as_before_afterwards() -> None:
    rare = (ALLOCATIONS, 10, 10)
    with collected_rarely():
        with pytest.raises(ZeroDivisionError), collected_rarely():
            assert [gc.get_threshold(), 1 / 0] == [rare, 0]
        assert gc.get_threshold() == rare, "the outer solve goes on"
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [0, 10 * ALLOCATIONS])
def test_a_collector_that_is_off_or_rarer_stays(own: int) -> None:
    gc.set_threshold(own, 7, 8)
    with collected_rarely():
        assert gc.get_threshold() == (own, 7, 8)
    assert gc.get_threshold() == (own, 7, 8)
