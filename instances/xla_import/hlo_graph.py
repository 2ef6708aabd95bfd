"""Scheduled HLO as a graph: an instruction of the entry is an op, each array a tensor.

* Fusions, calls of libraries and single operators are ops. Parameters, constants, tuples, their elements and
  bitcasts are none; tables of pointers have no bytes.
* Parameters are there from the beginning to the end, since XLA frees none of them; constants to their last
  use. A parameter that ``input_output_alias`` donates may be freed.
* A ``while`` reads what it is given and writes it in place, as XLA does: its carried values have one buffer.
  What its body hands on unchanged it only reads. A dynamic-update-slice and a scatter, also in a fusion,
  write in place if nothing else reads their first operand.
* While it runs, a ``while`` holds besides the least peak of its body (or its condition) over all orders,
  without the carried values; a ``conditional`` that of its larger branch, without its results.
  ``bodies=file`` takes the order of the file. Constants of bodies are read by the op.

`coexist` is XLA's own accounting: its dump of live ranges counts operands and results of an instruction
together.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import prod
from typing import NamedTuple

from ...models.errors import InstanceError
from ...models.graph import Graph
from ...models.work import Work
from ..durations import at_peak_rates
from ..formats.strict_json import DEEPEST, read_bytes
from ..options import Parameter
from .board import Board, dtype_of
from .hlo_text import Computation, HloShape, Instruction, Module, branches_of, parse_hlo, writes_in_place

PARAMETERS = {
    "bodies": Parameter("least", "order of the bodies of control flow", choices=("least", "file")),
}

Origin = tuple[str, tuple[int, ...]]
"""An array: the instruction that makes it, and the index in its result."""

_FORWARDED = ("tuple", "get-tuple-element", "bitcast", "optimization-barrier", "domain", "add-dependency")


def read_hlo(path: str | os.PathLike[str], *, bodies: str = "least") -> Graph:
    """Return the graph of a file of scheduled HLO.

    Parameters
    ----------
    path
        The file, as XLA dumps it (``…after_optimizations.txt``) or as ``compiled.as_text()`` of JAX.
    bodies
        ``least``: bodies of control flow need their least peak; ``file``: that of their order in the file.

    Raises
    ------
    InstanceError
        If it is no HLO, its order is no schedule, or a body has no proved least peak.
    """
    where = os.fspath(path)
    return hlo_graph(read_bytes(path).decode("utf-8", "replace"), where, bodies=bodies)


def hlo_graph(text: str, where: str = "hlo", *, bodies: str = "least") -> Graph:
    """Return the graph of a text of scheduled HLO, as `read_hlo`.

    Raises
    ------
    InstanceError
        As `read_hlo`.

    Examples
    --------
    >>> import os
    >>> from lowtide.instances.xla_import.hlo_graph import hlo_graph
    >>> lines = [
    ...     "HloModule m, is_scheduled=true",
    ...     "ENTRY %main (x: f32[4]) -> f32[4] {",
    ...     "  %x = f32[4]{0} parameter(0)",
    ...     "  %y = f32[4]{0} sine(%x)",
    ...     "  ROOT %z = f32[4]{0} add(%x, %y)",
    ...     "}",
    ... ]
    >>> hlo_graph(os.linesep.join(lines))
    Graph('m', 2 ops, 3 tensors)
    """
    module = parse_hlo(text, where)
    if not module.scheduled:
        raise InstanceError(f"{where}: found no is_scheduled=true, expected HLO after optimizations")
    reader = _HloReader(module, where, reorder=bodies == "least")
    draft = reader.entry(module.entry)
    donated = {int(x) for x in re.findall(r"\}: \((\d{1,6}), \{", text.partition("\n")[0])}
    kept = [t for k, ts in enumerate(draft.parameters) for t in ts.values() if k not in donated]
    draft.board.keep((*kept, *draft.results.values()))
    graph = Graph(
        name=module.name,
        tensors=tuple(draft.board.tensors),
        ops=tuple(draft.board.ops),
        provenance={"source": "hlo", "bodies": bodies},
    )
    return at_peak_rates(graph)


class _PlacedComputation(NamedTuple):
    """A computation on a board: tensors of parameters and of the result by index, and its constants."""

    board: Board
    parameters: list[dict[tuple[int, ...], int]]
    results: dict[tuple[int, ...], int]
    constants: dict[str, Instruction]


class _Flow(NamedTuple):
    """Where arrays come from, and who uses them last."""

    origins: Mapping[str, Mapping[tuple[int, ...], Origin]]
    users: Mapping[Origin, list[int]]


class _HloReader:
    """Turns computations of a module into ops; those that others call, each once."""

    def __init__(self, module: Module, where: str, *, reorder: bool) -> None:
        self.module, self.where, self.reorder = module, where, reorder
        self.flows: dict[str, _Flow] = {}
        self.drafts: dict[tuple[str, bool], _PlacedComputation] = {}
        self.peaks: dict[tuple[str, bool], int] = {}
        lines = [x for c in module.computations.values() for x in c.instructions.values()]
        self.ends = {x.operands[0]: x for x in lines if x.opcode.endswith("-done") and x.operands}
        self.open: list[str] = []

    def flow(self, name: str) -> _Flow:
        """Return where the arrays of a computation come from."""
        if name not in self.flows:
            self._enter(name)
            self.flows[name] = self._flow(self.module.computations[name])
            self.open.pop()
        return self.flows[name]

    def _enter(self, name: str) -> None:
        if name in self.open or len(self.open) > DEEPEST:
            raise InstanceError(f"{self.where}: found computation {name!r} within itself, expected none")
        self.open.append(name)

    def _flow(self, computation: Computation) -> _Flow:
        origins: dict[str, Mapping[tuple[int, ...], Origin]] = {}
        users: defaultdict[Origin, list[int]] = defaultdict(list)
        for at, x in enumerate(computation.instructions.values()):
            given = (
                [origins[name] for name in x.operands] if x.opcode not in ("parameter", "constant") else []
            )
            if x.opcode not in _FORWARDED:
                for origin in {origin for leaves in given for origin in leaves.values()}:
                    users[origin].append(at)
            origins[x.name] = self._made(x, given)
        for origin in origins[computation.root].values():
            users[origin].append(len(computation.instructions))
        return _Flow(origins, users)

    def _made(
        self, x: Instruction, given: list[Mapping[tuple[int, ...], Origin]]
    ) -> dict[tuple[int, ...], Origin]:
        if x.opcode == "tuple":
            return {(k, *index): origin for k, leaves in enumerate(given) for index, origin in leaves.items()}
        if x.opcode == "get-tuple-element":
            number = re.search(r"\bindex=(\d{1,9})", x.attributes)
            first = int(number[1]) if number else -1
            return {index[1:]: origin for index, origin in given[0].items() if index and index[0] == first}
        if (x.opcode in _FORWARDED or x.opcode.endswith("-done")) and given:
            return dict(given[0])
        made: dict[tuple[int, ...], Origin] = {index: (x.name, index) for index, _ in self._arrays(x)}
        if x.opcode == "while":
            for index in self._unchanged(x):
                made[index] = given[0][index]
        return made

    def _arrays(self, x: Instruction) -> list[tuple[tuple[int, ...], HloShape]]:
        """Return the arrays that an instruction makes; one that only starts makes what its end returns."""
        return [*self.ends.get(x.name, x).shape.arrays()]

    def _unchanged(self, x: Instruction) -> list[tuple[int, ...]]:
        """Return the indices at which the body of a while returns what it is given."""
        body = self.module.of(x.computations("body"), f"{self.where}, {x.name}")
        if not body.parameters:
            return []
        flow, parameter = self.flow(x.computations("body")[0]), body.parameters[0].name
        return [index for index, origin in flow.origins[body.root].items() if origin == (parameter, index)]

    def entry(self, name: str) -> _PlacedComputation:
        """Return the entry as tensors and ops."""
        return self._draft(name, entry=True)

    def _draft(self, name: str, *, entry: bool = False, held: bool = False) -> _PlacedComputation:
        """Return a computation as tensors and ops.

        Parameters
        ----------
        entry
            Whether what is changed in place is a new version of a tensor. In a body, whose graph has one
            writer for each tensor, an empty tensor says instead that it was changed.
        held
            Whether the bytes of the parameters count outside.
        """
        computation, flow = self.module.computations[name], self.flow(name)
        self._enter(name)
        board = Board(reorder=self.reorder)
        tensors: dict[Origin, tuple[int, ...]] = {}
        constants: dict[str, Instruction] = {}
        parameters: list[dict[tuple[int, ...], int]] = []
        numbers = {x.name: k for k, x in enumerate(computation.parameters)}
        for x in computation.parameters:
            arrays = {
                index: board.tensor(_label(x.name, index), 0 if held else a.nbytes, "input", initial=True)
                for index, a in x.shape.arrays()
            }
            parameters.append(arrays)
            tensors |= {(x.name, index): (t,) for index, t in arrays.items()}
        for at, x in enumerate(computation.instructions.values()):
            if x.name in numbers or x.opcode in _FORWARDED or x.opcode.endswith("-done"):
                continue
            if x.opcode == "constant":
                constants[x.name] = x
                size = x.shape.nbytes if entry else 0
                tensors[x.name, ()] = (board.tensor(x.name, size, "weight", initial=True),)
            elif x.opcode != "after-all":
                self._op(x, at, computation, flow, board, tensors, entry)
                constants |= self._constants(x)
        results = {
            index: tensors[origin][0]
            for index, origin in flow.origins[computation.root].items()
            if origin in tensors
        }
        self.open.pop()
        return _PlacedComputation(board, parameters, results, constants)

    def _op(
        self,
        x: Instruction,
        at: int,
        computation: Computation,
        flow: _Flow,
        board: Board,
        tensors: dict[Origin, tuple[int, ...]],
        entry: bool,
    ) -> None:
        """Put an instruction on the board."""
        given = [flow.origins[name] for name in x.operands]
        reads = [t for leaves in given for origin in leaves.values() for t in tensors.get(origin, ())]
        inner = self._constants(x) if entry else {}
        reads += [
            board.tensor(f"{x.name}/{c.name}", c.shape.nbytes, "weight", initial=True) for c in inner.values()
        ]
        writes: list[int] = []
        for index, origin in flow.origins[x.name].items():
            if origin[0] != x.name:
                continue  # handed on
            before = self._overwritten(x, index, given, flow, at, board, tensors)
            if before is None:
                new = board.tensor(_label(x.name, index), dict(self._arrays(x))[index].nbytes)
                tensors[origin] = (new,)
                writes.append(new)
            elif entry:
                tensors[origin] = before
                writes += before
            else:
                changed = board.tensor(f"{_label(x.name, index)}/changed", 0)
                tensors[origin] = (before[0], changed)
                writes.append(changed)
        workspace, work = self._inside(x)
        inner_macs = self._multiply_adds(x, computation)
        board.op(
            x.name,
            x.opcode,
            reads,
            writes,
            workspace=workspace,
            multiply_adds=inner_macs,
            dtype=dtype_of(next((a.element for _, a in x.shape.arrays()), "")),
            work=work,
        )

    def _overwritten(
        self,
        x: Instruction,
        index: tuple[int, ...],
        given: list[Mapping[tuple[int, ...], Origin]],
        flow: _Flow,
        at: int,
        board: Board,
        tensors: Mapping[Origin, tuple[int, ...]],
    ) -> tuple[int, ...] | None:
        """Return the tensor that a result takes the place of; None if it is a new one."""
        if x.opcode == "while":
            origin = given[0][index]
        elif writes_in_place(x, self.module) and not index:
            size = x.shape.nbytes
            same = [
                o
                for leaves in given
                for o in leaves.values()
                if o in tensors and board.tensors[tensors[o][0]].nbytes == size
            ]
            if not same:
                return None
            origin = same[0]
        else:
            return None
        before = tensors.get(origin)
        elsewhere = [user for user in flow.users[origin] if user != at]
        twice = sum(o == origin for leaves in given for o in leaves.values()) > 1
        if before is None or elsewhere or twice or board.tensors[before[0]].initial:
            return None
        return before

    def _constants(self, x: Instruction) -> dict[str, Instruction]:
        """Return the constants of the bodies of an instruction, and of what is in them."""
        inner: dict[str, Instruction] = {}
        for name in _bodies(x):
            inner |= self._body(name, held=True).constants if name in self.module.computations else {}
        return inner

    def _body(self, name: str, *, held: bool) -> _PlacedComputation:
        """Return a computation that another one runs, its results kept."""
        if (name, held) not in self.drafts:
            draft = self.drafts[name, held] = self._draft(name, held=held)
            draft.board.keep(draft.results.values())
        return self.drafts[name, held]

    def _peak(self, name: str, *, held: bool) -> int:
        if (name, held) not in self.peaks:
            self.peaks[name, held] = self._body(name, held=held).board.peak(f"{self.where}, {name}")
        return self.peaks[name, held]

    def _inside(self, x: Instruction) -> tuple[int, list[Work] | None]:
        """Return the bytes that bodies need besides what the op reads and writes, and their work."""
        bodies = [name for name in _bodies(x) if name in self.module.computations]
        if not bodies:
            return 0, None
        workspace, works = 0, []
        for name in bodies:
            carried = x.opcode == "while" and name in x.computations("body")
            draft = self._body(name, held=not carried)
            known: Iterable[int] = () if x.opcode == "while" else draft.results.values()
            if carried:
                known = (t for ts in draft.parameters for t in ts.values())
            outside = sum(draft.board.tensors[t].nbytes for t in {*known})
            workspace = max(workspace, self._peak(name, held=not carried) - outside)
            works.append([w for op in draft.board.ops for w in op.work or ()])
        work = max(works, key=lambda ws: sum(w.nbytes * w.times for w in ws))
        trips = re.search(r'"known_trip_count":\{"n":"(\d{1,9})"', x.attributes)
        times = int(trips[1]) if trips and x.opcode == "while" else 1
        return max(0, workspace), [w.repeated(max(1, times)) for w in work]

    def _multiply_adds(self, x: Instruction, computation: Computation) -> int:
        inner = [
            self.module.computations[n] for n in x.computations("calls") if n in self.module.computations
        ]
        inside = [(y, c) for c in inner for y in c.instructions.values()] if x.opcode == "fusion" else []
        return sum(_arithmetic(y, c) for y, c in (*inside, (x, computation)))


def _label(name: str, index: tuple[int, ...]) -> str:
    return name + "".join(f".{k}" for k in index)


def _bodies(x: Instruction) -> tuple[str, ...]:
    """Return the bodies of control flow of an instruction."""
    if x.opcode == "while":
        return (*x.computations("body"), *x.computations("condition"))
    return branches_of(x) if x.opcode in ("call", "conditional") else ()


def _arithmetic(x: Instruction, computation: Computation) -> int:
    """Return the multiply-adds of a dot or a convolution."""
    if x.opcode not in ("dot", "convolution") or len(x.operands) < 2:
        return 0
    out = prod(x.shape.sizes)
    left, right = (computation.instructions[name].shape.sizes for name in x.operands[:2])
    if x.opcode == "dot":
        axes = re.search(r"\blhs_contracting_dims=\{([0-9,]*)\}", x.attributes)
        return out * prod(left[k] for k in _integers(axes[1] if axes else "") if k < len(left))
    labels = re.search(r"\bdim_labels=\w+_(\w+)->", x.attributes)
    axis = labels[1].find("o") if labels else -1
    return out * prod(right) // max(1, right[axis]) if 0 <= axis < len(right) else 0


def _integers(text: str) -> Iterable[int]:
    return (int(x) for x in text.split(",") if x)
