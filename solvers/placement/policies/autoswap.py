"""`autoswap`: swap the accesses' absences around the peak of the load, in the order of a score.

Source: Zhang et al., SmartPool and AutoSwap, arXiv 1903.06631, 2019; details after its code
(junzhezhang/memInfoSwap, unit_functions.py). SmartPool is the method `smartpool` of `offsets`.

Steps.

1. Candidates are the absences of tensors around the op of the highest load, of tensors of at least `smallest`
   bytes that live at least `shortest` ns. Scores, by option ``score``:
   *doa*, the duration of absence, less the times of the two copies; *aoa*, the area of absence: doa times
   bytes; *wdoa*, the sum of the load over the absence; *swdoa*, wdoa computed again after each choice. A
   negative doa is divided by the bytes in aoa. Without the option all four are tried, then `trials` sums of
   the four, each divided by its greatest value, with random weights; the fastest plan is taken.
2. They are taken in the order of the score until the load fits. If they run out while the load is too high at
   another op, that op's candidates follow (the original has one peak).
3. Copies out follow each other in the order of the absences' beginnings. Returns are planned from the last to
   the first: each ends when the tensor is used, or when the return behind it begins.

Where absences nest, as those of a forward pass whose activations are used in reverse, the longest absence
ends with the furthest next use, and doa and wdoa take the absences that `belady` takes (on ViT and ResNet152
exactly); anchors of returns still differ.

Abstracted: the weights of the four scores, which the paper tunes by Bayesian optimization, are drawn from a
seed; the start of a return is moved to the beginning of the op that runs then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.problem import NEVER, SimulatedProblem
from ..simulator.simulator import Decisions
from ..world.channels import channel_back
from .follow import Candidates, follow
from .loads import add_load, forced_away, swap

Bools = NDArray[np.bool_]
Points = Integers | NDArray[np.float64]
SCORES = ("doa", "aoa", "wdoa", "swdoa")


def solve_autoswap(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    options = context.options
    smallest, shortest = options["smallest"], options["shortest"]
    names, trials = ((options["score"],), 0) if "score" in options else (SCORES, options["trials"])
    random = Random(context.seed)

    def run(case: SimulatedProblem) -> Candidates:
        closed = too_small(case, smallest, shortest)
        yield from decide(case, names, closed)
        for _ in range(trials):
            weights = {score: random.random() for score in SCORES}
            words = ", ".join(f"{weight:.2f} {score}" for score, weight in weights.items())
            yield words, _decide(case, weights, closed)

    return follow(problem, context, run)


def decide(case: SimulatedProblem, some: Sequence[str] = SCORES, closed: Bools | None = None) -> Candidates:
    """Return the policy's decisions by each of some scores; `closed`: absences that do not count."""
    for score in some:
        yield score, _decide(case, {score: 1.0}, closed)


def too_small(case: SimulatedProblem, smallest: int, shortest: int) -> Bools:
    """Return which absences are of tensors of fewer bytes, or that live for less time (ns)."""
    spans = [(some[0][0], some[-1][0] + 1) for some in case.accesses]
    lives = np.array([case.clock[last] - case.clock[first] for first, last in spans], dtype=np.int64)
    lives[case.persistent] = case.clock[case.ops]
    found: Bools = (case.absence_size < smallest) | (lives[case.absence_tensor] < shortest)
    return found


def _decide(case: SimulatedProblem, weights: Mapping[str, float], excluded: Bools | None) -> Decisions:
    load = case.live.copy()
    closed = np.zeros(len(case.absence_tensor), dtype=np.bool_) if excluded is None else excluded.copy()
    closed[forced_away(case)] = True
    chosen = []
    changing = {score: weight for score, weight in weights.items() if score == "swdoa"}
    lasting = {score: weight for score, weight in weights.items() if score != "swdoa"}
    points = first = weighted(case, lasting, load, len(weights) == 1)
    while load.max() > case.memory:
        case.tick()
        peak = int(np.argmax(load))
        around = (case.absence_first < peak) & (peak < case.absence_next)
        around |= (case.absence_next < NEVER) & (peak < case.absence_next - case.ops)
        open_absences = np.flatnonzero(around & ~closed)
        if not len(open_absences):
            break
        if changing:
            points = first + weighted(case, changing, load, len(weights) == 1)
        g = int(open_absences[np.argmax(points[open_absences])])
        closed[g] = True
        chosen.append(g)
        add_load(case, load, g, int(case.absence_next[g]), -1)
    away = swap(case, np.array(chosen, dtype=np.int64), case.absence_next)
    return replace(away, back=_returns(case, away.tier))


def weighted(
    case: SimulatedProblem, weights: Mapping[str, float], load: Integers, alone: bool = False
) -> Points:
    """Return per absence the weighted sum of scores, each over its greatest value; `alone`: as it is."""
    total: Points = np.zeros(len(case.absence_tensor), dtype=np.int64)
    for score, weight in weights.items():
        points = scores(case, score, load)
        total = points if alone else total + weight * points / max(int(np.abs(points).max(initial=0)), 1)
    return total


def scores(case: SimulatedProblem, score: str, load: Integers) -> Integers:
    """Return the score of every absence (step 1)."""
    n = case.ops
    low = case.absence_first + 1
    high = np.where(case.absence_next >= NEVER, n, case.absence_next)
    if score in ("wdoa", "swdoa"):
        area = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.tile(load // 2**10 + 1, 2))))
        return area[high] - area[low]
    near = case.outer[0]
    trip = [
        case.transfer_ns(size, near - 1) + case.transfer_ns(size, near + 1)
        for size in case.absence_size.tolist()
    ]
    absence = case.clock[high] - case.clock[low] - np.array(trip, dtype=np.int64)
    if score == "doa":
        return absence
    area = np.where(absence < 0, absence // case.absence_size, 0)
    return np.where(absence < 0, area, absence // 2**10 * case.absence_size)


def _returns(case: SimulatedProblem, tier: Integers) -> Integers:
    """Return the anchors of the returns (step 3), channel by channel."""
    back = np.full(len(tier), -1, dtype=np.int64)
    for x in case.outer:
        due = 2**62
        away = np.flatnonzero((tier == x) & (case.absence_next < NEVER)).tolist()
        case.tick()
        for g in sorted(away, key=lambda g: (-int(case.absence_next[g]), g)):
            end = min(int(case.clock[case.absence_next[g]]), due)
            due = end - case.transfer_ns(int(case.absence_size[g]), channel_back(x))
            op = int(np.searchsorted(case.clock, due, side="right")) - 1
            back[g] = 2 * max(op, int(case.absence_first[g]) + 1)
    return back
