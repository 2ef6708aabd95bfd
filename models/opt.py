"""Transformers of the OPT family, what their inference moves and computes, and how fast a T4 does it.

Sizes are bytes of 16-bit numbers. The constants are those that the authors of FlexGen fitted to a Google
Cloud instance with one T4 (`experimental/cost_model.py` of FMInference/FlexiGen, class `CostModelConfig`), in
GiB and 10^12 operations per second; the models' sizes stand in `flexgen/opt_config.py` there.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log2


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """A transformer that generates text; its feed-forward layers are four times as wide as its hidden states.

    Attributes
    ----------
    layers, hidden, heads
        How many layers; numbers of a token between them; heads of attention.
    """

    layers: int
    hidden: int
    heads: int

    @property
    def weights(self) -> int:
        """Bytes of a layer's weights: four matrices of attention, two of the feed-forward layer."""
        return 24 * self.hidden**2

    @property
    def state(self) -> int:
        """Bytes of a token's hidden state."""
        return 2 * self.hidden

    @property
    def cache(self) -> int:
        """Bytes of a token's keys and values in one layer."""
        return 4 * self.hidden

    @property
    def products(self) -> int:
        """Operations of a token in the matrices of one layer, two for each multiplication."""
        return 24 * self.hidden**2

    def attention(self, tokens: Fraction | int) -> Fraction:
        """Return the operations of one token's attention to so many in one layer."""
        return Fraction(4 * self.hidden * tokens)


OPT = {
    "opt-1.3b": Decoder(layers=24, hidden=2048, heads=32),
    "opt-2.7b": Decoder(layers=32, hidden=2560, heads=32),
    "opt-6.7b": Decoder(layers=32, hidden=4096, heads=32),
    "opt-13b": Decoder(layers=40, hidden=5120, heads=40),
    "opt-30b": Decoder(layers=48, hidden=7168, heads=56),
    "opt-66b": Decoder(layers=64, hidden=9216, heads=72),
    "opt-175b": Decoder(layers=96, hidden=12288, heads=96),
}


def _gib(text: str) -> Fraction:
    return Fraction(text) * 2**30


def _tera(text: str) -> Fraction:
    return Fraction(text) * 10**12


TO_GPU = _gib("12.89")
CACHE_TO_HOST, STATE_TO_HOST = _gib("0.97"), _gib("4.82")
FROM_DISK = _gib("0.473")
CACHE_TO_DISK, STATE_TO_DISK = _gib("0.746"), _gib("2.015")
"""Bytes per second; caches go more slowly than states in prefill, to the disk in decoding as fast as they."""

WEIGHTS_FROM_DISK = FROM_DISK * Fraction("0.95")
"""In decoding."""

PRODUCTS = {"prefill": _tera("21.24"), "decode": _tera("4.3")}
ATTENTION = {"prefill": _tera("9.97"), "decode": _tera("0.079")}
"""Operations per second of the GPU in large matrices and in attention."""


def host_attention(batch: int, hidden: int) -> Fraction:
    """Return the operations per second of attention on the host's processor, for a batch of sequences.

    It grows with the batch up to 64 and with the hidden size up to 4096. The logarithms are rounded to binary
    fractions.
    """
    few, narrow = (Fraction(max(0.0, log2(most / number))) for most, number in ((64, batch), (4096, hidden)))
    factor = 1 + Fraction("0.0168") * few * narrow - Fraction("0.0328") * few - Fraction("0.0621") * narrow
    return _tera("0.0123") * max(Fraction("0.1"), factor)
