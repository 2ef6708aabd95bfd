"""ExecuTorch: the order of the nodes of a program, so that its tensors need the least arena.

`program_graph` reads the graph that ExecuTorch's memory planning is about to plan. Nodes that belong together
are one op: an operator, the ``memory.alloc`` of its outputs in front of it, and behind it the ``getitem`` and
the views of what it made. A storage is a tensor that the first op which touches it writes, and the others
read. `rearrange` moves the nodes.

What keeps its order:

* an op runs after all whose results it takes;
* the ops that touch a storage which one of them changes: an operator in place, a mutable buffer, an output
  that shares the storage of an input;
* calls of delegates, operators that draw random numbers, and operators whose result nobody takes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor


@dataclass(frozen=True)
class ProgramGraph:
    """A program as a computation graph.

    Attributes
    ----------
    graph
        An op for each of the groups; its reference order is that of the program.
    groups
        The nodes of each op, in the order in which they stay. The last one returns the outputs.
    specs
        The specs of the first tensors of the graph. Those behind them have no bytes; they keep the order.
    """

    graph: Graph
    groups: Sequence[Sequence[Any]]
    specs: Sequence[Any]


def program_graph(graph_module: Any, graph_signature: Any, specs: Iterable[Any]) -> ProgramGraph:
    """Return the graph of a program.

    Parameters
    ----------
    graph_signature
        The signature that ExecuTorch's memory planning gets, or None.
    specs
        Those that get an address.

    Raises
    ------
    InstanceError
        If the specs are in several arenas.
    """
    nodes = list(graph_module.graph.nodes)
    bases = _bases(nodes)
    roots = list(dict.fromkeys(_root(spec, bases) for spec in specs))
    if len(arenas := {spec.mem_id for spec in roots}) > 1:
        raise InstanceError(f"order: found tensors in {len(arenas)} arenas, expected one")
    groups = _groups(nodes)
    touching: dict[Any, list[int]] = {}
    for i, group in enumerate(groups):
        for spec in _roots_at(group, bases):
            touching.setdefault(spec, []).append(i)
    inputs = [node for node in nodes if node.op == "placeholder"]
    initial = _roots_at(inputs, bases)
    kept = _roots_at([node for node in inputs if _is_mutable(node, graph_signature)], bases)
    changed = {_root(spec, bases) for spec in chain(bases, *map(_changed_by, nodes))}
    chains = [touching.get(spec, []) for spec in changed]
    chains.append([i for i, group in enumerate(groups) if any(map(_has_effect, group))])

    tensors: list[Tensor] = []
    reads: list[list[int]] = [[] for _ in groups]
    writes: list[list[int]] = [[] for _ in groups]
    for k, spec in enumerate(roots):
        readers = touching.get(spec, [])
        given = spec in initial or not readers
        tensors.append(Tensor(name=str(k), nbytes=spec.allocated_memory, initial=given, final=spec in kept))
        if not given:
            first, *readers = readers
            writes[first].append(k)
        for i in readers:
            reads[i].append(k)
    for i, followers in enumerate(_followers(groups, chains)):
        for j in sorted(followers):
            reads[j].append(len(tensors))
        writes[i].append(len(tensors))
        tensors.append(Tensor(name=f"after {i}", nbytes=0))
    ops = (
        Op(name=group[-1].name, reads=tuple(r), writes=tuple(w))
        for group, r, w in zip(groups, reads, writes, strict=True)
    )
    return ProgramGraph(Graph(name="executorch", tensors=tuple(tensors), ops=tuple(ops)), groups, roots)


def rearrange(graph_module: Any, groups: Sequence[Sequence[Any]], order: Iterable[int]) -> None:
    """Move the nodes of a graph module so that the groups stand in an order."""
    *_, output = graph_module.graph.nodes
    for node in chain.from_iterable(groups[i] for i in order):
        if node is not output:
            output.prepend(node)
    graph_module.graph.lint()
    graph_module.recompile()


def _groups(nodes: Iterable[Any]) -> list[list[Any]]:
    """Return the nodes of each op: those that allocate for it, itself, and what only names its results."""
    from executorch.exir import memory

    groups: list[list[Any]] = []
    home: dict[Any, int] = {}
    for node in nodes:
        if node.op not in ("call_function", "output") or (node.target is memory.alloc and node.users):
            continue
        inputs = node.all_input_nodes
        where = {home.get(other, -1) for other in inputs}
        if node.target in (operator.getitem, memory.view) and len(where) == 1 and min(where) >= 0:
            (k,) = where
            groups[k].append(node)
        else:
            k = len(groups)
            groups.append([n for n in inputs if n.target is memory.alloc and n not in home] + [node])
        home.update(dict.fromkeys(groups[k], k))
    return groups


def _followers(groups: Sequence[Sequence[Any]], chains: Iterable[Iterable[int]]) -> list[set[int]]:
    """Return, for each group, those that must run later."""
    home = {node: i for i, group in enumerate(groups) for node in group}
    followers: list[set[int]] = [set() for _ in groups]
    for node, j in home.items():
        for other in node.all_input_nodes:
            if home.get(other, j) != j:
                followers[home[other]].add(j)
    last = len(groups) - 1
    for i, j in chain(((i, last) for i in range(last)), *map(pairwise, chains)):
        followers[i].add(j)
    return followers


def _specs_at(node: Any) -> Iterator[Any]:
    """Yield the specs that live at a node: its own, and those of what it takes."""
    from executorch.exir.memory_planning import get_node_tensor_specs

    for other in (node, *node.all_input_nodes):
        yield from get_node_tensor_specs(other)


def _roots_at(nodes: Iterable[Any], bases: dict[Any, Any]) -> dict[Any, None]:
    """Return the storages that live at nodes, in their order."""
    return dict.fromkeys(_root(spec, bases) for node in nodes for spec in _specs_at(node))


def _bases(nodes: Iterable[Any]) -> dict[Any, Any]:
    """Return the specs that lie in the storage of another one, with that one."""
    bases = {}
    for node in nodes:
        shared = node.meta.get("_share_alloc_with_arg_idx")
        if shared is not None:
            bases[node.meta["spec"]] = node.args[shared].meta["spec"]
        for spec in _specs_at(node):
            if spec.storage_base is not None:
                bases[spec] = spec.storage_base
    return bases


def _root(spec: Any, bases: dict[Any, Any]) -> Any:
    while spec in bases:
        spec = bases[spec]
    return spec


def _changed_by(node: Any) -> Iterator[Any]:
    """Yield the specs that an operator writes to, besides those of its outputs."""
    from executorch.exir.memory_planning import get_node_tensor_specs

    schema = getattr(node.target, "_schema", None)
    for k, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.alias_info is not None and argument.alias_info.is_write and not argument.is_out:
            value = node.args[k] if k < len(node.args) else node.kwargs.get(argument.name)
            if hasattr(value, "meta"):
                yield from get_node_tensor_specs(value)


def _is_mutable(placeholder: Any, signature: Any) -> bool:
    """Return whether a placeholder is a buffer that the program changes and that stays for its next run."""
    name = None if signature is None else signature.inputs_to_buffers.get(placeholder.target)
    return name is not None and name in signature.buffers_to_mutate.values()


def _has_effect(node: Any) -> bool:
    from executorch.exir.delegate import executorch_call_delegate
    from torch import Tag

    random = Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return node.target is executorch_call_delegate or random or not node.users
