"""One entry for every kind of instance: a path, or ``scheme:name?key=value&key=value``."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ..models.derived.merging import merge_ops, sets_of
from ..models.errors import InstanceError
from ..models.graph import Graph
from .catalogue import ASKED
from .drawn_sizes import with_drawn_sizes
from .durations import device_of, on_device
from .formats import BUFFER_SCHEMES, SCHEMES, format_of, format_within, known_endings
from .formats.networkx_graph import from_networkx
from .formats.strict_json import show
from .options import Parameter, typed_options
from .spec import Spec, parse_spec
from .transforms.blocks import in_blocks
from .transforms.data_parallel import data_parallel

if TYPE_CHECKING:
    import networkx as nx

_BETWEEN = {
    "barriers": Parameter(0, "barriers between the copies", least=0),
    "exchange": Parameter(
        0, "bytes of gradients that the copies sum up at each barrier and the end", kind="size"
    ),
}
_BLOCKS = {"blocks": Parameter(1, "blocks of consecutive ops", least=1)}
_TILE = {"tile": Parameter(1, "bytes of a weight's tile", kind="size", least=1)}
_MICRO = {"micro": Parameter(1, "micro-batches", least=1, most=10_000)}
_DRAW = {"draw": Parameter(0, "number of the draw of random sizes", least=0)}


def load(spec: str | os.PathLike[str] | nx.Graph[Any], **options: object) -> Graph:
    """Return the graph that a specification names, or that a networkx digraph is.

    ===============================  ==================================================================
    specification                    graph
    ===============================  ==================================================================
    ``graph.json(.gz)``              native file; also ``native:PATH``, whatever the name ends in
    ``model.onnx?batch=32``          ONNX file, options as for ``onnx:``
    ``graph.dot``, ``.gv``           DOT through networkx; also ``dot:PATH``
    ``graph.graphml(.gz)``           GraphML through networkx; also ``graphml:PATH``
    ``onnx:NAME?batch=32&train=1``   a network that ships inside the onnx package; ``weights=1`` keeps
                                     the weights, ``conv=modes`` gives convolutions a mode for each
                                     algorithm; any other option gives a symbolic dimension its size
    ``g10:FOLDER?clock_mhz=1200``    statistics that the public artifact of G10 (MICRO 2023) writes
    ``wfcommons:PATH?memory=0``      workflow trace of WfCommons; without the memory of its tasks
    ``trace.json``                   JSON of WfCommons, IOS, Piper and the like is known by its keys
    ``tasks.stg?seed=1``             file of the Standard Task Graph Set, sizes drawn; also ``stg:PATH``
    ``name.tree``, ``.tree.nf``      in-tree, lines ``id parent exec time out``; also ``tree:PATH``
    ``rank.et?device=cuda:0``        Chakra execution trace; also ``chakra:PATH``
    ``model.tflite``                 TensorFlow Lite model, one subgraph; also ``tflite:PATH``
    ``graph.hdag?weight=memory``     hyperDAG of OneStopParallel or HyperDAG_DB; also ``hyperdag:PATH``
    ``gen:FAMILY?n=32&seed=1``       generated; each family has its own options
    ``torch:NAME?train=1``           a network of ours traced with torch; each has its own options
    ``catalogue:NAME``               bundled, such as ``catalogue:g10/vit-1280``
    ``…?blocks=50``                  any of these, its ops in blocks of like durations (`in_blocks`)
    ``…?merge=conv4+conv5;9+10``     ops of a graph that states merges, each of these as one (`merge_ops`)
    ``…?copies=gpu0+gpu1``           any of these, once for each of these processor kinds (`data_parallel`)
    ``…?copies=…&barriers=3``        behind each, no copy goes on before all are through
    ``…?copies=…&exchange=5MB``      at each barrier and at the end, gradients go round all copies
    ``…?node=optane``                any of these, on a socket with DRAM and persistent memory (`optane`)
    ``…?node=optane-roofline``       the same, slow accesses hidden behind arithmetic
    ``…?node=cxl``                   the same on a socket with DRAM and CXL memory, also ``cxl-roofline``
    ``…?node=zero``                  training, updated by Adam on the host's processor (`zero`)
    ``…?node=zero-delayed``          the same, one iteration later, beside the forward and backward pass
    ``…?compress.activation=2.5``    training, what the backward pass reads again packed by that factor
                                     (`compressed`); also other kinds of tensor
    ``…?tile=64MB``                  weights of more bytes used a tile at a time (`tiled`)
    ``…?cuts=13-26&micro=8``         training, as the pipeline of stages of its layers (`staged`); what layers
                                     keep: ``ways=k13-s4f9``; where they are: ``devices=0-1-1``
    ``…?draw=1``                     any of these, with random sizes (`with_drawn_sizes`)
    ``…?durations=h100-80g``         any of these whose ops state their work, which takes its time on that
                                     machine (`with_durations`); ``durations=given`` keeps what is there
    ===============================  ==================================================================

    Parameters
    ----------
    spec
        A path or a specification; ``,`` serves as ``&``. Or a networkx digraph, as `from_networkx` takes it.
    **options
        The same options as keywords; they override those in the specification. For ONNX also `dims`,
        a mapping from symbolic dimensions to sizes.

    Raises
    ------
    InstanceError
        If the file is missing or wrong, or scheme, name, option or value is unknown; the message
        proposes the nearest names.
    BackendUnavailable
        If a package that the format needs is not installed.

    Examples
    --------
    >>> from lowtide.instances import load
    >>> load("gen:chain?n=5")
    Graph('chain?n=5', 5 ops, 5 tensors)
    """
    source = _digraph(spec)
    parsed = Spec("digraph", "") if source is not None else parse_spec(cast(Any, spec))
    given = {**parsed.options, **options}
    blocks = given.pop("blocks", None)
    merge = given.pop("merge", "")
    copies = given.pop("copies", None)
    between = {key: given.pop(key) for key in _BETWEEN if key in given}
    node = given.pop("node", None)
    draw = given.pop("draw", None)
    durations = given.pop("durations", None)
    tile = given.pop("tile", None)
    asked = ("cuts", "ways", "devices", "micro") if "cuts" in given else ()
    stages = {key: given.pop(key) for key in asked if key in given}
    factors = {key: given.pop(key) for key in sorted(given) if key.startswith("compress.")}
    graph = _load(parsed, given) if source is None else from_networkx(source)
    if source is not None:
        typed_options(given, {}, "digraph")
    dims = given.pop("dims", {})
    assert isinstance(dims, Mapping)
    text = {key: _text(value) for key, value in {**given, **dims}.items()}
    device, kept = device_of(durations, graph, node, str(parsed))
    graph = read = on_device(graph, device)
    if draw is not None:
        graph = with_drawn_sizes(graph, int(typed_options({"draw": draw}, _DRAW, str(parsed))["draw"]))
        text["draw"] = str(draw)
    if factors:
        from .transforms.compress import compressed

        kinds = {key: Parameter(2.0, "bytes over packed bytes", least=1) for key in factors}
        values = typed_options(factors, kinds, str(parsed))
        graph = compressed(graph, {key.partition(".")[2]: float(value) for key, value in values.items()})
        text |= {key: str(value) for key, value in factors.items()}
    if merge:
        graph = merge_ops(graph, sets_of(graph, str(merge)))
        text["merge"] = str(merge)
    if tile is not None:
        from .transforms.tile import tiled

        graph = tiled(graph, int(typed_options({"tile": tile}, _TILE, str(parsed))["tile"]))
        text["tile"] = str(tile)
    if blocks is not None:
        graph = in_blocks(graph, int(typed_options({"blocks": blocks}, _BLOCKS, str(parsed))["blocks"]))
        text["blocks"] = str(blocks)
    if copies is not None:
        what = {key: int(value) for key, value in typed_options(between, _BETWEEN, str(parsed)).items()}
        graph = data_parallel(graph, str(copies).split("+"), **what)
        text |= {"copies": str(copies), **{key: str(value) for key, value in what.items() if value}}
    elif between:
        found = " and ".join(between)
        raise InstanceError(f"instance '{parsed}': found {found}, expected copies or replicas with them")
    if node is not None:
        from .transforms.optane import CXL, OPTANE, on_optane
        from .transforms.zero import on_zero

        known = ("optane", "optane-roofline", "cxl", "cxl-roofline", "zero", "zero-delayed")
        if node not in known:
            expected = f"expected one of {', '.join(known)}"
            raise InstanceError(f"instance '{parsed}', option node: found {show(node)}, {expected}")
        if node in known[:4]:
            socket = OPTANE if node in known[:2] else CXL
            graph = on_optane(graph, roofline=node in known[1:4:2], socket=socket)
        else:
            graph = on_zero(graph, delayed=node == "zero-delayed")
        text["node"] = str(node)
    if stages:
        from .transforms.staged import staged

        micro = {key: value for key, value in stages.items() if key == "micro"}
        many = int(typed_options(micro, _MICRO, str(parsed))["micro"])
        ways, devices = (str(stages.get(key, "")) for key in ("ways", "devices"))
        graph = staged(graph, str(stages["cuts"]), ways, devices, many)
        text |= {key: str(value) for key, value in stages.items()}
    graph = on_device(graph, device, read)
    text |= kept
    return replace(graph, source=None if source is not None else str(Spec(parsed.scheme, parsed.name, text)))


def _digraph(spec: object) -> nx.Graph[Any] | None:
    """Return what was given if it is a graph of networkx, which then was imported already."""
    networkx = sys.modules.get("networkx")
    return spec if networkx is not None and isinstance(spec, networkx.Graph) else None


def _load(parsed: Spec, given: Mapping[str, object]) -> Graph:
    chosen = SCHEMES.get(parsed.scheme) or format_of(parsed.name)
    if parsed.scheme not in SCHEMES and chosen is SCHEMES["native"]:
        chosen = format_within(parsed.name) or chosen
    if parsed.scheme in BUFFER_SCHEMES:
        raise InstanceError(f"instance '{parsed}': found buffers, expected a graph; load_buffers reads them")
    if chosen is None:
        typed_options(given, {}, str(parsed))
        raise _no_format(parsed.name)
    values = given if chosen.checks else typed_options(given, chosen.parameters, str(parsed))
    graph = chosen.reader(parsed.name, **values)
    if not isinstance(graph, Graph):
        raise InstanceError(f"{parsed.name}: found a network, expected a graph ({ASKED})")
    return graph


def _no_format(path: str) -> InstanceError:
    if os.path.isdir(path):
        return InstanceError(f"{path}: found a folder, expected a file")
    if not os.path.exists(path) and not os.path.splitext(path)[1]:
        return InstanceError(f"{path}: found no such file, expected a file or SCHEME:NAME")
    return InstanceError(f"{path}: found no known ending, expected one of {known_endings()}")


def list_instances() -> list[tuple[str, str]]:
    """Return ``(specification, description)`` of everything that needs no file of the user's.

    Cheap: no graph is built. The networks of the onnx package are listed if it is installed.
    """
    from .catalogue import entries
    from .generators import FAMILIES
    from .torch_import import ARCHITECTURES, parameters_of

    rows = [(f"catalogue:{entry.name}", entry.description) for entry in entries().values()]
    for name, family in FAMILIES.items():
        rows.append((f"gen:{name}?{_defaults(family.parameters)}", family.description))
    for name, network in ARCHITECTURES.items():
        rows.append((f"torch:{name}?{_defaults(parameters_of(name))}", network.description))
    if importlib.util.find_spec("onnx"):
        from .onnx_import import light_models

        rows += [
            (f"onnx:{name}", "network that ships inside the onnx package") for name in sorted(light_models())
        ]
    return rows


def _defaults(parameters: Mapping[str, Parameter]) -> str:
    return "&".join(f"{key}={_text(p.default)}" for key, p in parameters.items())


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
