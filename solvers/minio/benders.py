"""Method `benders` of `minio`: cuts decide what to write, Liu's algorithm whether an order can do with it.

The rounds:

1. solve the program of `lowtide.formulations.minio.cuts_cpsat` for a while; its bound is the problem's;
2. Liu's order with what is left waiting (`lowtide.solvers.minio.waiting`): if its peak is in the
   memory, it is a traversal that writes so much, the least if the program was solved to its end;
3. else the largest subtree that exceeds the memory, and each one without another one below that does, give
   cuts, for several sequences of its files; expansion (`expansion`) from what is written gives a traversal.

The bound is raised at most to the incumbent, which would hide a cut that is wrong; so before it is raised,
the incumbent must meet every cut, as all traversals do.

The program begins with the packed cuts of `bounds`, and each round has more of CP-SAT's deterministic time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from ...formulations.minio import cuts_cpsat as formulation
from ...formulations.minio.data import MinIOData, written_at_once
from ...models.problems.minio import MinIO
from ..context import Context, Outcome
from ..engines import cpsat
from ..engines.logs import check_log, logged
from ..engines.master import Master
from .evictions import RULES, evict
from .expansion import expanded_order
from .waiting import Sequencer, TreeCut, WaitingTree, below, disjoint_cuts

FIRST_ROUND = 1.0
"""Of CP-SAT's deterministic time, about seconds."""

GROWTH = 1.25
"""Factor from round to round of the time that CP-SAT gets for the program."""

KIND = "cuts of subtrees"
"""The kind of the bound."""


class EvictionProgram(Master):
    """Units to write of each part, under the cuts; an answer is a mapping of parts to units."""

    name: ClassVar[str] = "minio by cuts"
    unit: ClassVar[str] = "units"

    def evaluate(self, answer: Mapping[int, int]) -> int:
        """Return how many there are."""
        return sum(answer.values())


@dataclass(kw_only=True)
class BendersRounds:
    """What is kept between rounds; of cuts their parts with s in units, and their gains in bytes."""

    problem: MinIO
    data: MinIOData
    context: Context
    master: formulation.CutMaster
    random: Random
    cuts: dict[tuple[tuple[tuple[int, int], ...], int], None] = field(default_factory=dict)
    cutoff: int | None = None

    @property
    def memory(self) -> int:
        """M in bytes, whole units of it."""
        return self.data.memory // self.data.unit * self.data.unit


def solve_by_cuts(problem: MinIO, data: MinIOData, cuts: Sequence[TreeCut], context: Context) -> Outcome:
    """Go through the rounds, beginning with some cuts, until bound and incumbent meet or the time is up."""
    if context.log is not None:
        check_log(context.log)
    rounds = begun(problem, data, cuts, context)
    return go_through(rounds)


def begun(problem: MinIO, data: MinIOData, cuts: Sequence[TreeCut], context: Context) -> BendersRounds:
    """Return rounds that have some cuts."""
    began = time.perf_counter()
    rounds = BendersRounds(
        problem=problem,
        data=data,
        context=context,
        master=formulation.build(data),
        random=Random(context.seed),
    )
    for cut in cuts:
        _add_cut(rounds, cut, {})
    context.known.build_seconds = time.perf_counter() - began
    return rounds


def go_through(rounds: BendersRounds) -> Outcome:
    """Go through the rounds until bound and incumbent meet or the time is up."""
    context = rounds.context
    _add_cuts(rounds, {})
    effort = FIRST_ROUND
    while not context.closed and not context.expired:
        written, outcome = _solve_program(rounds, effort)
        if outcome.infeasible and context.incumbent is not None:
            _raise_bound(rounds, context.incumbent)
        elif outcome.reason in ("interrupted", "memory", "crash"):
            return outcome
        elif written is not None and not context.closed:
            _add_cuts(rounds, written)
        effort *= GROWTH
    return Outcome(reason=None if context.closed else "time", detail=f"{len(rounds.cuts)} cuts")


