"""Pipelines: closed forms of published schedules, proved optima, exhaustive search, mutations, refusals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from math import ceil
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.pipeline.bounds import lower_bound
from lowtide.models.derived.device_orders import _largest_mean
from lowtide.solvers.pipeline.rules import RULES, peaks
from tests.effort import seeds, share
from tests.oracles.brute_pipeline import least, simulated
from tests.problems.pipeline import small

TIMES = ((1, 1), (1, 2), (2, 1), (3, 5), (7, 4), (10, 21), (18, 30), (5, 5))


def asked(spec: str, **options: object) -> lt.Pipeline:
    return lt.Pipeline(lt.load(f"gen:stages?{spec}"), **options)  # type: ignore[arg-type]


def only(rule: str, problem: lt.Pipeline) -> list[list[int]]:
    """Return the orders of a rule that has one schedule."""
    (orders,) = RULES[rule](problem, lambda: None)
    return orders


def by_rule(name: str, problem: lt.Pipeline) -> tuple[int, list[int]]:
    """Return the makespan of a rule and the peak of each device; the verifier looks at some of them."""
    orders = only(name, problem)
    starts = problem.timed(orders)
    if len(starts) < 40:
        judged = problem.judge(starts)
        assert judged.objective == problem.evaluate(starts)
        assert [*judged.verification.peaks.values()] == peaks(problem.line, orders)  # type: ignore[union-attr]
    return problem.evaluate(starts), peaks(problem.line, orders)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gpipe", "1f1b"])
def test_one_stage_a_device_takes_the_closed_form(method: str) -> None:
    cases = list(product(range(1, 7), range(1, 9), TIMES))
    assert len(cases) == 384
    for p, m, (f, b) in Random(1).sample(cases, share(384, 48)):
        time, most = by_rule(method, asked(f"p={p}&m={m}&f={f}&b={b}&w=0"))
        assert time == (m + p - 1) * (f + b)
        assert most == [m if method == "gpipe" else min(m, p - i) for i in range(p)]


@pytest.mark.slow
def test_interleaved_takes_the_closed_form() -> None:
    cases = [(p, v, k * p, *times) for p, v, k, times in product((2, 3, 4), (2, 3, 4), (2, 3, 4), TIMES[:4])]
    assert len(cases) == 108
    for p, v, m, f, b in Random(1).sample(cases, share(108, 12)):
        time, most = by_rule("interleaved", asked(f"p={p}&m={m}&v={v}&f={f}&b={b}&w=0"))
        assert time == m * v * (f + b) + (p - 1) * (f + b)
        assert most == [min(m * v, 2 * (p - i - 1) + (v - 1) * p + 1) for i in range(p)]


UNEVEN = (744, 430, 344, 334, 324, 314)
ZERO_BUBBLE = ((1, 1, 1), (10, 12, 9), (18, 20, 10), (4, 5, 3), (5, 5, 4))


@pytest.mark.parametrize(("method", "late"), [("zb-h1", 1), ("zb-h2", 2)])
def test_zero_bubble_takes_the_closed_form(method: str, late: int) -> None:
    for (p, m), (f, b, w) in product(((2, 4), (3, 6), (4, 8), (4, 12)), ZERO_BUBBLE):
        problem = asked(f"p={p}&m={m}&f={f}&b={b}&w={w}", objective="span")
        time, most = by_rule(method, problem)
        assert time == m * (f + b + w) + (p - 1) * (f + b - late * w)
        assert most == [late * (p - 1) + 1 if late > 1 else p] * p


V_TIMES = {(2, 6, "v-half"): 37, (4, 12, "v-half"): 77, (8, 24, "v-half"): 161,
           (2, 6, "v-min"): 39, (4, 12, "v-min"): 83, (8, 24, "v-min"): 171}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("p", "m", "method"), V_TIMES)
def test_stages_there_and_back_take_what_is_published(p: int, m: int, method: str) -> None:
    result = lt.solve(asked(f"p={p}&m={m}&v=2&placement=v", objective="span"), method)
    assert result.objective == V_TIMES[p, m, method]


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 3, 4, 7, 12])
def test_zero_bubble_there_and_back_leaves_no_slot_idle(p: int) -> None:
    result = lt.solve(asked(f"p={p}&m={2 * p}&v=2&placement=v", objective="span", memory=2 * p), "v-zb")
    assert (result.status, result.objective) == ("optimal", 6 * 2 * p)


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 3, 4, 5, 6, 7, 10])
def test_stages_there_and_back_hold_what_is_published(p: int) -> None:
    problem = asked(f"p={p}&m={2 * p}&v=2&placement=v")
    for method, most in (("v-min", (p + 4) // 3), ("v-half", (p + 2) // 2), ("v-zb", p)):
        for orders in RULES[method](problem, lambda: None):
            assert max(peaks(problem.line, orders)) == 2 * most


def test_one_activation_leaves_one_micro_batch_at_a_time() -> None:
    for p, m, f, b, w in ((2, 3, 4, 5, 6), (4, 5, 1, 2, 1), (3, 2, 7, 3, 2)):
        kept = asked(f"p={p}&m={m}&f={f}&b={b}&w={w}", memory=1, objective="span")
        result = lt.solve(kept, "zb")
        assert (result.status, result.objective) == ("optimal", m * (p * (f + b) + w))
        gone = lt.solve(replace(kept, graph=lt.load(f"gen:stages?p={p}&m={m}&f={f}&b={b}&w={w}&keep=0")))
        assert (gone.status, gone.objective) == ("optimal", m * p * (f + b) + w)


PROVED = [
    *(("p=3&m=6", "span", k, best) for k, best in enumerate((42, 25, 20), 1)),
    *(("p=3&m=6", "makespan", k, best) for k, best in ((3, 20), (5, 20))),
    *(("p=3&m=6&keep=0", "span", k, best) for k, best in enumerate((37, 21), 1)),
    *(("p=3&m=6&f=18&b=20&w=10", "span", k, best) for k, best in enumerate(UNEVEN, 1)),
    ("p=3&m=6&f=18&b=20&w=10", "makespan", 3, 344),
    ("p=3&m=6&f=18&b=20&w=10", "makespan", 6, 324),
    ("p=4&m=8", "span", 1, 72),
    ("p=4&m=8", "makespan", 4, 27),
    ("p=4&m=8", "span", 7, 24),
    ("p=4&m=8&keep=0", "span", 1, 65),
    ("p=4&m=8&keep=0", "span", 2, 35),
    ("p=2&m=4&v=2&placement=v", "span", 2, 33),
    ("p=3&m=6", "span", 5, 18),
    ("p=3&m=6&keep=0", "span", 5, 18),
    ("p=2&m=4&v=2&placement=v", "span", 4, 24),
    ("p=3&m=6&f=12-10-7&b=12-12-7&w=5-9-5", "span", 5, 186),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "objective", "memory", "best"), PROVED[:1])
def test_auto_proves_least_times(spec: str, objective: str, memory: int, best: int) -> None:
    result = lt.solve(asked(spec, objective=objective, memory=memory), threads=1)
    assert (result.status, result.objective, result.bound) == ("optimal", best, best)


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "objective", "memory", "best"), PROVED[1:])
def test_auto_proves_more_least_times(spec: str, objective: str, memory: int, best: int) -> None:
    test_auto_proves_least_times(spec, objective, memory, best)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(32))
def test_auto_is_exhaustive_search(seed: int) -> None:
    problem = small(seed, fixed=seed % 3)
    result = lt.solve(problem, threads=1)
    best = least(problem)
    assert result.objective == best
    assert result.status == ("infeasible" if best is None else "optimal")
    if best is not None:
        assert lower_bound(problem).value <= best


def any_orders(problem: lt.Pipeline, rng: Random) -> list[list[int]]:
    """Return the devices' orders in a random sequence of all ops that respects the precedence."""
    graph, line = problem.graph, problem.line
    writer = {t: i for i, op in enumerate(graph.ops) for t in op.writes}
    orders: list[list[int]] = [[] for _ in range(line.devices)]
    left, done = set(range(len(graph.ops))), set[int]()
    while left:
        ready = [i for i in sorted(left) if {*(writer[t] for t in graph.ops[i].reads)} <= done]
        i = rng.choice([i for i in ready if {*graph.ops[i].after} <= done])
        left.remove(i)
        done.add(i)
        orders[line.device[i]].append(i)
    return orders


