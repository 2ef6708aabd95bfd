"""One entry for every source of buffers: files of buffers, plans, and graphs in their reference order."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import lcm
from pathlib import Path
from typing import NamedTuple

from ..models.buffers import Buffers
from ..models.errors import InstanceError
from ..models.graph import Graph
from ..models.lowering.buffers import buffers_from_plan
from ..models.plan import Plan
from ..models.verifier.verify import verify
from .catalogue import is_buffers, load_buffers_entry
from .formats import BUFFER_SCHEMES, SCHEMES, format_of, known_endings
from .formats.native import graph_from_dict
from .formats.native_buffers import buffers_from_dict
from .formats.native_plan import plan_from_dict
from .formats.strict_json import located, nearest, parse_json, read_bytes, show
from .load import load
from .load_plan import graph_of_plan
from .options import Parameter, typed_option, typed_options
from .spec import Spec, parse_spec
from .transforms.unroll import unroll

_POOL = "pool."
_CAPACITY = Parameter("none", "capacity", kind="limit", least=1)
_OPTIONS = {
    "capacity": _CAPACITY,
    "alignment": Parameter("", "what every offset is a multiple of", kind="size", least=1),
    "iterations": Parameter(1, "executions of the plan", least=1),
}


class LoadedBuffers(NamedTuple):
    """Buffers and, if they are residencies, the plan and the graph that they come from."""

    buffers: Buffers
    plan: Plan | None = None
    graph: Graph | None = None


def load_buffers(spec: str | os.PathLike[str], **options: object) -> Buffers:
    """Return the buffers that a specification names.

    ============================  ==================================================================
    specification                 buffers
    ============================  ==================================================================
    ``buffers.csv(.gz)``          MiniMalloc's format (`lowtide.instances.formats.minimalloc_csv`)
    ``buffers.json(.gz)``         native file (`lowtide.instances.formats.native_buffers`)
    ``snapshot.pickle``           CUDA memory snapshot of torch (`lowtide.instances.formats.cuda_snapshot`),
                                  with ``device=``, ``stream=``, ``pool=``, ``sizes=``, ``iteration=``
    ``catalogue:minimalloc/D``    a bundled set (``lowtide list instances``)
    ``plan.json(.gz)``            residencies and workspaces of a plan, on the graph that it names
    what `load` takes             residencies and workspaces of the graph's reference order
    ============================  ==================================================================

    Options, in the specification or as keywords; a graph's own options stand beside them:

    ==================  ============================================================================
    ``capacity=SIZE``   capacity of every pool: ``1048576``, ``512MiB``; ``none``: no limit
    ``pool.NAME=SIZE``  capacity of one pool
    ``iterations=N``    of a plan or a graph: that many in a row (`lowtide.instances.transforms.unroll`)
    ``alignment=SIZE``  every offset is a multiple of it, besides of the buffer's own alignment
    ==================  ============================================================================

    Parameters
    ----------
    spec
        A path or a specification; ``,`` serves as ``&``.
    **options
        The same options as keywords; they override those in the specification.

    Raises
    ------
    InstanceError
        If the file is missing or wrong, the plan breaks a rule, or scheme, name, option or value is
        unknown.
    BackendUnavailable
        If a package that the format needs is not installed.

    Examples
    --------
    >>> from lowtide.instances import load_buffers
    >>> found = load_buffers("gen:chain?n=5&capacity=1GiB")
    >>> len(found.buffers), found.pools
    (5, {'memory': 1073741824})
    """
    return load_buffers_and_plan(spec, **options).buffers


def load_buffers_and_plan(spec: str | os.PathLike[str], **options: object) -> LoadedBuffers:
    """Return what `load_buffers` returns, with the plan and the graph that the buffers come from, if any.

    Raises
    ------
    InstanceError
        As `load_buffers`.
    BackendUnavailable
        As `load_buffers`.
    """
    parsed = parse_spec(spec)
    given = {**parsed.options, **options}
    ours = {key: value for key, value in given.items() if key in _OPTIONS or key.startswith(_POOL)}
    rest = {key: value for key, value in given.items() if key not in ours}
    loaded = _load(Spec(parsed.scheme, parsed.name), rest)
    where = str(parsed)
    # The graph's source has its options as text, those for symbolic dimensions among them.
    own = parse_spec(str(loaded.graph.source)).options if rest and loaded.graph else rest
    if "iterations" in ours:
        loaded = _repeated(loaded, ours["iterations"], where)
    buffers = _with_options(loaded.buffers, ours, where)
    texts = {key: "none" if value is None else str(value) for key, value in {**own, **ours}.items()}
    source = Spec(parsed.scheme, parsed.name, texts)
    return loaded._replace(buffers=replace(buffers, source=str(source)))


def _load(spec: Spec, rest: Mapping[str, object]) -> LoadedBuffers:
    path = spec.name
    graphs = SCHEMES.get(spec.scheme) or format_of(path)
    buffers = format_of(path, buffers=True) if spec.scheme == "path" else BUFFER_SCHEMES.get(spec.scheme)
    if buffers is not None:
        _refuse(rest, spec, buffers.parameters)
        return LoadedBuffers(buffers.reader(path, **typed_options(rest, buffers.parameters, str(spec))))
    if spec.scheme == "catalogue" and is_buffers(path):
        _refuse(rest, spec)
        return LoadedBuffers(load_buffers_entry(path))
    if graphs is SCHEMES["native"]:
        _refuse(rest, spec)
        return _load_json(spec)
    if graphs is None and os.path.splitext(path)[1]:
        raise InstanceError(f"{path}: found no known ending, expected one of {known_endings(buffers=True)}")
    graph = load(Path(path) if spec.scheme == "path" else str(spec), **rest)
    return _reference_order(graph)


def _load_json(spec: Spec) -> LoadedBuffers:
    """Return the buffers, the plan's or the graph's, as the file says what it is."""
    path = spec.name
    data = parse_json(read_bytes(path), path)
    kind = data.get("format") if isinstance(data, dict) else None
    if kind == "lowtide/buffers":
        found = buffers_from_dict(data, path)
        stem = re.sub(r"\.json(\.gz)?$", "", os.path.basename(path), flags=re.IGNORECASE)
        return LoadedBuffers(replace(found, name=found.name or stem))
    if kind == "lowtide/plan":
        plan = plan_from_dict(data, path, folder=os.path.dirname(path))
        return _of_plan(plan, path)
    if kind == "lowtide/graph":
        return _reference_order(replace(graph_from_dict(data, path), source=str(spec)))
    kinds = '"lowtide/buffers", "lowtide/plan" or "lowtide/graph"'
    raise InstanceError(f"{path}: format: found {show(kind)}, expected {kinds}")


def _of_plan(plan: Plan, path: str) -> LoadedBuffers:
    graph = graph_of_plan(plan, path)
    bare = replace(plan, allocation=None)
    verdict = verify(graph, bare)
    if not verdict.valid:
        raise InstanceError(f"{path}: found an invalid plan, {verdict.violations[0].message}")
    return LoadedBuffers(buffers_from_plan(graph, bare), plan, graph)


def _reference_order(graph: Graph) -> LoadedBuffers:
    plan = Plan.from_order(graph, range(len(graph.ops)))
    return LoadedBuffers(buffers_from_plan(graph, plan), plan, graph)


def _repeated(loaded: LoadedBuffers, value: object, where: str) -> LoadedBuffers:
    """Return the buffers of several iterations; they are none of a single plan any more."""
    if loaded.graph is None or loaded.plan is None:
        raise InstanceError(
            f"instance {where!r}, option iterations: found buffers, expected a plan or a graph"
        )
    count = typed_option("iterations", value, _OPTIONS["iterations"], where)
    with located(f"instance {where!r}"):
        return LoadedBuffers(unroll(loaded.graph, loaded.plan, count))


def _refuse(rest: Mapping[str, object], spec: Spec, known: Collection[str] = ()) -> None:
    for key in [key for key in rest if key not in known]:
        hint = nearest(key, (*_OPTIONS, f"{_POOL}NAME", *known))
        raise InstanceError(f"instance '{spec}': found unknown option {key!r}, {hint}")


def _with_options(buffers: Buffers, options: Mapping[str, object], where: str) -> Buffers:
    pools = dict(buffers.pools)
    if "capacity" in options:
        pools = dict.fromkeys(pools, typed_option("capacity", options["capacity"], _CAPACITY, where))
    for key in options:
        if key.startswith(_POOL):
            name = key.removeprefix(_POOL)
            if name not in pools:
                raise InstanceError(
                    f"instance {where!r}: found unknown pool {name!r}, {nearest(name, pools)}"
                )
            pools[name] = typed_option(key, options[key], _CAPACITY, where)
    least = 1
    if "alignment" in options:
        least = typed_option("alignment", options["alignment"], _OPTIONS["alignment"], where)
    with located(f"instance {where!r}"):
        chosen = buffers.buffers
        if least > 1:
            chosen = tuple(replace(b, alignment=lcm(b.alignment, least)) for b in chosen)
        return replace(buffers, buffers=chosen, pools=pools)
