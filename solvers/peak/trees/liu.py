r"""The method `liu`: hill and valley segments of subtrees, merged and then cut anew at each node.

At each node, in walks' direction (`walks`):

1. the sequences of its children, which are free of each other, are put in parallel;
2. the node is put behind them in series.

Segments are the blocks of `lowtide.solvers.trees.blocks`, and its theorem is the
proof that the order dominates every other one. With h the *hill* of a segment above its beginning and a the
*valley* at its end, both above the same level, Liu's rule to merge by decreasing hill less valley is the
order of the climbs. His trees have no falls: those need inputs that vanish with leaves.

Source: J. W. H. Liu, "An application of generalized tree pebbling to sparse matrix factorization", SIAM J.
Algebraic Discrete Methods 8 (1987); written from a summary of it. The merge of
the smaller list of segments into the larger one makes it O(n log^2 n) comparisons where the paper has O(n^2).
"""

from __future__ import annotations

from ....models.problems.peak import Peak
from ...context import Context, Outcome
from ...trees.blocks import Blocks, in_parallel, in_series, ops_of
from ..search.state_space import StateSpace
from ..series_parallel.additive import op_block
from ..series_parallel.dominant import conclude
from .walks import tree_space, upwards


def solve_liu(problem: Peak, context: Context) -> Outcome:
    """Offer Liu's order, whose peak bounds that of every order."""
    space = tree_space(problem.graph, "liu")
    conclude(problem, context, space.order(ops_of(tree_blocks(space))))
    return Outcome()


def tree_blocks(space: StateSpace) -> Blocks:
    """Return the segments of a dominant walk of an in-tree."""
    parts: dict[int, list[Blocks]] = {}
    roots = []
    for v in upwards(space):
        below = in_parallel(parts.pop(v, []))
        whole = in_series(below, [op_block(space, v, space.increase[v])])
        if space.after[v]:
            parts.setdefault(space.after[v][0], []).append(whole)
        else:
            roots.append(whole)
    return in_parallel(roots)
