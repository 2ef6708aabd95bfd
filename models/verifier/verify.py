"""The one verifier: judges any plan from raw fields, in integers, and finds every violation.

It derives versions, validity, occupancy and rates itself, from ``nbytes``, ``reads``, ``writes``,
``after``, flags, modes, the machine and the plan's actions; it shares nothing with whatever made the plan.
The rules, by the kind of their violations:

=================  =========================================================================
graph              the plan is for this graph (its hash, if stated) and its accounting
shape              actions are well formed; others are left out of the simulation
start              only initial tensors start anywhere, where their kind may, listed once; nor does a copy
                   cross a period's end to elsewhere; the plan does not say that more may than the question
missing-run        every op runs
repeated-run       once, unless ops may run again
duration           a run takes its mode's time, plus the rounded-up time of slow accesses; under contention
                   at least its mode's time
processor-kind     the processor is of a kind, and reaches the tiers, that the mode names
processor-overlap  one run at a time on each processor
sync               an op waits for those before it in other streams, and for what that takes
contention         the device can do what runs beside each other in that time
stage              stages take their time, one after another, and their groups are independent
precedence         read-after-write, write-after-read, write-after-write, ``after``
read               operands are valid, in the version of the reference order, in one tier
write-conflict     nobody else writes or releases the bytes that a run is writing
copy-source        the bytes copied are valid in one version, and stay so
copy-target        nobody else writes or releases the bytes that a copy fills
channel            a channel exists, and the copy outlasts its latency
channel-rate       concurrent copies share the channel's bytes per second
group-rate         and those of each of its groups
free               only allocated bytes are released
capacity           no tier holds more than its capacity, nor begins with more
final              every byte of a final tensor ends in some tier, in the last version
period             the state at the period's end is that of its beginning
=================  =========================================================================

An allocation in the plan is judged too (`lowtide.models.verifier.allocation`); its kinds begin with
``allocation-``.

At one instant: runs and copies end, copies that take no time happen, bytes are released, runs and copies
start. What is there at time 0 has to fit before any of that, also what is released at once, and counts for
the peaks; profiles begin after it. With accounting ``coexist`` a read counts for the whole run, with
``replace`` at its start, before that instant's releases; a tensor that the run also writes counts at its
start only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..checks import check_type, shown
from ..graph import Accounting, Graph
from ..machine import Machine
from ..plan import Plan
from .actions import LATEST, Actions, CopyItem, RunItem, well_formed, well_formed_runs
from .allocation import verify_allocation
from .buffers_of_plan import buffers_of_plan
from .case import Case
from .channels import judge_rates
from .contention import judge_contention
from .order import judge_order
from .period import contents, judge_crossings, judge_final, judge_period
from .simulation import Simulation
from .starts import Starts, start_rule
from .verdict import Verification, Violation, sorted_violations

__all__ = ["Verification", "Violation", "verify"]

FEWEST = 200
"""Runs from which on plans are looked at in arrays first; below, making the arrays takes longer."""

PASSES = 4
"""Passes over a plan whose copies across the period's end turn out to carry old versions."""


def verify(
    graph: Graph,
    plan: Plan,
    *,
    rerun: bool | None = None,
    start_tiers: Mapping[str, tuple[str, ...]] | None = None,
    final_tiers: tuple[str, ...] | None = None,
) -> Verification:
    """Return all violations of a plan, and its exact profiles and objectives.

    Parameters
    ----------
    graph
        What the plan is to execute.
    plan
        Anything that is a `Plan`; no content makes this function raise (`InstanceError` for other objects).
    rerun
        Whether ops may run again; then versions decide, instead of the precedence. None: they may if
        some op runs more than once.
    start_tiers
        The question's rule: by kind of tensor, the tiers where it may be at time 0; kinds not named may be
        anywhere. None: what the plan says of its question; if it says nothing, inputs in the outermost tier.
    final_tiers
        Names of the tiers in which final tensors must end; None for any.

    Returns
    -------
    Verification
        The verdict; `Verification.raise_if_invalid` turns violations into an error.
    """
    check_type(graph, Graph, "verify, graph")
    check_type(plan, Plan, "verify, plan")
    machine: object = plan.machine
    period: object = plan.period
    sound = type(period) is int and 1 <= period <= LATEST
    if not isinstance(machine, Machine):
        case = Case(graph, Machine.single(), None)
        case.report("shape", f"plan, machine: found a {type(machine).__name__}, expected a Machine")
        return _verdict(case, None, Actions())
    case = Case(graph, machine, plan.period if sound else None)
    if plan.period is not None and not sound:
        case.report("shape", f"plan, period: found {shown(period)}, expected an integer in [1, {LATEST}]")
    _judge_graph(case, plan)
    starts = start_rule(case, plan, start_tiers)
    contention = machine.contention
    if len(plan.runs) >= FEWEST and not case.violations and final_tiers is None:
        from .plain import judge_plain  # numpy, which `import lowtide` does without

        verdict = judge_plain(graph, plan, starts)
        if verdict is not None:
            if contention is not None and contention.staged:
                judge_contention(case, plan, well_formed(case, plan, starts))
            elif contention is not None:
                judge_contention(case, plan, Actions(runs=well_formed_runs(case, plan)))
            return replace(verdict, violations=sorted_violations(case.violations))
    actions = well_formed(case, plan, starts)
    if rerun is None:
        rerun = len({run.op for run in actions.runs}) < len(actions.runs)
    judge_order(case, actions.runs, rerun)
    judge_rates(case, actions.copies)
    judge_contention(case, plan, actions)
    simulation = _simulate(case, actions, starts, final_tiers)
    heights = _judge_allocation(case, plan, actions)
    return replace(_verdict(case, simulation, actions), heights=heights)


