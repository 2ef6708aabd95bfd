"""What layers need in their modes, and what is asked of stages of data and tensor parallel devices."""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "t"
"""Devices that split the tensors of layers among them are a processor of kind ``t4``, if there are four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one layer needs in one of its modes, on each device of its group, and sends.

    Attributes
    ----------
    weights
        Bytes of weights, whose gradients replicas exchange.
    each, once
        Bytes for each micro-batch under way, and besides.
    sync
        By tensor, for those that come from or go to another stage: bytes that the group exchanges about it.
    again
        Whether the layer runs again in the backward pass instead of keeping its activations.
    """

    weights: int = 0
    each: int = 0
    once: int = 0
    sync: tuple[tuple[int, int], ...] = ()
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridRules:
    """What is asked of a split; `lowtide.models.problems.hybrid.Hybrid` says what each means."""

    processors: int
    memory: int | None
    link: int | None
    micro: int
    replicate: int | None
    tensor: int | None
    recompute: str


def degree_of(kind: str) -> int | None:
    """Return how many devices a group of this kind has; None if the name is no such kind.

    Examples
    --------
    >>> from lowtide.models.hybrid_rules import degree_of
    >>> degree_of("t4"), degree_of("t04"), degree_of("cpu")
    (4, None, None)
    """
    digits = kind.removeprefix(GROUP)
    plain = kind != digits and digits.isascii() and digits.isdigit() and len(digits) < 10
    return int(digits) if plain and digits[0] != "0" else None
