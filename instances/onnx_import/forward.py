"""The forward ops of a network, and the drafting board on which a graph is put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ...models.work import Work, together
from ..transforms.convolution import RESULT, Convolution, modes
from ..transforms.roofline import duration_ns
from .derivatives import DERIVATIVES
from .foreign import MICROSOFT
from .least_peak import MOST_STATES, least_peak, peak_of_reference
from .network import Body, Network, Node
from .shapes import KnownValue
from .work import convolution, multiply_adds

ELEMENTWISE = frozenset(
    {
        *("Abs", "Add", "And", "Cast", "Ceil", "Celu", "Clip", "Cos", "Div", "Dropout", "Elu", "Erf"),
        *("Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Max", "Mean", "Min"),
        *("Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round"),
        *("Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish"),
        *("Tan", "Tanh", "ThresholdedRelu", "Where", "Xor"),
        *(
            MICROSOFT + name
            for name in (
                *("BiasAdd", "BiasGelu", "FastGelu", "Gelu", "QLinearAdd", "QLinearLeakyRelu"),
                *("QLinearMul", "QLinearSigmoid", "QuickGelu"),
            )
        ),
    }
)
"""Operators that make each element from the elements at the same place."""

IN_PLACE = ELEMENTWISE | {"BatchNormalization"}
"""Operators whose output may take the place of an operand of the same size."""


class Draft:
    """The tensors and ops of a graph in the making.

    Parameters
    ----------
    algorithms
        Convolutions have a mode for each algorithm.
    reorder
        The bodies of control flow run in the order of the least peak, instead of that of the file.
    dtype
        Data type of the arithmetic.
    """

    def __init__(self, *, algorithms: bool = False, reorder: bool = True, dtype: str = "fp32") -> None:
        self.algorithms = algorithms
        self.reorder = reorder
        self.dtype = dtype
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []

    def tensor(self, name: str, nbytes: int, kind: str, *, initial: bool = False, final: bool = False) -> int:
        """Add a tensor; return its index."""
        self.tensors.append(Tensor(name=name, nbytes=nbytes, kind=kind, initial=initial, final=final))
        return len(self.tensors) - 1

    def op(
        self,
        name: str,
        kind: str,
        reads: Iterable[int],
        writes: Iterable[int],
        work: int,
        overwrites: Sequence[int] = (),
        conv: Convolution | None = None,
        part: str = RESULT,
    ) -> int:
        """Add an op; return its index.

        Parameters
        ----------
        reads, writes
            Tensor indices; repetitions are dropped.
        work
            Multiply-adds, for the duration.
        overwrites
            Reads whose place the first write may take if it has the same size.
        conv, part
            The sizes of a convolution that gets modes, and which of its arrays the op makes.
        """
        read, written = tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))
        moved = sum(self.tensors[t].nbytes for t in (*read, *written))
        pairs = [
            (r, w)
            for w in written[:1]
            for r in dict.fromkeys(overwrites)
            if r != w and self.tensors[r].nbytes == self.tensors[w].nbytes
        ]
        ways = () if conv is None else modes(conv, part, moved, self.dtype)
        only = ways[0] if len(ways) == 1 else None
        self.ops.append(
            Op(
                name=name,
                kind=kind,
                duration_ns=only.duration_ns if only else duration_ns(moved, work),
                workspace=only.workspace if only else 0,
                reads=read,
                writes=written,
                inplace=tuple(pairs),
                modes=() if only else ways,
                work=only.work if only else (Work(nbytes=moved, multiply_adds=work, dtype=self.dtype),),
            )
        )
        return len(self.ops) - 1


class ForwardPass:
    """The forward ops of a network on a draft, and where everything went.

    Attributes
    ----------
    index
        Storage -> tensor index.
    saved
        For each node: name in its row of the table -> index of a tensor that training saves.
    """

    def __init__(self, network: Network, draft: Draft, *, train: bool) -> None:
        self.network = network
        self.draft = draft
        self.train = train
        self.index: dict[str, int] = {}
        self.saved: list[dict[str, int]] = []
        self._used = set(network.outputs)
        for node in network.nodes:
            self._used.update(node.operands, node.captured)
        for name in network.inputs:
            self._add(name, "input", initial=True)
        for node in network.nodes:
            self._add_node(node)
        for owner in network.outputs:
            self.tensor(owner)

    def tensor(self, owner: str) -> int:
        """Return the tensor of a storage; a weight joins the graph when it is first asked for."""
        if owner not in self.index:
            self._add(owner, "weight", initial=True)
        return self.index[owner]

    def _add(self, owner: str, kind: str, *, initial: bool = False) -> int:
        # in training the loss is what must remain, not the network's output
        final = kind == "weight" or (owner in self.network.outputs and not self.train)
        nbytes = self.network.values[owner].nbytes
        self.index[owner] = self.draft.tensor(owner, nbytes, kind, initial=initial, final=final)
        return self.index[owner]

    def _add_node(self, node: Node) -> None:
        values = self.network.values
        reads = [self.tensor(owner) for owner in (*node.operands, *node.captured) if owner]
        row = DERIVATIVES.get(node.op_type) if self.train else None
        kept = row.saved if row else ()
        # an optional output that the table saves under its own size exists only if somebody reads it
        optional = {saved.output for saved in kept if saved.output is not None}
        writes = [
            self._add(name, "output" if name in self.network.outputs else "activation")
            for i, name in enumerate(node.outputs)
            if name and (i not in optional or name in self._used)
        ]
        saved_here: dict[str, int] = {}
        for saved in kept:
            name = _output(node, saved.output)
            if name in self.index:
                saved_here[saved.name] = self.index[name]
                continue
            label = f"{next(filter(None, node.outputs))}/{saved.name}"
            saved_here[saved.name] = self.draft.tensor(label, saved.nbytes(node, values), "activation")
            writes.append(saved_here[saved.name])
        if self.train and node.iterations > 1:
            nbytes = (node.iterations - 1) * carried_bytes(node, values)
            saved_here["carried"] = self.draft.tensor(f"{node.name}/carried", nbytes, "activation")
            writes.append(saved_here["carried"])
        self.saved.append(saved_here)
        if self.train and node.op_type == "BatchNormalization" and not any(node.outputs[1:]):
            # the running mean and variance, operands 3 and 4, are brought up to date where they are
            running = self.network.constants.intersection(node.operands[3:5])
            writes += [self.index[owner] for owner in node.operands[3:5] if owner in running]
        self.draft.op(
            node.name,
            node.op_type,
            reads,
            writes,
            multiply_adds(node, values),
            [self.index[owner] for owner in self._replaceable(node)],
            convolution(node, values) if self.draft.algorithms else None,
        )
        if node.bodies:
            self.draft.ops[-1] = _with_bodies(self.draft.ops[-1], node, values, self.draft)

    def _replaceable(self, node: Node) -> list[str]:
        """Return the operands whose place the output may take."""
        if node.op_type not in IN_PLACE:
            return []
        values = self.network.values
        return [
            owner
            for owner in node.operands
            if owner
            and owner not in self.network.constants
            and values[owner].elements == values[node.outputs[0]].elements
        ]


def _with_bodies(op: Op, node: Node, values: Mapping[str, KnownValue], outer: Draft) -> Op:
    """Return the op of a node of control flow with workspace and duration of the bodies.

    Workspace and what the op writes in each iteration are what the largest body needs; the outer graph
    holds the rest: what the body captures, initial values, and what a Loop or Scan collects.
    """
    drafts = [_draft_of(body, outer) for body in node.bodies]
    peak = max(_peak_of(body, draft) for body, draft in zip(node.bodies, drafts, strict=True))
    busy, longest = max((sum(inner.duration_ns for inner in draft.ops), k) for k, draft in enumerate(drafts))
    written = sum(values[name].nbytes for name in node.carried)
    work = op.work
    if node.iterations * busy > op.duration_ns:
        inner = together(inner.work for inner in drafts[longest].ops)
        work = tuple(x.repeated(node.iterations) for x in inner)
    return replace(
        op,
        workspace=max(0, peak - written),
        duration_ns=max(op.duration_ns, node.iterations * busy),
        work=work,
    )


def _draft_of(body: Body, outer: Draft) -> Draft:
    """Return the tensors and ops of a body; what the outer graph holds has no bytes."""
    draft = Draft(reorder=outer.reorder, dtype=outer.dtype)
    index = ForwardPass(body.network, draft, train=False).index
    for name, t in index.items():
        if name in body.borrowed:
            draft.tensors[t] = replace(draft.tensors[t], nbytes=0)
    return draft


def carried_bytes(node: Node, values: Mapping[str, KnownValue]) -> int:
    """Return the bytes that an iteration of a Loop or Scan hands to the next one."""
    first = 2 if node.op_type == "Loop" else 0
    scanned = int(node.attributes.get("num_scan_inputs", 0))
    return sum(values[name].nbytes for name in node.inputs[first : len(node.inputs) - scanned] if name)


def bytes_made(body: Body, outer: Draft) -> int:
    """Return the bytes of all that one run of a body makes."""
    draft = _draft_of(body, outer)
    written = {t for op in draft.ops for t in op.writes}
    return sum(draft.tensors[t].nbytes for t in written) + sum(op.workspace for op in draft.ops)


def _peak_of(body: Body, draft: Draft) -> int:
    graph = Graph(name="body", tensors=tuple(draft.tensors), ops=tuple(draft.ops))
    if not draft.reorder:
        return peak_of_reference(graph)
    peak = least_peak(graph)
    if peak is None:
        raise InstanceError(
            f"{body.label}: found {len(graph.ops)} ops of which no order is proved to need the least memory "
            f"within {MOST_STATES:,} executed sets, expected fewer; bodies=file takes the order of the file, "
            "branch=then or branch=else one branch of each If"
        )
    return peak


def _output(node: Node, position: int | None) -> str:
    """Return the name of an output, "" if it is absent."""
    return node.outputs[position] if position is not None and position < len(node.outputs) else ""