def _solve_program(rounds: BendersRounds, effort: float) -> tuple[Mapping[int, int] | None, Outcome]:
    """Solve the program for a while; return what it writes, if anything was found, and how it ended."""
    context, unit = rounds.context, rounds.data.unit
    if context.incumbent is not None and context.incumbent != rounds.cutoff:
        rounds.cutoff = context.incumbent
        formulation.add_cutoff(rounds.master, context.incumbent)
    inner = context.inner(EvictionProgram(rounds.problem.graph), prefix=None)
    outcome = logged(
        inner,
        lambda: cpsat.solve_cpsat(
            rounds.master.model,
            inner,
            decode=lambda value: formulation.decode(rounds.master, value),
            to_objective=lambda units: units,
            defaults={"max_deterministic_time": f"{effort:.3f}"},
        ),
    )
    if inner.bound is not None:
        _raise_bound(rounds, inner.bound * unit)
    return inner.answer, outcome


def _raise_bound(rounds: BendersRounds, nbytes: int) -> None:
    """Raise the bound, at most to the incumbent, unless the incumbent does not meet a cut.

    Raises
    ------
    RuntimeError
        If it does not: the cut is wrong, and the bound may be.
    """
    context, data = rounds.context, rounds.data
    if context.incumbent is not None:
        nbytes = min(nbytes, context.incumbent)
        by_tensor = rounds.problem.written(context.answer)
        written = formulation.part_bytes(rounds.master, [by_tensor[t] for t in data.tensor])
        for parts, gain in rounds.cuts:
            if not formulation.is_met(rounds.master, parts, gain, written):
                raise RuntimeError(
                    f"a cut of {len(parts)} parts: the incumbent of {context.incumbent} bytes does not meet "
                    f"its gain of {gain} bytes, so the cut is wrong and bounds are not proved"
                )
    context.raise_bound(nbytes, kind=KIND)


def _add_cuts(rounds: BendersRounds, written: Mapping[int, int]) -> None:
    """Test what is written of the parts; offer a traversal; add cuts if no order can do with it."""
    data, master, context = rounds.data, rounds.master, rounds.context
    nbytes = formulation.file_bytes(master, written)
    left = [size - w for size, w in zip(data.size, nbytes, strict=True)]
    waiting = [sum(left[k] for k in some) for some in data.files_of]
    tree = WaitingTree(data, waiting)
    high = [tree.peak(i) > rounds.memory for i in range(data.n)]
    if not high[-1]:
        order = tree.order(data.n - 1)
        if data.whole:
            context.offer(written_at_once(data, order, nbytes))
    else:
        order = list(expanded_order(data, sizes=left, expired=lambda: context.expired))
    for rule in RULES if data.whole else ("furthest",):
        context.offer(evict(data, order, rule))
    tops = {i for i in range(data.n) if high[i] and not any(high[c] for c in data.children[i])}
    if high[-1]:
        tops.add(data.n - 1)
    sequencers: tuple[Sequencer, ...] = (
        lambda nodes: nodes.sort(key=lambda v: (-waiting[v], v)),
        list.sort,
        rounds.random.shuffle,
    )
    for i in sorted(tops):
        for sequencer in sequencers:
            if context.expired:
                return
            tree.resize({v: waiting[v] for v in below(data, data.children[i])}, i)
            for cut in disjoint_cuts(tree, i, rounds.memory, sequencer, lambda: context.expired):
                _add_cut(rounds, cut, written)


def _add_cut(rounds: BendersRounds, cut: TreeCut, written: Mapping[int, int]) -> None:
    """Add a cut unless the program has it."""
    parts = formulation.shares(rounds.master, cut.waiting, written)
    if (parts, cut.gain) not in rounds.cuts:
        rounds.cuts[parts, cut.gain] = None
        formulation.add_cut(rounds.master, parts, cut.gain)
