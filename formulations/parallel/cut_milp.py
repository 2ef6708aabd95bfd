"""Largest parallel memory as an integer program: exact for shared tensors and for a number of processors.

The page of mathematics is that of `lowtide.formulations.parallel.network`, constraints (1) to (5), with
binaries for the starts and ends, and, for `processors` P, what Bathie, Marchal, Robert and Thibault add
("Revisiting dynamic DAG scheduling under memory constraints for shared-memory platforms", IPDPS workshops
2020):

6. At most P ops run: sum_i (p_{s_i} - p_{e_i}) <= P.

The program minimizes the negative of the memory, in units of the greatest common divisor of all bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import gcd
from typing import Any

from ...models.problems.parallel_memory import Moment
from ..model import MILP_BYTES, ModelSize, ticker
from ..pyomo_terms import linear, silent_pyomo
from .network import CutNetwork

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES


@dataclass(frozen=True, kw_only=True)
class BuiltCut:
    """The Pyomo model, its variables by event, and the bytes of one unit of its objective."""

    model: Any
    happened: list[Any]
    unit: int
    network: CutNetwork


def size(network: CutNetwork) -> ModelSize:
    """Return the counts of the model that `build` makes."""
    return ModelSize(
        variables=network.n_events,
        constraints=len(network.orders) + len(network.shared) + 1,
        terms=2 * len(network.orders)
        + sum(1 + len(one.lets_go) for one in network.shared)
        + network.n_events,
    )


def unit_of(network: CutNetwork) -> int:
    """Return the bytes of one unit of the objective: the greatest common divisor of all bytes."""
    gains, constant = network.gains()
    return reduce(gcd, (*gains, constant)) or 1


def build(
    network: CutNetwork,
    processors: int | None = None,
    hint: Moment | None = None,
    *,
    expired: Callable[[], bool] = lambda: False,
) -> BuiltCut:
    """Return the model of a network.

    Parameters
    ----------
    network
        What `lowtide.formulations.parallel.network.build` returns.
    processors
        P of (6); None: any number.
    hint
        A moment for the warm start.
    """
    import pyomo.environ as pyo

    gains, constant = network.gains()
    unit, tick = unit_of(network), ticker(expired)
    with silent_pyomo():
        model = pyo.ConcreteModel()
        model.p = pyo.Var(range(network.n_events), bounds=(0, 1))
        happened = [model.p[v] for v in range(network.n_events)]
        for v in happened[: 2 * network.n_ops]:
            v.domain = pyo.Binary
        model.rows = pyo.ConstraintList()
        for u, v in network.orders:
            tick()
            model.rows.add((0, linear([happened[u], happened[v]], [1, -1]), None))  # (1, 2, 3, 4)
        for one in network.shared:
            tick()
            death, lets_go = happened[2 * network.n_ops + one.tensor], [happened[h] for h in one.lets_go]
            row = linear([death, *lets_go], [1] + [-1] * len(lets_go))
            model.rows.add((1 - len(lets_go), row, None))  # (5)
        if processors is not None:
            events = happened[: 2 * network.n_ops]
            model.rows.add((None, linear(events, [1, -1] * network.n_ops), processors))  # (6)
        costs = [-gain // unit for gain in gains]
        model.memory = pyo.Objective(expr=linear(happened, costs, -constant // unit))
        if hint is not None:
            _warm_start(network, happened, hint)
    return BuiltCut(model=model, happened=happened, unit=unit, network=network)


def decode(built: BuiltCut, value: Callable[[Any], float]) -> Moment:
    """Return the moment of a solution."""
    return built.network.moment([value(v) > 0.5 for v in built.happened])


def _warm_start(network: CutNetwork, happened: list[Any], hint: Moment) -> None:
    n, finished = network.n_ops, set(hint.finished)
    started = finished | set(hint.running)
    known = [False] * network.n_events
    for i in range(n):
        known[2 * i], known[2 * i + 1] = i in started, i in finished
    after: dict[int, list[int]] = {}
    for u, v in network.orders:
        after.setdefault(u, []).append(v)
    shared = {2 * n + one.tensor: one for one in network.shared}
    for v in range(2 * n, network.n_events):
        gone = any(known[w] for w in after.get(v, ()))
        known[v] = gone or (v in shared and all(known[h] for h in shared[v].lets_go))
    for variable, true in zip(happened, known, strict=True):
        variable.set_value(int(true))
