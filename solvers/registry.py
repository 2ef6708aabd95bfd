"""The methods: those of the suite, and those that users register through an entry point.

A user's package makes a method known with, in its ``pyproject.toml``::

    [project.entry-points."lowtide.methods"]
    mine = "my_package:my_method"

where ``my_method(problem, context)`` returns an answer (for `peak` an order or a plan, for `offsets` the
offsets by buffer id), or calls ``context.offer`` itself. It then appears in ``lowtide list methods``,
`solve` and sweeps; a `Method` object instead of a function says more about itself, such as another problem
than `peak`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from ..models.errors import UsageError
from ..models.problems import PROBLEMS
from .context import Context

RunFunction = Callable[[Any, Context], Any]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A named way to solve a problem.

    Parameters
    ----------
    name, problem
        Unique together; `problem` is a CLI name such as "peak".
    run
        ``module:function`` relative to this package (loaded when first used), or the function.
    summary
        One line for people.
    exact
        Whether it proves optimality, given time.
    source
        Paper, equation; empty if it is the suite's own.
    options
        Names and meanings of its own options.
    engine
        "cpsat" or "highs" if further options pass through to that solver.
    """

    name: str
    problem: str
    run: str | RunFunction
    summary: str
    exact: bool = False
    source: str = ""
    options: tuple[tuple[str, str], ...] = ()
    engine: str | None = None

    def load(self) -> RunFunction:
        """Return the function, importing its module now."""
        if not isinstance(self.run, str):
            return self.run
        module, function = self.run.split(":")
        loaded: RunFunction = getattr(import_module(module, __package__), function)
        return loaded


_PEAK_MODELS = (
    ("start", "reference (default), or bounds: first what auto takes first, as hint and bound"),
    ("plain", "1: without the orders of pairs that the known order's peak forces (default 0)"),
)
"""Options of every method that solves a model of `peak`."""

_MILP = ("solver", "any solver that Pyomo finds (default highs)")

_POLICY = (
    ("strict", "1: no emergency evictions, what does not fit has no plan (default 0)"),
    ("chunk", "largest copy in MiB (default: whole tensors, or 16 for policies that move pages)"),
)
"""Options of the policies that the simulator of placements carries out."""

