"""XLA's buffer assignment as buffers: the temporary memory of a compiled function, with XLA's own addresses.

``--xla_dump_to=FOLDER --xla_dump_hlo_as_text`` writes four files for a module that belong together: those
that end in ``-buffer-assignment.txt``, ``-live-range.txt``, ``-buffer-assignment-values.txt`` and, without
any of these, ``.txt``, the scheduled HLO. An allocation with the attribute ``preallocated-temp`` is a problem
of offsets: its values are alive from the first to the last position of their live range, both inclusive. Each
such allocation is a pool; the other ones (parameters, outputs, constants) are as XLA chose them.

What XLA has at one address although lifetimes touch:

* values that must share one: what a ``while`` is given, hands on and returns, operands and results of a
  ``conditional`` or a ``call``, what a dynamic-update-slice or a scatter changes in place. They are one
  buffer, with gaps where none of them is alive;
* the last operand and the result of an instruction that may write over it. They stay two buffers, and are an
  in-place pair. Which instructions may do so the files do not say: pairs are those that XLA used, so that the
  optimum here holds for these.

Every offset is a multiple of 64 bytes on a CPU and of 256 elsewhere, or of what all of XLA's are multiples
of. XLA's addresses are hints, and are verified: the buffers never exclude XLA's own solution.

Sources: dumps of jax 0.10.2 on a CPU [tried]; openxla/xla ``xla/service/hlo_alias_analysis.cc`` (what must
share one buffer) [recalled], checked by the addresses in dumps.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd

from ...models.buffers import Buffer, Buffers, Gap
from ...models.errors import InstanceError
from ...models.verifier.allocation import verify_allocation
from ..formats.strict_json import read_bytes, show
from .hlo_text import Instruction, Module, branches_of, parse_hlo, writes_in_place

ENDING = "-buffer-assignment.txt"
ALIGNMENTS = {"cpu": 64, "gpu": 256}
"""What addresses are multiples of at most, in bytes: of XLA on a CPU, and on other devices."""

_ALLOCATION = re.compile(r"allocation (\d{1,9}): size (\d{1,18}), (.*)")
_VALUE = re.compile(r" value: <(\d{1,9}) (\S+?)(?: \(phi\))? @\d+> \(size=(\d{1,18}),offset=(\d{1,18})\): .*")
_RANGE = re.compile(r"    (\S+):(\d{1,9})-(\d{1,9})")
_USED = re.compile(r"<\d+ (\S+?)(?: \(phi\))? @\d+>")
_POSITION = re.compile(r"  (\S+)(?: (\{[0-9,]*\}))?$")
_USE = re.compile(r"  (\S+), operand (\d{1,9})(?: (\{[0-9,]*\}))?$")


@dataclass(frozen=True, kw_only=True)
class _Value:
    """What XLA placed: its name, its pool, its bytes and address, its lifetime (both positions inclusive)."""

    name: str
    pool: str
    size: int
    offset: int
    first: int
    last: int


@dataclass(kw_only=True)
class _Group:
    """Values that have one address."""

    values: list[_Value] = field(default_factory=list)

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Half-open times in which one of them is alive, apart from each other."""
        joined: list[tuple[int, int]] = []
        for v in sorted(self.values, key=lambda v: v.first):
            begin, end = v.first, v.last + 1
            if joined and begin <= joined[-1][1]:
                begin, end = joined[-1][0], max(end, joined.pop()[1])
            joined.append((begin, end))
        return joined


