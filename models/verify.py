"""`lowtide.verify`: the verifier's word on a plan, or on an order of the ops.

The judge itself is `lowtide.models.verifier.verify`, which takes plans only: an order is lowered to one here,
outside of what judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .checks import check_type
from .derived.named_ops import ops_of
from .graph import Graph
from .lowering.order import lower_ops
from .plan import Plan
from .verifier.verdict import Verification
from .verifier.verify import verify as judge


def verify(
    graph: Graph,
    plan: Plan | Sequence[int | str],
    *,
    rerun: bool | None = None,
    start_tiers: Mapping[str, tuple[str, ...]] | None = None,
) -> Verification:
    """Return all violations of a plan or of an order, and its exact profiles and objectives.

    Parameters
    ----------
    graph
        What the plan is to execute.
    plan
        A plan; or the ops by index or unique name, one after another on one unlimited memory, each once.
    rerun
        Whether ops may run again; then versions decide, instead of the precedence. None: they may if
        some op of a plan runs more than once.
    start_tiers
        The question's rule: by kind of tensor, the tiers where it may be at time 0; kinds not named may be
        anywhere. None: what the plan says of its question; if it says nothing, inputs in the outermost tier.

    Returns
    -------
    Verification
        The verdict, with what is wrong as ``violations``; `Verification.raise_if_invalid` turns them into an
        error.

    Raises
    ------
    InstanceError
        If there is no such graph, plan or op.

    Examples
    --------
    >>> import lowtide as lt
    >>> g = lt.GraphBuilder("two ops")
    >>> _ = g.op("load", writes=[g.tensor("x", 4)])
    >>> _ = g.op("relu", reads=["x"], writes=[g.tensor("y", 8, final=True)])
    >>> graph = g.build()
    >>> lt.verify(graph, ["load", "relu"]).peaks
    {'memory': 12}
    >>> [violation.kind for violation in lt.verify(graph, ["relu", "load"]).violations]
    ['precedence', 'read']
    """
    check_type(graph, Graph, "verify, graph")
    if isinstance(plan, Plan):
        return judge(graph, plan, rerun=rerun, start_tiers=start_tiers)
    lowered = lower_ops(graph, ops_of(graph, plan, "verify, plan"))
    return judge(graph, lowered, rerun=bool(rerun), start_tiers=start_tiers)
