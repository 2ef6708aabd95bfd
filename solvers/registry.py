"""The methods: those of the suite, and those that users register through an entry point.

A user's package makes a method known with, in its ``pyproject.toml``::

    [project.entry-points."lowtide.methods"]
    mine = "my_package:my_method"

where ``my_method(problem, context)`` returns an answer (for `peak` an order or a plan, for `offsets` the
offsets by buffer id), or calls ``context.offer`` itself. It then appears in ``lowtide list methods``,
`solve` and sweeps; a `Method` object instead of a function says more about itself, such as another problem
than `peak`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ..models.checks import shown
from ..models.errors import UsageError
from ..models.graph import Graph
from ..models.problems import PROBLEMS
from ..models.problems.problem import Problem
from .arena.methods import ROOM as ARENA
from .distributed.methods import ROOM as DISTRIBUTED
from .hybrid.methods import ROOM as HYBRID
from .makespan.methods import ROOM as MAKESPAN
from .method import Method, load
from .minio.methods import ROOM as MINIO
from .offsets.methods import ROOM as OFFSETS
from .parallel.methods import EDGES
from .parallel.methods import ROOM as PARALLEL
from .partition.methods import ROOM as PARTITION
from .parts import Part, capabilities, refusal
from .peak.methods import ROOM as PEAK
from .pipeline.methods import ROOM as PIPELINE
from .placement.methods import ROOM as PLACEMENT
from .recompute.methods import ROOM as RECOMPUTE
from .room import Room
from .sharding.methods import ROOM as SHARDING
from .streams.methods import ROOM as STREAMS
from .tiles.methods import ROOM as TILES

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


ROOMS: Mapping[str, Room] = {
    room.problem.name: room
    for room in (
        PEAK,
        OFFSETS,
        ARENA,
        PLACEMENT,
        MAKESPAN,
        DISTRIBUTED,
        PARALLEL,
        EDGES,
        RECOMPUTE,
        MINIO,
        STREAMS,
        PIPELINE,
        PARTITION,
        HYBRID,
        SHARDING,
        TILES,
    )
}
"""What each problem brings, by its name."""

METHODS = tuple(method for room in ROOMS.values() for method in room.methods)
"""The methods of the suite."""


def room_of(problem: object) -> Room:
    """Return what the kind of a problem brings.

    Raises
    ------
    UsageError
        If it is no problem.
    """
    kinds = {room.problem: room for room in ROOMS.values()}
    for kind in type(problem).__mro__:
        if kind in kinds:
            return kinds[kind]
    expected = ", ".join(sorted(kind.__name__ for kind in kinds))
    example = ", such as Peak(graph)" if type(problem) is Graph else ""
    raise UsageError(f"solve, problem: found {shown(problem)}, expected one of {expected}{example}")


def methods() -> tuple[Method, ...]:
    """Return every method: the suite's, then users' by name; entry points that are wrong are left out."""
    return registered().methods


class Registered(NamedTuple):
    """The methods, and by the names of entry points that give none what is wrong with them."""

    methods: tuple[Method, ...]
    faults: Mapping[str, str]


@cache
def registered() -> Registered:
    """Load the methods of users beside those of the suite."""
    from importlib.metadata import entry_points

    known = {(m.problem, m.name): m for m in METHODS}
    faults = {}
    for entry in sorted(entry_points(group="lowtide.methods"), key=lambda e: e.name):
        try:
            method = _method_of(entry)
            if (method.problem, method.name) in known:
                raise UsageError(
                    f"found a second method {method.name!r} for {method.problem}, expected a new name"
                )
        except UsageError as error:
            faults[entry.name] = f"entry point {entry.name} = {entry.value}: {error}"
        else:
            known[method.problem, method.name] = method
    return Registered(tuple(known.values()), faults)


def _method_of(entry: EntryPoint) -> Method:
    """Return the method of an entry point; a UsageError says what is wrong."""
    try:
        item = entry.load()
    except Exception as error:  # whatever a user's package raises while it is imported
        raise UsageError(
            f"found {type(error).__name__}: {error}, expected an object that can be imported"
        ) from error
    if callable(item) and not isinstance(item, Method):
        lines = (item.__doc__ or "").strip().splitlines()
        item = Method(entry.name, item, lines[0] if lines else entry.value, problem="peak")
    if not isinstance(item, Method):
        raise UsageError(
            f"found {type(item).__name__}, expected a function or a lowtide.solvers.method.Method"
        )
    if item.problem not in PROBLEMS:
        expected = ", ".join(sorted(PROBLEMS))
        raise UsageError(f"found problem {item.problem!r}, expected one of {expected}")
    return replace(item, package=() if entry.dist is None else (entry.dist.name, entry.dist.version))


def check_freedoms(problem: Problem, method: Method) -> None:
    """Raise unless what a method proves holds with all freedoms of a problem.

    Raises
    ------
    UsageError
        The message has the methods that know them.
    """
    if not {*problem.freedoms} <= {*method.freedoms}:
        able = [
            m.name for m in methods() if m.problem == problem.name and {*problem.freedoms} <= {*m.freedoms}
        ]
        raise UsageError(
            f"method {method.name}: found {', '.join(problem.freedoms)}, expected a method that knows it: "
            f"{', '.join(able) or 'there is none'}"
        )


def declared(method: Method) -> Part | None:
    """Return what a method of the suite declares to serve; None if its room has no declarations."""
    name = ROOMS[method.problem].declared if method.problem in ROOMS and not method.package else ""
    part: Part | None = load(name)[method.name] if name else None
    return part


def unserved(problem: Problem, method: Method | str) -> str:
    """Return why a method, or that of a name, does not serve a problem, as it declares; empty if it does."""
    part = declared(find_method(problem.name, method) if isinstance(method, str) else method)
    if part is None:
        return ""
    of_traits = ROOMS[problem.name].traits
    return refusal(part, problem, load(of_traits)(problem) if of_traits else None)


def capability_matrix(problem: str) -> tuple[list[list[str]], dict[str, list[str]]]:
    """Return groups of a problem's methods that declare the same, and for each trait what each group says.

    Examples
    --------
    >>> groups, matrix = capability_matrix("placement")
    >>> matrix["ops that may run again"][groups.index(["pofo"])]
    'needed'
    """
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for method in ROOMS[problem].methods:
        if (part := declared(method)) is not None:
            groups.setdefault(tuple(capabilities(part).items()), []).append(method.name)
    matrix: dict[str, list[str]] = {}
    for served in groups:
        for trait, answer in served:
            matrix.setdefault(trait, []).append(answer)
    return list(groups.values()), matrix


def find_method(problem: str, name: str) -> Method:
    """Return the method of that name for a problem.

    Raises
    ------
    UsageError
        If there is none (the message has the nearest names), or its entry point is wrong.
    """
    if problem not in PROBLEMS:
        raise UsageError(f"problem: found {problem!r}, expected one of {', '.join(sorted(PROBLEMS))}")
    known = {m.name: m for m in methods() if m.problem == problem}
    if name in known:
        return known[name]
    if name in registered().faults:
        raise UsageError(registered().faults[name])
    elsewhere = sorted({m.problem for m in methods() if m.name == name})
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    if elsewhere:
        hint = f"a method of problem {' and '.join(elsewhere)}; "
    raise UsageError(f"method: found {name!r}, {hint}expected one of {', '.join(known)}")
