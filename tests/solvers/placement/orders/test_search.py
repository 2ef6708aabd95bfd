"""Free orders: bounds, `auto` and `orders` against exhaustive search over all orders and fixed ones."""

from dataclasses import replace
from itertools import product
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.lags import BEGIN, Lag, ancestor_rows, heads_and_tails, one_machine
from lowtide.models.derived.precedence import check_order, precedence
from lowtide.models.graph import Accounting
from lowtide.solvers.context import Context
from lowtide.solvers.placement.bounds.any_order import bound_of_orders, raise_order_bounds
from lowtide.solvers.placement.orders.search import shifted
from lowtide.solvers.placement.planner.method import planned, portfolio
from lowtide.solvers.placement.reductions.orders import of_first
from tests.problems.placement import machine, training_problem, two_tiers, working_set
from tests.solvers.placement.orders.free_orders import (
    MET,
    bound_of,
    every_order,
    fixed,
    free_problem,
    shuffled,
    small,
    times_of_orders,
)


@pytest.mark.parametrize(
    ("lags", "time"),
    [
        ([], 15),
        ([Lag(0, 3, 20)], 1 + 20 + 4),
        ([Lag(BEGIN, 1, 20)], 20 + 2 + 4),
        ([Lag(2, 5, 20), Lag(BEGIN, 0, 2)], 2 + 1 + 3 + 20),
        ([Lag(BEGIN, 4, 9), Lag(4, 5, 7)], 9 + 5 + 7),
        ([Lag(BEGIN, 3, 12), Lag(BEGIN, 4, 12)], 12 + 4 + 5),
    ],
)
def test_heads_tails_and_lags_on_one_machine(lags: list[Lag], time: int) -> None:
    # 0 comes before 1 and 2, which come before 3; 4 is free
    rows, durations = ancestor_rows([0, 1, 1, 7, 0]), (1, 2, 3, 4, 5)
    assert rows.tolist()[3] == [True, True, True, False, False]
    assert one_machine(durations, *heads_and_tails(durations, rows, lags)) == time


def layered(seed: int, accounting: Accounting) -> lt.Placement:
    """Activations alone, which take far longer to move than ops last."""
    graph = replace(lt.load(f"gen:layered?layers=3&width=3&seed={seed}"), accounting=accounting)
    bench = machine(working_set(graph) + seed % 3, None, ssd=seed % 2 == 1)
    return lt.Placement(graph, bench, order="free")


@pytest.mark.slow
def test_no_plan_is_faster_than_the_bounds_of_its_order_and_of_all() -> None:
    """Of the small problems no bound could be higher: both are the time of the best plan, or one is."""
    raised = own = every_order = 0
    cases = [(seed, layered(seed, accounting)) for seed, accounting in product((2, 3), Accounting)]
    cases += [(seed, small(seed)) for seed in MET]
    for seed, problem in cases:
        one = fixed(problem, shuffled(problem.graph, Random(seed)))
        order = range(len(one.graph.ops))
        value = lt.solve(one, "slot-lp", threads=1, time_limit=None).objective
        assert value is not None
        assert value > sum(op.duration_ns for op in problem.graph.ops)
        alone = bound_of_orders(
            one, [(1 << k) - 1 for k in order], peak=lt.Peak(one.graph).evaluate(tuple(order))
        )
        lags, every = bound_of_orders(problem, precedence(problem.graph).ancestors), bound_of(problem)
        assert lags <= every <= value, seed
        assert alone <= value, seed
        raised += every > lags
        own += alone == value
        every_order += lags == value
    assert raised
    assert (own, every_order) == (len(MET), 11)


