"""Small partition problems, for tests against exhaustive search.

Imported as ``from tests.problems.partition import ...``.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import lowtide as lt

CHAIN = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8)
WEIGHTS = (1, 1, 2, 1, 3, 4, 2, 3, 2, 1, 2, 4)
KEPT = (30, 28, 26, 24, 20, 20, 16, 16, 12, 8, 8, 4)
PASSED = (10, 10, 9, 9, 8, 8, 6, 6, 4, 4, 2, 2)


def chain_of(
    times: Sequence[tuple[int, int]], weights: Sequence[int], kept: Sequence[int], passed: Sequence[int]
) -> tuple[lt.Graph, dict[str, Any]]:
    """Return a training chain, and its classes and backward ops as arguments of `Partition`.

    Layer j takes ``times[j]`` ns forward and backward, has ``16 weights[j]`` bytes, keeps ``kept[j]`` bytes
    for its backward op, and passes ``passed[j]`` on.
    """
    n = len(times)
    tensors = [
        lt.Tensor(name=f"w{j}", nbytes=16 * x, initial=True, final=True) for j, x in enumerate(weights)
    ]
    tensors += [lt.Tensor(name=f"k{j}", nbytes=x) for j, x in enumerate(kept)]
    tensors += [lt.Tensor(name=f"a{j}", nbytes=x) for j, x in enumerate(passed)]
    ops = [
        lt.Op(name=f"f{j}", duration_ns=t, reads=(j, 2 * n + j - 1) if j else (j,), writes=(n + j, 2 * n + j))
        for j, (t, _) in enumerate(times)
    ]
    ops += [
        lt.Op(
            name=f"b{j}",
            duration_ns=times[j][1],
            reads=(n + j,),
            after=(2 * n - 2 - j,) if j < n - 1 else (n - 1,),
        )
        for j in reversed(range(n))
    ]
    graph = lt.Graph(name="chain", tensors=tuple(tensors), ops=tuple(ops))
    together = tuple((j, 2 * n - 1 - j) for j in range(n))
    return graph, {"together": together, "backward": tuple(range(n, 2 * n))}


def random_partition(seed: int, *, most_ops: int = 5) -> lt.Partition:
    """Return a problem of a few ops of a forward and a backward pass, with all that can be asked."""
    rng = Random(seed)
    n = rng.randint(2, most_ops)
    forward = rng.randint(1, n)
    tensors: list[lt.Tensor] = []
    ops: list[lt.Op] = []
    made: list[int] = []
    for i in range(n):
        reads = set(rng.sample(made, min(len(made), rng.choice((0, 1, 1, 2)))))
        if rng.random() < 0.5:
            weights = [t for t, x in enumerate(tensors) if x.initial]
            if weights and rng.random() < 0.4:
                reads.add(rng.choice(weights))
            else:
                reads.add(len(tensors))
                tensors.append(lt.Tensor(name=f"w{i}", nbytes=rng.randint(0, 6), initial=True, final=True))
        writes = []
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            if made and rng.random() < 0.1:
                writes.append(rng.choice(made))  # the next version of a tensor
                continue
            writes.append(len(tensors))
            tensors.append(lt.Tensor(name=f"t{len(tensors)}", nbytes=rng.randint(0, 6)))
        made += [t for t in dict.fromkeys(writes) if t not in made]
        modes = [lt.Mode(duration_ns=rng.randint(1, 9), processors=("acc",))]
        modes.append(lt.Mode(duration_ns=rng.randint(1, 12), processors=("cpu",)))
        if rng.random() < 0.15:
            del modes[rng.randrange(2)]
        after = (rng.randrange(i),) if i and rng.random() < 0.15 else ()
        ops.append(
            lt.Op(
                name=f"o{i}",
                reads=tuple(reads),
                writes=tuple(dict.fromkeys(writes)),
                modes=tuple(modes),
                after=after,
            )
        )
    graph = lt.Graph(name=f"layers {seed}", tensors=tuple(tensors), ops=tuple(ops))
    together: tuple[tuple[int, ...], ...] = tuple(
        (rng.randrange(forward), i) for i in range(forward, n) if rng.random() < 0.7
    )
    if n > 2 and rng.random() < 0.15:
        together += (tuple(rng.sample(range(n), 2)),)
    schedule = rng.choice(("none", "none", "gpipe", "1f1b"))
    total = sum(x.nbytes for x in tensors)
    return lt.Partition(
        graph,
        {"acc": rng.randint(1, 3), "cpu": 1},
        memory=rng.choice((None, rng.randint(0, 2 * total + 1))),
        link=rng.choice((None, 10**9, 3 * 10**9, 7)) if rng.random() < 0.9 else 2 * 10**8,
        together=together,
        backward=tuple(range(forward, n)),
        schedule=schedule,
        micro=rng.randint(1, 4),
        recompute=rng.choice(("none", "all")),
        replicate=1 if schedule == "1f1b" else rng.choice((1, 1, 2, 3)),
        sync=rng.choice((None, 10**9, 10**10, 3)),
    )


def random_latency(seed: int) -> lt.Partition:
    """Return a few ops on accelerators and the host; some cannot run on one, some are in one class."""
    rng = Random(seed)
    n = rng.randint(2, 5)
    g = lt.GraphBuilder()
    for i in range(n):
        reads = [f"x{j}" for j in range(i) if rng.random() < 0.45]
        weight = g.tensor(f"w{i}", rng.randint(0, 4), initial=True, final=True)
        modes = [lt.Mode(duration_ns=rng.randint(1, 9), processors=("acc",))]
        modes.append(lt.Mode(duration_ns=rng.randint(1, 20), processors=("cpu",)))
        if i > 1 and rng.random() < 0.1:
            del modes[rng.randrange(2)]
        after = [f"o{rng.randrange(i)}"] if i and rng.random() < 0.15 else ()
        output = g.tensor(f"x{i}", rng.choice((0, 1, 3)))
        g.op(f"o{i}", reads=[*reads, weight], writes=[output], modes=modes, after=after)
    return lt.Partition(
        g.build(),
        {"acc": rng.randint(1, 3), "cpu": 1},
        rng.choice((None, 5, 8)),
        rng.choice((None, 10**9)),
        together=((0, n - 1),) if n > 2 and rng.random() < 0.2 else (),
        objective="latency",
    )


def random_split(problem: lt.Partition, rng: Random) -> lt.Split:
    """Return a split on kinds that can run their ops; most break no rule or one."""
    count = rng.randint(1, 3)
    stage = [rng.randrange(count) for _ in problem.graph.ops]
    if rng.random() < 0.7:
        forward = problem.backward[0] if problem.backward else len(stage)
        stage = [*sorted(stage[:forward]), *sorted(stage[forward:], reverse=True)]
    for some in problem.together if rng.random() < 0.8 else ():
        for i in some:
            stage[i] = stage[some[0]]
    used = sorted(set(stage))
    stage = [used.index(s) for s in stage]
    kinds = []
    for s in range(len(used)):
        able = [
            k for k, _ in problem.kinds if all(k in problem.modes[i] for i, x in enumerate(stage) if x == s)
        ]
        if not able:
            return random_split(problem, rng)
        kinds.append(rng.choice(able))
    ahead = sorted(set(range(len(stage))) - set(problem.backward))
    again = rng.sample(ahead, rng.randint(0, len(ahead))) if problem.recompute == "choose" else ()
    replicas = tuple(rng.randint(1, problem.replicate) if rng.random() < 0.9 else 2 for _ in used)
    return lt.Split(stage=tuple(stage), kinds=tuple(kinds), replicas=replicas, again=tuple(again))
