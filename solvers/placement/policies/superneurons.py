"""`superneurons`: checkpoints leave in the forward pass, cheap layers between them run again in the backward.

Source: Wang et al., SuperNeurons, PPoPP 2018: its abstract, and its released code
(linnanwang/superneurons-release: liveness, recompute, tensor). The text itself was not at hand.

Steps.

1. *Liveness*: a tensor is released behind its last use.
2. *Unified tensor pool*: what a compute-heavy layer of the forward pass makes (`layers.heavy_ops`; there
   convolutions), a *checkpoint*, is copied out from the end of its op on, and released behind its last
   forward use. In the backward pass, what a checkpoint needs is asked back when the checkpoint before it
   starts; what the first one needs, at the end of the forward pass.
3. *Cost-aware recomputation*: what the other ops of the forward pass make and the backward pass reads again
   is dropped, and made again from the checkpoints before it. The ops between two checkpoints are a *segment*.
   *Speed-centric*: it runs again once, and all stays until it is used. *Memory-centric*: it runs again for
   each op that needs some of it, and only that stays. A segment is speed-centric if what its ops make takes
   no more bytes than the largest layer, ``l_peak``: operands and workspace of one op.

The first that fits is taken of 1, 1 and 2, all three. This stands for its tensor cache, which lets tensors
stay while there is room.

Abstracted: layers are ops; a memory-centric segment keeps what was made for an op from then on for later ones
of the backward pass that read it, too; speed-centric ones run again as far as they are needed, not to their
ends; its dynamic choice of the workspaces of convolutions is left to modes. Weights stay; what may not start
on the device is fetched one op ahead. Where no op may run again, it ends with 2; where nothing can be copied,
2 is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ....formulations.recompute.data import RecomputeData
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..rerunning.dropping import Droppable, droppable, with_dropped
from ..simulator.problem import SimulatedProblem
from .follow import Candidates
from .follow_again import NOWHERE, Laid, RerunTrial, all_once, follow_in_turn
from .layers import heavy_ops
from .loads import crossing_absences, swap, turn_of


def solve_superneurons(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow_in_turn(problem, context, partial(_trials, form=context.options["recomputation"]))


def _trials(first: SimulatedProblem, data: RecomputeData | None, form: str) -> Iterator[RerunTrial]:
    """Yield liveness alone, with offloading, and with recomputation."""
    turn = turn_of(first)
    heavy = [op for op in heavy_ops(first).tolist() if op < turn]
    leave = partial(_decide, turn=turn, heavy=heavy)
    yield RerunTrial(name="liveness alone", runs=all_once(first), decide=partial(leave, heavy=()))
    may_copy = first.machine.tiers[first.outer[0]].name != NOWHERE
    if may_copy:
        yield RerunTrial(name="checkpoints leave", runs=all_once(first), decide=leave)
    if data is None:
        return
    dropped, kept = recomputed(data, heavy, turn, form)
    if dropped:
        again = {*range(turn)} - {*heavy}
        runs = tuple(with_dropped(data, dropped, again=again, kept=kept))
        stay = sum(d.value in kept for d in dropped)
        words = f"{len(runs) - first.ops} runs again, {stay} of {len(dropped)} values for all that need them"
        words = f"checkpoints leave, {words}" if may_copy else words
        yield RerunTrial(name=words, runs=runs, decide=leave if may_copy else partial(leave, heavy=()))


def recomputed(
    data: RecomputeData, heavy: list[int], turn: int, form: str
) -> tuple[list[Droppable], frozenset[int]]:
    """Return what is dropped, and the values of speed-centric segments (step 3).

    Parameters
    ----------
    data, heavy, turn
        Of the graph: its checkpoints in the forward pass, and the first op of the backward pass.
    form
        "speed", "memory", or "cost-aware": by the bytes of each segment.
    """
    peak = max(data.footprint)
    segment = np.searchsorted(heavy, np.arange(turn), side="right").tolist()
    makes = [0] * (len(heavy) + 1)
    light = [w for w in range(turn) if w not in {*heavy}]
    for w in light:
        makes[segment[w]] += sum(data.sizes[u] for u in data.writes[w])
    dropped = [
        d for d in droppable(data) if d.before < turn <= d.behind and data.values[d.value].writer in {*light}
    ]
    speedy = {k for k, size in enumerate(makes) if form == "speed" or (form == "cost-aware" and size <= peak)}
    kept = frozenset(u for w in light if segment[w] in speedy for u in data.writes[w])
    return dropped, kept


def _decide(laid: Laid, turn: int, heavy: list[int] | tuple[()]) -> Candidates:
    """Return the decisions by which what checkpoints make leaves (step 2)."""
    case, back_from = laid.case, laid.place[turn - 1] + 1 if turn else 0
    graph_ops = case.problem.graph.ops
    made_by = {t: laid.place[op] for op in heavy for t in graph_ops[laid.place[op]].writes}
    crossing = crossing_absences(case, back_from)
    maker = [made_by.get(int(case.tensor[i])) for i in case.absence_tensor[crossing].tolist()]
    chosen = np.array([g for g, k in zip(crossing.tolist(), maker, strict=True) if k is not None], np.int64)
    back = np.maximum(2 * (case.absence_next - 1) + 1, 0)
    needs = sorted({*case.absence_next[chosen].tolist()})
    asked = dict(zip(needs, [2 * back_from, *(2 * k + 1 for k in needs)], strict=False))
    back[chosen] = [asked[k] for k in case.absence_next[chosen].tolist()]
    base = swap(case, chosen, back)
    out = base.out.copy()
    out[chosen] = [2 * (k + 1) for k in maker if k is not None]
    yield "", replace(base, out=out)
