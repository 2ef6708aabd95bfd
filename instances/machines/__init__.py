"""Machines that come with the suite, one TOML file each, and those of users."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from ...models.checks import check_type
from ...models.errors import InstanceError, UsageError
from ...models.machine import Machine
from ...models.units import parse_bytes, parse_count
from ...models.work import DTYPES
from ..formats.native_machine import machine_from_dict
from ..formats.strict_json import nearest, parse_toml, read_bytes, read_json, show

_SIZES = {"tiers": ("capacity",), "channels": ("bytes_per_s",), "groups": ("bytes_per_s",)}


@cache
def machine_names() -> dict[str, str]:
    """Return the name of each bundled machine and what it is, sorted."""
    names = {}
    for entry in resources.files(__package__).iterdir():
        if entry.name.endswith(".toml"):
            data = tomllib.loads(entry.read_text(encoding="utf-8"))
            names[entry.name.removesuffix(".toml")] = str(data.get("description", ""))
    return dict(sorted(names.items()))


def load_machine(
    name: str | os.PathLike[str], capacities: Mapping[str, int | str | None] | None = None
) -> Machine:
    """Return a bundled machine, or that of a ``.toml`` or ``.json`` file.

    A file says what `Machine` says, with the same names (``description`` besides); sizes and rates are
    integers or texts such as ``"40GiB"``, ``"15.754GB/s"`` and ``"19.5T"`` (operations). ``compute`` may be
    the name of a bundled machine, whose rates it then has.

    Parameters
    ----------
    name
        As `machine_names` has it, or a path.
    capacities
        Other capacities of some tiers, by name: bytes, a text, or None for no limit.

    Raises
    ------
    InstanceError
        If there is no such machine, a key is unknown or missing, a value wrong, or a tier unknown.

    Examples
    --------
    >>> from lowtide.instances import load_machine
    >>> [t.name for t in load_machine("a100-40g-pcie3", {"gpu": "24GiB"}).tiers]
    ['gpu', 'host', 'ssd']
    """
    check_type(name, (str, os.PathLike), "machine", "a name or a path")
    path = os.fsdecode(name)
    data = _read(path)
    where = f"machine {path!r}"
    if not isinstance(data, dict):
        raise InstanceError(f"{where}: found {show(data)}, expected an object")
    data = {key: value for key, value in data.items() if key != "description"}
    for key, fields in _SIZES.items():
        for row in data.get(key, []) if isinstance(data.get(key), list) else []:
            _convert(row, fields, where)
    for row in data.get("processors", []) if isinstance(data.get("processors"), list) else []:
        accesses = row.get("tiers") if isinstance(row, dict) else None
        if isinstance(accesses, list):
            row["tiers"] = [{"tier": x} if isinstance(x, str) else x for x in accesses]
            for access in row["tiers"]:
                _convert(access, ("bytes_per_s",), where)
    if "compute" in data:
        data["compute"] = _compute(data["compute"], where)
    tiers = data["tiers"] if isinstance(data.get("tiers"), list) else []
    known = [row.get("name") if isinstance(row, dict) else None for row in tiers]
    for tier, capacity in (capacities or {}).items():
        if tier not in known:
            raise InstanceError(
                f"{where}: found unknown tier {tier!r}, {nearest(tier, [str(k) for k in known])}"
            )
        data["tiers"][known.index(tier)]["capacity"] = _size(capacity, where, tier)
    return machine_from_dict(data, where)


def _read(path: str) -> Any:
    if path in machine_names():
        return tomllib.loads((resources.files(__package__) / f"{path}.toml").read_text(encoding="utf-8"))
    if path.endswith(".toml"):
        return parse_toml(read_bytes(path), path)
    if path.endswith(".json"):
        return read_json(path)
    raise InstanceError(
        f"machine: found {path!r}, {nearest(path, machine_names())}, or a .toml or .json file"
    )


def _compute(given: Any, where: str) -> Any:
    """Return the table of rates; of a machine's name, the table of that machine."""
    if isinstance(given, str):
        names = rated_machines()
        if given not in names:
            raise InstanceError(f"{where}, compute: found {given!r}, {nearest(given, names)}, or a table")
        return {"device": given, **_compute(_read(given)["compute"], where)}
    if isinstance(given, dict):
        _convert(given, ("bytes_per_s",), f"{where}, compute")
        _convert(given.get("operations_per_s"), DTYPES, f"{where}, compute, operations_per_s")
    return given


@cache
def rated_machines() -> tuple[str, ...]:
    """Return the names of the bundled machines that state rates of computation, sorted."""
    return tuple(name for name in machine_names() if "compute" in _read(name))


def _convert(row: object, fields: Iterable[str], where: str) -> None:
    """Turn texts that state sizes and rates into numbers."""
    if not isinstance(row, dict):
        return
    named = [f"{key} {show(row[key])}" for key in ("name", "src", "dst", "tier") if key in row]
    for field in fields:
        if isinstance(row.get(field), str):
            row[field] = _size(row[field], ", ".join([where, *named]), field)


def _size(value: int | str | None, where: str, what: str) -> int | None:
    if not isinstance(value, str):
        return value
    if value == "none":
        return None
    try:
        if what in DTYPES:
            return parse_count(value)
        return parse_bytes(value.strip().removesuffix("/s") if what == "bytes_per_s" else value)
    except UsageError:
        expected = "bytes such as 40GiB, or none"
        if what in DTYPES:
            expected = "operations per second such as 19.5T"
        elif what == "bytes_per_s":
            expected = "bytes per second such as 15.754GB/s"
        raise InstanceError(f"{where}, {what}: found {value!r}, expected {expected}") from None
