"""The native plan format: JSON, also gzipped, read as strictly as graphs are.

::

    {"format": "lowtide/plan", "version": 1, "graph": {"name", "source", "sha256"}, "machine",
     "accounting", "start", "start_tiers"?, "period", "stages"?, "runs", "copies", "frees", "allocation"?,
     "claim"?}

It is what `Plan.to_dict` returns. ``graph``, ``machine`` and ``runs`` must be there. ``start_tiers`` is what
the question allowed, ``{kind: [tier]}``; kinds that it does not name may start anywhere, and without it
inputs start in the last tier. ``claim`` is what the result says that the plan was written from: ``problem``,
``method``, ``status``, ``objective``, ``bound``. In the file a
relative path in the graph's ``source`` counts from the folder of the plan, so that both can move
together; in memory it counts from the working folder, as ``load`` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...models.errors import InstanceError
from ...models.files import write_packed
from ...models.graph import KINDS, Accounting
from ...models.machine import Machine
from ...models.plan import ByteRange, Copy, Free, Plan, PlanClaim, Resident, Run
from ...models.result import Status
from ..spec import relative_spec, resolved_spec
from .native_machine import machine_from_dict
from .strict_json import (
    FLAG,
    REFERENCE,
    SIZE,
    TEXT,
    Field,
    check_header,
    check_object,
    check_rows,
    dump_json,
    is_int_list,
    is_list,
    is_object,
    is_positive,
    is_size,
    is_text,
    nearest,
    optional,
    parse_json,
    read_bytes,
    required,
    show,
)

_INDEX = required(Field(is_size, "an index (an integer >= 0)"))
_TIME = required(Field(is_size, "an integer >= 0 (nanoseconds)"))
_RANGE = Field(
    lambda value: is_int_list(value) and len(value) == 2 and 0 <= value[0] <= value[1],
    "a byte range [first, end] with 0 <= first <= end",
)
_PLAN = {
    "format": required(TEXT),
    "version": required(SIZE),
    "graph": required(Field(is_object, "an object")),
    "machine": required(Field(is_object, "a machine")),
    "accounting": Field(
        lambda value: type(value) is str and value in tuple(Accounting),
        " or ".join(f'"{a}"' for a in Accounting),
    ),
    "start": Field(is_list, "a list of what is resident at time 0"),
    "start_tiers": Field(is_object, "an object from kinds of tensors to lists of tiers"),
    "period": Field(optional(is_positive), "an integer >= 1 (nanoseconds) or null"),
    "stages": Field(is_int_list, "a list of nanoseconds"),
    "runs": required(Field(is_list, "a list of runs")),
    "copies": Field(is_list, "a list of copies"),
    "frees": Field(is_list, "a list of frees"),
    "allocation": Field(
        lambda value: type(value) is dict and all(map(is_size, value.values())),
        "an object from buffer ids to offsets (integers >= 0)",
    ),
    "claim": Field(is_object, "an object"),
}
_NUMBER = Field(optional(is_size), "an integer >= 0 or null")
_CLAIM = {
    "problem": required(TEXT),
    "method": required(TEXT),
    "status": required(
        Field(lambda value: is_text(value) and value in tuple(Status), f"one of {', '.join(Status)}")
    ),
    "objective": _NUMBER,
    "bound": _NUMBER,
}
_START = {"tensor": _INDEX, "tier": required(TEXT), "bytes": _RANGE, "valid": FLAG}
_RUN = {
    "op": _INDEX,
    "mode": _INDEX._replace(required=False),
    "start": _TIME,
    "end": _TIME,
    "processor": required(TEXT),
}
_COPY = {
    "tensor": _INDEX,
    "src": required(TEXT),
    "dst": required(TEXT),
    "start": _TIME,
    "end": _TIME,
    "bytes": _RANGE,
}
_FREE = {"tensor": _INDEX, "tier": required(TEXT), "time": _TIME, "bytes": _RANGE}


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Return the plan of a file, ``.json`` or ``.json.gz``.

    Raises
    ------
    InstanceError
        If the file cannot be read or is not exactly of the format. Whether the plan is a valid one
        is the verifier's question.
    """
    where = os.fspath(path)
    return plan_from_dict(parse_json(read_bytes(path), where), where, folder=os.path.dirname(where))


