"""`tflms-v1`: every activation leaves for the backward pass; control edges of the graph say when it returns.

Source: Le, Imai, Negishi and Kawachiya, TFLMS: Large Model Support in TensorFlow by Graph Rewriting, arXiv
1807.02037, 2018, and its first version (IBM/tensorflow-large-model-support, branch tflmsv1).

Steps.

1. Where everything fits, nothing is rewritten.
2. Tensors that forward ops make and backward ops use, in the order of their producers, the first `tensors`
   of them (0: all), are swapped out behind their last forward use, and in for each backward use (``fuse=1``:
   once for all of them). With ``branch=D``, also between forward uses more than D ops apart.
3. A swap-in of what f made, for op b, starts behind a control op. ``rule=direct``: the nearest of the ops at
   b - `low` down to b - `high`, not before f, that b depends on. ``rule=chain``: from f along the consumers,
   level by level; once `low` levels are passed, a backward op that uses what a level's ops made and lies
   between f and b, within `high` levels; where b - `low` lies before the backward pass, the direct rule.
4. Without a control op a swap-in follows the swap-out at once.

Sizes, times and the memory play no part. It fails if the rest does not fit.

Abstracted: levels of the graph are ops of the reference order, one a level. Of several control ops, among
which the code chooses arbitrarily, the last is taken; copies for neighbouring uses are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....models.arrays import Integers
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.problem import NEVER, SimulatedProblem
from .follow import Candidates, follow
from .loads import nothing_moves, swap, turn_of

REACH = 10_000
"""Ops that the search for what an op depends on goes back."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of the rewriting."""

    rule: str = "chain"
    low: int = 1
    high: int = 10_000
    tensors: int = 0
    fuse: bool = False
    branch: int = 0


PUBLISHED = Settings()
"""Its defaults."""


def solve_tflms_v1(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    names = ("rule", "low", "high", "tensors", "fuse", "branch")
    settings = Settings(**{name: context.options[name] for name in names})
    return follow(problem, context, lambda case: decide(case, settings), first=True)


def decide(case: SimulatedProblem, settings: Settings = PUBLISHED) -> Candidates:
    """Return the policy's decisions."""
    yield "nothing swapped", nothing_moves(case)
    chosen = swapped(case, settings)
    flow, back = DataFlow(case), np.zeros(len(case.absence_tensor), dtype=np.int64)
    for g in chosen.tolist():
        case.tick()
        maker = case.accesses[int(case.absence_tensor[g])][0][0]
        control = flow.control(maker, int(case.absence_next[g]), settings)
        back[g] = 0 if control is None else 2 * (control + 1)
    yield "", swap(case, chosen, back)


def swapped(case: SimulatedProblem, settings: Settings) -> Integers:
    """Return the absences in which tensors are away (step 2)."""
    turn = turn_of(case)
    first, after = case.absence_first, case.absence_next
    maker = np.array([case.accesses[i][0][0] for i in case.absence_tensor.tolist()], dtype=np.int64)
    plain = ~case.persistent[case.absence_tensor] & (first >= 0) & (after < NEVER) & (maker < turn)
    away = plain & (after >= turn) & ((first < turn) | (not settings.fuse))
    tensors = dict.fromkeys(case.absence_tensor[away][np.argsort(maker[away], kind="stable")].tolist())
    if settings.tensors:
        away &= np.isin(case.absence_tensor, list(tensors)[: settings.tensors])
    if settings.branch:
        away |= plain & (after < turn) & (after - first > settings.branch)
    return np.flatnonzero(away)


class DataFlow:
    """The ops that use what an op made last, and the ops that an op depends on."""

    def __init__(self, case: SimulatedProblem) -> None:
        self.turn, self.tick = turn_of(case), case.tick
        self.users: list[list[int]] = [[] for _ in case.graph.ops]
        self.made_by: list[list[int]] = [[] for _ in case.graph.ops]
        writer: dict[int, int] = {}
        for k, op in enumerate(case.graph.ops):
            for made in sorted({writer[t] for t in op.reads if t in writer}):
                self.users[made].append(k)
                self.made_by[k].append(made)
            writer.update(dict.fromkeys(op.writes, k))

    @cached_property
    def above(self) -> list[int]:
        """Return per op, as bits, on which of the `REACH` ops before it it depends."""
        above: list[int] = []
        for k, made_by in enumerate(self.made_by):
            self.tick()
            bits, base = 0, max(k - REACH, 0)
            for made in made_by:
                if made >= base:
                    bits |= (above[made] >> (base - max(made - REACH, 0))) | (1 << (made - base))
            above.append(bits)
        return above

    def last_above(self, op: int, limit: int) -> int:
        """Return the last op up to `limit` that an op depends on, -1 if there is none in reach."""
        base = max(op - REACH, 0)
        bits = self.above[op] & ((1 << max(limit + 1 - base, 0)) - 1)
        return base + bits.bit_length() - 1 if bits else -1

    def control(self, maker: int, op: int, settings: Settings) -> int | None:
        """Return the control op of the swap-in of what `maker` made for a backward op (step 3)."""
        if settings.rule == "direct" or op - settings.low < self.turn:
            found = self.last_above(op, op - settings.low)
            return found if found >= max(op - settings.high, maker, 0) else None
        level, seen = [maker], {maker}
        for depth in range(1, settings.high + 1):
            level = sorted({k for made in level for k in self.users[made] if k < self.turn} - seen)
            if not level:
                return None
            seen.update(level)
            if depth < settings.low:
                continue
            between = [k for made in level for k in self.users[made] if max(maker, self.turn - 1) < k < op]
            if between:
                return max(between)
        return None
