"""A steady state that was drawn and worked out by hand.

A training step of 20 ns. The new weight goes back to the host while the next step begins, where a second
processor reads it::

    ns    0   2   4      8        14        20
    p             |  f   |   g    |
    q         | h |
    w     <---|          new      |-copy back--->
    x         |copy-|    free
    gpu   8   10  13     15       12
"""

from __future__ import annotations

from lowtide.models.graph import Graph, Op, Tensor
from lowtide.models.machine import Access, Channel, Machine, Processor, Tier
from lowtide.models.plan import Copy, Free, Plan, Resident, Run
from tests.drawings import GIGA

W, X, Y, OUT = range(4)


F, G, H = 0, 2, 1


GRAPH = Graph(
    name="training step",
    tensors=(
        Tensor(name="w", nbytes=8, kind="weight", initial=True, final=True),
        Tensor(name="x", nbytes=2, kind="input", initial=True),
        Tensor(name="y", nbytes=3),
        Tensor(name="out", nbytes=4, kind="output", final=True),
    ),
    ops=(
        Op(name="f", duration_ns=4, reads=(W, X), writes=(Y,)),
        Op(name="h", duration_ns=2, reads=(W,)),
        Op(name="g", duration_ns=6, reads=(W, Y), writes=(W, OUT)),
    ),
)


MACHINE = Machine(
    tiers=(Tier(name="gpu", capacity=15), Tier(name="host", capacity=10)),
    processors=(
        Processor(name="p", tiers=(Access(tier="gpu"),)),
        Processor(name="q", tiers=(Access(tier="host"),)),
    ),
    channels=(
        Channel(src="host", dst="gpu", bytes_per_s=GIGA),
        Channel(src="gpu", dst="host", bytes_per_s=GIGA),
    ),
)


PLAN = Plan(
    machine=MACHINE,
    period=20,
    start=(Resident(W, "gpu"), Resident(X, "host")),
    runs=(Run(F, 0, 4, 8, "p"), Run(H, 0, 2, 4, "q"), Run(G, 0, 8, 14, "p")),
    copies=(Copy(W, "gpu", "host", 14, 22), Copy(X, "host", "gpu", 2, 4)),
    frees=(Free(X, "gpu", 8), Free(Y, "gpu", 14)),
)
