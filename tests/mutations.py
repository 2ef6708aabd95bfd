"""Small changes to a case, each of which may break it: what the verifier is differentially tested on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from lowtide.models.errors import InstanceError
from lowtide.models.graph import Accounting, Op
from lowtide.models.machine import Access
from lowtide.models.plan import Copy, Free, Plan, Resident, Run
from tests.random_plans import Case

Mutation = Callable[[Random, Case], Case | None]
"""Returns the changed case, or None where the change does not apply."""

ACTIONS = ("runs", "copies", "frees", "start")


def with_plan(case: Case, **changes: Any) -> Case:
    return replace(case, plan=replace(case.plan, **changes))


def with_machine(case: Case, **changes: Any) -> Case:
    return with_plan(case, machine=replace(case.plan.machine, **changes))


def replaced(items: tuple[Any, ...], k: int, *new: Any) -> tuple[Any, ...]:
    return (*items[:k], *new, *items[k + 1 :])


def on_action(name: str, change: Callable[[Random, Case, Any], Any]) -> Mutation:
    """Change one action of a tuple of the plan; `change` returns its replacements, or None."""

    def mutate(rng: Random, case: Case) -> Case | None:
        items = getattr(case.plan, name)
        if not items:
            return None
        k = rng.randrange(len(items))
        new = change(rng, case, items[k])
        return None if new is None else with_plan(case, **{name: replaced(items, k, *new)})

    return mutate


def setting(field: str, choose: Callable[[Random, Case, Any], Any]) -> Callable[..., Any]:
    return lambda rng, case, item: [replace(item, **{field: choose(rng, case, item)})]


def shifted(rng: Random, item: Any, *fields: str) -> Any:
    step = rng.choice((-3, -2, -1, 1, 2, 3))
    return replace(item, **{field: getattr(item, field) + step for field in fields})


def nonsense(rng: Random, case: Case, item: Any) -> list[Any]:
    """Put something into a field that is not what it must be."""
    field = rng.choice([x for x in item.__dataclass_fields__ if x != "valid"])
    value = rng.choice((-1, True, 1.0, None, "x", 10**30, float("nan"), (0,), (-1, 1), (1, 0)))
    if isinstance(getattr(item, field), str) and rng.random() < 0.5:
        value = "nowhere"
    return [replace(item, **{field: value})]


def tier(rng: Random, case: Case, item: Any) -> str:
    return rng.choice(case.plan.machine.tiers).name


def tensor(rng: Random, case: Case, item: Any) -> int:
    return rng.randrange(len(case.graph.tensors))


def byte_range(rng: Random, case: Case, item: Any) -> tuple[int, int] | None:
    """Move, shrink or grow the range, perhaps too far."""
    nbytes = case.graph.tensors[item.tensor].nbytes
    lo, hi = item.bytes or (0, nbytes)
    return rng.choice((None, (lo + 1, hi), (lo, hi - 1), (lo, hi + 1), (lo - 1, hi), (lo, lo), (0, nbytes)))


def later(case: Case) -> int:
    items: list[Run | Copy] = [*case.plan.runs, *case.plan.copies]
    ends = [x.end for x in items]
    return max(ends, default=0)


def run_again(rng: Random, case: Case, run: Run) -> list[Run]:
    """Run the op again: at once elsewhere, or at the end."""
    length = run.end - run.start
    start = rng.choice((run.start, run.end, later(case)))
    processor = rng.choice(case.plan.machine.processors).name
    return [run, replace(run, start=start, end=start + length, processor=processor)]


def copy_again(rng: Random, case: Case, copy: Copy) -> list[Copy]:
    return [copy, shifted(rng, copy, "start", "end") if rng.random() < 0.7 else copy]


def turned(rng: Random, case: Case, copy: Copy) -> list[Copy]:
    return [replace(copy, src=copy.dst, dst=copy.src)]


def split(rng: Random, case: Case, copy: Copy) -> list[Copy] | None:
    """Two copies of half the bytes each at the same time; sometimes the halves overlap or leave a gap."""
    lo, hi = copy.bytes or (0, case.graph.tensors[copy.tensor].nbytes)
    if hi - lo < 2:
        return None
    a, b = rng.randint(lo + 1, hi - 1), rng.randint(lo + 1, hi - 1)
    return [replace(copy, bytes=(lo, a)), replace(copy, bytes=(b, hi))]


def mid_time(rng: Random, case: Case) -> int:
    return rng.randint(0, max(1, later(case)))


def extra_copy(rng: Random, case: Case) -> Case:
    start = mid_time(rng, case)
    new = Copy(
        tensor(rng, case, None),
        tier(rng, case, None),
        tier(rng, case, None),
        start,
        start + rng.randint(0, 4),
    )
    return with_plan(case, copies=(*case.plan.copies, new))


def extra_free(rng: Random, case: Case) -> Case:
    new = Free(tensor(rng, case, None), tier(rng, case, None), mid_time(rng, case))
    return with_plan(case, frees=(*case.plan.frees, new))


def extra_resident(rng: Random, case: Case) -> Case:
    new = Resident(tensor(rng, case, None), tier(rng, case, None), None, valid=rng.random() < 0.7)
    return with_plan(case, start=(*case.plan.start, new))


def swap_times(name: str) -> Mutation:
    def mutate(rng: Random, case: Case) -> Case | None:
        items = getattr(case.plan, name)
        if len(items) < 2:
            return None
        a, b = rng.sample(range(len(items)), 2)
        fields = ("time",) if name == "frees" else ("start", "end")
        x = replace(items[a], **{f: getattr(items[b], f) for f in fields})
        y = replace(items[b], **{f: getattr(items[a], f) for f in fields})
        return with_plan(case, **{name: replaced(replaced(items, a, x), b, y)})

    return mutate


def shrink_tier(rng: Random, case: Case) -> Case | None:
    tiers = case.plan.machine.tiers
    k = rng.randrange(len(tiers))
    capacity = tiers[k].capacity
    if not capacity:
        return None
    return with_machine(case, tiers=replaced(tiers, k, replace(tiers[k], capacity=capacity - 1)))


def on_machine(name: str, change: Callable[[Random, Case, Any], Any]) -> Mutation:
    def mutate(rng: Random, case: Case) -> Case | None:
        items = getattr(case.plan.machine, name)
        if not items:
            return None
        k = rng.randrange(len(items))
        try:
            return with_machine(case, **{name: replaced(items, k, *change(rng, case, items[k]))})
        except InstanceError:
            return None

    return mutate


def slower(rng: Random, case: Case, item: Any) -> list[Any]:
    return [replace(item, bytes_per_s=max(1, item.bytes_per_s - rng.choice((1, 10**8))))]


def access(rng: Random, case: Case, processor: Any) -> list[Any]:
    """Change what a processor reaches: another home, one tier less, another speed."""
    tiers = list(processor.tiers)
    rng.shuffle(tiers)
    if len(tiers) > 1 and rng.random() < 0.4:
        tiers.pop()
    if rng.random() < 0.5:
        speed = rng.choice((None, 10**9, 3 * 10**9, 7, 10**18))
        tiers[0] = Access(tier=tiers[0].tier, bytes_per_s=speed)
    return [replace(processor, tiers=tuple(tiers))]


def period(rng: Random, case: Case) -> Case:
    now = case.plan.period
    if now is None:
        return with_plan(case, period=later(case) + rng.randint(0, 1))
    return with_plan(case, period=rng.choice((now - 1, now + 1, None, 0, True, 1.0, 2 * now)))


def wrap(rng: Random, case: Case, copy: Copy) -> list[Copy] | None:
    """Move a copy towards the period's end, so that it straddles it."""
    if case.plan.period is None:
        return None
    start = rng.randint(max(0, case.plan.period - 2), case.plan.period)
    return [replace(copy, start=start, end=start + (copy.end - copy.start))]


