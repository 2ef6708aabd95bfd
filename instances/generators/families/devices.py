"""Families of training and inference on several devices, or on a device with memories behind it."""

from __future__ import annotations

from ....models.opt import OPT
from ...options import Parameter
from ..flexgen import flexgen
from ..llm import llm
from ..llm.networks import MODELS
from ..sharded import sharded
from ..stages import NUMBERS, PLACEMENTS, stages
from ..tensor_parallel import RECOMPUTE, tensor_parallel
from .family import BATCH, MOST, Family, task_family

ON_DEVICES: dict[str, Family] = {
    "stages": task_family(
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
    "flexgen": task_family(
        flexgen,
        "inference of an OPT model in FlexGen's block schedule, for GPU, host and disk",
        model=Parameter("opt-30b", "the model", choices=tuple(OPT)),
        layers=Parameter(0, "how many of its layers, 0 for all", least=0, most=1000),
        prompt=Parameter(512, "tokens of each prompt", least=1, most=MOST),
        new=Parameter(4, "tokens generated, one for each step", least=1, most=10_000),
        batch=Parameter(48, "sequences of a batch", least=1, most=MOST),
        batches=Parameter(3, "batches of the block", least=1, most=MOST),
        prefill=Parameter(True, "read the prompts; if not, their keys and values exist before the first op"),
    ),
    "sharded": task_family(
        sharded,
        "training iteration on one of several devices that share states as ZeRO and FSDP do",
        layers=Parameter(4, "layers of the transformer, each a unit", least=1, most=1000),
        hidden=Parameter(256, "numbers of a token between layers", least=1, most=MOST),
        tokens=Parameter(512, "of each device's micro-batch", least=1, most=MOST),
        devices=Parameter(8, "that share the states", least=1, most=10_000),
        stage=Parameter(3, "of ZeRO; 3 is FSDP", least=0, most=3),
        prefetch=Parameter(True, "stage 3: gather the next unit before the op that uses this one"),
        limiter=Parameter(False, "gathers and Adam wait as in FSDP, not only for their operands"),
        stash=Parameter(32, "bytes kept of each number of a layer for its backward op", least=0, most=1000),
    ),
    "tensor-parallel": task_family(
        tensor_parallel,
        "training pass on one of several devices that share each layer as Megatron's do",
        layers=Parameter(2, "layers of the transformer", least=1, most=1000),
        hidden=Parameter(256, "numbers of a token between layers", least=1, most=MOST),
        heads=Parameter(8, "of attention", least=1, most=MOST),
        sequence=Parameter(128, "tokens of a sequence", least=1, most=MOST),
        batch=BATCH,
        tensor=Parameter(4, "devices that share each layer", least=1, most=10_000),
        sp=Parameter(True, "sequence parallelism: what is between the blocks is split by tokens"),
        recompute=Parameter("none", "what runs again in the backward pass", choices=RECOMPUTE),
        working=Parameter(True, "gradients, gathered inputs and sums have bytes"),
    ),
    "llm": task_family(
        llm,
        "language or image model of today, layer by layer, on one rank: training, prefill or decoding",
        model=Parameter("llama-3-8b", "the model", choices=tuple(MODELS)),
        step=Parameter("train", "what is computed", choices=("train", "prefill", "decode")),
        layers=Parameter(0, "its first layers, 0 for all", least=0, most=1000),
        batch=Parameter(1, "sequences or images of a micro-batch", least=1, most=MOST),
        seq=Parameter(0, "tokens of each, or before the one decoded; 0: as trained", least=0, most=MOST),
        micro=Parameter(1, "micro-batches", least=1, most=10_000),
        attention=Parameter("flash", "whether scores are kept: flash keeps none", choices=("flash", "eager")),
        experts=Parameter(
            "fused", "a layer's experts together, or in ops of their own", choices=("fused", "ops")
        ),
        page=Parameter(
            0,
            "tokens of a block of the cache of keys and values, such as 16; 0: no blocks",
            least=0,
            most=MOST,
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
        nvlink=Parameter(300, "GB/s of a rank to its tp ranks", least=1, most=MOST),
        network=Parameter(50, "GB/s of a rank to other ranks", least=1, most=MOST),
        overlap=Parameter(
            True, "exchanges are for a processor of kind link, others for kind gpu; 0: for any"
        ),
    ),
}
"""By name, with what the arguments of their functions mean."""