def test_what_is_overwritten_unread_need_not_leave() -> None:
    """Peak memory counts w between its two contents; the bytes of a plan do not."""
    tensors = [lt.Tensor(name=x, nbytes=size) for x, size in zip("wcase", (8, 1, 10, 1, 1), strict=True)]
    ops = [
        lt.Op(name=f"op{k}", reads=reads, writes=writes, duration_ns=10)
        for k, (reads, writes) in enumerate(
            [((), (0,)), ((0,), (1,)), ((1,), (2,)), ((2,), (3,)), ((3,), (0,)), ((0,), (4,))]
        )
    ]
    graph = lt.Graph(name="overwritten", tensors=tuple(tensors), ops=tuple(ops))
    problem = lt.Placement(graph, machine(11, None), order="free")
    peak = lt.Peak(graph).evaluate((0, 1, 2, 3, 4, 5))
    assert peak == 19
    assert bound_of_orders(problem, precedence(graph).ancestors, peak=peak) == 60
    assert lt.solve(replace(problem, order="reference"), "slot-lp", threads=1).objective == 60


def test_what_is_only_read_in_each_iteration_comes_in_and_need_not_go_out() -> None:
    """Out takes 80 ns, in takes 8; b leaves no room beside it, for 10 ns."""
    weight = lt.Tensor(name="w", nbytes=8, kind="weight", initial=True, final=True)
    ops = (lt.Op(name="a", reads=(0,)), lt.Op(name="b", workspace=8, duration_ns=10))
    graph = lt.Graph(name="read only", tensors=(weight,), ops=ops)
    problem = lt.Placement(graph, two_tiers(8, 10**8, 10**9), periodic=True, order="free")
    assert bound_of(problem) == 18
    assert lt.solve(problem, threads=1).objective == 19


@pytest.mark.parametrize("accounting", list(Accounting))
def test_the_bound_of_one_order_is_no_lower(accounting: Accounting) -> None:
    higher = 0
    for seed in range(8):
        problem = free_problem(seed, accounting, 9)
        chain = [(1 << k) - 1 for k in range(len(problem.graph.ops))]
        alone, every = bound_of_orders(problem, chain), bound_of(problem)
        assert alone >= every
        higher += alone > every
    assert higher > 1


def test_lags_of_slow_channels_stay_within_integers() -> None:
    for seed in (1, 3, 5):
        problem = training_problem(seed)
        graph = replace(
            problem.graph,
            tensors=tuple(replace(t, nbytes=t.nbytes << 40) for t in problem.graph.tensors),
        )
        bench = replace(
            problem.machine,
            tiers=tuple(
                replace(t, capacity=None if t.capacity is None else t.capacity << 40)
                for t in problem.machine.tiers
            ),
            channels=tuple(replace(c, bytes_per_s=1) for c in problem.machine.channels),
            groups=(),
        )
        slow = replace(problem, graph=graph, machine=bench)
        masks = precedence(graph).ancestors
        assert bound_of_orders(slow, masks, peak=1 << 60) > 2**50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accounting", "cases"),
    [(Accounting.COEXIST, (0, 1, 5, 11, 16, 19)), (Accounting.REPLACE, (0, 5, 13, 16, 19))],
)
def test_orders_finds_and_proves_the_best_of_all_orders(
    accounting: Accounting, cases: tuple[int, ...]
) -> None:
    """Whole tensors; of 40 such cases it proves 37 in seconds."""
    better = 0
    for seed in cases:
        problem, times = times_of_orders(seed, accounting)
        best = min(time for time in times if time is not None)
        found = lt.solve(problem, "orders", threads=1, time_limit=None)
        assert (found.objective, found.bound) == (best, best), seed
        better += times[0] is None or best < times[0]
    assert better > 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 5, 9])
def test_orders_and_auto_equal_every_fixed_order_in_turn(seed: int) -> None:
    problem = free_problem(seed, list(Accounting)[seed % 2])
    results = [
        lt.solve(fixed(problem, order), threads=1, time_limit=None) for order in every_order(problem.graph)
    ]
    best = min(r.objective for r in results if r.objective is not None)
    least = min(r.bound for r in results if r.bound is not None)
    assert len(results) > 2
    for method in ("orders", "auto"):
        found = lt.solve(problem, method, threads=1, time_limit=None)
        assert found.objective == best
        assert found.bound is not None
        assert least <= found.bound <= best


