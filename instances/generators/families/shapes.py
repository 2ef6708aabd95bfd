"""Families by the shape of the graph: rows, trees, series-parallel and layered graphs, tasks of projects."""

from __future__ import annotations

from ...options import Parameter
from ..builder import DATA, SEED, SIZES
from ..hios import hios
from ..layered import layered
from ..psplib import psplib
from ..sp import pumpkin, sp
from ..tasks import SHAPES, tasks
from ..trees import chain, harpoon, intree, outtree
from .family import MOST, Family, N, family, task_family

BY_SHAPE: dict[str, Family] = {
    "chain": family(chain, "ops in a row", n=N, seed=SEED, **SIZES),
    "intree": family(
        intree,
        "random in-tree (reduction)",
        n=N,
        seed=SEED,
        arity=Parameter(3, "most operands of an op", least=1),
        **SIZES,
    ),
    "outtree": family(
        outtree,
        "random out-tree (distribution)",
        n=N,
        seed=SEED,
        arity=Parameter(3, "most children of an op", least=1),
        data=DATA,
        keep=Parameter(False, "the leaves' tensors stay to the end"),
        **SIZES,
    ),
    "harpoon": family(
        harpoon,
        "tree whose best post-order needs far more than its best order",
        levels=Parameter(2, "copies inside each other", least=1, most=18),
        branches=Parameter(3, "branches at each root", least=2, most=MOST),
        memory=Parameter(900, "bytes of a leaf, a multiple of branches", least=1),
        eps=Parameter(1, "bytes of the smallest tensors", least=0),
    ),
    "pumpkin": family(
        pumpkin,
        "disjoint paths between a source and a sink",
        paths=Parameter(4, "number of paths", least=1, most=MOST),
        length=Parameter(5, "most ops of a path", least=1, most=MOST),
        seed=SEED,
        data=DATA,
        **SIZES,
    ),
    "sp": family(
        sp,
        "random series-parallel graph",
        n=N,
        seed=SEED,
        branches=Parameter(4, "most branches of a fork", least=2),
        data=DATA,
        **SIZES,
    ),
    "layered": family(
        layered,
        "layers of ops, each of which reads random ones of the layer before",
        layers=Parameter(6, "number of layers", least=1, most=MOST),
        width=Parameter(4, "ops in a layer", least=1, most=MOST),
        seed=SEED,
        degree=Parameter(3, "most operands of an op", least=1),
        data=DATA,
        keep=Parameter(True, "outputs stay to the end"),
        **SIZES,
    ),
    "tasks": task_family(
        tasks,
        "lognormal tasks, critical path between half and all of the average load of the cores",
        shape=Parameter("layered", "how the tasks depend on each other", choices=tuple(SHAPES)),
        n=Parameter(50, "number of tasks", least=12, most=10_000),
        cores=Parameter(2, "processors that the average load is for", least=1, most=1000),
        sigma=Parameter(0.5, "of the logarithms of the durations", most=5),
        workspace=Parameter(0, "workspaces are 0 to this, in bytes", least=0),
        gpu=Parameter(0, "percent of the tasks that also run on kind gpu, not on cpu alone", most=100),
        speedup=Parameter(4.0, "median factor by which it is faster", least=0.01, most=1000),
        seed=SEED,
        data=DATA,
        **SIZES,
    ),
    "hios": task_family(
        hios,
        "layers of ops whose tensors take 0.8 of their reader's time from device to device at 10 GB/s",
        n=N,
        layers=Parameter(5, "number of layers", least=1, most=MOST),
        degree=Parameter(3, "most operands of an op", least=1),
        seed=SEED,
    ),
    "psplib": task_family(
        psplib,
        "project network like those of PSPLIB (ProGen)",
        n=Parameter(30, "number of jobs", least=1, most=500),
        complexity=Parameter(1.5, "arcs for each job", most=3),
        factor=Parameter(0.5, "share of the jobs that hold a workspace", most=1),
        demand=Parameter(10, "workspaces are 1 to this, in bytes", least=1),
        seed=SEED,
        data=DATA,
        **SIZES,
    ),
}
"""By name, with what the arguments of their functions mean."""
