"""The work of ops, and the rates of a device, from which the time of this work follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .checks import check_integer, check_type
from .errors import InstanceError
from .texts import nearest
from .units import SECOND
from .written import Written

DTYPES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
"""Data types of arithmetic, and the bytes of a value of each in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Written):
    """Bytes and arithmetic of one kernel, or of several equal ones in a row.

    Parameters
    ----------
    nbytes
        Bytes that one kernel moves between processor and memory.
    multiply_adds
        Its multiply-adds; each is two operations.
    dtype
        Data type of the arithmetic, one of `DTYPES`.
    times
        How many such kernels run one after the other.
    """

    nbytes: int = 0
    multiply_adds: int = 0
    dtype: str = "fp32"
    times: int = 1

    def __post_init__(self) -> None:
        check_integer(self.nbytes, 0, "work, nbytes")
        check_integer(self.multiply_adds, 0, "work, multiply_adds")
        check_integer(self.times, 1, "work, times")
        check_dtype(self.dtype, "work, dtype")

    def repeated(self, times: int) -> Work:
        """Return the work of doing this so many times."""
        return replace(self, times=self.times * times)


def check_dtype(dtype: object, where: str) -> None:
    """Raise `InstanceError` unless it is one of `DTYPES`."""
    check_type(dtype, str, where, f"one of {', '.join(DTYPES)}")
    if dtype not in DTYPES:
        raise InstanceError(f"{where}: found {dtype!r}, {nearest(str(dtype), DTYPES)}")


def together(works: Iterable[Sequence[Work]]) -> tuple[Work, ...]:
    """Return the work of ops that run one after the other; empty if one of them does not state its work.

    Examples
    --------
    >>> together([(Work(nbytes=8),), (Work(nbytes=8), Work(nbytes=4))])[0]
    Work(nbytes=8, multiply_adds=0, dtype='fp32', times=2)
    >>> together([(Work(nbytes=8),), ()])
    ()
    """
    counts: dict[Work, int] = {}
    for parts in works:
        if not parts:
            return ()
        for part in parts:
            one = replace(part, times=1)
            counts[one] = counts.get(one, 0) + part.times
    return tuple(replace(one, times=times) for one, times in counts.items())


PERCENT = 100
"""The share of a rate, in percent, that is all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates(Written):
    r"""How fast a device computes, and moves bytes to and from its own memory: a roofline.

    A kernel of b bytes and m multiply-adds takes, in ns and at least 1,

    .. math:: \lceil \max(2 m / (e_f F), b / (e_b B)) \rceil + l

    with F operations per ns of its data type, B bytes per ns, the shares e of these rates that kernels reach,
    and l, what a launch costs.

    Parameters
    ----------
    operations_per_s
        ``(data type, operations per second)`` pairs, without sparsity; a multiply-add is two operations.
    bytes_per_s
        Bytes per second to and from the device's own memory.
    arithmetic_percent, memory_percent
        Shares of these rates that kernels reach, 1 to 100.
    launch_ns
        Nanoseconds that the launch of a kernel adds to its time.
    device
        What results call the device; empty: the name of the machine.
    source
        Where the rates are from, such as a data sheet.

    Examples
    --------
    >>> rates = Rates(operations_per_s=(("bf16", 989 * 10**12),), bytes_per_s=3_350 * 10**9, launch_ns=3000)
    >>> rates.duration_ns([Work(nbytes=33_500_000, dtype="bf16")])
    13000
    """

    operations_per_s: tuple[tuple[str, int], ...]
    bytes_per_s: int
    arithmetic_percent: int = PERCENT
    memory_percent: int = PERCENT
    launch_ns: int = 0
    device: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        where = "compute, operations_per_s"
        check_type(self.operations_per_s, Iterable, where, "a tuple of (data type, rate)")
        pairs = tuple((dtype, rate) for dtype, rate in self.operations_per_s)
        for dtype, rate in pairs:
            check_dtype(dtype, where)
            check_integer(rate, 1, f"{where}, {dtype}")
        if len(dict(pairs)) < len(pairs):
            raise InstanceError(f"{where}: found a data type twice, expected one rate of each")
        if not pairs:
            raise InstanceError(f"{where}: found no data type, expected one of {', '.join(DTYPES)}")
        object.__setattr__(self, "operations_per_s", pairs)
        check_integer(self.bytes_per_s, 1, "compute, bytes_per_s")
        check_integer(self.launch_ns, 0, "compute, launch_ns")
        check_type(self.device, str, "compute, device")
        check_type(self.source, str, "compute, source")
        for key in ("arithmetic_percent", "memory_percent"):
            check_integer(getattr(self, key), 1, f"compute, {key}")
            if getattr(self, key) > PERCENT:
                raise InstanceError(f"compute, {key}: found {getattr(self, key)}, expected 1 to {PERCENT}")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object; the rates by data type are an object of their own."""
        return {**Written.to_dict(self), "operations_per_s": dict(self.operations_per_s)}

    def duration_ns(self, work: Iterable[Work]) -> int:
        """Return the duration in ns of kernels that run one after the other.

        Raises
        ------
        InstanceError
            If there is arithmetic of a data type without a rate.
        """
        rates, total = dict(self.operations_per_s), 0
        for part in work:
            ns = -(-part.nbytes * SECOND * PERCENT // (self.bytes_per_s * self.memory_percent))
            if part.multiply_adds:
                if part.dtype not in rates:
                    names = ", ".join(rates)
                    raise InstanceError(f"compute: found arithmetic in {part.dtype}, expected one of {names}")
                reached = rates[part.dtype] * self.arithmetic_percent
                ns = max(ns, -(-2 * part.multiply_adds * SECOND * PERCENT // reached))
            total += part.times * max(1, ns + self.launch_ns)
        return total
