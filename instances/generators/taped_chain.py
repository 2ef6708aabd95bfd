"""Chains whose forwards save what their backwards need, or not: heterogeneous checkpointing.

The model of Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova, "Optimal checkpointing for heterogeneous
chains" (2019): stages 1 .. l; the forward of stage i reads a_{i-1} and writes a_i, and either saves what its
backward needs besides (s_i; their abar_i is a_i and s_i together) or does not; the backward reads d_i,
a_{i-1}, a_i and s_i and writes d_{i-1}. Forwards and backwards have workspaces.

Here a forward has two modes: 0 saves s_i in the memory; 1 writes it to a tier ``lost``, where no backward
finds it. d_l is given (its size may be 0), d_0 is wanted.
"""

from __future__ import annotations

import random

from ...models.graph import Graph, Mode, Op, Tensor

LOST = "lost"
"""The tier to which forwards write what they do not save."""


def taped_chain(
    *,
    l: int,  # noqa: E741
    seed: int,
    largest: int,
    saved: int,
    gradients: bool,
    workspace: int,
    forward: int,
    backward: int,
    spread: int,
) -> Graph:
    """Return a chain of l stages; with `gradients`, d_i is as large as a_i, and d_l has 1 byte."""
    rng = random.Random(seed)
    a = [rng.randint(1, largest) for _ in range(l + 1)]
    s = [rng.randint(1, saved) if saved else 0 for _ in range(l)]
    d = [*a[:l], 1] if gradients else [0] * (l + 1)
    times = [(forward * rng.randint(1, spread), backward * rng.randint(1, spread)) for _ in range(l)]
    spaces = [(rng.randint(0, workspace), rng.randint(0, workspace)) for _ in range(l)]
    return from_stages(a, s, d, times, spaces)


def from_stages(
    a: list[int],
    s: list[int],
    d: list[int],
    times: list[tuple[int, int]],
    workspaces: list[tuple[int, int]],
) -> Graph:
    """Return the chain of stages.

    Parameters
    ----------
    a, d
        Bytes of a_0 .. a_l and d_0 .. d_l.
    s
        Bytes of s_1 .. s_l.
    times, workspaces
        ns and bytes of forward and backward of each stage.
    """
    stages = len(s)
    tensors = [
        Tensor(name=f"a{i}", nbytes=a[i], kind="activation" if i else "input", initial=i == 0)
        for i in range(stages + 1)
    ]
    tensors += [Tensor(name=f"s{i + 1}", nbytes=s[i]) for i in range(stages)]
    tensors += [
        Tensor(
            name=f"d{i}",
            nbytes=d[i],
            kind="gradient" if i else "output",
            initial=i == stages,
            final=i == 0,
        )
        for i in range(stages + 1)
    ]
    ops = []
    for i in range(stages):
        saved, (time, _), (space, _) = stages + 1 + i, times[i], workspaces[i]
        modes = tuple(
            Mode(duration_ns=time, workspace=space, operands=((saved, tier),)) for tier in ("memory", LOST)
        )
        ops.append(Op(name=f"F{i + 1}", kind="forward", reads=(i,), writes=(i + 1, saved), modes=modes))
    for i in reversed(range(stages)):
        saved, gradient, (_, time), (_, space) = stages + 1 + i, 2 * stages + 1 + i, times[i], workspaces[i]
        mode = Mode(duration_ns=time, workspace=space, operands=((saved, "memory"),))
        reads = (i, i + 1, saved, gradient + 1)
        ops.append(Op(name=f"B{i + 1}", kind="backward", reads=reads, writes=(gradient,), modes=(mode,)))
    return Graph(name="taped-chain", tensors=tuple(tensors), ops=tuple(ops))