def _judge_graph(case: Case, plan: Plan) -> None:
    """Rule ``graph``; a plan for another graph is judged by this one all the same."""
    graph = case.graph
    if plan.graph_sha256 is not None and plan.graph_sha256 != graph.sha256:
        case.report("graph", f"plan is not for graph {graph.name!r}: its sha256 is another")
    if plan.accounting != graph.accounting:
        case.report(
            "graph",
            f"plan, accounting: found {plan.accounting!s}, expected the graph's, {graph.accounting!s}",
        )


def _simulate(
    case: Case, actions: Actions, starts: Starts, final_tiers: tuple[str, ...] | None
) -> Simulation:
    """Carry out the plan; a period again, if a copy across its end did not bring what was assumed.

    The steady state is the one with the fewest such copies: at first all are assumed to bring the last
    version round, then those that failed to do so are taken to bring stale bytes.
    """
    coexist = case.graph.accounting is Accounting.COEXIST
    makespan = _makespan(case, actions)
    judge_crossings(case, actions.copies, starts)
    mark = len(case.violations)
    outdated: set[int] = set()
    for _ in range(PASSES):
        del case.violations[mark:]
        simulation = Simulation(case, actions, coexist, outdated)
        memory = simulation.memory
        before = None if case.period is None else contents(case, memory, last=False)
        simulation.advance(makespan)
        judge_final(case, memory, makespan, final_tiers)
        if before is not None:
            judge_period(case, before, memory, makespan)
        simulation.advance(None)
        failed = simulation.failed()
        if failed <= outdated:
            break
        outdated |= failed
    return simulation


def _judge_allocation(case: Case, plan: Plan, actions: Actions) -> dict[str, int]:
    """Judge the plan's allocation, unless its buffers are ill-defined; return the height of each tier."""
    if plan.allocation is None:
        return {}
    if not isinstance(plan.allocation, Mapping):
        case.report("shape", "plan, allocation: expected null or a mapping of buffer ids to offsets")
        return {}
    if any(v.kind in ("shape", "start", "free") for v in case.violations):
        return {}
    verdict = verify_allocation(buffers_of_plan(case, actions), plan.allocation)
    for v in verdict.violations:
        case.violations.append(replace(v, kind=f"allocation-{v.kind}"))
    return dict(verdict.heights)


def _makespan(case: Case, actions: Actions) -> int:
    if case.period is not None:
        return case.period
    items: list[RunItem | CopyItem] = [*actions.runs, *actions.copies]
    return max((item.end for item in items), default=0)


def _stall(runs: list[RunItem], makespan: int) -> int:
    """Return the nanoseconds before the makespan during which no run executes."""
    busy = reached = 0
    for run in sorted(runs, key=lambda r: r.start):
        busy += max(run.end - max(run.start, reached), 0)
        reached = max(reached, run.end)
    return makespan - busy


def _verdict(case: Case, simulation: Simulation | None, actions: Actions) -> Verification:
    traffic: dict[tuple[str, str], int] = {}
    for copy in actions.copies:
        if copy.nbytes:
            pair = (case.tiers[copy.src], case.tiers[copy.dst])
            traffic[pair] = traffic.get(pair, 0) + copy.nbytes
    makespan = _makespan(case, actions)
    return Verification(
        violations=sorted_violations(case.violations),
        profiles={} if simulation is None else simulation.result(),
        peaks={} if simulation is None else simulation.peaks(),
        makespan=makespan,
        stall=_stall(actions.runs, makespan),
        traffic=traffic,
        recomputed=len(actions.runs) - len({run.op for run in actions.runs}),
    )
