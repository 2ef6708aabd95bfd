r"""Multipliers that prove a least memory, from the maximum flow of a closure.

The least of f(R) over the sets R of free ops that a walk can step over (f, needs and groups as in
`lowtide.models.verifier.proofs.cut`) is a maximum closure of profit -f (Picard, 1976): forward, nodes are the
ops with profit -gain and the groups with profit bytes, which need their ops; backward, the ops have profit
gain and are what needs the groups, of profit -bytes. With arcs source -> x for profits > 0, x -> sink for
profits < 0 and uncapacitated arcs from each node to what it needs, let the flow on the latter be the
multipliers. Then by conservation the reduced cost of a node is its inflow from the source less its profit,
if that is > 0, else its loss less its outflow to the sink: negative costs sum to flow - sum of the
positive profits, which is the least f.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....models.verifier.proofs.cut import Multipliers
from ..search.state_space import StateSpace


def multipliers(
    space: StateSpace, back: bool, ops: Sequence[int], counting: Mapping[int, Sequence[int]]
) -> Multipliers:
    """Return multipliers for the least f.

    Parameters
    ----------
    space
        Of the graph, forward.
    back
        The direction of the walk.
    ops
        The free ops.
    counting
        The groups that count, each with its free ops.
    """
    from ortools.graph.python.max_flow import SimpleMaxFlow

    node = {v: k for k, v in enumerate(ops)}
    sign = 1 if back else -1
    profit = [sign * space.increase[v] for v in ops]
    near = space.after if back else space.before
    edges = [(u, v) for v in ops for u in near[v] if u in node]
    shares = [(g, v) for g, some in sorted(counting.items()) for v in some]
    group_node = {g: len(ops) + k for k, g in enumerate(sorted(counting))}
    profit += [-sign * space.group_bytes[g] for g in sorted(counting)]
    arcs = [(node[v], node[u]) for u, v in edges]
    arcs += [(node[v], group_node[g]) if back else (group_node[g], node[v]) for g, v in shares]
    values = np.asarray(profit, dtype=np.int64)
    gain, loss = np.flatnonzero(values > 0), np.flatnonzero(values < 0)
    if not len(gain) or not len(arcs):
        return Multipliers()
    flow, source, sink = SimpleMaxFlow(), len(profit), len(profit) + 1
    ends = np.asarray(arcs, dtype=np.int64)
    uncapacitated = int(np.abs(values).sum()) + 1
    numbers = flow.add_arcs_with_capacity(ends[:, 0], ends[:, 1], np.full(len(ends), uncapacitated))
    flow.add_arcs_with_capacity(np.full(len(gain), source), gain, values[gain])
    flow.add_arcs_with_capacity(loss, np.full(len(loss), sink), -values[loss])
    if len(loss) and flow.solve(source, sink) != flow.OPTIMAL:
        raise RuntimeError("the maximum flow of a certificate failed")
    amounts = flow.flows(numbers).tolist() if len(loss) else [0] * len(arcs)
    return Multipliers(
        edges=tuple((u, v, x) for (u, v), x in zip(edges, amounts, strict=False) if x),
        shares=tuple(
            (space.group_tensors[g], v, x)
            for (g, v), x in zip(shares, amounts[len(edges) :], strict=True)
            if x
        ),
    )
