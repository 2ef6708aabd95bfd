"""Backpropagation chains: the graphs of checkpointing schedules.

l forwards and l + 1 backwards, as Griewank and Walther's revolve (ACM TOMS 26, 2000) and the literature after
it have them: F_i reads x_i and writes x_{i+1} (i = 0 .. l-1); B_l reads x_l and writes y_l; B_i reads x_i and
y_{i+1} and writes y_i (i = l-1 .. 0). x_0 is given, y_0 is wanted. In the words of revolve these are l + 1
steps; the forward of each goes once more with its backward ("taped"), inside B_i.

With accounting ``replace``, F_i may take the place of x_i and B_i that of its operands, so that cells count
after each op; with ``coexist`` operands and results are there at once.
"""

from __future__ import annotations

import random

from ...models.graph import Graph, Op, Tensor


def backprop_chain(
    *,
    l: int,  # noqa: E741
    seed: int,
    largest: int,
    forward: int,
    backward: int,
    spread: int,
) -> Graph:
    """Return a chain of l forwards and l + 1 backwards; y_i is as large as x_i."""
    rng = random.Random(seed)
    nbytes = [rng.randint(1, largest) for _ in range(l + 1)]
    tensors = [
        Tensor(name=f"x{i}", nbytes=nbytes[i], kind="activation" if i else "input", initial=i == 0)
        for i in range(l + 1)
    ]
    tensors += [
        Tensor(name=f"y{i}", nbytes=nbytes[i], kind="gradient" if i else "output", final=i == 0)
        for i in range(l, -1, -1)
    ]
    ops = []
    for i in range(l):
        time = forward * rng.randint(1, spread)
        ops.append(Op(name=f"F{i}", kind="forward", duration_ns=time, reads=(i,), writes=(i + 1,)))
    for i in range(l, -1, -1):
        time = backward * rng.randint(1, spread)
        y = 2 * l + 1 - i
        reads = (i,) if i == l else (i, y - 1)
        ops.append(Op(name=f"B{i}", kind="backward", duration_ns=time, reads=reads, writes=(y,)))
    return Graph(name="backprop-chain", tensors=tuple(tensors), ops=tuple(ops))
