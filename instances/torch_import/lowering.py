"""From a trace to the tensors and ops of a computation graph.

1. Additions of gradients in a row become one n-ary op (`sums`).
2. A node is an op if it makes a storage or changes one in place; every other node is a view (`storages`).
   An op reads the storages of its operands, also those that it changes in place, and writes what it makes
   and what it changes.
3. An op is dead, and left out, if nothing that it writes is returned or read by a later op that is alive.
   So the counters of batches that BatchNorm keeps vanish; its running mean and variance stay, because the
   op that writes them is alive.
4. In training every trained parameter gets its update (`updates`).
5. Storages that are touched become tensors: first what exists before the first op, in the order of the
   module (parameters, buffers, inputs, constants, optimizer states), then the others in the order of their
   first writer. Parameters and buffers are weights, and final, as optimizer states are. The gradient of a
   parameter is named after it; what the ops after the loss make has the kind gradient.
6. An elementwise op (torch tags its operator ``pointwise``) may write its result over an operand of the same
   layout, unless that is a weight or an input (``inplace``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...models.graph import Op, Tensor
from ...models.work import Work
from ..transforms.roofline import duration_ns
from .storages import is_operator, kind_of, operands, overwritten, storage_of, storages, tensors_of
from .sums import absorbed, sums_in_a_row
from .tracing import Trace
from .updates import STATES
from .work import bytes_moved, bytes_shown, dtype_of, multiply_adds

Table = dict[Hashable, Tensor]
"""Storage -> the tensor that it becomes."""


@dataclass(frozen=True)
class Lowered:
    """Tensors and ops, what is behind them, and how many nodes are none of them.

    Attributes
    ----------
    index
        Storage -> the tensor that it became.
    sources
        By op the node that it runs (of a sum of gradients the last addition), or the name of the parameter
        that it updates.
    absorbed
        Nodes that vanished into sums.
    """

    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    index: dict[Hashable, int]
    sources: tuple[Any, ...]
    absorbed: frozenset[Any]
    views_folded: int
    sums_folded: int
    dead_ops: int


@dataclass(frozen=True)
class _Draft:
    """An op whose operands are storages, and its source as `Lowered` has it."""

    source: Any
    name: str
    kind: str
    reads: tuple[Hashable, ...]
    writes: tuple[Hashable, ...]
    work: Work
    inplace: tuple[tuple[Hashable, Hashable], ...] = ()


def lower(trace: Trace, optimizer: str, arithmetic: str = "fp32") -> Lowered:
    """Return the tensors and ops of a trace; in training with the updates of an optimizer.

    Parameters
    ----------
    arithmetic
        Data type of the arithmetic of values of 32 bits, in ops of the trace.
    """
    table = _tensor_table(trace)
    sums = sums_in_a_row(_after_loss(trace))
    gone = absorbed(sums)
    drafts: list[_Draft] = []
    views = 0
    known = {s for node in trace.initial for s in storages(node)}
    for node in trace.nodes:
        if not is_operator(node) or node in gone:
            continue
        made = [s for s in storages(node) if s not in known]
        if made or overwritten(node):
            draft = _draft(node, made, sums.get(node), table)
            if draft.work.dtype == "fp32":
                draft = replace(draft, work=replace(draft.work, dtype=arithmetic))
            drafts.append(draft)
            known.update(made)
        else:
            views += 1
    returned = {s for node in (*trace.outputs, *trace.gradients.values()) for s in storages(node)}
    alive = _alive(drafts, returned)
    ops = _with_updates(alive, trace, optimizer, table)
    index = {s: t for t, s in enumerate(_in_order(ops, table))}
    return Lowered(
        tensors=tuple(table[s] for s in index),
        ops=tuple(_op(draft, index) for draft in ops),
        index=index,
        sources=tuple(draft.source for draft in ops),
        absorbed=frozenset(gone),
        views_folded=views,
        sums_folded=len(gone),
        dead_ops=len(drafts) - len(alive),
    )


def _after_loss(trace: Trace) -> Sequence[Any]:
    """Return the nodes of the backward pass: those after the loss."""
    if not trace.gradients:
        return ()
    return trace.nodes[trace.nodes.index(trace.outputs[0]) + 1 :]


def _tensor_table(trace: Trace) -> Table:
    table: Table = {}
    for node, (name, kind) in trace.initial.items():
        for tensor in tensors_of(node):
            made = Tensor(name=name, nbytes=_nbytes(tensor), kind=kind, initial=True, final=kind == "weight")
            table.setdefault(storage_of(tensor), made)
    backward = set(_after_loss(trace))
    for node in trace.nodes:
        found = tensors_of(node) if is_operator(node) else []
        for k, tensor in enumerate(found):
            name = node.name if len(found) == 1 else f"{node.name}.{k}"
            kind = "gradient" if node in backward else "activation"
            table.setdefault(storage_of(tensor), Tensor(name=name, nbytes=_nbytes(tensor), kind=kind))
    for name, node in trace.gradients.items():
        (s,) = storages(node)
        table[s] = replace(table[s], name=f"{name}.grad")
    for node in trace.outputs:
        for s in storages(node):
            kind = table[s].kind if table[s].initial else "output"
            table[s] = replace(table[s], kind=kind, final=True)
    return table


def _nbytes(tensor: Any) -> int:
    return int(tensor.untyped_storage().nbytes())


def _draft(node: Any, made: Sequence[Hashable], terms: Sequence[Any] | None, table: Table) -> _Draft:
    """Return the op of a node; `terms` are what a sum of gradients adds up, if it took others in."""
    sources = operands(node) if terms is None else list(dict.fromkeys(terms))
    moved, work = bytes_moved(sources, node), multiply_adds(node) * (len(sources) - 1 if terms else 1)
    return _Draft(
        source=node,
        name=node.name,
        kind=kind_of(node),
        reads=tuple(dict.fromkeys(s for x in sources for s in storages(x))),
        writes=tuple(dict.fromkeys((*made, *overwritten(node)))),
        work=Work(nbytes=moved, multiply_adds=work, dtype=dtype_of(node)),
        inplace=tuple((s, made[0]) for s in _replaceable(node, sources, table)) if len(made) == 1 else (),
    )


def _replaceable(node: Any, sources: Iterable[Any], table: Table) -> list[Hashable]:
    """Return the storages of operands whose place the result of an elementwise op may take."""
    from torch import Tag

    if Tag.pointwise not in node.target.tags:
        return []
    (result,) = tensors_of(node)
    found = []
    for x in sources:
        for tensor in tensors_of(x):
            same = tensor.shape == result.shape and tensor.stride() == result.stride()
            whole = _nbytes(tensor) == _nbytes(result) == bytes_shown(tensor)
            if same and whole and not table[storage_of(tensor)].initial:
                found.append(storage_of(tensor))
    return list(dict.fromkeys(found))


def _alive(drafts: Sequence[_Draft], returned: Iterable[Hashable]) -> list[_Draft]:
    needed = set(returned)
    alive = []
    for draft in reversed(drafts):
        if not needed.isdisjoint(draft.writes):
            needed.update(draft.reads)
            alive.append(draft)
    return alive[::-1]


def _with_updates(drafts: Sequence[_Draft], trace: Trace, optimizer: str, table: Table) -> list[_Draft]:
    """Return the ops with every update behind the last op that makes its gradient or reads its parameter."""
    last_use: dict[Hashable, int] = {}
    for i, draft in enumerate(drafts):
        last_use.update(dict.fromkeys((*draft.reads, *draft.writes), i))
    parameters = {name: node for node, (name, kind) in trace.initial.items() if kind == "weight"}
    behind: dict[int, list[_Draft]] = {}
    for name, node in trace.gradients.items():
        (weight,), (gradient,) = storages(parameters[name]), storages(node)
        states = [(name, state) for state in STATES[optimizer]]
        for key in states:
            table[key] = replace(table[weight], name=".".join(key), kind="state")
        written = (weight, *states)
        moved = sum(table[s].nbytes for s in (*written, *written, gradient))
        update = _Draft(
            source=name,
            name=f"{name}.update",
            kind=optimizer,
            reads=(weight, gradient, *states),
            writes=written,
            work=Work(nbytes=moved, multiply_adds=tensors_of(node)[0].numel(), dtype=dtype_of(node)),
        )
        behind.setdefault(max(last_use[weight], last_use[gradient]), []).append(update)
    return [op for i, draft in enumerate(drafts) for op in (draft, *behind.get(i, ()))]


def _in_order(ops: Iterable[_Draft], table: Table) -> list[Hashable]:
    """Return the storages that become tensors, in the order of step 5."""
    touched = dict.fromkeys(s for op in ops for s in (*op.reads, *op.writes))
    initial = [s for s, tensor in table.items() if tensor.initial and s in touched]
    return [*initial, *(s for s in touched if not table[s].initial)]


def _op(draft: _Draft, index: dict[Hashable, int]) -> Op:
    return Op(
        name=draft.name,
        kind=draft.kind,
        duration_ns=duration_ns(draft.work.nbytes, draft.work.multiply_adds),
        work=(draft.work,),
        reads=tuple(index[s] for s in draft.reads),
        writes=tuple(index[s] for s in draft.writes),
        inplace=tuple((index[r], index[w]) for r, w in draft.inplace),
    )