@pytest.mark.slow
def test_auto_is_never_slower_than_with_the_order_fixed_and_sometimes_faster() -> None:
    faster = 0
    for seed in (2, 6):
        problem = training_problem(seed)
        results = [
            lt.solve(replace(problem, order=order), threads=1, time_limit=None)
            for order in ("reference", "free")
        ]
        before, after = (result.objective for result in results)
        assert before is None or (after is not None and after <= before), seed
        faster += before is None or (after or 0) < before
    assert faster


def test_plans_that_do_not_keep_the_precedence_are_refused() -> None:
    kinds = set()
    for seed in range(6):
        problem = free_problem(seed)
        order = shuffled(problem.graph, Random(seed))
        plan = planned(fixed(problem, order), portfolio(problem)[1])
        if isinstance(plan, str):
            continue
        plan = of_first(plan, problem.graph, order)
        assert not problem.judge(plan).violations
        runs = plan.runs
        edges = [(i, j) for j, some in enumerate(precedence(problem.graph).predecessors) for i in some]
        if not edges:
            continue
        i, j = Random(seed).choice(edges)
        at = {run.op: run for run in runs}
        exchanged = tuple(
            replace(run, start=at[op].start, end=at[op].start + run.end - run.start)
            for run in runs
            for op in [{i: j, j: i}.get(run.op, run.op)]
        )
        later = max(runs, key=lambda run: run.end)
        twice = (*runs, replace(later, start=later.end, end=2 * later.end - later.start))
        for broken, kind in (
            (exchanged, "precedence"),
            (runs[1:], "missing-run"),
            *([] if problem.periodic else [(twice, "repeated-run")]),
            (tuple(replace(run, op=j) if run.op == i else run for run in runs), "missing-run"),
        ):
            found = {v.kind for v in problem.judge(replace(plan, runs=broken)).violations}
            assert kind in found, (seed, kind)
            kinds |= found
    assert {"precedence", "missing-run", "repeated-run"} <= kinds


def test_blocks_that_move_keep_the_precedence() -> None:
    moved = 0
    for seed in range(20):
        random, graph = Random(seed), training_problem(seed % 10).graph
        order, n = shuffled(graph, random), len(graph.ops)
        low, to = random.randrange(1, n), 0
        high = random.randint(low + 1, n)
        found = shifted(precedence(graph).predecessors, order, low, high, to)
        check_order(graph, found)
        moved += found != order
    assert moved > 1


def test_a_limit_keeps_what_was_found_and_none_is_passed() -> None:
    problem = replace(training_problem(2), order="free")
    for method in ("auto", "orders"):
        result = lt.solve(problem, method, time_limit=1e-6, threads=1)
        assert result.status in (lt.Status.UNKNOWN, lt.Status.FEASIBLE)
    hint = lt.solve(fixed(problem, tuple(range(len(problem.graph.ops)))), "belady", threads=1).plan
    assert hint is not None
    hint = of_first(hint, problem.graph, tuple(range(len(problem.graph.ops))))
    kept = lt.solve(problem, hint=hint, time_limit=1e-6, threads=1)
    assert kept.objective is not None
    assert kept.objective <= problem.evaluate(hint)


def test_with_ops_that_may_run_again_the_bound_is_the_sum_of_the_durations() -> None:
    """Lags know each op once: what an op made may come back by a run."""
    for seed in range(40):
        once = replace(training_problem(seed), periodic=False, order="free")
        total, bounds = sum(op.duration_ns for op in once.graph.ops), []
        for problem in (once, replace(once, recompute=True)):
            context = Context(problem=problem)
            raise_order_bounds(problem, context)
            bounds.append(context.bound or 0)
        assert bounds[1] == total
        if bounds[0] > total:
            break
    assert bounds[0] > total
    with pytest.raises(lt.UsageError, match="order=free, recompute"):
        lt.solve(problem, "orders")
