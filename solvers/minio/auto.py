"""`auto` for `minio`: bounds by least peaks of subtrees, every order with every rule, and cuts, in turns.

Cuts begin with those that prove the bounds, which are computed once, and end only when bound and incumbent
meet, so large trees have them too, for as long as there is time (`lowtide.solvers.portfolio`).
"""

from __future__ import annotations

from ...models.problems.minio import MinIO
from ..context import Context, Outcome
from ..parts import Part, per_op
from ..portfolio import run
from .benders import solve_by_cuts
from .models import offer_rules
from .rules import begin, tree_data


def solve_auto(problem: MinIO, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    tree_data(problem, context.method)  # says what is no tree
    return run(PARTS, problem, context)


def _bounds(problem: MinIO, context: Context) -> Outcome:
    begin(problem, context)
    return Outcome(reason="time" if context.expired else None)


def _rules(problem: MinIO, context: Context) -> Outcome:
    offer_rules(problem, tree_data(problem, context.method), context)
    return Outcome(reason="time" if context.expired else None)


def _cuts(problem: MinIO, context: Context) -> Outcome:
    data, _, cuts = begin(problem, context)
    return solve_by_cuts(problem, data, cuts, context)


PARTS = (
    Part(name="least peaks of subtrees", run=_bounds),
    Part(name="orders and rules", run=_rules),
    Part(name="benders", run=_cuts, seconds=per_op(1_000)),
)