@pytest.mark.parametrize("seed", seeds(24))
def test_times_of_orders_are_least(seed: int) -> None:
    rng = Random(seed)
    for _ in range(5):
        problem = replace(small(rng.randrange(10**6)), memory=None)
        orders = any_orders(problem, rng)
        found = []
        for delay in range(sum(problem.line.durations) if problem.objective == "span" else 1):
            start = simulated(problem, orders, (0, delay))
            assert start is not None
            found.append(problem.evaluate([start[i] for i in range(len(start))]))
        assert problem.evaluate(problem.timed(orders)) == min(found)


def test_a_device_that_waits_for_another_begins_later() -> None:
    stages = [lt.Stage(device=0, forward=9), lt.Stage(device=1, weight=9)]
    problem = lt.Pipeline(lt.pipeline_graph(stages, 2), objective="span")
    orders = [
        [problem.line.op[kind, s, j] for kind, j in product("FBW", (0, 1))] for s in range(2)
    ]  # device 0: F to 18, B from 20 on, W to 24; device 1: F in 9-10 and 18-19 if at once, W to 39
    starts = problem.timed(orders)
    assert (problem.evaluate(starts), starts[problem.line.op["F", 1, 0]]) == (24, 15)


def test_largest_mean_is_that_of_all_cycles() -> None:
    for seed in range(50):
        rng = Random(seed)
        n = rng.randint(1, 4)
        weight = [
            [rng.randint(-9, 9) if i == j or rng.random() < 0.7 else None for j in range(n)] for i in range(n)
        ]
        means = []
        for k in range(1, n + 1):
            for cycle in permutations(range(n), k):
                arcs = [weight[i][j] for i, j in zip(cycle, (*cycle[1:], cycle[0]), strict=True)]
                means += [ceil(Fraction(sum(x for x in arcs if x is not None), k))] * (None not in arcs)
        assert _largest_mean(weight) == max(means)


