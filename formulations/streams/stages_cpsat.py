r"""Stages of groups on one device, with a memory, in CP-SAT.

Data. Ops :math:`i \in I`, n of them, in the reference order: :math:`w_i` ns alone, :math:`u_i` of the
device's :math:`S` parts, :math:`v_i` bytes of workspace; E the direct edges of the precedence; at most G
groups in a stage; :math:`\sigma` ns that a stage of several groups adds. Tensors t of :math:`b_t` bytes,
:math:`A_t` the ops that write it (:math:`W_t`) or read it. M: the memory. Stages :math:`k = 1, \dots, n`.

Variables, 0 or 1 unless said. :math:`x_{kgi}`, :math:`g \le i`: op i is in stage k, in the group whose first
op in the reference order is g; let :math:`y_{ki} = \sum_g x_{kgi}`. :math:`m_k`: stage k has several groups.
:math:`\ell_k` integer: parts times ns of a stage without synchronisation at least; :math:`c_k` integer: ns of
stage k. :math:`f_k`: stage k is not empty. :math:`a_{kt}`: tensor t is held in stage k; :math:`q_{kg}`
integer: bytes of workspace of group g.

Objective. Minimize :math:`\sum_k c_k` subject to

1. :math:`\sum_k y_{ki} = 1` for each op;
2. :math:`x_{kgi} \le x_{kgg}`: a group has its first op; and at most G groups are in a stage,
   :math:`\sum_g x_{kgg} \le G`;
3. :math:`\sum_{h \le k} y_{hi} \ge \sum_{h \le k} y_{hj}` for :math:`(i, j) \in E`;
4. :math:`x_{kgi} + y_{kj} - x_{kgj} \le 1` for :math:`(i, j) \in E`: in one stage they are in one group;
5. :math:`\ell_k \ge S \sum_i w_i x_{kgi}` for each group;
6. :math:`\ell_k \ge \sum_i u_i w_i y_{ki}`;
7. :math:`(n - 1)\, m_k \ge \sum_g x_{kgg} - 1`;
8. :math:`S (c_k - \sigma m_k) \ge \ell_k` (``fluid``) or
   :math:`2 S (c_k - \sigma m_k) \ge \ell_k + S \sum_i w_i y_{ki}` (``half-serial``);
9. (redundant) :math:`y_{ki} \le f_k \le \sum_i y_{ki}` and :math:`f_{k+1} \le f_k`: no empty stage before a
   full one;
10. :math:`a_{kt} \ge \sum_{h \le k} y_{hi} - \sum_{h < k} y_{hj}` for each writer i and each
    :math:`j \in A_t`: t is written by stage k, and j has not run before it. Of an initial tensor the first
    sum is 1; of a final one there is no second;
11. :math:`q_{kg} \ge v_i x_{kgi}`;
12. :math:`\sum_t b_t a_{kt} + \sum_g q_{kg} \le M`.

With c integer, 8 rounds up. 4 suffices for edges: what lies between two ops of a stage on a path is in that
stage, too (3). An empty stage holds no more than a neighbour, so 12 may count it. Without a memory there
are no 10 to 12.

Source: this suite; prices are those of IOS's (Ding and others, 2021) and HIOS's stages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...models.derived.precedence import precedence
from ...models.errors import UsageError
from ...models.lowering.streams import share_of
from ...models.problems.stream_answers import Stages
from ...models.problems.streams import Streams
from ..model import CPSAT_BYTES, ModelSize, Tick, ticker

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES

LARGEST = 2**61
"""Parts times ns, or bytes, in all: CP-SAT adds in 64 bits."""


@dataclass(kw_only=True)
class StreamStagesModel:
    """The CP-SAT model and what its variables mean; the first index is the stage."""

    model: Any
    problem: Streams
    tick: Tick
    x: list[dict[tuple[int, int], Any]] = field(default_factory=list)
    """By group and op."""
    several: list[Any] = field(default_factory=list)
    least: list[Any] = field(default_factory=list)
    cost: list[Any] = field(default_factory=list)
    full: list[Any] = field(default_factory=list)
    held: list[dict[int, Any]] = field(default_factory=list)
    workspace: list[list[Any]] = field(default_factory=list)

    @property
    def n(self) -> int:
        """The number of ops, and of stages."""
        return len(self.problem.graph.ops)

    def runs(self, k: int, i: int) -> Any:
        """Return y: whether op i is in stage k."""
        return sum(self.x[k][g, i] for g in range(i + 1))

    def run_by(self, k: int, i: int) -> Any:
        """Return the sum of y up to stage k: whether op i has run when that ends."""
        return sum(self.runs(h, i) for h in range(k + 1))


def size(problem: Streams) -> ModelSize:
    """Return about the counts of the model."""
    graph = problem.graph
    n = len(graph.ops)
    pairs = n * (n + 1) // 2
    edges = sum(map(len, precedence(graph).successors))
    lives = 0 if problem.memory is None else sum(len(op.reads) + len(op.writes) for op in graph.ops)
    return ModelSize(
        variables=n * (pairs + n + 4 + lives),
        constraints=n * (2 * pairs + edges * (n + 1) + lives),
        terms=n * (6 * pairs + 2 * edges * n * n + lives * n * n),
    )


def check(problem: Streams) -> None:
    """Raise `UsageError` if parts times ns, or the bytes, are too many for 64 bits."""
    held = sum(x.nbytes for x in problem.graph.tensors)
    held += sum(op.all_modes[0].workspace for op in problem.graph.ops)
    total = max(4 * problem.device.parts * (sum(problem.durations) + problem.sync_ns), held)
    if total >= LARGEST:
        raise UsageError(
            f"CP-SAT model of stages: found {total} parts times ns, or bytes, expected less than 2^61"
        )


def build(problem: Streams, *, expired: Callable[[], bool] = lambda: False) -> StreamStagesModel:
    """Return the model; its objective is in ns.

    Raises
    ------
    UsageError
        If the contention prices no stages, or numbers are too large.
    """
    from ortools.sat.python import cp_model

    if not problem.device.staged:
        raise UsageError(
            f"contention: found {problem.contention!r}, expected fluid or half-serial, which price stages"
        )
    check(problem)
    model = cp_model.CpModel()
    model.name = "stages"
    built = StreamStagesModel(model=model, problem=problem, tick=ticker(expired))
    n, serial = built.n, sum(problem.durations)
    for k in range(n):
        built.tick()
        pairs = [(g, i) for i in range(n) for g in range(i + 1)]
        built.x.append({(g, i): model.new_bool_var(f"x[{k}][{g}][{i}]") for g, i in pairs})
        built.several.append(model.new_bool_var(f"several[{k}]"))
        built.least.append(model.new_int_var(0, problem.device.parts * serial, f"least[{k}]"))
        built.cost.append(model.new_int_var(0, serial + problem.sync_ns, f"cost[{k}]"))
        built.full.append(model.new_bool_var(f"full[{k}]"))
        if problem.memory is not None:
            tensors = range(len(problem.graph.tensors))
            built.held.append({t: model.new_bool_var(f"held[{k}][{t}]") for t in tensors})
            spaces = [op.all_modes[0].workspace for op in problem.graph.ops]
            built.workspace.append(
                [model.new_int_var(0, max(spaces), f"workspace[{k}][{g}]") for g in range(n)]
            )
    for constrain in CONSTRAINTS:
        constrain(built)
    model.minimize(sum(built.cost))
    return built


def _once(built: StreamStagesModel) -> None:
    """Constraint 1: each op is in one group of one stage."""
    for i in range(built.n):
        built.model.add_exactly_one(x[g, i] for x in built.x for g in range(i + 1))


def _groups(built: StreamStagesModel) -> None:
    """Constraint 2: a group has its first op, and there are at most G in a stage."""
    for x in built.x:
        for g, i in x:
            if g != i:
                built.model.add_implication(x[g, i], x[g, g])
        if built.problem.streams is not None:
            built.model.add(sum(x[g, g] for g in range(built.n)) <= built.problem.streams)


def _edges(built: StreamStagesModel) -> list[tuple[int, int]]:
    return [(i, j) for j, some in enumerate(precedence(built.problem.graph).predecessors) for i in some]


def _precedence(built: StreamStagesModel) -> None:
    """Constraint 3: an op is in no earlier stage than one that precedes it."""
    for i, j in _edges(built):
        for k in range(built.n):
            built.tick()
            built.model.add(built.run_by(k, i) >= built.run_by(k, j))


def _together(built: StreamStagesModel) -> None:
    """Constraint 4: of one stage, they are in one group."""
    for i, j in _edges(built):
        for k, x in enumerate(built.x):
            built.tick()
            for g in range(i + 1):
                built.model.add(x[g, i] + built.runs(k, j) - x[g, j] <= 1)


def _lengths(built: StreamStagesModel) -> None:
    """Constraint 5: a stage takes as long as each of its groups."""
    parts, times = built.problem.device.parts, built.problem.durations
    for x, least in zip(built.x, built.least, strict=True):
        for g in range(built.n):
            built.model.add(least >= parts * sum(times[i] * x[g, i] for i in range(g, built.n)))


def _areas(built: StreamStagesModel) -> None:
    """Constraint 6: a stage takes as long as the device needs for its work."""
    problem = built.problem
    work = [ns * share_of(problem.graph, i, problem.device.parts) for i, ns in enumerate(problem.durations)]
    for k, least in enumerate(built.least):
        built.model.add(least >= sum(work[i] * built.runs(k, i) for i in range(built.n)))


def _several(built: StreamStagesModel) -> None:
    """Constraint 7: whether a stage has several groups."""
    for x, several in zip(built.x, built.several, strict=True):
        built.model.add((built.n - 1) * several >= sum(x[g, g] for g in range(built.n)) - 1)


def _prices(built: StreamStagesModel) -> None:
    """Constraint 8: what a stage takes."""
    device = built.problem.device
    for k, (cost, several) in enumerate(zip(built.cost, built.several, strict=True)):
        price = device.parts * (cost - device.sync_ns * several)
        if device.model == "fluid":
            built.model.add(price >= built.least[k])
        else:
            serial = sum(ns * built.runs(k, i) for i, ns in enumerate(built.problem.durations))
            built.model.add(2 * price >= built.least[k] + device.parts * serial)


def _no_gaps(built: StreamStagesModel) -> None:
    """Constraint 9: no empty stage before a full one."""
    for k, full in enumerate(built.full):
        for i in range(built.n):
            built.model.add(built.runs(k, i) <= full)
        built.model.add(full <= sum(built.runs(k, i) for i in range(built.n)))
        if k:
            built.model.add_implication(full, built.full[k - 1])


def _lives(built: StreamStagesModel) -> None:
    """Constraint 10: what is written and will be used is held."""
    graph = built.problem.graph
    for t, tensor in enumerate(graph.tensors):
        writers = [i for i, op in enumerate(graph.ops) if t in op.writes]
        users = sorted({*writers, *(i for i, op in enumerate(graph.ops) if t in op.reads)})
        for k, held in enumerate(built.held):
            built.tick()
            for there in [1] if tensor.initial else [built.run_by(k, i) for i in writers]:
                for gone in [0] if tensor.final else [built.run_by(k - 1, j) for j in users]:
                    built.model.add(held[t] >= there - gone)


def _workspaces(built: StreamStagesModel) -> None:
    """Constraint 11: a group needs the largest workspace of its ops."""
    for x, some in zip(built.x, built.workspace, strict=False):
        for g, i in x:
            if space := built.problem.graph.ops[i].all_modes[0].workspace:
                built.model.add(some[g] >= space * x[g, i])


def _memory(built: StreamStagesModel) -> None:
    """Constraint 12: what a stage holds and needs fits into the memory."""
    tensors = built.problem.graph.tensors
    for held, some in zip(built.held, built.workspace, strict=True):
        held_bytes = sum(x.nbytes * held[t] for t, x in enumerate(tensors))
        built.model.add(held_bytes + sum(some) <= built.problem.memory)


CONSTRAINTS: tuple[Callable[[StreamStagesModel], None], ...] = (
    _once,
    _groups,
    _precedence,
    _together,
    _lengths,
    _areas,
    _several,
    _prices,
    _no_gaps,
    _lives,
    _workspaces,
    _memory,
)
"""As numbered on the page of mathematics."""


def decode(built: StreamStagesModel, value: Callable[[Any], int]) -> Stages:
    """Return the stages of a solution, the empty ones left out."""
    stages = []
    for x in built.x:
        groups: dict[int, list[int]] = {}
        for g, i in x:
            if value(x[g, i]):
                groups.setdefault(g, []).append(i)
        if groups:
            stages.append(tuple(tuple(sorted(group)) for _, group in sorted(groups.items())))
    return Stages(stages=tuple(stages))
