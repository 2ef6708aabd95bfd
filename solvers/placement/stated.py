"""What the models of `placement` are stated of, where they are written for other solvers, and their plans.

Each is the whole program that a method states for the question, also where the method solves it by parts:

``autotm-static``, ``autotm-sync``, ``autotm-async``
    AutoTM's program with all steps of all items (the method excludes some by prices). Its optimum is the
    form's, the least time of a plan of the form, up to less than 1 ns for each op that uses outer tiers.
``tmof``
    TMOF's program of all GPUs. Its optimum is the least time of a plan of TMOF's form, without latencies. In
    it tensors are copied in parts: plans of whole tensors may need more.
``slot-lp``
    The program with eight rounds in each piece, from which the method's first plan comes: up to rounding its
    optimum is that plan's time. With ``whole`` that without limit on the rounds, whose optimum is a bound.
``slot-milp``
    The lower model on one piece for each run and each stall, with which its rounds begin: the optimum
    is a bound on plans of whole tensors, and copies in the order of a solution are a plan.
``lp-bound``
    The program at the samples of the method's last round: its optimum is the bound; it has no plans.
``cpsat``
    Intervals of whole tensors: its optimum is the least time of a plan of one copy at a time each way.

Of replicas in all but ``tmof`` one GPU on its share: its plan in all of them at the same times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...formulations.placement.autotm import walks_milp
from ...formulations.placement.autotm.data import AutotmData, Form, autotm_data
from ...formulations.placement.bounds.windows import disjoint, windows
from ...formulations.placement.lanes import lanes
from ...formulations.placement.slots.order import order
from ...formulations.placement.slots.pieces import coarse
from ...formulations.placement.states import state_data
from ...formulations.placement.whole import intervals_cpsat
from ...formulations.placement.whole.sequence import longest_stall, rates
from ...formulations.placement.whole.sequence_plan import plan_of
from ...models.errors import UsageError
from ...models.plan import Plan
from ...models.problems.placement import Placement
from ..method import Stated, Value
from .autotm.method import rate
from .autotm.plan import emit
from .bounds.prices import ROUNDS as SAMPLED_ROUNDS
from .bounds.prices import chosen_samples, sample_data
from .reductions.replicas.share import replicas
from .slots import bytes as slots_bytes
from .slots.plan import decode as plan_of_bytes
from .tmof.method import plan_of_swaps, refused


def one_gpu(problem: Placement) -> Placement:
    """Return the problem of one GPU on its share, where there are replicas; else the problem."""
    found = replicas(problem)
    return problem if found is None else found.shared


def _checked(problem: Placement, *, modes: bool = False) -> Placement:
    """Return a problem, unless it has no plan for a reason that is seen, or several modes."""
    if (why := problem.impossible()) is not None:
        raise UsageError(f"export: found a problem without plans ({why}), expected one that may have some")
    if not modes and any(len(op.all_modes) > 1 for op in problem.graph.ops):
        raise UsageError(
            "export: found ops with several modes, among which this method branches, expected one mode each "
            "(cpsat, lp-bound and those of AutoTM have models with modes)"
        )
    return problem


def _in_all(problem: Placement, plan: Plan | None) -> Plan | None:
    """Return the plan of all replicas that do what one does."""
    found = replicas(problem)
    return plan if found is None or plan is None else found.spread([plan] * len(found.lanes))


def intervals(problem: Placement, tick: int | None = None) -> dict[str, Any]:
    """Return the data, the longest time that a plan may take, and the steps of time."""
    data = state_data(_checked(problem, modes=True), modes=True)
    tick = tick or intervals_cpsat.common_tick(data, rates(data, beside=False)[0])
    return {"data": data, "horizon": data.slowest + longest_stall(data), "tick": tick}


def plan_of_intervals(problem: Placement, stated: Stated, built: Any, value: Value) -> Plan:
    """Return the plan of a solution."""
    return intervals_cpsat.decode(built, value, problem)


def static(problem: Placement) -> AutotmData:
    """Return the data of AutoTM's static form."""
    return autotm_data(_checked(problem, modes=True), Form.STATIC)


def sync(problem: Placement) -> AutotmData:
    """Return the data of AutoTM's synchronous form."""
    return autotm_data(_checked(problem, modes=True), Form.SYNC)


def beside(
    problem: Placement, window: int = 15, read_beside: str | None = None, write_beside: str | None = None
) -> AutotmData:
    """Return the data of AutoTM's asynchronous form."""
    rates_beside = rate("read-beside", read_beside), rate("write-beside", write_beside)
    return autotm_data(_checked(problem, modes=True), Form.ASYNC, window=window, beside=rates_beside)


def plan_of_walks(problem: Placement, stated: Stated, built: Any, value: Value) -> Plan:
    """Return the plan of a solution of AutoTM's program."""
    return emit(problem, stated["data"], *walks_milp.decode(built, value))


def swaps(problem: Placement, share: str = "joint") -> dict[str, Any]:
    """Return the data of TMOF's program."""
    parts = lanes(_checked(problem))
    data = [state_data(lane.problem) for lane in parts]
    if detail := refused(share, data):
        raise UsageError(f"export: {detail}")
    if share == "oblivious":
        return {"data": data[:1]}
    return {
        "data": data,
        "lanes": parts,
        "groups": problem.machine.groups,
        "disjoint": 1 if share in ("disjoint", "both") else None,
        "token": share in ("bidirectional", "both"),
    }


def plan_of_tmof(problem: Placement, stated: Stated, built: Any, value: Value) -> Plan | None:
    """Return the plan of a solution of TMOF's program."""
    parts = lanes(problem)
    return plan_of_swaps(problem, parts, [state_data(lane.problem) for lane in parts], built, value)


def bytes_in_rounds(problem: Placement) -> dict[str, Any]:
    """Return the data of the slot model in bytes, with eight rounds; of whole tensors without limit."""
    data = state_data(one_gpu(_checked(problem)))
    rounds = None if problem.whole else slots_bytes.ROUNDS[0]
    most = slots_bytes.longest_stall(data)
    return {"data": data, "stall": most, "rounds": rounds, "onward": data.linked or rounds is None}


def plan_of_rounds(problem: Placement, stated: Stated, built: Any, value: Value) -> Plan | None:
    """Return the plan of a solution of the slot model in bytes; none of whole tensors."""
    if problem.whole:
        return None
    return _in_all(problem, plan_of_bytes(built, built.pyomo.values(value), one_gpu(problem)))


def whole_tensors(problem: Placement) -> dict[str, Any]:
    """Return the data of the lower slot model of whole tensors, on one piece for each run and stall."""
    data = state_data(one_gpu(_checked(problem)))
    return {"cut": coarse(data), "most": longest_stall(data), "upper": False, "base": data.ideal}


def plan_of_whole(problem: Placement, stated: Stated, built: Any, value: Value) -> Plan | None:
    """Return the plan of the copies of a solution in their order, if it has one."""
    return _in_all(problem, plan_of(one_gpu(problem), stated["cut"].data, order(built, value)))


def samples(problem: Placement, *, expired: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """Return the data of the program of prices, and the samples of the last round."""
    data = sample_data(one_gpu(_checked(problem, modes=True)))
    every = windows(data, expired)
    return {"data": data, "samples": chosen_samples(data, every, disjoint(every, data), *SAMPLED_ROUNDS[-1])}