def plan_from_dict(data: Any, where: str = "plan", *, folder: str = "") -> Plan:
    """Return the plan of a native JSON object.

    Parameters
    ----------
    folder
        From where a relative path in the graph's source counts.

    Raises
    ------
    InstanceError
        If it is not exactly of the format.
    """
    check_header(data, "plan", where)
    check_object(data, _PLAN, where)
    graph = data["graph"]
    check_object(graph, REFERENCE, f"{where}, graph")
    start, copies, frees = (data.get(key, []) for key in ("start", "copies", "frees"))
    check_rows(start, _START, where, "start")
    check_rows(data["runs"], _RUN, where, "run")
    check_rows(copies, _COPY, where, "copy")
    check_rows(frees, _FREE, where, "free")
    if (claim := data.get("claim")) is not None:
        check_object(claim, _CLAIM, f"{where}, claim")
    source = graph.get("source")
    machine = machine_from_dict(data["machine"], f"{where}, machine")
    return Plan(
        machine=machine,
        accounting=data.get("accounting", Accounting.COEXIST),
        start=tuple(Resident(**_with_range(row)) for row in start),
        start_tiers=_start_tiers(data.get("start_tiers"), machine, f"{where}, start_tiers"),
        runs=tuple(Run(**{"mode": 0, **row}) for row in data["runs"]),
        copies=tuple(Copy(**_with_range(row)) for row in copies),
        frees=tuple(Free(**_with_range(row)) for row in frees),
        period=data.get("period"),
        stages=tuple(data["stages"]) if "stages" in data else None,
        graph_name=graph.get("name", ""),
        graph_source=None if source is None else resolved_spec(source, folder),
        graph_sha256=graph.get("sha256"),
        allocation=data.get("allocation"),
        claim=None if claim is None else PlanClaim(**claim),
    )


def write_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write a plan in the native format; gzipped if the name ends in ``.gz``.

    The same plan always gives the same bytes; the file is written whole or not at all.

    Raises
    ------
    UsageError
        If the path cannot be written.
    """
    data = plan.to_dict()
    if plan.graph_source is not None:
        source = relative_spec(plan.graph_source, os.path.dirname(os.fspath(path)))
        data["graph"]["source"] = source
    content = dump_json(data, ("start", "runs", "copies", "frees"))
    write_packed(path, content)


def _start_tiers(
    data: Mapping[str, object] | None, machine: Machine, where: str
) -> dict[str, tuple[str, ...]] | None:
    """Return by kind of tensor the tiers where the plan says that it may start."""
    if data is None:
        return None
    tiers = [tier.name for tier in machine.tiers]
    start = {}
    for kind, allowed in data.items():
        if kind not in KINDS:
            raise InstanceError(f"{where}: found unknown kind {kind!r}, {nearest(kind, KINDS)}")
        if not isinstance(allowed, list):
            raise InstanceError(f"{where}, {kind}: found {show(allowed)}, expected a list of tiers")
        for k, name in enumerate(allowed):
            if name not in tiers:
                raise InstanceError(
                    f"{where}, {kind}: found {show(name)}, expected one of {', '.join(tiers)}"
                )
            if name in allowed[:k]:
                raise InstanceError(f"{where}, {kind}: found tier {name!r} again, expected it once")
        start[kind] = tuple(allowed)
    return start


def _with_range(row: Mapping[str, Any]) -> dict[str, Any]:
    if "bytes" not in row:
        return dict(row)
    first, end = row["bytes"]
    byte_range: ByteRange = (first, end)
    return {**row, "bytes": byte_range}
