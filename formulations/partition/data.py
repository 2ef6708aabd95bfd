r"""What all methods of `partition` share: classes of ops, values between them, and the order of classes.

A class :math:`c \in C` is what one stage runs as a whole: the ops of a class of the problem, an op in none,
and, where stages are contiguous, what lies on a circle of the order together (each of its classes needs all
others to be on its own stage or an earlier one, so on its own). The order :math:`(c, d) \in O` says that c is
on the stage of d or an earlier one.

By class: times :math:`t_{ck}` on devices of kind k in ns, None if it has no mode there, and the initial
tensors that it accesses. A value v has a class :math:`w_v` that makes it, classes :math:`R_v` of its readers,
and takes :math:`\tau_v` ns. Classes stand in a topological order of O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...models.derived.values import Value, values_of
from ...models.problems.partition import Partition
from ...models.split import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedValue:
    """A value between classes.

    Attributes
    ----------
    writer, readers
        Classes; the writer's own is none of the readers.
    time, nbytes
        Of its transfer, in ns; its bytes.
    maker, forward, kept
        The op that makes it, and whether it is a forward op; which classes read it in the backward pass (the
        writer's, too).
    """

    writer: int
    readers: tuple[int, ...]
    time: int
    nbytes: int
    maker: int
    forward: bool
    kept: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PartitionData:
    """The data of the page.

    Attributes
    ----------
    members
        By class: its ops.
    kinds
        Kinds of devices with their counts.
    times
        By class and kind, in ns; None: it cannot run there.
    forward_times
        The part of it that forward ops take.
    held
        By class: the initial tensors that it accesses.
    sizes
        Bytes of each tensor.
    before
        By class: the classes that are on its stage or earlier ones, those of O that lead to it.
    passed
        Values with readers in other classes, or kept for the backward pass.
    """

    members: tuple[tuple[int, ...], ...]
    kinds: tuple[tuple[str, int], ...]
    times: tuple[tuple[int | None, ...], ...]
    forward_times: tuple[tuple[int, ...], ...]
    held: tuple[frozenset[int], ...]
    sizes: tuple[int, ...]
    before: tuple[frozenset[int], ...]
    passed: tuple[PassedValue, ...] = field(repr=False)

    @property
    def n(self) -> int:
        """The number of classes."""
        return len(self.members)

    @cached_property
    def class_of(self) -> list[int]:
        """The class of each op."""
        classes = [0] * sum(map(len, self.members))
        for c, ops in enumerate(self.members):
            for i in ops:
                classes[i] = c
        return classes

    def split(
        self,
        stage: list[int],
        kinds: list[str],
        replicas: list[int] | None = None,
        again: tuple[int, ...] = (),
    ) -> Split:
        """Return the split that puts each class on a stage."""
        return Split(
            stage=tuple(stage[c] for c in self.class_of),
            kinds=tuple(kinds),
            replicas=tuple(replicas or [1] * len(kinds)),
            again=again,
        )


def partition_data(problem: Partition) -> PartitionData:
    """Return the data of a problem (computed once, kept with it)."""
    kept: PartitionData | None = problem.__dict__.get("_data")
    if kept is None:
        kept = problem.__dict__["_data"] = _derived(problem)
    return kept


def _classes(after: dict[int, set[int]], root: list[int]) -> tuple[list[int], list[set[int]]]:
    """Return the class of each op, and by class those before it, itself perhaps too."""
    order = _components(after)
    number = {r: c for c, roots in enumerate(order) for r in roots}
    before: list[set[int]] = [set() for _ in order]
    for r, later in after.items():
        for s in later:
            before[number[s]].add(number[r])
    return [number[r] for r in root], before


def _derived(problem: Partition) -> PartitionData:
    graph, backward = problem.graph, set(problem.backward)
    values = [v for v in values_of(graph) if v.writer is not None]
    root = [*range(len(graph.ops))]
    for group in problem.together:
        for i in group:
            root[i] = group[0]
    class_of, before = _classes(_orders(problem, root, values), root)
    members: list[list[int]] = [[] for _ in before]
    for i, c in enumerate(class_of):
        members[c].append(i)
    kinds = [kind for kind, _ in problem.kinds]
    initial = {t for t, x in enumerate(graph.tensors) if x.initial}
    forward = [[i for i in ops if i not in backward] for ops in members]
    accessed = [{t for i in ops for t in (*graph.ops[i].reads, *graph.ops[i].writes)} for ops in members]
    return PartitionData(
        members=tuple(map(tuple, members)),
        kinds=problem.kinds,
        times=tuple(tuple(_time(problem, ops, kind) for kind in kinds) for ops in members),
        forward_times=tuple(tuple(_time(problem, ops, kind) or 0 for kind in kinds) for ops in forward),
        held=tuple(frozenset(tensors & initial) for tensors in accessed),
        sizes=tuple(x.nbytes for x in graph.tensors),
        before=tuple(frozenset(classes - {c}) for c, classes in enumerate(before)),
        passed=tuple(_passed(problem, class_of, values)),
    )


def _orders(problem: Partition, root: Sequence[int], values: Sequence[Value]) -> dict[int, set[int]]:
    """Return, by the first op of a class of the problem, those of classes on its stage or a later one."""
    after: dict[int, set[int]] = {r: set() for r in root}
    if not problem.contiguous:
        return after
    backward = set(problem.backward)
    with_forward = {r for i, r in enumerate(root) if i not in backward}
    mirrored = {i for i in backward if root[i] not in with_forward}
    pairs = [(j, i) for i, op in enumerate(problem.graph.ops) for j in op.after]
    pairs += [(v.writer, i) for v in values for i in v.readers if v.writer is not None]
    for a, b in pairs:
        if a in backward and b in backward:
            if a in mirrored or b in mirrored:
                after[root[b]].add(root[a])
        elif a not in backward and b not in backward:
            after[root[a]].add(root[b])
    return after


def _passed(problem: Partition, class_of: Sequence[int], values: Sequence[Value]) -> Iterator[PassedValue]:
    backward = set(problem.backward)
    for v in values:
        assert v.writer is not None
        readers = sorted({class_of[i] for i in v.readers} - {class_of[v.writer]})
        forward = v.writer not in backward
        kept = tuple(sorted({class_of[i] for i in v.readers if i in backward})) if forward else ()
        nbytes = problem.graph.tensors[v.tensor].nbytes
        time = 0 if problem.link is None else -(-nbytes * 10**9 // problem.link)
        if (readers and (time or forward)) or kept:
            yield PassedValue(
                writer=class_of[v.writer],
                readers=tuple(readers),
                time=time,
                nbytes=nbytes,
                maker=v.writer,
                forward=forward,
                kept=kept,
            )


def _time(problem: Partition, ops: list[int], kind: str) -> int | None:
    if any(kind not in problem.modes[i] for i in ops):
        return None
    return sum(problem.modes[i][kind][0] for i in ops)


def _components(after: dict[int, set[int]]) -> list[list[int]]:
    """Return the strongly connected components in a topological order, that of the least op first."""
    if all(a <= b for a, later in after.items() for b in later):
        return [[a] for a in sorted(after)]
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(sorted(after))
    graph.add_edges_from((a, b) for a in sorted(after) for b in sorted(after[a]))
    whole = nx.condensation(graph)
    groups = {c: sorted(whole.nodes[c]["members"]) for c in whole}
    return [groups[c] for c in nx.lexicographical_topological_sort(whole, key=lambda c: groups[c][0])]
