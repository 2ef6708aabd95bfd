"""What `gen:llm` is asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """What `gen:llm` is asked for; its options, by the same names."""

    model: str
    step: str
    layers: int
    batch: int
    seq: int
    micro: int
    attention: str
    experts: str
    page: int
    tp: int
    sp: bool
    cp: int
    pp: int
    stage: int
    ep: int
    dp: int
    zero: int
    gradients: str
    nvlink: int
    network: int
    overlap: bool

    @property
    def trains(self) -> bool:
        """Whether there is a backward pass."""
        return self.step == "train"

    @property
    def is_distributed(self) -> bool:
        """Whether ops state their kind of processor."""
        return self.overlap and max(self.tp, self.pp, self.replicas) > 1

    @property
    def replicas(self) -> int:
        """Ranks that have the same weights: those with other data, or other tokens of the same sequences."""
        return self.dp * self.cp

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a parameter's gradient."""
        return {"bf16": 2, "fp32": 4}[self.gradients]
