"""The methods of problem `placement`, tensor placement, in the order in which they are listed."""

from __future__ import annotations

from ..method import Method

_PLANNER = (".placement.planner.planner_kernel",)
_SIMULATOR = (".placement.simulator.simulator_kernel",)

_POLICY = (
    ("strict", "1: no emergency evictions, what does not fit has no plan (default 0)"),
    ("chunk", "largest copy in MiB (default: whole tensors, or 16 for policies that move pages)"),
)
"""Options of the policies that the simulator of placements carries out."""

_AUTOTM_BESIDE = (
    ("window", "ops between a move and the nearest op that uses the tensor, at most (default 15)"),
    ("read-beside", "bytes per second of moves to fast memory beside ops (default: the channel's)"),
    ("write-beside", "the same for moves to slow memory"),
)

PLACEMENT_METHODS = (
    Method(
        name="auto",
        problem="placement",
        run=".placement.auto:solve_auto",
        summary="bounds, and the planner until its plan meets them",
        exact=True,
        kernels=(*_PLANNER, *_SIMULATOR),
    ),
    Method(
        name="planner",
        problem="placement",
        run=".placement.planner.planner:solve_planner",
        summary="event-driven: copies ahead of a forecast deficit, run to its periodic state",
        source="after G10, MICRO 2023, and SwapAdvisor, ASPLOS 2020",
        kernels=_PLANNER,
    ),
    Method(
        name="lp-bound",
        problem="placement",
        run=".placement.bounds.samples:solve_samples",
        summary="bounds by windows in closed form and by prices from linear programs over sample instants",
        kernels=_PLANNER,
    ),
    Method(
        name="local-search",
        problem="placement",
        run=".placement.policies.local_search:solve_local_search",
        summary="annealing over decisions on the simulator, from the best policy",
        options=(
            ("runs", "simulations after which it ends by itself (default 20000)"),
            ("chunk", "largest copy in MiB (default: a 256th of the device, at least 8)"),
        ),
        kernels=_SIMULATOR,
    ),
    Method(
        name="demand-lru",
        problem="placement",
        run=".placement.policies.demand_lru:solve_demand_lru",
        summary="policy: fetch on demand, evict the least recently used; pages",
        options=_POLICY,
        source="unified memory; as in Zhang et al., G10, MICRO 2023",
        kernels=_SIMULATOR,
    ),
    Method(
        name="deepum",
        problem="placement",
        run=".placement.policies.deepum:solve_deepum",
        summary="policy: prefetch the tensors of the op eight ahead, evict the least recently used; pages",
        options=(("degree", "ops that the prefetch is ahead (default 8)"), *_POLICY),
        source="Jung et al., DeepUM, ASPLOS 2023; as emulated in G10's artifact",
        kernels=_SIMULATOR,
    ),
    Method(
        name="belady",
        problem="placement",
        run=".placement.policies.belady:solve_belady",
        summary="policy: evict what is used furthest ahead, swap in as early as is safe",
        options=_POLICY,
        source="Huang et al., SwapAdvisor, ASPLOS 2020, section 4.2, one pool",
        kernels=_SIMULATOR,
    ),
    Method(
        name="vdnn",
        problem="placement",
        run=".placement.policies.vdnn:solve_vdnn",
        summary="policy: offload activations layer by layer, both streams wait for each other",
        options=(("offload", "all, conv, or dynamic: the first that fits (default dynamic)"), *_POLICY),
        source="Rhu et al., vDNN, MICRO 2016",
        kernels=_SIMULATOR,
    ),
    Method(
        name="flashneuron",
        problem="placement",
        run=".placement.policies.flashneuron:solve_flashneuron",
        summary="policy: offload a prefix of the forward tensors directly to the SSD",
        options=_POLICY,
        source="Bae et al., FlashNeuron, FAST 2021; as modelled in G10's artifact",
        kernels=_SIMULATOR,
    ),
    Method(
        name="g10",
        problem="placement",
        run=".placement.policies.g10:solve_g10",
        summary="policy: the most useful gaps first, booked in a ledger of bandwidths; pages",
        options=_POLICY,
        source="Zhang et al., G10, MICRO 2023, and its artifact",
        kernels=_SIMULATOR,
    ),
    Method(
        name="autoswap",
        problem="placement",
        run=".placement.policies.autoswap:solve_autoswap",
        summary="policy: gaps around the peak by one of four scores",
        options=(("score", "doa, aoa, wdoa or swdoa (default: the best of the four)"), *_POLICY),
        source="Zhang et al., SmartPool and AutoSwap, 2019",
        kernels=_SIMULATOR,
    ),
    Method(
        name="first-touch",
        problem="placement",
        run=".placement.policies.first_touch:solve_first_touch",
        summary="policy: tensors stay where they first found room, fast or slow memory",
        source="NUMA first touch, the baseline of Hildebrand et al., AutoTM, ASPLOS 2020",
    ),
    Method(
        name="serial",
        problem="placement",
        run=".placement.serial.search:solve_serial",
        summary="any plan of whole tensors, one op or copy after the other: depth-first search",
        source="furthest next use first: Belady, 1966",
    ),
    Method(
        name="slot-lp",
        problem="placement",
        run=".placement.models.slots:solve_slots",
        summary="single runs in bytes: linear programs over pieces of time, plans and bounds that converge",
        exact=True,
    ),
    Method(
        name="slot-milp",
        problem="placement",
        run=".placement.models.slots_milp:solve_slot_milp",
        summary="single runs, whole tensors: MILPs over pieces of time that get finer, plans and bounds",
        engine="highs",
        kernels=_SIMULATOR,
    ),
    Method(
        name="cpsat",
        problem="placement",
        run=".placement.models.intervals:solve_intervals",
        summary="single runs of tiny graphs, whole tensors, one copy at a time in each direction: CP-SAT",
        options=(("tick", "ns between the times at which things may start (default: loses nothing)"),),
        engine="cpsat",
    ),
    Method(
        name="tmof",
        problem="placement",
        run=".placement.models.tmof:solve_tmof",
        summary="single runs on one GPU or several: MILP of whole tensors that leave and return in parts "
        "beside the ops between",
        options=(
            (
                "share",
                "how GPUs share a host link: joint, disjoint, bidirectional, both, oblivious (default joint)",
            ),
        ),
        source="Lin et al., TMOF, HPCA 2023, as inferred",
        engine="highs",
    ),
    *(
        Method(
            name=f"autotm-{form}",
            problem="placement",
            run=f".placement.models.autotm:solve_{form}",
            summary=f"MILP of AutoTM: {summary}",
            source="Hildebrand et al., AutoTM, ASPLOS 2020, and its artifact",
            options=options,
            engine="highs",
        )
        for form, summary, options in (
            ("static", "tensors stay where they are made, ops read and write slow memory in place", ()),
            ("sync", "they also move before and behind ops that use them, while nothing runs", ()),
            ("async", "they also move beside other ops, each move within one of them", _AUTOTM_BESIDE),
        )
    ),
)
