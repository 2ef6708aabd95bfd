r"""AutoTM's model as arrays, on which `autotm_kernel` computes.

No number here leaves 64 bits. Let :math:`T < 2^{59}` be the sum of times of `tables.most_time`: of
each item all copies at each of its points, of each op with J operands :math:`1 + 2 J` times its greatest
length. ``unit`` times T is below :math:`2^{59}`. At prices,

- copies cost at most ``unit`` times their ns, since the weights of a, b and c have sum ``unit``;
- what is taken from a tier, ``take``, costs or brings at most ``unit`` times the greatest length of its op,
  and a mode at most :math:`1 + J` times that: its own length, and what its operands bring or cost;
- a rent times the bytes of an item is at most :math:`2^{61}`, over all rows and ops; after the division by
  ``fine`` those of all items and workspaces together are at most :math:`2^{59}`. `Dual.prices` checks that.

So the cost of any steps of any walks, with that of any modes, is at most :math:`2^{60}`, below
`autotm_kernel.NEVER`.
Beside all others, rents have up to four times their price, below :math:`2^{61}` together, and slots are as
long as the ops and copies that T counts: such a walk costs less than :math:`2^{62}`, and is not taken if
that is that or more. Bytes: those of a graph are below :math:`2^{62}`, ``held`` counts them twice at most.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Matrix = Annotated[NDArray[np.int64], 2]


class AutotmTables(NamedTuple):
    """The model: walks by item, points by walk, steps by kind of point; operands and modes by op.

    Times in ns. ``until``: behind the last op before the next point. ``operand``: the place of an item among
    all operands of ops, -1 if the op leaves it alone. ``at``, ``behind``: rows, as bits, in which a step has
    room at its op, and from there on. ``run_row``: the row of what the first tier holds while an op runs, -1
    without limit. ``level``, ``core``, ``kept``: :math:`E_k`, :math:`c_k` and :math:`K_k` of `prices`.
    """

    walk_first: Integers
    point_first: Integers
    op: Integers
    until: Integers
    operand: Integers
    kind: Integers
    step_first: Integers
    src: Integers
    dst: Integers
    use: Integers
    at: Integers
    behind: Integers
    alone_hops: Matrix
    beside_hop: Integers
    size: Integers
    alone_time: Matrix
    beside_time: Matrix
    slow: Matrix
    operand_first: Integers
    mode_first: Integers
    duration: Integers
    workspace: Integers
    wanted: Matrix
    level: Integers
    core: Integers
    kept: Integers
    longest: Integers
    states: int
    run_row: int


class Prices(NamedTuple):
    """Prices in fractions of a ns: ``unit`` of them are one.

    ``rent``: ``fine`` times that of a byte, by row and op; ``paid``: its sums in front of each op. ``share``,
    ``near``: the weights of b and c in the bound of a slot. ``take``: of an operand from a tier.
    """

    rent: Matrix
    paid: Matrix
    share: Integers
    near: Integers
    take: Matrix
    unit: int
    fine: int


class Locations(NamedTuple):
    """Where all items are: bytes free by row and op, workspaces left out; tier by operand.

    ``beside``, ``length``: ns of the copies beside an op, and of itself; ``mode``, ``work``: its mode and the
    bytes of its workspace; ``chosen``: the walk of each item; ``step``: by point of all walks.
    """

    free: Matrix
    tier: Integers
    beside: Integers
    length: Integers
    mode: Integers
    work: Integers
    chosen: Integers
    step: Integers


class Scratch(NamedTuple):
    """Room for a walk under construction: cost and last step by point and state, its steps, full moments.

    ``rent``: by row, what room at the op of a point costs, and from there on.
    """

    value: Matrix
    by: Matrix
    path: Integers
    full: Matrix
    rent: Matrix
