r"""Minimum peak memory in MiniZinc: a permutation of the ops, and lifetimes as tasks of a cumulative.

Data: see `data` (ops :math:`i \in I`, lifetimes l with :math:`F_l`, :math:`A_l`, :math:`b_l`, held, workspace
:math:`w_i`, constant `base`), bytes in multiples of `unit`. Accountings differ in ``held`` alone.

Variables. :math:`p_i \in \{0, \dots, n-1\}` (``position``): the position of op i. P (``peak``): in units.

Lifetime l is the positions from :math:`p_{F_l}`, or 0 if it is initial, to :math:`\max_{i \in A_l} p_i`, the
last one only if it is held; to n if :math:`A_l` is empty. It has none if it is initial, not held, and the
first op is its last access.

Objective. Minimize P subject to

1. all :math:`p_i` are different (``alldifferent``);
2. :math:`p_j < p_i` for each direct predecessor j of i;
3. at each position the lifetimes and the workspace of the op there have at most P - `base` units
   (``cumulative``);
4. P is at least `base` and the initial lifetimes: what is there before the first op.

The optimum in units times `unit` is the optimum of the problem in bytes.
"""

from __future__ import annotations

from ...models.problems.peak import Peak
from ..minizinc import Data, Values, integers, with_data
from .data import PeakData, order_of, peak_data

LIFETIMES = """
% A lifetime: tensors that appear with the same op and vanish with the same ops.
int: lifetimes;
set of int: LIFETIMES = 0..lifetimes - 1;
array[LIFETIMES] of int: nbytes;
array[LIFETIMES] of int: born;             % the op that it appears with; -1: there at the start
array[LIFETIMES] of set of int: last;      % it vanishes with the last of these ops; {}: it stays
array[LIFETIMES] of 0..1: held;            % 1: until they have ended; 0: until the last of them starts
int: base;                                 % there throughout, and in no lifetime
"""
"""Declares what `lifetime_data` gives."""

MODEL = (
    """
% Minimum peak memory: an order of the ops, one after another, whose peak is least.
% Bytes are in multiples of `unit`. Ops and lifetimes are numbered from 0.
include "alldifferent.mzn";
include "cumulative.mzn";

int: unit;                                 % bytes
int: ops;
set of int: OPS = 0..ops - 1;
array[OPS] of string: op_name;
array[OPS] of set of int: before;          % ops that must run earlier: the direct predecessors
array[OPS] of int: workspace;              % held while the op runs
"""
    + LIFETIMES
    + """int: total = base + sum(nbytes) + max([0] ++ workspace);

array[OPS] of var OPS: position;
var base..total: peak;                     % in units

array[LIFETIMES] of var 0..ops: appears = array1d(LIFETIMES,
  [if born[l] < 0 then 0 else position[born[l]] endif | l in LIFETIMES]);
array[LIFETIMES] of var 0..ops: vanishes = array1d(LIFETIMES,
  [if last[l] = {} then ops else max([position[i] | i in last[l]]) + held[l] endif | l in LIFETIMES]);
array[LIFETIMES] of var 0..ops: length = array1d(LIFETIMES,
  [vanishes[l] - appears[l] | l in LIFETIMES]);

constraint alldifferent(position);                                              % (1)
constraint forall(i in OPS, j in before[i])(position[j] < position[i]);         % (2)
constraint if ops = 0 then true else cumulative(                                % (3)
  appears ++ position, length ++ [1 | i in OPS], nbytes ++ workspace, peak - base) endif;
constraint peak >= base + sum(l in LIFETIMES where born[l] < 0)(nbytes[l]);     % (4)

solve :: int_search(position, smallest, indomain_min) minimize peak;
"""
)


def text(problem: Peak) -> str:
    """Return the model with the data of a problem."""
    data = peak_data(problem)
    return with_data(
        MODEL,
        f"graph {problem.graph.name!r}, accounting {problem.graph.accounting}",
        {
            "unit": data.unit,
            "ops": data.n,
            "OPS": {
                "op_name": (op.name for op in problem.graph.ops),
                "before": data.predecessors,
                "workspace": data.workspace,
            },
            **lifetime_data(data),
        },
    )


def lifetime_data(data: PeakData) -> Data:
    """Return the lifetimes and the constant."""
    return {
        "lifetimes": len(data.lifetimes),
        "LIFETIMES": {
            "nbytes": (x.nbytes for x in data.lifetimes),
            "born": (-1 if x.born is None else x.born for x in data.lifetimes),
            "last": (x.last for x in data.lifetimes),
            "held": (int(x.held) for x in data.lifetimes),
        },
        "base": data.base,
    }


def answer(problem: Peak, values: Values) -> tuple[int, ...]:
    """Return the order of a solution."""
    return order_of(integers(values, "position", len(problem.graph.ops)))
