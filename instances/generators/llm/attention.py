"""Attention, the same for language and image models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .micro_batch import STATISTIC, Pass
from .rank import Variable, Weight

FLASH_BACK = 5
"""Products of flash attention's backward pass, which makes the scores again; its forward pass has 2."""


def attend(
    run: Pass,
    queries: Sequence[Variable],
    keys: Sequence[Variable],
    values: Sequence[Variable],
    outputs: Mapping[str, int],
    *,
    scores: int,
    rows: int,
    flops: int,
    weight: Weight | None = None,
) -> list[Variable]:
    """Add attention and return the outputs: eager if there are bytes of `scores`, otherwise flash.

    Parameters
    ----------
    rows, flops
        Rows of all heads, of each of which flash attention keeps a number; operations of both products.
    """
    if scores:
        a, b = [*queries, *keys], flops // 2
        (s,) = run.op("scores", "MatMul", a, {"scores": scores}, saves=a, flops=b, back=flops)
        (p,) = run.op("softmax", "Softmax", [s], {"softmax": scores}, keeps=["softmax"], weight=weight)
        a = [p, *values]
        return run.op("mix", "MatMul", a, outputs, saves=a, flops=b, back=flops)
    a = [*queries, *keys, *values]
    sums = {"lse": STATISTIC * rows} if run.options.trains else {}
    return run.op(
        "attention",
        "FlashAttention",
        a,
        {**outputs, **sums},
        saves=a,
        keeps=[*outputs, *sums],
        aside=[*sums],
        weight=weight,
        flops=flops,
        back=flops * FLASH_BACK // 2,
    )[: len(outputs)]
