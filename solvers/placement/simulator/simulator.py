"""The simulator of decisions: who leaves the device when, and to where, becomes an exact plan.

*Decisions* say for every absence of a simulated problem whether the tensor is away in it, in which
tier, from which *anchor* it is written there and from which on it is asked back. Anchors follow the ops: 2 k
is the instant when op k - 1 has ended and op k is next, 2 k + 1 the start of op k; numbers from 2 n on belong
to the next iteration. The rest is determined:

1. *Ops* run in the reference order, each as soon as its tensors are on the device, what it creates fits, and
   no copy of what it writes is under way. Under ``replace`` its access to what it only reads is over when it
   starts: that dies or leaves before what the op creates is allocated, and if this takes more room, what has
   a copy elsewhere is released, of the furthest next use first.
2. *Channels* carry one copy at a time, first in, first out, in the order of anchors, then of `rank`. A copy
   out starts when its tier has room (perhaps after copies of tensors that are on the device as well are
   forgotten), a return when the tensor has left and the device has room; what is needed behind the next
   op leaves that op's room untouched. Until then it waits, and everything behind it. Copies of chunks (whole
   tensors by default) take the rate that is free at their start, at least half of the channel's own; the
   slow tier goes first.
3. A tensor is *released* chunk by chunk as its copies are complete, not before its absence begins. Copies
   stay valid until the tensor is written or dies; what has one leaves at once. If its next op is due before
   it has left, it stays. What is missing when its op is due and was not asked back is fetched out of turn.
4. *Demand policies*: with a rule for victims and `eager`, room that the next op or a return lacks is made by
   evicting the tensors that the rule names, those excepted that the next op or the `spared` ones behind it
   use.
5. *Emergencies*: with a rule for victims, a deadlock (nothing is under way, nothing may start) is resolved by
   a fetch out of turn, evictions, a move on to the slow tier, or under ``replace`` a copy out of what the op
   only reads, and each is counted. Without a rule the op is the witness that the decisions do not fit.
6. A *period* is the last of several iterations, when the state at its end (chunks in every tier, copies
   under way) is that at its beginning. The next iteration begins when the inputs fit that start on the
   device, no copy of a tensor that ends with the iteration is under way, and what outlives it is where it
   may start: it comes back before the end, and if it is to be away until the next iteration, leaves again.

Times are integer ns, copies rounded up. One run of 200 ops takes well below a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....models.arrays import Integers
from ....models.lowering.builder import PlanBuilder
from ....models.plan import ByteRange, Plan
from ..world.channels import (
    DONE,
    ENDLESS,
    FULL_LOG,
    LOG_RUN,
    PRESENT,
    STUCK,
    VALID,
)
from ..world.emission import plan_of_log
from . import simulator_kernel, tables
from .problem import NEVER, SimulatedProblem
from .tables import D, Knobs, S, X

ITERATIONS = 12
"""After which a state that does not repeat is given up."""
MOST_ACTIONS = 2000
"""Per op and chunk; a policy that evicts and fetches more often goes round in circles."""
ON_DEMAND = -1
"""The anchor of a return that nobody asks for before the op is due."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """What a policy decides.

    Parameters
    ----------
    tier
        Per absence, the number of the tier where its tensor is, 0 if it stays.
    out
        Per absence, the anchor from which on it is written; also before the absence, then it is released in
        it.
    back
        Per absence, the anchor from which on it is asked back if it is away, for whatever reason.
    rank
        Per absence, order of those with the same anchor.
    barrier
        Per op, 1 if it waits for all copies asked for so far.
    victim
        Rule for victims: `tables.NO_VICTIM`, `tables.FURTHEST` next use, `tables.LEAST_RECENT` use.
    eager
        Evict as soon as room lacks; else in emergencies only.
    spared
        How many ops behind the next one keep their tensors.
    modes
        Per op, the number of its mode; None: those of the problem.
    """

    tier: Integers
    out: Integers
    back: Integers
    rank: Integers
    barrier: Integers
    victim: int = tables.NO_VICTIM
    eager: bool = False
    spared: int = 0
    modes: Integers | None = None

    def with_emergencies(self) -> Decisions:
        """Return the same decisions with emergency evictions of what is used furthest ahead."""
        return self if self.victim else replace(self, victim=tables.FURTHEST)


def stay(case: SimulatedProblem) -> Decisions:
    """Return the decisions by which nothing leaves, and what is away at the beginning comes on demand."""
    absences = len(case.absence_tensor)
    zeros = np.zeros(absences, dtype=np.int64)
    return Decisions(
        tier=zeros,
        out=case.opening.copy(),
        back=np.full(absences, ON_DEMAND, dtype=np.int64),
        rank=np.arange(absences, dtype=np.int64),
        barrier=np.zeros(case.ops, dtype=np.int64),
    )


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """What decisions lead to.

    Attributes
    ----------
    time
        The makespan or the period in ns; None if there is no plan.
    stuck
        The op before which nothing goes on; None if there is a plan, or the state does not repeat.
    emergencies, evictions
        How often a deadlock was resolved; victims that a rule named. Of the iteration that is the period.
    """

    case: SimulatedProblem
    time: int | None
    stuck: int | None
    emergencies: int
    evictions: int
    state: Integers
    log: Integers

    @property
    def fault(self) -> str:
        """Why there is no plan; empty if there is one."""
        if self.time is not None:
            return ""
        if self.stuck is None:
            return f"the state does not repeat within {ITERATIONS} iterations, or goes round in circles"
        name = self.case.graph.ops[self.stuck].name
        return f"the decisions do not fit: nothing goes on before op {self.stuck} {name!r}"

    def plan(self) -> Plan:
        """Return the plan, of the problem that was asked."""
        return self.case.restored(_plan(self))


def simulate(case: SimulatedProblem, decisions: Decisions) -> SimulatedRun:
    """Carry out decisions.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.solvers.placement.simulator.simulator import simulate, stay
    >>> from lowtide.solvers.placement.simulator.problem import simulated_problem
    >>> problem = lt.Placement(lt.load("gen:chain?n=5&seed=1"), lt.load_machine("a100-40g-pcie3"))
    >>> run = simulate(simulated_problem(problem), stay(simulated_problem(problem)))
    >>> run.time == sum(op.duration_ns for op in problem.graph.ops)
    True
    """
    if decisions.modes is not None:
        case = case.in_modes(decisions.modes)
    n, tensors, chunks, _, caps = case.sizes
    knobs = Knobs(
        ops=n,
        tensors=tensors,
        chunks=chunks,
        caps=caps,
        periodic=int(case.problem.periodic),
        iterations=ITERATIONS,
        victim=decisions.victim,
        eager=int(decisions.eager),
        spared=decisions.spared,
    )
    events = _events(case, decisions)
    start = _starts(case, decisions)
    rows = 8 * chunks + 16 * tensors + 4 * n + 256
    while True:
        state = np.zeros((tables.STATE_ROWS, case.table.shape[1]), dtype=np.int64)
        state[S.start, :tensors] = start
        state[S.leaving, :tensors] = state[S.urgent, :tensors] = -1
        state[S.flight, :4] = -1
        state[S.before :] = -1
        log = np.zeros((rows, 5), dtype=np.int64)
        how, value = simulator_kernel.simulate(case.table, knobs, decisions.barrier, events, state, log)
        if how != FULL_LOG:
            break
        if rows > MOST_ACTIONS * (n + chunks):
            how = ENDLESS
            break
        rows *= 4
    scalars = state[S.scalars]
    return SimulatedRun(
        case=case,
        time=int(value) if how == DONE else None,
        stuck=int(value) if how == STUCK else None,
        emergencies=int(scalars[X.emergencies]),
        evictions=int(scalars[X.evictions]),
        state=state,
        log=log[: scalars[X.logged]],
    )


def _events(case: SimulatedProblem, decisions: Decisions) -> Integers:
    """Return the events of an iteration in their order: columns of (anchor, kind, absence, turn, tier)."""
    n = case.ops
    away = np.flatnonzero(decisions.tier > 0)
    asked = np.flatnonzero((decisions.back >= 0) & (case.absence_next < NEVER))
    out = decisions.out[away]
    leave = np.maximum(out, case.opening[away])
    home = case.table[D.home, case.absence_tensor[away]]
    around = (case.absence_next[away] >= n) & (case.absence_next[away] < NEVER)
    broken = away[around & (home > 0) & (home >> decisions.tier[away] & 1 == 0)]
    again = broken[(decisions.back[broken] < 0) | (decisions.back[broken] > 2 * n)]
    end, begin = np.full_like(broken, 2 * n - 1), np.full_like(again, 2 * n)
    anchor = np.concatenate((out, leave, begin, decisions.back[asked], end))
    rows = (len(away), len(away) + len(again), len(asked) + len(broken))
    kind = np.repeat(np.array((tables.WRITE_OUT, tables.LEAVE, tables.RETURN), dtype=np.int64), rows)
    absence = np.concatenate((away, away, again, asked, broken))
    tier = np.where(kind == tables.RETURN, 0, decisions.tier[absence])
    turn = (anchor >= 2 * n).astype(np.int64)
    place = anchor - 2 * n * turn
    order = np.lexsort((kind, decisions.rank[absence], place))
    return np.ascontiguousarray(np.stack((place, kind, absence, turn, tier))[:, order])


def _starts(case: SimulatedProblem, decisions: Decisions) -> Integers:
    """Return in which tier every initial tensor starts.

    In the order of first use: where the decisions have it, else on the device, else in the nearest tier,
    wherever it may be and there is room.
    """
    tensors = case.sizes[1]
    start = np.zeros(tensors, dtype=np.int64)
    n = case.ops
    wanted = {}
    for g in np.flatnonzero(decisions.tier > 0).tolist():
        first, after = int(case.absence_first[g]), int(case.absence_next[g])
        round_trip = n <= after < NEVER and (decisions.back[g] < 0 or decisions.back[g] >= 2 * n)
        if first < 0 or round_trip:
            wanted[int(case.absence_tensor[g])] = int(decisions.tier[g])
    first = int(case.births[0] + case.workspace[0])
    room = [case.capacity(x) for x in range(3)]
    room[0] -= first
    initial = np.flatnonzero(case.starts)
    for i in sorted(initial.tolist(), key=lambda i: (case.accesses[i][0][0], i)):
        bits, size = int(case.starts[i]), int(case.size[i])
        order = [wanted[i]] if i in wanted else []
        choices = [x for x in (*order, 0, 1, 2) if bits >> x & 1]
        start[i] = next((x for x in choices if size <= room[x]), choices[0])
        room[start[i]] -= size
    return start


def _plan(simulation: SimulatedRun) -> Plan:
    case = simulation.case
    names = [t.name for t in case.machine.tiers]
    period = simulation.time if case.problem.periodic else None
    out = PlanBuilder(case.graph, case.machine)
    owner, nbytes = case.table[[D.owner, D.chunk_bytes], : case.sizes[2]]
    low = np.cumsum(nbytes) - nbytes
    low -= low[case.table[D.first_chunk, owner]]
    index, modes = case.tensor[owner].tolist(), case.modes.tolist()
    parts = [out.part(*chunk) for chunk in zip(index, low.tolist(), (low + nbytes).tolist(), strict=True)]
    _start(out, simulation, parts, names)
    actions = (
        (kind, what, modes[what], None, start, end)
        if kind == LOG_RUN
        else (kind, index[what], where, parts[what], start, end)
        for kind, what, where, start, end in simulation.log.tolist()
    )
    return plan_of_log(out, actions, names, period)


def _start(
    out: PlanBuilder, simulation: SimulatedRun, parts: Sequence[ByteRange | None], names: Sequence[str]
) -> None:
    """Put what is there at time 0 where it is: in a period, persistent chunks that are at rest at its end."""
    case, state = simulation.case, simulation.state
    periodic = case.problem.periodic
    first = case.table[D.first_chunk]
    for i in np.flatnonzero(case.starts).tolist():
        t = int(case.tensor[i])
        if not (periodic and case.persistent[i]):
            out.start(t, names[state[S.start, i]])
            continue
        for c in range(int(first[i]), int(first[i + 1])):
            if state[S.on_device, c] == PRESENT:
                out.start(t, names[0], parts[c])
            for tier in (1, 2):
                if state[S.on_device + tier, c] == VALID:
                    out.start(t, names[tier], parts[c])
    for t, tier in case.idle:
        out.start(t, names[tier])