def test_methods_say_where_they_do_not_fit() -> None:
    tight = asked("p=3&m=4&w=0", memory=2)
    result = lt.solve(tight, "1f1b")
    assert (result.status, result.detail) == ("unknown", "device 0 would hold 3 bytes, of 2")
    with pytest.raises(lt.UsageError, match="expected a multiple of 3"):
        lt.solve(asked("p=3&m=4&v=2"), "interleaved")
    with pytest.raises(lt.UsageError, match="expected stage s on device s alone"):
        lt.solve(asked("p=3&m=4&v=2"), "1f1b")
    turned = lt.Pipeline(lt.pipeline_graph([lt.Stage(device=1), lt.Stage(device=0)], 3))
    for method in ("1f1b", "zb", "zb-h1", "zb-h2"):
        with pytest.raises(lt.UsageError, match="expected stage s on device s alone"):
            lt.solve(turned, method)
    assert lt.solve(turned, threads=1).status == "optimal"
    full = lt.Pipeline(lt.pipeline_graph([lt.Stage(device=s, fixed=3 * s) for s in range(2)], 3), 4)
    result = lt.solve(full, "zb")  # one activation on device 1
    assert (result.status, result.verification.peaks) == ("feasible", {"gpu0": 1, "gpu1": 4})  # type: ignore[union-attr]
    assert lt.solve(full, "gpipe").detail == "device 1 would hold 6 bytes, of 4"
    none = lt.solve(asked("p=3&m=4&a=5", memory=4))
    assert (none.status, none.detail) == ("infeasible", "stage 0 on device 0 needs 5 B")


def test_bounds_above_every_schedule_do_not_hide_that_there_is_none() -> None:
    problem = replace(small(1046), memory=4)
    assert lower_bound(problem).value > sum(problem.line.durations)
    assert lt.solve(problem, threads=1).status == "infeasible"


def test_numbers_too_large_for_the_model_leave_schedules() -> None:
    most = 2**40
    problem = asked(f"p=3&m=5&f={most}&b={most + 7}&w={most // 3}&a={most}&keep={most // 5}", memory=3 * most)
    result = lt.solve(problem, threads=1)
    assert result.status == "feasible"
    assert "expected less than 2^61" in result.detail
    with pytest.raises(lt.UsageError, match=r"expected less than 2\^61"):
        lt.solve(problem, "cpsat", threads=1)


@pytest.mark.parametrize(("duration", "latency", "memory"), [(2**51, 0, 2), (1, 2**58, None)])
def test_times_too_large_for_exact_bounds_leave_schedules(
    duration: int, latency: int, memory: int | None
) -> None:
    stages = [lt.Stage(device=i, forward=duration, backward=duration, weight=duration) for i in range(2)]
    problem = lt.Pipeline(lt.pipeline_graph(stages, 3), memory, latency, "span")
    result = lt.solve(problem, threads=1)
    assert result.status == "feasible"
    assert "expected less than 9007199254740992" in result.detail
    with pytest.raises(lt.UsageError, match="expected less than"):
        lt.solve(problem, "cpsat", threads=1)


def test_wrong_answers_have_their_witness() -> None:
    problem = asked("p=2&m=3", memory=2)
    result = lt.solve(problem, threads=1)
    starts = list(problem.read(result.plan))
    line = problem.line

    def kinds(answer: list[int], question: lt.Pipeline = problem) -> set[str]:
        judged = question.judge(question.read(answer))
        assert judged.objective is None or not judged.violations
        return {v.kind for v in judged.violations}

    assert kinds(starts) == set()
    assert kinds(starts, replace(problem, memory=1)) == {"capacity"}
    assert kinds(starts, replace(problem, latency_ns=1)) == {"read"}  # what is not there yet
    assert kinds([0] * len(starts)) == {"capacity", "precedence", "processor-overlap", "read"}
    early = list(starts)
    early[line.op["W", 0, 2]] = max(starts) + 1  # alone there, but before its B
    early[line.op["B", 0, 2]] = max(starts) + 2
    assert kinds(early) == {"precedence"}
    sent = [s + 10 * (line.device[i] == 1) for i, s in enumerate(starts)]  # device 0 does not wait for B
    assert kinds(sent) == {"precedence", "read"}
