"""Plans of `placement` that meet demands: those of three policies, then as for any problem.

What is lost between the small parts that plans of `auto` move may be a quarter of a device, and take many
rounds of `lowtide.solvers.offsets.demanded`. So three policies come first, each in an eighth of the time.
"""

from __future__ import annotations

from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ...method import RunFunction
from ...offsets.demanded import search
from ...registry import find_method, unserved

FIRST = ("autoswap", "chen-meng", "vdnn")
"""Policies whose plans lose little to fragmentation (table `placement_fragmentation`)."""


def solve_demanding(run: RunFunction, problem: Placement, context: Context) -> Outcome:
    """Offer the best plan that meets the demands, of a method that knows nothing of them; see above."""
    context.careful = True
    for name in FIRST if context.method == "auto" else ():
        if unserved(problem, name):
            continue
        method = find_method(problem.name, name)
        options = method.typed({})[0]
        part = context.inner(problem, context.remaining() / 8, f"{name}: ", options=options)
        search(method.load(), problem, part)
        if part.answer is not None:
            context.offer(part.answer)
    return search(run, problem, context)
