"""Training iterations of networks that are chains with skip connections, for tensor placement.

Forward op i writes an activation that forward op i + 1 and backward op i + 1 read, and in one of two cases
backward op i as well; every third op also reads the activation two ops before, forward and backward. The
gradients between backward ops live for one op. Sizes and times are lognormal: activations of about 60 MB,
forward ops of about 1.5 ms, backward ones twice as long. Weights are left out. At 12 GB/s each way all
activations take about as long as the ops to leave, and to return.
"""

from __future__ import annotations

import random

from ...models.graph import Graph, Op, Tensor

PAGE = 4096
"""Bytes of a page: sizes are multiples of it, as those of traces from GPUs."""


def skip_chain(*, n: int, seed: int) -> Graph:
    """Return an iteration of n ops, rounded up to an even number: half forward, half backward.

    Sizes, times and which backward ops read their own output are drawn.
    """
    rng = random.Random(seed)
    layers = (n + 1) // 2
    sizes = [max(1, round(60e6 * rng.lognormvariate(0, 0.45) / PAGE)) * PAGE for _ in range(layers)]
    times = [max(1, round(1500 * rng.lognormvariate(0, 0.6))) * 1000 for _ in range(layers)]
    own = [rng.random() < 0.5 for _ in range(layers)]
    operands = [[j for j in (i - 1, *([i - 2] if i % 3 == 2 else [])) if j >= 0] for i in range(layers)]
    tensors = [Tensor(name=f"a{i}", nbytes=size) for i, size in enumerate(sizes)]
    first = layers - 1  # gradient i has index first + i; nobody needs that of the first activation
    tensors += [Tensor(name=f"d{i}", nbytes=sizes[i], kind="gradient") for i in range(1, layers)]
    ops = [
        Op(name=f"f{i}", reads=tuple(operands[i]), writes=(i,), duration_ns=times[i]) for i in range(layers)
    ]
    for i in reversed(range(layers)):
        above = (first + i + 1,) if i + 1 < layers else ()
        saved = (*operands[i], *((i,) if own[i] or i + 1 == layers else ()))
        ops.append(
            Op(
                name=f"b{i}",
                reads=tuple(sorted({*saved, *above})),
                writes=(first + i,) if i else (),
                duration_ns=2 * times[i],
            )
        )
    return Graph(name="skipchain", tensors=tuple(tensors), ops=tuple(ops))