def accounting(rng: Random, case: Case) -> Case:
    """Change it in the graph and the plan, or in one of the two."""
    other = Accounting.REPLACE
    if case.graph.accounting is other:
        other = Accounting.COEXIST
    where = rng.choice(("both", "graph", "plan"))
    graph = replace(case.graph, accounting=other) if where != "plan" else case.graph
    plan = replace(case.plan, graph_sha256=None if where == "both" else case.plan.graph_sha256)
    if where != "graph":
        plan = replace(plan, accounting=other)
    return replace(case, graph=graph, plan=plan)


def with_graph(case: Case, plan: Plan | None = None, **changes: Any) -> Case | None:
    """Change the graph, and let the plan name the new one."""
    try:
        graph = replace(case.graph, **changes)
    except InstanceError:
        return None
    return replace(case, graph=graph, plan=replace(plan or case.plan, graph_sha256=None))


def reorder(rng: Random, case: Case) -> Case | None:
    """Swap two neighbours of the reference order: the same actions, other versions."""
    ops = case.graph.ops
    if len(ops) < 2:
        return None
    k = rng.randrange(len(ops) - 1)
    names = {k: k + 1, k + 1: k}
    swapped = list(ops)
    swapped[k], swapped[k + 1] = ops[k + 1], ops[k]
    renamed = tuple(replace(op, after=tuple(names.get(a, a) for a in op.after)) for op in swapped)
    runs = tuple(replace(run, op=names.get(run.op, run.op)) for run in case.plan.runs)
    return with_graph(case, replace(case.plan, runs=runs), ops=renamed)


def tensor_field(rng: Random, case: Case) -> Case | None:
    tensors = case.graph.tensors
    k = tensor(rng, case, None)
    change = rng.choice(("initial", "final", "nbytes"))
    value: Any = not getattr(tensors[k], change)
    if change == "nbytes":
        value = tensors[k].nbytes + rng.choice((-1, 1))
    try:
        return with_graph(case, tensors=replaced(tensors, k, replace(tensors[k], **{change: value})))
    except InstanceError:
        return None


