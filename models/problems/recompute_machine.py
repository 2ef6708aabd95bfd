"""The machines of `recompute`: one processor, a fast memory first, and the tiers that modes name."""

from __future__ import annotations

from dataclasses import replace

from ..errors import InstanceError
from ..graph import Graph
from ..machine import Access, Machine, Tier

ONE_MEMORY = Machine.single()
"""The machine where none is given, with the tiers besides that modes of the graph name."""


def with_named_tiers(machine: Machine, graph: Graph) -> Machine:
    """Return the machine with the tiers that modes name: its first one, and unlimited ones that it lacks."""
    named = {tier for op in graph.ops for mode in op.modes for _, tier in mode.operands}
    memory = ONE_MEMORY.tiers[0].name
    if machine is ONE_MEMORY:
        kinds = sorted({kind for op in graph.ops for mode in op.modes for kind in mode.processors[:1]})
        machine = replace(machine, processors=Machine.single(kinds=kinds[:1] or ("any",)).processors)
    elif memory in named - {tier.name for tier in machine.tiers}:
        machine = _renamed(machine, machine.tiers[0].name, memory)
    lost = sorted(named - {tier.name for tier in machine.tiers})
    (processor,) = machine.processors
    access = (*processor.tiers, *(Access(tier=tier) for tier in lost))
    tiers = (*machine.tiers, *(Tier(name=tier) for tier in lost))
    return replace(machine, tiers=tiers, processors=(replace(processor, tiers=access),))


def _renamed(machine: Machine, old: str, new: str) -> Machine:
    """Return the machine with another name of a tier."""

    def name(tier: str) -> str:
        return new if tier == old else tier

    return replace(
        machine,
        tiers=tuple(replace(x, name=name(x.name)) for x in machine.tiers),
        processors=tuple(
            replace(x, tiers=tuple(replace(y, tier=name(y.tier)) for y in x.tiers))
            for x in machine.processors
        ),
        channels=tuple(replace(x, src=name(x.src), dst=name(x.dst)) for x in machine.channels),
        groups=tuple(
            replace(x, channels=tuple((name(a), name(b)) for a, b in x.channels)) for x in machine.groups
        ),
    )


def check_processor(machine: Machine) -> None:
    """Raise unless there is one processor, which writes to the first tier and accesses none at extra cost."""
    where = f"recompute, machine {machine.name!r}"
    if len(machine.processors) != 1:
        raise InstanceError(f"{where}: found {len(machine.processors)} processors, expected one")
    processor = machine.processors[0]
    if processor.tiers[0].tier != machine.tiers[0].name:
        raise InstanceError(
            f"{where}: found a processor that writes to tier {processor.tiers[0].tier!r}, expected the first "
            f"tier, {machine.tiers[0].name!r}"
        )
    for access in processor.tiers:
        if access.bytes_per_s is not None:
            raise InstanceError(
                f"{where}: found tier {access.tier!r} accessed at {access.bytes_per_s} bytes per second, "
                "expected access at no extra cost"
            )


def check_kinds(machine: Machine, graph: Graph) -> None:
    """Raise unless the processor can run every op."""
    (processor,) = machine.processors
    for i, op in enumerate(graph.ops):
        if not any(not mode.processors or processor.kind in mode.processors for mode in op.all_modes):
            kinds = sorted({kind for mode in op.all_modes for kind in mode.processors})
            raise InstanceError(
                f"recompute, op {i} {op.name!r}: found kind {' or '.join(kinds)}, expected "
                f"{processor.kind}: all ops run on one processor (gen:llm: overlap=0)"
            )
