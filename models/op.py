"""Tensors, and ops with their modes: frozen, integer, checked once at construction."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from .checks import check_flag, check_integer, check_type, set_bytes
from .errors import InstanceError
from .work import Work
from .written import Written

KINDS = ("input", "weight", "state", "activation", "gradient", "output", "workspace", "other")
"""The kinds of tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor(Written):
    """A buffer that ops read and write.

    Parameters
    ----------
    name
        What messages and pictures call it.
    nbytes
        Size in bytes, at least 0; wherever bytes are asked for, a text such as ``"4MiB"`` will do.
    kind
        One of `KINDS`.
    initial
        It exists before the first op (inputs, weights, optimizer states).
    final
        It must exist, in its last version, after the last op.
    """

    name: str
    nbytes: int
    kind: str = "activation"
    initial: bool = False
    final: bool = False

    def __post_init__(self) -> None:
        # Graphs have many tensors and ops: words are made only for what is wrong.
        if type(self.name) is not str or type(self.initial) is not bool or type(self.final) is not bool:
            check_type(self.name, str, "tensor, name")
            check_flag(self.initial, f"tensor {self.name!r}, initial")
            check_flag(self.final, f"tensor {self.name!r}, final")
        if type(self.nbytes) is not int or self.nbytes < 0:
            set_bytes(self, "nbytes", 0, f"tensor {self.name!r}, nbytes")
        if self.kind not in KINDS:
            raise InstanceError(
                f"tensor {self.name!r}, kind: found {self.kind!r}, expected one of {', '.join(KINDS)}"
            )


