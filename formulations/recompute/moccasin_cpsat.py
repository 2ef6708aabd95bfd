r"""Recomputation as retention intervals in CP-SAT: MOCCASIN's statement, with a bound on copies.

Data: see `data` (ops :math:`i`, values :math:`u`, :math:`d_i, w_i, m_u, M`).

Sets. The slots of the partitioned stages of `stages_milp`: slot :math:`t(t+1)/2 + i` is the place of op
i in stage t, :math:`i \le t < n`; H of them. Op i may run in its slots from stage i on while that is of use,
at most :math:`C_i` times: copies :math:`c = 0, \dots, C_i - 1`, of which :math:`C_i` is the number of its
slots or the given bound, whichever is less.

Variables. :math:`a_{ic} \in \{0, 1\}`: there is copy c; :math:`s_{ic}`: its slot; :math:`e_{uc}`: where the
retention of value u, left by copy c of its writer, ends. An initial value has one copy, from slot 0.
:math:`x`: which copy of a value a copy of a reader finds.

Objective. Minimize :math:`\sum d_i a_{ic}` subject to

1. copy 0 is there, in the slot where the op runs first;
2. copies are there one after another: :math:`a_{i,c+1} \le a_{ic}`, :math:`s_{ic} < s_{i,c+1}`;
3. :math:`e_{uc} \ge s_{W_u c} + 1`; a retention ends before the next one of the value or of its rivals
   begins;
4. for each copy of a reader k that is there and each :math:`u \in In_k` there is a copy of u with x = 1:
   :math:`s_{W_u c} < s_k` and :math:`e_{uc} \ge s_k + 1`, or :math:`e_{uc} \ge s_k` where the read may go at
   the start of the run (``replace``, or k writes the tensor itself);
5. a final value has a copy with :math:`e_{uc} = H`;
6. cumulative: in every slot, retentions and the workspaces of runs have at most M units.

2 breaks a symmetry and changes no optimum: copies that are there can be renamed in the order of their slots,
and two of an op in one slot, where retentions may not overlap, are one too many.

With all copies, these are the schedules of the partitioned stages; with fewer, some, or none where there
are some (a chain of five forwards with four cells needs one value four times). What `stages_milp` says
of that form against the problem holds here: a bound on this model is none on the problem.

Source: Bartan et al., "Moccasin: Efficient Tensor Rematerialization for Neural Networks" (ICML 2023):
retention intervals on the staged event grid, cumulative memory and the bound C; versions, several results of
one op, workspaces and ``replace`` are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...models.errors import UsageError
from ..model import CPSAT_BYTES, Tick, ticker
from .data import RecomputeData, fits, model_name
from .stages_hint import stages_of

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES

LARGEST_AREA = 2**61
"""Units times slots: CP-SAT adds up the areas of intervals in 64 bits."""


@dataclass(frozen=True, slots=True)
class OpCopy:
    """Copy of an op: whether it is there (or 1), and its slot (or a number)."""

    op: int
    there: Any
    slot: Any


@dataclass
class MoccasinModel:
    """The CP-SAT model and what its variables mean."""

    model: Any
    data: RecomputeData
    copies: list[list[OpCopy]] = field(default_factory=list)
    """By op."""
    ends: list[list[Any]] = field(default_factory=list)
    """By value and copy."""
    finds: list[tuple[int, int, int, int, Any]] = field(default_factory=list)
    """Reader, its copy, value, its copy, x."""
    complete: bool = True
    """Whether the bound on copies excludes no schedule of the stages."""


def slot(t: int, i: int) -> int:
    """Return the slot of op i in stage t."""
    return t * (t + 1) // 2 + i


def slots_of(data: RecomputeData, i: int) -> list[int]:
    """Return the slots in which op i may run."""
    return [slot(t, i) for t in range(i, data.n) if t == i or data.useful[i] >= t]


def build(
    data: RecomputeData,
    *,
    copies: int,
    hint: Sequence[int] | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> MoccasinModel:
    """Return the model; its objective is the time in ticks.

    Parameters
    ----------
    copies
        Bound on the runs of each op, at least 1.
    hint
        Ops as they run; of use if they are a schedule of this form.

    Raises
    ------
    UsageError
        If units times slots are too many for CP-SAT.
    """
    from ortools.sat.python import cp_model

    horizon = slot(data.n, 0)
    if (data.memory + 1) * (horizon + 1) >= LARGEST_AREA:
        raise UsageError(
            f"CP-SAT model of recompute: found {data.memory} units of {data.unit} bytes times {horizon} "
            "slots, expected less than 2^61 of them (coarser sizes)"
        )
    built = MoccasinModel(cp_model.CpModel(), data)
    built.model.name = model_name(data)
    tick = ticker(expired)
    _copies(built, copies, tick)
    _retentions(built, horizon, tick)
    _reads(built, tick)
    terms = [(data.duration[c.op], c.there) for ops in built.copies for c in ops]
    built.model.minimize(sum(weight * there for weight, there in terms))
    if hint is not None:
        _hint(built, hint, horizon)
    return built


def _copies(built: MoccasinModel, most: int, tick: Tick) -> None:
    """(1), (2)."""
    from ortools.sat.python import cp_model

    model, data = built.model, built.data
    for i in range(data.n):
        tick()
        slots = slots_of(data, i)
        built.complete = built.complete and most >= len(slots)
        copies = [OpCopy(i, 1, slots[0])]
        for c in range(1, min(most, len(slots))):
            there = model.new_bool_var(f"a {i} {c}")
            place = model.new_int_var_from_domain(cp_model.Domain.from_values(slots[c:]), f"s {i} {c}")
            last = copies[-1]
            if not isinstance(last.there, int):
                model.add_implication(there, last.there)  # (2)
            model.add(place > last.slot).only_enforce_if(there)  # (2)
            copies.append(OpCopy(i, there, place))
        built.copies.append(copies)


def _retentions(built: MoccasinModel, horizon: int, tick: Tick) -> None:
    """(3), (5), (6)."""
    model, data = built.model, built.data
    intervals: list[Any] = []
    demands: list[int] = []
    by_tensor: list[list[Any]] = [[] for _ in data.tensors]
    for u, x in enumerate(data.values):
        tick()
        ends, lasting = [], []
        owners = [OpCopy(-1, 1, 0)] if x.writer is None else built.copies[x.writer]
        for c, copy in enumerate(owners):
            least = 0 if x.writer is None else 1
            size = model.new_int_var(least, horizon, f"l {u} {c}")
            end = model.new_int_var(least, horizon, f"e {u} {c}")
            if isinstance(copy.there, int):
                interval = model.new_interval_var(copy.slot, size, end, f"r {u} {c}")
            else:
                interval = model.new_optional_interval_var(copy.slot, size, end, copy.there, f"r {u} {c}")
            if not x.readers and not x.final:
                model.add(size == least)  # (3)
            if x.final:
                stays = model.new_bool_var(f"f {u} {c}")
                model.add(end == horizon).only_enforce_if(stays)  # (5)
                if not isinstance(copy.there, int):
                    model.add_implication(stays, copy.there)  # (5)
                lasting.append(stays)
            ends.append(end)
            by_tensor[x.tensor].append(interval)
            if x.nbytes:
                intervals.append(interval)
                demands.append(x.nbytes)
        if x.final:
            model.add_bool_or(lasting)  # (5)
        built.ends.append(ends)
    for several in by_tensor:
        if len(several) > 1:
            model.add_no_overlap(several)  # (3)
    for i, nbytes in enumerate(data.workspace):
        for c, copy in enumerate(built.copies[i] if nbytes else []):
            there = True if isinstance(copy.there, int) else copy.there
            intervals.append(model.new_optional_fixed_size_interval_var(copy.slot, 1, there, f"w {i} {c}"))
            demands.append(nbytes)
    model.add_cumulative(intervals, demands, data.memory)  # (6)


def _reads(built: MoccasinModel, tick: Tick) -> None:
    """(4)."""
    model, data = built.model, built.data
    for k in range(data.n):
        tick()
        own = {data.values[u].tensor for u in data.writes[k]}
        for ck, reader in enumerate(built.copies[k]):
            for u in data.reads[k]:
                x = data.values[u]
                to_end = 0 if data.in_place or x.tensor in own else 1
                owners = [OpCopy(-1, 1, -1)] if x.writer is None else built.copies[x.writer]
                options = []
                for c, copy in enumerate(owners):
                    reads = model.new_bool_var(f"x {k} {ck} {u} {c}")
                    model.add(reader.slot > copy.slot).only_enforce_if(reads)
                    model.add(built.ends[u][c] >= reader.slot + to_end).only_enforce_if(reads)
                    if not isinstance(copy.there, int):
                        model.add_implication(reads, copy.there)
                    options.append(reads)
                    built.finds.append((k, ck, u, c, reads))
                if isinstance(reader.there, int):
                    model.add_bool_or(options)
                else:
                    model.add_bool_or([*options, ~reader.there])


def _hint(built: MoccasinModel, runs: Sequence[int], horizon: int) -> None:
    """Hint all variables but lengths and what presolve derives, if the runs are a schedule of this form."""
    data = built.data
    stages = stages_of(data, runs)
    if stages is None or not fits(data, [i for stage in stages for i in stage]):
        return
    slots: list[list[int]] = [[] for _ in range(data.n)]
    for t, stage in enumerate(stages):
        for i in stage:
            slots[i].append(slot(t, i))
    if any(len(mine) > len(copies) for mine, copies in zip(slots, built.copies, strict=True)):
        return
    model = built.model
    begins = [[-1] if x.writer is None else slots[x.writer] for x in data.values]
    ends = [[0 if b < 0 else b + 1 for b in mine] for mine in begins]
    for i, copies in enumerate(built.copies):
        for c, copy in enumerate(copies[1:], start=1):
            model.add_hint(copy.there, int(c < len(slots[i])))
            if c < len(slots[i]):
                model.add_hint(copy.slot, slots[i][c])
    for k, ck, u, c, reads in built.finds:
        own = {data.values[v].tensor for v in data.writes[k]}
        latest = -1
        if ck < len(slots[k]):
            latest = max(j for j, b in enumerate(begins[u]) if b < slots[k][ck])
        if c == latest:
            to_end = 0 if data.in_place or data.values[u].tensor in own else 1
            ends[u][c] = max(ends[u][c], slots[k][ck] + to_end)
        model.add_hint(reads, int(c == latest))
    for u, x in enumerate(data.values):
        if x.final:
            ends[u][-1] = horizon
        for c, end in enumerate(ends[u]):
            model.add_hint(built.ends[u][c], end)


def decode(built: MoccasinModel, value: Callable[[Any], int]) -> list[int]:
    """Return the ops of a solution as they run."""
    runs = []
    for copies in built.copies:
        for copy in copies:
            if isinstance(copy.there, int) or value(copy.there):
                at = copy.slot if isinstance(copy.slot, int) else value(copy.slot)
                runs.append((at, copy.op))
    return [i for _, i in sorted(runs)]