def read_assignment(path: str | os.PathLike[str]) -> Buffers:
    """Return the values of the temporary allocations of a dump as buffers, with XLA's addresses as hints.

    Parameters
    ----------
    path
        The file that ends in ``-buffer-assignment.txt``; the other three stand beside it.

    Raises
    ------
    InstanceError
        If a file is missing or of another form, there is no temporary allocation, or XLA's own addresses
        break the rules above.
    """
    where = os.fspath(path)
    stem = where.removesuffix(ENDING)
    if stem == where:
        raise InstanceError(f"{where}: found another ending, expected {ENDING}")
    values = _values(where, _live_ranges(f"{stem}-live-range.txt"))
    module = parse_hlo(_text(f"{stem}.txt"), f"{stem}.txt")
    owners = _Owners(f"{stem}-buffer-assignment-values.txt", {v.name for v in values})
    groups = _groups(values, owners.joined(module, values), where)
    alignment = gcd(
        ALIGNMENTS["cpu" if "cpu_" in os.path.basename(stem) else "gpu"], *(v.offset for v in values)
    )
    buffers = tuple(_buffer(group, alignment) for group in groups)
    answer = Buffers(
        buffers=buffers,
        inplace=tuple(_pairs(groups)),
        name=re.sub(r"^module_\d+\.", "", os.path.basename(stem)),
    )
    verdict = verify_allocation(answer, {b.id: b.hint or 0 for b in buffers})
    if not verdict.valid:
        fault = f"found addresses of XLA that break a rule here, {verdict.violations[0].message}"
        raise InstanceError(f"{where}: {fault}")
    return answer


def _text(path: str) -> str:
    return read_bytes(path).decode("utf-8", "replace")


def _live_ranges(path: str) -> dict[str, tuple[int, int]]:
    matches = (_RANGE.fullmatch(line) for line in _text(path).splitlines())
    return {match[1]: (int(match[2]), int(match[3])) for match in matches if match}


def _values(path: str, ranges: Mapping[str, tuple[int, int]]) -> list[_Value]:
    values: list[_Value] = []
    pool, temporary = "", False
    for line in _text(path).splitlines():
        if header := _ALLOCATION.fullmatch(line):
            pool, temporary = f"allocation{header[1]}", "preallocated-temp" in header[3]
        elif temporary and line.startswith(" value:"):
            match = _VALUE.fullmatch(line)
            name = _whole(match[2]) if match else ""
            if match is None or name not in ranges:
                raise InstanceError(f"{path}: found {show(line.strip())}, expected a value with a live range")
            first, last = ranges[name]
            if last < first:
                raise InstanceError(
                    f"{path}: found live range {first}-{last} of {name}, expected one that ends later"
                )
            size, offset = int(match[3]), int(match[4])
            values.append(_Value(name=name, pool=pool, size=size, offset=offset, first=first, last=last))
    if not values:
        raise InstanceError(f"{path}: found no value of an allocation with preallocated-temp, expected one")
    return values


def _whole(name: str, index: str | None = None) -> str:
    """Return the name of a value as live ranges have it: with the index, ``{}`` of an array."""
    return name if name.endswith("}") and index is None else f"{name}{index or '{}'}"


class _Owners:
    """Which value is at which position of which instruction, and who uses it."""

    def __init__(self, path: str, names: set[str]) -> None:
        self.at: dict[str, str] = {}
        self.uses: dict[str, list[tuple[str, str]]] = defaultdict(list)
        value, uses = "", False
        for line in _text(path).splitlines():
            if match := _USED.fullmatch(line):
                value, uses = _whole(match[1]), False
            elif line in (" uses:", " positions:"):
                uses = line == " uses:"
            elif value in names and uses and (match := _USE.match(line)):
                self.uses[value].append((match[1], match[3] or "{}"))
            elif value in names and not uses and (match := _POSITION.match(line)):
                self.at[_whole(match[1], match[2] or "{}")] = value

    def joined(self, module: Module, values: Sequence[_Value]) -> dict[str, str]:
        """Return for each value the one that stands for all with which it must share its address."""
        parent: dict[str, str] = {v.name: v.name for v in values}

        def top(name: str) -> str:
            while parent[name] != name:
                parent[name] = name = parent[parent[name]]
            return name

        def join(*positions: str) -> None:
            here = [top(self.at[x]) for x in positions if x in self.at]
            for other in here[1:]:
                parent[other] = here[0]

        for computation in module.computations.values():
            for x in computation.instructions.values():
                for same in _same_places(x, module):
                    join(*same)
        by_name = {v.name: v for v in values}
        written = {
            x.name: x
            for computation in module.computations.values()
            for x in computation.instructions.values()
            if writes_in_place(x, module)
        }
        for v in values:
            for user, _ in self.uses[v.name]:
                result = by_name.get(self.at.get(f"{user}{{}}", ""))
                if user in written and result is not None and _touch(v, result):
                    join(v.name, result.name)
        return {name: top(name) for name in parent}


