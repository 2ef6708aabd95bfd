r"""`ideals`: dynamic program over the ideals of the order of classes; exact for contiguous stages.

An ideal is a set of classes that has with each class those before it. Stages in the order of a pipeline are
the differences of a chain of ideals :math:`\emptyset = I_0 \subset I_1 \subset \dots \subset I_s = C`, and
each chain gives such stages. With :math:`u` the devices of each kind that are used behind an ideal,

.. math:: f(C, 0) = 0, \qquad f(J, u + r e_k) = \min_{I \supset J} \max(f(I, u), L_{kr}(I \setminus J)),

where :math:`L_{kr}` is the load of r devices of kind k, infinite beyond their memory; the number of stages
behind, which `1f1b` needs, is the sum of u if no stage has replicas. The least :math:`f(\emptyset, u)` over
all u is the optimum. (Tarnawski, Phanishayee, Devanur, Mahajan and Nina Paravecino, NeurIPS 2020;
their program goes forward.)

From each ideal the larger ones are visited once each, classes added in ascending order (which is topological,
so every beginning of an ideal in that order is one), and loads follow each class; what exceeds the best
answer is left out, times being monotone. `ideals` gives up beyond a number of ideals.
"""

from __future__ import annotations

from ...formulations.partition.data import PartitionData, partition_data
from ...models.problems.partition import Partition
from ..context import Context, Outcome
from .program import LARGEST, Rows, offer_cuts, refusal, run_program, states_of


def solve_ideals(problem: Partition, context: Context) -> Outcome:
    """Offer the best cuts of the reference order, then prove the optimum over all ideals."""
    data = partition_data(problem)
    words = refusal(problem, data) or ("" if problem.contiguous else "ideals is for contiguous stages")
    if words:
        return Outcome(detail=words)
    most = min(context.options["most"], LARGEST // states_of(problem))
    offer_cuts(problem, data, context)
    rows = ideals_of(data, most, context)
    if rows is None and not context.expired:
        return Outcome(detail=f"more than {most} ideals")
    if rows is None or not run_program(problem, data, rows, context):
        return Outcome(reason="time")
    return proved(context, "ideals", len(rows[0]) - 1)


def proved(context: Context, kind: str, ideals: int) -> Outcome:
    """Return how a program ends that was exact: nothing is better than the incumbent."""
    facts = {"ideals": ideals}
    if context.incumbent is None:
        return Outcome(infeasible=True, detail="no stages on these devices are valid", facts=facts)
    context.raise_bound(context.incumbent, kind=kind)
    return Outcome(facts=facts)


def ideals_of(data: PartitionData, most: int, context: Context) -> Rows | None:
    """Return all ideals; None if there are more than `most`, or the time is up."""
    masks = [sum(1 << b for b in before) for before in data.before]
    after: list[list[int]] = [[] for _ in masks]
    for c, before in enumerate(data.before):
        for b in before:
            after[b].append(c)
    ready = {0: tuple(c for c, mask in enumerate(masks) if not mask)}
    level = [0]
    first, added, target = [0], [], []
    count = 1
    while level:
        number: dict[int, int] = {}
        for ideal in level:
            if count > most or context.expired:
                return None
            for c in ready[ideal]:
                larger = ideal | 1 << c
                if larger not in number:
                    number[larger] = count
                    count += 1
                    more = [d for d in after[c] if not masks[d] & ~larger]
                    ready[larger] = tuple(sorted({*ready[ideal], *more} - {c}))
                added.append(c)
                target.append(number[larger])
            first.append(len(added))
            del ready[ideal]
        level = list(number)
    return first, added, target
