"""Capuchin: sources and times by hand, the link, choices, and the sequences that it tries."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np

import lowtide as lt
from lowtide.formulations.recompute.data import RecomputeData
from lowtide.solvers.placement.policies import capuchin
from lowtide.solvers.placement.policies.capuchin import Remade, SwapLink, choose, trigger, update
from lowtide.solvers.placement.policies.follow_again import Laid, _laid, absences_within
from lowtide.solvers.placement.reductions.reruns import sequenced
from lowtide.solvers.placement.rerunning.dropping import Droppable, droppable, with_dropped
from lowtide.solvers.placement.simulator.problem import NEVER, SimulatedProblem, simulated_problem
from tests.effort import seeds
from tests.random_decisions import random_problem
from tests.solvers.placement.graphs import network, random_network, small
from tests.solvers.placement.rerunning.second_runs import again, data_of, first_case, random_again


def candidate(value: int, sources: set[int], ns: int) -> Remade:
    return Remade(Droppable(value=value, before=0, behind=9, price=1.0), 10, sources, ns)


def test_sources_of_a_chain_from_the_middle() -> None:
    one, two, three = candidate(1, {0}, 2), candidate(2, {1}, 3), candidate(3, {2}, 5)
    taken: list[Remade] = []
    update(two, taken, [one, three])
    assert (three.sources, three.ns, three.more_ns) == ({1}, 8, 0)
    assert (one.ns, one.more_ns) == (2, 2)  # runs for itself and for 2
    update(one, taken, [three])
    assert (two.sources, two.ns) == ({0}, 5)
    assert (three.sources, three.ns, three.more_ns) == ({0}, 10, 0)


def test_sources_of_a_chain_from_its_end() -> None:
    one, two, three = candidate(1, {0}, 2), candidate(2, {1}, 3), candidate(3, {2}, 5)
    taken: list[Remade] = []
    update(three, taken, [one, two])
    assert (two.more_ns, one.more_ns) == (3, 0)
    update(two, taken, [one])
    assert (three.sources, three.ns) == ({1}, 8)
    assert one.more_ns == 4  # for 2 and for 3
    assert one.overhead == 0.6


def test_candidates_between_chosen_ones_count_for_each() -> None:
    """1 is a source of 2 and 3, which are chosen; then 0, a source of 1, is: 1 takes longer for both."""
    zero, one, two, three = (
        candidate(0, {9}, 7),
        candidate(1, {0}, 2),
        candidate(2, {1}, 3),
        candidate(3, {1}, 5),
    )
    taken: list[Remade] = []
    update(two, taken, [zero, one, three])
    update(three, taken, [zero, one])
    update(zero, taken, [one])
    assert (one.sources, one.ns, one.more_ns) == ({9}, 9, 18)


def test_the_time_of_one_candidate_is_that_of_its_runs() -> None:
    met = 0
    for seed in range(40):
        data = data_of(random_network(seed))
        for d in droppable(data):
            _, ops = capuchin._sources(data, d)
            runs = with_dropped(data, [d], again=range(data.n))
            assert sum(data.duration[w] for w in ops) == sum(data.duration[w] for w in runs) - sum(
                data.duration
            )
            met += len(ops) > 1
    assert met > 5


def test_copies_on_the_link_do_not_overlap() -> None:
    for seed in seeds(20):
        problem = random_again(seed)
        if len(problem.machine.tiers) == 1:
            continue
        case = first_case(problem)
        link = SwapLink(case)
        plain = [
            g
            for g in range(len(case.absence_first))
            if 0 <= case.absence_first[g] < case.absence_next[g] < case.ops
        ]
        for g in plain:
            end, start = link.times(g)
            assert link.book(g) == start
            assert start <= case.clock[case.absence_next[g]]
            assert end > case.clock[case.absence_first[g] + 1]
        for side in link.busy:
            assert len(side) == len(plain)
            assert all(a[1] <= b[0] for a, b in pairwise(side))


def six_layers(rate: int) -> tuple[SimulatedProblem, RecomputeData]:
    """Return six layers of 10 bytes, three of which must leave; the times of the first five differ."""
    graph = network("RRRRRR")
    times = (1000, 100, 100, 4000, 4000, *[1000] * 7)
    graph = replace(
        graph, ops=tuple(replace(op, duration_ns=ns) for op, ns in zip(graph.ops, times, strict=True))
    )
    return first_case(again(graph, 30, rate)), data_of(graph)


def chosen(case: SimulatedProblem, data: RecomputeData | None) -> tuple[list[str], int]:
    """Return what is chosen, s for swapped, r for runs again, and how many are enough."""
    found = choose(case, data)
    names = [
        f"r{d.value}" if g is None and d is not None else f"s{case.absence_tensor[g]}"
        for g, d in zip(found.swapped, found.remade, strict=True)
    ]
    return names, found.enough


def test_swaps_while_hidden_then_what_costs_less() -> None:
    """A copy takes 4000 ns.

    x0 leaves over [1100, 5100) and returns over [11200, 15200). Then x1, out by 9100, had to start back at
    7200, x2 and the others are later still: 190 ns a byte or more. f1 takes 10 a byte, then f2, with f1, 20.
    Beyond that, f4 takes 400, less than x3, out by 13200, back from 7200: 600; f3 with f1 and f2, for itself
    and for x4, 840.
    """
    case, data = six_layers(10**7 // 4)
    free = {int(i): capuchin.free_ns(case, g) for g, i in enumerate(case.absence_tensor)}
    assert free == {0: 6100, 1: 5000, 2: 0, 3: -5000, 4: -7000}
    assert chosen(case, data) == (["s0", "r1", "r2", "r4", "s3"], 3)
    assert chosen(case, None) == (["s0", "s1", "s2", "s3", "s4"], 3)
    for rate in (10**7, 10**12):
        assert chosen(*six_layers(rate)) == (["s0", "s1", "s2", "s3", "s4"], 3)


def test_a_trigger_lies_between_the_accesses() -> None:
    case, _ = six_layers(10**7 // 4)
    for g in range(len(case.absence_first)):
        first, after = int(case.absence_first[g]), int(case.absence_next[g])
        if not 0 <= first < after < case.ops:
            continue
        latest = int(case.clock[after]) - 4000
        ops = [trigger(case, g, latest, ahead) for ahead in (0, 1, 3)]
        assert ops == sorted(ops, reverse=True)
        assert first < ops[-1] <= ops[0] <= after
        if latest >= case.clock[first + 1]:
            assert case.clock[ops[0]] <= latest < case.clock[ops[0] + 1]


def test_a_candidate_is_the_longest_absence() -> None:
    """x0 is read by f4, too: it is away for longer behind that."""
    graph = network("RRRRRR")
    ops = (*graph.ops[:4], replace(graph.ops[4], reads=(0, 3)), *graph.ops[5:])
    case = first_case(again(replace(graph, ops=ops), 30))
    ends = [
        (int(case.absence_first[g]), int(case.absence_next[g]))
        for g in capuchin._candidates(case, case.live > 30)
    ]
    assert ends == [(4, 11), (2, 10), (3, 9), (4, 8), (5, 7)]


def test_what_helps_lasts_beside_an_op_at_which_not_all_fits() -> None:
    """In periods absences last to the next iteration, too."""
    rng, met = Random(3), set()
    for seed in seeds(40, least=8):
        case = simulated_problem(random_problem(seed, 4 + seed % 9))
        some = np.flatnonzero((case.absence_first >= 0) & (case.absence_next < NEVER)).tolist()
        over = np.array([rng.random() < 0.2 for _ in range(case.ops)])
        helpful = [
            g for g in some if any(over[a:b].any() for a, b in case.away_ops(g, int(case.absence_next[g])))
        ]
        assert capuchin._helpful(case, over, some) == helpful
        met |= {(g in helpful, bool(case.absence_next[g] > case.ops)) for g in some}
    assert len(met) == 4


def laid_out(problem: lt.Placement, runs: list[int]) -> Laid:
    several = sequenced(problem.graph, runs)
    return _laid(first_case(replace(problem, graph=several.graph)), several)


def test_first_enough_then_more_and_more() -> None:
    """After s0, r1 and r2, which are enough, r4; then s3. x1 stays for b1 where x2 is made again, or not."""
    trials = list(capuchin._trials(*six_layers(10**7 // 4)))
    more = [*range(7), 4, 7, 8, 1, 2, 9]
    assert [list(trial.runs) for trial in trials] == [
        [*range(9), 1, 2, 9, 10, 11],
        [*range(9), 1, 2, 9, 1, 10, 11],
        *[[*more, 10, 11], [*more, 1, 10, 11]] * 2,
    ]
    assert [trial.name[:26] for trial in trials[::2]] == [
        f"{a} swapped, {b} made again" for a, b in ((1, 2), (1, 3), (2, 3))
    ]


def test_sources_that_are_dead_run_again() -> None:
    """Without b1, x1 is dead behind f2: for x2 f1 runs, too."""
    graph = six_layers(1000)[0].graph
    graph = replace(graph, ops=tuple(op for op in graph.ops if op.name != "b1"))
    trial = next(capuchin._trials(first_case(again(graph, 30, 10**7 // 4)), data_of(graph)))
    assert list(trial.runs) == [*range(9), 1, 2, 9, 10]


def test_parts_of_an_absence() -> None:
    """x0 is read by a run again in between: the longer part, or both."""
    laid = laid_out(again(network("CRRR"), 99), [0, 1, 2, 3, 4, 1, 5, 6, 7])
    case, spans = laid.case, [(0, 1, 7)]
    for every, expected in ((False, [(1, 5)]), (True, [(1, 5), (5, 8)])):
        found = absences_within(laid, spans, every=every)
        assert [(int(case.absence_first[g]), int(case.absence_next[g])) for g in found] == expected
    away = [int((decisions.tier > 0).sum()) for _, decisions in capuchin._decide(laid, spans)]
    assert away == [1, 1, 1, 2, 2, 2]


def test_tensors_of_a_sequence_are_those_of_the_graph() -> None:
    """What is initial comes first in the graph of a sequence."""
    graph = small("x y W", ((2,), (0,)), ((0,), (1,)), ((2,), ()), ((0, 1, 2), ()))
    laid = laid_out(again(graph, 9), [0, 1, 2, 1, 3])
    stays = [laid.case.graph.tensors[t].name for t in laid.case.tensor.tolist()]
    assert [graph.tensors[t].name for t in laid.tensors] == stays == ["W", "x", "y", "y"]
    assert laid.place == (0, 1, 2, 4)
