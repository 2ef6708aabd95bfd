"""Processors of one kind or of several, and the alternatives of each op: in which mode, on which kind.

An op runs in one of its modes, on a processor of a kind that this mode allows. Each such pair that the
machine offers is an *alternative*. On one kind an alternative is left out if another one takes neither longer
nor more workspace: put in its place, that one ends no later and holds no more, whatever else runs, so
nothing is lost. Alternatives on different kinds are never compared.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import InstanceError
from ..graph import Graph, Mode, Op
from ..plan import Run

Processors = int | Mapping[str, int] | tuple[tuple[str, int], ...]
"""How many identical processors, or how many of each kind."""

Kinds = tuple[tuple[str, int], ...]
"""Kinds of processors with their counts."""

ANY = "any"
"""The kind of identical processors."""

_NAME = re.compile(r"[^\s,+=&?]+")


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to run an op: its mode by number, on which kind of processor by index.

    `duration` in ns, `workspace` in bytes.
    """

    mode: int
    kind: int
    duration: int
    workspace: int


def parse_processors(text: str) -> int | Kinds:
    """Return the processors that a text names: a count, or ``cpu=4,gpu=1``; ``+`` serves as ``,``.

    Raises
    ------
    InstanceError
        If it is neither.

    Examples
    --------
    >>> from lowtide.models.problems.processors import parse_processors
    >>> parse_processors("4"), parse_processors("cpu=4,gpu=1")
    (4, (('cpu', 4), ('gpu', 1)))
    """
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        return checked_processors(int(text))
    pairs = []
    for part in re.split(r"[,+]", text):
        kind, equals, count = part.partition("=")
        if not equals or not re.fullmatch(r"\d{1,9}", count, re.ASCII):
            raise InstanceError(
                f"processors: found {text!r}, expected an integer >= 1, or kinds with counts such as "
                "cpu=4,gpu=1"
            )
        pairs.append((kind, int(count)))
    return checked_processors(tuple(pairs))


def processors_text(processors: object) -> str:
    """Return processors, or what a user gave instead, as specifications spell them; `parse_processors` looks.

    Examples
    --------
    >>> from lowtide.models.problems.processors import processors_text
    >>> processors_text(4), processors_text({"cpu": 4, "gpu": 1})
    ('4', 'cpu=4+gpu=1')
    """
    pairs = processors.items() if isinstance(processors, Mapping) else processors
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        return str(pairs).replace(",", "+")
    return "+".join("=".join(map(str, pair)) if isinstance(pair, tuple) else str(pair) for pair in pairs)


def checked_processors(processors: Processors) -> int | Kinds:
    """Return the processors as a count, or as kinds with counts.

    Raises
    ------
    InstanceError
        If a count is no integer >= 1, a kind has no proper name or is named twice, or there is none.
    """
    if isinstance(processors, Mapping):
        processors = tuple(processors.items())
    if not isinstance(processors, tuple | list):
        _check_count(processors, "processors")
        return processors
    kinds = []
    for pair in processors:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InstanceError(f"processors: found {pair!r}, expected a kind and its count")
        kind, count = pair
        if not isinstance(kind, str) or not _NAME.fullmatch(kind):
            raise InstanceError(
                f"processors: found kind {kind!r}, expected a name without blanks and any of , + = & ?"
            )
        _check_count(count, f"processors of kind {kind!r}")
        kinds.append((kind, count))
    names = [kind for kind, _ in kinds]
    if not names:
        raise InstanceError("processors: found none, expected at least one kind with its count")
    for kind in names:
        if names.count(kind) > 1:
            raise InstanceError(f"processors: found kind {kind!r} twice, expected it once")
    return tuple(kinds)


def kinds_of(processors: int | Kinds) -> Kinds:
    """Return the kinds with their counts; identical processors are all of one kind."""
    return ((ANY, processors),) if isinstance(processors, int) else processors


def alternatives_of(graph: Graph, kinds: Kinds) -> tuple[tuple[Alternative, ...], ...]:
    """Return the alternatives of each op, at least one, by kind, then the shortest first.

    Raises
    ------
    InstanceError
        If a mode binds operands to tiers, no processor can run some op, or no op can run on some kind.
    """
    choices = tuple(_of_op(op, i, kinds) for i, op in enumerate(graph.ops))
    used = {a.kind for some in choices for a in some}
    for k, (kind, _) in enumerate(kinds):
        if k not in used:
            named = sorted({name for op in graph.ops for mode in op.all_modes for name in mode.processors})
            raise InstanceError(
                f"processors: found kind {kind!r}, on which no op can run, expected one of {', '.join(named)}"
            )
    return choices


def _of_op(op: Op, i: int, kinds: Kinds) -> tuple[Alternative, ...]:
    where = f"op {i} {op.name!r}"
    if any(mode.operands for mode in op.all_modes):
        raise InstanceError(
            f"{where}: found a mode that binds operands to tiers, expected modes of one memory"
        )
    choices = []
    for k, (kind, _) in enumerate(kinds):
        able = [
            Alternative(number, k, mode.duration_ns, mode.workspace)
            for number, mode in enumerate(op.all_modes)
            if not mode.processors or kind in mode.processors
        ]
        least: int | None = None
        for a in sorted(able, key=lambda a: (a.duration, a.workspace, a.mode)):
            if least is None or a.workspace < least:
                choices.append(a)
                least = a.workspace
    if not choices:
        named = sorted({name for mode in op.all_modes for name in mode.processors})
        given = ", ".join(f"{count} of kind {kind}" for kind, count in kinds)
        raise InstanceError(
            f"{where}: found no processor that can run it ({given}), expected one of kind "
            f"{' or '.join(named)}"
        )
    return tuple(choices)


def as_good(some: Iterable[Alternative], kind: int, mode: Mode) -> int | None:
    """Return the number of the first alternative on a kind that is as good as a mode; None if none is."""
    for k, a in enumerate(some):
        if a.kind == kind and a.duration <= mode.duration_ns and a.workspace <= mode.workspace:
            return k
    return None


def runs_of(
    starts: Sequence[int], chosen: Sequence[Alternative], names: Iterable[Iterable[str]]
) -> list[Run]:
    """Return the runs of ops on named processors of each kind, each on the one that has been idle longest.

    If no more ops run at once than there are processors of a kind, that one is idle: it is the one whose
    last op ended first.
    """
    idle = [[(0, k, name) for k, name in enumerate(some)] for some in names]
    runs = []
    for start, i in sorted((s, i) for i, s in enumerate(starts)):
        a = chosen[i]
        _, k, name = heapq.heappop(idle[a.kind])
        runs.append(Run(i, a.mode, start, start + a.duration, name))
        heapq.heappush(idle[a.kind], (start + a.duration, k, name))
    return runs


def _check_count(value: object, what: str) -> None:
    if type(value) is not int or value < 1:
        raise InstanceError(f"{what}: found {value!r}, expected an integer >= 1")
