r"""Orders of a tree for I/O: those with the least memory, the best post-order for I/O, and expansion's.

*Expansion.* `rec-expand` and `full-rec-expand`: see `lowtide.solvers.minio.expansion`. `liu` with
`furthest` is the OptMinMem of its authors, `postorder-io` with `furthest` their PostOrderMinIO.

*Post-order for I/O.* Let :math:`P_i` be the memory of the subtree of node i in the post-order, as in
`lowtide.solvers.peak.trees.postorder`. Where it exceeds M, the subtree fills the memory and spills
the rest: it takes :math:`A_i = \min(P_i, M)`. Children run by decreasing :math:`A_c - f_c`, and the subtree
writes

.. math:: V_i = \max(0, \max_j (A_{c_j} + \sum_{l<j} f_{c_l}) - M) + \sum_j V_{c_j}

bytes of divisible files with `furthest`, the fewest of all post-orders: the order of the children makes the
maximum least, as in Liu's theorem with A in the place of P, and nothing else depends on it.

Source: E. Agullo, A. Guermouche, J.-Y. L'Excellent, "Reducing the I/O volume in sparse out-of-core
multifrontal methods", SIAM J. Scientific Computing 31 (2010); the rule is written from a summary of it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...formulations.minio.data import MinIOData
from ...models.graph import Graph
from ..peak.trees.liu import tree_blocks
from ..peak.trees.postorder import best_post_order
from ..peak.trees.walks import tree_space
from ..trees.blocks import ops_of
from .expansion import FEW, expanded_order

Order = tuple[int, ...]

Expired = Callable[[], bool]
"""Whether the time is up: then expansion ends where it is."""


def reference(graph: Graph, data: MinIOData, expired: Expired) -> Order:
    """Return the order of the graph."""
    return tuple(range(data.n))


def liu(graph: Graph, data: MinIOData, expired: Expired) -> Order:
    """Return Liu's order, of the least peak."""
    space = tree_space(graph, "liu")
    return space.order(ops_of(tree_blocks(space)))


def postorder(graph: Graph, data: MinIOData, expired: Expired) -> Order:
    """Return the best post-order for the peak."""
    space = tree_space(graph, "postorder")
    return space.order(best_post_order(space))


def postorder_for_io(graph: Graph, data: MinIOData, expired: Expired) -> Order:
    """Return the best post-order for I/O."""
    return io_post_order(data)[0]


def rec_expand(graph: Graph, data: MinIOData, expired: Expired) -> Order:
    """Return the order of at most two expansions for each node."""
    return expanded_order(data, most=FEW, expired=expired)


def full_rec_expand(graph: Graph, data: MinIOData, expired: Expired) -> Order:
    """Return the order of all expansions."""
    return expanded_order(data, expired=expired)


ORDERS: dict[str, Callable[[Graph, MinIOData, Expired], Order]] = {
    "reference": reference,
    "postorder": postorder,
    "liu": liu,
    "postorder-io": postorder_for_io,
    "rec-expand": rec_expand,
    "full-rec-expand": full_rec_expand,
}
"""By name of the option."""


def io_post_order(data: MinIOData) -> tuple[Order, int]:
    """Return the best post-order for I/O, and V of the root in bytes.

    Examples
    --------
    >>> from lowtide.formulations.minio.data import MinIOData
    >>> data = MinIOData(
    ...     memory=8, whole=False, parent=(2, 2, -1), need=(4, 8, 8), maker=(0, 1), size=(4, 2), tensor=(0, 1)
    ... )
    >>> io_post_order(data)
    ((1, 0, 2), 0)
    """
    peak, written = [0] * data.n, [0] * data.n
    below: list[list[int]] = []
    for i, children in enumerate(data.children):
        used = {c: min(peak[c], data.memory) for c in children}
        some = sorted(children, key=lambda c: (data.out[c] - used[c], c))
        in_core = spilling = before = 0
        for c in some:
            in_core = max(in_core, before + peak[c])
            spilling = max(spilling, before + used[c])
            before += data.out[c]
        peak[i] = max(in_core, data.need[i])
        written[i] = max(0, spilling - data.memory) + sum(written[c] for c in children)
        below.append(some)
    order, stack = [], [data.n - 1]
    while stack:
        order.append(stack.pop())
        stack += below[order[-1]]
    return tuple(reversed(order)), written[-1]
