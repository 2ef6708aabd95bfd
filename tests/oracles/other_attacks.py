"""Attacks that the naive simulator cannot follow: huge numbers, foreign objects, allocations in a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lowtide.models.graph import Graph
from lowtide.models.machine import Access, Channel, Machine, Processor, Tier
from lowtide.models.plan import Copy, Free, Plan, Resident, Run
from tests.oracles.attack_kit import F, S, op, plan, run, tensor, with_machine
from tests.oracles.attacks_on_contention import attacks_on_contention
from tests.random_plans import Case

HUGE = 2**60 + 1
SECOND = 10**9


def machine(limit: int, capacity: int | None = None) -> Machine:
    tiers = (Tier(name=F, capacity=capacity), Tier(name=S))
    return with_machine(tiers=tiers, channels=(Channel(src=S, dst=F, bytes_per_s=limit),))


def case(tensors: list[Any], ops: list[Any], made: Plan) -> Case:
    return Case(Graph(name="other", tensors=tuple(tensors), ops=tuple(ops)), made)


def raw(made: Plan, **fields: object) -> Plan:
    """Return the plan with fields that its constructor would not take."""
    changed = replace(made)
    for name, value in fields.items():
        object.__setattr__(changed, name, value)
    return changed


def other_attacks() -> dict[str, tuple[Case, set[str]]]:
    """Return each attack with the kinds of violation that it must be given."""
    big = [tensor(HUGE, "i")]
    moved = (Resident(0, S), Copy(0, S, F, 0, SECOND))
    slow = Processor(name="p0", tiers=(Access(tier=F, bytes_per_s=SECOND + 7),))
    slowly = with_machine(processors=(slow,))
    exact = 4 + -(-HUGE * SECOND // (SECOND + 7))
    read = [op((0,))]
    late = 2**63 - 1
    primes = [tensor(1, "i") for _ in range(3)]
    spread = [x for t, d in enumerate((3, 5, 7)) for x in (Resident(t, S), Copy(t, S, F, 0, d))]
    p, q = 2**33 - 1, 2**33 - 3
    a = p - pow(q, -1, p)  # a / p + b / q = 1 - 1 / (p * q)
    b = (p * q - 1 - a * q) // p
    long = [Copy(0, S, F, 0, p * SECOND), Copy(1, S, F, 0, q * SECOND)]
    sides = [Resident(0, S), Resident(1, S), *long]
    below, above = [tensor(a, "i"), tensor(b, "i")], [tensor(p - a, "i"), tensor(q - b, "i")]
    r = 4_599_999_999
    u = (r + 1) // 4  # u / r + v / (r - 4) = 1 - 1 / (r * (r - 4))
    v = (r * (r - 4) - 1 - u * (r - 4)) // r
    relay = [Copy(0, S, F, 0, r * SECOND), Copy(1, S, F, 9, r * SECOND + 9)]
    relay.append(Copy(2, S, F, r * SECOND, (2 * r - 4) * SECOND))
    three = [tensor(u, "i"), tensor(u, "i"), tensor(v, "i")]
    relayed = plan(*(Resident(t, S) for t in range(3)), *relay, machine=machine(1))
    foreign = {"start": (3,), "runs": (None,), "copies": ("x",), "frees": (run(0, 0),)}
    a_list: Any = []
    a_dict: Any = {}
    odd = (
        Resident(a_list, a_dict),
        Run(a_dict, a_list, a_list, a_dict, a_list),
        Copy(a_dict, a_list, a_dict, 0, 1),
        Free(a_list, a_dict, 0),
    )
    of_three: Any = (0, 1, 2)
    number: Any = 1
    two = [tensor(4, "f"), tensor(4, "f")], [op((), (0,)), op((), (1,))]
    both = plan(run(0, 0), run(1, 0, "p1"))
    first, second = f"0:t@{F}@0", f"1:t@{F}@0"
    one = [tensor(4, "i")]
    return {
        "huge copy, exactly the rate": (case(big, [], plan(*moved, machine=machine(HUGE))), set()),
        "huge copy, 1 B/s too fast": (
            case(big, [], plan(*moved, machine=machine(HUGE - 1))),
            {"channel-rate"},
        ),
        "huge tensor, exactly the capacity": (
            case(big, [], plan(*moved, machine=machine(HUGE, HUGE))),
            set(),
        ),
        "huge tensor, 1 byte too many": (
            case(big, [], plan(*moved, machine=machine(HUGE, HUGE - 1))),
            {"capacity"},
        ),
        "huge operand, exact": (
            case(big, read, plan(Resident(0, F), run(0, 0, ns=exact), machine=slowly)),
            set(),
        ),
        "huge operand, 1 ns less": (
            case(big, read, plan(Resident(0, F), run(0, 0, ns=exact - 1), machine=slowly)),
            {"duration"},
        ),
        "thirds, fifths and sevenths": (case(primes, [], plan(*spread, machine=machine(676_190_477))), set()),
        "thirds, fifths and sevenths, rounded down": (
            case(primes, [], plan(*spread, machine=machine(676_190_476))),
            {"channel-rate"},
        ),
        "2**-66 B/s below the rate": (case(below, [], plan(*sides, machine=machine(1))), set()),
        "2**-66 B/s above the rate": (case(above, [], plan(*sides, machine=machine(1))), {"channel-rate"}),
        "2**-64 B/s below the rate, after another copy of that duration": (case(three, [], relayed), set()),
        "the last nanosecond": (case([], [op()], plan(run(0, late - 4))), set()),
        "beyond the last nanosecond": (case([], [op()], plan(run(0, late - 3))), {"shape", "missing-run"}),
        "no machine": (case([], [op()], raw(plan(run(0, 0)), machine=None)), {"shape"}),
        "foreign objects": (case(one, [], raw(plan(), **foreign)), {"shape"}),
        "unhashable fields": (case(one, [], plan(*odd)), {"shape"}),
        "range of three": (case(one, [], plan(Resident(0, F, of_three))), {"shape"}),
        "valid that is no bool": (case(one, [], plan(Resident(0, F, None, number))), {"shape"}),
        "two buffers side by side": (case(*two, replace(both, allocation={first: 0, second: 4})), set()),
        "two buffers on top of each other": (
            case(*two, replace(both, allocation={first: 0, second: 3})),
            {"allocation-overlap"},
        ),
        "buffer without offset": (case(*two, replace(both, allocation={first: 0})), {"allocation-missing"}),
        "offset without buffer": (
            case(*two, replace(both, allocation={first: 0, second: 4, "x": 0})),
            {"allocation-unknown"},
        ),
        "allocation that is a list": (case(*two, raw(both, allocation=[0, 4])), {"shape"}),
        "allocation of a plan that frees nothing": (
            case(one, [], plan(Resident(0, F), Free(0, S, 0), allocation={})),
            {"free"},
        ),
        **attacks_on_contention(),
    }
