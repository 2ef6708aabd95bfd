"""Sequences of ONNX whose elements are known: they give way to the tensors that they hold.

An element of a sequence is the tensor that went in: ``SequenceAt`` is a view of it (ONNX Runtime copies it),
and ``SplitToSequence`` writes its pieces as ``Split`` does. Lengths of pieces and positions must be known. A
sequence that is an output of the model becomes one output for each element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .control_flow import fresh
from .dependence import attributes_of, captured_names, initializers, operator
from .reading import require_onnx
from .shapes import KnownValue, constant_contents

ADVICE = (
    "export the model with constant positions and lengths of its sequences, none of them an input, and none "
    "that a body takes or returns"
)
"""What a message says of a sequence that stays."""

MOST_PIECES = 10_000
"""Pieces of a tensor that become tensors of their own; a sequence of more stays. Chosen by hand."""

AXES_AS_INPUT = 13
"""First opset of ONNX in which Split, Squeeze and Unsqueeze take sizes and axes as inputs."""


def resolve_sequences(model: Any, values: Mapping[str, KnownValue]) -> bool:
    """Replace the nodes of sequences whose elements are known; return whether one was replaced.

    Parameters
    ----------
    values
        What is known of the values of the main graph, whose sequences are meant.
    """
    graph = model.graph
    if not any("Sequence" in str(node.op_type) for node in graph.node):
        return False
    work = _Rewriting(model, values)
    for node in list(graph.node):
        work.take(node)
    returned = []
    for info in list(graph.output):
        names = work.elements.get(info.name)
        returned += [info] if names is None else [_untyped(work.made("Identity", [x])) for x in names]
    read = {info.name for info in returned}
    read.update(name for node in work.nodes for name in (*node.input, *captured_names(node)))
    kept = [
        node
        for node in work.nodes
        if not node.output or node.output[0] not in work.elements or node.output[0] in read
    ]
    if len(kept) == len(graph.node) and all(a is b for a, b in zip(kept, graph.node, strict=True)):
        return False
    for field, items in ((graph.node, kept), (graph.output, returned)):
        copies = [type(item).FromString(item.SerializeToString()) for item in items]
        del field[:]
        field.extend(copies)
    return True


def _untyped(name: str) -> Any:
    return require_onnx().ValueInfoProto(name=name)


class _Rewriting:
    """The nodes of a graph with those of sequences replaced, as far as their elements are known."""

    def __init__(self, model: Any, values: Mapping[str, KnownValue]) -> None:
        self.values, self.contents = values, constant_contents(model.graph)
        own = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
        self.axes_as_input = max(own, default=AXES_AS_INPUT) >= AXES_AS_INPUT
        graph = model.graph
        self.taken = {"", *initializers(graph), *(info.name for info in graph.input)}
        self.taken.update(name for node in graph.node for name in (*node.output, *captured_names(node)))
        self.elements: dict[str, list[str]] = {}
        self.nodes: list[Any] = []

    def take(self, node: Any) -> None:
        """Add what a node becomes."""
        kind = operator(node)
        rule, least = _RULES.get(kind, (None, 0))
        sound = len(node.input) >= least and len(node.output) == 1
        if kind == "Identity" and sound and "".join(node.input) in self.elements:
            self.elements[node.output[0]] = self.elements[node.input[0]]
        if rule is None or not sound or not rule(self, node):
            self.nodes.append(node)

    def made(self, op_type: str, inputs: list[str], outputs: list[str] | None = None, **more: Any) -> str:
        """Add a node; return its first output, by default a fresh name."""
        names = outputs or [self.new(f"{inputs[0]}/{op_type}")]
        self.nodes.append(require_onnx().helper.make_node(op_type, inputs, names, **more))
        return names[0]

    def new(self, name: str) -> str:
        """Return a name that nothing has."""
        self.taken.add(name := fresh(name, self.taken))
        return name

    def with_numbers(
        self, op_type: str, source: str, numbers: list[int], outputs: list[str] | None = None, **more: Any
    ) -> str:
        """Add a node that takes lengths or axes as an input, in older opsets as an attribute."""
        if not self.axes_as_input:
            more |= {"split" if op_type == "Split" else "axes": numbers}
            return self.made(op_type, [source], outputs, **more)
        constant = self.constant([self.new(f"{source}/{op_type}/numbers")], [len(numbers)], numbers)
        return self.made(op_type, [source, constant], outputs, **more)

    def constant(self, outputs: list[str], shape: list[int], numbers: list[int]) -> str:
        """Add a constant of integers."""
        code = require_onnx().TensorProto.INT64
        return self.made(
            "Constant", [], outputs, value=require_onnx().helper.make_tensor("", code, shape, numbers)
        )

    def position(self, node: Any, operand: int, count: int, also: int | None = None) -> int | None:
        """Return the position among so many that an operand names; None if unknown.

        An absent one is the last; of insertion, which may be at the end, `also` is that place.
        """
        if operand >= len(node.input) or not node.input[operand]:
            return also if also is not None else count - 1 if count else None
        content = self.contents.get(node.input[operand])
        if content is None or content.size != 1 or content.dtype.kind != "i":
            return None
        place = int(content.reshape(-1)[0])
        if place == also:
            return place
        return place % count if -count <= place < count else None

    # One rule for each operator: whether it was replaced; what an operator that stays makes of `elements`.

    def _construct(self, node: Any) -> bool:
        self.elements[node.output[0]] = list(node.input)
        return False

    def _insert(self, node: Any) -> bool:
        before = self.elements.get(node.input[0])
        at = None if before is None else self.position(node, 2, len(before), also=len(before))
        if before is not None and at is not None:
            self.elements[node.output[0]] = [*before[:at], node.input[1], *before[at:]]
        return False

    def _erase(self, node: Any) -> bool:
        before = self.elements.get(node.input[0])
        at = None if before is None else self.position(node, 1, len(before))
        if before is not None and at is not None:
            self.elements[node.output[0]] = [*before[:at], *before[at + 1 :]]
        return False

    def _at(self, node: Any) -> bool:
        names = self.elements.get(node.input[0])
        at = None if names is None else self.position(node, 1, len(names))
        if names is None or at is None:
            return False
        self.made("Identity", [names[at]], list(node.output))
        return True

    def _length(self, node: Any) -> bool:
        names = self.elements.get(node.input[0])
        if names is None:
            return False
        self.constant(list(node.output), [], [len(names)])
        return True

    def _concat(self, node: Any) -> bool:
        names, attributes = self.elements.get(node.input[0]), attributes_of(node)
        axis = attributes.get("axis")
        if not names or not isinstance(axis, int):
            return False
        if attributes.get("new_axis"):
            names = [self.with_numbers("Unsqueeze", name, [axis]) for name in names]
        self.made("Concat", names, list(node.output), axis=axis)
        return True

    def _split(self, node: Any) -> bool:
        attributes, value = attributes_of(node), self.values.get(node.input[0])
        axis = attributes.get("axis", 0)
        if value is None or not isinstance(axis, int) or not -len(value.shape) <= axis < len(value.shape):
            return False
        size, alone = value.shape[axis], len(node.input) < 2 or not node.input[1]
        lengths = _lengths(np.array(1) if alone else self.contents.get(node.input[1]), size)
        if lengths is None:
            return False
        names = [self.new(f"{node.output[0]}/{k}") for k in range(len(lengths))]
        if lengths:
            self.with_numbers("Split", node.input[0], lengths, names, axis=axis)
        if alone and not attributes.get("keepdims", 1):
            names = [self.with_numbers("Squeeze", name, [axis]) for name in names]
        self.elements[node.output[0]] = names
        if names:
            self.made("SequenceConstruct", names, list(node.output))
        return bool(names)


def _lengths(content: Any, size: int) -> list[int] | None:
    """Return the lengths of the pieces of a dimension; None if they are not known, or do not fit."""
    if content is None or content.dtype.kind != "i" or content.ndim > 1:
        return None
    if content.ndim == 0:
        each = int(content)
        if each < 1 or size > MOST_PIECES * each:
            return None
        return [min(each, size - begin) for begin in range(0, size, each)]
    lengths = [int(x) for x in content]
    fits = len(lengths) <= MOST_PIECES and min(lengths, default=0) >= 0 and sum(lengths) == size
    return lengths if fits else None


_RULES: dict[str, tuple[Callable[[_Rewriting, Any], bool], int]] = {
    "ConcatFromSequence": (_Rewriting._concat, 1),
    "SequenceAt": (_Rewriting._at, 2),
    "SequenceConstruct": (_Rewriting._construct, 1),
    "SequenceEmpty": (_Rewriting._construct, 0),
    "SequenceErase": (_Rewriting._erase, 1),
    "SequenceInsert": (_Rewriting._insert, 2),
    "SequenceLength": (_Rewriting._length, 1),
    "SplitToSequence": (_Rewriting._split, 1),
}
"""What becomes of the operators of sequences, and how many inputs they have at least."""
