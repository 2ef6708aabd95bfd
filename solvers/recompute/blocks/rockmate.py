"""`rockmate`: programs within blocks of the graph, and a program over the chain of blocks.

*Statement* (Zhao, Le Hellard, Eyraud-Dubois, Gusak and Beaumont, "Rockmate: an Efficient, Fast, Automatic and
Generic Tool for Re-materialization in PyTorch", ICML 2023).

1. The graph is cut into a chain of blocks where one value crosses (`cutting`).
2. Within each block a program of recomputation is solved for several budgets of what is saved between its
   forward and its backward, and of its peak (`within`); blocks that are the same are solved once. Each
   solution is an option: ticks of forward and backward, what it saves, what it needs.
3. The program of rotor (`chains.hetero`, (1) and (2)) chooses for each block an option, and blocks whose
   forward saves nothing and runs again. An option lets its input go when it needs that no more.

*What differs.* The programs within blocks are not Gurobi's. ``programs=moment`` solves what to save by the
MILP of one moment, the rest (`lowtide.formulations.recompute.moments_milp`): computed again just before use,
that is a fastest way wherever it keeps within the peak; else it is annealed. ``programs=checkmate`` solves
the MILP in stages on HiGHS. The published tool plans a forward and a backward,
and leaves the optimizer's step alone; here the graph is the whole step, so that gradients of weights take
memory until their updates, and an op that overwrites what it reads runs once and what it leaves stays. The
plan is judged for the graph, op by op.

*Not a bound.* A best choice of options is a fastest schedule neither of the problem (blocks run whole, what
is kept stays until its backward, budgets are few) nor, after the time is up, of the statement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ....formulations.recompute.data import RecomputeData
from ....formulations.recompute.moments_milp import by_need
from ....models.problems.recompute import Recompute
from ...context import Context, Outcome
from ..chains.hetero import NEVER, Costs, HeteroProgram, program, steps
from ..heuristics.method import (
    STOPPED,
    first_bound,
    known_runs,
    offer,
    offer_annealed,
    offer_heuristics,
)
from ..models.moments import raise_moments
from ..models.stages import solve_stages
from .cutting import BlockCut, cut
from .within import BlockGraph, BlockRun, alone, peak_of_sweep, sweeps_of, way_of, within

WITHIN = 0.9
"""Part of the time for the programs within blocks, at most."""

FIRST, LONGER = 0.02, 4
"""Seconds of a program within a block at first, where there is a limit; and how many times as long those
that did not end by themselves have next."""


def solve_rockmate(problem: Recompute, context: Context) -> Outcome:
    """Offer the schedule of the program over the blocks.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5)
    >>> result = lt.solve(problem, "rockmate")
    >>> result.objective, result.facts["blocks"], result.facts["different_blocks"]
    (13, 6, 3)
    """
    data = first_bound(problem, context)
    if data is None:
        return Outcome()
    chain = cut(data)
    blocks = list[BlockGraph]()
    for k in range(len(chain.blocks)):
        if context.expired:
            return Outcome(reason="time")
        blocks.append(within(data, chain, k))
    seconds = FIRST
    while True:
        outcome = _over_blocks(data, chain, blocks, context, seconds)
        if outcome.reason is None or context.expired or context.closed:
            return outcome
        seconds *= LONGER


def _over_blocks(
    data: RecomputeData, found: BlockCut, blocks: list[BlockGraph], context: Context, seconds: float
) -> Outcome:
    """Offer the schedule of the program over the blocks; a program within one has so many seconds."""
    ways, facts, whole = ways_of_blocks(blocks, context, seconds)
    if context.expired and not whole:
        return Outcome(reason="time", facts=facts)
    context.progress("program over the chain of blocks")
    chain = program(
        _stages(data, found, blocks, ways), data.memory - found.base, goes_on=lambda _: not context.expired
    )
    reason = None if whole else "time"
    if chain is None:
        return Outcome(reason="time", facts=facts)
    if chain.room(0) < 0 or chain.time(0, len(blocks) - 1, chain.room(0)) >= NEVER:
        return Outcome(reason=reason, detail="no choice of options fits", facts=facts)
    runs = list(_runs(data, found, chain, blocks, ways))
    if not offer(context, data, runs):
        detail = "the schedule does not fit when ops of several blocks meet"
        return Outcome(reason=reason, detail=detail, facts=facts)
    return Outcome(reason=reason, facts=facts)


def key_of(block: BlockGraph) -> tuple[str, frozenset[int]]:
    """Return what is the same of blocks that are the same."""
    return block.graph.sha256, block.once


def ways_of_blocks(
    blocks: Sequence[BlockGraph], context: Context, seconds: float
) -> tuple[list[list[BlockRun]], dict[str, int], bool]:
    """Return the options of each block, how many programs that took, and whether all ended by themselves.

    What a program that did gave is not asked for again, however often this is called.

    Parameters
    ----------
    seconds
        Of a program, where there is a limit.
    """
    saves, peaks = context.options["save-budgets"], context.options["peak-budgets"]
    ended: dict[object, BlockRun | None] = context.problem.__dict__.setdefault("_ways_of_blocks", {})
    keys = [key_of(block) for block in blocks]
    different = dict(zip(keys, blocks, strict=True))
    until = context.elapsed() + WITHIN * context.remaining()
    solved: dict[tuple[str, frozenset[int]], list[BlockRun]] = {}
    programs, whole = 0, True
    for key, block in different.items():
        answers: list[tuple[int, int, BlockRun | None]] = []
        for saved, peak in budgets(block, answers, saves, peaks):
            question = (key, saved, peak, context.seed, context.options["programs"])
            programs += 1
            if question in ended:
                answers.append((saved, peak, ended[question]))
                continue
            share = until - context.elapsed()
            if not math.isinf(share):
                share = min(share, seconds)
            if share <= 0:
                whole = False
                break
            began = context.elapsed()
            run = way_within(block, saved, peak, context, share)
            if context.elapsed() - began < share:
                ended[question] = run
            else:
                whole = False
            answers.append((saved, peak, run))
        found = not_beaten([run for _, _, run in answers if run is not None])
        solved[key] = [*found, *not_beaten(alone(block, found))]
        context.progress(f"{len(solved)} of {len(different)} different blocks, {programs} programs")
    facts = {"blocks": len(blocks), "different_blocks": len(different), "programs": programs}
    return [solved[key] for key in keys], facts, whole


def not_beaten(ways: Sequence[BlockRun]) -> list[BlockRun]:
    """Return the ways that no other one beats; of those that take the same, the first."""
    best: list[BlockRun] = []
    for x in ways:
        if not any(y.beats(x) for y in best):
            best = [*(y for y in best if not x.beats(y)), x]
    return best


def budgets(
    block: BlockGraph, answers: list[tuple[int, int, BlockRun | None]], saves: int, peaks: int
) -> Iterator[tuple[int, int]]:
    """Yield budgets of what is saved and of the peak, largest first, of which the answers do not say all.

    An answer to larger budgets that keeps within the smaller ones answers those too, and so does none.
    """
    whole = way_of(block, range(len(block.ops)))
    answers.append((whole.saved, whole.peak, whole))
    least = max(map(Recompute(block.graph).least_bytes, range(len(block.ops))))

    def open_yet(saved: int, peak: int) -> bool:
        return not any(
            s >= saved and p >= peak and (way is None or (way.saved <= saved and way.peak <= peak))
            for s, p, way in answers
        )

    for k in reversed(range(saves)):
        if block.rest is None:
            peak = least + (whole.peak - least) * k // saves
            if open_yet(0, peak):
                yield 0, peak
            continue
        saved = block.output + (whole.saved - block.output) * k // saves
        top = block.largest_peak
        for j in reversed(range(peaks)):
            peak = top if j == peaks - 1 else least + (top - least) * j // (peaks - 1)
            if open_yet(saved, peak):
                yield saved, peak
            if j == peaks - 1:
                top = min((way.peak for s, _, way in answers if way is not None and s == saved), default=top)


def way_within(block: BlockGraph, saved: int, peak: int, context: Context, seconds: float) -> BlockRun | None:
    """Return the best way that a program finds within two budgets, None if it finds none.

    Raises
    ------
    KeyboardInterrupt
        If the solver took Ctrl-C for its own.
    """
    problem = block.problem(saved, peak)
    if problem.impossible() is not None:
        return None
    inner = context.inner(problem, seconds, "block: ")
    data, outcome = first_bound(problem, inner), Outcome()
    if data is not None and context.options["programs"] == "checkmate":
        until = inner.elapsed() + inner.remaining() / 2
        offer_heuristics(inner, data, lambda: inner.elapsed() >= until)
        if not inner.closed:
            outcome = solve_stages(problem, data, inner, None)
    elif data is not None:
        outcome = _save_and_anneal(block, data, inner)
    if outcome.reason == "interrupted":
        raise KeyboardInterrupt
    runs = known_runs(inner)
    return None if runs is None else way_of(block, runs)


def _save_and_anneal(block: BlockGraph, data: RecomputeData, inner: Context) -> Outcome:
    """Offer what the program of one moment says to save, at the rest, and what annealing makes of it."""
    start = list(range(data.n))

    def take(runs: list[int]) -> None:
        start[:] = runs
        offer(inner, data, runs)

    moments = by_need(data)[:1] if block.rest is None else [block.rest]
    outcome = raise_moments(data, inner, moments, inner.remaining(), on_path=take)
    if not outcome.infeasible and outcome.reason not in STOPPED:
        offer_annealed(inner, data, lambda: False, start=start)
    return outcome


def _stages(
    data: RecomputeData, chain: BlockCut, blocks: Sequence[BlockGraph], ways: Sequence[list[BlockRun]]
) -> Costs:
    """Return the blocks as stages with options; bytes in units, ns in ticks."""
    sweeps = [sweeps_of(data, chain, k)[0] for k in range(len(blocks) - 1)]
    first, behind = (
        [*(peak_of_sweep(*pair, holding=held) for pair in zip(blocks, sweeps, strict=False)), 0]
        for held in (True, False)
    )
    options = [(k, way) for k, some in enumerate(ways) for way in some]
    inputs = [block.input for block in blocks]
    return Costs(
        taped=True,
        forward=[*(sum(data.duration[i] for i in some if i not in chain.once) for some in sweeps), 0],
        backward=[way.backward for _, way in options],
        inputs=inputs,
        tape=[way.saved - inputs[k] for k, way in options],
        top=list(chain.top),
        need_first=[a - b for a, b in zip(first, inputs, strict=True)],
        need_next=behind,
        save=[way.before - inputs[k] for k, way in options],
        back=[chain.through[k] + way.after - inputs[k] for k, way in options],
        counts=[len(some) for some in ways],
        saving=[way.forward for _, way in options],
        alone=[way.alone for _, way in options],
    )


def _runs(
    data: RecomputeData,
    whole: BlockCut,
    chain: HeteroProgram,
    blocks: Sequence[BlockGraph],
    ways: Sequence[list[BlockRun]],
) -> Iterator[int]:
    """Yield the ops of the schedule as they run."""
    options = [way for some in ways for way in some]
    passed = set[int]()
    for kind, s, x in steps(chain, 0, len(blocks) - 1, chain.room(0)):
        if kind == "sweep":
            for k in range(s, x):
                first, again = sweeps_of(data, whole, k)
                yield from again if k in passed else first
                passed.add(k)
            continue
        block, runs = blocks[s], options[x].runs
        at = len(runs) if block.rest is None else runs.index(block.rest)
        skipped = whole.once if s in passed else frozenset()
        for p in runs[:at] if kind == "save" else runs[at + 1 :]:
            i = block.ops[p]
            if i is not None and i not in skipped:
                yield i
        if kind == "back":
            passed.add(s)
