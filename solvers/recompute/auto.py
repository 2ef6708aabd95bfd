"""`auto`: what is cheap first, then searches and proofs in turns (`lowtide.solvers.portfolio`).

1. Each op once, in the reference order, if that fits: optimal. Of chains the best schedules that are known
   for them: in memory, and with slower tiers.
2. In turns, for graphs whose ops have one mode each: segments and rules of eviction; the bound by the worst
   moment and the schedule that keeps what its solution keeps, which is most of what can be gained in large
   graphs; what every schedule needs up to the first run of each op, which may prove that nothing fits;
   annealing of sequences of runs; bounds by more and more moments; programs within the blocks of a chain
   (`rockmate`) or parts of parts of any graph (`hiremate`); the separators of a tree decomposition
   (`tw-remat`); retention intervals (MOCCASIN) in the order of the first runs of the best schedule, and,
   where slower tiers return values, the MILP in stages with paging (POET).

3. Beside them, where the reference order does not fit: orders of lower peak, of which one that fits is
   optimal; and the parts for plans on the graph in such an order (`lowtide.solvers.recompute.orders`).

Programs of solvers, and methods that share their time out among many such programs, have it in one piece.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...models.problems.recompute import Recompute
from ..context import Context, Outcome
from ..parts import Part
from ..portfolio import run
from ..registry import find_method
from .blocks.rockmate import solve_rockmate
from .chains.chain import why_no_chain
from .chains.methods_of_chains import offer_with_tiers, solve_hetero_chain, without_tiers
from .methods import CHAIN_KERNELS, GRAPH_KERNELS
from .orders import BestOrder
from .pieces import (
    anneal_best,
    bound_by_moments,
    by_blocks,
    by_evictions,
    by_moment,
    by_ops,
    by_pairs,
    by_programs,
    offer_by_rules,
    page,
    prove_that_none_fits,
    retain,
    round_worst_moment,
    solve_parts_of_parts,
    solve_store_all,
)

SHARED = 0.4
"""Of the time that is left, what those have that share it out among programs."""


def solve_auto(problem: Recompute, context: Context) -> Outcome:
    """Stop as soon as the bound meets the best schedule."""
    return run((*PARTS, *_other_orders()), problem, context)


def _several_modes(problem: Recompute) -> str:
    for op in problem.graph.ops:
        if op.modes and (len(op.modes) > 1 or op.modes[0].operands):
            return f"found op {op.name!r} with several modes or operands in given tiers, expected one mode"
    return ""


def _no_pages(problem: Recompute) -> str:
    return without_tiers(problem) or _several_modes(problem)


def _default(method: str) -> dict[str, Any]:
    """Return the options of a method as they are by default."""
    return find_method("recompute", method).typed({})[0]


def _of_graphs(name: str, run: Any, seconds: Any = by_ops, **more: Any) -> Part:
    plain = {"refuses": _several_modes, "seconds": seconds, "kernels": GRAPH_KERNELS}
    return Part(name=name, run=run, **{**plain, **more})


PARTS = (
    Part(name="store-all", run=solve_store_all, first=True),
    Part(name="chain", run=solve_hetero_chain, first=True, refuses=why_no_chain, kernels=CHAIN_KERNELS),
    Part(
        name="chain with tiers",
        run=offer_with_tiers,
        first=True,
        refuses=lambda problem: without_tiers(problem) or why_no_chain(problem),
        kernels=CHAIN_KERNELS,
    ),
    _of_graphs("rules", offer_by_rules, by_evictions),
    _of_graphs("worst moment", round_worst_moment, by_moment, share=SHARED),
    _of_graphs("least need", prove_that_none_fits),
    _of_graphs("annealing", anneal_best),
    _of_graphs("rockmate", solve_rockmate, by_blocks, options=_default("rockmate"), share=SHARED),
    _of_graphs("moments", bound_by_moments, by_programs, pauses=False),
    _of_graphs("hiremate", solve_parts_of_parts, by_pairs, pauses=False, options=_default("hiremate")),
    _of_graphs(
        "tw-remat",
        ".recompute.heuristics.treewidth:solve_tw_remat",
        by_pairs,
        options=_default("tw-remat"),
    ),
    _of_graphs("intervals", retain, by_pairs, pauses=False),
    _of_graphs("paging", page, by_pairs, refuses=_no_pages, pauses=False),
)


IN_ANOTHER_ORDER = ("rules", "worst moment", "annealing", "rockmate")
"""Parts that find schedules, and depend on the reference order."""


def _other_orders() -> tuple[Part, ...]:
    best = BestOrder()
    chosen = tuple(part for part in PARTS if part.name in IN_ANOTHER_ORDER)
    return (
        _of_graphs("orders", best.search),
        _of_graphs("another order", partial(best.follow, chosen), by_ops),
    )
