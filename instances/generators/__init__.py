"""Generators of instances: families of graphs with seeds, each as inference or as training.

The same family, options and seed give the same graph on every machine. Families without a network
behind them have sizes in bytes as small integers; only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ...models.errors import InstanceError
from ...models.graph import Accounting, Graph
from ...models.opt import OPT
from ...models.work import DTYPES
from ..formats.strict_json import nearest
from ..options import Parameter, Value, typed_options
from ..spec import Spec
from .assembly import assembly
from .backprop_chain import backprop_chain
from .backward import training_graph
from .builder import DATA, SEED, SIZES
from .cells import cell_network
from .data_type import in_dtype
from .extent import check_extent
from .flexgen import flexgen
from .hios import hios
from .layered import layered
from .llm import llm
from .llm.networks import MODELS
from .numeric import attention, cholesky, fft, lu, matmul, stencil
from .psplib import psplib
from .randwire import randwire
from .sharded import sharded
from .skip_chain import skip_chain
from .sp import pumpkin, sp
from .stages import NUMBERS, PLACEMENTS, stages
from .taped_chain import taped_chain
from .tasks import SHAPES, tasks
from .tensor_parallel import RECOMPUTE, tensor_parallel
from .tinyml import NETWORKS, tinyml
from .transformer import transformer
from .trees import chain, harpoon, intree, outtree
from .unet import unet


@dataclass(frozen=True, slots=True)
class Family:
    """A family of graphs: what makes one, what it is, and its parameters with their defaults."""

    function: Callable[..., Graph]
    description: str
    parameters: Mapping[str, Parameter]


_MOST = 10**6
"""Largest number that a parameter takes: larger graphs do not fit into memory."""
_N = Parameter(32, "number of ops", least=1, most=_MOST)
_BATCH = Parameter(1, "size of the batch", least=1, most=_MOST)
_WEIGHTS = Parameter(False, "keep the bytes of the weights")
_DTYPE = Parameter("fp32", "data type of values and arithmetic", choices=tuple(DTYPES))
_IMAGE = {
    "image": Parameter(32, "side of the image", least=1, most=_MOST),
    "batch": _BATCH,
    "weights": _WEIGHTS,
    "dtype": _DTYPE,
}
_ACCOUNTING = {"accounting": Parameter("coexist", "how memory counts", choices=tuple(map(str, Accounting)))}
_SIDE = Parameter(4, "tiles of a side of the matrix", least=1, most=200)
_NBYTES = {"nbytes": Parameter(1, "bytes of each value, or tile", least=1, most=2**40)}
_COMMON = {**_ACCOUNTING, "train": Parameter(False, "forward and backward")}


def _family(function: Callable[..., Graph], description: str, **parameters: Parameter) -> Family:
    return Family(function, description, {**parameters, **_COMMON})


def _task_family(function: Callable[..., Graph], description: str, **parameters: Parameter) -> Family:
    """Return a family whose ops are no network's, so that there is nothing to train."""
    return Family(function, description, {**parameters, **_ACCOUNTING})


