"""The backward pass and the weight updates of a training graph.

After the forward ops comes a ``Loss`` op: it reads the outputs of the network and labels (one 64-bit class
index per sample), and writes the loss (4 bytes, final) and the gradient of each output. Then the nodes are
visited in reverse; the table of derivatives says which backward ops each one has and what they read.
Gradients that several consumers contribute to one tensor are added by one n-ary ``SumGradients`` op. A
weight's ``Update`` reads the weight and its gradient and writes the weight; it stands right behind the
backward ops of the weight's first reader, where the gradient is complete and the old weight is no longer
needed. An op of control flow whose bodies have derivatives has one backward op, by sizes: it runs a branch of
an If again and keeps all that it makes; of Loop and Scan, in training, the forward op writes what it carries
into each iteration but the first, and the backward op runs the iterations again, from the last to the first,
with all that one makes and the gradients of that and of what it carries. Gradients of what all iterations
read are summed up where they are. Graph inputs and constants that are not trained get no gradient.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...models.errors import InstanceError
from ..transforms.convolution import DATA, WEIGHTS
from .derivatives import DERIVATIVES, DerivativeStep
from .element_types import TRAINABLE
from .forward import ELEMENTWISE, Draft, ForwardPass, bytes_made, carried_bytes
from .network import Network, Node
from .views import VIEWS
from .work import convolution, multiply_adds

_BOTH_AT_ONCE = frozenset({"GRU", "LSTM", "RNN"})
"""Operators whose backward op makes the gradients of data and of weights at once."""


def differentiable_storages(network: Network, where: str) -> set[str]:
    """Return the storages that get a gradient: trained weights and all that depends on them.

    Raises
    ------
    InstanceError
        If an operator that a gradient must pass has no row in the table, or nothing can be trained.
    """

    def is_float(owner: str) -> bool:
        return network.values[owner].element_type in TRAINABLE

    trained = network.constants & network.trainable
    wanted = {owner for owner in trained if is_float(owner)}
    for node in network.nodes:
        reached = [i for i, owner in enumerate(node.operands) if owner in wanted]
        reached += [len(node.operands) for owner in node.captured if owner in wanted]
        if not reached:
            continue
        if node.bodies:
            _check_bodies(node, where)
            wanted.update(name for name in node.outputs if name and is_float(name))
            continue
        takes_integers = not all(is_float(owner) for owner in wanted.intersection(node.operands))
        if node.op_type not in DERIVATIVES or (takes_integers and node.op_type != "DequantizeLinear"):
            raise _without_derivative(node, where)
        if _reaches(node, reached):
            through = node.op_type == "QuantizeLinear"  # integers, whose gradient has the size of the numbers
            wanted.update(name for name in node.outputs if name and (through or is_float(name)))
    if not any(map(is_float, wanted.intersection(network.outputs))):
        raise InstanceError(
            f"{where}: found no output that depends on a trained weight, expected one for training; "
            "leave train=1 out"
        )
    return wanted


def _reaches(node: Node, positions: list[int]) -> bool:
    """Return whether a backward op of a node makes the gradient of one of these operands."""
    steps = DERIVATIVES[node.op_type].steps
    return any(step.inputs is None or set(step.inputs) & set(positions) for step in steps)


def _without_derivative(node: Node, where: str) -> InstanceError:
    supported = sorted({op for op, row in DERIVATIVES.items() if row.steps} | VIEWS)
    quantized = re.search(r"Quant|QLinear|Integer|NBits", node.op_type)
    step = "take the model that was quantized" if quantized else "export the model without it"
    return InstanceError(
        f"{where}: node {node.name!r}: found operator {node.op_type}, whose derivative is not known, "
        f"expected for training one of {', '.join(supported)}; {step}, or leave train=1 out"
    )


def _check_bodies(node: Node, where: str) -> None:
    """Raise InstanceError if an operator in a body has no derivative."""
    for body in node.bodies:
        for inner in body.network.nodes:
            if inner.bodies:
                _check_bodies(inner, where)
            elif inner.op_type not in DERIVATIVES:
                raise _without_derivative(inner, f"{where}: {body.label}")


class BackwardPass:
    """Adds loss, backward ops and updates behind the forward ops of a draft."""

    def __init__(self, forward: ForwardPass, wanted: set[str]) -> None:
        self.network = forward.network
        self.draft: Draft = forward.draft
        self.forward = forward
        self.wanted = wanted
        self.contributions: dict[str, list[int]] = {}
        first_reader: dict[str, int] = {}
        for position, node in reversed(list(enumerate(self.network.nodes))):
            first_reader.update((owner, position) for owner in (*node.operands, *node.captured))
        self._add_loss()
        for position, node in reversed(list(enumerate(self.network.nodes))):
            self._add_backward(position, node)
            for owner in dict.fromkeys((*node.operands, *node.captured)):
                if owner in self.network.constants and first_reader[owner] == position:
                    self._add_update(owner)

    def _add_loss(self) -> None:
        values = self.network.values
        outputs = [owner for owner in self.network.outputs if owner in self.wanted]
        outputs = [owner for owner in outputs if values[owner].element_type in TRAINABLE]
        reads, writes = [], [self.draft.tensor("loss", 4, "output", final=True)]
        elements = 0
        for owner in outputs:
            value = values[owner]
            samples = value.shape[0] if value.shape else 1
            reads.append(self.forward.index[owner])
            reads.append(self.draft.tensor(f"{owner}/labels", 8 * samples, "input", initial=True))
            writes.append(self._gradient(owner))
            elements += value.elements
        self.draft.op("loss", "Loss", reads, writes, elements)

    def _gradient(self, owner: str) -> int:
        """Add a tensor that contributes to the gradient of a storage."""
        others = self.contributions.setdefault(owner, [])
        suffix = f"/gradient{len(others) or ''}"
        nbytes = self.network.values[owner].nbytes
        others.append(self.draft.tensor(owner + suffix, nbytes, "gradient"))
        return others[-1]

    def _complete(self, owner: str) -> int | None:
        """Return the gradient of a storage, all contributions added; None if there is none."""
        parts = list(dict.fromkeys(self.contributions.get(owner, ())))
        if len(self.contributions.get(owner, ())) < 2:
            return parts[0] if parts else None
        value = self.network.values[owner]
        nbytes = self.draft.tensors[parts[0]].nbytes
        total = self.draft.tensor(f"{owner}/gradient_sum", nbytes, "gradient")
        work = value.elements * len(parts)
        self.draft.op(f"{owner}/sum", "SumGradients", parts, [total], work, overwrites=parts)
        self.contributions[owner] = [total]
        return total

    def _add_backward(self, position: int, node: Node) -> None:
        row = DERIVATIVES.get(node.op_type)
        complete = (self._complete(name) for name in node.outputs if name in self.wanted)
        arriving = [gradient for gradient in complete if gradient is not None]
        if node.bodies and arriving:
            self._add_bodies(position, node, arriving)
        if row is None or not arriving:
            return
        for step in row.steps:
            if step.inputs is None or step.passes:
                positions = range(len(node.operands)) if step.inputs is None else step.inputs
                groups: list[tuple[int, ...]] = [(i,) for i in positions]
            else:
                groups = [step.inputs]
            for group in groups:
                self._add_step(position, node, step, group, arriving)

    def _add_step(
        self, position: int, node: Node, step: DerivativeStep, group: tuple[int, ...], arriving: list[int]
    ) -> None:
        targets = [
            node.operands[i] for i in group if i < len(node.operands) and node.operands[i] in self.wanted
        ]
        if not targets:
            return
        values = self.network.values
        if step.passes and values[targets[0]].elements == values[node.outputs[0]].elements:
            self.contributions.setdefault(targets[0], []).append(arriving[0])
            return
        reads = arriving + [t for word in step.reads for t in self._read(position, node, word)]
        writes = [self._gradient(owner) for owner in targets]
        kind = "SumBroadcast" if step.passes else f"{node.op_type}Gradient"
        overwrites = arriving if node.op_type in ELEMENTWISE else []
        name = f"{node.name}/gradient:{','.join(str(i) for i in group)}"
        work = multiply_adds(node, values) * (2 if node.op_type in _BOTH_AT_ONCE else 1)
        conv = convolution(node, values) if self.draft.algorithms else None
        part = DATA if group == (0,) else WEIGHTS
        self.draft.op(name, kind, reads, writes, work, overwrites, conv, part)

    def _add_bodies(self, position: int, node: Node, arriving: list[int]) -> None:
        """Add the derivative of an op of control flow, by sizes: a body runs again and keeps all it makes."""
        read = [owner for owner in dict.fromkeys((*node.operands, *node.captured)) if owner]
        targets = [owner for owner in read if owner in self.wanted]
        if not targets:
            return
        reads = [*(self.forward.index[owner] for owner in read), *self.forward.saved[position].values()]
        writes = [self._gradient(owner) for owner in targets]
        self.draft.op(f"{node.name}/gradient", f"{node.op_type}Gradient", [*arriving, *reads], writes, 0)
        ahead = next(op for op in self.draft.ops if op.name == node.name)
        made = max(bytes_made(body, self.draft) for body in node.bodies)
        between = carried_bytes(node, self.network.values) if node.iterations > 1 else 0
        self.draft.ops[-1] = replace(
            self.draft.ops[-1],
            workspace=2 * made + between,  # values and their gradients, and the gradient between iterations
            duration_ns=3 * ahead.duration_ns,
            work=tuple(part.repeated(3) for part in ahead.work),
        )

    def _read(self, position: int, node: Node, word: str) -> list[int]:
        """Return the tensors behind one word of the table."""
        saved = self.forward.saved[position]
        if word in saved:
            return [saved[word]]
        if word == "y0":
            return [self.forward.index[node.outputs[0]]]
        positions = range(len(node.operands)) if word == "x*" else [int(word.removeprefix("x"))]
        owners = [node.operands[i] for i in positions if i < len(node.operands)]
        return [self.forward.index[owner] for owner in owners if owner]

    def _add_update(self, owner: str) -> None:
        gradient = self._complete(owner)
        if gradient is None:
            return
        weight = self.forward.index[owner]
        work = self.network.values[owner].elements
        self.draft.op(f"{owner}/update", "Update", [weight, gradient], [weight], work)
