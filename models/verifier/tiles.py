"""Judges groups of ops in tiles: working set and latency, one step at a time, in exact rationals.

The rules are those of the MLSys 2026 contest (yarongmu-google/MLSys:PROBLEM.md). Where the statement is
silent, the reading is ours, and marked so.

- A group has each op once, in an order in which they can run. Tensors made in it hold it together (ours).
  A tensor that it makes and reads is ephemeral: it takes neither capacity nor transfer, and never leaves
  (ours). The other tensors that it makes are its outputs, all of one shape W x H.
- Granularity (w, h, k): w divides W and h divides H (ours); a tile is w x h of each output. A MatMul that
  feeds no other MatMul of the group runs its reduction in steps of k, which divides its depth (ours); all
  such MatMuls of a group have one depth (ours). Without a MatMul k is ignored.
- Slices: an output h x w; what a Pointwise reads as what it makes; of a MatMul that is split the left one
  h x k, the right one k x w; of one that feeds another, for rows r and columns c that are asked of it, the
  left one r x depth, the right one depth x c (example 5). Equal slices of a tensor count once (ours).
- Step: max(compute, (elements in + elements out) / bandwidth). A slice is loaded unless the last step had
  it. Reading ``raster=flush``: where no order is stated, each tile begins with no slices (example 4);
  ``keep``: it begins with those of the last one. Outputs leave at the last reduction step of a tile.
- Compute: each op costs its base cost for each native tile that w x h covers, begun ones too; a MatMul in
  equal parts at all reduction steps, a Pointwise at the last one of a tile (reading ``pointwise=last``) or in
  equal parts (``spread``).
- Kept tensors: outputs, inputs, or what was kept before. They take their whole size during the group that
  begins or goes on to keep them and the one after it. A kept input is loaded whole in the first step (ours),
  a kept output is not written, and is lost if a later group does not keep it (ours).
- In each step kept tensors, slices and the tile of each output that is not kept fit in the capacity. Reading
  ``place=shared``: in a group without a MatMul these tiles take the place of slices (example 2 needs that,
  against the text); ``apart``: they do not.
- In the end what no op reads is in the slow memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ..tile_rules import MATMUL, MOST_STEPS, TileGroup, TileInstance, Tiling
from .verdict import Violation

Slice = tuple[int, str, str]
"""A tensor, and how its rows and columns follow the step: by ``h``, ``w``, ``k``, or ``*`` for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TilingVerdict:
    """By group: latency in time units, elements in fast memory at most and moved; what is wrong."""

    latencies: tuple[Fraction, ...]
    held: tuple[int, ...]
    moved: tuple[int, ...]
    violations: tuple[Violation, ...]


def judge_tiling(
    instance: TileInstance,
    tiling: Tiling,
    *,
    raster: str = "flush",
    pointwise: str = "last",
    place: str = "apart",
) -> TilingVerdict:
    """Return latencies, working sets and violations of an answer.

    A group that breaks a rule of its own has latency 0.
    """
    slow, resident = set(instance.started), set[int]()
    latencies, held, moved, faults = [], [], [], []
    for s, group in enumerate(tiling.groups):
        where = f"group {s}"
        wrong = _wrong(instance, group)
        if wrong is not None:
            faults.append(Violation(kind=wrong[0], message=f"{where}: {wrong[1]}", resource=where))
            latencies.append(Fraction(0))
            held.append(0)
            moved.append(0)
            resident = set()
            continue
        made = {instance.outputs[i] for i in group.ops}
        read = {t for i in group.ops for t in instance.inputs[i]}
        for t in sorted(read - made - resident - slow):
            message = f"{where} reads tensor {t}, expected it in slow or fast memory"
            faults.append(Violation(kind="read", message=message, resource=where, tensor=t))
        keep = {*group.keep}
        for t in sorted(keep - resident - (read ^ made)):
            message = f"{where} keeps tensor {t}, expected an input, an output or what is kept"
            faults.append(Violation(kind="keep", message=message, resource=where, tensor=t))
        keep &= resident | (read ^ made)
        latency, most, elements = _simulate(instance, group, resident, keep, (raster, pointwise, place))
        if most > instance.capacity:
            message = f"{where} holds {most:,} elements, expected at most {instance.capacity:,}"
            faults.append(Violation(kind="capacity", message=message, resource=where))
        latencies.append(latency)
        held.append(most)
        moved.append(elements)
        slow |= made - read - keep
        resident = keep
    for i in sorted({*range(len(instance.outputs))} - {i for g in tiling.groups for i in g.ops}):
        faults.append(Violation(kind="missing-run", message=f"op {i} is in no group", op=i))
    for t in sorted(instance.finals - slow):
        message = f"tensor {t} is not in the slow memory in the end, expected all that no op reads"
        faults.append(Violation(kind="final", message=message, tensor=t))
    return TilingVerdict(
        latencies=tuple(latencies), held=tuple(held), moved=tuple(moved), violations=tuple(faults)
    )


