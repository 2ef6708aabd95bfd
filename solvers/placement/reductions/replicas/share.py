r"""Replicas: processors that do the same, each in a memory of its own, and what one of them has of the rest.

G lanes (`lowtide.formulations.placement.lanes`) are *replicas* if their graphs, memories, channels and start
rules are the same but for names, and every joint cap counts the same channels of each lane, or channels of
one lane only. Two problems of one GPU stand for them:

``shared``
    What all have in common, divided by G and rounded down: joint caps over all lanes, channels between
    outer tiers, capacities of outer tiers. A plan of it in every lane at the same times (`spread`) is a plan
    of all: the sums over G lanes are at most G times a G-th.
``alone``
    The same with caps and channels undivided. Plans of it, one a lane, take turns at the link (`runtime`).

**Bounds of** ``alone`` **bound every plan of all**, if no outer tier has a capacity (of which the other lanes
could leave it more than a G-th), and nothing is in the way (`lowtide.formulations.placement.lanes`): what a
plan does in one lane is a plan of ``alone``. Where tensors are scattered, those that average (below), on
single runs, still do. *Proof.* As many bytes start away from their own GPU as foreign bytes start on GPUs, so
on some GPU there are no fewer foreign ones, F, than its own ones that start elsewhere, E. In a plan of
``alone`` these E start there in the place of as many of the F. Where the foreign bytes are copied out, their
substitutes are, unless they have been copied back to this GPU before; then they just stay. From then on they
are where they are in the plan. No more is on the GPU or on its channels than in the plan. QED (Substitutes
are not whole tensors: bounds that know of these do not hold.)

**Bounds that average.** A *mixture* of plans has whole ns for the starts of ops, at which each op starts in
all of them, and otherwise weighted means: of the bytes of a tensor that are in each set of tiers at an
instant, and of those that pass a channel between two instants. A bound *averages* if it bounds every mixture
whose sums are at most the capacities, and the rates times the lengths. These do; whoever raises one says so
(`lowtide.solvers.context.Context.raise_bound`):

* The sum of the durations, for ops run one after the other in each plan.
* Release times. By the start of op k all B late bytes have left U in each plan, within
  :math:`s_k - \lambda`; so have B in the mean, and they are at most R times that.
* Windows, with near tiers as one too, alone, in sums, and behind releases. In each plan each byte that counts
  is in the fast memory, in another tier than X or in X alone, and the last ones pass X's channels in the
  window. The means of the first two are at most the capacities, so at least V in the mean pass. A stall lies
  between starts, which are whole, and may be rounded up.
* Prices. What a byte pays for its states and passages is at least :math:`\pi_t` in each plan, so in the mean;
  what all pay at most is a sum over capacities and rates. An op in different modes pays the mean of terms of
  which the least counts.
* Single ops and the slot model: every row is linear in what is absent, held and copied, and in lengths.

Not those of whole tensors (a mixture cuts them), nor of branches (it may be in none), nor the search in
CP-SAT. Those of joint links speak of all lanes themselves.

**Bounds of** ``shared`` **that average bound every plan in step**, in which op k starts in all lanes at the
same time, if nothing was rounded or is in the way. *Proof.* Take the mixture of what the plan does in its
lanes, with equal weights; a scattered byte is present while it is on any GPU. Memories and channels of a lane
are the same in all, so the mean obeys them; what is in common obeys its limit in the sum over the lanes, and
so a G-th of it in the mean. QED. As a plan of ``shared`` is one of all lanes in step, the
optimum in bytes of all in step *is* that of one GPU on its share. It says nothing of plans out of step, which
may have the link in turn and be faster; nor of whole tensors, which an average cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .....formulations.placement.lanes import Lane, is_closed, is_scattered, lanes
from .....models.graph import Graph
from .....models.machine import Machine
from .....models.plan import Plan
from .....models.problems.placement import Placement
from .exchange import last_delay, route, step_delay, with_windows


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """What `replicas` found.

    Attributes
    ----------
    problem, lanes
        All of it, and its parts.
    shared, alone
        Of one GPU, in the words of the first lane.
    even
        Whether nothing in `shared` was rounded.
    closed, scattered
        What may be in the way of bounds (`is_closed`, `is_scattered`).
    """

    problem: Placement
    lanes: tuple[Lane, ...]
    shared: Placement
    alone: Placement
    even: bool
    closed: bool
    scattered: bool

    @property
    def roomy(self) -> bool:
        """Whether no outer tier has a capacity."""
        return all(tier.capacity is None for tier in self.alone.machine.tiers[1:])

    @property
    def joint_rates(self) -> tuple[int | None, int | None]:
        """Of what counts every lane's way out, and in, the least rate of a group; None if none does."""
        machine, homes = self.problem.machine, {lane.device for lane in self.lanes}

        def least(ways: set[tuple[str, str]]) -> int | None:
            return min((g.bytes_per_s for g in machine.groups if ways <= {*g.channels}), default=None)

        pairs = {(c.src, c.dst) for c in machine.channels}
        return least({x for x in pairs if x[0] in homes}), least({x for x in pairs if x[1] in homes})

    @property
    def step_delay(self) -> int:
        """Ns that what is exchanged adds to bounds of `shared` that average, for plans in step."""
        return step_delay(self.shared, self.lanes, even=self.even)

    @property
    def last_delay(self) -> int:
        """Ns by which single runs are longer than bounds of `alone`, for the last exchange."""
        return last_delay(self.problem, self.lanes, *self.joint_rates, scattered=self.scattered)

    def spread(self, plans: Sequence[Plan]) -> Plan:
        """Return the plan in which each lane does what its plan says, at the same times.

        What is exchanged passes in windows (`exchange`).
        """
        home = self.lanes[0].device
        parts = []
        for lane, plan in zip(self.lanes, plans, strict=True):
            tier = {home: lane.device}
            parts.append(
                (
                    [
                        replace(x, tensor=lane.tensors[x.tensor], tier=tier.get(x.tier, x.tier))
                        for x in plan.start
                    ],
                    [replace(x, op=lane.ops[x.op], processor=lane.processor) for x in plan.runs],
                    [
                        replace(
                            x,
                            tensor=lane.tensors[x.tensor],
                            src=tier.get(x.src, x.src),
                            dst=tier.get(x.dst, x.dst),
                        )
                        for x in plan.copies
                    ],
                    [
                        replace(x, tensor=lane.tensors[x.tensor], tier=tier.get(x.tier, x.tier))
                        for x in plan.frees
                    ],
                )
            )
        graph = self.problem.graph
        together = Plan(
            machine=self.problem.machine,
            accounting=graph.accounting,
            start=tuple(x for part in parts for x in part[0]),
            runs=tuple(x for part in parts for x in part[1]),
            copies=tuple(x for part in parts for x in part[2]),
            frees=tuple(x for part in parts for x in part[3]),
            period=plans[0].period,
            graph_name=graph.name,
            graph_source=graph.source,
            graph_sha256=graph.sha256,
        )
        return with_windows(self.problem, self.lanes, together)


