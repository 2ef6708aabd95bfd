"""`hiremate`: a hierarchy of parts of the graph, a program at each level over the options of the one below.

*Statement* (Gusak, Zhao, Le Hellard, Li, Eyraud-Dubois and Beaumont, "HiRemate: Hierarchical Approach for
Efficient Re-materialization of Neural Networks", ICML 2025; the text was not at hand: what follows is taken
from its abstract and from the public program of its authors).

1. The forwards are cut into parts, each with its backwards (`parts`), and parts into parts, down to ``leaf``
   forwards; any number of values may cross, other than between Rockmate's blocks.
2. For each part several budgets of what is saved between its forward and its backward, and of its peak; each
   solution is an option of the level above. Parts that are the same are solved once. Above the leaves a
   program (`lowtide.formulations.recompute.layers_milp`) chooses options of the parts within, what stays of
   the values between them, and which parts run again.
3. At the top the same program, within the memory.

*What differs.* Leaves are not solved by the program for layers of single ops, but as Rockmate's blocks are
(`rockmate`, option ``programs``). Parts are intervals of the reference order, and the optimizer's step is
part of the graph. At the top the program counts more than the schedule needs: as long as that leaves memory,
it is solved again with so much more, and with less where it does not fit.
The plan is judged op by op. The public program can have several partitions of a graph; here there is one.

*Not a bound*: no schedule of parts is faster than the best one of ops, and options are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ....formulations.model import BuildTimeout, ticker
from ....formulations.recompute import layers_milp
from ....formulations.recompute.data import RecomputeData, levels, recompute_data, time_of
from ....formulations.recompute.layers_milp import LayerOption, LayerPair, Layers, LayerStep
from ....models.problems.recompute import Recompute
from ...context import Context, Outcome
from ...engines.model import solve_model
from ..heuristics.method import STOPPED, first_bound, offer
from .cutting import BlockCut
from .parts import parts
from .rockmate import budgets, key_of, not_beaten, way_within
from .within import BlockGraph, BlockRun, peak_of_sweep, way_of, within

BELOW = 0.7
"""Part of the time for the parts below the top, at most."""

SKIPPED = 2
"""Of so many budgets about one needs a program: larger ones answer the others, too (`rockmate.budgets`)."""

OPTIONS = 8
"""Options of a part that the program above it chooses from, at most."""

ROUNDS = 8
"""Programs at the top, each in another memory, at most."""

LEAST = 3
"""Parts at the top, at least, where there are so many forwards."""

MORE = 12
"""Of the memory one such part is added while the program at the top has no solution."""

Key = tuple[str, frozenset[int]]


@dataclass(frozen=True, kw_only=True)
class HiremateLevel:
    """A graph as parts.

    Attributes
    ----------
    data, found
        The graph, and its parts.
    blocks, keys
        By part its graph, and what it is known by.
    """

    data: RecomputeData
    found: BlockCut
    blocks: tuple[BlockGraph, ...]
    keys: tuple[Key, ...]


Known = dict[Key, tuple[BlockGraph, HiremateLevel | None]]
"""By key a part, and its own parts; leaves first."""


def solve_hiremate(problem: Recompute, context: Context) -> Outcome:
    """Offer the schedules of the program at the top.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Recompute(lt.load("gen:backprop-chain?l=9"), memory=7)
    >>> result = lt.solve(problem, "hiremate", options={"leaf": "2"})
    >>> result.objective, result.facts["parts"], result.facts["levels"]
    (23, 5, 2)
    """
    data = first_bound(problem, context)
    if data is None:
        return Outcome()
    known: Known = {}
    try:
        top = level_of(data, None, LEAST, context, known)
        if top is None:
            return Outcome(detail="one part only: too few forwards")
        ways, programs = options_of(known, context)
    except BuildTimeout:
        return Outcome(reason="time")
    facts = {"parts": len(top.blocks), "levels": _depth(top, known), "different_parts": len(known)}
    memory, tried, detail = data.memory, set[int](), ""
    for _ in range(ROUNDS):
        if context.expired or context.closed or memory in tried:
            break
        tried.add(memory)
        context.progress(f"program over {len(top.blocks)} parts")
        orders = list[list[int]]()
        outcome = solve_layers(
            layers_of(top, ways, memory, 0), top, ways, context, context.remaining(), orders.append
        )
        programs += 1
        if outcome.reason in STOPPED:
            return Outcome(reason=outcome.reason, detail=outcome.detail, facts=facts)
        for runs in orders:
            offer(context, data, runs)
        if orders:
            memory += data.memory - max(levels(data, min(orders, key=partial(time_of, data))))
        elif context.answer is None:
            memory += data.memory // MORE
            detail = "no choice of options fits"
    return Outcome(
        reason="time" if context.expired else None,
        detail="" if context.answer is not None else detail,
        facts={**facts, "programs": programs},
    )


def level_of(
    data: RecomputeData,
    rest: int | None,
    least: int,
    context: Context,
    known: Known,
) -> HiremateLevel | None:
    """Return a graph as parts, None if it is a leaf; what is new below it goes to `known`, leaves first.

    Raises
    ------
    BuildTimeout
        If the time was up.
    """
    tick, most, leaf = ticker(lambda: context.expired), context.options["parts"], context.options["leaf"]
    chain = parts(data, rest, least=least, most=most, leaf=leaf, tick=tick)
    if chain is None:
        return None
    blocks = []
    for k in range(len(chain.blocks)):
        tick()
        blocks.append(within(data, chain, k))
    keys = tuple(key_of(block) for block in blocks)
    for k, (key, block) in enumerate(zip(keys, blocks, strict=True)):
        if key not in known and (rest is None or k + 1 < len(blocks)):
            inside = recompute_data(Recompute(block.graph))
            known[key] = (block, level_of(inside, block.rest, 1, context, known))
    return HiremateLevel(data=data, found=chain, blocks=tuple(blocks), keys=keys)


def _depth(level: HiremateLevel, known: Known) -> int:
    """Return the levels from one down."""
    below = (known[key][1] for key in level.keys if key in known)
    return 1 + max((_depth(some, known) for some in below if some is not None), default=0)


def options_of(known: Known, context: Context) -> tuple[dict[Key, list[BlockRun]], int]:
    """Return the options of each part, leaves first, and how many programs that took.

    Raises
    ------
    BuildTimeout
        If the time was up.
    """
    tick = ticker(lambda: context.expired)
    saves, peaks = context.options["save-budgets"], context.options["peak-budgets"]
    until = context.elapsed() + BELOW * context.remaining()
    solved = dict[Key, list[BlockRun]]()
    programs = 0
    for key, (block, level) in known.items():
        tick()
        left = (len(known) - len(solved)) * saves * peaks // SKIPPED
        answers: list[tuple[int, int, BlockRun | None]] = []
        for saved, peak in budgets(block, answers, saves, peaks):
            share = (until - context.elapsed()) / max(1, left)
            if share <= 0:
                break
            if level is None:
                run = way_within(block, saved, peak, context, share)
            else:
                run = _way_over_parts(block, level, solved, saved, peak, context, share)
            answers.append((saved, peak, run))
            programs += 1
            left -= 1
        found = [*(run for _, _, run in answers if run is not None), *_everything_again(block)]
        solved[key] = _some(not_beaten(found))
        context.progress(f"{len(solved)} of {len(known)} different parts, {programs} programs")
    return solved, programs


def _everything_again(block: BlockGraph) -> list[BlockRun]:
    """Return the way in which a part saves nothing, and all that its backward needs runs again, if any."""
    if block.rest is None:
        return []
    data = recompute_data(Recompute(block.graph))
    again, wanted = list[int](), {u for i in range(block.rest + 1, data.n) for u in data.reads[i]}
    for i in reversed(range(block.rest)):
        if i not in block.once and not wanted.isdisjoint(data.writes[i]):
            again.append(i)
            wanted |= set(data.reads[i])
    runs = [*range(block.rest + 1), *again[::-1], *range(block.rest + 1, data.n)]
    try:
        return [way_of(block, runs)]
    except ValueError:  # a second run destroys what is read later
        return []


def _some(ways: Sequence[BlockRun]) -> list[BlockRun]:
    """Return at most `OPTIONS` ways, each that whose saved units are farthest from those taken before."""
    taken, left = list[BlockRun](), list(ways)
    while left and len(taken) < OPTIONS:
        run = max(
            left, key=lambda x: (min((abs(x.saved - y.saved) for y in taken), default=x.saved), -x.peak)
        )
        taken.append(run)
        left.remove(run)
    return taken


def _way_over_parts(
    block: BlockGraph,
    level: HiremateLevel,
    ways: dict[Key, list[BlockRun]],
    saved: int,
    peak: int,
    context: Context,
    seconds: float,
) -> BlockRun | None:
    """Return the best way that the program over the parts of a part finds within two budgets."""
    options = list[BlockRun]()
    unit = level.data.unit
    space = 0 if block.rest is None else max(0, peak - saved - block.gradients)
    stated = layers_of(level, ways, peak // unit, -(-space // unit))
    solve_layers(stated, level, ways, context, seconds, lambda runs: options.append(way_of(block, runs)))
    return min(options, key=lambda way: way.forward + way.backward, default=None)


def layers_of(level: HiremateLevel, ways: dict[Key, list[BlockRun]], memory: int, space: int) -> Layers:
    """Return the parts as layers with options; so much space is taken beside the one in the middle."""
    data, chain = level.data, level.found
    started = {x.tensor for x in data.values if x.at_start}
    layers = []
    for k, (block, part) in enumerate(zip(chain.blocks, level.blocks, strict=True)):
        last = k + 1 == len(level.blocks)
        inside = {*block.forward, *(block.backward if last else ())}
        leaves = frozenset(u for i in block.forward for u in data.writes[i] if u in chain.kept)
        reads = {u for i in inside for u in data.reads[i] if u in chain.kept}
        layers.append(
            LayerPair(
                options=tuple(
                    LayerOption(
                        forward=run.forward,
                        backward=run.backward,
                        saved=run.saved,
                        before=run.before + space * last,
                        after=run.after,
                        needs=frozenset() if last else _needs(level, k, run),
                    )
                    for run in _ways(level, k, ways)
                ),
                first=0 if last else sum(data.duration[i] for i in block.forward),
                again=0 if last else sum(data.duration[i] for i in _sweep(level, k)),
                until=len(level.blocks) if part.once or last else _until(level, k),
                sweep=0 if last else peak_of_sweep(part, block.forward, holding=False),
                reads=frozenset(reads - leaves),
                leaves=leaves,
                beside=chain.top[k],
                through=chain.through[k],
            )
        )
    return Layers(
        layers=tuple(layers),
        sizes={u: 0 if data.values[u].tensor in started else data.sizes[u] for u in sorted(chain.kept)},
        final=frozenset(u for u in chain.kept if data.values[u].final),
        memory=memory - chain.base,
    )


def _until(level: HiremateLevel, k: int) -> int:
    """Return the last pass in which a forward may run: none behind it destroys what the forward accesses."""
    data, end = level.data, 0
    accessed = {u for i in level.found.blocks[k].forward for u in data.touches[i]}
    for m, block in enumerate(level.found.blocks):
        behind = (*block.backward, *(block.forward if m + 1 == len(level.blocks) else ()))
        if any(not accessed.isdisjoint(data.destroys[i]) for i in behind):
            end = m
    return end


def _ways(level: HiremateLevel, k: int, ways: dict[Key, list[BlockRun]]) -> list[BlockRun]:
    """Return the options of a part; the rest of a step has one."""
    block = level.blocks[k]
    return ways.get(level.keys[k]) or [way_of(block, range(len(block.ops)))]


def _needs(level: HiremateLevel, k: int, run: BlockRun) -> frozenset[int]:
    """Return the values between parts that a backward finds."""
    data, block, left = level.data, level.blocks[k], set[int]()
    needs = set[int]()
    assert block.rest is not None
    for p in run.runs[run.runs.index(block.rest) + 1 :]:
        if (i := block.ops[p]) is not None:
            needs |= level.found.kept.intersection(data.reads[i]) - left
            left.update(data.writes[i])
    return frozenset(needs)


def _sweep(level: HiremateLevel, k: int) -> list[int]:
    """Return the ops of a forward that runs again, for what others read."""
    data = level.data
    wanted = {u for u in level.found.kept if not data.values[u].final}
    runs = []
    for i in reversed(level.found.blocks[k].forward):
        if not wanted.isdisjoint(data.writes[i]):
            runs.append(i)
            wanted.update(data.reads[i])
    return runs[::-1]


def solve_layers(
    stated: Layers,
    level: HiremateLevel,
    ways: dict[Key, list[BlockRun]],
    context: Context,
    seconds: float,
    take: Callable[[list[int]], object],
) -> Outcome:
    """Solve the program over the parts of a level, and give the runs of each solution to `take`."""
    own = context.inner(context.problem, seconds, options={}, engine_options={})
    least = context.bound or 0

    def look(built: layers_milp.LayersModel, value: Callable[[object], float]) -> None:
        runs = list(runs_of(layers_milp.decode(built, value), level, ways))
        try:
            levels(level.data, runs)
        except ValueError:  # an option of a part runs what another part has made impossible
            return
        take(runs)

    return solve_model(
        context,
        layers_milp,
        partial(layers_milp.build, stated, expired=lambda: own.expired),
        what=f"the program over {len(level.blocks)} parts",
        size=layers_milp.size(stated),
        decode=look,
        to_objective=lambda _: least,
        run=own,
        quiet=True,
    )


def runs_of(
    steps: Sequence[LayerStep], level: HiremateLevel, ways: dict[Key, list[BlockRun]]
) -> Iterator[int]:
    """Yield the ops of a level as they run."""
    for step in steps:
        k, part = step.layer, level.blocks[step.layer]
        if step.option is None:
            is_first = step.turn + 1 == len(level.blocks)
            yield from level.found.blocks[k].forward if is_first else _sweep(level, k)
            continue
        runs = _ways(level, k, ways)[step.option].runs
        at = len(runs) if part.rest is None else runs.index(part.rest)
        for p in runs[at + 1 :] if step.is_back else runs[:at]:
            if (i := part.ops[p]) is not None:
                yield i
