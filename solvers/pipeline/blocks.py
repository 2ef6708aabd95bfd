r"""V-Min, V-Half and V-ZB: stages there and back on p devices, from a building block of 6 slots.

Source: Qi and others, "Pipeline parallelism with controllable memory", NeurIPS 2024: the block has, for each
device, a slot of equal length for F, B and W of both of its stages. The four passes of a micro-batch
(forward there and back, backward there and back) go from device to device in steps of
:math:`\delta_1, …, \delta_4` slots, so that it is on device i for about :math:`p \sum \delta` slots in all,
and :math:`p \sum \delta / 6` activations of a stage are: a third, half and all of 1F1B's for sums of 4, 6
and 12. Shifts between passes keep their slots on a device different modulo 6.

What the paper calls squeezing is a list schedule here: what can start at the earliest time of all does, F and
B in the order of the block before W. An F on the way there that is out of its turn leaves room for two more
activations of a stage, which micro-batches on the way back may need; in a second try none is out of its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...models.derived.stages import Key
from ...models.errors import UsageError
from ...models.problems.pipeline import Pipeline

PERIOD = 6
"""Slots of F, B and W of two stages."""

STEPS = {"v-min": (1, 1, 1, 1), "v-half": (1, 2, 1, 2), "v-zb": (2, 4, 2, 4)}
"""Slots from device to device, by pass."""


def most_chunks(name: str, p: int) -> int:
    """Return the activations of a stage that a device holds at most."""
    return {"v-min": 2 * ((p + 4) // 3), "v-half": 2 * ((p + 2) // 2), "v-zb": 2 * p}[name]


def v_orders(name: str, problem: Pipeline, tick: Callable[[], object]) -> Iterator[list[list[int]]]:
    """Yield the orders of list schedules after building blocks, within the memory that they are made for.

    Raises
    ------
    UsageError
        If the stages do not go there and back.
    """
    line = problem.line
    p = line.devices
    if [x.device for x in line.stages] != [*range(p), *reversed(range(p))]:
        raise UsageError(f"method {name}: found stages placed otherwise, expected devices 0, 1, …, 1, 0")
    limit = []
    for chunk, room in zip(line.chunks, problem.room, strict=True):
        most = most_chunks(name, p) * max(line.stages[s].activation for s in chunk)
        limit.append(most if room is None else min(most, room))
    odd = 0 if p % 2 else 3
    shifts = {
        "v-min": [(0, 0 if p % 3 else 2, 0)],
        "v-half": [(0, odd, 1), (3, odd, 1)],
        "v-zb": [(0, 0, 0)],
    }
    for shift in shifts[name]:
        slots = block(p, STEPS[name], shift)
        for reserve in (2, None):
            if (orders := _list_schedule(problem, slots, limit, reserve, tick)) is not None:
                yield orders


def block(p: int, steps: Sequence[int], shift: Sequence[int]) -> dict[tuple[str, int], int]:
    """Return the slots of F and B of each stage for the first micro-batch."""
    n = 2 * p
    orders = {}
    time = 0
    passes = (
        ("F", range(p)),
        ("F", range(p, n)),
        ("B", range(n - 1, p - 1, -1)),
        ("B", range(p - 1, -1, -1)),
    )
    for (kind, stages), step, gap in zip(passes, steps, (*shift, 0), strict=True):
        for s in stages:
            orders[kind, s] = time
            time += step
        time += 1 - step + gap
    return orders


def _list_schedule(
    problem: Pipeline,
    slots: dict[tuple[str, int], int],
    limit: Sequence[int],
    reserve: int | None,
    tick: Callable[[], object],
) -> list[list[int]] | None:
    """Return the devices' orders, or None if memory holds up all.

    Parameters
    ----------
    slots
        Of the first micro-batch; turns on a device follow them.
    limit
        Bytes on each device.
    reserve
        Activations of a stage for which an F on the way there leaves room if it is not its turn; None:
        nothing but W runs out of its turn.
    """
    line, stages = problem.line, problem.line.stages
    last = len(stages) - 1
    end: dict[Key, int] = {}
    free, used = [0] * line.devices, [0] * line.devices
    orders: list[list[int]] = [[] for _ in free]
    following = {key[:2]: 0 for key in line.keys}

    def ready(kind: str, s: int, j: int) -> int | None:
        """Return when all that an op needs is there; None if that has not run."""
        needs: list[Key] = [("B", s, j)] if kind == "W" else [("F", s, j)] if kind == "B" else []
        if kind == "F" and s:
            needs.append(("F", s - 1, j))
        if kind == "B" and s < last:
            needs.append(("B", s + 1, j))
        if any(key not in end for key in needs):
            return None
        home = stages[s].device
        return max((end[x] + problem.latency_ns * (stages[x[1]].device != home) for x in needs), default=0)

    def may_run(kind: str, s: int, turn: int, in_turn: int) -> bool:
        """Return whether its turn and its device's memory let an F or B run."""
        x = stages[s]
        if turn > in_turn and reserve is None:
            return False
        kept_free = (reserve or 0) * x.activation if turn > in_turn and s < line.devices else 0
        return kind == "B" or used[x.device] + x.activation + kept_free <= limit[x.device]

    for _ in line.keys:
        tick()
        open_ = {key: j for key, j in following.items() if j < line.micro}
        turns = {key: slots[key] + PERIOD * j for key, j in open_.items() if key[0] != "W"}
        first = [min((turns[key] for key in turns if key[1] in chunk), default=0) for chunk in line.chunks]
        runs = []
        for (kind, s), j in open_.items():
            d, time = stages[s].device, ready(kind, s, j)
            if time is None or (kind != "W" and not may_run(kind, s, turns[kind, s], first[d])):
                continue
            turn = slots["B", s] + PERIOD * j if kind == "W" else turns[kind, s]
            runs.append((max(free[d], time), kind == "W", turn, d, kind, s, j))
        if not runs:
            return None
        time, _, _, d, kind, s, j = min(runs)
        i = line.op[kind, s, j]
        end[kind, s, j] = free[d] = time + line.durations[i]
        used[d] += line.change(i)
        orders[d].append(i)
        following[kind, s] += 1
    return orders