METHODS = (
    Method(
        name="auto",
        problem="peak",
        run=".peak_auto:solve_auto",
        summary="bounds and heuristics first; if they do not meet, exact search with hint and bound",
        exact=True,
        engine="cpsat",
    ),
    Method(
        name="reference",
        problem="peak",
        run=".algorithms.peak.reference:solve_reference",
        summary="the order in which the graph lists its ops",
    ),
    Method(
        name="greedy",
        problem="peak",
        run=".algorithms.peak.greedy:solve_greedy",
        summary="list scheduling by least memory, ties broken by looking ahead",
    ),
    Method(
        name="beam",
        problem="peak",
        run=".algorithms.peak.beam:solve_beam",
        summary="beam search over executed sets, best peak first",
        options=(("width", "states kept per step (default 64)"),),
    ),
    Method(
        name="downsets",
        problem="peak",
        run=".algorithms.peak.widening:solve_downsets",
        summary="exhaustive search over executed sets, under limits that close in on the optimum",
        exact=True,
    ),
    Method(
        name="cpsat",
        problem="peak",
        run=".peak_cpsat:solve_steps",
        summary="CP-SAT, time-indexed: which op at which step",
        exact=True,
        options=_PEAK_MODELS,
        engine="cpsat",
    ),
    Method(
        name="cpsat-positions",
        problem="peak",
        run=".peak_cpsat:solve_positions",
        summary="CP-SAT, positions: permutation and cumulative lifetimes",
        exact=True,
        options=_PEAK_MODELS,
        engine="cpsat",
    ),
    Method(
        name="milp",
        problem="peak",
        run=".peak_milp:solve_olla",
        summary="MILP of OLLA in Pyomo: create binaries per op, preserve binaries per tensor and step",
        exact=True,
        source="Steiner et al., OLLA, 2022 (MODeL, ICML 2023), section 3",
        options=(_MILP, *_PEAK_MODELS),
        engine="highs",
    ),
    Method(
        name="milp-tensors",
        problem="peak",
        run=".peak_milp:solve_tensors",
        summary="MILP of OLLA in Pyomo: create and preserve binaries per tensor, several ops per step",
        exact=True,
        source="Steiner et al., OLLA, 2022 (MODeL, ICML 2023), section 3",
        options=(
            _MILP,
            _PEAK_MODELS[0],
            ("plain", "1: without forced orders, and with OLLA's windows: longest chains (default 0)"),
        ),
        engine="highs",
    ),
    Method(
        name="milp-steps",
        problem="peak",
        run=".peak_milp:solve_steps",
        summary="MILP in Pyomo, time-indexed by executed sets: a stronger relaxation than OLLA's",
        exact=True,
        options=(_MILP, *_PEAK_MODELS),
        engine="highs",
    ),
    Method(
        name="local-search",
        problem="peak",
        run=".algorithms.peak.local_search:solve_local_search",
        summary="annealing by moves of blocks, aimed at where the memory is highest; any size",
        options=(("runs", "after which it ends by itself (default 100)"),),
    ),
    Method(
        name="serenity",
        problem="peak",
        run=".algorithms.peak.published.serenity:solve_serenity",
        summary="dynamic programming over signatures with an adaptive soft budget",
        exact=True,
        source="Ahn et al., SERENITY, MLSys 2020, sections 3.1 and 3.2",
        options=(("signatures", "per level, before the budget is halved (default 4096)"),),
    ),
    Method(
        name="inductor",
        problem="peak",
        run=".algorithms.peak.published.compilers:solve_inductor",
        summary="best of the reference order and the three that inductor compares with it",
        source="PyTorch, torch/_inductor/memory.py",
    ),
    Method(
        name="inductor-lpmf",
        problem="peak",
        run=".algorithms.peak.published.compilers:solve_inductor_lpmf",
        summary="least peak memory first: what fits under the highest memory so far, then by increase",
        source="PyTorch, torch/_inductor/memory.py",
    ),
    Method(
        name="inductor-dfs",
        problem="peak",
        run=".algorithms.peak.published.compilers:solve_inductor_dfs",
        summary="depth-first, ops with few bytes first",
        source="PyTorch, torch/_inductor/memory.py",
    ),
    Method(
        name="inductor-bfs",
        problem="peak",
        run=".algorithms.peak.published.compilers:solve_inductor_bfs",
        summary="breadth-first by the places of the predecessors",
        source="PyTorch, torch/_inductor/memory.py",
    ),
    Method(
        name="xla",
        problem="peak",
        run=".algorithms.peak.published.compilers:solve_xla",
        summary="best of list, depth-first and post-order",
        source="XLA, hlo_memory_scheduler.cc",
    ),
    Method(
        name="xla-list",
        problem="peak",
        run=".algorithms.peak.published.compilers:solve_xla_list",
        summary="most bytes freed less bytes defined, then most users",
        source="XLA, hlo_memory_scheduler.cc",
    ),
    Method(
        name="xla-dfs",
        problem="peak",
        run=".algorithms.peak.published.compilers:solve_xla_dfs",
        summary="depth-first, operands with many extra users, then many bytes, first",
        source="XLA, hlo_memory_scheduler.cc",
    ),
    Method(
        name="xla-post-order",
        problem="peak",
        run=".algorithms.peak.published.compilers:solve_xla_post_order",
        summary="depth-first, operands as listed; so does TVM's Relay",
        source="XLA, hlo_memory_scheduler.cc",
    ),
    Method(
        name="xla-bfs",
        problem="peak",
        run=".algorithms.peak.published.compilers:solve_xla_bfs",
        summary="first in, first out",
        source="XLA, hlo_memory_scheduler.cc",
    ),
    Method(
        name="auto",
        problem="offsets",
        run=".offsets_auto:solve_auto",
        summary="greedy first; then branch and bound, local searches and CP-SAT in turns",
        exact=True,
        engine="cpsat",
    ),
    Method(
        name="search",
        problem="offsets",
        run=".offsets_auto:solve_search",
        summary="branch and bound over canonical placements, at rising bounds and falling heights",
        exact=True,
        source="Moffitt, MiniMalloc, ASPLOS 2023",
    ),
    Method(
        name="greedy",
        problem="offsets",
        run=".algorithms.offsets.greedy:solve_greedy",
        summary="allocators at run time, and seven orders with first fit and best fit",
        source="TFLite, TVM and XLA planners",
    ),
    Method(
        name="local-search",
        problem="offsets",
        run=".algorithms.offsets.local_search:solve_local_search",
        summary="greedy orders that blame what ends too high, and guided ejection",
        source="Joslin and Clements, 1999; Nagata and Bräysy, 2009",
    ),
    Method(
        name="overlap",
        problem="offsets",
        run=".algorithms.offsets.overlap_search:solve_overlap",
        summary="guided local search over overlaps at falling heights",
        source="Egeblad, Nielsen and Odgaard, 2007, after Voudouris and Tsang, 1999",
    ),
    Method(
        name="cpsat",
        problem="offsets",
        run=".offsets_cpsat:solve_cpsat",
        summary="CP-SAT: rectangles of time and addresses that do not overlap",
        exact=True,
        engine="cpsat",
    ),
    Method(
        name="cpsat-sections",
        problem="offsets",
        run=".offsets_cpsat:solve_cpsat_sections",
        summary="CP-SAT: in each section of time, addresses that do not overlap",
        exact=True,
        engine="cpsat",
    ),
    Method(
        name="milp",
        problem="offsets",
        run=".offsets_milp:solve_milp",
        summary="MILP in Pyomo: which of two buffers lies below, for small cases",
        exact=True,
        options=(("solver", "any solver that Pyomo finds (default highs)"),),
        engine="highs",
    ),
    Method(
        name="auto",
        problem="placement",
        run=".placement_auto:solve_auto",
        summary="bounds, and the planner until its plan meets them",
        exact=True,
    ),
    Method(
        name="planner",
        problem="placement",
        run=".algorithms.placement.planner:solve_planner",
        summary="event-driven: copies ahead of a forecast deficit, run to its periodic state",
        source="after G10, MICRO 2023, and SwapAdvisor, ASPLOS 2020",
    ),
    Method(
        name="lp-bound",
        problem="placement",
        run=".placement_samples:solve_samples",
        summary="linear programs over sample instants around the stalls of a first plan: bounds",
    ),
    Method(
        name="local-search",
        problem="placement",
        run=".placement_local_search:solve_local_search",
        summary="annealing over decisions on the simulator, from the best policy",
        options=(
            ("runs", "simulations after which it ends by itself (default 20000)"),
            ("chunk", "largest copy in MiB (default: a 256th of the device, at least 8)"),
        ),
    ),
    Method(
        name="demand-lru",
        problem="placement",
        run=".policies.demand_lru:solve_demand_lru",
        summary="policy: fetch on demand, evict the least recently used; pages",
        options=_POLICY,
        source="unified memory; as in Zhang et al., G10, MICRO 2023",
    ),
    Method(
        name="deepum",
        problem="placement",
        run=".policies.deepum:solve_deepum",
        summary="policy: prefetch the tensors of the op eight ahead, evict the least recently used; pages",
        options=(("degree", "ops that the prefetch is ahead (default 8)"), *_POLICY),
        source="Jung et al., DeepUM, ASPLOS 2023; as emulated in G10's artifact",
    ),
    Method(
        name="belady",
        problem="placement",
        run=".policies.belady:solve_belady",
        summary="policy: evict what is used furthest ahead, swap in as early as is safe",
        options=_POLICY,
        source="Huang et al., SwapAdvisor, ASPLOS 2020, section 4.2, one pool",
    ),
    Method(
        name="vdnn",
        problem="placement",
        run=".policies.vdnn:solve_vdnn",
        summary="policy: offload activations layer by layer, both streams wait for each other",
        options=(("offload", "all, conv, or dynamic: the first that fits (default dynamic)"), *_POLICY),
        source="Rhu et al., vDNN, MICRO 2016",
    ),
    Method(
        name="flashneuron",
        problem="placement",
        run=".policies.flashneuron:solve_flashneuron",
        summary="policy: offload a prefix of the forward tensors directly to the SSD",
        options=_POLICY,
        source="Bae et al., FlashNeuron, FAST 2021; as modelled in G10's artifact",
    ),
    Method(
        name="g10",
        problem="placement",
        run=".policies.g10:solve_g10",
        summary="policy: the most useful gaps first, booked in a ledger of bandwidths; pages",
        options=_POLICY,
        source="Zhang et al., G10, MICRO 2023, and its artifact",
    ),
    Method(
        name="autoswap",
        problem="placement",
        run=".policies.autoswap:solve_autoswap",
        summary="policy: gaps around the peak by one of four scores",
        options=(("score", "doa, aoa, wdoa or swdoa (default: the best of the four)"), *_POLICY),
        source="Zhang et al., SmartPool and AutoSwap, 2019",
    ),
    Method(
        name="first-touch",
        problem="placement",
        run=".policies.first_touch:solve_first_touch",
        summary="policy: tensors stay where they first found room, fast or slow memory",
        source="NUMA first touch, the baseline of Hildebrand et al., AutoTM, ASPLOS 2020",
    ),
    Method(
        name="slot-lp",
        problem="placement",
        run=".placement_slots:solve_slots",
        summary="single runs in bytes: linear programs over pieces of time, plans and bounds that converge",
        exact=True,
    ),
    Method(
        name="cpsat",
        problem="placement",
        run=".placement_intervals:solve_intervals",
        summary="single runs of tiny graphs, whole tensors, one copy at a time in each direction: CP-SAT",
        options=(("tick", "ns between the times at which things may start (default: loses nothing)"),),
        engine="cpsat",
    ),
    Method(
        name="tmof",
        problem="placement",
        run=".placement_tmof:solve_tmof",
        summary="single runs: MILP of whole tensors that leave and return in parts beside the ops between",
        source="Lin et al., TMOF, HPCA 2023, as inferred",
        engine="highs",
    ),
)
"""The methods of the suite."""