def _wrong(instance: TileInstance, group: TileGroup) -> tuple[str, str] | None:
    """Return kind and text of what is wrong with a group by itself."""
    ops = group.ops
    n = len(instance.outputs)
    if not ops or len({*ops}) < len(ops) or not all(0 <= i < n for i in ops):
        return "group", f"found ops {ops[:9]}, expected some of {n}, each once"
    if not all(0 <= t < len(instance.widths) for t in group.keep):
        return "keep", f"found tensors {group.keep[:9]}, expected some of {len(instance.widths)}"
    place = {instance.outputs[i]: p for p, i in enumerate(ops)}
    joined = {ops[0]}
    for _ in ops:
        for i in ops:
            for t in instance.inputs[i]:
                if t in place and (i in joined or ops[place[t]] in joined):
                    joined |= {i, ops[place[t]]}
    for p, i in enumerate(ops):
        for t in instance.inputs[i]:
            if place.get(t, -1) > p:
                return "precedence", f"op {i} reads tensor {t} before op {ops[place[t]]} makes it"
    if len(joined) < len(ops):
        return "group", f"found ops {ops[:9]}, expected tensors made in the group to join them"
    return _wrong_tiles(instance, group)


def _wrong_tiles(instance: TileInstance, group: TileGroup) -> tuple[str, str] | None:
    """Return kind and text of what is wrong with shapes, granularity and order."""
    ops, (w, h, k) = group.ops, group.granularity
    read = {t for i in ops for t in instance.inputs[i]}
    shapes = {instance.shape(t) for t in map(instance.outputs.__getitem__, ops) if t not in read}
    if len(shapes) > 1:
        return "shape", f"found outputs of width and height {sorted(shapes)}, expected one shape"
    ((width, height),) = shapes
    depths = {instance.depth(i) for i in _last_matmuls(instance, ops)}
    if len(depths) > 1:
        return "shape", f"found depths {sorted(depths)} of MatMuls, expected one"
    depth = max(depths, default=1)
    if width % w or height % h or (depths and depth % k):
        expected = f"divisors of {width}, {height} and {depth}"
        return "granularity", f"found {w} x {h} x {k}, expected {expected}"
    tiles = (width // w) * (height // h)
    if tiles * (depth // k if depths else 1) > MOST_STEPS:
        return "granularity", f"found more than {MOST_STEPS:,} steps, expected at most that"
    if group.order is not None and sorted(group.order) != [*range(tiles)]:
        return "order", f"found an order of {len(group.order)} tiles, expected each of {tiles} once"
    return None


def _last_matmuls(instance: TileInstance, ops: tuple[int, ...]) -> set[int]:
    """Return the MatMuls of a group that feed no other MatMul of it, directly or through Pointwise ops."""
    feeds: set[int] = set()
    last = set()
    for i in reversed(ops):
        inside = instance.outputs[i] in feeds
        if instance.op_types[i] == MATMUL and not inside:
            last.add(i)
        if instance.op_types[i] == MATMUL or inside:
            feeds.update(instance.inputs[i])
    return last


def _slices(instance: TileInstance, ops: tuple[int, ...], last: set[int]) -> set[Slice]:
    """Return the slices that a group reads from outside."""
    asked: dict[int, set[tuple[str, str]]] = {}
    made = {instance.outputs[i] for i in ops}
    for i in reversed(ops):
        for rows, columns in asked.get(instance.outputs[i], {("h", "w")}):
            if instance.op_types[i] == MATMUL:
                depth = "k" if i in last else "*"
                parts = [(rows, depth), (depth, columns)]
            else:
                parts = [(rows, columns)] * len(instance.inputs[i])
            for t, part in zip(instance.inputs[i], parts, strict=True):
                asked.setdefault(t, set()).add(part)
    return {(t, *part) for t, parts in asked.items() if t not in made for part in parts}


def _simulate(
    instance: TileInstance,
    group: TileGroup,
    resident: set[int],
    keep: set[int],
    readings: tuple[str, str, str],
) -> tuple[Fraction, int, int]:
    """Return latency, elements held at most, and elements moved, step by step."""
    ops, (w, h, k) = group.ops, group.granularity
    raster, pointwise, place = readings
    made, read = {instance.outputs[i] for i in ops}, {t for i in ops for t in instance.inputs[i]}
    outputs = made - read
    width, height = instance.shape(min(outputs))
    last = _last_matmuls(instance, ops)
    steps = max((instance.depth(i) for i in last), default=k) // k
    columns, rows = width // w, height // h
    one = {"h": rows == 1, "w": columns == 1, "k": steps == 1, "*": True}
    whole = resident | keep
    slices = {
        (t, "*" if one[x] else x, "*" if one[y] else y)
        for t, x, y in _slices(instance, ops, last)
        if t not in whole
    }
    passes = -(-w // instance.native[0]) * -(-h // instance.native[1])
    costs = dict.fromkeys(instance.op_types, 0)
    for i in ops:
        costs[instance.op_types[i]] += instance.base_costs[i] * passes
    matmul = Fraction(costs.pop(MATMUL, 0), steps)
    others = sum(costs.values())
    written = len(outputs - keep) * w * h
    base = sum(instance.area(t) for t in whole)
    arriving = sum(instance.area(t) for t in (read - made) & keep - resident)
    before: dict[Slice, tuple[int, ...]] = {}
    latency, most, moved = Fraction(0), 0, 0
    for tile, flush in _tiles(group, rows * columns, raster):
        row, column = divmod(tile, columns)
        if flush:
            before = {}
        for step in range(steps):
            at = {"h": (row, h), "w": (column, w), "k": (step, k)}
            now: dict[Slice, tuple[int, ...]] = {}
            entering = held = 0
            for one_slice in slices:
                t, by_row, by_column = one_slice
                r, high = at.get(by_row, (0, instance.heights[t]))
                c, wide = at.get(by_column, (0, instance.widths[t]))
                now[one_slice] = (r, c)
                held += high * wide
                if before.get(one_slice) != (r, c):
                    entering += high * wide
            before = now
            entering, arriving = entering + arriving, 0
            leaving = written if step == steps - 1 else 0
            compute = matmul
            if pointwise == "spread":
                compute += Fraction(others, steps)
            elif step == steps - 1:
                compute += others
            latency += max(compute, Fraction(entering + leaving, instance.bandwidth))
            moved += entering + leaving
            beside = max(held, written) if place == "shared" and not last else held + written
            most = max(most, base + beside)
    return latency, most, moved


def _tiles(group: TileGroup, tiles: int, raster: str) -> Iterator[tuple[int, bool]]:
    """Yield the tiles, and whether slices are dropped before each."""
    for tile in range(tiles) if group.order is None else group.order:
        yield tile, group.order is None and raster == "flush"
