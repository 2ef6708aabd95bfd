"""Durations that importers give to ops: a roofline model of one stated reference machine.

An op takes as long as its memory traffic (every byte it reads or writes, once) or its arithmetic, whichever
is longer, rounded up to a whole nanosecond and at least 1 ns:

    duration_ns = max(1, ceil(bytes / BYTES_PER_NS), ceil(multiply_adds / MULTIPLY_ADDS_PER_NS))

The machine is an NVIDIA A100 with 40 GB: 1555 GB/s of memory bandwidth and 19.5 TFLOP/s in 32-bit floating
point, that is 9750 multiply-adds per nanosecond. Launch latency and kernel efficiency are left out, so
these are lower bounds on real kernels, good for comparing ops, not for predicting a machine.
"""

from __future__ import annotations

from dataclasses import replace

from ...models.graph import PEAK_DEVICE
from ...models.machine import Machine
from ...models.units import SECOND
from ...models.work import Rates

BYTES_PER_NS = 1555
"""Bytes per nanosecond between the processor and its memory."""

MULTIPLY_ADDS_PER_NS = 9750
"""Multiply-adds of 32-bit numbers per nanosecond: the other limit of the roofline."""


PEAK = replace(
    Machine.single(),
    name=PEAK_DEVICE,
    compute=Rates(
        operations_per_s=(
            ("fp32", 2 * MULTIPLY_ADDS_PER_NS * SECOND),
            ("tf32", 156_000_000_000_000),
            ("bf16", 312_000_000_000_000),
            ("fp16", 312_000_000_000_000),
            ("fp8", 312_000_000_000_000),
            ("int8", 624_000_000_000_000),
        ),
        bytes_per_s=BYTES_PER_NS * SECOND,
        source="NVIDIA A100 data sheet; 8-bit floating point, which it has not, as 16-bit",
    ),
)
"""The reference machine: without launch cost, kernels reach its rates. fp32 is as in `duration_ns`."""


def duration_ns(nbytes: int, multiply_adds: int) -> int:
    """Return the duration of an op that moves so many bytes and does so many multiply-adds.

    Examples
    --------
    >>> duration_ns(3110, 0), duration_ns(0, 9751), duration_ns(0, 0)
    (2, 2, 1)
    """
    return max(1, -(-nbytes // BYTES_PER_NS), -(-multiply_adds // MULTIPLY_ADDS_PER_NS))
