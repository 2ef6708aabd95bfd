"""The room of problem `streams`."""

from __future__ import annotations

from ...models.problems.streams import Streams
from ..makespan.methods import ALL, LISTS
from ..method import BOUND, OPTIMUM, Export, Method, Option
from ..parallel.methods import EDGE_KERNELS, GROWING
from ..room import Room

_PRIORITY = Option("priority", "bottom", "of ops in a list", choices=("longest", "bottom"))
_IOS = (
    Option("r", 3, "ops of a group at most; 0: any number", least=0),
    Option("s", 8, "groups of a stage at most; 0: any number", least=0),
    Option(
        "endings", "code", "of the sets of ops: as in the published code, or all", choices=("code", "all")
    ),
    Option(
        "blocks",
        "bottlenecks",
        "solved one by one: between ops on every path, or as the graph states them",
        choices=("bottlenecks", "stated"),
    ),
)
_HIOS = "Kundu and Shu, HIOS, 2023, by its public code"
_WINDOW = Option("window", 2, "ops of a group at most", least=1)

ROOM = Room(
    problem=Streams,
    methods=(
        Method(
            "auto",
            ".streams.auto:solve_auto",
            "ios for stages; else matching, lists, edges, and makespan or distributed, in turns",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=(*GROWING, *ALL),
            late=True,
        ),
        Method(
            "matching",
            ".streams.matching:solve_matching",
            "most concurrency: fewest synchronisations, then fewest streams, by one weighted matching",
            proves=BOUND,
            kernels=EDGE_KERNELS,
            late=True,
        ),
        Method(
            "nimble",
            ".streams.matching:solve_nimble",
            "most concurrency by two matchings, as Nimble's published code has them",
            proves=BOUND,
            source="Kwon, Yu, Jeong and Chun, NeurIPS 2020",
            kernels=EDGE_KERNELS,
            late=True,
        ),
        Method(
            "lios",
            ".streams.lists:solve_lios",
            "list schedule: each op to the stream on which it ends first",
            proves=BOUND,
            source="Ping and others, LIOS, IEEE Transactions on Services Computing 2023, by its abstract",
            options=(_PRIORITY,),
            kernels=EDGE_KERNELS,
            late=True,
        ),
        Method(
            "opara",
            ".streams.lists:solve_opara",
            "an op follows its first predecessor that none follows yet, as Opara's published code has it",
            proves=BOUND,
            source="Chen and others, Opara, arXiv 2312.10351, 2023",
            kernels=EDGE_KERNELS,
            late=True,
        ),
        Method(
            "asap",
            ".streams.lists:solve_asap",
            "as opara by levels, streams used again, as RAF's multi-stream pass has it",
            proves=BOUND,
            source="the multi-stream pass in the public code of RAF",
            kernels=EDGE_KERNELS,
            late=True,
        ),
        Method(
            "greedy",
            ".streams.greedy:solve_greedy",
            "stages of all that is ready, within streams and memory",
            proves=BOUND,
            source="the baseline of Ding and others, MLSys 2021",
            kernels=EDGE_KERNELS,
            late=True,
        ),
        Method(
            "ios",
            ".streams.stages:solve_ios",
            "stages by the dynamic program over executed sets; exact with endings=all and r, s left out",
            proves=OPTIMUM,
            source="Ding, Zhu, Jia, Pekhimenko and Han, MLSys 2021",
            options=_IOS,
            kernels=EDGE_KERNELS,
            late=True,
        ),
        Method(
            "ios-cpsat",
            ".streams.models:solve_stages",
            "stages in CP-SAT, for few ops: an independent judge, with workspaces and few groups exact, too",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=EDGE_KERNELS,
            late=True,
            model=Export("streams.stages_cpsat"),
        ),
        Method(
            "tenants",
            ".streams.tenants:solve_tenants",
            "networks beside each other, each in an order and cut at pointers: by a program over positions, "
            "exact for chains, or by search",
            proves=OPTIMUM,
            source="Yu, Bray, Wang, Shangguan, Tang, Liu and Chen, ICCAD 2021",
            options=(
                Option("by", "program", "of the pointers", choices=("program", "search")),
                Option("moves", 20_000, "of the search", least=0),
            ),
            kernels=EDGE_KERNELS,
            late=True,
        ),
        Method(
            "heft",
            ".streams.devices:solve_heft",
            "several devices: heft of distributed; under contention its orders",
            proves=BOUND,
            source="Topcuoglu, Hariri and Wu, IEEE TPDS 2002",
            kernels=LISTS,
            late=True,
        ),
        Method(
            "hios-lp",
            ".streams.hios:solve_lp",
            "several devices: longest paths as a whole to devices, then groups of ops side by side",
            proves=BOUND,
            source=_HIOS,
            options=(_WINDOW,),
        ),
        Method(
            "hios-mr",
            ".streams.hios:solve_mr",
            "several devices: the best mapping that ends on each device, op by op, then groups",
            proves=BOUND,
            source=_HIOS,
            options=(_WINDOW,),
        ),
        Method(
            "cpsat",
            ".streams.devices:solve_cpsat",
            "several devices without contention: cpsat of distributed",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=LISTS,
            late=True,
            model=Export(
                "distributed.intervals_cpsat",
                ".streams.devices:distributed_stated",
                unit="tick",
                decode=".streams.devices:distributed_plan",
            ),
        ),
        Method(
            "rates-cpsat",
            ".streams.devices:solve_rates",
            "several devices under proportional contention, for few ops: starts, ends, and work between them",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=LISTS,
            late=True,
            model=Export("streams.rates_cpsat", ".streams.devices:rates_stated"),
        ),
        Method(
            "sequential",
            ".streams.lists:solve_sequential",
            "one stream",
            proves=BOUND,
            kernels=EDGE_KERNELS,
            late=True,
        ),
    ),
    complete=".streams.memory:with_flow",
    merges=".streams.merging:best_merges",
    judging=6.0,
    shared=("parallel", "makespan", "distributed"),
)
