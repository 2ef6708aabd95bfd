"""The native format of a trade-off curve, as ``lowtide solve makespan … --sweep-memory N --json`` prints it.

::

    {"format": "lowtide/trade-off", "version": 1, "instance", "problem", "machine", "durations", "method",
     "reason", "seconds", "least_memory", "bound", "points": [{"memory", "makespan", "peak", "bound",
     "proof", "gap", "status", "plan"}], "runs": [run records]}

Times are in ns, memory is in bytes. What can be computed (``gap``, ``status``), and the records of the runs,
may be left out; they are not read.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ...models.errors import InstanceError
from ...models.problems.trade_off import TradeOff, TradeOffPoint
from .strict_json import (
    SIZE,
    TEXT,
    Field,
    check_header,
    check_object,
    check_rows,
    is_list,
    is_size,
    is_text,
    optional,
    required,
)

_ANY = Field(lambda value: True, "anything")
_SIZE_OR_NULL = Field(optional(is_size), "an integer >= 0 or null")
_TEXT_OR_NULL = Field(optional(is_text), "a string or null")
_CURVE = {
    "format": required(TEXT),
    "version": required(SIZE),
    "instance": required(TEXT),
    "problem": TEXT,
    "machine": required(TEXT),
    "durations": TEXT,
    "method": TEXT,
    "reason": _TEXT_OR_NULL,
    "seconds": Field(lambda value: type(value) in (int, float) and 0 <= value <= 1e18, "seconds >= 0"),
    "least_memory": required(SIZE),
    "bound": _SIZE_OR_NULL,
    "points": required(Field(is_list, "a list of points")),
    "runs": _ANY,
}
_POINT = {
    "memory": required(SIZE),
    "makespan": required(SIZE),
    "peak": required(SIZE),
    "bound": _SIZE_OR_NULL,
    "proof": _TEXT_OR_NULL,
    "gap": _ANY,
    "status": _ANY,
    "plan": _ANY,
}


def trade_off_from_dict(data: Any, where: str = "trade-off") -> TradeOff:
    """Return the curve of a native JSON object, without plans.

    Raises
    ------
    InstanceError
        If it is not exactly of the format, or contradicts itself.

    Examples
    --------
    >>> point = {"memory": 8, "makespan": 5, "peak": 7, "bound": 5}
    >>> head = {"format": "lowtide/trade-off", "version": 1, "instance": "g", "machine": "2 processors"}
    >>> trade_off_from_dict({**head, "least_memory": 6, "points": [point]}).front
    ((7, 5),)
    """
    check_header(data, "trade-off", where)
    check_object(data, _CURVE, where)
    check_rows(data["points"], _POINT, where, "point")
    kept = ("memory", "makespan", "peak", "bound", "proof")
    points = tuple(TradeOffPoint(**{key: row.get(key) for key in kept}) for row in data["points"])
    for i, point in enumerate(points):
        if not data["least_memory"] <= point.peak <= point.memory:
            raise InstanceError(
                f"{where}: point {i}, peak: found {point.peak}, expected a number from the least memory, "
                f"{data['least_memory']}, to the point's memory, {point.memory}"
            )
        if point.bound is not None and point.bound > point.makespan:
            raise InstanceError(
                f"{where}: point {i}, bound: found {point.bound}, expected at most the makespan, "
                f"{point.makespan}"
            )
    for low, high in pairwise(points):
        if not low.memory < high.memory:
            raise InstanceError(
                f"{where}: points: found memory {high.memory} after {low.memory}, expected ascending ones"
            )
        if high.makespan > low.makespan:
            raise InstanceError(
                f"{where}: points: found makespan {high.makespan} within memory {high.memory}, expected at "
                f"most that within {low.memory}, {low.makespan}"
            )
    return TradeOff(
        instance=data["instance"],
        machine=data["machine"],
        least_memory=data["least_memory"],
        points=points,
        bound=data.get("bound"),
        method=data.get("method", "auto"),
        reason=data.get("reason"),
        seconds=float(data.get("seconds", 0.0)),
        problem=data.get("problem", "makespan"),
        durations=data.get("durations"),
    )
