"""A placement whose processors share only channels, split into one placement per processor.

A *lane* is a processor with the ops that only it may run, the tensors that these access, the tier that it
uses, and the outer tiers: those that no processor uses. Data-parallel GPUs are lanes: what couples them is
the joint caps of channels, such as that of one link to the host, and *barriers*: op number k of a lane that
is ``after`` ops of other lanes with smaller numbers. The parts are without barriers: what a plan does in a
lane is a plan of the part, and plans of parts that are alike obey all barriers if op k starts everywhere at
once.

What a plan does in a lane is a plan of the part, if what it keeps in tiers of other processors may be in an
outer tier of unlimited capacity instead. Two things are in the way. A channel may join two processors' tiers
(`is_closed`). And tensors may start in another processor's tier that may not start in an outer one: they are
*scattered* (`is_scattered`).

At a barrier lanes may *exchange* tensors: what op k - 1 of one writes, op k of another reads, which is
``after`` op k - 1 of all, and nobody else accesses. Each lane sends and receives one of the same size there.
In its part, what it receives is what it sends. A plan of the part does no more than a plan in the lane: bytes
of the one are there until they are released, and bytes of the other from when they are allocated; what has
left and has not come yet is in the outer tier in between, if there is but one (`is_closed`). (On channels
between lanes the part has room for a piece more.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...models.graph import Graph, Op
from ...models.machine import Machine, Processor
from ...models.problems.placement import Placement

PIECES = 64
"""Of what is exchanged on channels between processors' tiers; one of them has room besides."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A processor's part.

    Attributes
    ----------
    problem
        Its ops, its tensors, its tier and the outer ones.
    ops, tensors
        What they are called in the whole graph, by their number in the part.
    received
        Of what the lane exchanges, in the order of the barriers: by the tensor that it sends that which it
        reads, as both are called in the whole graph.
    """

    problem: Placement
    ops: tuple[int, ...]
    tensors: tuple[int, ...]
    received: Mapping[int, int] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """Name of the tier that the processor uses."""
        return self.problem.machine.tiers[0].name

    @property
    def processor(self) -> str:
        """Name of the processor."""
        return self.problem.machine.processors[0].name


def whole_lane(problem: Placement) -> Lane:
    """Return the one lane of a machine with one processor."""
    graph = problem.graph
    return Lane(problem=problem, ops=tuple(range(len(graph.ops))), tensors=tuple(range(len(graph.tensors))))


def lanes(problem: Placement) -> tuple[Lane, ...]:
    """Return the lanes that have ops, in the order of their processors; none if the processors are no lanes.

    That is so if an op may run on several processors or on none, a processor uses several tiers or one that
    another uses too, a tensor crosses lanes that is not exchanged, or an op is ``after`` one of another lane
    that is not among the first so many there as ops stand before it in its own. Tensors that no op accesses
    are dealt out in turn.

    Examples
    --------
    >>> from lowtide.instances import load_problem
    >>> spec = "gen:chain?n=3&replicas=2&machine=v100x4-16g-shared-pcie3&start=device"
    >>> problem = load_problem("placement", spec)
    >>> [(lane.processor, lane.ops) for lane in lanes(problem)]
    [('gpu0', (0, 2, 4)), ('gpu1', (1, 3, 5))]
    """
    graph, machine = problem.graph, problem.machine
    if len(machine.processors) == 1:
        return (whole_lane(problem),)
    used = [access.tier for p in machine.processors for access in p.tiers]
    if len(used) != len(machine.processors) or len(set(used)) != len(used):
        return ()
    ops: list[list[int]] = [[] for _ in machine.processors]
    lane_of, place = list[int](), list[int]()
    for k, op in enumerate(graph.ops):
        able = [g for g, p in enumerate(machine.processors) if _runs(op, p)]
        if len(able) != 1:
            return ()
        if any(lane_of[j] != able[0] and place[j] >= len(ops[able[0]]) for j in op.after):
            return ()
        lane_of.append(able[0])
        place.append(len(ops[able[0]]))
        ops[able[0]].append(k)
    tensors: list[list[int]] = [[] for _ in machine.processors]
    owner: dict[int, int] = {}
    crossing: dict[int, int] = {}
    for k, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes}):
            if owner.setdefault(t, lane_of[k]) != lane_of[k]:
                crossing[t] = k
    busy = [g for g, some in enumerate(ops) if some]
    received = _received(problem, crossing, [ops[g] for g in busy], lane_of)
    if received is None:
        return ()
    turn = 0
    for t in range(len(graph.tensors)):
        if t not in owner:
            owner[t], turn = busy[turn % len(busy)], turn + 1
        tensors[owner[t]].append(t)
    return tuple(
        _lane(problem, machine.processors[g], ops[g], tensors[g], used, got)
        for g, got in zip(busy, received, strict=True)
    )


def _only_passes(graph: Graph, t: int, users: Sequence[int], reader: int) -> bool:
    """Return whether a tensor is made by one op and read by another one, and that is all."""
    return (
        len(users) == 2
        and users[1] == reader
        and t in graph.ops[users[0]].writes
        and t not in {*graph.ops[users[0]].reads, *graph.ops[reader].writes}
        and not (graph.tensors[t].initial or graph.tensors[t].final)
    )


def _received(
    problem: Placement, crossing: Mapping[int, int], ops: Sequence[Sequence[int]], lane_of: Sequence[int]
) -> list[dict[int, int]] | None:
    """Return by lane what it receives, by what it sends, of tensors and the ops that read them elsewhere."""
    graph = problem.graph
    place = {k: i for some in ops for i, k in enumerate(some)}
    number = {lane_of[some[0]]: g for g, some in enumerate(ops)}
    sent: list[dict[int, int]] = [{} for _ in ops]
    got: list[dict[int, int]] = [{} for _ in ops]
    for t, reader in sorted(crossing.items(), key=lambda pair: (place[pair[1]], pair)):
        users = [k for k, op in enumerate(graph.ops) if t in op.reads or t in op.writes]
        barrier = place[reader] - 1
        all_before = {some[barrier] for some in ops if 0 <= barrier < len(some)}
        if (
            not _only_passes(graph, t, users, reader)
            or place[users[0]] != barrier
            or not all_before <= {*graph.ops[reader].after}
            or place[reader] in sent[number[lane_of[users[0]]]]
            or place[reader] in got[number[lane_of[reader]]]
        ):
            return None
        sent[number[lane_of[users[0]]]][place[reader]] = t
        got[number[lane_of[reader]]][place[reader]] = t
    sizes = [{at: graph.tensors[t].nbytes for at, t in some.items()} for some in (*sent, *got)]
    if any(some != sizes[0] for some in sizes):
        return None
    return [{out[at]: into[at] for at in sorted(out)} for out, into in zip(sent, got, strict=True)]


def is_scattered(problem: Placement, parts: Sequence[Lane]) -> bool:
    """Return whether a tensor may start in a tier of another processor, and in no outer tier instead."""
    homes = {access.tier for p in problem.machine.processors for access in p.tiers}
    return len(problem.machine.processors) > 1 and any(
        tensor.initial and (some := {*problem.may_start(tensor.kind)}) <= homes and some != {lane.device}
        for lane in parts
        for tensor in lane.problem.graph.tensors
    )


def is_closed(problem: Placement, parts: Sequence[Lane]) -> bool:
    """Return whether no channel joins two processors' tiers, and what is scattered starts in lanes' own.

    And what is exchanged has one tier to go through.
    """
    if parts[0].received and len(parts[0].problem.machine.tiers) > 2:
        return False
    homes = {access.tier for p in problem.machine.processors for access in p.tiers}
    if len(problem.machine.processors) > 1 and any({c.src, c.dst} <= homes for c in problem.machine.channels):
        return False
    return len(parts) == len(problem.machine.processors) or not is_scattered(problem, parts)


def _runs(op: Op, processor: Processor) -> bool:
    return any(not mode.processors or processor.kind in mode.processors for mode in op.all_modes)


def _lane(
    problem: Placement,
    processor: Processor,
    ops: list[int],
    tensors: list[int],
    used: list[str],
    received: Mapping[int, int],
) -> Lane:
    graph, device = problem.graph, processor.tiers[0].tier
    number = {t: i for i, t in enumerate(tensors)}
    number |= {got: number[sent] for sent, got in received.items()}
    place = {k: i for i, k in enumerate(ops)}

    def part(op: Op) -> Op:
        modes = [m for m in op.all_modes if not m.processors or processor.kind in m.processors]
        only = modes[0] if len(modes) == 1 and not modes[0].operands else None
        return replace(
            op,
            reads=tuple(number[t] for t in op.reads),
            writes=tuple(number[t] for t in op.writes),
            after=tuple(place[j] for j in op.after if j in place),
            inplace=tuple((number[r], number[w]) for r, w in op.inplace),
            duration_ns=only.duration_ns if only else op.duration_ns,
            workspace=only.workspace if only else op.workspace,
            modes=()
            if only
            else tuple(
                replace(m, processors=(), operands=tuple((number[t], tier) for t, tier in m.operands))
                for m in modes
            ),
        )

    machine = _part_of_machine(problem.machine, processor, [device, *_outer(problem.machine, used)])
    tiers = {tier.name for tier in machine.tiers}
    start = {kind: tuple(x for x in some if x in tiers) for kind, some in problem.starts.items()}
    larger = {}
    if any({c.src, c.dst} <= {*used} for c in problem.machine.channels):
        for t in received:
            nbytes = graph.tensors[t].nbytes
            piece = nbytes if problem.whole else -(-nbytes // PIECES)
            larger[t] = replace(graph.tensors[t], nbytes=nbytes + piece)
    part_of_graph = replace(
        graph,
        name=f"{graph.name} on {processor.name}",
        tensors=tuple(larger.get(t, graph.tensors[t]) for t in tensors),
        ops=tuple(part(graph.ops[k]) for k in ops),
        source=None,
    )
    return Lane(
        problem=replace(problem, graph=part_of_graph, machine=machine, start=start, source=None),
        ops=tuple(ops),
        tensors=tuple(tensors),
        received=received,
    )


def _outer(machine: Machine, used: list[str]) -> list[str]:
    return [tier.name for tier in machine.tiers if tier.name not in used]


def _part_of_machine(machine: Machine, processor: Processor, tiers: list[str]) -> Machine:
    """Return the machine with one processor and some tiers; what else shares a group is left out."""
    channels = tuple(c for c in machine.channels if c.src in tiers and c.dst in tiers)
    pairs = {(c.src, c.dst) for c in channels}
    groups = (replace(x, channels=tuple(p for p in x.channels if p in pairs)) for x in machine.groups)
    by_name = {tier.name: tier for tier in machine.tiers}
    return Machine(
        name=f"{machine.name}, {processor.name}",
        tiers=tuple(by_name[name] for name in tiers),
        processors=(replace(processor, kind="any"),),
        channels=channels,
        groups=tuple(x for x in groups if x.channels),
    )
