"""Sequences of runs in which ops occur again: each run is an op of a graph of its own, placed like any other.

*The graph of a sequence.* Its ops are the runs. Each run that overwrites a tensor without reading it makes a
new *stay* of the tensor, which is a tensor of that graph; runs that read and write it go on with the stay
there is. Reads find the last stay. It is final if its tensor is, and no stay follows.

*Claim.* If each run of the sequence finds the versions that the reference order gives it, a valid plan for
the graph of the sequence becomes one for the first graph: a run is a run of its op, and what happens to a
stay happens to its tensor, until the run that makes the next stay starts; what is released later is released
then, and copies that end later are left out. *Proof.* A stay is not accessed any more when the next one
begins, and it is not final. So until then its tensor has the bytes and the content of the stay, and behind it
those of the next one; to release earlier, or not to copy, takes no more of any tier or channel. QED. (Plans
are verified all the same.)

So swapping and running again are decided together: the sequence says what is computed again, and whoever
plans placements in which every op runs once says what is copied. What is needed later and not made again in
between is kept or swapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....models.graph import Graph, Op, Tensor
from ....models.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Sequenced:
    """A sequence of runs of a graph's ops, and its own graph.

    Attributes
    ----------
    first, graph
        Whose ops run, and the graph of the sequence.
    runs
        By op of the sequence's graph, the op that runs.
    tensor_of, made_by
        By stay, its tensor, and the op of the sequence's graph that begins it, -1 if it is there at 0.
    """

    first: Graph
    graph: Graph
    runs: tuple[int, ...]
    tensor_of: tuple[int, ...]
    made_by: tuple[int, ...]

    def of_first(self, plan: Plan) -> Plan:
        """Return a plan for the graph of the sequence as one for the first graph."""
        start = [run.start for run in sorted(plan.runs, key=lambda run: run.op)]
        ends: dict[int, int] = {}
        last: dict[int, int] = {}
        for stay, (t, k) in enumerate(zip(self.tensor_of, self.made_by, strict=True)):
            if t in last:
                ends[last[t]] = start[k]
            last[t] = stay
        tensor_of = self.tensor_of
        cut = {(c.tensor, c.dst, c.bytes) for c in plan.copies if c.tensor in ends and c.end > ends[c.tensor]}
        return replace(
            plan,
            start=tuple(replace(r, tensor=tensor_of[r.tensor]) for r in plan.start),
            runs=tuple(replace(run, op=self.runs[run.op]) for run in plan.runs),
            copies=tuple(
                replace(c, tensor=tensor_of[c.tensor])
                for c in plan.copies
                if c.tensor not in ends or c.end <= ends[c.tensor]
            ),
            frees=tuple(
                replace(f, tensor=tensor_of[f.tensor], time=min(f.time, ends.get(f.tensor, f.time)))
                for f in plan.frees
                if (f.tensor, f.tier, f.bytes) not in cut
            ),
            graph_name=self.first.name,
            graph_source=self.first.source,
            graph_sha256=self.first.sha256,
        )


def sequenced(graph: Graph, runs: Sequence[int]) -> Sequenced:
    """Return the graph of a sequence of runs.

    Parameters
    ----------
    runs
        Ops, in the order in which they run, each at least once.

    Raises
    ------
    InstanceError
        If a run reads what no run before has left.

    Examples
    --------
    >>> import lowtide as lt
    >>> again = sequenced(lt.load("catalogue:chain"), [0, 0, 1, 2])
    >>> [op.writes for op in again.graph.ops], again.tensor_of
    ([(0,), (1,), (2,), (3,)], (0, 0, 1, 2))
    """
    stays: list[Tensor] = []
    tensor_of: list[int] = []
    made_by: list[int] = []
    now: dict[int, int] = {}

    def begin(t: int, k: int) -> None:
        now[t] = len(stays)
        stays.append(replace(graph.tensors[t], initial=k < 0, final=False))
        tensor_of.append(t)
        made_by.append(k)

    for t, tensor in enumerate(graph.tensors):
        if tensor.initial:
            begin(t, -1)
    place: dict[int, int] = {}
    ops: list[Op] = []
    for k, i in enumerate(runs):
        op = graph.ops[i]
        reads = {t: now.get(t, len(graph.tensors) + len(runs)) for t in op.reads}
        for t in op.writes:
            if t not in reads:
                begin(t, k)
        modes = (
            replace(m, operands=tuple((reads.get(t, now[t]), x) for t, x in m.operands)) for m in op.modes
        )
        ops.append(
            replace(
                op,
                reads=tuple(reads.values()),
                writes=tuple(now[t] for t in op.writes),
                after=tuple(sorted({place[j] for j in op.after})),
                inplace=tuple((reads[a], now[b]) for a, b in op.inplace),
                modes=tuple(modes),
            )
        )
        place.setdefault(i, k)
    for t, stay in now.items():
        stays[stay] = replace(stays[stay], final=graph.tensors[t].final)
    return Sequenced(
        first=graph,
        graph=replace(graph, tensors=tuple(stays), ops=tuple(ops)),
        runs=tuple(runs),
        tensor_of=tuple(tensor_of),
        made_by=tuple(made_by),
    )
