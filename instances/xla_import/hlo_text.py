"""HLO as text: modules, computations, instructions and the sizes of their shapes.

Read are the forms that ``--xla_dump_hlo_as_text`` and ``compiled.as_text()`` print: one instruction a line,
operands with or without shapes, names with or without ``%``. Layouts, literals and metadata are skipped.

Sources: dumps of jax 0.10.2 [tried]; openxla/xla ``xla/hlo/parser/hlo_parser.cc`` (the grammar) [read].
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

from ...models.errors import InstanceError
from ..formats.strict_json import DEEPEST, show

POINTER = 8
"""Bytes that an element takes in the table of a tuple: a pointer of 64 bits."""

_IN_PLACE = ("dynamic-update-slice", "scatter")
_BITS = {
    **{"pred": 8, "token": 0, "opaque": 0, "bf16": 16, "c64": 64, "c128": 128},
    **{f"{kind}{bits}": bits for kind in "su" for bits in (1, 2, 4, 8, 16, 32, 64)},
    **{f"f{bits}": bits for bits in (16, 32, 64)},
}
_TYPE = re.compile(r"([a-z]\w*)(?:\[([0-9<=, ?]*)\])?")
_LAYOUT = re.compile(r"\{[^{}]*\}")
_COMMENT = re.compile(r"/\*.*?\*/")
_INSTRUCTION = re.compile(r"\s*(ROOT )?%?([\w.\-]+) = ")
_HEADER = re.compile(r"\s*(ENTRY )?%?([\w.\-]+)(?: \(.*| )\{\s*$")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_NAME = re.compile(r"%?([\w.\-]+)\s*$")


class HloShape(NamedTuple):
    """An array of some bytes and dimensions, or a tuple of shapes (then `parts` is not None)."""

    nbytes: int
    sizes: tuple[int, ...] = ()
    parts: tuple[HloShape, ...] | None = None
    element: str = ""

    def arrays(self, index: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], HloShape]]:
        """Yield the arrays in it with their indices."""
        if self.parts is None:
            yield index, self
        for k, part in enumerate(self.parts or ()):
            yield from part.arrays((*index, k))

    def indices(self, index: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
        """Yield the indices of it and of all that is in it, tuples too."""
        yield index
        for k, part in enumerate(self.parts or ()):
            yield from part.indices((*index, k))


class Instruction(NamedTuple):
    """One line: what it makes, from which other lines of its computation."""

    name: str
    shape: HloShape
    opcode: str
    operands: tuple[str, ...]
    attributes: str

    def computations(self, key: str) -> tuple[str, ...]:
        """Return the computations that an attribute names: ``body``, ``calls`` and the like."""
        found = re.search(rf"\b{key}=(\{{[^{{}}]*\}}|%?[\w.\-]+)", self.attributes)
        return tuple(re.findall(r"[\w.\-]+", found[1])) if found else ()


class Computation(NamedTuple):
    """Instructions in their order, and the name of the one that is returned."""

    instructions: Mapping[str, Instruction]
    root: str

    @property
    def parameters(self) -> list[Instruction]:
        """Its parameters by number."""
        found = [x for x in self.instructions.values() if x.opcode == "parameter"]
        return sorted(found, key=lambda x: int(x.operands[0]))


class Module(NamedTuple):
    """All computations by name, that of the entry, and whether the order of instructions is the schedule."""

    name: str
    computations: Mapping[str, Computation]
    entry: str
    scheduled: bool

    def of(self, names: tuple[str, ...], where: str) -> Computation:
        """Return the computation that an attribute names; an error if there is none."""
        computation = self.computations.get(names[0]) if names else None
        if computation is None:
            raise InstanceError(f"{where}: found no computation {show(names)}, expected one of the module")
        return computation


def branches_of(x: Instruction) -> tuple[str, ...]:
    """Return the computations that a conditional chooses from, or that a call runs."""
    if x.opcode == "call":
        return x.computations("to_apply")
    both = (*x.computations("true_computation"), *x.computations("false_computation"))
    return x.computations("branch_computations") or both


def writes_in_place(x: Instruction, module: Module) -> bool:
    """Return whether an instruction changes its operand, instead of making a new array."""
    if x.opcode == "fusion":
        inner = module.computations.get(next(iter(x.computations("calls")), ""))
        return inner is not None and any(y.opcode in _IN_PLACE for y in inner.instructions.values())
    return x.opcode in _IN_PLACE or "output_to_operand_aliasing" in x.attributes


def parse_hlo(text: str, where: str) -> Module:
    """Return a module.

    Raises
    ------
    InstanceError
        If the text is no HLO module, or an instruction or shape of it is none.

    Examples
    --------
    >>> import os
    >>> from lowtide.instances.xla_import.hlo_text import parse_hlo
    >>> lines = ["HloModule m", "ENTRY %main {", "  ROOT %x = f32[2,3]{1,0} parameter(0)", "}"]
    >>> module = parse_hlo(os.linesep.join(lines), "m.txt")
    >>> module.computations["main"].instructions["x"].shape.nbytes
    24
    """
    head = re.match(r"\s*HloModule ([^\s,]+)([^\n]*)", text)
    if head is None:
        raise InstanceError(f"{where}: found no line 'HloModule NAME', expected HLO as text")
    computations: dict[str, Computation] = {}
    entry, name, root = "", "", ""
    lines: dict[str, Instruction] = {}
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{where}:{number}"
        header = _HEADER.match(line) if not name else None
        if header is not None:
            name, root, lines = header[2], "", {}
            entry = name if header[1] else entry
        elif name and line.strip().startswith("}"):
            if not lines:
                raise InstanceError(
                    f"{place}: found computation {name!r} without instructions, expected some"
                )
            computations[name] = Computation(lines, root or [*lines][-1])
            name = ""
        elif name and (start := _INSTRUCTION.match(line)):
            lines[start[2]] = _instruction(_COMMENT.sub("", line[start.end() :]), start[2], place)
            root = start[2] if start[1] else root
    if entry not in computations:
        raise InstanceError(f"{where}: found no complete ENTRY computation, expected one")
    for computation in computations.values():
        _check(computation, where)
    return Module(head[1], computations, entry, "is_scheduled=true" in head[2])


def _check(computation: Computation, where: str) -> None:
    seen: set[str] = set()
    for x in computation.instructions.values():
        if x.opcode not in ("parameter", "constant"):
            lacking = next((name for name in x.operands if name not in seen), None)
            if lacking is not None:
                raise InstanceError(
                    f"{where}, {x.name}: found operand {show(lacking)}, expected an earlier one"
                )
        elif x.opcode == "parameter" and not (x.operands and re.fullmatch(r"\d{1,6}", x.operands[0])):
            raise InstanceError(f"{where}, {x.name}: found no number of the parameter, expected one")
        seen.add(x.name)


def _instruction(text: str, name: str, where: str) -> Instruction:
    shape, at = _shape(text, 0, where, 0)
    opcode = _OPCODE.match(text, at)
    if opcode is None:
        raise InstanceError(f"{where}: found {show(text[at : at + 40])}, expected an opcode and operands")
    begin = opcode.end()
    depth, end, parts = 1, begin, [begin]
    for end in range(begin, len(text)):
        character = text[end]
        depth += (character in "({[") - (character in ")}]")
        if not depth:
            break
        if character == "," and depth == 1:
            parts.append(end + 1)
    if depth:
        raise InstanceError(f"{where}: found no end of the operands of {opcode[1]}, expected )")
    operands = [text[a:b].rstrip(", ") for a, b in zip(parts, [*parts[1:], end], strict=True)]
    names = [match[1] for x in operands if (match := _NAME.search(x))]
    return Instruction(
        name, shape, opcode[1], () if opcode[1] == "constant" else tuple(names), text[end + 1 :]
    )


def _shape(text: str, at: int, where: str, depth: int) -> tuple[HloShape, int]:
    """Return the shape that begins there, and where it ends."""
    if depth > DEEPEST:
        raise InstanceError(f"{where}: found a tuple nested too deeply, expected at most {DEEPEST} levels")
    while text[at : at + 1] == " ":
        at += 1
    if text[at : at + 1] == "(":
        parts: list[HloShape] = []
        at += 1
        while text[at : at + 1] not in (")", ""):
            part, at = _shape(text, at, where, depth + 1)
            parts.append(part)
            at += text[at : at + 1] == ","
        return HloShape(POINTER * len(parts), (), tuple(parts)), at + 1
    kind = _TYPE.match(text, at)
    bits = None if kind is None else _BITS.get(kind[1], 8 if kind[1].startswith("f8") else None)
    if kind is None or bits is None:
        raise InstanceError(f"{where}: found {show(text[at : at + 40])}, expected a shape such as f32[2,3]")
    sizes = [x.strip().removeprefix("<=") for x in (kind[2] or "").split(",")] if kind[2] else []
    if not all(re.fullmatch(r"\d{1,18}", x) for x in sizes):
        raise InstanceError(f"{where}: found dimensions [{kind[2]}], expected integers >= 0")
    numbers = tuple(map(int, sizes))
    at = kind.end()
    if layout := _LAYOUT.match(text, at):
        at = layout.end()
    return HloShape(-(-prod(numbers) * bits // 8), numbers, None, kind[1]), at
