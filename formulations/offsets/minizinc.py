r"""Offset allocation in MiniZinc: rectangles of time and addresses that do not overlap, in all pools at once.

Data. Buffers :math:`i \in I` with size :math:`s_i`, alignment :math:`A_i`, pool :math:`k_i`, perhaps a fixed
offset; rectangles :math:`r \in R` of a buffer :math:`i_r`: the times :math:`[f_r, l_r)` and the window
:math:`[a_r, b_r)` of its bytes (`Buffer.rectangles`). In-place pairs. Bytes are in multiples of `unit`, which
loses nothing (`data`); times are replaced by their ranks. Buffers without bytes have no rectangle, but their
fixed offset counts for the height of their pool.

Variables. :math:`o_i` (``offset``), :math:`H_k` (``height`` of pool k), in units.

Objective. Minimize :math:`\sum_k H_k`, or none where any allocation will do, subject to

1. :math:`A_i` divides :math:`o_i`, and :math:`o_i` is the fixed offset if there is one;
2. :math:`o_i + s_i \le H_{k_i}`, which is at most the capacity of the pool;
3. rectangles :math:`[f_r, l_r) \times [o_{i_r} + a_r, o_{i_r} + b_r)` of one pool do not overlap (``diffn``);
4. but the two buffers of an in-place pair may overlap if they have the same offset: rectangles of buffers
   with a partner are left out of 3, and a disjunction for each pair of rectangles that meet in time says the
   same.

The sum of heights in units times `unit` is the optimum of the problem in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...models.buffers import Buffer, Buffers
from ...models.problems.offsets import Offsets
from ..minizinc import Data, Values, integers, with_data
from .data import common_unit

MODEL = """
% Offset allocation: an address for each buffer, so that the pools have the least height in all.
% Bytes are in multiples of `unit`; times are ranks. Buffers, pools and rectangles are numbered from 0.
include "diffn.mzn";

int: unit;                                 % bytes
int: pools;
set of int: POOLS = 0..pools - 1;
array[POOLS] of string: pool_name;
array[POOLS] of int: highest;              % its capacity, or more than any allocation needs

int: buffers;
set of int: BUFFERS = 0..buffers - 1;
array[BUFFERS] of string: buffer_id;
array[BUFFERS] of int: size;
array[BUFFERS] of int: alignment;
array[BUFFERS] of int: fixed;              % its offset; -1: free
array[BUFFERS] of POOLS: pool;

% What a buffer occupies: the times [first, last) and the bytes [low, high), counted from its offset.
int: rectangles;
set of int: RECTANGLES = 0..rectangles - 1;
array[RECTANGLES] of BUFFERS: owner;
array[RECTANGLES] of int: first;
array[RECTANGLES] of int: last;
array[RECTANGLES] of int: low;
array[RECTANGLES] of int: high;

% Pairs of buffers that may overlap if they have the same offset.
int: pairs;
set of int: PAIRS = 0..pairs - 1;
array[PAIRS] of BUFFERS: one;
array[PAIRS] of BUFFERS: other;
set of int: PAIRED = array2set(one ++ other);

array[BUFFERS] of var 0..max([0] ++ highest): offset;
array[POOLS] of var 0..max([0] ++ highest): height;

constraint forall(i in BUFFERS)(offset[i] mod alignment[i] = 0);                % (1)
constraint forall(i in BUFFERS where fixed[i] >= 0)(offset[i] = fixed[i]);      % (1)
constraint forall(i in BUFFERS)(offset[i] + size[i] <= height[pool[i]]);        % (2)
constraint forall(k in POOLS)(height[k] <= highest[k]);                         % (2)
constraint forall(k in POOLS)(                                                  % (3)
  let {array[int] of RECTANGLES: own =
         [r | r in RECTANGLES where pool[owner[r]] = k /\\ not (owner[r] in PAIRED)]}
  in if length(own) < 2 then true else diffn(
    [first[r] | r in own], [offset[owner[r]] + low[r] | r in own],
    [last[r] - first[r] | r in own], [high[r] - low[r] | r in own]) endif);
constraint forall(                                                              % (4)
  r, q in RECTANGLES where owner[r] in PAIRED /\\ owner[q] != owner[r]
    /\\ (owner[q] in PAIRED -> r < q)
    /\\ pool[owner[r]] = pool[owner[q]] /\\ first[r] < last[q] /\\ first[q] < last[r])(
  offset[owner[r]] + high[r] <= offset[owner[q]] + low[q]
  \\/ offset[owner[q]] + high[q] <= offset[owner[r]] + low[r]
  \\/ (offset[owner[r]] = offset[owner[q]]
      /\\ exists(p in PAIRS)({one[p], other[p]} = {owner[r], owner[q]})));

"""

MINIMIZE = "solve :: int_search(offset, smallest, indomain_min) minimize sum(height);"
SATISFY = "solve :: int_search(offset, smallest, indomain_min) satisfy;  % any allocation will do"


def text(problem: Offsets) -> str:
    """Return the model with the data of a problem."""
    buffers, unit = problem.buffers.buffers, common_unit(problem.buffers.buffers) or 1
    number = {b.id: i for i, b in enumerate(buffers)}
    pairs = [(number[a], number[b]) for a, b in problem.buffers.inplace]
    return with_data(
        MODEL + (SATISFY if problem.satisfy else MINIMIZE),
        f"buffers {problem.buffers.name!r}",
        {
            "unit": unit,
            **_pools_and_buffers(problem.buffers, unit),
            **_rectangles(buffers, unit),
            "pairs": len(pairs),
            "PAIRS": {"one": (a for a, _ in pairs), "other": (b for _, b in pairs)},
        },
    )


def _pools_and_buffers(of: Buffers, unit: int) -> Data:
    buffers, pools = of.buffers, list(of.pools)
    alignment = [b.alignment // unit if b.alignment > unit else 1 for b in buffers]
    # Each free buffer on top of all others and of all fixed ones: no allocation from below is higher.
    top = sum((b.size + (b.offset or 0)) // unit + a for b, a in zip(buffers, alignment, strict=True))
    return {
        "pools": len(pools),
        "POOLS": {
            "pool_name": pools,
            "highest": (top if c is None else min(top, c // unit) for c in of.pools.values()),
        },
        "buffers": len(buffers),
        "BUFFERS": {
            "buffer_id": (b.id for b in buffers),
            "size": (b.size // unit for b in buffers),
            "alignment": alignment,
            "fixed": (-1 if b.offset is None else b.offset // unit for b in buffers),
            "pool": (pools.index(b.pool) for b in buffers),
        },
    }


def _rectangles(buffers: Sequence[Buffer], unit: int) -> Data:
    rows = [(i, *rectangle) for i, b in enumerate(buffers) for rectangle in b.rectangles]
    rank = {time: k for k, time in enumerate(sorted({time for row in rows for time in row[1:3]}))}
    numbers = [(i, rank[a], rank[b], c // unit, d // unit) for i, a, b, c, d in rows]
    names = ("owner", "first", "last", "low", "high")
    return {
        "rectangles": len(rows),
        "RECTANGLES": {name: [row[k] for row in numbers] for k, name in enumerate(names)},
    }


def answer(problem: Offsets, values: Values) -> dict[str, int]:
    """Return the offsets of a solution in bytes, by id."""
    buffers = problem.buffers.buffers
    unit = common_unit(buffers) or 1
    offsets = integers(values, "offset", len(buffers))
    return {b.id: offset * unit for b, offset in zip(buffers, offsets, strict=True)}
