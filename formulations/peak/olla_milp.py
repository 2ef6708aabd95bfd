r"""Minimum peak memory as the MILP of OLLA, in Pyomo: create and preserve binaries per tensor and step.

Source: Steiner, Elhoushi, Kahn, Hegarty, "OLLA: optimizing the lifetime and location of arrays to
reduce the memory usage of neural networks", arXiv 2210.12924, 2022, section 3 (MODeL, ICML 2023): its node
ordering, without spilling, rematerialization and addresses. Checked against the authors' code,
github.com/facebookresearch/MODel_opt, ``olla/scheduler.py``, ``Scheduler.ComputeOptimalSchedule``: 3 is its
"correctness", 4 its "precedence" constraint, 1 the generation of each tensor exactly once, 5 its memory at
each timestep. `olla_tensors_milp` is the model with that code's own variables.

Data: see `data` (ops :math:`i \in I` at positions 0..n-1 with windows [earliest, latest], lifetimes
l with :math:`F_l`, :math:`A_l`, :math:`b_l`, held, workspace :math:`w_i`, constant `base`, in units).

Sets. Steps :math:`s = 0, \dots, n-1`, one per position. :math:`L`: the lifetimes that outlive the op
that creates them (:math:`A_l \ne \{F_l\}`), and the control edges: for each op j one lifetime of 0 bytes
with :math:`F_l = j` whose :math:`A_l` are the direct successors i of j to which no other l with
:math:`F_l = j` and :math:`i \in A_l` leads.

Variables. :math:`C_{is} \in \{0,1\}`: op i runs at step s and creates the tensors that it is the first
to write; a variable in the window of i, else 0. :math:`P_{ls} \in \{0,1\}` for s = 0..n: l is preserved,
it exists when step s begins. It is 0 up to earliest(:math:`F_l`) (not if l is initial) and, if l is not
final, behind the largest latest(i), :math:`i \in A_l`. It is 1 where l surely exists and surely has not
ended: behind latest(:math:`F_l`) and (if l is not final) while fewer ops have run than :math:`A_l` and
its ancestors are. Elsewhere it is a variable. :math:`p`: the peak, integer, between the known bounds.

Objective. Minimize p subject to

1. :math:`\sum_s C_{is} = 1`: each op runs once;
2. :math:`\sum_i C_{is} = 1`: one op per step;
3. :math:`P_{ls} \le P_{l,s-1} + C_{F_l,s-1}`: preserved is what was preserved or just created;
4. :math:`C_{is} \le P_{ls}` for :math:`i \in A_l \setminus \{F_l\}`: an op finds what it accesses;
5. for each step s, in ``coexist``
   :math:`p \ge` base :math:`+ \sum_l b_l P_{ls} + \sum_i (c_i + w_i) C_{is}`, where :math:`c_i` sums the
   :math:`b_l` that i creates; in ``replace``
   :math:`p \ge` base :math:`+ \sum_l b_l P_{l,s+1} + \sum_i (h_i + w_i) C_{is}`, where :math:`h_i` sums
   the :math:`b_l` that are held and have :math:`A_l = \{i\}`.

By 3 an l that is preserved anywhere has been preserved since its creation: by 4 up to its last access
(an op that accesses l without being in :math:`A_l` precedes one that is), and if it is final up to the
end, where P is 1. The control edges are all of the precedence that the other l do not state.

What deviates from the paper:

* One create variable per op replaces one per tensor: the equalities between siblings are substituted.
* Exactly one op per step (2). In the paper several may share a step; running them one by one needs no
  more memory, so the optimum is the same, and windows count ancestors instead of the longest path.
* :math:`P_{ls} + C_{F_l,s} \le 1` is left out: 1 and 3 imply it, also in the relaxation.
* Tensors with several writers, initial and final tensors, workspace and ``replace`` are additions.
* Relative gap 0; the paper's experiments stop earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..model import MILP_BYTES, ModelSize, Tick, ticker
from ..pyomo_terms import Rows, add_constraint
from .data import Lifetime, PeakData, closure, forced_bound, occupied, order_of, order_peak, positions
from .pyomo_parts import add_sums, cover_memory, new_model, state

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES


@dataclass(frozen=True)
class Span:
    """Where P of a lifetime is 0, 1 or a variable."""

    start: int
    """0 before."""
    sure_from: int
    sure_until: int
    """1 from the one to the other, inclusive."""
    stop: int
    """0 behind."""

    @property
    def steps(self) -> list[int]:
        """The steps with a variable."""
        return [s for s in range(self.start, self.stop + 1) if not self.sure_from <= s <= self.sure_until]


@dataclass(frozen=True)
class OllaModel:
    """The Pyomo model and what its indices mean: ``create[i, s]``, ``preserve[l, s]``, ``peak``."""

    model: Any
    data: PeakData
    preserved: tuple[Lifetime, ...]
    """The set L: the l of ``preserve[l, s]``."""
    spans: tuple[Span, ...]

    def create(self, i: int, s: int) -> Any:
        """Return C, or 0."""
        inside = self.data.earliest[i] <= s <= self.data.latest[i]
        return self.model.create[i, s] if inside else 0

    def preserve(self, k: int, s: int) -> Any:
        """Return P, or its fixed value 0 or 1."""
        span = self.spans[k]
        if span.sure_from <= s <= span.sure_until:
            return 1
        return self.model.preserve[k, s] if span.start <= s <= span.stop else 0


def size(data: PeakData) -> ModelSize:
    """Return the counts of the model without building it."""
    lifetimes = _preserved(data)
    free = [len(_span(data, x).steps) for x in lifetimes]
    windows = [late - early + 1 for early, late in zip(data.earliest, data.latest, strict=True)]
    finds = sum(windows[i] for x in lifetimes for i in x.last if i != x.born)
    variables = sum(windows) + sum(free)
    return ModelSize(
        variables=variables,
        constraints=3 * data.n + sum(free) + finds,
        terms=3 * sum(windows) + 4 * sum(free) + 2 * finds,
    )


def build(
    data: PeakData,
    *,
    lower: int = 0,
    upper: int | None = None,
    hint: Sequence[int] | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> OllaModel:
    """Return the model, whose only objective is ``peak``; parameters as in `steps_cpsat.build`."""
    tick = ticker(expired)
    preserved = _preserved(data)
    spans = tuple(_span(data, x) for x in preserved)
    windows = zip(data.earliest, data.latest, strict=True)
    model = new_model(
        data,
        tick,
        create=((i, s) for i, (early, late) in enumerate(windows) for s in range(early, late + 1)),
        preserve=((k, s) for k, span in enumerate(spans) for s in span.steps),
    )
    olla = OllaModel(model, data, preserved, spans)
    state(olla, CONSTRAINTS, lower, upper, tick)
    if hint is not None:
        _hint(olla, hint)
    return olla


def runs_once(olla: OllaModel, tick: Tick) -> None:
    """Constraint 1."""
    _each_is_one(olla, "runs_once", lambda i, s: i, tick)


def one_op_per_step(olla: OllaModel, tick: Tick) -> None:
    """Constraint 2."""
    _each_is_one(olla, "one_op_per_step", lambda i, s: s, tick)


def preserved_since_created(olla: OllaModel, tick: Tick) -> None:
    """Constraint 3 (where the right side is not the fixed value 1)."""

    def rows() -> Iterator[tuple[int, int]]:
        for k, span in enumerate(olla.spans):
            tick()
            for s in range(max(1, span.start), span.stop + 1):
                if not span.sure_from <= s - 1 <= span.sure_until:
                    yield k, s

    def rule(_: Any, k: int, s: int) -> Any:
        born = olla.preserved[k].born
        created = 0 if born is None else olla.create(born, s - 1)
        return olla.preserve(k, s) <= olla.preserve(k, s - 1) + created

    add_constraint(olla.model, "preserved_since_created", rows(), rule)


def finds_operands(olla: OllaModel, tick: Tick) -> None:
    """Constraint 4 (where the right side is not the fixed value 1)."""

    def rows() -> Iterator[tuple[int, int, int]]:
        for k, (x, span) in enumerate(zip(olla.preserved, olla.spans, strict=True)):
            tick()
            for i in x.last:
                if i != x.born:
                    for s in range(olla.data.earliest[i], olla.data.latest[i] + 1):
                        if not span.sure_from <= s <= span.sure_until:
                            yield i, k, s

    def rule(model: Any, i: int, k: int, s: int) -> Any:
        return model.create[i, s] <= model.preserve[k, s]

    add_constraint(olla.model, "finds_operands", rows(), rule)


def peak_covers_memory(olla: OllaModel, tick: Tick) -> None:
    """Constraint 5."""
    data = olla.data
    own = list(data.workspace)
    for x in data.lifetimes:
        if not data.replace and x.born is not None:
            own[x.born] += x.nbytes
        if data.replace and x.held and len(x.last) == 1:
            own[x.last[0]] += x.nbytes

    now = int(data.replace)  # the row of step s has P of step s + now
    rows = Rows(data.n)
    rows.constant(0, data.n - 1, data.base)
    for (i, s), variable in olla.model.create.items():
        rows.variable(s, variable, own[i])
    for (k, s), variable in olla.model.preserve.items():
        rows.variable(s - now, variable, olla.preserved[k].nbytes)
    for x, span in zip(olla.preserved, olla.spans, strict=True):
        rows.constant(span.sure_from - now, span.sure_until - now, x.nbytes)
    cover_memory(olla.model, rows, tick)


CONSTRAINTS = (runs_once, one_op_per_step, preserved_since_created, finds_operands, peak_covers_memory)
"""The numbered constraints, in order."""

bound = forced_bound


def decode(olla: OllaModel, value: Callable[[Any], float]) -> tuple[int, ...]:
    """Return the order of a solution: the op whose C is 1 at step 0, 1, ..."""
    position = [0] * olla.data.n
    for (i, s), variable in olla.model.create.items():
        if value(variable) > 0.5:
            position[i] = s
    return order_of(position)


def _hint(olla: OllaModel, order: Sequence[int]) -> None:
    position = positions(order)
    for (i, s), variable in olla.model.create.items():
        variable.value = int(position[i] == s)
    alive = occupied(olla.preserved, order)
    for (k, s), variable in olla.model.preserve.items():
        variable.value = int(alive[k][0] < s <= alive[k][1])
    olla.model.peak.value = order_peak(olla.data, order)


def _each_is_one(olla: OllaModel, name: str, row: Callable[[int, int], int], tick: Tick) -> None:
    """Add the constraint that the C of each row sum to 1."""
    rows = Rows(olla.data.n)
    for (i, s), variable in olla.model.create.items():
        rows.variable(row(i, s), variable, 1)
    add_sums(olla.model, name, rows, tick, lambda total, index: total == 1)


def _preserved(data: PeakData) -> tuple[Lifetime, ...]:
    """Return the set L."""
    real = [x for x in data.lifetimes if x.last != (x.born,)]
    stated = {(x.born, i) for x in real for i in x.last}
    control: dict[int, list[int]] = {}
    for i, before in enumerate(data.predecessors):
        for j in before:
            if (j, i) not in stated:
                control.setdefault(j, []).append(i)
    return (*real, *(Lifetime(j, tuple(after), True, 0) for j, after in control.items()))


def _span(data: PeakData, x: Lifetime) -> Span:
    start, sure = (0, 0) if x.born is None else (data.earliest[x.born] + 1, data.latest[x.born] + 1)
    if not x.last:
        return Span(start, sure, data.n, data.n)
    needed = closure(x.last, data.ancestors).bit_count()
    return Span(start, sure, needed - 1, max(data.latest[i] for i in x.last))
