"""The machine of a native plan: read strictly."""

from __future__ import annotations

from typing import Any

from ...models.errors import InstanceError
from ...models.machine import CONTENTIONS, Access, Channel, ChannelGroup, Contention, Machine, Processor, Tier
from ...models.work import DTYPES, PERCENT, Rates
from .native_measurement import measurement_from_dict
from .strict_json import (
    FLAG,
    SIZE,
    TEXT,
    Field,
    check_object,
    check_rows,
    is_list,
    is_object,
    is_positive,
    is_size,
    is_text_list,
    optional,
    required,
)

_SPEED = Field(is_positive, "an integer >= 1 (bytes per second)")

_MACHINE = {
    "name": TEXT,
    "tiers": required(Field(is_list, "a list of tiers")),
    "processors": required(Field(is_list, "a list of processors")),
    "channels": Field(is_list, "a list of channels"),
    "groups": Field(is_list, "a list of channel groups"),
    "contention": Field(is_object, "an object"),
    "provenance": Field(is_object, "an object"),
    "compute": Field(is_object, "an object, or the name of a machine whose rates these are"),
}
_TIER = {
    "name": required(TEXT),
    "capacity": Field(optional(is_size), "an integer >= 0 or null (no limit)"),
}
_PROCESSOR = {
    "name": required(TEXT),
    "kind": TEXT,
    "tiers": required(Field(is_list, "a list of tiers that it reads and writes")),
}
_ACCESS = {
    "tier": required(TEXT),
    "bytes_per_s": Field(optional(is_positive), "an integer >= 1 or null (no extra time)"),
}
_CHANNEL = {
    "src": required(TEXT),
    "dst": required(TEXT),
    "bytes_per_s": required(_SPEED),
    "latency_ns": SIZE,
    "shared": FLAG,
}
_GROUP = {
    "name": required(TEXT),
    "channels": required(
        Field(
            lambda value: type(value) is list and all(is_text_list(p) and len(p) == 2 for p in value),
            "a list of channels [src, dst]",
        )
    ),
    "bytes_per_s": required(_SPEED),
}
_CONTENTION = {
    "model": Field(lambda value: value in CONTENTIONS, f"one of {', '.join(CONTENTIONS)}"),
    "parts": Field(is_positive, "an integer >= 1"),
    "sync_ns": SIZE,
}
_PERCENT = Field(lambda value: is_positive(value) and value <= PERCENT, "an integer from 1 to 100")
_COMPUTE = {
    "operations_per_s": required(Field(is_object, f"an object with rates of {', '.join(DTYPES)}")),
    "bytes_per_s": required(_SPEED),
    "arithmetic_percent": _PERCENT,
    "memory_percent": _PERCENT,
    "launch_ns": SIZE,
    "device": TEXT,
    "source": TEXT,
}
_OPERATIONS = dict.fromkeys(DTYPES, Field(is_positive, "an integer >= 1 (operations per second)"))


def machine_from_dict(data: Any, where: str = "machine") -> Machine:
    """Return the machine of a JSON object as `Machine.to_dict` makes it.

    Raises
    ------
    InstanceError
        If a key is unknown or missing, a value has the wrong type, or the machine is not consistent.

    Examples
    --------
    >>> from lowtide import Machine
    >>> from lowtide.instances import machine_from_dict
    >>> machine = Machine.single(capacity=8)
    >>> machine_from_dict(machine.to_dict()) == machine
    True
    """
    check_object(data, _MACHINE, where)
    channels, groups = data.get("channels", []), data.get("groups", [])
    check_rows(data["tiers"], _TIER, where, "tier")
    check_rows(data["processors"], _PROCESSOR, where, "processor")
    for p in data["processors"]:
        check_rows(p["tiers"], _ACCESS, f"{where}, processor {p['name']!r}", "tier")
    check_rows(channels, _CHANNEL, where, "channel")
    check_rows(groups, _GROUP, where, "group")
    if "contention" in data:
        check_object(data["contention"], _CONTENTION, f"{where}, contention")
    if "compute" in data:
        check_object(data["compute"], _COMPUTE, f"{where}, compute")
        check_object(data["compute"]["operations_per_s"], _OPERATIONS, f"{where}, compute, operations_per_s")
    processors = [
        Processor(**{**p, "tiers": tuple(Access(**a) for a in p["tiers"])}) for p in data["processors"]
    ]
    try:
        return Machine(
            name=data.get("name", "machine"),
            tiers=tuple(Tier(**t) for t in data["tiers"]),
            processors=tuple(processors),
            channels=tuple(Channel(**c) for c in channels),
            groups=tuple(
                ChannelGroup(**{**g, "channels": tuple((a, b) for a, b in g["channels"])}) for g in groups
            ),
            contention=Contention(**data["contention"]) if "contention" in data else None,
            provenance=measurement_from_dict(data["provenance"]) if "provenance" in data else None,
            compute=_rates(data["compute"]) if "compute" in data else None,
        )
    except InstanceError as error:
        raise InstanceError(f"{where}: {error}") from None


def _rates(data: Any) -> Rates:
    return Rates(**{**data, "operations_per_s": tuple(data["operations_per_s"].items())})
