r"""Model states on each of several devices: ZeRO's three stages, and DeepSpeed's estimators of them.

Data. P parameters, G devices, training in mixed precision: 2 bytes of each parameter, 2 of its gradient and
K = 12 of Adam (32-bit copies of the parameter, its momentum and its variance). ZeRO shards, in order, the
optimizer (stage 1), gradients too (2), parameters too (3), each in G equal parts, the last one padded:

.. math:: 2 \lceil P / G_3 \rceil + 2 \lceil P / G_2 \rceil + K \lceil P / G_1 \rceil,

where :math:`G_s = G` if the stage is at least s, else 1. Fully sharded data parallelism (FSDP) is stage 3,
whose device also holds the parameters of the units that are gathered now: the largest one, twice that where
the next is fetched ahead. From stage 2 on a device has buffers for its part of the gradients only; the whole
gradient of a unit is there besides until its parts are summed. In one step each device sends 2 P elements,
in stage 3 3 P (an all-gather more). Plans of the graphs ``gen:sharded`` need this, and their activations.

Source: Rajbhandari, Rasley, Ruwase and He, "ZeRO: memory optimizations toward training trillion parameter
models", SC 2020, sections 3, 5 and 7. `deepspeed` is what ``estimate_zero2_model_states_mem_needs`` and
``estimate_zero3_model_states_mem_needs`` of DeepSpeed compute. Their documentation prints another number for
stage 2 without offload, 4 P + 16 P / G, than its code, 2 P + 18 P / G.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from ...models.errors import UsageError

ADAM = 12
"""Bytes per parameter of Adam's 32-bit states."""

STAGES = range(4)


@dataclass(frozen=True, kw_only=True)
class States:
    """Bytes on one device, and the elements that it sends in a step.

    Attributes
    ----------
    stage
        Of ZeRO; 0 shards nothing.
    parameters, gradients, optimizer, gathered, unreduced
        Bytes; `gathered` is what stage 3 holds of other devices' parameters, `unreduced` a unit's whole
        gradient.
    sent
        Elements.
    """

    stage: int
    parameters: int
    gradients: int
    optimizer: int
    gathered: int
    unreduced: int
    sent: int

    @property
    def total(self) -> int:
        """Bytes of all."""
        return self.parameters + self.gradients + self.optimizer + self.gathered + self.unreduced


def zero(
    parameters: int,
    devices: int,
    stage: int,
    *,
    optimizer: int = ADAM,
    largest_unit: int = 0,
    prefetch: bool = False,
) -> States:
    """Return what one of several devices holds of the model states.

    Parameters
    ----------
    parameters, devices
        How many.
    stage
        0 to 3.
    optimizer
        Bytes per parameter.
    largest_unit, prefetch
        Parameters of the largest unit that stage 3 gathers, and whose gradients stages 2 and 3 sum at a time
        (0: neither counts), and whether the next one is gathered meanwhile.

    Raises
    ------
    UsageError
        If a number is out of its range.

    Examples
    --------
    >>> [zero(7_500_000_000, 64, stage).total for stage in range(4)]
    [120000000000, 31406250000, 16640625000, 1875000000]
    """
    _check(parameters=(parameters, 1), devices=(devices, 1), optimizer=(optimizer, 0))
    _check(largest_unit=(largest_unit, 0))
    if stage not in STAGES:
        raise UsageError(f"stage: found {stage}, expected 0, 1, 2 or 3")
    part = [-(-parameters // (devices if stage >= sharded else 1)) for sharded in (1, 2, 3)]
    return States(
        stage=stage,
        parameters=2 * part[2],
        gradients=2 * part[1],
        optimizer=optimizer * part[0],
        gathered=2 * largest_unit * (2 if prefetch else 1) if stage == 3 else 0,
        unreduced=2 * largest_unit if stage >= 2 else 0,
        sent=(3 if stage == 3 else 2) * parameters,
    )


@dataclass(frozen=True, kw_only=True)
class NeedByRule:
    """What one of DeepSpeed's estimators says.

    Attributes
    ----------
    stage, offload, zero_init
        Of ZeRO; what is on the host; whether parameters are sharded as they are made.
    device, host
        Bytes on each device; bytes on each host.
    """

    stage: int
    offload: str
    zero_init: bool
    device: int
    host: int


def deepspeed(
    parameters: int, largest_layer: int, devices: int, nodes: int = 1, *, buffers: Fraction = Fraction(3, 2)
) -> Iterator[NeedByRule]:
    """Yield what DeepSpeed estimates, by stage and by what is on the host; rounded down as it does.

    Parameters
    ----------
    parameters, largest_layer
        How many, in all and in the largest layer.
    devices, nodes
        Devices of each node; nodes.
    buffers
        Factor for further buffers of the host.

    Raises
    ------
    UsageError
        If a number is less than 1.

    Examples
    --------
    >>> needs = list(deepspeed(2_851_000_000, 32_000_000, 8))
    >>> [(need.stage, need.offload, round(need.device / 2**30, 2)) for need in needs[:2]]
    [(2, 'optimizer', 5.31), (2, 'none', 11.28)]
    """
    _check(parameters=(parameters, 1), largest_layer=(largest_layer, 1), devices=(devices, 1))
    _check(nodes=(nodes, 1))
    p, layer, all_devices = parameters, 4 * largest_layer, devices * nodes

    def need(
        stage: int, offload: str, device: Fraction | int, host: Fraction | int, early: bool
    ) -> NeedByRule:
        return NeedByRule(
            stage=stage, offload=offload, zero_init=early, device=floor(device), host=floor(host * buffers)
        )

    yield need(2, "optimizer", 2 * p, p * max(4 * all_devices, 16), early=False)
    yield need(2, "none", 2 * p + Fraction(18 * p, all_devices), 4 * p * devices, early=False)
    own = Fraction(p, all_devices)
    for offload, device, factor in (("all", 0 * own, 18), ("optimizer", 2 * own, 16), ("none", 18 * own, 0)):
        late = max(Fraction(4 * devices), Fraction(factor, nodes))
        kept = Fraction(factor * p, nodes) if factor else layer * devices
        yield need(3, offload, layer + device, kept, early=True)
        yield need(3, offload, layer + device, p * late, early=False)


def _check(**numbers: tuple[int, int]) -> None:
    for name, (number, least) in numbers.items():
        if number < least:
            raise UsageError(f"{name}: found {number}, expected at least {least}")
