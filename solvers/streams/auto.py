"""The best that the methods of the room find, and what they prove, in turns (`lowtide.solvers.portfolio`).

Stages: greedy ones, within a memory one op after another, of several networks the program over positions in
each (`tenants`), and the program of IOS, pruned and with all endings. Streams: the chains of fewest
synchronisations, lists of ops on fewer streams, and, where ops do not slow each other down, the schedule of
problem `makespan` on as many processors as there are streams. That one's bound holds here: streams obey the
precedence, run one op at a time and hold no more memory than there is; synchronisations only take longer.
Within a memory edges are added as `memory-edges` adds them, and the streams are those of the graph with them.

Several devices: lists on one of them, both of HIOS, the parts of `auto` of problem `distributed`, which go on
from each other's plans, and the model of rates.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...formulations.streams import rates_cpsat
from ...models.derived.stated_blocks import stated_blocks
from ...models.errors import UsageError
from ...models.problems.streams import Streams
from ..context import Context, Known, Outcome
from ..distributed.auto import TERMS_PER_SECOND, parts_of
from ..makespan.methods import ALL
from ..parallel.adding import MOST_OPS as RULED
from ..parts import Part
from ..portfolio import run
from . import pieces
from .bounds import raise_first_bound
from .devices import by_distributed, by_rates
from .greedy import solve_greedy
from .hios import solve_lp, solve_mr
from .stages import MOST_OPS, solve_ios
from .tenants import is_one_network, solve_tenants

WINDOW = 4
"""Ops of a group at most that `hios-lp` and `hios-mr` may make."""


def solve_auto(problem: Streams, context: Context) -> Outcome:
    """Stop as soon as the bound meets the best that is known."""
    raise_first_bound(problem, context)
    if problem.cluster is not None:
        context.careful = True
        return run(_of_devices(problem), problem, context)
    if problem.memory is None:
        order = range(len(problem.graph.ops))
        context.offer([[[i]] for i in order] if problem.device.staged else [order])
    return run(STAGES if problem.device.staged else STREAMS, problem, context)


def _of_devices(problem: Streams) -> tuple[Part, ...]:
    """Return the parts of several devices: those of `distributed` know together what each finds."""
    known, asked = Known(), problem.distributed
    theirs = () if asked is None else parts_of(asked)

    def wrapped(part: Part) -> Part:
        return replace(
            part,
            run=partial(by_distributed, run=part, known=known),
            refuses=lambda _: part.refuses(asked),
            seconds=lambda _: part.seconds(asked),
        )

    return (*DEVICES, *map(wrapped, theirs), RATES)


def _pruned(problem: Streams, context: Context) -> Outcome:
    """Run the pruned program of IOS, on the blocks that the graph states first."""
    for blocks in ("stated", "bottlenecks") if stated_blocks(problem.graph) else ("bottlenecks",):
        options = {"blocks": blocks, "endings": "code", "r": 3, "s": 8}
        outcome = solve_ios(problem, replace(context, options=options))
        if outcome.reason is not None or context.closed:
            break
    return outcome


def _many_ops(problem: Streams) -> str:
    count = len(problem.graph.ops)
    return f"found {count} ops, expected at most {MOST_OPS}" if count > MOST_OPS else ""


def _one_network(problem: Streams) -> str:
    return _many_ops(problem) or ("found one network, expected several" if is_one_network(problem) else "")


def _memory(problem: Streams) -> str:
    return "" if problem.memory is None else "found a memory, expected none"


def _edges_for_nothing(problem: Streams) -> str:
    if problem.memory is None and problem.contention == "none":
        return "found neither a memory nor contention, expected one of them"
    count = len(problem.graph.ops)
    return f"found {count} ops, expected at most {RULED}" if count > RULED else ""


def _contends(problem: Streams) -> str:
    return "" if problem.contention == "none" else f"found contention {problem.contention!r}, expected none"


def _no_rates(problem: Streams) -> str:
    try:
        rates_cpsat.check(problem)
    except UsageError as error:
        return str(error)
    return ""


STAGES = (
    Part(name="greedy", run=solve_greedy, first=True),
    Part(name="one at a time", run=pieces.offer_one_at_a_time),
    Part(name="tenants", run=solve_tenants, options={"by": "program", "moves": 0}, refuses=_one_network),
    Part(name="ios, pruned", run=_pruned, refuses=_many_ops),
    Part(
        name="ios, all endings",
        run=solve_ios,
        options={"blocks": "bottlenecks", "endings": "all", "r": 0, "s": 0},
        refuses=_many_ops,
    ),
)
"""Of contention that prices stages."""

STREAMS = (
    Part(name="orders", run=pieces.offer_orders, refuses=_memory, seconds=pieces.list_seconds),
    Part(name="edges by rule", run=pieces.offer_with_edges, refuses=_edges_for_nothing),
    Part(name="one stream", run=pieces.offer_only_stream),
    Part(
        name="makespan",
        run=pieces.solve_by_makespan,
        kernels=ALL,
        refuses=_contends,
        seconds=pieces.list_seconds,
    ),
)
"""Of one device whose streams are orders."""

DEVICES = (
    Part(name="one device", run=pieces.offer_on_one_device, refuses=_memory),
    Part(name="hios-lp", run=solve_lp, options={"window": WINDOW}),
    Part(name="hios-mr", run=solve_mr, options={"window": WINDOW}),
)
"""Of several devices, before those of `distributed`."""

RATES = Part(
    name="rates-cpsat",
    run=by_rates,
    refuses=_no_rates,
    seconds=lambda problem: rates_cpsat.size(problem).terms / TERMS_PER_SECOND,
    pauses=False,
)
"""Of several devices under proportional contention."""
