"""`vdnn`: offload activations while the layer runs that uses them last, fetch one layer ahead, wait for both.

Source: Rhu et al., vDNN, MICRO 2016, sections 3.2 to 3.4; the search for the layer to prefetch and the order
of trials after the code of vDNN++ (shriramsb/vdnn-plus-plus).

Steps.

1. The offload set: activations that a forward op used last before the backward pass uses them again; *all* of
   them, or those that a convolution uses last (*conv*).
2. A member is copied to the host from the start of that op on (behind it if the op writes the tensor).
3. When a layer starts, from the last of the forward pass on, one layer behind it is prefetched: the first
   with members that are not asked for yet; at a convolution that does not qualify the search ends without.
4. Every layer waits until all copies asked for before are through: the two streams meet behind every layer
   (``barrier=0``, vDNN++: they do not).
5. An op with several modes, a convolution with its algorithms, runs in the one that ``algorithms`` names: the
   *fastest* of all, or the memory-optimal one, of the *least* workspace.
6. *dynamic*: first, all must fit with least workspace, else the network is given up. Then the first that
   fits is taken of: nothing offloaded, conv, all, with the fastest algorithms; conv, all, *greedily*; conv,
   all, with least workspace. Greedily: from the fastest algorithms on, layer by layer, the op that overflows
   memory (before which nothing goes on) takes its next one of less workspace, until it has the least.

It fails if with all offloaded and least workspace a layer's operands and what is prefetched beside it do not
fit.

Abstracted: layers are those of `layers`; the algorithms are the graph's modes, whose times are known without
profiling; cuDNN and the pool are left out. Weights stay on the device; what may not start there is fetched
one op ahead. Where the host is full, the slow tier takes its place.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....models.arrays import Integers
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..reductions.modes import fastest_modes, next_smaller, smallest_modes
from ..simulator.problem import SimulatedProblem
from ..simulator.simulator import Decisions, simulate
from .follow import Candidates, DoesNotFit, follow
from .layers import first_ops, layers, of_kind
from .loads import NOTHING, crossing_absences, swap, turn_of

GIVEN_UP = "cannot train: with all offloaded it does not fit"


def solve_vdnn(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    offload, algorithms, barrier = (context.options[key] for key in ("offload", "algorithms", "barrier"))
    return follow(problem, context, lambda case: decide(case, offload, algorithms, barrier), first=True)


def decide(
    case: SimulatedProblem, offload: str = "dynamic", algorithms: str = "fastest", barrier: bool = True
) -> Candidates:
    """Return the policy's decisions."""
    crossing = crossing_absences(case, turn_of(case))
    by_conv = crossing[of_kind(case, "conv")[case.absence_first[crossing]]]
    sets = {"conv": _layers(case, by_conv, barrier), "all": _layers(case, crossing, barrier)}
    choices = {"fastest": fastest_modes(case.problem), "least": smallest_modes(case.problem)}
    modes = {name: np.array(chosen, dtype=np.int64) for name, chosen in choices.items()}
    if offload != "dynamic":
        yield offload, replace(sets[offload], modes=modes[algorithms])
        return
    least = {name: replace(absences, modes=modes["least"]) for name, absences in sets.items()}
    if simulate(case, least["all"]).time is None:
        raise DoesNotFit(GIVEN_UP, least["all"])
    several = (modes["fastest"] != modes["least"]).any()
    yield "nothing offloaded", replace(_layers(case, NOTHING, barrier), modes=modes["fastest"])
    for name, absences in sets.items():
        yield name, replace(absences, modes=modes["fastest"])
    for name, absences in sets.items() if several else ():
        yield f"{name}, greedy", _downgraded(case, replace(absences, modes=modes["fastest"]))
    for name, absences in least.items() if several else ():
        yield f"{name}, least workspace", absences


def _downgraded(case: SimulatedProblem, decisions: Decisions) -> Decisions:
    """Return the decisions with smaller modes of the ops before which nothing goes on (step 6)."""
    assert decisions.modes is not None
    modes = decisions.modes.copy()
    while (op := simulate(case, replace(decisions, modes=modes)).stuck) is not None:
        case.tick()
        smaller = next_smaller(case.problem, op, int(modes[op]))
        if smaller is None:
            break
        modes[op] = smaller
    return replace(decisions, modes=modes)


def _layers(case: SimulatedProblem, chosen: Integers, barrier: bool) -> Decisions:
    back = np.maximum(2 * (case.absence_next - 1) + 1, 0)
    numbers = layers(case)
    back[chosen] = prefetches(case, numbers, chosen)
    base = swap(case, chosen, back)
    out = base.out.copy()
    for g in chosen.tolist():
        op = int(case.absence_first[g])
        if not dict(case.accesses[int(case.absence_tensor[g])])[op]:
            out[g] = 2 * op + 1
    waits = np.zeros(case.ops, dtype=np.int64)
    waits[first_ops(numbers)] = barrier
    return replace(base, out=out, barrier=waits)


def prefetches(case: SimulatedProblem, numbers: Integers, chosen: Integers) -> Integers:
    """Return the anchors at which the chosen absences are asked back; -1: on demand (step 3)."""
    waiting: dict[int, list[int]] = {}
    for place, g in enumerate(chosen.tolist()):
        waiting.setdefault(int(numbers[case.absence_next[g]]), []).append(place)
    conv = set(numbers[of_kind(case, "conv")].tolist())
    back = np.full(len(chosen), -1, dtype=np.int64)
    first, last = first_ops(numbers), int(numbers[-1])
    for layer in range(int(numbers[turn_of(case) - 1]), last):
        for behind in range(layer + 1, last + 1):
            if behind in waiting:
                back[waiting.pop(behind)] = 2 * first[layer] + 1
                break
            if behind in conv:
                break
    return back
