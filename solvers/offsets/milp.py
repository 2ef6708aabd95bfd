"""Offset allocation by MILP: the glue between the formulation and HiGHS or another solver."""

from __future__ import annotations

import time

from ...formulations.model import BuildTimeout
from ...formulations.offsets import orders_milp as offsets_milp
from ...models.problems.offsets import Offsets
from ..context import Context, Outcome
from ..engines.logs import check_log, logged
from ..engines.memory import refuse_if_too_large
from ..engines.pyomo_solver import solve_milp as run_milp
from .first_come import place_as_they_come
from .part_context import checked, part_context
from .parts import Part, Parts

_BYTES_PER_TERM = 1500


def solve_milp(problem: Offsets, context: Context) -> Outcome:
    """Solve the MILP of each part, from the known allocation or one by first fit.

    Option ``solver`` names another solver that Pyomo finds; further options go to the solver.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> x, y = Buffer(id="x", lower=0, upper=3, size=5), Buffer(id="y", lower=2, upper=5, size=8)
    >>> result = lt.solve(lt.Offsets(Buffers(buffers=(x, y))), "milp", threads=1)
    >>> result.status, result.objective, result.bound
    (<Status.OPTIMAL: 'optimal'>, 13, 13)
    """
    parts = Parts(problem, context)
    last = Outcome()
    if context.log is not None:
        check_log(context.log)
    for part in parts.open():
        if part.offsets is None:
            parts.offer(part, place_as_they_come(part.data))
    while (waiting := parts.open()) and not context.expired:
        before = [(part.height, part.bound) for part in parts.parts]
        for k, part in enumerate(waiting):
            if not parts.is_open(part):
                continue
            last = _solve_part(parts, part, context.remaining() / (len(waiting) - k))
            if last.reason not in (None, "time"):
                return last
        if before == [(part.height, part.bound) for part in parts.parts]:
            break  # a solver's tolerances may keep it from closing what is open
    return parts.outcome("time" if context.expired else last.reason) if parts.open() else parts.outcome()


def _solve_part(parts: Parts, part: Part, seconds: float) -> Outcome:
    context, data, goal = parts.context, part.data, parts.target(part)
    known = part.height if data.capacity is None or (part.height or 0) <= data.capacity else None
    upper = known if data.capacity is None or known is not None else data.capacity
    run = part_context(parts, part, seconds=seconds, floor=goal, seed=context.seed)
    what = "the MILP of orders"
    refused = refuse_if_too_large(
        offsets_milp.size(data), bytes_per_term=_BYTES_PER_TERM, context=run, what=what
    )
    if refused is not None:
        return refused
    began = time.perf_counter()
    try:
        built = offsets_milp.build(
            data,
            lower=goal,
            upper=upper,
            hint=None if known is None else part.offsets,
            expired=lambda: context.expired,
        )
    except BuildTimeout:
        return Outcome(reason="time", detail=f"{what} was not built in time")
    finally:
        taken = time.perf_counter() - began
        context.build_seconds = (context.build_seconds or 0.0) + taken
    context.progress(f"{what}: built in {taken:.2f} s")
    outcome = logged(
        run,
        lambda: run_milp(
            built.model,
            run,
            decode=lambda value: checked(parts, part, offsets_milp.decode(built, value)),
            to_objective=lambda units: units,
        ),
    )
    if outcome.infeasible:
        run.floor, name = goal - 1, context.options["solver"]
        run.raise_bound(built.upper + 1, "floating", kind="HiGHS" if name == "highs" else name)
    return outcome
