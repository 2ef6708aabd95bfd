"""Mutated splits of hybrid stages: the judge says of each what the letter of the rules says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import lowtide as lt
from tests.effort import share
from tests.oracles.brute_hybrid import objective
from tests.problems.hybrid import random_hybrid, random_stages

KINDS = ("t1", "t2", "t3", "t4", "t9", "t0", "t01", "t-1", "cpu", "", "t", "T2", "t2 ", "t٢", "t1000000000")
ODD: tuple[Any, ...] = (-1, 0, True, 1.0, "1", None, 10**30, (0,), 2**70)


def mutated(rng: Random, split: lt.Split) -> lt.Split:
    """Return the split with one thing changed."""
    field = rng.choice(("stage", "stage", "kinds", "replicas", "modes", "modes", "all"))
    if field == "all":  # one stage falls apart, or two become one
        s = rng.randrange(len(split.kinds))
        if rng.random() < 0.5:
            stage = tuple(x + (x > s or (x == s and rng.random() < 0.5)) for x in split.stage)
            at = s + 1
            return replace(
                split,
                stage=stage,
                kinds=(*split.kinds[:at], split.kinds[s], *split.kinds[at:]),
                replicas=(*split.replicas[:at], rng.choice((1, split.replicas[s])), *split.replicas[at:]),
            )
        return replace(split, stage=tuple(x - (x > s and x > 0) for x in split.stage))
    row = list(getattr(split, field))
    k = rng.randrange(len(row))
    if field == "kinds":
        row[k] = rng.choice(KINDS)
    elif rng.random() < 0.15:
        row[k] = rng.choice(ODD)
    else:
        row[k] += rng.choice((-1, 1, 1, 2))
    if rng.random() < 0.05:
        del row[k]
    elif rng.random() < 0.1:
        other = rng.randrange(len(row))
        row[k], row[other] = row[other], row[k]
    return replace(split, **{field: tuple(row)})


def compact(split: lt.Split) -> lt.Split:
    """Return the split without stages of no op."""
    used = sorted(set(split.stage))
    return replace(
        split,
        stage=tuple(used.index(s) for s in split.stage),
        kinds=tuple(split.kinds[s] for s in used),
        replicas=tuple(split.replicas[s] for s in used),
    )


def meaningless(problem: lt.Hybrid, split: lt.Split) -> bool:
    """Return whether some number is none, or names nothing."""
    n, count = len(problem.graph.ops), len(split.kinds)
    if (len(split.stage), len(split.modes), len(split.replicas)) != (n, n, count):
        return True
    if any(not isinstance(x, int) for row in (split.stage, split.modes, split.replicas) for x in row):
        return True
    if any(not 0 <= s < count for s in split.stage) or min(split.replicas) < 1:
        return True
    if any(not 0 <= m < len(op.all_modes) for m, op in zip(split.modes, problem.graph.ops, strict=True)):
        return True
    return any(kind not in {f"t{k}" for k in range(1, 10)} for kind in split.kinds)


def attack(seed: int, changes: int = 12) -> Counter[str]:
    """Hold the judge of a question against the rules, on the best split and changes of it."""
    rng, problem, seen = Random(seed), random_hybrid(seed), Counter[str]()
    result = lt.solve(problem, threads=1)
    split = random_stages(problem, rng) if result.plan is None else problem.read(result.plan)
    for _ in range(changes):
        changed = mutated(rng, split)
        if rng.random() < 0.4 and not meaningless(problem, changed):
            changed = mutated(rng, changed)
        where = (seed, changed)
        if meaningless(problem, changed):
            with pytest.raises(lt.InstanceError):
                problem.read(changed)
            seen["refused"] += 1
            continue
        judged, expected = problem.judge(problem.read(changed)), objective(problem, compact(changed))
        assert judged.objective == expected, where
        assert bool(judged.verification.violations) == (expected is None), where
        if expected is not None:
            assert result.objective is not None
            assert result.objective <= expected, where
            assert judged.plan is not None
            assert problem.judge(problem.read(judged.plan)).objective == expected, where
        seen["rejected" if expected is None else "accepted"] += 1
    return seen


def attacks(seeds: range) -> None:
    seen: Counter[str] = sum((attack(seed) for seed in seeds), Counter())
    assert min(seen[x] for x in ("refused", "accepted", "rejected")) > len(seeds) // 2, seen


@pytest.mark.slow
def test_the_judge_of_mutated_splits() -> None:
    attacks(range(share(500)))


@pytest.mark.slow
def test_the_judge_of_more_mutated_splits() -> None:
    attacks(range(1000, 1000 + share(1000)))
