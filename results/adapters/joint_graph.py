"""Joint forward and backward graphs of AOTAutograd, and the two graphs that torch makes of one, as graphs.

`joint_graph` has each op of a joint graph once, for questions about what to compute again. `executed_graph`
has each op as often as a forward and a backward graph run it, in their order: the peak of its reference
order is the *true peak* of a partition.

In both, storages are tensors and views vanish (`lowtide.instances.torch_import.storages`). What the caller
holds meanwhile (parameters, buffers, inputs) counts no bytes. What forward returns, and gradients, stay to
the end. An op ``caller`` of 1 ns stands between the passes: it reads what forward returns and makes the
tangents. Durations are those of the roofline of `lowtide.instances.transforms.roofline`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...instances.torch_import.storages import (
    is_operator,
    kind_of,
    operands,
    overwritten,
    storage_of,
    tensors_of,
)
from ...instances.torch_import.work import bytes_moved, dtype_of, multiply_adds
from ...instances.transforms.roofline import duration_ns
from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ...models.work import Work

CALLER = "caller"
"""Name of the op between the passes."""


@dataclass(frozen=True)
class JointGraph:
    """A joint graph.

    Attributes
    ----------
    graph
        Its ops, each once.
    sources
        By op the ``torch.fx.Node`` that it runs; None of the op between the passes.
    nodes
        By tensor the nodes that are all or a part of it.
    views
        Views as pairs: the op that comes next, and a tensor, which torch makes no later than the view.
    """

    graph: Graph
    sources: tuple[Any, ...]
    nodes: tuple[tuple[Any, ...], ...]
    views: tuple[tuple[int, int], ...]


@dataclass
class _GraphBuilder:
    """Tensors and ops so far, and by node the tensor of each of its storages."""

    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    sources: list[Any] = field(default_factory=list)
    nodes: list[list[Any]] = field(default_factory=list)
    at: dict[Any, dict[Any, int]] = field(default_factory=dict)
    views: list[tuple[int, int]] = field(default_factory=list)

    def placeholder(self, node: Any) -> None:
        """Take what the caller holds."""
        self.at[node] = {}
        for tensor in tensors_of(node):
            self._make(node, tensor, initial=True, final=True, kind="weight")

    def caller(self, outputs: Iterable[Any], tangents: Sequence[Any]) -> None:
        """Let the caller make the tangents, once it has the outputs."""
        reads = sorted({t for node in outputs for t in self.at[node].values()})
        writes = []
        for node in tangents:
            self.at[node] = {}
            for tensor in tensors_of(node):
                writes += self._make(node, tensor, kind="gradient")
        self.ops.append(Op(name=CALLER, reads=tuple(reads), writes=tuple(dict.fromkeys(writes))))
        self.sources.append(None)

    def call(self, node: Any) -> None:
        """Take an op, or a view."""
        known: dict[Any, int] = {}
        for source in node.all_input_nodes:
            known.update(self.at[source])
        self.at[node] = {}
        made: list[int] = []
        for tensor in tensors_of(node):
            s = storage_of(tensor)
            if s in known:
                self.at[node][s] = known[s]
                self.nodes[known[s]].append(node)
                self.views.append((len(self.ops), known[s]))
            else:
                made += self._make(node, tensor)
        changed = [known[s] for s in overwritten(node)] if is_operator(node) else []
        if made or changed:
            sources = operands(node)
            counted = multiply_adds(node) if is_operator(node) else 0
            work = Work(nbytes=bytes_moved(sources, node), multiply_adds=counted, dtype=dtype_of(node))
            reads = dict.fromkeys(t for x in sources for t in self.at[x].values())
            self.ops.append(
                Op(
                    name=node.name,
                    kind=kind_of(node),
                    duration_ns=duration_ns(work.nbytes, work.multiply_adds),
                    work=(work,),
                    reads=tuple(reads),
                    writes=tuple(dict.fromkeys((*made, *changed))),
                )
            )
            self.sources.append(node)

    def _make(self, node: Any, tensor: Any, **what: Any) -> list[int]:
        """Return the new tensor of a storage, if the node has none of it."""
        s = storage_of(tensor)
        if s in self.at[node]:
            return []
        self.at[node][s] = len(self.tensors)
        several = len({storage_of(x) for x in tensors_of(node)}) > 1
        name = f"{node.name}.{len(self.at[node]) - 1}" if several else node.name
        self.tensors.append(
            Tensor(name=name, nbytes=int(tensor.untyped_storage().nbytes()), **{"kind": "activation", **what})
        )
        self.nodes.append([node])
        return [self.at[node][s]]

    def finished(self, name: str, outputs: Iterable[Any]) -> Graph:
        """Return the graph, in which these nodes stay."""
        for node in outputs:
            for t in self.at[node].values():
                self.tensors[t] = replace(self.tensors[t], final=True)
        names: dict[str, int] = {}
        for i, op in enumerate(self.ops):
            names[op.name] = names.get(op.name, 0) + 1
            if names[op.name] > 1:
                self.ops[i] = replace(op, name=f"{op.name} again")
        graph = Graph(
            name=name, tensors=tuple(self.tensors), ops=tuple(self.ops), provenance={"durations": "roofline"}
        )
        return graph.drop({"weight"})


def joint_graph(graph: Any, name: str = "joint") -> JointGraph:
    """Return the graph of a joint ``torch.fx.Graph`` of AOTAutograd, as torch will partition it.

    Ops that nothing needs are left out, and equal ones are merged, as the partitioner does first.

    Parameters
    ----------
    graph
        Its output node says which outputs are gradients (``meta["desc"]``).
    name
        Of the graph.

    Raises
    ------
    InstanceError
        If it has symbolic shapes, whose bytes are not known.
    """
    if any(is_symbolic(node.meta.get("val")) for node in graph.find_nodes(op="placeholder")):
        raise InstanceError(
            f"graph {name!r}: found symbolic shapes, expected fixed ones; torch.compile(..., dynamic=False)"
        )
    own = {node.name: node for node in graph.nodes}
    merged = merged_graph(graph)
    (end,) = merged.find_nodes(op="output")
    count = forward_outputs(end)
    lowering = _GraphBuilder()
    tangents = [node for node in merged.find_nodes(op="placeholder") if is_tangent(node)]
    returned = [node for node in end.args[0][:count] if node is not None]
    before = set(tangents)
    waiting = True
    for node in merged.nodes:
        if node.op == "output" or node in before:
            continue
        if waiting and not before.isdisjoint(node.all_input_nodes):
            lowering.caller(returned, tangents)
            waiting = False
        if node.op in ("placeholder", "get_attr"):
            lowering.placeholder(node)
        else:
            lowering.call(node)
    graph_ = lowering.finished(name, [node for node in end.args[0] if node is not None])
    return JointGraph(
        graph=graph_,
        sources=tuple(x and own[x.name] for x in lowering.sources),
        nodes=tuple(tuple(own[x.name] for x in nodes) for nodes in lowering.nodes),
        views=tuple(lowering.views),
    )


def executed_graph(forward: Any, backward: Any, returned: int, name: str = "executed") -> Graph:
    """Return the graph of what a forward and a backward ``torch.fx.Graph`` run, one after the other.

    Parameters
    ----------
    returned
        Number of outputs of the forward graph that its caller gets; the others are saved for backward.
    """
    lowering = _GraphBuilder()
    (end,), (last,) = forward.find_nodes(op="output"), backward.find_nodes(op="output")
    outputs = [node for node in end.args[0][:returned] if node is not None]
    for node in forward.nodes:
        if node.op in ("placeholder", "get_attr"):
            lowering.placeholder(node)
        elif node.op == "call_function":
            lowering.call(node)
    given = backward.find_nodes(op="placeholder")
    lowering.caller(outputs, [node for node in given if is_tangent(node)])
    saved = {node.name: node for node in forward.nodes}
    for node in given:
        if not is_tangent(node):
            lowering.at[node] = lowering.at[saved[node.name]]
    for node in backward.nodes:
        if node.op == "get_attr":
            lowering.placeholder(node)
        elif node.op == "call_function":
            lowering.call(node)
    return lowering.finished(name, [*outputs, *(node for node in last.args[0] if node is not None)])


def merged_graph(graph: Any) -> Any:
    """Return a copy without dead and without repeated ops, as torch's partitioner takes it."""
    from torch._functorch import config
    from torch._functorch.compile_utils import fx_graph_cse

    bare = copied(graph)
    bare.eliminate_dead_code()
    return fx_graph_cse(bare) if config.cse else bare


def copied(module: Any) -> Any:
    """Return a copy of a graph or its module, without the warnings of torch about its own trees."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return copy.deepcopy(module)


def is_symbolic(value: Any) -> bool:
    """Return whether a value is a symbolic size, or a tensor with one."""
    from torch import SymInt, Tensor

    sizes = (*value.shape, *value.stride()) if isinstance(value, Tensor) else (value,)
    return any(isinstance(size, SymInt) for size in sizes)


def is_tangent(node: Any) -> bool:
    """Return whether a placeholder is a gradient that backward gets from its caller."""
    return "tangents" in str(node.target)


def forward_outputs(end: Any) -> int:
    """Return the number of outputs of a joint graph that forward returns: those before the first gradient."""
    from torch._functorch._aot_autograd.descriptors import GradAOTOutput

    kinds = end.meta["desc"]
    return next((k for k, kind in enumerate(kinds) if isinstance(kind, GradAOTOutput)), len(kinds))
