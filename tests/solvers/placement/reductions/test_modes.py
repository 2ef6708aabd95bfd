"""Ops with several modes: plans name theirs, nothing is below the best choice, and policies choose."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.releases import ideal_time
from lowtide.models.graph import Accounting
from lowtide.models.verifier.proofs.price_claims import WindowsProof
from lowtide.solvers.context import Context
from lowtide.solvers.placement.bounds.certify import certify_placement, price_time, proof_of
from lowtide.solvers.placement.bounds.prices import price_rounds, unsampled
from lowtide.solvers.placement.methods import ROOM
from lowtide.solvers.placement.planner.choosing import chosen_modes
from lowtide.solvers.placement.planner.method import planned, portfolio
from lowtide.solvers.placement.planner.setting import PlannerSetting
from lowtide.solvers.placement.reductions.modes import (
    fastest_modes,
    in_modes,
    next_smaller,
    reference_modes,
    smallest_modes,
)
from lowtide.solvers.placement.slots import whole as slots_milp
from tests.effort import seeds
from tests.oracles import brute_placement, brute_tiers
from tests.oracles.price_certificates import in_parts
from tests.oracles.random_placement import random_placement
from tests.problems.placement import every_choice, machine, tiny_placement, training_problem, with_modes
from tests.solvers.placement.bounds.claim_cases import bounds, in_bytes, small
from tests.solvers.placement.slots.cases import start_of

SYSTEMS = tuple(m.name for m in ROOM.methods if any(option.name == "strict" for option in m.options))
OPTIONS = {"local-search": {"runs": "60"}}
REFUSE = {"in-place", "pofo", "tmof", "zero-offload", "zero-infinity"}
"""Methods that serve one mode an op only, second runs only, or no whole tensors, and say so."""
SLOW = {"auto", "autotm-static", "autotm-sync", "autotm-async", "cpsat", "slot-lp", "slot-milp", *REFUSE}
"""Tried once, with all random cases."""
MOST = 1000
"""States that a search looks at."""
BOTH = pytest.mark.parametrize("accounting", list(Accounting))


def fastest(problem: lt.Placement, below: int, most: int = 20_000) -> int | None:
    """Return the least time of any choice of modes if it is less than `below`, by exhaustive search."""
    best = below
    for one in every_choice(problem):
        if (found := brute_tiers.faster(one, best, most)) is not None:
            best = found
    return best if best < below else None


def never_faster(problem: lt.Placement, bound: int) -> None:
    """Fail if exhaustive search finds a plan in bytes below a bound, for some choice of modes."""
    if bound > ideal_time(problem):
        for one in every_choice(problem):
            with suppress(brute_tiers.TooLarge):
                assert brute_tiers.faster(in_bytes(one), bound, MOST) is None


@BOTH
@pytest.mark.parametrize("seed", seeds(24, least=3))
def test_no_method_is_faster_than_the_best_choice_of_modes(seed: int, accounting: Accounting) -> None:
    """And no bound is above it: least durations and least workspaces hold for every choice."""
    problem = with_modes(tiny_placement(seed, accounting), seed)
    names = [m.name for m in ROOM.methods if seed == 8 or m.name not in SLOW]
    results = {}
    for name in names:
        if name in REFUSE:
            with pytest.raises(
                lt.UsageError,
                match=r"several modes|copies of whole|a tier each|no ops that may run|no processor",
            ):
                lt.solve(problem, name)
            continue
        options = {**OPTIONS.get(name, {})}
        results[name] = lt.solve(problem, name, threads=1, time_limit=None, options=options)
    times = {name: r.objective for name, r in results.items() if r.objective is not None}
    assert times
    best = fastest(problem, min(times.values()) + 1)
    assert best is not None, min(times, key=lambda name: times[name])
    for name, result in results.items():
        assert result.objective is None or result.objective >= best, name
        assert result.bound is None or result.bound <= best, name
        if result.status == "optimal":
            assert result.objective == best, name


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("seed", seeds(6, least=3))
def test_cpsat_chooses_modes_as_exhaustive_search_does(seed: int, accounting: Accounting) -> None:
    problem = with_modes(tiny_placement(seed, accounting), seed)
    found = [brute_placement.fastest(x.graph, x.machine, start_of(x)) for x in every_choice(problem)]
    best = min((x for x in found if x is not None), default=None)
    result = lt.solve(problem, "cpsat", threads=1, time_limit=None)
    assert result.objective == best, result.detail
    assert best is None or (result.bound is not None and result.bound <= best)


@BOTH
@pytest.mark.parametrize("form", ["slot-lp", "slot-milp", "tmof"])
@pytest.mark.parametrize("seed", seeds(20, least=3))
def test_slot_forms_choose_modes_as_well_as_exhaustive_search(
    seed: int, form: str, accounting: Accounting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole tensors: its plan is the best one. In bytes: no plan is faster than the bound."""
    monkeypatch.setattr(slots_milp, "ROUNDS", 3)
    problem = with_modes(random_placement(seed, ops=3, accounting=accounting), seed)
    if problem.impossible():
        return
    result = lt.solve(replace(problem, whole=form == "slot-milp"), form, threads=1, time_limit=None)
    assert result.status is not lt.Status.FAILED, result.detail
    if result.status is lt.Status.INFEASIBLE:
        below: int | None = 10**7  # ns: nothing takes as long
    else:
        below = result.objective if form == "slot-milp" and result.objective is not None else result.bound
    assert below is not None
    try:
        assert fastest(replace(problem, whole=True), below, MOST) is None
    except brute_tiers.TooLarge:
        return


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("seed", seeds(6, least=3))
def test_no_choice_of_modes_is_faster_than_the_bound_of_cpsat(seed: int, accounting: Accounting) -> None:
    """On any tiers, single runs and periods."""
    problem = with_modes(replace(random_placement(seed, accounting=accounting), whole=True), seed)
    if problem.impossible():
        return
    result = lt.solve(problem, "cpsat", threads=1, time_limit=None, options={"max_deterministic_time": "0.2"})
    assert result.status is not lt.Status.FAILED, result.detail
    for one in every_choice(problem):
        with suppress(brute_tiers.TooLarge):
            assert brute_tiers.faster(one, result.bound or 0, MOST) is None


