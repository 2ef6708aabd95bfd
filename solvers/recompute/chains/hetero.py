"""Chains of any sizes and times: the best persistent schedule within a memory, by dynamic programming.

*Statement* (Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova, "Optimal checkpointing for heterogeneous
chains: how to train deep neural networks with limited memory", 2019, theorem 1; there for taped chains). A
schedule is *persistent* if what is kept stays until the backward that it is kept for. C(s, t, m) is the least
time to reverse stages s .. t with m bytes beside the input of stage s, the gradient behind stage t included:

(1)  over s < j <= t:  sum_{s <= k < j} f_k + C(j, t, m - in_j) + C(s, j - 1, m),  if every forward of the
     sweep fits: m >= top_t + need_k for s <= k < j;
(2)  taped:  f_s + C(s + 1, t, m - tape_s) + b_s  (nothing between for s = t), if m >= top_t + save_s and
     m >= back_s; or the least of that over several *options* of stage s, each with an f, a b and bytes of
     its own (of blocks of ops, `lowtide.solvers.recompute.blocks`);
(3)  plain, s = t:  b_s, if m >= back_s.

A taped chain has stages 1 .. l, a plain one stages 0 .. l of which stage i has the forward F_i (the last one
has none) and the backward B_i. Bytes, with `space` for the workspaces:

=========  =====================================  ======================================================
           taped, coexist                         plain: coexist; replace
=========  =====================================  ======================================================
in_j       a_{j-1}                                x_j
top_t      d_t                                    y_{t+1}, 0 for t = l
need_k     (a_{k-1}, unless k = s) + a_k + space  (x_k, unless k = s) + x_{k+1} + space; without x_k
tape_s     a_s + s_s                              -
save_s     a_s + s_s + space                      -
back_s     d_s + a_s + s_s + d_{s-1} + space      y_{s+1} + y_s + space; max(y_{s+1}, y_s + space - x_s)
=========  =====================================  ======================================================

Other than in the paper, gradients and workspaces count as the graph's accounting has them, and a plain chain
may use the cell of y_{l+1}, which never exists: on unit chains (1) is then the exact optimum in cells.

*Rounding.* Memory is counted in slots of `unit` bytes: sizes that are subtracted from m and needs are rounded
up, the memory down. What is left of m is thus never more than the true room, so that every schedule found
fits; the best one may be missed, unless `unit` divides all sizes. O(L^3 M) time, O(L^2 M) memory.

*Codes*: those of `revolve` for plain chains and of `mixed` for taped ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import gcd

import numpy as np

from ....models.arrays import Booleans, Integers
from ...engines.arrays import Rows
from ...engines.kernels import kernel
from .chain import PlainChain, TapedChain
from .segments import Codes

NEVER = 2**60
"""More than any time; the sum of two is no overflow."""

SLOTS = 500
"""Slots of memory that the program distinguishes, unless it is told another number."""

CELLS = 40_000_000
"""Entries of the table, at most: there are fewer slots for very long chains."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """A chain as the program sees it: bytes and ns by stage, stages numbered from 0.

    Attributes
    ----------
    taped
        (2) instead of (3).
    backward, tape, save, back
        By option, those of stage 0 first; one option a stage, unless `counts` says otherwise. A tape below 0
        says that the input goes, too: with it m is never more than the memory less what is kept.
    counts, saving, alone
        Options of each stage, by option the ns of the forward that saves, and whether it is one for s = t < L
        only; where they are empty, one option a stage, for all t, that takes as long as the forward that
        saves nothing.
    """

    taped: bool
    forward: list[int]
    backward: list[int]
    inputs: list[int]
    tape: list[int]
    top: list[int]
    need_first: list[int]
    need_next: list[int]
    save: list[int]
    back: list[int]
    counts: Sequence[int] = ()
    saving: Sequence[int] = ()
    alone: Sequence[bool] = ()

    @property
    def begins(self) -> list[int]:
        """The first option of each stage, and the number of all."""
        return [0, *accumulate(self.counts or [1] * len(self.forward))]

    def allows(self, option: int, s: int, t: int) -> bool:
        """Return whether an option of stage s is one for C(s, t, m)."""
        return s == t < len(self.forward) - 1 or not self.alone or not self.alone[option]

    def pair(self, option: int) -> int:
        """Return the ns of the forward that saves, and of the backward, with an option."""
        return (self.saving or self.forward)[option] + self.backward[option]


def stages_of_taped(chain: TapedChain) -> Costs:
    """Return the stages of a taped chain; stage i of the statement is number i - 1."""
    a, d, n = chain.a_bytes, chain.d_bytes, chain.stages
    tape = [a[i + 1] + chain.saved_bytes[i] for i in range(n)]
    first = [a[i + 1] + chain.forward_space[i] for i in range(n)]
    return Costs(
        taped=True,
        forward=list(chain.forward_ns),
        backward=list(chain.backward_ns),
        inputs=list(a[:n]),
        tape=tape,
        top=list(d[1:]),
        need_first=first,
        need_next=[a[i] + first[i] for i in range(n)],
        save=[tape[i] + chain.forward_space[i] for i in range(n)],
        back=[d[i + 1] + tape[i] + d[i] + chain.backward_space[i] for i in range(n)],
    )


def stages_of_plain(chain: PlainChain, *, in_place: bool) -> Costs:
    """Return the stages of a plain chain; `in_place` with accounting ``replace``."""
    x, y, l = chain.x_bytes, chain.y_bytes, chain.forwards  # noqa: E741
    top = [*y[1:], 0]
    first = [x[i + 1] + chain.forward_space[i] for i in range(l)]
    made = [y[i] + chain.backward_space[i] for i in range(l + 1)]
    if in_place:
        back = [max(top[i], made[i] - x[i]) for i in range(l + 1)]
    else:
        back = [top[i] + made[i] for i in range(l + 1)]
    return Costs(
        taped=False,
        forward=[*chain.forward_ns, 0],
        backward=list(chain.backward_ns),
        inputs=list(x),
        tape=[0] * (l + 1),
        top=top,
        need_first=[*first, 0],
        need_next=[*(f if in_place else x[i] + f for i, f in enumerate(first)), 0],
        save=[0] * (l + 1),
        back=back,
    )


@dataclass(frozen=True, kw_only=True)
class HeteroProgram:
    """C(s, t, m) of a chain in slots of `unit` bytes; `kept` are in_j and tape_j in slots, rounded up."""

    stages: Costs
    table: Rows
    unit: int
    kept: tuple[Integers, Integers]

    def room(self, s: int) -> int:
        """Return the slots beside the input of stage s, below 0 if that does not fit."""
        return int(self.table.shape[1] - 1 - self.kept[0][s])

    def time(self, s: int, t: int, m: int) -> int:
        """Return C(s, t, m), at least `NEVER` if there is no schedule."""
        count = len(self.stages.forward)
        return int(self.table[s * (2 * count - s + 1) // 2 + t - s, m]) if m >= 0 else NEVER


def hetero_chain(
    stages: Costs,
    memory: int,
    slots: int = SLOTS,
    goes_on: Callable[[int], bool] = lambda length: True,
) -> tuple[int, Codes, int] | None:
    """Return the least time in ns, a schedule that takes it and the unit in bytes; None if nothing fits.

    Parameters
    ----------
    memory, slots, goes_on
        As in `program`.
    """
    solved = program(stages, memory, slots, goes_on)
    last = len(stages.forward) - 1
    if solved is None or (cost := solved.time(0, last, solved.room(0))) >= NEVER:
        return None
    return cost, np.array(schedule(solved, 0, last, solved.room(0)), dtype=np.int64), solved.unit


def program(
    stages: Costs,
    memory: int,
    slots: int = SLOTS,
    goes_on: Callable[[int], bool] = lambda length: True,
) -> HeteroProgram | None:
    """Return the program of all subproblems; None if it was ended.

    Parameters
    ----------
    memory
        In bytes.
    slots
        That the program distinguishes, if sizes have no common divisor that needs fewer.
    goes_on
        Asked with the number of stages that subproblems have next; False ends the program.
    """
    count = len(stages.forward)
    parts = (stages.inputs, stages.tape, stages.top, stages.need_first, stages.need_next)
    sizes = [nbytes for part in (*parts, stages.save, stages.back) for nbytes in part]
    slots = min(slots, max(1, CELLS // (count * (count + 1) // 2)))
    unit = unit_of(sizes, memory, slots)
    room = memory // unit

    def array(values: list[int]) -> Integers:
        return np.array(values, dtype=np.int64)

    begins = stages.begins
    pairs = [stages.pair(k) if stages.taped else stages.backward[k] for k in range(begins[-1])]
    times = (array(stages.forward), array(pairs), array(begins))
    alone = np.array(stages.alone or [False] * begins[-1])
    kept = (slots_of(stages.inputs, unit), slots_of(stages.tape, unit))
    needs = tuple(
        array(part) for part in (stages.top, stages.need_first, stages.need_next, stages.save, stages.back)
    )
    table = np.full((count * (count + 1) // 2, room + 1), NEVER)
    for length in range(count):
        if not goes_on(length + 1):
            return None
        _fill(table, length, count, room, unit, stages.taped, alone, times, kept, needs)
    return HeteroProgram(stages=stages, table=table, unit=unit, kept=kept)


def unit_of(sizes: Iterable[int], memory: int, slots: int) -> int:
    """Return the bytes of a slot: what divides all sizes, or more, so that there are not too many."""
    unit = max(1, gcd(*sizes))
    return max(unit, -(-memory // slots)) if memory // unit > slots else unit


def slots_of(sizes: list[int], unit: int) -> Integers:
    """Return sizes in slots, rounded up."""
    return -(-np.array(sizes, dtype=np.int64) // unit)


@kernel
def _fill(
    table: Rows,
    length: int,
    count: int,
    room: int,
    unit: int,
    taped: bool,
    alone: Booleans,
    times: tuple[Integers, Integers, Integers],
    kept: tuple[Integers, Integers],
    needs: tuple[Integers, Integers, Integers, Integers, Integers],
) -> None:
    """Write C(s, s + length) for every s, at row s (2 L - s + 1) / 2 + length, by slots."""
    forward, pairs, begins = times
    inputs, tape = kept
    top, need_first, need_next, save, back = needs
    for s in range(count - length):
        t = s + length
        row = s * (2 * count - s + 1) // 2 + t - s
        best = table[row]
        if taped:  # (2)
            for k in range(begins[s], begins[s + 1]):
                if alone[k] and (length or t == count - 1):
                    continue
                low = max(-(-(top[t] + save[k]) // unit), -(-back[k] // unit), tape[k], np.int64(0))
                if length == 0:
                    for m in range(low, room + 1):
                        best[m] = min(best[m], pairs[k])
                else:
                    inner = table[(s + 1) * (2 * count - s) // 2 + t - s - 1]
                    for m in range(low, room + 1 + min(tape[k], np.int64(0))):
                        best[m] = min(best[m], pairs[k] + inner[m - tape[k]])
        elif length == 0:  # (3)
            best[max(np.int64(0), -(-back[s] // unit)) :] = pairs[s]
        need, cost = np.int64(0), np.int64(0)
        for j in range(s + 1, t + 1):  # (1)
            cost += forward[j - 1]
            need = max(need, need_first[s] if j == s + 1 else need_next[j - 1])
            low = max(-(-(top[t] + need) // unit), inputs[j])
            right = table[j * (2 * count - j + 1) // 2 + t - j]
            left = table[s * (2 * count - s + 1) // 2 + j - 1 - s]
            for m in range(low, room + 1):
                best[m] = min(best[m], cost + right[m - inputs[j]] + left[m])


Step = tuple[str, int, int]
"""``sweep``, s, j: the forwards of stages s to j - 1, which save nothing; ``save``, ``back``: s, option."""


def steps(solved: HeteroProgram, first: int, end: int, room: int) -> Iterator[Step]:
    """Yield a schedule of stages `first` to `end` in the time C: the first choice each time."""
    stages, unit, value = solved.stages, solved.unit, solved.time
    inputs, tape = solved.kept
    begins = stages.begins
    todo: list[tuple[int, int, int] | Step] = [(first, end, room)]
    while todo:
        item = todo.pop()
        if isinstance(item[0], str):
            yield item
            continue
        s, t, m = item
        best = value(s, t, m)
        split, cost, need = 0, 0, 0
        for j in range(s + 1, t + 1):
            cost += stages.forward[j - 1]
            need = max(need, stages.need_first[s] if j == s + 1 else stages.need_next[j - 1])
            fits = m >= -(-(stages.top[t] + need) // unit)
            if fits and best == cost + value(j, t, m - int(inputs[j])) + value(s, j - 1, m):
                split = j
                break
        if split:
            yield "sweep", s, split
            todo += [(s, split - 1, m), (split, t, m - int(inputs[split]))]
            continue
        for k in range(begins[s], begins[s + 1]):
            need = max(-(-max(stages.top[t] + stages.save[k], stages.back[k]) // unit), int(tape[k]))
            inner = value(s + 1, t, m - int(tape[k])) if stages.taped and s < t else 0
            right = m >= need and best == stages.pair(k) + inner and stages.allows(k, s, t)
            if right or not stages.taped:
                break
        todo.append(("back", s, k))
        if stages.taped:
            yield "save", s, k
            if s < t:
                todo.append((s + 1, t, m - int(tape[k])))


def schedule(solved: HeteroProgram, first: int, end: int, room: int) -> list[int]:
    """Return the codes of a schedule of stages with one option each."""
    stages = solved.stages
    count = len(stages.forward)
    last = 2 * count - 1 if stages.taped else 2 * count - 2  # op of the backward of stage 0
    codes: list[int] = []
    for kind, s, j in steps(solved, first, end, room):
        codes += sweep(stages, s, j) if kind == "sweep" else [s if kind == "save" else last - s]
    return codes


def sweep(stages: Costs, s: int, j: int) -> range:
    """Return the codes of the forwards of stages s to j - 1 that save nothing."""
    shift = 2 * len(stages.forward) if stages.taped else 0
    return range(shift + s, shift + j)
