"""Small random problems of stages with data and tensor parallel degrees."""

from __future__ import annotations

from random import Random

import lowtide as lt


def random_hybrid(seed: int, *, most_ops: int = 4) -> lt.Hybrid:
    """Return a few layers with modes for groups of one to three, and all that can be asked."""
    rng = Random(seed)
    n = rng.randint(1, most_ops)
    tensors: list[lt.Tensor] = []
    ops: list[lt.Op] = []
    needs = []
    for i in range(n):
        reads = rng.sample(range(len(tensors)), min(len(tensors), rng.choice((0, 1, 1, 2))))
        writes = tuple(range(len(tensors), len(tensors) + rng.choice((0, 1, 1, 2))))
        tensors += [lt.Tensor(name=f"x{t}", nbytes=rng.randint(0, 6)) for t in writes]
        if reads and rng.random() < 0.1:
            writes += (reads[0],)  # the next version of what it read
        modes, own = [], []
        for t in rng.sample((1, 2, 3), rng.randint(1, 3)):
            weights = rng.randint(0, 9)
            sync = tuple(
                (x, rng.randint(0, 3)) for x in dict.fromkeys((*reads, *writes)) if rng.random() < 0.5
            )
            for _ in range(rng.randint(1, 3)):
                modes.append(lt.Mode(duration_ns=rng.randint(1, 20), processors=(f"t{t}",)))
                each, once = rng.randint(0, 5), rng.randint(0, 9)
                own.append(
                    lt.Need(weights=weights, each=each, once=once, sync=sync, again=rng.random() < 0.3)
                )
        after = (rng.randrange(i),) if i and rng.random() < 0.2 else ()
        ops.append(lt.Op(name=f"o{i}", reads=tuple(reads), writes=writes, modes=tuple(modes), after=after))
        needs.append(tuple(own))
    return lt.Hybrid(
        lt.Graph(name=f"layers {seed}", tensors=tuple(tensors), ops=tuple(ops)),
        rng.randint(1, 5),
        memory=rng.choice((None, rng.randint(4, 50), rng.randint(10, 70))),
        link=rng.choice((None, 10**9, 3 * 10**9, 7 * 10**8)),
        micro=rng.choice((1, 2, 3, 4, 6, 12)),
        replicate=rng.choice((None, None, None, 1, 2)),
        tensor=rng.choice((None, None, None, 1, 2)),
        recompute=rng.choice(("choose", "choose", "none", "all")),
        needs=tuple(needs),
    )


def random_stages(problem: lt.Hybrid, rng: Random) -> lt.Split:
    """Return a split with a mode for each op; most break no rule or one."""
    n = len(problem.graph.ops)
    count = rng.randint(1, min(n, 3))
    stage = [*range(count), *(rng.randrange(count) for _ in range(n - count))]
    if rng.random() < 0.8:
        stage.sort()
    kinds = tuple(f"t{rng.choice((1, 1, 2, 3))}" for _ in range(count))
    modes = []
    for i, op in enumerate(problem.graph.ops):
        there = [m for m, mode in enumerate(op.all_modes) if kinds[stage[i]] in mode.processors]
        modes.append(rng.choice(there or [0]))
        if rng.random() < 0.05:
            modes[-1] = rng.randrange(len(op.all_modes))
    replicas = tuple(rng.choice((1, 1, 1, 2, 3)) for _ in range(count))
    return lt.Split(stage=tuple(stage), kinds=kinds, replicas=replicas, modes=tuple(modes))
