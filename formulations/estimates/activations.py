r"""Activations of a transformer's layers that the backward pass needs, in 16-bit training.

Data. Sequences of s tokens, micro-batches of b, hidden size h, a heads, L layers; t devices share each layer
(tensor parallelism), p stages of a pipeline have :math:`L / p` layers each, in v chunks (v > 1: interleaved).
A layer keeps, in bytes,

==========================================  ========================================
nothing shared                              :math:`s b h (34 + 5 a s / h)`
tensor parallelism                          :math:`s b h (10 + 24 / t + 5 a s / (h t))`
and attention run again                     :math:`s b h (10 + 24 / t)`
tensor and sequence parallelism             :math:`s b h (34 + 5 a s / h) / t`
and attention run again (*selective*)       :math:`34 s b h / t`
all of it run again (*full*)                :math:`2 s b h`
==========================================  ========================================

The first stage of a pipeline holds p micro-batches of its :math:`L / p` layers, so L layers; interleaved
:math:`1 + (p - 1) / (p v)` times as much. 5 a s / h is what attention adds; to run it again costs about
:math:`s / (6 h)` of the operations.

Source: Korthikanti, Casper, Lym, McAfee, Andersch, Shoeybi and Catanzaro, "Reducing activation recomputation
in large transformer models", MLSys 2023, equations 1 to 5 and table 2. Embeddings and the output layer are
left out, and what a layer takes while it runs: plans of the graphs ``gen:tensor-parallel`` have all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from ...models.errors import UsageError

KINDS = ("none", "tensor", "tensor-selective", "sequence", "selective", "full")
"""What is shared and run again, in the order of the table."""


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """Its numbers, and over how many devices it goes.

    Attributes
    ----------
    sequence, batch, hidden, heads, layers
        Tokens, sequences of a micro-batch, the hidden size, heads of attention, layers.
    tensor, stages, chunks
        Devices of a layer, stages of the pipeline, chunks of layers in each stage.

    Raises
    ------
    UsageError
        If a number is less than 1, or layers are not a multiple of stages times chunks.
    """

    sequence: int
    batch: int
    hidden: int
    heads: int
    layers: int
    tensor: int = 1
    stages: int = 1
    chunks: int = 1

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            if number < 1:
                raise UsageError(f"{name}: found {number}, expected at least 1")
        if self.layers % (self.stages * self.chunks):
            raise UsageError(
                f"layers: found {self.layers}, expected a multiple of {self.stages} stages "
                f"times {self.chunks} chunks"
            )

    @property
    def attention(self) -> Fraction:
        """What attention adds to the 34 bytes per number of a layer's input: 5 a s / h."""
        return Fraction(5 * self.heads * self.sequence, self.hidden)


def of_layer(model: Transformer, kind: str) -> int:
    """Return the bytes that a layer keeps on each device for one micro-batch, rounded up.

    Parameters
    ----------
    model
        A transformer.
    kind
        One of `KINDS`.

    Raises
    ------
    UsageError
        If there is no such kind.
    """
    t, attention = model.tensor, model.attention
    factors = {
        "none": 34 + attention,
        "tensor": 10 + (24 + attention) / t,
        "tensor-selective": 10 + Fraction(24, t),
        "sequence": (34 + attention) / t,
        "selective": Fraction(34, t),
        "full": Fraction(2),
    }
    if kind not in factors:
        raise UsageError(f"kind: found {kind!r}, expected one of {', '.join(KINDS)}")
    return ceil(model.sequence * model.batch * model.hidden * factors[kind])


def of_first_stage(model: Transformer, kind: str) -> int:
    """Return the bytes that the first stage of the pipeline keeps on each device, rounded up.

    Examples
    --------
    >>> gpt = Transformer(
    ...     sequence=2048, batch=1, hidden=12288, heads=96, layers=96, tensor=8, stages=8, chunks=3
    ... )
    >>> [round(of_first_stage(gpt, kind) / 2**30, 1) for kind in ("tensor", "selective")]
    [66.8, 12.4]
    """
    p, v = model.stages, model.chunks
    more = 1 + Fraction(p - 1, p * v) if v > 1 else Fraction(1)
    return ceil(model.layers * of_layer(model, kind) * more)
