r"""Makespan under a memory bound in MiniZinc: intervals on processors, and lifetimes in one memory.

Data: see `data` (ops :math:`i \in I`, alternatives :math:`a \in R_i` on kinds k of :math:`p_k` processors,
lifetimes l with :math:`F_l`, :math:`A_l`, :math:`b_l`, held, `base`, memory M), times in multiples of `tick`,
bytes in multiples of `unit`.

Variables. :math:`S_i` (``start``), in ticks. ``taken``: the alternative of op i, numbered over all ops; its
duration :math:`d_i` and workspace :math:`w_i`. C (``makespan``), in ticks, at most all ops one after another.

Objective. Minimize C subject to

1. an op takes one of its own alternatives;
2. :math:`S_j + d_j \le S_i` for each direct predecessor j of i; :math:`S_i + d_i \le C`;
3. at any time at most :math:`p_k` ops run in alternatives on kind k (``cumulative``);
4. at any time the lifetimes and the workspaces have at most M - `base` units (``cumulative``): a lifetime
   begins with :math:`S_{F_l}`, or at 0, and ends with the last end in :math:`A_l` if it is held, else with
   the last start, and with C if :math:`A_l` is empty;
5. `base` and the initial lifetimes have at most M units: what is there before the first op.

The optimum in ticks times `tick` is the optimum of the problem in ns.
"""

from __future__ import annotations

from itertools import accumulate

from ...models.problems.makespan import Makespan
from ..minizinc import Values, integers, with_data
from ..peak.minizinc import LIFETIMES, lifetime_data
from .data import makespan_data

MODEL = (
    """
% Makespan under a memory bound: the fastest schedule of the ops that never holds more than `memory`.
% Times are in multiples of `tick`, bytes in multiples of `unit`. Everything is numbered from 0.
include "cumulative.mzn";

int: tick;                                 % ns
int: unit;                                 % bytes
int: kinds;
set of int: KINDS = 0..kinds - 1;
array[KINDS] of string: kind_name;
array[KINDS] of int: processors;           % how many of the kind

int: ops;
set of int: OPS = 0..ops - 1;
array[OPS] of string: op_name;
array[OPS] of set of int: before;          % ops that must end before it starts

% How an op may run: on a processor of which kind, how long, with which workspace.
int: alternatives;
set of int: ALTERNATIVES = 0..alternatives - 1;
array[ALTERNATIVES] of OPS: op;
array[ALTERNATIVES] of KINDS: kind;
array[ALTERNATIVES] of int: duration;
array[ALTERNATIVES] of int: workspace;
"""
    + LIFETIMES
    + """int: memory;

int: horizon = sum(i in OPS)(max([duration[a] | a in ALTERNATIVES where op[a] = i]));

array[OPS] of var 0..horizon: start;
array[OPS] of var ALTERNATIVES: taken;
var 0..horizon: makespan;

array[OPS] of var 0..horizon: stop = array1d(OPS, [start[i] + duration[taken[i]] | i in OPS]);
array[ALTERNATIVES] of var 0..1: runs = array1d(ALTERNATIVES,
  [bool2int(taken[op[a]] = a) | a in ALTERNATIVES]);
array[LIFETIMES] of var 0..horizon: appears = array1d(LIFETIMES,
  [if born[l] < 0 then 0 else start[born[l]] endif | l in LIFETIMES]);
array[LIFETIMES] of var 0..horizon: vanishes = array1d(LIFETIMES,
  [if last[l] = {} then makespan
   else max([if held[l] = 1 then stop[i] else start[i] endif | i in last[l]]) endif
   | l in LIFETIMES]);
array[LIFETIMES] of var 0..horizon: length = array1d(LIFETIMES,
  [vanishes[l] - appears[l] | l in LIFETIMES]);

constraint forall(i in OPS)(taken[i] in {a | a in ALTERNATIVES where op[a] = i});   % (1)
constraint forall(i in OPS, j in before[i])(stop[j] <= start[i]);                   % (2)
constraint forall(i in OPS)(stop[i] <= makespan);                                   % (2)
constraint forall(k in KINDS)(                                                      % (3)
  let {array[int] of ALTERNATIVES: on = [a | a in ALTERNATIVES where kind[a] = k]}
  in cumulative(
    [start[op[a]] | a in on], [duration[a] | a in on], [runs[a] | a in on], processors[k]));
constraint cumulative(                                                              % (4)
  appears ++ [start[op[a]] | a in ALTERNATIVES],
  length ++ duration,
  nbytes ++ [workspace[a] * runs[a] | a in ALTERNATIVES],
  memory - base);
constraint base + sum(l in LIFETIMES where born[l] < 0)(nbytes[l]) <= memory;       % (5)

solve :: int_search(start ++ taken, smallest, indomain_min) minimize makespan;
"""
)


def text(problem: Makespan) -> str:
    """Return the model with the data of a problem."""
    data = makespan_data(problem)
    rows = [(i, a) for i, choices in enumerate(data.alternatives) for a in choices]
    return with_data(
        MODEL,
        f"graph {problem.graph.name!r}, accounting {problem.graph.accounting}; "
        + ("unlimited memory" if problem.memory is None else f"memory of {problem.memory} bytes"),
        {
            "tick": data.tick,
            "unit": data.bytes.unit,
            "kinds": len(data.counts),
            "KINDS": {
                "kind_name": (kind or "processor" for kind, _ in problem.kinds),
                "processors": data.counts,
            },
            "ops": data.n,
            "OPS": {
                "op_name": (op.name for op in problem.graph.ops),
                "before": data.bytes.predecessors,
            },
            "alternatives": len(rows),
            "ALTERNATIVES": {
                "op": (i for i, _ in rows),
                "kind": (a.kind for _, a in rows),
                "duration": (a.duration for _, a in rows),
                "workspace": (a.workspace for _, a in rows),
            },
            **lifetime_data(data.bytes),
            "memory": data.memory,
        },
    )


def answer(problem: Makespan, values: Values) -> tuple[int, ...]:
    """Return the start of each op of a solution, in ns; where ops have a choice, then their alternatives."""
    data = makespan_data(problem)
    starts = tuple(start * data.tick for start in integers(values, "start", data.n))
    if not problem.has_choice:
        return starts
    first = accumulate(map(len, data.alternatives), initial=0)
    taken = integers(values, "taken", data.n)
    return (*starts, *(a - base for a, base in zip(taken, first, strict=False)))