def replicas(problem: Placement) -> Replicas | None:
    """Return what stands for replicas, made once; None if the problem is not of this kind.

    Examples
    --------
    >>> from lowtide.instances import load_problem
    >>> spec = "gen:chain?n=3&replicas=2&machine=v100x4-16g-shared-pcie3&start=device"
    >>> split = replicas(load_problem("placement", spec))
    >>> [group.bytes_per_s for group in split.shared.machine.groups]
    [6000000000, 6000000000]
    """
    known = problem.__dict__
    if "_replicas" not in known:
        known["_replicas"] = _replicas(problem) if len(problem.machine.processors) > 1 else None
    split: Replicas | None = known["_replicas"]
    return split


def _replicas(problem: Placement) -> Replicas | None:
    if not (parts := lanes(problem)):
        return None
    first, many = parts[0], len(parts)
    if any(_words(lane, first) != _words(first, first) for lane in parts[1:]):
        return None
    counted = _counted(problem.machine, parts)
    if counted is None or (first.received and route(problem.machine, parts) is None):
        return None
    machine, even = first.problem.machine, True

    def part_of(value: int) -> int:
        nonlocal even
        even &= value % many == 0
        return value // many

    tiers = tuple(
        tier if k == 0 or tier.capacity is None else replace(tier, capacity=part_of(tier.capacity))
        for k, tier in enumerate(machine.tiers)
    )
    channels = tuple(
        c if first.device in (c.src, c.dst) else replace(c, bytes_per_s=part_of(c.bytes_per_s))
        for c in machine.channels
    )
    groups = tuple(
        replace(g, bytes_per_s=part_of(g.bytes_per_s)) if counted[g.name] else g for g in machine.groups
    )
    if not all(c.bytes_per_s for c in channels) or not all(g.bytes_per_s for g in groups):
        return None
    alone = replace(first.problem, machine=replace(machine, tiers=tiers))
    shared = replace(first.problem, machine=replace(machine, tiers=tiers, channels=channels, groups=groups))
    return Replicas(
        problem=problem,
        lanes=parts,
        shared=shared,
        alone=alone,
        even=even,
        closed=is_closed(problem, parts),
        scattered=is_scattered(problem, parts),
    )


def _words(lane: Lane, first: Lane) -> tuple[object, ...]:
    """Return what a lane is, its own names replaced by those of the first one."""
    problem, graph, machine = lane.problem, lane.problem.graph, lane.problem.machine

    def name_of(name: str) -> str:
        return first.device if name == lane.device else name

    tiers = tuple((name_of(t.name), t.capacity) for t in machine.tiers)
    reach = tuple(replace(a, tier=name_of(a.tier)) for a in machine.processors[0].tiers)
    channels = tuple(replace(c, src=name_of(c.src), dst=name_of(c.dst)) for c in machine.channels)
    groups = sorted(
        (tuple((name_of(a), name_of(b)) for a, b in g.channels), g.bytes_per_s) for g in machine.groups
    )
    start = sorted((kind, tuple(map(name_of, some))) for kind, some in problem.starts.items())
    return tiers, reach, channels, groups, start, *_unnamed(graph)


def _unnamed(graph: Graph) -> tuple[object, ...]:
    tensors = tuple(replace(t, name="t") for t in graph.tensors)
    return graph.accounting, tensors, tuple(replace(op, name="op") for op in graph.ops)


def _counted(machine: Machine, parts: Sequence[Lane]) -> Mapping[str, bool] | None:
    """Return for each group whether all lanes share it, not one alone; None if it is otherwise."""
    lane_of = {lane.device: g for g, lane in enumerate(parts)}
    counted = {}
    for group in machine.groups:
        touched = {lane_of[x] for pair in group.channels for x in pair if x in lane_of}
        own = sum(1 for pair in group.channels if lane_of.keys() & {*pair})
        if len(touched) not in (0, 1, len(parts)) or (
            len(touched) == 1 < len(parts) and own < len(group.channels)
        ):
            return None
        counted[group.name] = len(touched) != 1 or len(parts) == 1
    return counted
