r"""Minimum peak memory as the MILP of OLLA with its own variables, in Pyomo: one pair per tensor and step.

Source: Steiner, Elhoushi, Kahn, Hegarty, "OLLA: optimizing the lifetime and location of arrays to reduce
the memory usage of neural networks", arXiv 2210.12924, 2022, section 3 (MODeL, ICML 2023), without spilling,
rematerialization and addresses; read in the authors' code, github.com/facebookresearch/MODel_opt,
``olla/scheduler.py``, ``Scheduler.ComputeOptimalSchedule``, whose constraints are named below by its loops
(the paper's own text was not at hand, so no equation numbers are given). `olla_milp` is the same model
with one create variable per op and one op per step, which is smaller.

Data: see `data` (ops :math:`i \in I`, n of them, with windows [earliest, latest], lifetimes l with
:math:`F_l`, :math:`A_l`, :math:`b_l`, held, workspace :math:`w_i`, constant `base`, in units).

Sets. Steps :math:`s = 0, \dots, n-1`; a step may have several ops, or none. Tensors :math:`l \in L`: the
lifetimes, and for each op j a *control* tensor of 0 bytes with :math:`F_l = j` whose :math:`A_l` are the
direct successors of j to which no lifetime of j leads; none if there is no such successor and j creates a
lifetime. So every op creates a tensor. Let :math:`L_i` be those with :math:`F_l = i`.

Variables. :math:`C_{ls} \in \{0,1\}`: l is created at step s; a variable in the window of :math:`F_l`, else
0; none if l is initial. :math:`P_{ls} \in \{0,1\}`, s = 0..n: l is preserved, it exists when step s begins; a
variable from earliest(:math:`F_l`) + 1 (0 if initial) to the largest latest(i), :math:`i \in A_l`, else 0. If
l is final, up to n, where it is 1. :math:`p`: the peak, integer, between the known bounds.

Objective. Minimize p subject to

1. :math:`\sum_s C_{ls} = 1`: each tensor is created once;
2. :math:`C_{ls} = C_{ks}` for :math:`l, k \in L_i`: what an op creates, it creates at one step;
3. :math:`P_{ls} \le P_{l,s-1} + C_{l,s-1}`: preserved is what was preserved or just created;
4. :math:`C_{ks} \le P_{ls}` for :math:`k \in L_i`, :math:`i \in A_l \setminus \{F_l\}`: operands are there;
5. with :math:`C_{is}` for that of the first tensor of :math:`L_i`, for each step s in ``coexist``
   :math:`p \ge` base :math:`+ \sum_l b_l (P_{ls} + C_{ls}) + \sum_i w_i C_{is}`; in ``replace``
   :math:`p \ge` base :math:`+ \sum_l b_l P_{l,s+1} + \sum_i (h_i + w_i) C_{is}`, where :math:`h_i` sums the
   :math:`b_l` that are held and have :math:`A_l = \{i\}`;
6. in ``replace`` :math:`\sum_i C_{is} \le 1`: one op per step.

Steps with several ops. By 3 and 4 the operands of an op are created at earlier steps, so the ops of one step
are independent, and one after the other in any order they need no more than all at once: in ``coexist`` the
step counts what exists before it, what any of them creates and the workspace of all. An order is a solution
with one op per step. In ``replace`` 5 counts what is left after the step, which for several ops misses the
operands that the later ones still hold: hence 6.

Windows. In an order the position of op i is between the numbers of its ancestors and (from the end) of its
descendants; some optimum is an order, so these windows of `data` cut off no optimum. The authors' own
(``ComputeASAPSchedule``, ``ComputeALAPSchedule``), the longest chains of ops before and behind i, are wider:
`with_chain_windows` puts them into the data.

What deviates from the code: tensors that appear with the same op and vanish with the same ops are one;
:math:`P_{ls} + C_{ls} \le 1` is left out, because 1 and 3 imply it, also in the relaxation; an op that
creates nothing gets a control tensor, where the code has a binary per step for all its operands; control
tensors need not be preserved for ever (it changes no memory); the relative gap is 0; tensors with
several writers, initial and final tensors, workspace and ``replace`` are additions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..model import MILP_BYTES, ModelSize, Tick, ticker
from ..pyomo_terms import Rows, add_constraint, linear
from .data import Lifetime, PeakData, forced_bound, occupied, order_of, order_peak
from .pyomo_parts import add_sums, cover_memory, new_model, state

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES


@dataclass(frozen=True)
class TensorsModel:
    """The Pyomo model and what its indices mean: ``create[l, s]``, ``preserve[l, s]``, ``peak``."""

    model: Any
    data: PeakData
    tensors: tuple[Lifetime, ...]
    """The set L."""
    created: tuple[tuple[int, ...], ...]
    """The sets of tensors that each op creates."""

    def create(self, k: int, s: int) -> Any:
        """Return C, or 0."""
        return self.model.create[k, s] if s in _creation(self.data, self.tensors[k]) else 0

    def preserve(self, k: int, s: int) -> Any:
        """Return P, or its fixed value 0 or 1."""
        x = self.tensors[k]
        if not x.last and s == self.data.n:
            return 1
        return self.model.preserve[k, s] if s in _preservation(self.data, x) else 0


def with_chain_windows(data: PeakData) -> PeakData:
    """Return the data with the windows of OLLA's code: the longest chains of ops before and behind each op.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.peak.data import peak_data
    >>> data = peak_data(lt.Peak(lt.load("catalogue:diamond")))
    >>> data.latest, with_chain_windows(data).latest
    ((0, 2, 2, 3), (1, 2, 2, 3))
    """
    before, behind = [0] * data.n, [0] * data.n
    topological = sorted(range(data.n), key=lambda i: data.ancestors[i].bit_count())
    for i in topological:
        before[i] = max((before[j] + 1 for j in data.predecessors[i]), default=0)
    for i in reversed(topological):
        for j in data.predecessors[i]:
            behind[j] = max(behind[j], behind[i] + 1)
    return replace(data, earliest=tuple(before), latest=tuple(data.n - 1 - x for x in behind))


def size(data: PeakData) -> ModelSize:
    """Return the counts of the model without building it."""
    tensors = _tensors(data)
    created = [len(_creation(data, x)) for x in tensors]
    free = [len(_preservation(data, x)) for x in tensors]
    by_op: dict[int, int] = {}
    for x, count in zip(tensors, created, strict=True):
        if x.born is not None:
            by_op[x.born] = by_op.get(x.born, 0) + count
    finds = sum(by_op[i] for x in tensors for i in x.last if i != x.born)
    return ModelSize(
        variables=sum(created) + sum(free),
        constraints=data.n + len(tensors) + sum(created) + sum(free) + finds,
        terms=4 * sum(created) + 4 * sum(free) + 2 * finds,
    )


def build(
    data: PeakData,
    *,
    lower: int = 0,
    upper: int | None = None,
    hint: Sequence[int] | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> TensorsModel:
    """Return the model, whose only objective is ``peak``; parameters as in `steps_cpsat.build`.

    The data may be those of `with_chain_windows`.
    """
    tick = ticker(expired)
    tensors = _tensors(data)
    created = tuple(tuple(k for k, x in enumerate(tensors) if x.born == i) for i in range(data.n))
    model = new_model(
        data,
        tick,
        create=((k, s) for k, x in enumerate(tensors) for s in _creation(data, x)),
        preserve=((k, s) for k, x in enumerate(tensors) for s in _preservation(data, x)),
    )
    built = TensorsModel(model, data, tensors, created)
    state(built, CONSTRAINTS, lower, upper, tick)
    if hint is not None:
        _hint(built, hint)
    return built


def created_once(built: TensorsModel, tick: Tick) -> None:
    """Constraint 1."""

    def rule(model: Any, k: int) -> Any:
        tick()
        steps = _creation(built.data, built.tensors[k])
        return linear([model.create[k, s] for s in steps], [1] * len(steps)) == 1

    born = [k for k, x in enumerate(built.tensors) if x.born is not None]
    add_constraint(built.model, "created_once", born, rule)


def created_together(built: TensorsModel, tick: Tick) -> None:
    """Constraint 2."""

    def rows() -> Iterator[tuple[int, int, int]]:
        for ones in built.created:
            tick()
            for k in ones[1:]:
                for s in _creation(built.data, built.tensors[k]):
                    yield ones[0], k, s

    def rule(model: Any, first: int, k: int, s: int) -> Any:
        return model.create[first, s] == model.create[k, s]

    add_constraint(built.model, "created_together", rows(), rule)


def preserved_since_created(built: TensorsModel, tick: Tick) -> None:
    """Constraint 3 (at n only for final tensors, whose P is 1 there)."""

    def rows() -> Iterator[tuple[int, int]]:
        for k, x in enumerate(built.tensors):
            tick()
            steps = _preservation(built.data, x)
            for s in range(max(1, steps.start), steps.stop + (not x.last)):
                yield k, s

    def rule(_: Any, k: int, s: int) -> Any:
        return built.preserve(k, s) <= built.preserve(k, s - 1) + built.create(k, s - 1)

    add_constraint(built.model, "preserved_since_created", rows(), rule)


def finds_operands(built: TensorsModel, tick: Tick) -> None:
    """Constraint 4."""
    data = built.data

    def rows() -> Iterator[tuple[int, int, int]]:
        for operand, x in enumerate(built.tensors):
            tick()
            for i in x.last:
                if i != x.born:
                    for k in built.created[i]:
                        for s in range(data.earliest[i], data.latest[i] + 1):
                            yield k, operand, s

    def rule(model: Any, k: int, operand: int, s: int) -> Any:
        return model.create[k, s] <= built.preserve(operand, s)

    add_constraint(built.model, "finds_operands", rows(), rule)


def peak_covers_memory(built: TensorsModel, tick: Tick) -> None:
    """Constraint 5."""
    data = built.data
    own = list(data.workspace)  # what C of the first tensor weighs, besides the tensor
    for x in data.lifetimes:
        if data.replace and x.held and len(x.last) == 1:
            own[x.last[0]] += x.nbytes
    now = int(data.replace)  # the row of step s has P of step s + now
    rows = Rows(data.n)
    rows.constant(0, data.n - 1, data.base)
    for (k, s), variable in built.model.create.items():
        x = built.tensors[k]
        assert x.born is not None
        first = own[x.born] if built.created[x.born][0] == k else 0
        rows.variable(s, variable, first + (0 if data.replace else x.nbytes))
    for (k, s), variable in built.model.preserve.items():
        rows.variable(s - now, variable, built.tensors[k].nbytes)
    for x in built.tensors:
        if not x.last:
            rows.constant(data.n - now, data.n - now, x.nbytes)
    cover_memory(built.model, rows, tick)


def one_op_per_step(built: TensorsModel, tick: Tick) -> None:
    """Constraint 6."""
    data = built.data
    rows = Rows(data.n if data.replace else 0)
    for ones in built.created:
        for s in _creation(data, built.tensors[ones[0]]):
            rows.variable(s, built.model.create[ones[0], s], 1)
    add_sums(built.model, "one_op_per_step", rows, tick, lambda total, s: total <= 1)


CONSTRAINTS = (
    created_once,
    created_together,
    preserved_since_created,
    finds_operands,
    peak_covers_memory,
    one_op_per_step,
)
"""The numbered constraints, in order."""

bound = forced_bound


def decode(built: TensorsModel, value: Callable[[Any], float]) -> tuple[int, ...]:
    """Return an order of a solution: the ops by step, those of one step as the graph lists them."""
    step = [0] * built.data.n
    for (k, s), variable in built.model.create.items():
        if value(variable) > 0.5:
            step[built.tensors[k].born] = s
    return order_of(step)


def _hint(built: TensorsModel, order: Sequence[int]) -> None:
    alive = occupied(built.tensors, order)
    for (k, s), variable in built.model.create.items():
        variable.value = int(alive[k][0] == s)
    for (k, s), variable in built.model.preserve.items():
        variable.value = int(alive[k][0] < s <= alive[k][1])
    built.model.peak.value = order_peak(built.data, order)


def _tensors(data: PeakData) -> tuple[Lifetime, ...]:
    """Return the set L."""
    creates = {x.born for x in data.lifetimes}
    stated = {(x.born, i) for x in data.lifetimes for i in x.last}
    control: dict[int, list[int]] = {j: [] for j in range(data.n) if j not in creates}
    for i, before in enumerate(data.predecessors):
        for j in before:
            if (j, i) not in stated:
                control.setdefault(j, []).append(i)
    # one that nobody needs vanishes with its op; without any op in A it would count as final
    return (
        *data.lifetimes,
        *(Lifetime(j, tuple(after) or (j,), True, 0) for j, after in sorted(control.items())),
    )


def _creation(data: PeakData, x: Lifetime) -> range:
    """Return the steps at which a tensor may be created."""
    return range(0) if x.born is None else range(data.earliest[x.born], data.latest[x.born] + 1)


def _preservation(data: PeakData, x: Lifetime) -> range:
    """Return the steps at which P of a tensor is a variable."""
    start = 0 if x.born is None else data.earliest[x.born] + 1
    if not x.last:
        return range(start, data.n)
    others = [data.latest[i] for i in x.last if i != x.born]
    return range(start, max(others) + 1) if others else range(0)