def _touch(before: _Value, after: _Value) -> bool:
    """Return whether a value ends where another begins, at the same address."""
    return (before.pool, before.offset, before.last) == (after.pool, after.offset, after.first)


def _same_places(x: Instruction, module: Module) -> Iterator[list[str]]:
    """Yield positions whose values must have one address, since control flow hands them on."""
    if x.opcode == "while":
        body, condition = (module.of(x.computations(key), x.name) for key in ("body", "condition"))
        inside = [body.parameters[0].name, body.root, condition.parameters[0].name] if body.parameters else []
        for index in x.shape.indices():
            yield [f"{name}{_braces(index)}" for name in (x.operands[0], x.name, *inside)]
    branches = [module.computations.get(name) for name in branches_of(x)]
    for k, branch in enumerate(branches):
        if branch is None:
            continue
        for index in x.shape.indices():
            yield [f"{name}{_braces(index)}" for name in (branch.root, x.name)]
        operands = x.operands[k + 1 : k + 2] if x.opcode == "conditional" else x.operands
        for operand, parameter in zip(operands, branch.parameters, strict=False):
            for index in parameter.shape.indices():
                yield [f"{name}{_braces(index)}" for name in (operand, parameter.name)]


def _braces(index: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, index)) + "}"


def _groups(values: Sequence[_Value], owner: Mapping[str, str], where: str) -> list[_Group]:
    groups: defaultdict[str, _Group] = defaultdict(_Group)
    for v in values:
        groups[owner[v.name]].values.append(v)
    for group in groups.values():
        if len({(v.pool, v.size, v.offset) for v in group.values}) > 1:
            names = ", ".join(v.name for v in group.values[:3])
            raise InstanceError(f"{where}: found {names} at different addresses, expected one of all three")
    return list(groups.values())


def _buffer(group: _Group, alignment: int) -> Buffer:
    parts, first = group.parts, min(group.values, key=lambda v: (v.first, v.name))
    return Buffer(
        id=first.name.removesuffix("{}"),
        lower=parts[0][0],
        upper=parts[-1][1],
        size=first.size,
        alignment=alignment,
        hint=first.offset,
        gaps=tuple(Gap(a[1], b[0]) for a, b in pairwise(parts)),
        pool=first.pool,
    )


def _pairs(groups: Sequence[_Group]) -> Iterator[tuple[str, str]]:
    """Yield pairs at one address that are alive together only where one ends and the other begins."""
    at: defaultdict[tuple[str, int], list[_Group]] = defaultdict(list)
    for group in groups:
        at[group.values[0].pool, group.values[0].offset].append(group)
    for same in at.values():
        parts = sorted((*part, k) for k, group in enumerate(same) for part in group.parts)
        touch: dict[tuple[int, int], bool] = {}
        alive: list[tuple[int, int, int]] = []
        for begin, end, k in parts:
            alive = [part for part in alive if part[1] > begin]
            for _, until, other in alive:
                pair = (other, k) if (other, k) in touch or (k, other) not in touch else (k, other)
                touch[pair] = touch.get(pair, True) and until == begin + 1
            alive.append((begin, end, k))
        for (first, second), only in touch.items():
            if only:
                yield _buffer(same[first], 1).id, _buffer(same[second], 1).id