FAMILIES: dict[str, Family] = {
    "chain": _family(chain, "ops in a row", n=_N, seed=SEED, **SIZES),
    "intree": _family(
        intree,
        "random in-tree (reduction)",
        n=_N,
        seed=SEED,
        arity=Parameter(3, "most operands of an op", least=1),
        **SIZES,
    ),
    "outtree": _family(
        outtree,
        "random out-tree (distribution)",
        n=_N,
        seed=SEED,
        arity=Parameter(3, "most children of an op", least=1),
        data=DATA,
        keep=Parameter(False, "the leaves' tensors stay to the end"),
        **SIZES,
    ),
    "harpoon": _family(
        harpoon,
        "tree whose best post-order needs far more than its best order",
        levels=Parameter(2, "copies inside each other", least=1, most=18),
        branches=Parameter(3, "branches at each root", least=2, most=_MOST),
        memory=Parameter(900, "bytes of a leaf, a multiple of branches", least=1),
        eps=Parameter(1, "bytes of the smallest tensors", least=0),
    ),
    "pumpkin": _family(
        pumpkin,
        "disjoint paths between a source and a sink",
        paths=Parameter(4, "number of paths", least=1, most=_MOST),
        length=Parameter(5, "most ops of a path", least=1, most=_MOST),
        seed=SEED,
        data=DATA,
        **SIZES,
    ),
    "sp": _family(
        sp,
        "random series-parallel graph",
        n=_N,
        seed=SEED,
        branches=Parameter(4, "most branches of a fork", least=2),
        data=DATA,
        **SIZES,
    ),
    "layered": _family(
        layered,
        "layers of ops, each of which reads random ones of the layer before",
        layers=Parameter(6, "number of layers", least=1, most=_MOST),
        width=Parameter(4, "ops in a layer", least=1, most=_MOST),
        seed=SEED,
        degree=Parameter(3, "most operands of an op", least=1),
        data=DATA,
        keep=Parameter(True, "outputs stay to the end"),
        **SIZES,
    ),
    "tasks": _task_family(
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
    "hios": _task_family(
        hios,
        "layers of ops whose tensors take 0.8 of their reader's time from device to device at 10 GB/s",
        n=_N,
        layers=Parameter(5, "number of layers", least=1, most=_MOST),
        degree=Parameter(3, "most operands of an op", least=1),
        seed=SEED,
    ),
    "stages": _task_family(
        stages,
        "training iteration of a pipeline: F, B and W of stages on devices, and micro-batches",
        p=Parameter(4, "devices", least=1, most=1000),
        m=Parameter(8, "micro-batches", least=1, most=10_000),
        v=Parameter(1, "stages on each device", least=1, most=1000),
        placement=Parameter("interleaved", "of the stages", choices=PLACEMENTS),
        f=Parameter("1", "ns of F", pattern=NUMBERS),
        b=Parameter("1", "ns of B", pattern=NUMBERS),
        w=Parameter("1", "ns of W, 0: B does both", pattern=NUMBERS),
        a=Parameter("1", "bytes of activations from the start of F", pattern=NUMBERS),
        keep=Parameter("all", "of these until W ends", pattern=f"all|{NUMBERS}"),
    ),
    "flexgen": _task_family(
        flexgen,
        "inference of an OPT model in FlexGen's block schedule, for GPU, host and disk",
        model=Parameter("opt-30b", "the model", choices=tuple(OPT)),
        layers=Parameter(0, "how many of its layers, 0 for all", least=0, most=1000),
        prompt=Parameter(512, "tokens of each prompt", least=1, most=_MOST),
        new=Parameter(4, "tokens generated, one for each step", least=1, most=10_000),
        batch=Parameter(48, "sequences of a batch", least=1, most=_MOST),
        batches=Parameter(3, "batches of the block", least=1, most=_MOST),
        prefill=Parameter(True, "read the prompts; if not, their keys and values exist before the first op"),
    ),
    "sharded": _task_family(
        sharded,
        "training iteration on one of several devices that share states as ZeRO and FSDP do",
        layers=Parameter(4, "layers of the transformer, each a unit", least=1, most=1000),
        hidden=Parameter(256, "numbers of a token between layers", least=1, most=_MOST),
        tokens=Parameter(512, "of each device's micro-batch", least=1, most=_MOST),
        devices=Parameter(8, "that share the states", least=1, most=10_000),
        stage=Parameter(3, "of ZeRO; 3 is FSDP", least=0, most=3),
        prefetch=Parameter(True, "stage 3: gather the next unit before the op that uses this one"),
        limiter=Parameter(False, "gathers and Adam wait as in FSDP, not only for their operands"),
        stash=Parameter(32, "bytes kept of each number of a layer for its backward op", least=0, most=1000),
    ),
    "tensor-parallel": _task_family(
        tensor_parallel,
        "training pass on one of several devices that share each layer as Megatron's do",
        layers=Parameter(2, "layers of the transformer", least=1, most=1000),
        hidden=Parameter(256, "numbers of a token between layers", least=1, most=_MOST),
        heads=Parameter(8, "of attention", least=1, most=_MOST),
        sequence=Parameter(128, "tokens of a sequence", least=1, most=_MOST),
        batch=_BATCH,
        tensor=Parameter(4, "devices that share each layer", least=1, most=10_000),
        sp=Parameter(True, "sequence parallelism: what is between the blocks is split by tokens"),
        recompute=Parameter("none", "what runs again in the backward pass", choices=RECOMPUTE),
        working=Parameter(True, "gradients, gathered inputs and sums have bytes"),
    ),
    "llm": _task_family(
        llm,
        "language or image model of today, layer by layer, on one rank: training, prefill or decoding",
        model=Parameter("llama-3-8b", "the model", choices=tuple(MODELS)),
        step=Parameter("train", "what is computed", choices=("train", "prefill", "decode")),
        layers=Parameter(0, "its first layers, 0 for all", least=0, most=1000),
        batch=Parameter(1, "sequences or images of a micro-batch", least=1, most=_MOST),
        seq=Parameter(0, "tokens of each, or before the one decoded; 0: as trained", least=0, most=_MOST),
        micro=Parameter(1, "micro-batches", least=1, most=10_000),
        attention=Parameter("flash", "whether scores are kept: flash keeps none", choices=("flash", "eager")),
        experts=Parameter(
            "fused", "a layer's experts together, or in ops of their own", choices=("fused", "ops")
        ),
        page=Parameter(
            0,
            "tokens of a block of the cache of keys and values, such as 16; 0: no blocks",
            least=0,
            most=_MOST,
        ),
        tp=Parameter(1, "tensor degree: ranks that share each layer", least=1, most=64),
        sp=Parameter(False, "tp ranks share what is between layers, too, by tokens"),
        cp=Parameter(
            1, "context degree: ranks that share each sequence and gather its keys", least=1, most=1000
        ),
        pp=Parameter(1, "pipeline degree: stages", least=1, most=1000),
        stage=Parameter(0, "which stage the rank is of", least=0, most=999),
        ep=Parameter(1, "expert degree: dp ranks that share the experts", least=1, most=1000),
        dp=Parameter(1, "data degree: ranks with data of their own", least=1, most=100_000),
        zero=Parameter(
            0, "ZeRO, what dp ranks share: AdamW's states, gradients (2), weights (3)", least=0, most=3
        ),
        gradients=Parameter("bf16", "numbers of weights' gradients", choices=("bf16", "fp32")),
        nvlink=Parameter(300, "GB/s of a rank to its tp ranks", least=1, most=_MOST),
        network=Parameter(50, "GB/s of a rank to other ranks", least=1, most=_MOST),
        overlap=Parameter(
            True, "exchanges are for a processor of kind link, others for kind gpu; 0: for any"
        ),
    ),
    "psplib": _task_family(
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
    "assembly": _task_family(
        assembly,
        "assembly tree of a grid ordered by nested dissection (multifrontal method)",
        grid=Parameter("50x50", "sides of the grid", pattern=r"\d{1,7}(x\d{1,7}){0,2}"),
        leaf=Parameter(8, "points of the boxes that are not dissected further", least=1),
        stencil=Parameter("star", "neighbours: across faces, or corners too", choices=("star", "box")),
        factor=Parameter("lu", "the factorization", choices=("lu", "cholesky")),
        gflops=Parameter(10, "10^9 operations per second", least=1),
    ),
    "fft": _task_family(
        fft,
        "fast Fourier transform, a butterfly for each value of a level",
        points=Parameter(8, "values of a level, a power of 2", least=2, most=2**16),
        **_NBYTES,
    ),
    "matmul": _task_family(
        matmul,
        "product of matrices, an op for each product and each sum of two numbers",
        rows=Parameter(4, "rows of the first one", least=1, most=1000),
        columns=Parameter(4, "columns of the second one", least=1, most=1000),
        inner=Parameter(4, "columns of the first one", least=1, most=1000),
        **_NBYTES,
    ),
    "stencil": _task_family(
        stencil,
        "line of cells over time, each made of its neighbours before",
        cells=Parameter(8, "length of the line", least=1, most=_MOST),
        steps=Parameter(4, "rows that are made", least=1, most=_MOST),
        radius=Parameter(1, "neighbours on each side", least=0, most=1000),
        **_NBYTES,
    ),
    "lu": _task_family(lu, "LU factorization of a matrix of tiles, without pivoting", tiles=_SIDE, **_NBYTES),
    "cholesky": _task_family(
        cholesky, "Cholesky factorization of the lower half of a matrix of tiles", tiles=_SIDE, **_NBYTES
    ),
    "attention": _task_family(
        attention,
        "attention of blocks of queries with blocks of keys and values",
        tiles=Parameter(4, "blocks of rows", least=1, most=500),
        rows=Parameter(64, "rows of a block", least=1, most=_MOST),
        dim=Parameter(64, "numbers of a row", least=1, most=_MOST),
        form=Parameter(
            "flash", "flash: both products in one op; eager: scores in between", choices=("flash", "eager")
        ),
        nbytes=Parameter(2, "bytes of a number", least=1, most=16),
    ),
    "backprop-chain": _task_family(
        backprop_chain,
        "backpropagation through a chain of l forwards, for checkpointing",
        l=Parameter(5, "number of forwards", least=0, most=_MOST),
        seed=SEED,
        largest=Parameter(1, "sizes are 1 to this, in bytes", least=1),
        forward=Parameter(1, "ns of a forward", least=1),
        backward=Parameter(1, "ns of a backward", least=1),
        spread=Parameter(1, "durations are 1 to this times longer", least=1),
    ),
    "taped-chain": _task_family(
        taped_chain,
        "chain of l stages whose forwards save what their backwards need, or not",
        l=Parameter(5, "number of stages", least=1, most=_MOST),
        seed=SEED,
        largest=Parameter(20, "sizes of activations are 1 to this, in bytes", least=1),
        saved=Parameter(60, "sizes of what forwards save are 1 to this, in bytes, or 0", least=0),
        gradients=Parameter(True, "gradients are as large as activations, or nothing"),
        workspace=Parameter(0, "workspaces are 0 to this, in bytes", least=0),
        forward=Parameter(1, "ns of a forward", least=1),
        backward=Parameter(2, "ns of a backward", least=1),
        spread=Parameter(5, "durations are 1 to this times longer", least=1),
    ),
    "randwire": _family(
        randwire,
        "randomly wired network (Watts-Strogatz)",
        n=Parameter(32, "nodes of a stage", least=3, most=_MOST),
        seed=SEED,
        k=Parameter(4, "neighbours on the ring, an even number below n", least=2),
        p=Parameter(0.75, "probability to rewire", most=1),
        stages=Parameter(1, "number of stages", least=1, most=16),
        **SIZES,
    ),
    "nasnet": _family(
        cell_network,
        "image network of NASNet-A cells, or of random ones",
        cells=Parameter(6, "number of cells", least=1, most=1000),
        seed=SEED,
        channels=Parameter(32, "channels of the first cells", least=1, most=_MOST),
        cell=Parameter("nasnet-a", "the cell", choices=("nasnet-a", "random")),
        **_IMAGE,
    ),
    "darts": _family(
        cell_network,
        "image network of DARTS cells with skip connections, or of random ones",
        cells=Parameter(8, "number of cells", least=1, most=1000),
        seed=SEED,
        channels=Parameter(16, "channels of the first cells", least=1, most=_MOST),
        cell=Parameter("darts-v2", "the cell", choices=("darts-v2", "random")),
        **_IMAGE,
    ),
    "unet": _family(
        unet,
        "U-Net with long skip connections",
        depth=Parameter(4, "levels above the bottom", least=1, most=16),
        channels=Parameter(64, "channels of the top level", least=1, most=_MOST),
        **{**_IMAGE, "image": Parameter(256, "side of the image", least=1, most=_MOST)},
    ),
    "tinyml": _task_family(
        tinyml,
        "network for microcontrollers: 8-bit values, batch 1",
        network=Parameter("mobilenet-v2", "the network", choices=NETWORKS),
        width=Parameter(100, "percent of its channels", least=1, most=1000),
        image=Parameter(96, "side of the image", least=8, most=_MOST),
        classes=Parameter(1000, "outputs", least=1, most=_MOST),
        weights=_WEIGHTS,
    ),
    "skipchain": _family(
        skip_chain,
        "training iteration of a chain with skip connections, in bytes and ns of a GPU",
        n=Parameter(50, "number of ops, forward and backward", least=2, most=_MOST),
        seed=SEED,
    ),
    "transformer": _family(
        transformer,
        "transformer: decoder (language model), encoder, or both",
        form=Parameter("decoder", "the blocks", choices=("decoder", "encoder", "seq2seq", "llama")),
        layers=Parameter(2, "blocks of each kind", least=1, most=10_000),
        d_model=Parameter(512, "width", least=1, most=_MOST),
        heads=Parameter(8, "heads of attention", least=1, most=_MOST),
        groups=Parameter(0, "llama: heads of keys and values (0: all)", least=0, most=_MOST),
        hidden=Parameter(0, "llama: width inside feed-forward layers (0: 4 d_model)", least=0, most=_MOST),
        seq=Parameter(128, "length of the sequence", least=1, most=_MOST),
        batch=_BATCH,
        vocab=Parameter(32_000, "size of the vocabulary", least=1, most=_MOST),
        split=Parameter(False, "with train=1: gradients of weights are ops of their own"),
        weights=_WEIGHTS,
        dtype=_DTYPE,
    ),
}
"""The families by name, with what the arguments of their functions mean."""


def generate(family: str, **options: object) -> Graph:
    """Return a graph of a family.

    Parameters
    ----------
    family
        A name in `FAMILIES`.
    **options
        Values of its parameters, as numbers or as text; the others take their defaults.

    Raises
    ------
    InstanceError
        If family or option is unknown, or a value out of range.

    Examples
    --------
    >>> from lowtide.instances.generators import generate
    >>> generate("layered", layers=3, width=2).summary()["ops"]
    6
    """
    if family not in FAMILIES:
        raise InstanceError(
            f"instance 'gen:{family}': found unknown family {family!r}, {nearest(family, FAMILIES)}"
        )
    entry = FAMILIES[family]
    given = {key: _text(value) for key, value in options.items()}
    where = str(Spec("gen", family, given))
    values = typed_options(options, entry.parameters, where)
    _check_together(values, where)
    check_extent(family, values, where)
    own = {k: v for k, v in values.items() if k not in ("train", "accounting", "weights", "split", "dtype")}
    graph = entry.function(**own)
    dtype = str(values.get("dtype", _DTYPE.default))
    if dtype != _DTYPE.default:
        graph = in_dtype(graph, dtype)
    if values.get("train"):
        graph = training_graph(graph, split=bool(values.get("split")))
    if values.get("weights") is False:
        graph = graph.drop({"weight"})
    stated = {key: v for key, v in values.items() if key != "dtype" or v != _DTYPE.default}
    full = Spec("gen", family, {key: _text(value) for key, value in stated.items()})
    changed = {k: _text(v) for k, v in values.items() if v != entry.parameters[k].default}
    graph = replace(
        graph,
        name=str(Spec("path", family, changed)),
        accounting=Accounting(str(values["accounting"])),
        provenance={**graph.provenance, "source": str(full)},
    )
    return graph


def _check_together(values: Mapping[str, Value], where: str) -> None:
    k, n = values.get("k"), values.get("n")
    if isinstance(k, int) and isinstance(n, int) and (k % 2 or k >= n):
        raise InstanceError(f"instance {where!r}, option k: found {k}, expected an even number below n = {n}")
    if values.get("split") and not values.get("train"):
        raise InstanceError(
            f"instance {where!r}, option split: found 1 without train, expected train=1 with it"
        )


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
