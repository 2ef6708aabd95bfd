"""Chen's segments and Checkmate's rounding, each against its definition on small graphs, and by hand."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.recompute.data import RecomputeData, levels, recompute_data
from lowtide.solvers.recompute.heuristics.segments import (
    ARTICULATION,
    BUDGETS,
    LINEARIZED,
    equal_boundaries,
    every_root,
    gaps,
    greedy_boundaries,
    in_whole_segments,
    turn,
    with_boundaries,
)
from lowtide.solvers.recompute.models.rounding import rounded
from tests.strategies import random_graph


def small_data(seed: int, max_ops: int = 8) -> RecomputeData:
    """One writer for each tensor; unlimited memory."""
    graph = random_graph(Random(seed), min_ops=4, max_ops=max_ops, single_writer=True, after=False)
    return recompute_data(lt.Recompute(graph), bundled=False)


def skipping_chain(forwards: int, skips: tuple[tuple[int, int], ...] = ()) -> RecomputeData:
    """Forwards in a chain, of one byte each, some also read a later time; a backward for each of them.

    The last forward has 9 bytes of workspace, so that the turn is there.
    """
    n = 2 * forwards
    tensors = tuple(lt.Tensor(name=f"t{i}", nbytes=1, final=i == n - 1) for i in range(n))
    reads: list[set[int]] = [{i - 1} if i > 0 else set() for i in range(forwards)]
    reads += [{i - 1, n - 1 - i} for i in range(forwards, n)]
    for writer, reader in skips:
        reads[reader].add(writer)
    ops = tuple(
        lt.Op(name=f"o{i}", reads=tuple(sorted(reads[i])), writes=(i,), workspace=9 * (i == forwards - 1))
        for i in range(n)
    )
    return recompute_data(lt.Recompute(lt.Graph(name="chain", tensors=tensors, ops=ops)), bundled=False)


def by_definition(data: RecomputeData, boundaries: list[int]) -> list[int]:
    """The runs that the page on segments describes, one value at a time."""
    last = turn(data)
    segment = [sum(b < i for b in boundaries) for i in range(data.n)]

    def is_kept(u: int) -> bool:
        x = data.values[u]
        if x.writer is None or x.writer > last or segment[x.writer] == len(boundaries):
            return True
        return any(i <= last and segment[i] > segment[x.writer] for i in x.readers)

    kept = {u for u in range(len(data.values)) if is_kept(u)}
    there, runs = set(kept), list(range(last + 1))

    def needed(i: int) -> set[int]:
        """The op, and what has to run again for it."""
        found = {i}
        for u in data.reads[i]:
            writer = data.values[u].writer
            if u not in there and writer is not None:
                found |= needed(writer)
        return found

    for i in range(last + 1, data.n):
        for j in sorted(needed(i)):
            runs.append(j)
            there |= set(data.writes[j])
    return runs


def test_the_turn_needs_most_and_is_the_first_that_does() -> None:
    for seed in range(30):
        data = small_data(seed)
        needed = levels(data, range(data.n))
        assert needed[turn(data)] == max(needed)
        assert max(needed) not in needed[: turn(data)]


def test_gaps_are_all_or_those_that_one_value_crosses() -> None:
    some = 0
    for seed in range(60):
        data = small_data(seed)
        last = turn(data)
        assert gaps(data, LINEARIZED) == list(range(last))
        crossed = [
            [
                u
                for u, x in enumerate(data.values)
                if x.writer is not None and x.writer <= i and any(i < j <= last for j in x.readers)
            ]
            for i in range(last)
        ]
        expected = [i for i in range(last) if len(crossed[i]) == 1]
        assert gaps(data, ARTICULATION) == expected
        some += 0 < len(expected) < last
    assert some >= 10
    assert gaps(skipping_chain(6, ((1, 4),)), ARTICULATION) == [0, 1, 4]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, []),
        (1, [0]),
        (2, [0, 1]),
        (3, [1]),
        (4, [1, 3]),
        (9, [2, 5, 8]),
        (11, [2, 5, 8]),
        (16, [3, 7, 11, 15]),
    ],
)
def test_every_root(count: int, expected: list[int]) -> None:
    assert every_root([10 + i for i in range(count)]) == [10 + i for i in expected]


def test_greedy_segments_are_the_shortest_that_have_more_than_each_budget() -> None:
    for data in (skipping_chain(6, ((1, 4),)), *(small_data(seed) for seed in range(20))):
        last = turn(data)
        nbytes = [sum(data.values[u].nbytes for u in data.writes[i]) for i in range(last + 1)]
        for places in (gaps(data, LINEARIZED), gaps(data, ARTICULATION)):
            expected = []
            for k in range(BUDGETS):
                budget = sum(nbytes) * (BUDGETS - k) ** 2 // BUDGETS**2
                cuts: list[int] = []
                while True:
                    begin = cuts[-1] + 1 if cuts else 0
                    ends = [b for b in places if b >= begin and sum(nbytes[begin : b + 1]) > budget]
                    if not ends:
                        break
                    cuts.append(ends[0])
                if cuts not in expected:
                    expected.append(cuts)
            assert list(greedy_boundaries(data, places)) == expected


def test_greedy_segments_of_a_chain_by_hand() -> None:
    """Of six forwards of a byte each: b = 6, 5, 4, ... leaves more than b bytes only after b + 1 of them."""
    found = list(greedy_boundaries(skipping_chain(6), range(5)))
    assert found == [[], [4], [3], [2], [1, 3], [0, 1, 2, 3, 4]]


def test_runs_of_segments_are_those_of_the_definition() -> None:
    again = 0
    for seed in range(60):
        data = small_data(seed)
        places = gaps(data, LINEARIZED)
        for count in range(min(3, len(places)) + 1):
            for boundaries in combinations(places, count):
                runs = with_boundaries(data, list(boundaries))
                assert runs == by_definition(data, list(boundaries)), (seed, boundaries)
                again += len(runs) > data.n
    assert again >= 10


def test_segments_of_a_chain_by_hand() -> None:
    plain, skipping = skipping_chain(4), skipping_chain(4, ((0, 3),))
    assert with_boundaries(plain, []) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert with_boundaries(plain, [1]) == [0, 1, 2, 3, 4, 5, 6, 0, 7]
    assert with_boundaries(plain, [0, 1]) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert with_boundaries(plain, [2]) == [0, 1, 2, 3, 4, 5, 0, 1, 6, 7]
    assert with_boundaries(skipping, [2]) == [0, 1, 2, 3, 4, 5, 1, 6, 7]


def whole_by_definition(data: RecomputeData, boundaries: list[int]) -> list[int]:
    """The runs of whole segments, segment after segment, as the page describes them."""
    last = turn(data)
    segment = [sum(b < i for b in boundaries) for i in range(data.n)]
    lost = set()
    for u, x in enumerate(data.values):
        if x.writer is not None and x.writer <= last and segment[x.writer] < len(boundaries):
            across = any(i <= last and segment[i] > segment[x.writer] for i in x.readers)
            if not across and set(data.reads[x.writer]).isdisjoint(data.destroys[x.writer]):
                lost.add(u)
    runs = list(range(last + 1))
    for i in range(last + 1, data.n):
        for s in sorted({segment[data.values[u].writer or 0] for u in lost & set(data.reads[i])}):
            body = [j for j in range(last + 1) if segment[j] == s]
            wanted, again = {u for k in range(i, data.n) for u in data.reads[k]}, list[int]()
            for j in reversed(body):
                if lost & wanted & set(data.writes[j]):
                    again.append(j)
                    wanted |= set(data.reads[j])
            runs += sorted(again)
            lost -= {u for j in again for u in data.writes[j]}
        runs.append(i)
    return runs


def test_whole_segments_are_those_of_the_definition() -> None:
    """Tensors that are written again and again come in too: what updates itself runs once."""
    again = differs = 0
    for seed in range(60):
        data = small_data(seed, max_ops=9)
        if seed % 3 == 0:
            graph = random_graph(Random(seed), min_ops=5, max_ops=9, after=False)
            data = recompute_data(lt.Recompute(graph))
        places = gaps(data, LINEARIZED)
        assert equal_boundaries(places, 10**15) == sorted(places)
        for count in range(1, 4):
            boundaries = equal_boundaries(places, count)
            assert len(boundaries) == min(count - 1, len(places))
            runs = in_whole_segments(data, boundaries)
            assert runs == whole_by_definition(data, boundaries), (seed, boundaries)
            again += len(runs) > data.n
            differs += runs != with_boundaries(data, boundaries)
    assert again >= 10
    assert differs >= 3


def least_runs(data: RecomputeData, kept: list[set[int]]) -> list[int]:
    """Of all choices of ops in each stage, the smallest that finds what it reads and keeps what is wanted."""
    initial = {u for u, x in enumerate(data.values) if x.writer is None}
    there, found = set(initial), list[int]()
    for t in range(data.n):
        wanted = kept[t + 1] if t + 1 < data.n else {u for u, x in enumerate(data.values) if x.final}
        past = {u for u in wanted if (w := data.values[u].writer) is not None and w <= t}

        def works(runs: tuple[int, ...], past: set[int] = past, there: set[int] = there) -> bool:
            now = set(there)
            for i in runs:
                if not set(data.reads[i]) <= now:
                    return False
                now |= set(data.writes[i])
            return past <= now

        choices = ((*some, t) for count in range(t + 1) for some in combinations(range(t), count))
        runs = next(choice for choice in choices if works(choice))
        found += runs
        there = initial | (wanted & (there | {u for i in runs for u in data.writes[i]}))
    return found


def test_rounding_runs_the_least_that_finds_and_keeps_what_is_wanted() -> None:
    """Shares at random, also of values that are not there yet."""
    again = 0
    for seed in range(60):
        data = small_data(seed, max_ops=6)
        rng = Random(seed)
        shares = [[rng.random() for _ in data.values] for _ in range(data.n)]
        kept = [{u for u, share in enumerate(stage) if share > 0.6} for stage in shares]
        runs = rounded(data, shares, (0.6).__lt__)
        assert runs == least_runs(data, kept), seed
        again += len(runs) > data.n
    assert again >= 20