def _check_work(item: Op | Mode, where: str) -> None:
    """Check the work of an op or a mode, and make a tuple of it."""
    if type(item.work) is not tuple:
        check_type(item.work, Iterable, where, "a tuple of Work")
        object.__setattr__(item, "work", tuple(item.work))
    for part in item.work:
        check_type(part, Work, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way to run an op.

    Parameters
    ----------
    duration_ns
        Nanoseconds, at least 1.
    workspace
        Bytes held only while the op runs, in the home tier of its processor.
    processors
        Processor kinds that can run it; empty means any.
    operands
        ``(tensor index, tier name)`` pairs: the tier in which that operand must be; operands not
        named may be in any tier that the processor reads and writes.
    share
        How much of a device that several ops use at once it can fill, in the device's parts
        (`Contention.parts`); None: all of it.
    work
        What it does in that time, kernel after kernel; empty: what the op does.
    """

    duration_ns: int = 1
    workspace: int = 0
    processors: tuple[str, ...] = ()
    operands: tuple[tuple[int, str], ...] = ()
    share: int | None = None
    work: tuple[Work, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        check_integer(self.duration_ns, 1, "mode, duration_ns")
        if self.work != ():
            _check_work(self, "mode, work")
        check_integer(self.share, 1, "mode, share", optional=True)
        set_bytes(self, "workspace", 0, "mode, workspace")
        if isinstance(self.processors, str):
            raise InstanceError(f"mode, processors: found {self.processors!r}, expected a tuple of kinds")
        object.__setattr__(self, "processors", tuple(self.processors))
        object.__setattr__(self, "operands", tuple(sorted(self.operands)))
        named = [t for t, _ in self.operands]
        if len(set(named)) != len(named):
            twice = next(t for t in named if named.count(t) > 1)
            raise InstanceError(f"mode, operands: found tensor {twice} twice, expected one tier for it")


@lru_cache(maxsize=4096)
def _only_mode(duration_ns: int, workspace: int, share: int | None) -> tuple[Mode]:
    """Return the modes of an op that lists none; graphs ask often, and few numbers differ."""
    return (Mode(duration_ns=duration_ns, workspace=workspace, share=share),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One task of the graph.

    Parameters
    ----------
    name, kind
        What messages call it; its operator type ("Conv", "Relu", …).
    duration_ns, workspace, share
        Of the only mode, when `modes` is empty.
    reads, writes
        Tensor indices, without repetition. A write that is not also a read overwrites the whole
        tensor; a partial or accumulating write lists the tensor in both.
    after
        Smaller op indices that must have completed once before (control or fictitious edges).
    inplace
        ``(read, write)`` tensor pairs: the write may reuse the read's address if the read dies here.
    modes
        The ways to run it, when there are several.
    work
        What it does in `duration_ns`, kernel after kernel, so that the time on another device follows; empty:
        unknown, as of measured ops. It says nothing about the question: neither `==` nor hashes see it.
    """

    name: str
    kind: str = ""
    duration_ns: int = 1
    workspace: int = 0
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    inplace: tuple[tuple[int, int], ...] = ()
    modes: tuple[Mode, ...] = ()
    share: int | None = None
    work: tuple[Work, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if type(self.name) is not str or type(self.kind) is not str:
            check_type(self.name, str, "op, name")
            check_type(self.kind, str, f"op {self.name!r}, kind")
        if type(self.duration_ns) is not int or type(self.workspace) is not int or self.duration_ns < 1:
            check_integer(self.duration_ns, 1, f"op {self.name!r}, duration_ns")
        if type(self.workspace) is not int or self.workspace < 0:
            set_bytes(self, "workspace", 0, f"op {self.name!r}, workspace")
        if self.share is not None:
            check_integer(self.share, 1, f"op {self.name!r}, share")
        for key in ("reads", "writes", "after", "modes", "inplace"):
            if type(getattr(self, key)) is not tuple:
                check_type(getattr(self, key), Iterable, f"op {self.name!r}, {key}", "a tuple")
                object.__setattr__(self, key, tuple(getattr(self, key)))
        for mode in self.modes:
            check_type(mode, Mode, "op, modes")
        if self.work != ():
            _check_work(self, f"op {self.name!r}, work")
        object.__setattr__(self, "inplace", tuple((r, w) for r, w in self.inplace))

    @property
    def all_work(self) -> tuple[Work, ...]:
        """The work of the op and of its modes."""
        return (*self.work, *(part for mode in self.modes for part in mode.work))

    @property
    def all_modes(self) -> tuple[Mode, ...]:
        """The modes; the one given by `duration_ns` and `workspace` if none is listed."""
        return self.modes or _only_mode(self.duration_ns, self.workspace, self.share)

    @property
    def least_workspace(self) -> int:
        """The least workspace of its modes, in bytes."""
        return min(mode.workspace for mode in self.modes) if self.modes else self.workspace


def op_to_dict(op: Op, *, work: bool = False) -> dict[str, Any]:
    """Return the JSON object of an op; shares that are not stated are left out, as older files do.

    With `work` it has the work of the op and its modes, where they state it.
    """
    shares = {} if op.share is None else {"share": op.share}
    only = {"duration_ns": op.duration_ns, "workspace": op.workspace, "processors": [], "operands": {}}
    return {
        "name": op.name,
        "kind": op.kind,
        "duration_ns": op.duration_ns,
        "workspace": op.workspace,
        "reads": list(op.reads),
        "writes": list(op.writes),
        "after": list(op.after),
        "inplace": [list(pair) for pair in op.inplace],
        "modes": [_mode_to_dict(mode, work) for mode in op.modes] or [{**only, **shares}],
        **shares,
        **_work_to_dict(op, work),
    }


def _work_to_dict(item: Op | Mode, work: bool) -> dict[str, Any]:
    return {"work": [part.to_dict() for part in item.work]} if work and item.work else {}


def _mode_to_dict(mode: Mode, work: bool) -> dict[str, Any]:
    return {
        "duration_ns": mode.duration_ns,
        "workspace": mode.workspace,
        "processors": list(mode.processors),
        "operands": {str(t): tier for t, tier in mode.operands},
        **({} if mode.share is None else {"share": mode.share}),
        **_work_to_dict(mode, work),
    }


def canonical_op(op: Op, quote: Callable[[str], str]) -> str:
    """Return the JSON object of an op without listed modes."""
    pairs = as_text([list(pair) for pair in op.inplace]) if op.inplace else "[]"
    work, share = f'"duration_ns":{op.duration_ns},', "" if op.share is None else f'"share":{op.share},'
    after = _listed(op.after) if op.after else ""
    return (
        f'{{"after":[{after}],{work}"inplace":{pairs},"kind":{quote(op.kind)},'
        f'"modes":[{{{work}"operands":{{}},"processors":[],{share}"workspace":{op.workspace}}}],'
        f'"name":{quote(op.name)},"reads":[{_listed(op.reads)}],{share}"workspace":{op.workspace},'
        f'"writes":[{_listed(op.writes)}]}}'
    )


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def as_text(data: object) -> str:
    """Return JSON, keys sorted, without spaces."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))
