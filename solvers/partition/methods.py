"""The room of problem `partition`."""

from __future__ import annotations

from ...models.problems.partition import Partition
from ..method import BOUND, OPTIMUM, PYOMO_SOLVER, Export, Method, Option
from ..room import Room

_KERNELS = (".partition.ideals_kernel",)
_MOST = Option("most", 100_000, "ideals at most")

ROOM = Room(
    problem=Partition,
    methods=(
        Method(
            "auto",
            ".partition.auto:solve_auto",
            "chain, ideals, branch-price, paths and the MILP in turns, what serves the question",
            proves=OPTIMUM,
            options=(_MOST,),
            kernels=_KERNELS,
            engine="highs",
        ),
        Method(
            "ideals",
            ".partition.ideals:solve_ideals",
            "dynamic program over all beginnings of the graph",
            proves=OPTIMUM,
            source="Tarnawski and others, NeurIPS 2020",
            options=(_MOST,),
            kernels=_KERNELS,
        ),
        Method(
            "chain",
            ".partition.chain:solve_chain",
            "dynamic program over the cuts of the reference order, exact for chains",
            proves=OPTIMUM,
            kernels=_KERNELS,
        ),
        Method(
            "milp",
            ".partition.models:solve_milp",
            "MILP in Pyomo: stages of classes, contiguous or any; for the latency the published program",
            proves=OPTIMUM,
            options=(PYOMO_SOLVER,),
            kernels=_KERNELS,
            engine="highs",
            model=Export("partition.asked_milp", ".partition.models:stated", unit=""),
        ),
        Method(
            "branch-price",
            ".partition.branch_price:solve_branch_price",
            "stages in any order as columns, priced by CP-SAT; exact for the largest load",
            proves=OPTIMUM,
            source="Gilmore and Gomory 1961; Ryan and Foster 1981",
            kernels=_KERNELS,
            engine="cpsat",
            model=Export("partition.stages_cpsat", ".partition.models:stated_without_latency", unit=""),
        ),
        Method(
            "cpsat",
            ".partition.models:solve_cpsat",
            "CP-SAT, the same model",
            proves=OPTIMUM,
            kernels=_KERNELS,
            engine="cpsat",
            model=Export("partition.stages_cpsat", ".partition.models:stated_without_latency", unit=""),
        ),
        Method(
            "serial",
            ".partition.serial:solve_serial",
            "stages with the least sum of loads, for the latency",
            proves=BOUND,
            options=(_MOST,),
            kernels=_KERNELS,
        ),
        Method(
            "expert",
            ".partition.published:solve_expert",
            "the split that people made, if the instance brings one",
            proves=BOUND,
            source="dnn-partitioning",
        ),
        Method(
            "torchgpipe",
            ".partition.published:solve_torchgpipe",
            "blocks of like times in the reference order; transfers and memory do not count",
            proves=BOUND,
            source="Bárány and Grinberg 2015, by the public code of torchgpipe",
        ),
        Method(
            "pipedream",
            ".partition.chain:solve_pipedream",
            "cuts of the reference order, with replicas; transfers and memory do not count",
            proves=BOUND,
            source="Narayanan and others, PipeDream, SOSP 2019, by its public code",
            kernels=_KERNELS,
        ),
        Method(
            "alpa",
            ".partition.chain:solve_alpa",
            "cuts of the reference order with the least time of a batch",
            proves=BOUND,
            source="Zheng and others, Alpa, OSDI 2022, by its public code",
            kernels=_KERNELS,
        ),
    ),
    trivial=".partition.trivial:one_stage",
    bound=".partition.bounds:raise_bound",
    largest=True,
)
