r"""Bounds on the bytes that any graph moves, whatever the order, from least peaks.

Let :math:`P(G)` be the least peak of all orders of graph G, M the memory.

**Writes.** Every traversal writes at least :math:`P(G) - M` bytes of files that are not clean, G being the
graph without what clean files hold while they wait.

*Proof.* Without I/O the order of the traversal needs at least P(G) while some op runs, with it at most M. So
at least :math:`P(G) - M` bytes of the files that wait there and that G counts are out of the memory, each of
which is used later or kept: it is in the storage, and as its file is not clean, a write brought it there that
`fixed` does not count. Bytes of a file are written at most once each, those of different files are different.

**Reads.** Every traversal reads at least :math:`P(H) - M` bytes of files that do not begin in the storage, H
being the graph without what these hold while they wait, and without what is only kept.

*Proof.* As before; every byte that is out is used later, so that it is read. First reads of files that begin
in the storage are not among these, and add up with them.

Both are *wavefront* bounds (V. Elango, F. Rastello, L.-N. Pouchet, J. Ramanujam, P. Sadayappan, SPAA 2014:
the largest of the minimum cuts around single ops in the place of P, which is at least that), and 0 only if
some order fits into the memory. *Compulsory* bytes are `GraphData.fixed`: what begins in the storage and is
used must be read once, what must end there and does not begin there must be written once; they add up with
the bytes above, which leave them out. If writes alone count, so does the first theorem.

To leave a file out means: its tensor is not live between ops, each op that accesses it holds it as workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ...formulations.minio.data import GraphData, MinIOData
from ...models.graph import Graph, Op, Tensor
from ...models.problems.peak import Peak
from ..context import Context
from ..peak.auto import solve_auto as solve_peak
from ..peak.bounds.cut_bound import cut_bound, working_set_bound

BOUND = "least peak"
"""The kind of the bound."""


def counted_graphs(data: GraphData) -> tuple[Graph, Graph]:
    """Return G and H; their orders are those of the problem's graph.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.minio.data import graph_data
    >>> problem = lt.MinIO(lt.load("gen:layered?layers=2&width=2&seed=1"), memory=99, stored=True)
    >>> [sum(op.workspace for op in graph.ops) for graph in counted_graphs(graph_data(problem))]
    [20, 20]
    """
    begins_away = [u < 0 and clean for u, clean in zip(data.maker, data.clean, strict=True)]
    return _counted(data, data.clean, data.kept), _counted(data, begins_away, (False,) * len(data.size))


def _counted(data: GraphData, left_out: Sequence[bool], final: Sequence[bool]) -> Graph:
    """Return the graph of the files that are not left out; changes of a tensor keep it."""
    tensors: list[Tensor] = []
    tensor_of: dict[int, int] = {}
    version: dict[int, int] = {}
    for k, (u, size, t) in enumerate(zip(data.maker, data.size, data.tensor, strict=True)):
        before = version.get(t)
        version[t] = k
        if left_out[k]:
            continue
        tensor = Tensor(name=f"f{k}", nbytes=size, initial=u < 0, final=final[k])
        if before in tensor_of and u in data.users[before]:
            tensor_of[k] = tensor_of[before]
            tensors[tensor_of[k]] = replace(tensors[tensor_of[k]], final=final[k])
        else:
            tensor_of[k] = len(tensors)
            tensors.append(tensor)
    ops = []
    for i, need in enumerate(data.need):
        reads, writes = (
            sorted({tensor_of[k] for k in files if k in tensor_of})
            for files in (data.inputs[i], data.files_of[i])
        )
        held = sum(tensors[t].nbytes for t in {*reads, *writes})
        after = data.before[i]
        ops.append(
            Op(name=f"o{i}", reads=tuple(reads), writes=tuple(writes), after=after, workspace=need - held)
        )
    return Graph(name="files that count", tensors=tuple(tensors), ops=tuple(ops))


def least_moved(data: GraphData, writes: int, reads: int) -> int:
    """Return the bytes that every traversal moves at least, from bounds on P(G) and P(H)."""
    reread = max(0, reads - data.memory) if data.traffic else 0
    return data.fixed + max(0, writes - data.memory) + reread


def raise_by_cuts(data: GraphData, context: Context) -> None:
    """Raise the bound of a graph that is no tree, once, by a minimum cut for each op, of G and of H."""
    if isinstance(data, MinIOData) or context.closed or not context.once("cuts of peaks"):
        return
    peaks = _Peaks(data, context)
    for number, graph in peaks.graphs.items():
        peaks.raise_to(number, working_set_bound(graph))
        cut_bound(
            graph,
            expired=lambda: context.expired,
            improved=partial(peaks.raise_to, number),
            prepare=context.prepare,
        )


def raise_by_peaks(data: GraphData, context: Context, new_order: Callable[[tuple[int, ...]], None]) -> None:
    """Raise the bound by cuts, then by least peaks of G, and of H if reads count; hand on better orders.

    Without a limit, H begins when the least peak of G is known.
    """
    raise_by_cuts(data, context)
    peaks = _Peaks(data, context)
    for left, (number, graph) in zip((len(peaks.graphs), 1), peaks.graphs.items(), strict=False):
        peak = Peak(graph)
        inner = context.inner(peak, context.remaining() / left, "least peak: ", options={})
        seen: list[tuple[int, ...]] = [()]

        def hand_on(inner: Context = inner, number: int = number, seen: list[tuple[int, ...]] = seen) -> None:
            if inner.bound is not None:
                peaks.raise_to(number, inner.bound)
            if inner.answer is not None and inner.answer != seen[0]:
                seen[0] = inner.answer
                new_order(inner.answer)

        inner.changed = hand_on
        solve_peak(peak, inner)
        if context.closed:
            return


class _Peaks:
    """Bounds on the least peaks of G and of H, which are one graph where no final file waits."""

    def __init__(self, data: GraphData, context: Context) -> None:
        self.data, self.context = data, context
        both = counted_graphs(data)
        self.same = both[0].sha256 == both[1].sha256
        self.graphs = dict(enumerate(both[: 1 if self.same else 1 + data.traffic]))
        self.peaks = [0, 0]

    def raise_to(self, number: int, peak: int) -> None:
        """Take a bound on the least peak of a graph."""
        for k in (0, 1) if self.same else (number,):
            self.peaks[k] = max(self.peaks[k], peak)
        self.context.raise_bound(least_moved(self.data, *self.peaks), kind=BOUND)
