"""`flexgen`: fixed fractions of weights, caches and hidden states rest on the GPU, the others come by layers.

Source: Sheng et al., "FlexGen: high-throughput generative inference of large language models with a single
GPU", ICML 2023, sections 4.2 and 4.3: algorithm 1 and the policies that its linear program chooses.

Steps.

1. Tensors of a class (kind `weight`; kind `state`: keys and values; all others: hidden states) are taken in
   the order of their first use. The next one rests on the GPU if with it no more than the class's fraction of
   the bytes so far does (`weights`, `cache`, `states`, in percent), so that every layer has its share.
2. Every other tensor is on the GPU for its ops only: it starts in the nearest outer tier that has room, and
   goes back behind each layer or batch. Weights are asked back when the layer before begins, the rest when
   the op before its next one starts.
   With `early`, which FlexGen has not, all are asked back as early as memory permits (`early_returns`), so
   that channels do not wait for the op or layer before.
3. Without percentages, those of weights in steps of 5, of caches in quarters, of hidden states 0 and 100 are
   tried; the fastest is taken.

Abstracted: no tensor is divided, where FlexGen divides each of the caches and hidden states, and assigns the
tensors of a layer's weights. Attention on the host's processor: the ops of a graph say where they run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from ....models.derived.backward import first_backward
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.problem import SimulatedProblem
from .follow import Candidates, follow
from .loads import early_returns, swap

CLASSES = ("weights", "cache", "states")
TRIED: Mapping[str, tuple[float, ...]] = {
    "weights": tuple(range(0, 101, 5)),
    "cache": (0, 25, 50, 75, 100),
    "states": (0, 100),
}

FULLEST = 24
"""With `early`, so many percentages are tried, first those of the most bytes that the GPU has room for."""


def solve_flexgen(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    given = {name: (context.options[name],) for name in CLASSES if name in context.options}
    early = context.options["early"]
    return follow(problem, context, lambda case: decide(case, {**TRIED, **given}, early=early))


def serves(problem: Placement) -> bool:
    """Return whether it is for such graphs: some weight is read again, and nothing is trained."""
    graph = problem.graph
    reads = Counter(t for op in graph.ops for t in op.reads if graph.tensors[t].kind == "weight")
    return max(reads.values(), default=0) > 1 and first_backward(graph) is None


def decide(
    case: SimulatedProblem, tried: Mapping[str, tuple[float, ...]] = TRIED, *, early: bool = False
) -> Candidates:
    """Return the policy's decisions for all percentages of the classes; once for those that mean the same."""
    kinds = [case.graph.tensors[t].kind for t in case.tensor.tolist()]
    classes = np.array([{"weight": 0, "state": 1}.get(kind, 2) for kind in kinds], dtype=np.int64)
    back = _asked_back(case, classes)
    order = sorted(range(len(kinds)), key=lambda i: (case.accesses[i][0][0], i))
    variants: list[tuple[tuple[int, ...], int, tuple[float, ...], NDArray[np.bool_]]] = []
    for percentages in product(*(tried[name] for name in CLASSES)):
        rests, nbytes = _resting(case, classes, order, percentages)
        worth = (nbytes > case.memory, -nbytes) if early else ()
        variants.append((worth, len(variants), percentages, rests))
    variants.sort(key=lambda variant: variant[:2])
    seen = set[bytes]()
    for _, _, percentages, rests in variants[: FULLEST if early else None]:
        if (key := rests.tobytes()) in seen:
            continue
        seen.add(key)
        away = np.flatnonzero(~rests[case.absence_tensor])
        said = zip(CLASSES, percentages, strict=True)
        asked = 2 * early_returns(case, away, case.absence_first + 1) if early else back
        yield ", ".join(f"{name} {p:g} %" for name, p in said), swap(case, away, asked)


def _resting(
    case: SimulatedProblem, classes: Integers, order: Sequence[int], percentages: Sequence[float]
) -> tuple[NDArray[np.bool_], int]:
    """Return per tensor whether step 1 lets it rest on the GPU, and the bytes of all that do."""
    rests = np.zeros(len(classes), dtype=np.bool_)
    parts = [float(p).as_integer_ratio() for p in percentages]
    passed, kept = [0] * 3, [0] * 3
    for i in order:
        c, size = classes[i], int(case.size[i])
        part, whole = parts[c]
        passed[c] += part * size
        if 100 * whole * (kept[c] + size) <= passed[c]:
            rests[i] = True
            kept[c] += size
    return rests, sum(kept)


def _asked_back(case: SimulatedProblem, classes: Integers) -> Integers:
    """Return per absence the anchor of step 2."""
    read: list[set[int]] = [set() for _ in range(case.ops)]
    for i in np.flatnonzero(classes == 0).tolist():
        for k, _ in case.accesses[i]:
            read[k].add(i)
    begins, layer = [0], []  # per layer: its first op; per op: its layer
    last: set[int] = set()
    for k, weights in enumerate(read):
        if weights and weights != last:
            if last:
                begins.append(k)
            last = weights
        layer.append(len(begins) - 1)
    back = []
    for g, until in enumerate(case.absence_next.tolist()):
        k = until % case.ops
        ahead = begins[max(0, layer[k] - 1)] if classes[case.absence_tensor[g]] == 0 else max(0, k - 1)
        back.append(2 * (until - k + ahead) + 1)
    return np.array(back, dtype=np.int64)
