"""The rules of published systems: by hand, against brute force, and when each fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import ge

import numpy as np
import pytest

import lowtide as lt
from lowtide.solvers.placement.policies import (
    chen_meng,
    dragon,
    gtbm,
    layrub,
    sentinel,
    tflms_v1,
    vdnn,
)
from lowtide.solvers.placement.policies.follow import Candidates
from lowtide.solvers.placement.policies.layers import heavy_ops, layers
from lowtide.solvers.placement.policies.loads import crossing_absences, turn_of
from lowtide.solvers.placement.policies.tflms_v1 import DataFlow, Settings
from lowtide.solvers.placement.policies.tflms_v2 import FAILS, Parameters, Rewriting, largest, tuned
from lowtide.solvers.placement.simulator.problem import NEVER, SimulatedProblem, simulated_problem
from lowtide.solvers.placement.simulator.simulator import Decisions
from tests.effort import seeds
from tests.problems.placement import machine, training_problem, working_set
from tests.solvers.placement.graphs import network


def on(graph: lt.Graph, device: int) -> lt.Placement:
    return lt.Placement(graph, machine(device, None, ssd=False))


EVERYTHING: dict[str, Callable[[SimulatedProblem], Candidates]] = {
    "chen-meng": chen_meng.decide,
    "layrub": layrub.decide,
    "gtbm": gtbm.decide,
    "tflms-v1": tflms_v1.decide,
    "vdnn": lambda case: vdnn.decide(case, "all"),
}
"""Policies; the last of their variants moves all that they may."""


def load(case: SimulatedProblem, decisions: Decisions, *, until_asked: bool) -> np.ndarray:
    """Return the bytes at each op: tensors are away until they are asked back, or until their next use."""
    left = case.live.copy()
    for g in np.flatnonzero(decisions.tier > 0).tolist():
        after = min(int(case.absence_next[g]), case.ops)
        if until_asked and decisions.back[g] >= 0:
            after = min(after, int(decisions.back[g]) // 2)
        left[int(case.absence_first[g]) + 1 : after] -= case.absence_size[g]
    return left


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYTHING)
def test_a_policy_fails_exactly_when_the_rest_does_not_fit(name: str) -> None:
    """It does if with all away to the last moment it does not; it does not if with early returns it does."""
    failed = fitted = 0
    for seed in range(80):
        problem = training_problem(seed)
        room = working_set(problem.graph) + seed % 11
        problem = replace(
            problem, machine=machine(room, None, ssd=False), periodic=False, start={"input": ("gpu",)}
        )
        case = simulated_problem(problem)
        decisions = list(EVERYTHING[name](case))[-1][1]
        found = lt.solve(problem, name, options={"strict": "1"}, threads=1)
        if load(case, decisions, until_asked=False).max() > case.memory:
            assert found.plan is None, seed
            assert found.detail
            failed += 1
        elif load(case, decisions, until_asked=True).max() <= case.memory:
            assert found.plan is not None, seed
            fitted += 1
    assert failed > 3
    assert fitted > 3


def test_layers_end_with_what_leaves_and_begin_with_what_returns() -> None:
    case = simulated_problem(on(network("CRC"), 99))
    assert layers(case).tolist() == [0, 0, 1, 2, 3, 4]
    plain = replace(network("CRC"), ops=network("CRC").ops[:3])
    assert layers(simulated_problem(on(plain, 99))).tolist() == [0, 1, 1]  # nothing is used again


def test_chen_meng_takes_the_longest_lived_until_it_fits() -> None:
    # x0 lives 11 000 ns, x1 9 000, x2 7 000, x3 5 000; half of them stay.
    graph = network("CCCCC")
    for device, away in ((99, []), (50, []), (40, [0]), (30, [0, 1])):
        case = simulated_problem(on(graph, device))
        ((_, decisions),) = chen_meng.decide(case)
        assert case.absence_tensor[decisions.tier > 0].tolist() == away
    # A return takes 1667 ns: that of x0, for op 9 at 9 000, begins with op 7 at 7 000.
    case = simulated_problem(on(graph, 30))
    ((_, decisions),) = chen_meng.decide(case)
    assert decisions.back[decisions.tier > 0].tolist() == [2 * 7, 2 * 6]
    assert lt.solve(on(graph, 30), "chen-meng", options={"short": "0", "strict": "1"}).plan is not None
    assert lt.solve(on(graph, 20), "chen-meng", options={"strict": "1"}).plan is None


def test_layrub_returns_a_layer_ahead() -> None:
    # Copies out take 2000 ns, returns 1667. x0 leaves at 2000, f2 waits for it, f3 for x1; x2 has not left
    # when b2 is due. Beside b2 x1 returns, for b1 at 10 667, beside b1 x0.
    assert lt.solve(on(network("CCCC"), 20), "layrub").objective == 9000 + 1667 + 1667 + 1000
    assert lt.solve(on(network("CCCC"), 40), "layrub").detail == "nothing migrated"


@pytest.mark.parametrize("window", [1, 2, 3])
def test_gtbm_returns_behind_the_convolutions_of_the_window(window: int) -> None:
    for seed in range(20):
        case = simulated_problem(training_problem(seed))
        (_, (_, decisions)) = gtbm.decide(case, window)
        heavy = set(heavy_ops(case).tolist())
        for g in crossing_absences(case, turn_of(case)).tolist():
            after, asked = int(case.absence_next[g]), int(decisions.back[g])
            begun = sum(asked // 2 <= k < after for k in heavy)
            if asked == 2 * (int(case.absence_first[g]) + 1):
                assert begun <= window
            else:
                assert asked % 2 == 1
                assert begun == window


def test_vdnn_looks_for_the_next_layer_up_to_a_convolution() -> None:
    case = simulated_problem(on(network("CRRCRC"), 99))
    numbers, crossing = layers(case), crossing_absences(case, turn_of(case))
    of = {int(case.absence_tensor[g]): g for g in crossing.tolist()}  # x4 ... x0 are used by ops 7 to 11
    convolutions = np.array([of[2], of[4]], dtype=np.int64)
    assert vdnn.prefetches(case, numbers, convolutions).tolist() == [2 * 7 + 1, 2 * 6 + 1]
    # That of x4 is a convolution: only behind it x2 is found, and x0 behind that of x2.
    assert vdnn.prefetches(case, numbers, np.array([of[2]])).tolist() == [2 * 7 + 1]
    assert vdnn.prefetches(case, numbers, np.array([of[0]])).tolist() == [2 * 9 + 1]
    everything = vdnn.prefetches(case, numbers, crossing)
    assert (everything == 2 * (case.absence_next[crossing] - 1) + 1).all()


def test_vdnn_gives_up_where_all_offloaded_does_not_fit() -> None:
    graph = network("CRC")
    problem = on(replace(graph, tensors=(*graph.tensors[:2], replace(graph.tensors[2], nbytes=19))), 29)
    assert lt.solve(problem, "vdnn", options={"strict": "1"}).plan is not None
    kept = lt.Tensor(name="kept", nbytes=5, final=True)
    more = replace(problem.graph.ops[0], writes=(0, 3))
    graph = replace(problem.graph, tensors=(*problem.graph.tensors, kept), ops=(more, *problem.graph.ops[1:]))
    strict = lt.solve(on(graph, 29), "vdnn", options={"strict": "1"})
    assert (strict.plan, strict.detail) == (None, vdnn.GIVEN_UP)
    assert strict.facts == {"gives_up": 1}
    forced = lt.solve(on(graph, 29), "vdnn")
    assert forced.detail.startswith(vdnn.GIVEN_UP)
    assert forced.facts["gives_up"] == 1
    assert forced.facts["emergencies"] > 0


def test_vdnn_without_barriers_is_no_slower_on_a_chain() -> None:
    problem = on(network("CCCCCC"), 30)
    times = [lt.solve(problem, "vdnn", options={"barrier": b}).objective for b in "10"]
    assert times[0] is not None
    assert times[1] is not None
    assert times[1] < times[0]


def test_control_ops_of_tflms() -> None:
    case = simulated_problem(on(network("CCCCC", gradients=True), 99))  # f0 to f4, loss, b3 to b0: ops 6 to 9
    flow = DataFlow(case)
    assert flow.control(0, 9, Settings(rule="direct")) == 8
    assert flow.control(0, 9, Settings(rule="direct", low=3)) == 6
    assert flow.control(0, 9, Settings(rule="direct", low=3, high=2)) is None
    assert flow.control(0, 9, Settings()) == 8  # f1 makes x1, which b1 uses
    assert flow.control(0, 9, Settings(low=2)) == 7  # f2, x2, b2
    assert flow.control(0, 9, Settings(low=9)) == 0  # before the backward pass: the direct rule
    assert flow.control(3, 6, Settings(low=1)) == 5  # likewise: the loss
    free = DataFlow(simulated_problem(on(network("CCCCC"), 99)))  # b0 depends on f0 alone
    assert free.control(0, 9, Settings(rule="direct")) == 0


@pytest.mark.parametrize("reach", [10_000, 4])
def test_what_an_op_depends_on(reach: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tflms_v1, "REACH", reach)
    for seed in range(20):
        case = simulated_problem(training_problem(seed))
        flow = DataFlow(case)
        for op in range(case.ops):
            above, open_ops = set[int](), [op]
            while open_ops:
                new = {made for k in open_ops for made in range(k) if k in flow.users[made]} - above
                above |= new
                open_ops = sorted(new)
            for limit in range(-1, op):
                assert flow.last_above(op, limit) == max(
                    (k for k in above if op - reach <= k <= limit), default=-1
                )


def test_tflms_v1_swaps_the_tensors_that_it_is_told_to() -> None:
    case = simulated_problem(on(network("CCCCC", gradients=True), 40))
    for count, away in ((0, [0, 1, 2, 3]), (2, [0, 1])):
        chosen = tflms_v1.swapped(case, Settings(tensors=count))
        assert case.absence_tensor[chosen].tolist() == away
    for seed in range(20):
        case = simulated_problem(training_problem(seed))
        every, fused = (set(tflms_v1.swapped(case, Settings(fuse=fuse)).tolist()) for fuse in (False, True))
        assert fused == {*crossing_absences(case, turn_of(case)).tolist()} - {
            g
            for g in every | fused | set(range(len(case.absence_tensor)))
            if case.starts[case.absence_tensor[g]]
            and case.accesses[int(case.absence_tensor[g])][0][0] >= turn_of(case)
        }
        assert fused <= every
        forward = set(tflms_v1.swapped(case, Settings(branch=2)).tolist()) - every
        assert all(case.absence_next[g] - case.absence_first[g] > 2 for g in forward)
        assert all(case.absence_next[g] < turn_of(case) for g in forward)


@pytest.mark.parametrize("seed", seeds(60, least=20))
def test_searches_of_tflms_find_what_scans_find(seed: int) -> None:
    case = simulated_problem(training_problem(seed))
    rewriting, n = Rewriting(case), case.ops
    found = tuned(rewriting.passes, n)
    modes = [p for mode in range(4) if rewriting.passes(p := Parameters(mode=mode))]
    assert (found is None) == (not modes)
    if found is None:
        result = lt.solve(training_problem(seed), "tflms-v2", options={"strict": "1"})
        assert result.plan is None or result.detail == "nothing swapped"
        return
    best = modes[0]
    if not best.mode:
        best = max(
            (p for x in range(1, n + 1) if rewriting.passes(p := replace(best, threshold=x))),
            key=lambda p: p.threshold,
        )
    if best.mode < 2:
        best = max(
            (p for x in range(1, n + 1) if rewriting.passes(p := replace(best, ahead=x))),
            key=lambda p: p.ahead,
        )
    best = max(
        (p for x in range(n + 1) if rewriting.passes(p := replace(best, group=x))), key=lambda p: p.group
    )
    assert found == best


def test_tflms_v2_fails_exactly_if_the_tightest_parameters_do() -> None:
    failed = 0
    for seed in range(40):
        problem = training_problem(seed)
        passes = Rewriting(simulated_problem(problem)).passes(Parameters(mode=3))
        result = lt.solve(problem, "tflms-v2", options={"strict": "1"})
        assert (FAILS in result.detail) <= (not passes)
        failed += not passes
        if not passes and result.plan is not None:
            assert result.detail == "nothing swapped"
    assert failed > 3


def test_largest() -> None:
    for limit in range(3, 20):
        assert largest(3, 25, partial(ge, limit)) == limit
    assert largest(0, 7, lambda _: True) == 7


@pytest.mark.slow
def test_sentinel_fails_exactly_below_the_peak_of_what_is_short_lived() -> None:
    names = [
        ("a", (), (0,)),
        ("b", (), (1,)),
        ("use a", (0,), ()),
        ("use b", (1,), ()),
        ("loss", (), ()),
        ("behind", (), ()),
    ]
    ops = tuple(lt.Op(name=name, reads=r, writes=w, duration_ns=1000, workspace=1) for name, r, w in names)
    graph = lt.Graph(
        name="short", tensors=tuple(lt.Tensor(name=name, nbytes=6) for name in ("a", "b")), ops=ops
    )
    for room in range(7, 16):  # no op needs more than 7 bytes, both tensors and a workspace 13
        found = lt.solve(on(graph, room), "sentinel", options={"strict": "1"})
        assert (found.plan is None) == (room < 13)
        assert (found.detail == f"short-lived tensors need 13 bytes, the device has {room}") == (room < 13)
        assert lt.solve(on(graph, room), "sentinel").plan is not None  # by force
    for seed in range(30):
        problem = replace(training_problem(seed), periodic=False)
        case = simulated_problem(problem)
        numbers, tensors = layers(case), [case.graph.tensors[t] for t in case.tensor.tolist()]
        short = [
            (some[0][0], some[-1][0], tensor.nbytes)
            for some, tensor in zip(case.accesses, tensors, strict=True)
            if numbers[some[0][0]] == numbers[some[-1][0]] and not tensor.initial and not tensor.final
        ]
        reserve = max(
            op.workspace + sum(size for low, high, size in short if low <= k <= high)
            for k, op in enumerate(problem.graph.ops)
        )
        assert reserve == sentinel.short_lived(case, numbers).max()
        room = max(reserve, working_set(problem.graph))
        tight = replace(problem, machine=machine(room, None, ssd=False))
        assert lt.solve(tight, "sentinel", options={"strict": "1"}).plan is not None


def test_sentinel_moves_at_the_bounds_of_intervals() -> None:
    case = simulated_problem(on(network("CCCCCCCC"), 50))
    lengths = []
    for name, decisions in sentinel.decide(case):
        length = int(name.split()[0])
        numbers = layers(case) // length
        starts = {int(np.flatnonzero(numbers == i)[0]) for i in range(int(numbers[-1]) + 1)}
        for g in np.flatnonzero(decisions.tier > 0).tolist():
            assert decisions.out[g] // 2 in starts
            assert decisions.back[g] == -1 or decisions.back[g] // 2 in starts
            used = {int(numbers[case.absence_first[g]]), int(numbers[case.absence_next[g]])}
            assert int(numbers[decisions.out[g] // 2]) not in used
        lengths.append(length)
    assert len(lengths) > 2


def test_dragon_reads_ahead_what_lies_behind() -> None:
    case = simulated_problem(on(network("CCCCC"), 99))  # 10 bytes each, x0 to x4 in the order of addresses
    asked = dragon.read_ahead(case, 10)
    for g in np.flatnonzero(case.absence_next < NEVER).tolist():
        i, first, after = int(case.absence_tensor[g]), int(case.absence_first[g]), int(case.absence_next[g])
        below = [k for k, _ in case.accesses[i - 1] if first < k < after] if i else []
        assert asked[g] == (2 * below[0] if below else -1)
    assert (dragon.read_ahead(case, 0) == -1).all()
    far = dragon.read_ahead(case, 30)
    assert ((far == -1) <= (asked == -1)).all()


def test_oc_dnn_asks_for_weights_one_op_ahead() -> None:
    weights = tuple(
        lt.Tensor(name=f"w{k}", nbytes=10, kind="weight", initial=True, final=True) for k in range(4)
    )
    ops = tuple(lt.Op(name=f"op{k}", reads=(k,), duration_ns=1000) for k in range(4))
    problem = replace(on(lt.Graph(name="weights", tensors=weights, ops=ops), 20), periodic=True)
    # A return takes 1667 ns: behind the op before, or beside it.
    assert lt.solve(problem, "oc-dnn", options={"weights": "0"}).objective == 4 * (1000 + 1667)
    assert lt.solve(problem, "oc-dnn").objective == 4 * 1667
