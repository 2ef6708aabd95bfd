"""What forward saves for backward, so that both stay within a memory and the least is computed again.

A *saved set* is a set of tensors of a joint graph (`lowtide.results.adapters.joint_graph`) that do not
depend on the tangents. It fixes what torch runs:

* forward runs, in the order of the joint graph, the ops that its outputs or the saved tensors need;
* backward runs the ops that are left in that order; just before each of them, and before each view, ops of
  forward run again whose results it needs and that are not there, back to saved tensors and to what the
  caller holds.

A tensor lives from the op that makes it to its last use; a saved one to its last use in backward; an op
that runs in backward makes its results anew. So the peak of a set is known exactly, and a search over sets
compares peaks, where a knapsack compares bytes.

Source: ``pytorch/pytorch:torch/_functorch/partitioners.py``, functions
``_extract_graph_with_inputs_outputs`` and ``reordering_to_mimic_autograd_engine`` (2.13.0), whose orders
these are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from ...models.graph import Graph
from ...models.plan import Plan
from .joint_graph import CALLER

_TRIED = 30
"""Largest number of saved tensors that one step of the search compares, largest first; chosen by hand."""

_ROUNDS = 40
"""Rounds of perturbation without improvement after which the search ends; chosen by hand."""


@dataclass(frozen=True)
class SavedSet:
    """A saved set with what it costs.

    Parameters
    ----------
    saved
        Tensors that forward saves and backward reads.
    again
        Ops that run in forward and in backward.
    backward
        Ops that backward runs.
    peak
        Largest number of bytes that are alive.
    above
        Bytes above the memory, summed over all runs.
    time
        Nanoseconds of all runs.
    """

    saved: frozenset[int]
    again: frozenset[int]
    backward: frozenset[int]
    peak: int
    above: int
    time: int

    @property
    def rank(self) -> tuple[int, int, int]:
        """Return what makes one better than another: within the memory first, then time, then peak."""
        return self.above, self.time, self.peak


@dataclass(frozen=True)
class SavedSets:
    """The saved sets of a joint graph.

    Parameters
    ----------
    graph
        Its ops each once, with the op `CALLER` between the passes.
    memory
        Bytes that are there.
    fixed
        Ops that must not run again, such as those that draw random numbers.
    wide
        Forward may also run ops that only backward needs, such as masks, and save their results.
    views
        Pairs of an op and a tensor that a view just before the op looks at.
    """

    graph: Graph
    memory: int
    fixed: frozenset[int] = frozenset()
    wide: bool = True
    views: tuple[tuple[int, int], ...] = ()

    @cached_property
    def _caller(self) -> int:
        return next(i for i, op in enumerate(self.graph.ops) if op.name == CALLER)

    @cached_property
    def _maker(self) -> dict[int, int]:
        """Tensor that is not initial -> the op that makes it."""
        made = {t: i for i, op in reversed([*enumerate(self.graph.ops)]) for t in op.writes}
        return {t: i for t, i in made.items() if not self.graph.tensors[t].initial}

    @cached_property
    def forward(self) -> frozenset[int]:
        """The ops that forward runs: those that its outputs, and what it changes in place, need."""
        ops, tensors = self.graph.ops[: self._caller], self.graph.tensors
        changes = {i for i, op in enumerate(ops) if any(tensors[t].initial for t in op.writes)}
        return frozenset(self._needed_by({self._caller, *changes}) - {self._caller})

    @cached_property
    def early(self) -> frozenset[int]:
        """The ops whose results may be saved."""
        if not self.wide:
            return self.forward
        dependent = {self._caller}
        for i, op in enumerate(self.graph.ops):
            if any(self._maker.get(t) in dependent for t in op.reads):
                dependent.add(i)
        return frozenset(range(len(self.graph.ops))) - dependent

    @cached_property
    def _ends(self) -> list[int]:
        """The ops that backward runs in any case: those that make what stays."""
        finals = {i for t, i in self._maker.items() if self.graph.tensors[t].final}
        return sorted(finals - self.forward - {self._caller})

    def _needed_by(self, ops: Iterable[int], there: Collection[int] = ()) -> set[int]:
        """Return ops and all that they need, back to tensors that are there and to tangents."""
        closed: set[int] = set()
        waiting = list(ops)
        while waiting:
            i = waiting.pop()
            if i not in closed:
                closed.add(i)
                waiting += self._makers(i, there)
        return closed

    def _makers(self, i: int, there: Collection[int]) -> list[int]:
        """Return the ops that make what an op reads and is not there, the caller left out."""
        makers = (self._maker.get(t, self._caller) for t in self.graph.ops[i].reads if t not in there)
        return [j for j in makers if j != self._caller]

    def boundary(self) -> frozenset[int]:
        """Return the set with which nothing runs again: all that other ops read of what may be saved."""
        others = self._needed_by(self._ends, [t for t in self._maker if self._is_early(t)])
        read = {t for i in others for t in self.graph.ops[i].reads}
        return frozenset(t for t in read if self._is_early(t))

    def _is_early(self, t: int) -> bool:
        return self._maker.get(t) in self.early

    def of_plan(self, plan: Plan) -> frozenset[int]:
        """Return what a plan of `Recompute` has in memory between the passes and reads later."""
        runs = sorted(plan.runs, key=lambda run: run.start)
        k = next(k for k, run in enumerate(runs) if run.op == self._caller)
        anew: set[int] = set()
        kept = set()
        for run in runs[k + 1 :]:
            op = self.graph.ops[run.op]
            kept |= {t for t in op.reads if t not in anew and self._is_early(t)}
            anew.update(op.writes)
        return frozenset(kept)

    def partition(self, saved: Iterable[int]) -> SavedSet:
        """Return what a set costs.

        What is needed of `fixed` ops is saved, too; not saved is what backward never reads, and results of
        ops that must run again for others of their results.
        """
        there = {t for t in saved if self._is_early(t)}
        there |= {t for i in self.fixed & self.forward for t in self.graph.ops[i].writes}
        needed = self._needed_by(self._ends, there)
        while halves := {t for t in there if self._maker[t] in needed}:
            there -= halves
            needed = self._needed_by(self._ends, there)
        used = {t for i in needed for t in self.graph.ops[i].reads if t in there}
        return self._costs(*self.steps(used, needed), used)

    def steps(self, saved: Collection[int], needed: Collection[int]) -> tuple[list[int], list[int]]:
        """Return the ops that forward and backward run, in their order.

        Parameters
        ----------
        needed
            The ops that backward runs.
        """
        backward: list[int] = []
        done: set[int] = set()
        roots = [(i, 1, i) for i in needed if i > self._caller]
        roots += [
            (i, 0, self._maker[t])
            for i, t in self.views
            if i > self._caller and t not in saved and t in self._maker
        ]
        for *_, i in [*sorted(roots), *((i, 1, i) for i in sorted(needed))]:
            if i not in needed:
                continue
            missing: set[int] = set()
            waiting = [i]
            while waiting:
                j = waiting.pop()
                if j not in done and j not in missing:
                    missing.add(j)
                    waiting += self._makers(j, saved)
            backward += sorted(missing)
            done |= missing
        return sorted(self.forward | self._needed_by({self._maker[t] for t in saved})), backward

    def _costs(self, forward: list[int], backward: list[int], saved: set[int]) -> SavedSet:
        ops, tensors = self.graph.ops, self.graph.tensors
        steps = [*forward, self._caller, *backward]
        first_of: tuple[dict[int, int], dict[int, int]] = ({}, {})
        last_of: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for k, i in enumerate(steps):
            anew = k > len(forward)
            for t in ops[i].reads:
                again = anew and t not in saved and self._maker.get(t) != self._caller
                last_of[again][t] = k
            for t in ops[i].writes:
                first_of[anew].setdefault(t, k)
                last_of[anew].setdefault(t, k)
        change = [0] * (len(steps) + 1)
        for first, last in zip(first_of, last_of, strict=True):
            for t, k in first.items():
                if not tensors[t].initial:
                    change[k] += tensors[t].nbytes
                    stays = tensors[t].final and (first is first_of[0] or t not in first_of[0])
                    change[len(steps) if stays else last[t] + 1] -= tensors[t].nbytes
        alive = list(accumulate(change))
        return SavedSet(
            saved=frozenset(saved),
            again=frozenset(forward) & frozenset(backward),
            backward=frozenset(backward),
            peak=max(alive),
            above=sum(x - self.memory for x in alive if x > self.memory),
            time=sum(ops[i].duration_ns for i in steps),
        )

    def best(self, starts: Iterable[Iterable[int]], deadline: float, seed: int = 0) -> SavedSet:
        """Return the best partition that a search meets: within the memory, if it meets one, and the fastest.

        From each start and the `boundary` it descends to the memory, then saves again what fits; then it does
        the same from perturbed sets.

        Parameters
        ----------
        starts
            Saved sets.
        deadline
            Of ``time.monotonic``.
        """
        begun = sorted({self.partition(x) for x in (self.boundary(), *starts)}, key=lambda x: x.rank)
        best = begun[0]
        for k, start in enumerate(begun):
            left = max(0.0, deadline - time.monotonic())
            other = self._descended(start, time.monotonic() + left / (len(begun) - k + 1))
            best = min(best, other, key=lambda x: x.rank)
        rng, idle = random.Random(seed), 0
        early = sorted(t for t in self._maker if self._is_early(t))
        while idle < _ROUNDS and best.again and time.monotonic() < deadline:
            moved = rng.sample(early, min(len(early), rng.randint(1, 4)))
            other = self._descended(self.partition(best.saved.symmetric_difference(moved)), deadline)
            idle = 0 if other.rank < best.rank else idle + 1
            best = min(best, other, key=lambda x: x.rank)
        return best

    def _descended(self, now: SavedSet, deadline: float) -> SavedSet:
        """Return a partition after steps that save less until it fits, and then more while it fits."""
        while now.above and time.monotonic() < deadline:
            largest = sorted(now.saved, key=lambda t: (-self.graph.tensors[t].nbytes, t))[:_TRIED]
            options = [other for t in largest for other in self._less(now, t) if other.above < now.above]
            if not options:
                break
            now = max(options, key=lambda x: ((now.above - x.above) / max(1, x.time - now.time), -x.peak))
        for i in sorted(now.again, key=lambda i: -self.graph.ops[i].duration_ns):
            for t in self.graph.ops[i].writes:
                if time.monotonic() < deadline and t not in now.saved:
                    now = min(now, self.partition({*now.saved, t}), key=lambda x: x.rank)
        return now

    def _less(self, now: SavedSet, t: int) -> list[SavedSet]:
        """Return partitions without a tensor: it is made again, or with what it is made of in its place."""
        rest = now.saved - {t}
        inputs = {u for u in self.graph.ops[self._maker[t]].reads if self._is_early(u)}
        return [self.partition(x) for x in ([rest, rest | inputs] if inputs - rest else [rest])]