def op_field(rng: Random, case: Case) -> Case | None:
    """Let an op read, write or follow one thing more or less, or take longer."""
    ops = case.graph.ops
    if not ops:
        return None
    k = rng.randrange(len(ops))
    field = rng.choice(("reads", "writes", "after"))
    limit = k if field == "after" else len(case.graph.tensors)
    if limit == 0:
        return None
    found = set(getattr(ops[k], field)) ^ {rng.randrange(limit)}
    changes: dict[str, Any] = {field: tuple(sorted(found))}
    try:
        op: Op = replace(ops[k], inplace=(), **changes)
    except InstanceError:
        return None
    return with_graph(case, ops=replaced(ops, k, op))


def identity(rng: Random, case: Case) -> Case:
    return with_plan(case, graph_sha256="0" * 64)


def rules(rng: Random, case: Case) -> Case:
    """Ask another question about the same plan."""
    if rng.random() < 0.5:
        return replace(case, rerun=rng.choice((True, False)))
    names = [tier.name for tier in case.plan.machine.tiers]
    kinds = rng.sample(("input", "weight", "state"), 2)
    return replace(case, start_tiers={k: tuple(rng.sample(names, rng.randint(0, len(names)))) for k in kinds})


def statement(rng: Random, case: Case) -> Case:
    """Let the plan say something else of where its question lets things start, or nonsense."""
    names = [tier.name for tier in case.plan.machine.tiers]
    stated: Any = {k: tuple(rng.sample(names, rng.randint(0, len(names)))) for k in ("input", "weight")}
    if rng.random() < 0.3:
        stated = rng.choice(([], 1, "input", {"inputs": ()}, {0: ()}, {"input": "x"}, {"input": ("x",)}))
    return with_plan(case, start_tiers=rng.choice((stated, stated, None)))


def fewer_channels(rng: Random, case: Case, channel: Any) -> list[Any]:
    return []


MUTATIONS: Mapping[str, Mutation] = {
    **{f"drop {name}": on_action(name, lambda *_: []) for name in ACTIONS},
    **{f"nonsense {name}": on_action(name, nonsense) for name in ACTIONS},
    "shift run": on_action("runs", lambda rng, case, x: [shifted(rng, x, "start", "end")]),
    "shift copy": on_action("copies", lambda rng, case, x: [shifted(rng, x, "start", "end")]),
    "shift free": on_action("frees", lambda rng, case, x: [shifted(rng, x, "time")]),
    "stretch run": on_action("runs", lambda rng, case, x: [shifted(rng, x, "end")]),
    "stretch copy": on_action("copies", lambda rng, case, x: [shifted(rng, x, "end")]),
    "run again": on_action("runs", run_again),
    "copy again": on_action("copies", copy_again),
    "free again": on_action("frees", lambda rng, case, x: [x, x]),
    "free early": on_action("frees", lambda rng, case, x: [replace(x, time=rng.randint(0, max(0, x.time)))]),
    "resident twice": on_action("start", lambda rng, case, x: [x, x]),
    "stale resident": on_action("start", lambda rng, case, x: [replace(x, valid=not x.valid)]),
    "extra copy": extra_copy,
    "extra free": extra_free,
    "extra resident": extra_resident,
    "swap runs": swap_times("runs"),
    "swap copies": swap_times("copies"),
    "swap frees": swap_times("frees"),
    "turn copy": on_action("copies", turned),
    "split copy": on_action("copies", split),
    "straddle": on_action("copies", wrap),
    **{
        f"{field} of {name}": on_action(name, setting(field, choose))
        for name, field, choose in (
            ("copies", "src", tier),
            ("copies", "dst", tier),
            ("frees", "tier", tier),
            ("start", "tier", tier),
            ("copies", "bytes", byte_range),
            ("frees", "bytes", byte_range),
            ("start", "bytes", byte_range),
            ("copies", "tensor", tensor),
            ("frees", "tensor", tensor),
            ("start", "tensor", tensor),
            ("runs", "mode", lambda rng, case, x: rng.randint(0, 2)),
            ("runs", "op", lambda rng, case, x: rng.randint(0, len(case.graph.ops))),
            ("runs", "processor", lambda rng, case, x: rng.choice(case.plan.machine.processors).name),
        )
    },
    "shrink tier": shrink_tier,
    "slower channel": on_machine("channels", slower),
    "slower group": on_machine("groups", slower),
    "latency": on_machine(
        "channels", lambda rng, case, x: [replace(x, latency_ns=x.latency_ns + rng.randint(1, 3))]
    ),
    "fewer channels": on_machine("channels", fewer_channels),
    "access": on_machine("processors", access),
    "processor kind": on_machine(
        "processors", lambda rng, case, x: [replace(x, kind="a" if x.kind == "b" else "b")]
    ),
    "period": period,
    "accounting": accounting,
    "identity": identity,
    "rules": rules,
    "statement": statement,
    "reorder": reorder,
    "tensor": tensor_field,
    "op": op_field,
}


def mutate(rng: Random, case: Case, name: str | None = None, attempts: int = 20) -> Case | None:
    """Return the case with one change, by name or any that applies; None if none was found."""
    for _ in range(attempts):
        chosen = rng.choice(sorted(MUTATIONS)) if name is None else name
        changed = MUTATIONS[chosen](rng, case)
        if changed is not None and changed != case:
            return changed
    return None
