r"""What the formulations of recomputation on general graphs share: values, and data in small integers.

Ops :math:`i = 0, \dots, n-1` in the reference order, of duration :math:`d_i` in ticks of ``tick`` ns, the
greatest common divisor of all durations; workspace :math:`w_i` and memory M in units of ``unit`` bytes, the
greatest common divisor of all sizes (M is rounded down, which loses nothing: all that can be there at once
is a multiple of the unit).

A **value** :math:`u \in U` is a version of a tensor: the initial content, or what op :math:`W_u` leaves,
of :math:`m_u` units. :math:`In_i` are the values that op i finds, :math:`Out_i` those that it leaves, in the
reference order. **Rivals** are the versions of one tensor: of them there is one at a time, and a run that
leaves a value destroys its rivals.

*Bundles.* Tensors whose versions have the same writers and readers, and are initial and final alike, are one
tensor here. Some fastest schedule keeps and discards them together: where one of them is missing, the next
op that reads them all cannot run before their writer has run again, which leaves all of them again; what is
left of them until then is of no use. (Of initial contents none comes back, and of final ones all must be
there.) This holds in one memory; where slower tiers return tensors one by one, it need not.

Tensors that no op accesses are never live unless they are both initial and final. Such ones take their bytes
off M; but where data are without bundles they are values like all others, since a slower tier may have them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...models.errors import UsageError
from ...models.graph import Accounting, Graph
from ...models.problems.recompute import Recompute


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a bundle of tensors.

    Attributes
    ----------
    tensor
        Number of the bundle.
    nbytes
        In units.
    writer
        The op that leaves it; None if it is there at the start.
    readers
        The ops that find it, ascending.
    final
        It must be there at the end.
    rivals
        The other versions of the bundle.
    """

    tensor: int
    nbytes: int
    writer: int | None
    readers: tuple[int, ...]
    final: bool
    rivals: tuple[int, ...]

    @property
    def at_start(self) -> bool:
        """Whether it is there when the first op runs; initial contents that nothing reads go before."""
        return self.writer is None and (self.final or bool(self.readers))