@cache
def methods() -> tuple[Method, ...]:
    """Return every method: the suite's, then users' by name.

    Raises
    ------
    UsageError
        If a user's method has the name of another one, or is neither a function nor a `Method`.
    """
    from importlib.metadata import entry_points

    found = {(m.problem, m.name): m for m in METHODS}
    for entry in sorted(entry_points(group="lowtide.methods"), key=lambda e: e.name):
        try:
            item = entry.load()
        except Exception as error:  # whatever a user's package raises while it is imported
            raise UsageError(
                f"entry point {entry.name} = {entry.value}: found {type(error).__name__}: {error}, "
                "expected an object that can be imported"
            ) from error
        if callable(item) and not isinstance(item, Method):
            lines = (item.__doc__ or "").strip().splitlines()
            item = Method(
                name=entry.name, problem="peak", run=item, summary=lines[0] if lines else entry.value
            )
        if not isinstance(item, Method):
            raise UsageError(
                f"entry point {entry.name} = {entry.value}: found {type(item).__name__}, "
                "expected a function or a lowtide.solvers.registry.Method"
            )
        if (item.problem, item.name) in found:
            raise UsageError(
                f"entry point {entry.name} = {entry.value}: found a second method "
                f"{item.name!r} for {item.problem}, expected a new name"
            )
        found[item.problem, item.name] = item
    return tuple(found.values())


def find_method(problem: str, name: str) -> Method:
    """Return the method of that name for a problem.

    Raises
    ------
    UsageError
        If there is none; the message has the nearest names.
    """
    if problem not in PROBLEMS:
        raise UsageError(f"problem: found {problem!r}, expected one of {', '.join(sorted(PROBLEMS))}")
    known = {m.name: m for m in methods() if m.problem == problem}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise UsageError(f"method: found {name!r}, {hint}expected one of {', '.join(known)}")
