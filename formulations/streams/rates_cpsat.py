r"""Several devices under proportional contention, in CP-SAT: starts, ends, and what is done between them.

Data. Ops :math:`i \in I`, n of them, in the reference order: :math:`w_i` ns alone, :math:`u_i` of a device's
:math:`S` parts; E the edges of the precedence, and :math:`c_{ij}` the ns of the longest transfer from op i to
op j; devices :math:`d \in D`, each with at most G streams. Events :math:`k = 0, \dots, 2n - 1`, and between
them intervals :math:`k < 2n - 1`. H: a makespan that is known to be possible.

Variables. :math:`T_k \le H` integer: ns of an event; :math:`s_i, e_i` integer: start and end of an op. 0 or
1: :math:`x_{id}`: op i is on device d; :math:`b_{ik}`, :math:`f_{ik}`: it has started, has ended by event k;
:math:`o_{ikd}`: it runs on device d in interval k; :math:`p_{ij}`: ops i and j are on different devices.
:math:`z_{ikd}` integer: its work, parts times ns, on device d in interval k.

Objective. Minimize :math:`T_{2n-1}` subject to

1. (redundant) :math:`T_0 = 0`, :math:`T_k \le T_{k+1}`, :math:`e_i \le T_{2n-1}`;
2. :math:`\sum_d x_{id} = 1`, where :math:`d \le i`, as devices are equal;
3. :math:`b_{ik} \le b_{i,k+1}`, :math:`f_{ik} \le f_{i,k+1}`, :math:`f_{ik} \le b_{ik}`,
   :math:`f_{i,2n-1} = 1`;
4. :math:`s_i \le T_k` if :math:`b_{ik}`; :math:`e_i \ge T_{k+1}` if :math:`b_{ik} > f_{ik}`;
5. :math:`s_j \ge e_i + c_{ij} p_{ij}` for :math:`(i, j) \in E`, and :math:`p_{ij} \ge x_{jd} - x_{id}`;
6. :math:`o_{ikd} \ge x_{id} + b_{ik} - f_{ik} - 1`, :math:`o_{ikd} \le x_{id}`,
   :math:`o_{ikd} \le b_{ik} - f_{ik}`;
7. :math:`\sum_i o_{ikd} \le G`;
8. :math:`z_{ikd} \le u_i w_i\, o_{ikd}` and :math:`z_{ikd} \le u_i (T_{k+1} - T_k)`;
9. :math:`\sum_i z_{ikd} \le S (T_{k+1} - T_k)`;
10. :math:`\sum_{kd} z_{ikd} = u_i w_i`.

Events are in order already by 8. It is exact: the plans of the problem are those in which works flow through
the intervals between starts and ends (`lowtide.models.verifier.contention`), of which there are at most 2n
different ones, the first of them 0 (else all can begin earlier); all capacities are integers, and so is a
flow. Conversely let op i run from the first event at which it has started to the first at which it has ended:
that is within :math:`[s_i, e_i)`, and at most G such runs of a device meet at a time, so they stand on G
streams, as intervals on a line do. Transfers begin at once: there is no memory that they could wait for.

Source: this suite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

from ...models.derived.precedence import precedence
from ...models.errors import UsageError
from ...models.lowering.streams import share_of
from ...models.plan import Plan, Run
from ...models.problems.streams import Streams
from ..model import CPSAT_BYTES, ModelSize, Tick, ticker

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES

LARGEST = 2**61
"""Parts times ns in all: CP-SAT adds in 64 bits."""


@dataclass(kw_only=True)
class RatesModel:
    """The CP-SAT model and what its variables mean: by op, then by event or interval."""

    model: Any
    problem: Streams
    tick: Tick
    horizon: int
    event: list[Any] = field(default_factory=list)
    on: list[list[Any]] = field(default_factory=list)
    """x, by op and device."""
    begun: list[list[Any]] = field(default_factory=list)
    ended: list[list[Any]] = field(default_factory=list)
    start: list[Any] = field(default_factory=list)
    end: list[Any] = field(default_factory=list)
    active: list[list[list[Any]]] = field(default_factory=list)
    """o, by device last."""
    work: list[list[list[Any]]] = field(default_factory=list)
    """z, as `active`."""

    @property
    def lengths(self) -> list[Any]:
        """The ns of each interval."""
        return [after - before for before, after in pairwise(self.event)]

    def share(self, i: int) -> int:
        """Return u."""
        return share_of(self.problem.graph, i, self.problem.device.parts)


def size(problem: Streams) -> ModelSize:
    """Return about the counts of the model."""
    n, devices = len(problem.graph.ops), problem.devices
    cells = 2 * n * n * devices
    return ModelSize(variables=2 * cells + 4 * n * n, constraints=6 * cells, terms=16 * cells)


def check(problem: Streams) -> None:
    """Raise `UsageError` if the question is another one, or its numbers are too large for 64 bits."""
    if problem.contention != "proportional" or problem.sync_ns or problem.memory is not None:
        raise UsageError(
            f"contention: found {problem.contention!r}, sync_ns {problem.sync_ns} and memory {problem.memory}"
            ", expected proportional, 0 and none of the CP-SAT model of rates"
        )
    assert problem.cluster is not None
    transfers = sum(problem.cluster.transfers.values())
    total = 4 * problem.device.parts * (sum(problem.durations) + transfers + 1)
    if total >= LARGEST:
        raise UsageError(f"CP-SAT model of rates: found {total} parts times ns, expected less than 2^61")


def build(
    problem: Streams,
    *,
    horizon: int | None = None,
    lower: int = 0,
    expired: Callable[[], bool] = lambda: False,
) -> RatesModel:
    """Return the model; its objective is in ns.

    Parameters
    ----------
    problem
        Of several devices.
    horizon
        H; None: that of one op after another on one device.
    lower
        A bound of the makespan.

    Raises
    ------
    UsageError
        As `check`.
    """
    from ortools.sat.python import cp_model

    check(problem)
    model = cp_model.CpModel()
    model.name = "rates"
    n, most = len(problem.graph.ops), sum(problem.durations) if horizon is None else horizon
    built = RatesModel(model=model, problem=problem, tick=ticker(expired), horizon=most)
    events = range(2 * n)
    built.event = [model.new_int_var(0, most, f"T[{k}]") for k in events]
    for i, ns in enumerate(problem.durations):
        built.tick()
        devices = range(min(i + 1, problem.devices))
        built.on.append([model.new_bool_var(f"x[{i}][{d}]") for d in devices])
        built.begun.append([model.new_bool_var(f"b[{i}][{k}]") for k in events])
        built.ended.append([model.new_bool_var(f"f[{i}][{k}]") for k in events])
        built.start.append(model.new_int_var(0, most, f"s[{i}]"))
        built.end.append(model.new_int_var(0, most, f"e[{i}]"))
        cells = [[f"[{i}][{k}][{d}]" for d in devices] for k in events[:-1]]
        work = built.share(i) * ns
        built.active.append([[model.new_bool_var(f"o{x}") for x in some] for some in cells])
        built.work.append([[model.new_int_var(0, work, f"z{x}") for x in some] for some in cells])
    for constrain in CONSTRAINTS:
        constrain(built)
    model.add(built.event[-1] >= lower)
    model.minimize(built.event[-1])
    return built


def _events(built: RatesModel) -> None:
    """Constraint 1: events follow each other from 0 to the last end."""
    built.model.add(built.event[0] == 0)
    for length in built.lengths:
        built.model.add(length >= 0)
    for end in built.end:
        built.model.add(end <= built.event[-1])


def _devices(built: RatesModel) -> None:
    """Constraint 2: each op is on one device."""
    for some in built.on:
        built.model.add_exactly_one(some)


def _runs(built: RatesModel) -> None:
    """Constraint 3: an op starts, then it ends."""
    for begun, ended in zip(built.begun, built.ended, strict=True):
        built.tick()
        for some in (begun, ended):
            for now, then in pairwise(some):
                built.model.add_implication(now, then)
        for yes, no in zip(ended, begun, strict=True):
            built.model.add_implication(yes, no)
        built.model.add(ended[-1] == 1)


def _times(built: RatesModel) -> None:
    """Constraint 4: start and end of an op lie around the intervals in which it runs."""
    for start, end, begun, ended in zip(built.start, built.end, built.begun, built.ended, strict=True):
        built.tick()
        for k, event in enumerate(built.event):
            built.model.add(start <= event).only_enforce_if(begun[k])
            if k:
                running = (begun[k - 1], ended[k - 1].negated())
                built.model.add(end >= event).only_enforce_if(*running)


def _precedence(built: RatesModel) -> None:
    """Constraint 5: what precedes an op has ended, and been transferred, before it starts."""
    model, cluster = built.model, built.problem.cluster
    assert cluster is not None
    for j, before in enumerate(precedence(built.problem.graph).predecessors):
        built.tick()
        for i in before:
            model.add(built.start[j] >= built.end[i])
            if ns := cluster.transfers.get((i, j), 0):
                apart = model.new_bool_var(f"p[{i}][{j}]")
                for d, there in enumerate(built.on[j]):
                    model.add(apart >= there - (built.on[i][d] if d < len(built.on[i]) else 0))
                model.add(built.start[j] >= built.end[i] + ns).only_enforce_if(apart)


def _active(built: RatesModel) -> None:
    """Constraint 6: an op runs on its device in the intervals from its start to its end."""
    for on, begun, ended, active in zip(built.on, built.begun, built.ended, built.active, strict=True):
        for k, some in enumerate(active):
            built.tick()
            for there, here in zip(on, some, strict=False):
                built.model.add(here >= there + begun[k] - ended[k] - 1)
                built.model.add_implication(here, there)
                built.model.add(here <= begun[k] - ended[k])


def _on_device(some: Sequence[Sequence[Sequence[Any]]], k: int, d: int) -> list[Any]:
    """Return the variables of an interval and a device, of all ops that may be there."""
    return [of_op[k][d] for of_op in some if d < len(of_op[k])]


def _streams(built: RatesModel) -> None:
    """Constraint 7: at most G ops of a device run at a time."""
    most = built.problem.streams
    for k in range(len(built.event) - 1):
        for d in range(built.problem.devices) if most is not None else ():
            built.tick()
            built.model.add(sum(_on_device(built.active, k, d)) <= most)


def _shares(built: RatesModel) -> None:
    """Constraint 8: an op advances where it runs, and there no faster than alone."""
    for i, ns in enumerate(built.problem.durations):
        share = built.share(i)
        for length, active, work in zip(built.lengths, built.active[i], built.work[i], strict=True):
            built.tick()
            for here, done in zip(active, work, strict=True):
                built.model.add(done <= share * ns * here)
                built.model.add(done <= share * length)


def _capacity(built: RatesModel) -> None:
    """Constraint 9: a device gives no more than it has."""
    for k, length in enumerate(built.lengths):
        for d in range(built.problem.devices):
            built.tick()
            built.model.add(sum(_on_device(built.work, k, d)) <= built.problem.device.parts * length)


def _works(built: RatesModel) -> None:
    """Constraint 10: all of each op is done."""
    for i, ns in enumerate(built.problem.durations):
        built.model.add(sum(done for some in built.work[i] for done in some) == built.share(i) * ns)


CONSTRAINTS = (
    *(_events, _devices, _runs, _times, _precedence),
    *(_active, _streams, _shares, _capacity, _works),
)
"""In the order of the page."""


def decode(built: RatesModel, value: Callable[[Any], Any]) -> Plan:
    """Return the plan: each op on the stream of its device that has been free longest."""
    problem, n = built.problem, len(built.start)
    assert problem.cluster is not None
    spans = []
    for i in range(n):
        first, last = (sum(not value(b) for b in some) for some in (built.begun[i], built.ended[i]))
        start, end = int(value(built.event[first])), int(value(built.event[last]))
        spans.append((start, end, i, next(d for d, x in enumerate(built.on[i]) if value(x))))
    free: list[list[tuple[int, int]]] = [[] for _ in range(problem.devices)]
    used = [0] * problem.devices
    runs: dict[int, Run] = {}
    for start, end, i, d in sorted(spans):
        if free[d] and free[d][0][0] <= start:
            _, k = heappop(free[d])
        else:
            k, used[d] = used[d], used[d] + 1
        heappush(free[d], (end, k))
        runs[i] = Run(i, 0, start, end, f"d{d}s{k}")
    return problem.cluster.plan_of([runs[i] for i in range(n)])