@dataclass(frozen=True, kw_only=True)
class RecomputeData:
    """The data of the page of mathematics; times in multiples of `tick`, bytes in those of `unit`.

    Attributes
    ----------
    memory
        M, less what is never accessed but stays; of unlimited memory, all bytes at once.
    reads, writes
        By op, the values that it finds and leaves.
    after
        By op, the ops that must have run once before.
    tensors
        By bundle, its tensors in the graph.
    resident
        The bundles of which a version is there all the time, in one memory (`Recompute.resident`).
    in_place
        Accounting ``replace``: what an op only reads may go when it starts.
    """

    tick: int
    unit: int
    memory: int
    duration: tuple[int, ...]
    workspace: tuple[int, ...]
    values: tuple[Version, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    tensors: tuple[tuple[int, ...], ...]
    resident: frozenset[int]
    in_place: bool

    @property
    def n(self) -> int:
        """The number of ops."""
        return len(self.duration)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """By value, its units."""
        return tuple(x.nbytes for x in self.values)

    @cached_property
    def destroys(self) -> tuple[tuple[int, ...], ...]:
        """By op, the values that a run of it destroys: the rivals of what it leaves."""
        return tuple(
            tuple(sorted({r for u in writes for r in self.values[u].rivals})) for writes in self.writes
        )

    @cached_property
    def touches(self) -> tuple[tuple[int, ...], ...]:
        """By op, the values that a run of it finds, leaves or destroys, ascending."""
        kinds = zip(self.reads, self.writes, self.destroys, strict=True)
        return tuple(tuple(sorted({*finds, *leaves, *lost})) for finds, leaves, lost in kinds)

    @cached_property
    def fresh(self) -> tuple[int, ...]:
        """By op, the units of a run beyond those of what it reads: what it leaves elsewhere, workspace."""
        fresh = []
        for i in range(self.n):
            own = {self.values[u].tensor for u in self.reads[i]}
            fresh.append(sum(self.sizes[u] for u in self.writes[i] if self.values[u].tensor not in own))
        return tuple(a + b for a, b in zip(fresh, self.workspace, strict=True))

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """By op, the ops that leave what it finds, ascending."""
        writer = [x.writer for x in self.values]
        found = ({w for u in reads if (w := writer[u]) is not None} for reads in self.reads)
        return tuple(tuple(sorted(before)) for before in found)

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """By op, a bit set of the ops that run before it runs first, itself among them."""
        masks: list[int] = []
        for i in range(self.n):
            bits = 1 << i
            for j in (*self.inputs[i], *self.after[i]):
                bits |= masks[j]
            masks.append(bits)
        return tuple(masks)

    @cached_property
    def useful(self) -> tuple[int, ...]:
        """By op, the last op for which another run of it can be of use; n if for the end.

        A run serves the readers of what it leaves, and what these serve, and the end if that is final.
        """
        places = [-1] * self.n
        for i in range(self.n - 1, -1, -1):
            for u in self.writes[i]:
                if self.values[u].final:
                    places[i] = self.n
                for j in self.values[u].readers:
                    places[i] = max(places[i], j, places[j])
        return tuple(places)

    @cached_property
    def footprint(self) -> tuple[int, ...]:
        """By op, the units that a run of it takes: operands and workspace, as the accounting has them."""
        nbytes = []
        for i in range(self.n):
            read = {self.values[u].tensor: self.values[u].nbytes for u in self.reads[i]}
            written = {self.values[u].tensor: self.values[u].nbytes for u in self.writes[i]}
            if self.in_place:
                nbytes.append(max(sum(read.values()), sum(written.values()) + self.workspace[i]))
            else:
                nbytes.append(sum({**read, **written}.values()) + self.workspace[i])
        return tuple(nbytes)

    def ns(self, ticks: int) -> int:
        """Return the nanoseconds of ticks."""
        return ticks * self.tick


def check_modes(graph: Graph) -> None:
    """Raise `UsageError` unless each op has one mode, with its operands in the fast memory."""
    for i, op in enumerate(graph.ops):
        if op.modes and (len(op.modes) > 1 or op.modes[0].operands):
            raise UsageError(
                f"recompute, op {i} {op.name!r}: found several modes or operands in given tiers, expected "
                "one mode with its operands in the fast memory"
            )


def _bundles(
    graph: Graph, histories: Sequence[tuple[tuple[int | None, tuple[int, ...]], ...]], bundled: bool
) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return the tensors of one fate together, and the bytes of those that only stay."""
    bundles: dict[object, list[int]] = {}
    kept = 0
    for t, tensor in enumerate(graph.tensors):
        stays = tensor.initial and tensor.final
        if any(readers or writer is not None for writer, readers in histories[t]) or (stays and not bundled):
            fate = (histories[t], tensor.initial, tensor.final)
            bundles.setdefault(fate if bundled else t, []).append(t)
        elif stays:
            kept += tensor.nbytes
    return tuple(map(tuple, bundles.values())), kept


def recompute_data(problem: Recompute, *, bundled: bool = True) -> RecomputeData:
    """Return the data of a problem; with `bundled`, tensors with one fate are one.

    Raises
    ------
    UsageError
        If an op has several modes, or one that says in which tier its operands are.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> data = recompute_data(lt.Recompute(lt.load("catalogue:accumulate")))
    >>> [(x.writer, x.readers, x.final) for x in data.values if x.rivals]
    [(0, (4,), False), (4, (5,), False), (5, (6,), False), (6, (), True)]
    """
    graph = problem.graph
    check_modes(graph)
    histories = _histories(graph)
    tensors, kept = _bundles(graph, histories, bundled)
    sizes = [sum(graph.tensors[t].nbytes for t in bundle) for bundle in tensors]
    workspace = [op.all_modes[0].workspace for op in graph.ops]
    unit = math.gcd(*sizes, *workspace) or 1
    values: list[Version] = []
    for k, bundle in enumerate(tensors):
        history, size = histories[bundle[0]], sizes[k] // unit
        first = len(values)
        for version, (writer, readers) in enumerate(history):
            rivals = tuple(first + v for v in range(len(history)) if v != version)
            final = graph.tensors[bundle[0]].final and version == len(history) - 1
            values.append(
                Version(tensor=k, nbytes=size, writer=writer, readers=readers, final=final, rivals=rivals)
            )
    durations = [op.all_modes[0].duration_ns for op in graph.ops]
    tick = math.gcd(*durations)
    total = sum(sizes) + sum(workspace)
    room = total if problem.memory is None else min(total, problem.memory - kept)
    reads, writes = ([list[int]() for _ in graph.ops] for _ in range(2))
    for u, x in enumerate(values):
        for i in x.readers:
            reads[i].append(u)
        if x.writer is not None:
            writes[x.writer].append(u)
    return RecomputeData(
        tick=tick,
        unit=unit,
        memory=room // unit,
        duration=tuple(d // tick for d in durations),
        workspace=tuple(w // unit for w in workspace),
        values=tuple(values),
        reads=tuple(map(tuple, reads)),
        writes=tuple(map(tuple, writes)),
        after=tuple(tuple(op.after) for op in graph.ops),
        tensors=tensors,
        resident=frozenset(k for k, bundle in enumerate(tensors) if bundle[0] in problem.resident),
        in_place=graph.accounting is Accounting.REPLACE,
    )


def in_ns(data: RecomputeData) -> RecomputeData:
    """Return the data in ticks of one ns, since transfers need not take multiples of a longer tick."""
    return replace(data, tick=1, duration=tuple(data.ns(d) for d in data.duration))


def _histories(graph: Graph) -> list[tuple[tuple[int | None, tuple[int, ...]], ...]]:
    """Return of each tensor its versions: the writer of each, and its readers."""
    histories: list[list[tuple[int | None, list[int]]]] = [
        [(None, [])] if tensor.initial else [] for tensor in graph.tensors
    ]
    for i, op in enumerate(graph.ops):
        for t in op.reads:
            histories[t][-1][1].append(i)
        for t in op.writes:
            histories[t].append((i, []))
    return [tuple((writer, tuple(readers)) for writer, readers in versions) for versions in histories]


def model_name(data: RecomputeData) -> str:
    """Return the name of models of these data, which says what their objective counts."""
    return f"time_in_ticks_of_{data.tick}_ns"


def levels(data: RecomputeData, runs: Sequence[int]) -> list[int]:
    """Return the units that are needed during each run of a sequence, with discards as early as can be.

    In one memory such discards are best: between two writes of a tensor, what the first one left must stay
    until the last read before the second one, and nothing is gained by keeping it longer.

    Raises
    ------
    ValueError
        If a run would not find a value that it reads, or comes before an op that must have run.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import levels, recompute_data
    >>> levels(recompute_data(lt.Recompute(lt.load("catalogue:chain"))), [0, 1, 2])
    [3, 8, 7]
    """
    return list(_levels_backwards(data, runs))[::-1]


def _levels_backwards(data: RecomputeData, runs: Sequence[int]) -> Iterator[int]:
    """Yield the units that are needed during each run, the last one first; see `levels`."""
    done = set[int]()
    for i in runs:
        if data.after[i] and not done.issuperset(data.after[i]):
            raise ValueError(f"op {i} runs before an op that must have run")
        done.add(i)
    values, nbytes = data.values, data.sizes
    needed = [x.final for x in values]
    level = sum(x.nbytes for x in values if x.final)
    for i in reversed(runs):
        during = level + data.workspace[i]
        for u in data.writes[i]:
            if needed[u]:
                needed[u] = False
                level -= nbytes[u]
            else:
                during += nbytes[u]
        for u in data.destroys[i]:
            if needed[u]:
                raise ValueError(f"op {i} destroys a value that is read later")
        for u in data.reads[i]:
            if not needed[u]:
                needed[u] = True
                level += nbytes[u]
        yield max(level, during) if data.in_place else level + data.fresh[i]
    if any(needed[u] and x.writer is not None for u, x in enumerate(values)):
        raise ValueError("a run reads a value that was not written before")


def reordered(data: RecomputeData, order: Sequence[int]) -> RecomputeData:
    """Return the data with op `order[k]` as op k; of the problem nothing changes.

    Parameters
    ----------
    order
        All ops, each after those of which it finds something and those in its `after`.
    """
    place = {i: k for k, i in enumerate(order)}
    values = tuple(
        replace(
            x,
            writer=None if x.writer is None else place[x.writer],
            readers=tuple(sorted(place[i] for i in x.readers)),
        )
        for x in data.values
    )
    return replace(
        data,
        duration=tuple(data.duration[i] for i in order),
        workspace=tuple(data.workspace[i] for i in order),
        values=values,
        reads=tuple(data.reads[i] for i in order),
        writes=tuple(data.writes[i] for i in order),
        after=tuple(tuple(sorted(place[a] for a in data.after[i])) for i in order),
    )


def fits(data: RecomputeData, runs: Sequence[int]) -> bool:
    """Return whether every op runs, finds what it reads, and all is within the memory."""
    try:
        return len(set(runs)) == data.n and all(x <= data.memory for x in _levels_backwards(data, runs))
    except ValueError:
        return False


def time_of(data: RecomputeData, runs: Sequence[int]) -> int:
    """Return the ticks of a sequence of runs."""
    return sum(data.duration[i] for i in runs)
