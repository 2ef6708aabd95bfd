"""Task graphs of about the parallelism of their cores, with lognormal durations.

On p cores no schedule is shorter than the critical path C, nor than the average load W/p, W being
the sum of the durations. Far from ``C = W/p`` one of the two bounds is (nearly) attained and scheduling is
easy; here every graph has ``W/(2p) <= C <= W/p``: structure and durations are drawn until that holds.

Durations are ``1000 * exp(sigma * Z)`` ns, Z standard normal, rounded, at least 1. The shapes:

* ``layered``: layers of p to 3p ops, each of which reads one to three of the layer before.
* ``inception``: modules in a row, each p to 3p branches of one to four ops between what the module
  before concatenated and its own concatenation, as in Szegedy et al., "Going deeper with convolutions",
  CVPR 2015.
* ``forkjoin``: the same with branches of one op, the number of branches drawn for each fork.
* ``workflow``: Montage, as Bharathi et al., "Characterization of scientific workflows", WORKS 2008,
  draw it: images are projected, overlapping pairs (neighbours and random others) compared, the
  differences fitted together, a background model made and taken off each projection, then a table,
  the sum and further steps in a row.
* ``tree``: random in-trees of at most four operands.

With ``gpu`` the tasks are for processors of two kinds: each has a mode for kind ``cpu``, of its duration
and workspace, and so many percent of them also one for kind ``gpu``, in which they are faster by a factor
of median ``speedup`` (some are slower), with workspaces drawn anew. Durations for the critical path are
those of ``cpu``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise

from ...models.errors import InstanceError
from ...models.graph import Graph, Mode
from .builder import from_successors
from .layered import layer_arcs
from .trees import intree_arcs

MEDIAN_NS = 1000
"""Median of the drawn durations of ops in ns; its unit means nothing."""

DRAWS = 2000
"""How often structure and durations are drawn before giving up."""

Arcs = list[list[int]]
"""For each op those that read what it writes, all of larger index."""


def tasks(
    *,
    shape: str,
    n: int,
    cores: int,
    sigma: float,
    workspace: int,
    seed: int,
    data: str,
    sizes: str,
    largest: int,
    gpu: int = 0,
    speedup: float = 4.0,
) -> Graph:
    """Return `n` ops whose critical path is between half and all of the average load of `cores`.

    Workspaces are uniform on ``0..workspace`` bytes; factors are lognormal, of the same `sigma` as durations.

    Raises
    ------
    InstanceError
        If no draw has such a critical path: the shape has too little parallelism for them.

    Examples
    --------
    >>> from lowtide.instances import load
    >>> load("gen:tasks?shape=inception&cores=4")
    Graph('tasks?shape=inception&cores=4', 50 ops, 50 tensors)
    >>> [mode.processors for mode in load("gen:tasks?gpu=100").ops[0].modes]
    [('cpu',), ('gpu',)]
    """
    rng = random.Random(seed)
    for _ in range(DRAWS):
        successors = SHAPES[shape](n, cores, rng)
        durations = [max(1, round(MEDIAN_NS * rng.lognormvariate(0, sigma))) for _ in range(n)]
        longest, load = critical_path(successors, durations), sum(durations)
        if cores * longest <= load <= 2 * cores * longest:
            break
    else:
        raise InstanceError(
            f"instance 'gen:tasks', shape {shape}: found in {DRAWS} draws no graph of {n} ops with a "
            f"critical path between half and all of the average load of {cores} cores, expected "
            "more ops or another number of cores"
        )
    graph = from_successors(successors, rng, data=data, sizes=sizes, largest=largest)
    graph = replace(
        graph,
        ops=tuple(
            replace(op, duration_ns=duration, workspace=rng.randint(0, workspace) if workspace else 0)
            for op, duration in zip(graph.ops, durations, strict=True)
        ),
    )
    if not gpu:
        return graph
    fast = set(rng.sample(range(n), max(1, n * gpu // 100)))
    ops = []
    for i, op in enumerate(graph.ops):
        modes = [Mode(duration_ns=op.duration_ns, workspace=op.workspace, processors=("cpu",))]
        if i in fast:
            shorter = max(1, round(op.duration_ns / (speedup * rng.lognormvariate(0, sigma))))
            held = rng.randint(0, workspace) if workspace else 0
            modes.append(Mode(duration_ns=shorter, workspace=held, processors=("gpu",)))
        ops.append(replace(op, modes=tuple(modes)))
    return replace(graph, ops=tuple(ops))


def critical_path(successors: Sequence[Sequence[int]], durations: Sequence[int]) -> int:
    """Return the length of the longest chain; arcs go from smaller to larger indices."""
    longest = list(durations)
    for i in reversed(range(len(longest))):
        longest[i] += max((longest[j] for j in successors[i]), default=0)
    return max(longest)


def _layered(n: int, cores: int, rng: random.Random) -> Arcs:
    width = rng.randint(cores, 3 * cores)
    full, rest = divmod(n, width)
    return layer_arcs([width] * full + [rest] * bool(rest), 3, rng)


def _inception(n: int, cores: int, rng: random.Random) -> Arcs:
    return _modules(n, cores, 4, rng)


def _forkjoin(n: int, cores: int, rng: random.Random) -> Arcs:
    return _modules(n, cores, 1, rng)


def _modules(n: int, cores: int, longest: int, rng: random.Random) -> Arcs:
    """Return modules in a row: branches of at most `longest` ops between one op and the next one."""
    successors: Arcs = [[] for _ in range(n)]
    source = 0
    while (room := n - 2 - source) >= 2:
        lengths: list[int] = []
        for _ in range(rng.randint(cores, 3 * cores)):
            if left := room - sum(lengths):
                lengths.append(min(left, rng.randint(1, longest)))
        sink = source + sum(lengths) + 1
        first = source + 1
        for length in lengths:
            chain = [source, *range(first, first + length), sink]
            for a, b in pairwise(chain):
                successors[a].append(b)
            first += length
        source = sink
    for i in range(source, n - 1):
        successors[i].append(i + 1)
    return successors


def _workflow(n: int, cores: int, rng: random.Random) -> Arcs:
    # Two ops for each image, one for each pair, a row of at least six; pairs join all images.
    images = rng.randint(max(2, n // 5), (n - 5) // 3)
    others = [pair for pair in combinations(range(images), 2) if pair[1] > pair[0] + 1]
    extra = rng.sample(others, min(len(others), n - 5 - 3 * images))
    pairs = sorted([*((i, i + 1) for i in range(images - 1)), *extra])
    fit = images + len(pairs)
    model, table = fit + 1, fit + 2 + images
    successors: Arcs = [[] for _ in range(n)]
    for k, pair in enumerate(pairs):
        for image in pair:
            successors[image].append(images + k)
        successors[images + k].append(fit)
    successors[fit].append(model)
    for image in range(images):
        background = model + 1 + image
        successors[image].append(background)
        successors[model].append(background)
        successors[background] += [table, table + 1]
    for i in range(table, n - 1):
        successors[i].append(i + 1)
    return successors


def _tree(n: int, cores: int, rng: random.Random) -> Arcs:
    return intree_arcs(n, 4, rng)


SHAPES = {
    "layered": _layered,
    "inception": _inception,
    "forkjoin": _forkjoin,
    "workflow": _workflow,
    "tree": _tree,
}
"""The shapes by name."""
