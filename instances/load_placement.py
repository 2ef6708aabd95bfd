"""Placement problems: a graph, a machine and a question in one specification."""

from __future__ import annotations

import os

from ..models.errors import InstanceError
from ..models.machine import Machine
from ..models.problems.placement import Placement
from .formats.strict_json import nearest, show
from .load import load
from .machines import load_machine
from .options import Parameter, typed_options
from .spec import Spec, parse_spec

_FLAGS = {
    "periodic": Parameter(False, "the steady state of an iteration"),
    "whole": Parameter(False, "copies move whole tensors"),
}
_ALIASES = ("device", "host")
"""Capacities of the tiers that processors use first, and of the first one behind them."""

_REPLICAS = {"replicas": Parameter(1, "copies of the graph, one per processor")}

_CAPACITY = "capacity."
_START = "start."
ANYWHERE, DEVICE = "anywhere", "device"


def load_placement(spec: str | os.PathLike[str], **options: object) -> Placement:
    """Return the placement problem that a specification names.

    Besides the options of the graph, in the specification or as keywords:

    ======================  ========================================================================
    ``machine=NAME``        a bundled machine or a ``.toml`` or ``.json`` file; must be given
    ``device=SIZE``         capacity of its first tier (with several processors: of the first one of
                            each); ``host=SIZE``: of the next one
    ``capacity.TIER=SIZE``  capacity of any tier; ``none``: no limit
    ``periodic=1``          the steady state instead of a single run
    ``whole=1``             copies move whole tensors, without interruption
    ``start.KIND=TIER``     where tensors of a kind may start: ``ssd``, ``host+ssd``; ``anywhere``: in every
                            tier; kinds that are not named may start anywhere, and without any such option
                            single runs have their inputs in the last tier
    ``start=TIER``          where tensors of all kinds start; ``device``: where processors run
    ``replicas=N``          N copies of the graph, one for each of the first N processors
    ======================  ========================================================================

    Raises
    ------
    InstanceError
        If the graph or the machine cannot be loaded, or an option is unknown, missing or wrong.

    Examples
    --------
    >>> from lowtide.instances.load_placement import load_placement
    >>> problem = load_placement("gen:chain?n=5&machine=a100-40g-pcie3&device=24GiB&periodic=1")
    >>> problem.machine.tiers[0].capacity, problem.periodic
    (25769803776, True)
    """
    parsed = parse_spec(spec)
    given = {**parsed.options, **options}
    ours = {key: value for key, value in given.items() if _is_ours(key)}
    rest = {key: value for key, value in given.items() if key not in ours}
    bare = Spec(parsed.scheme, parsed.name)
    where = str(Spec(parsed.scheme, parsed.name, {k: str(v) for k, v in given.items()}))
    if "machine" not in ours:
        raise InstanceError(f"instance {where!r}: found no option machine, expected machine=NAME or a file")
    machine = load_machine(str(ours["machine"]))
    if "replicas" in ours:
        rest["copies"] = "+".join(_kinds(machine, ours["replicas"], where))
    graph = load(str(bare) if parsed.scheme != "path" else _path(parsed.name), **rest)
    tiers = [t.name for t in machine.tiers]
    devices = _devices(machine)
    sizes = {}
    for key, value in ours.items():
        if key in _ALIASES:
            meant = devices if key == "device" else [tier for tier in tiers if tier not in devices][:1]
            if not meant:
                raise InstanceError(
                    f"instance {where!r}: found option {key}, expected a machine with a second tier"
                )
            sizes.update(dict.fromkeys(meant, value))
        elif key.startswith(_CAPACITY):
            sizes[key.removeprefix(_CAPACITY)] = value
    if sizes:
        texts = {tier: value if isinstance(value, int) else str(value) for tier, value in sizes.items()}
        machine = load_machine(str(ours["machine"]), texts)
    flags = typed_options({key: ours[key] for key in _FLAGS if key in ours}, _FLAGS, where)
    start = {}
    for key, value in ours.items():
        if key == "start" or key.startswith(_START):
            kinds = (
                sorted({str(t.kind) for t in graph.tensors}) if key == "start" else [key.removeprefix(_START)]
            )
            for kind in kinds:
                start[kind] = _tiers(str(value), tiers, devices, where)
    source = Spec(parsed.scheme, parsed.name, {key: _text(value) for key, value in given.items()})
    return Placement(
        graph,
        machine,
        periodic=bool(flags["periodic"]),
        whole=bool(flags["whole"]),
        start=start or None,
        source=str(source),
    )


def _is_ours(key: str) -> bool:
    fixed = ("machine", "start", *_FLAGS, *_ALIASES, *_REPLICAS)
    return key in fixed or key.startswith((_CAPACITY, _START))


def _path(name: str) -> os.PathLike[str]:
    from pathlib import Path

    return Path(name)


def _devices(machine: Machine) -> list[str]:
    """Return the tiers that processors use first."""
    return sorted({p.tiers[0].tier for p in machine.processors}, key=[t.name for t in machine.tiers].index)


def _kinds(machine: Machine, value: object, where: str) -> list[str]:
    """Return the kinds of the first processors of the machine."""
    many = int(typed_options({"replicas": value}, _REPLICAS, where)["replicas"])
    kinds = [p.kind for p in machine.processors[:many]]
    if not 1 <= many <= len(machine.processors):
        raise InstanceError(
            f"instance {where!r}, replicas: found {many}, expected 1 to {len(machine.processors)}, the "
            f"processors of machine {machine.name!r}"
        )
    return kinds


def _tiers(name: str, tiers: list[str], devices: list[str], where: str) -> tuple[str, ...]:
    """Return the tiers that a word of option `start` means."""
    if name in (ANYWHERE, DEVICE) and name not in tiers:
        return tuple(tiers if name == ANYWHERE else devices)
    names = (name,) if name in tiers else tuple(name.split("+"))
    for tier in names:
        if tier not in tiers:
            raise InstanceError(
                f"instance {where!r}, start: found tier {show(tier)}, "
                f"{nearest(tier, [*tiers, ANYWHERE, DEVICE])}"
            )
    return names


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
