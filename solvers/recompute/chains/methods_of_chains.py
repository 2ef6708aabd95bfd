"""The methods of `recompute` for chains: from the problem to a schedule, and from that to actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ....models.errors import UsageError
from ....models.graph import Accounting
from ....models.lowering.actions import transfer_ns
from ....models.problems.recompute import Answer, Compute, Recompute, Transfer
from ....models.units import exact_bytes
from ....models.verifier.verify import verify
from ...context import Context, Outcome
from .chain import PlainChain, is_taped, plain_chain, taped_chain
from .segments import equal_places, recompute_in_segments, sqrt_places, store_in_segments

if TYPE_CHECKING:
    from .hetero import Costs


def solve_recompute_all(problem: Recompute, context: Context) -> Outcome:
    """Offer the schedule that keeps nothing but x_0."""
    chain = plain_chain(problem, "recompute-all")
    return _offer_if_it_fits(problem, context, _ops(recompute_in_segments(chain.forwards, [0]).tolist()))


def solve_hybrid(problem: Recompute, context: Context) -> Outcome:
    """Offer as many equal segments as there are slots, each computed again for every backward."""
    chain = plain_chain(problem, "hybrid")
    slots = slots_in_memory(problem, chain)
    if slots < 1:
        return _no_slot(problem)
    places = equal_places(chain.forwards, slots)
    return _offer(problem, context, _ops(recompute_in_segments(chain.forwards, places).tolist()))


def solve_sqrt(problem: Recompute, context: Context) -> Outcome:
    """Offer the schedule of sqrt(n) segments, each computed again once and stored."""
    chain = plain_chain(problem, "sqrt")
    places = sqrt_places(chain.forwards)
    return _offer_if_it_fits(problem, context, _ops(store_in_segments(chain.forwards, places).tolist()))


def solve_revolve(problem: Recompute, context: Context) -> Outcome:
    """Offer the schedule of least forwards for the slots in memory."""
    from .revolve import revolve

    chain = plain_chain(problem, "revolve")
    slots = slots_in_memory(problem, chain)
    if slots < 1:
        return _no_slot(problem)
    return _offer(problem, context, _ops(revolve(chain.forwards, slots).tolist()))


def solve_disk_revolve(problem: Recompute, context: Context) -> Outcome:
    """Offer the schedule of least time with slots in memory and any number on the second tier."""
    from .disk_revolve import disk_revolve

    chain, slots, write, read = _with_disk(problem, "disk-revolve")
    if slots < 1:
        return _no_slot(problem)
    times = _times(chain)
    _, codes = disk_revolve(
        chain.forwards, slots, write, read, *times, read_once=context.options["reads"] == "once"
    )
    tiers = [tier.name for tier in problem.machine.tiers[:2]]
    return _offer(problem, context, _steps(chain, codes.tolist(), tiers))


def solve_periodic_disk_revolve(problem: Recompute, context: Context) -> Outcome:
    """Offer the best schedule whose checkpoints on the second tier are equally far apart."""
    from .disk_revolve import periodic_disk_revolve

    chain, slots, write, read = _with_disk(problem, "periodic-disk-revolve")
    if slots < 1:
        return _no_slot(problem)
    _, codes, period = periodic_disk_revolve(chain.forwards, slots, write, read, *_times(chain))
    tiers = [tier.name for tier in problem.machine.tiers[:2]]
    _offer(problem, context, _steps(chain, codes.tolist(), tiers))
    return Outcome(detail=f"period {period}" if period else "no disk needed")


def solve_h_revolve(problem: Recompute, context: Context) -> Outcome:
    """Offer the schedule of least time with slots in every tier.

    Tiers without a channel from or to the fast memory have none.
    """
    from .h_revolve import h_revolve

    chain = plain_chain(problem, "h-revolve")
    nbytes = _uniform(chain, "h-revolve")
    slots, write, read = [slots_in_memory(problem, chain)], [0], [0]
    tiers = [problem.fast]
    channels = {(c.src, c.dst) for c in problem.machine.channels}
    for tier in problem.machine.tiers[1:]:
        if {(problem.fast, tier.name), (tier.name, problem.fast)} <= channels:
            tiers.append(tier.name)
            many = tier.capacity is None or not nbytes
            slots.append(chain.forwards + 1 if many else (tier.capacity or 0) // nbytes)
            write.append(transfer_ns(problem.machine, problem.fast, tier.name, nbytes))
            read.append(transfer_ns(problem.machine, tier.name, problem.fast, nbytes))
    if slots[0] < 0:
        return _no_slot(problem)
    plan = h_revolve(chain.forwards, slots, write, read, *_times(chain))
    if plan is None:
        return _no_slot(problem)
    return _offer(problem, context, _steps(chain, plan[1].tolist(), tiers))


def solve_mixed(problem: Recompute, context: Context) -> Outcome:
    """Offer the schedule of least forwards for slots that keep states or what backwards need."""
    from .mixed import mixed

    chain = taped_chain(problem, "mixed")
    l = chain.stages  # noqa: E741
    tape = [a + s for a, s in zip(chain.a_bytes[1:], chain.saved_bytes, strict=True)]
    unit = max(*tape, *chain.a_bytes)
    space = max(*chain.forward_space, *chain.backward_space) + 2 * max(chain.d_bytes)
    slots = l if problem.memory is None or not unit else (problem.memory - space) // unit - 2
    plan = mixed(l, slots) if slots >= 0 else None
    if plan is None:
        return _no_slot(problem)
    return _offer(problem, context, _taped_steps(l, plan[1].tolist()))


def solve_hetero_chain(problem: Recompute, context: Context) -> Outcome:
    """Offer the best persistent schedule of a chain of any sizes and times."""
    from .hetero import SLOTS, hetero_chain

    stages, _, goes_on = _any_chain(problem, context, "hetero-chain")
    memory = _memory_of(problem, stages)
    plan = hetero_chain(stages, memory, context.options.get("memory-slots", SLOTS), goes_on)
    if plan is None and context.expired:
        return Outcome(reason="time")
    if plan is None:
        return Outcome(detail=f"found no persistent schedule in {exact_bytes(memory)}, counted in slots")
    _, codes, unit = plan
    _offer(problem, context, _runs(stages, codes.tolist()))
    return Outcome(detail=f"memory counted in slots of {exact_bytes(unit)}")


def solve_tiered_chain(problem: Recompute, context: Context) -> Outcome:
    """Offer the best schedule of a chain of any sizes and times with checkpoints in every tier.

    Tiers without a channel from or to the fast memory have none. Those that are slower to reach keep for
    longer.
    """
    from .hetero import SLOTS
    from .tiered import SlowTier, tiered_chain

    stages, inputs, goes_on = _any_chain(problem, context, "tiered-chain")
    memory = _memory_of(problem, stages)
    machine, fast = problem.machine, problem.fast
    channels = {(c.src, c.dst) for c in machine.channels}
    tiers: dict[str, SlowTier] = {}
    for tier in machine.tiers[1:]:
        if {(fast, tier.name), (tier.name, fast)} <= channels:
            write, read = (
                tuple(transfer_ns(machine, *ends, nbytes) for nbytes in stages.inputs)
                for ends in ((fast, tier.name), (tier.name, fast))
            )
            tiers[tier.name] = SlowTier(capacity=tier.capacity, write=write, read=read)
    names = sorted(tiers, key=lambda name: sum(tiers[name].write) + sum(tiers[name].read))
    slots = context.options.get("memory-slots", SLOTS)
    plan = tiered_chain(stages, memory, [tiers[name] for name in names], slots, goes_on)
    if plan is None and context.expired:
        return Outcome(reason="time")
    if plan is None:
        return Outcome(detail=f"found no persistent schedule in {exact_bytes(memory)}, counted in slots")
    _, steps, unit = plan
    runs = iter(_runs(stages, [step for step in steps if isinstance(step, int)]))
    ways = [(fast, name) for name in names]
    done = [
        next(runs)
        if isinstance(step, int)
        else Transfer(inputs[step[1]], *ways[step[0] - 1][:: 1 if step[2] else -1])
        for step in steps
    ]
    _offer(problem, context, done)
    return Outcome(detail=f"memory counted in slots of {exact_bytes(unit)}")


def _any_chain(
    problem: Recompute, context: Context, method: str
) -> tuple[Costs, tuple[int, ...], Callable[[int], bool]]:
    """Return the stages of a chain of either form, the tensors they begin with, and what ends a program."""
    from .hetero import stages_of_plain, stages_of_taped

    if is_taped(problem.graph):
        taped = taped_chain(problem, method)
        stages, inputs = stages_of_taped(taped), taped.a[:-1]
    else:
        plain = plain_chain(problem, method)
        in_place = problem.graph.accounting is Accounting.REPLACE
        stages, inputs = stages_of_plain(plain, in_place=in_place), plain.x

    def goes_on(length: int) -> bool:
        if length % 10 == 0:
            context.progress(f"segments of {length} of {len(stages.forward)} stages")
        return not context.expired

    return stages, inputs, goes_on


def _memory_of(problem: Recompute, stages: Costs) -> int:
    """Return the bytes of the memory; where it has no limit, enough for everything."""
    if problem.memory is not None:
        return problem.memory
    return 4 * sum(stages.inputs + stages.tape) + max(stages.save) + max(stages.back + stages.need_next)


def without_tiers(problem: Recompute) -> str:
    """Return why nothing can be copied to another tier; empty if something can."""
    return "" if problem.machine.channels else "found no channel to a slower tier, expected one"


def offer_with_tiers(problem: Recompute, context: Context) -> Outcome:
    """Offer the best schedule of a chain with slower tiers."""
    plain = not is_taped(problem.graph) and _differing(plain_chain(problem, "auto")) is None
    return (solve_h_revolve if plain else solve_tiered_chain)(problem, context)


def slots_in_memory(problem: Recompute, chain: PlainChain) -> int:
    """Return how many x_i fit beside the buffers in work, all as large as the largest tensor; below 0: none.

    In work are x_i and y_{i+1}, and with `coexist` also what an op makes of them.
    """
    unit = max((*chain.x_bytes, *chain.y_bytes))
    space = max((*chain.forward_space, *chain.backward_space))
    if problem.memory is None or not unit:
        return chain.forwards + 1
    in_work = 2 if problem.graph.accounting is Accounting.REPLACE else 3
    return min((problem.memory - space) // unit - in_work, chain.forwards + 1)


def _no_slot(problem: Recompute) -> Outcome:
    assert problem.memory is not None
    return Outcome(detail=f"found no room for one slot beside the buffers in {exact_bytes(problem.memory)}")


def _differing(chain: PlainChain) -> str | None:
    """Return which sizes or times of the chain are not all equal, None if they are."""
    for what, values in (
        ("sizes of x_i", set(chain.x_bytes)),
        ("times of forwards", set(chain.forward_ns)),
        ("times of backwards", set(chain.backward_ns)),
    ):
        if len(values) > 1:
            return f"{len(values)} different {what}"
    return None


def _uniform(chain: PlainChain, method: str) -> int:
    """Return the bytes of every x_i; raise unless sizes and times are equal."""
    if (found := _differing(chain)) is not None:
        raise UsageError(f"method {method}: found {found}, expected equal ones")
    return chain.x_bytes[0]


def _times(chain: PlainChain) -> tuple[int, int]:
    """Return the ns of a forward and of a backward of a uniform chain."""
    return chain.forward_ns[0] if chain.forwards else 1, chain.backward_ns[0]


def _with_disk(problem: Recompute, method: str) -> tuple[PlainChain, int, int, int]:
    """Return the chain, the slots in memory, and the ns to write and to read a checkpoint."""
    chain = plain_chain(problem, method)
    nbytes = _uniform(chain, method)
    machine = problem.machine
    if len(machine.tiers) < 2:
        raise UsageError(f"method {method}: found one tier, expected a machine with a second one")
    disk = machine.tiers[1]
    needed = (chain.forwards + 1) * nbytes
    if disk.capacity is not None and disk.capacity < needed:
        raise UsageError(
            f"method {method}: found {exact_bytes(disk.capacity)} in tier {disk.name!r}, expected at least "
            f"{exact_bytes(needed)} (h-revolve takes less)"
        )
    write = transfer_ns(machine, problem.fast, disk.name, nbytes)
    return (
        chain,
        slots_in_memory(problem, chain),
        write,
        transfer_ns(machine, disk.name, problem.fast, nbytes),
    )


def _ops(codes: list[int]) -> list[Compute | Transfer]:
    runs = [Compute(i) for i in range(max(codes) + 1)]
    return [runs[code] for code in codes]


def _steps(chain: PlainChain, codes: list[int], tiers: list[str]) -> list[Compute | Transfer]:
    """Return runs and transfers of the codes of `h_revolve`."""
    steps: list[Compute | Transfer] = [Compute(i) for i in range(2 * chain.forwards + 1)]
    for x in chain.x:
        for tier in tiers:
            steps += [Transfer(x, tiers[0], tier), Transfer(x, tier, tiers[0])]
    return [steps[code] for code in codes]


def _runs(stages: Costs, codes: list[int]) -> list[Compute | Transfer]:
    """Return the runs of the codes of `hetero`."""
    return _taped_steps(len(stages.forward), codes) if stages.taped else _ops(codes)


def _taped_steps(stages: int, codes: list[int]) -> list[Compute | Transfer]:
    """Return the runs of the codes of `mixed`."""
    runs = [Compute(i) for i in range(2 * stages)] + [Compute(i, 1) for i in range(stages)]
    return [runs[code] for code in codes]


def _offer(problem: Recompute, context: Context, steps: Iterable[Compute | Transfer]) -> Outcome:
    """Offer steps that were planned for the memory."""
    context.raise_bound(problem.least_time, kind="each op once")
    context.offer(problem.with_discards(steps))
    return Outcome()


def _offer_if_it_fits(problem: Recompute, context: Context, steps: Iterable[Compute | Transfer]) -> Outcome:
    """Offer steps that may need more memory than there is, unless they do."""
    context.raise_bound(problem.least_time, kind="each op once")
    answer: Answer = problem.with_discards(steps)
    if problem.memory is not None:
        peak = verify(problem.graph, problem.lower(answer), rerun=True).peaks[problem.fast]
        if peak > problem.memory:
            return Outcome(detail=f"its schedule needs {exact_bytes(peak)}, of {exact_bytes(problem.memory)}")
    context.offer(answer)
    return Outcome()