@BOTH
@pytest.mark.parametrize("seed", seeds(40, least=10))
def test_no_bound_in_bytes_is_above_any_choice_of_modes(seed: int, accounting: Accounting) -> None:
    problem = with_modes(small(seed, accounting), seed, ops=1)
    if problem.impossible():
        return
    best = max(bounds(problem))
    context, rng = Context(problem=problem), Random(seed)
    if not unsampled(problem):
        for prices, _, bound in price_rounds(problem, context, lambda: False):
            best = max(best, ideal_time(problem) + bound)
            proof = proof_of(problem, prices)
            best = max(best, price_time(problem.graph, problem.setting(), proof)[0])
            if isinstance(proof, WindowsProof):
                continue
            for _ in range(4):  # those prices, and any others, also window by window
                for some in (proof, in_parts(rng, proof)):
                    best = max(best, price_time(problem.graph, problem.setting(), some)[0])
                proof = replace(proof, memory=tuple(p * rng.randint(0, 3) // 2 for p in proof.memory))
    never_faster(problem, best)


def conv_chain(modes: tuple[lt.Mode, ...], layers: int = 3) -> lt.Graph:
    """Forward convolutions that make 10 bytes each, a loss, and backward ones that use them, last first."""
    tensors = tuple(lt.Tensor(name=f"x{k}", nbytes=10) for k in range(layers + 1))
    ops = [
        lt.Op(name=f"f{k}", kind="Conv", reads=(k - 1,) if k else (), writes=(k,), modes=modes)
        for k in range(layers + 1)
    ]
    ops.append(lt.Op(name="loss", reads=(layers,), duration_ns=1000))
    ops += [
        lt.Op(name=f"b{k}", kind="ConvGradient", reads=(k,), modes=modes) for k in reversed(range(layers))
    ]
    return lt.Graph(name="convolutions", tensors=tensors, ops=tuple(ops))


WAYS = tuple(lt.Mode(duration_ns=ns, workspace=size) for ns, size in ((4000, 0), (2000, 6), (1000, 20)))


def on_device(device: int) -> lt.Placement:
    return lt.Placement(conv_chain(WAYS), machine(device, None, ssd=False))


def modes_of(result: lt.Result) -> list[int]:
    assert result.plan is not None
    return [run.mode for run in sorted(result.plan.runs, key=lambda run: run.start)]


def test_reference_modes_are_the_fastest_that_fit_by_themselves() -> None:
    # f1 to f3 have 20 bytes of operands, the others 10.
    for device, first, others in ((40, 2, 2), (39, 2, 1), (30, 2, 1), (29, 1, 1), (25, 1, 0), (3, 0, 0)):
        expected = [first, others, others, others, 0, first, first, first]
        assert reference_modes(on_device(device)) == expected
    problem = on_device(40)
    assert fastest_modes(problem) == [2, 2, 2, 2, 0, 2, 2, 2]
    assert smallest_modes(problem) == [0] * 8
    assert [next_smaller(problem, 1, m) for m in (2, 1, 0)] == [1, 0, None]
    replaced = replace(problem, graph=replace(problem.graph, accounting=Accounting.REPLACE))
    assert reference_modes(replaced) == reference_modes(on_device(50))  # what they read may go at their start


def test_plans_name_their_modes_and_the_verifier_judges_these() -> None:
    problem = on_device(39)
    chosen, restored = in_modes(problem, reference_modes(problem))
    assert all(len(op.all_modes) == 1 for op in chosen.graph.ops)
    plan = planned(problem, PlannerSetting())
    assert isinstance(plan, lt.Plan)
    alone = planned(chosen, PlannerSetting())
    assert isinstance(alone, lt.Plan)
    assert plan == restored(alone)
    assert problem.judge(plan).objective is not None
    assert [run.mode for run in plan.runs] == reference_modes(problem)
    for k, run in enumerate(plan.runs):
        for m in range(3):
            ways = problem.graph.ops[run.op].all_modes
            if m < len(ways) and m != run.mode:
                broken = replace(plan, runs=(*plan.runs[:k], replace(run, mode=m), *plan.runs[k + 1 :]))
                assert "duration" in {v.kind for v in problem.judge(broken).violations}, (k, m)
    least, _ = in_modes(problem, smallest_modes(problem))
    slow = planned(least, PlannerSetting())
    assert isinstance(slow, lt.Plan)
    equal = tuple(
        replace(op, modes=tuple(replace(m, duration_ns=4000) for m in op.modes)) for op in problem.graph.ops
    )
    greedy = replace(problem, graph=replace(problem.graph, ops=equal))
    runs = tuple(replace(run, mode=2 * bool(problem.graph.ops[run.op].modes)) for run in slow.runs)
    broken = replace(slow, runs=runs, graph_sha256=None)  # as long, but more workspace than there is
    assert {v.kind for v in greedy.judge(broken).violations} == {"capacity"}
    with pytest.raises(lt.UsageError, match="expected one of every op"):
        in_modes(problem, [0])


@pytest.mark.parametrize(
    ("device", "detail", "first", "others", "back"),
    [
        (60, "nothing offloaded", 2, 2, 2),  # at f3 there are 40 bytes and its workspace
        (59, "conv", 2, 2, 2),
        (40, "conv", 2, 2, 2),
        (39, "conv, greedy", 2, 1, 2),
        (29, "conv, greedy", 1, 1, 1),
        (25, "conv, greedy", 1, 0, 1),
        (20, "conv, greedy", 1, 0, 1),
    ],
)
def test_vdnn_takes_smaller_algorithms_where_memory_overflows(
    device: int, detail: str, first: int, others: int, back: int
) -> None:
    result = lt.solve(on_device(device), "vdnn")
    assert result.detail == detail
    assert modes_of(result) == [first, others, others, others, 0, back, back, back]
    if device == 60:
        assert (result.status, result.objective) == ("optimal", 8000)


def test_vdnn_keeps_to_what_its_static_policies_name() -> None:
    for offload in ("conv", "all"):
        for algorithms, number in (("fastest", 2), ("least", 0)):
            options = {"offload": offload, "algorithms": algorithms, "strict": "1"}
            result = lt.solve(on_device(40), "vdnn", options=options)
            assert modes_of(result) == [number] * 4 + [0] + [number] * 3
            assert lt.solve(on_device(39), "vdnn", options=options).plan is None or number == 0


def test_modnn_takes_the_fastest_algorithm_that_finds_a_hole() -> None:
    # f0: a hole of 29; f1: of 19; f2: of 9; at f3 x0 leaves for x3, a hole of 9 remains; behind b2 x2 dies
    # beside it, 19; b0 has x0 alone.
    result = lt.solve(on_device(39), "modnn")
    assert modes_of(result) == [2, 1, 1, 1, 0, 1, 1, 2]
    assert result.facts["emergencies"] == 0
    assert modes_of(lt.solve(on_device(20), "modnn"))[1:4] == [0, 0, 0]


@pytest.mark.slow
def test_the_planner_pays_a_rent_for_workspace() -> None:
    better = 0
    for device in (25, 29, 35, 39):
        problem = on_device(device)
        setting = portfolio(problem)[0]
        made: dict[tuple[int, ...], int | None] = {}

        def plan(modes: Sequence[int], known: dict[tuple[int, ...], int | None] = made) -> lt.Plan | str:
            found = planned(problem, replace(setting, modes=tuple(modes)))  # noqa: B023
            known[tuple(modes)] = None if isinstance(found, str) else problem.evaluate(found)  # noqa: B023
            return found

        modes, best = chosen_modes(problem, plan, lambda: False)
        assert best is not None
        times = [time for time in made.values() if time is not None]
        assert problem.judge(best).objective == made[tuple(modes)] == min(times)
        reference, smallest = tuple(reference_modes(problem)), tuple(smallest_modes(problem))
        assert {reference, smallest} <= made.keys()
        result = lt.solve(problem, "planner", threads=1)
        assert result.objective is not None
        assert result.objective <= min(times)
        better += min(times) < min(made[some] or min(times) + 1 for some in (reference, smallest))
        stopped, none = chosen_modes(problem, plan, lambda: True)
        assert (stopped, none) == ([*reference], None)
    assert better


@pytest.mark.parametrize("name", ["planner", "lp-bound", "auto", *SYSTEMS])
def test_with_enough_memory_every_op_is_at_its_fastest(name: str) -> None:
    for seed in range(4):
        problem = with_modes(training_problem(seed), seed, ops=4)
        total = sum(t.nbytes for t in problem.graph.tensors) + 20
        start = dict.fromkeys(("input", "weight"), ("gpu",))
        roomy = replace(problem, machine=machine(2 * total, None), start=None if problem.periodic else start)
        result = lt.solve(roomy, name, threads=1)
        least = sum(min(mode.duration_ns for mode in op.all_modes) for op in roomy.graph.ops)
        assert (result.status, result.objective) == ("optimal", least), result.detail


@pytest.mark.slow
@BOTH
def test_certificates_count_least_durations_and_workspaces(accounting: Accounting) -> None:
    proved = 0
    for seed in seeds(40, least=8):
        problem = with_modes(training_problem(seed, accounting), seed, ops=4)
        bound = lt.solve(problem, "lp-bound", threads=1, time_limit=None).bound
        assert bound is not None
        certificate = certify_placement(problem, bound)
        if certificate is not None:
            assert ideal_time(problem) <= certificate.bound <= bound
            assert lt.verify_certificate(problem.graph, certificate).valid
            proved += certificate.bound > ideal_time(problem)
    assert proved > 1
