"""Families of neural networks, and of chains of their forwards and backwards."""

from __future__ import annotations

from ...options import Parameter
from ..backprop_chain import backprop_chain
from ..builder import SEED, SIZES
from ..cells import cell_network
from ..randwire import randwire
from ..skip_chain import skip_chain
from ..taped_chain import taped_chain
from ..tinyml import NETWORKS, tinyml
from ..transformer import transformer
from ..unet import unet
from .family import BATCH, DTYPE, MOST, WEIGHTS, Family, family, task_family

_IMAGE = {
    "image": Parameter(32, "side of the image", least=1, most=MOST),
    "batch": BATCH,
    "weights": WEIGHTS,
    "dtype": DTYPE,
}

OF_NETWORKS: dict[str, Family] = {
    "backprop-chain": task_family(
        backprop_chain,
        "backpropagation through a chain of l forwards, for checkpointing",
        l=Parameter(5, "number of forwards", least=0, most=MOST),
        seed=SEED,
        largest=Parameter(1, "sizes are 1 to this, in bytes", least=1),
        forward=Parameter(1, "ns of a forward", least=1),
        backward=Parameter(1, "ns of a backward", least=1),
        spread=Parameter(1, "durations are 1 to this times longer", least=1),
    ),
    "taped-chain": task_family(
        taped_chain,
        "chain of l stages whose forwards save what their backwards need, or not",
        l=Parameter(5, "number of stages", least=1, most=MOST),
        seed=SEED,
        largest=Parameter(20, "sizes of activations are 1 to this, in bytes", least=1),
        saved=Parameter(60, "sizes of what forwards save are 1 to this, in bytes, or 0", least=0),
        gradients=Parameter(True, "gradients are as large as activations, or nothing"),
        workspace=Parameter(0, "workspaces are 0 to this, in bytes", least=0),
        forward=Parameter(1, "ns of a forward", least=1),
        backward=Parameter(2, "ns of a backward", least=1),
        spread=Parameter(5, "durations are 1 to this times longer", least=1),
    ),
    "randwire": family(
        randwire,
        "randomly wired network (Watts-Strogatz)",
        n=Parameter(32, "nodes of a stage", least=3, most=MOST),
        seed=SEED,
        k=Parameter(4, "neighbours on the ring, an even number below n", least=2),
        p=Parameter(0.75, "probability to rewire", most=1),
        stages=Parameter(1, "number of stages", least=1, most=16),
        **SIZES,
    ),
    "nasnet": family(
        cell_network,
        "image network of NASNet-A cells, or of random ones",
        cells=Parameter(6, "number of cells", least=1, most=1000),
        seed=SEED,
        channels=Parameter(32, "channels of the first cells", least=1, most=MOST),
        cell=Parameter("nasnet-a", "the cell", choices=("nasnet-a", "random")),
        **_IMAGE,
    ),
    "darts": family(
        cell_network,
        "image network of DARTS cells with skip connections, or of random ones",
        cells=Parameter(8, "number of cells", least=1, most=1000),
        seed=SEED,
        channels=Parameter(16, "channels of the first cells", least=1, most=MOST),
        cell=Parameter("darts-v2", "the cell", choices=("darts-v2", "random")),
        **_IMAGE,
    ),
    "unet": family(
        unet,
        "U-Net with long skip connections",
        depth=Parameter(4, "levels above the bottom", least=1, most=16),
        channels=Parameter(64, "channels of the top level", least=1, most=MOST),
        **{**_IMAGE, "image": Parameter(256, "side of the image", least=1, most=MOST)},
    ),
    "tinyml": task_family(
        tinyml,
        "network for microcontrollers: 8-bit values, batch 1",
        network=Parameter("mobilenet-v2", "the network", choices=NETWORKS),
        width=Parameter(100, "percent of its channels", least=1, most=1000),
        image=Parameter(96, "side of the image", least=8, most=MOST),
        classes=Parameter(1000, "outputs", least=1, most=MOST),
        weights=WEIGHTS,
    ),
    "skipchain": family(
        skip_chain,
        "training iteration of a chain with skip connections, in bytes and ns of a GPU",
        n=Parameter(50, "number of ops, forward and backward", least=2, most=MOST),
        seed=SEED,
    ),
    "transformer": family(
        transformer,
        "transformer: decoder (language model), encoder, or both",
        form=Parameter("decoder", "the blocks", choices=("decoder", "encoder", "seq2seq", "llama")),
        layers=Parameter(2, "blocks of each kind", least=1, most=10_000),
        d_model=Parameter(512, "width", least=1, most=MOST),
        heads=Parameter(8, "heads of attention", least=1, most=MOST),
        groups=Parameter(0, "llama: heads of keys and values (0: all)", least=0, most=MOST),
        hidden=Parameter(0, "llama: width inside feed-forward layers (0: 4 d_model)", least=0, most=MOST),
        seq=Parameter(128, "length of the sequence", least=1, most=MOST),
        batch=BATCH,
        vocab=Parameter(32_000, "size of the vocabulary", least=1, most=MOST),
        split=Parameter(False, "with train=1: gradients of weights are ops of their own"),
        weights=WEIGHTS,
        dtype=DTYPE,
    ),
}
"""By name, with what the arguments of their functions mean."""
