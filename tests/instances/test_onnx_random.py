"""Random ONNX models against a calculation of their own: bytes by running them, memory by lifetimes.

The models have control flow, quantized operators and operators of ONNX Runtime, a function, and shapes that
are computed from shapes. ONNX's reference evaluator runs them, bodies too, so that every size is that of an
array. Nothing here knows the importer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from lowtide.instances.onnx_import import load_onnx
from lowtide.models.derived.memory import sequential_memory
from tests.effort import seeds
from tests.onnx_models import integers, node, require_onnx, save_model, value, weight

pytest.importorskip("onnx", reason="the package onnx is not installed")

MICROSOFT = "com.microsoft"
Arrays = dict[str, Any]


def of_microsoft() -> list[Any]:
    """Return operators of ONNX Runtime for the evaluator; only shapes and types are right."""
    from onnx.reference.op_run import OpRun

    def made(name: str, compute: Callable[..., Any]) -> Any:
        def run(self: Any, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
            return (compute(*inputs),)

        return type(name, (OpRun,), {"op_domain": MICROSOFT, "_run": run})

    return [
        made("FastGelu", lambda x: x),
        made("SkipLayerNormalization", lambda x, skip, *_: x + skip),
        made("FusedMatMul", np.matmul),
        made("DynamicQuantizeMatMul", lambda a, b, *_: a @ b.astype(np.float32)),
        made("QLinearAdd", lambda a, _s, _z, b, *_: (a + b).astype(np.uint8)),
        made("QLinearConcat", lambda _s, _z, *x: np.concatenate(x[::3], axis=0)),
        made("QLinearSigmoid", lambda x, *_: x),
    ]


class Maker:
    """Makes a random model; `shapes` has the floating-point values that nodes can read."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.nodes: list[Any] = []
        self.constants = [integers("zero", 0), integers("one", 1), integers("minus", -1)]
        self.constants += [weight("scale"), self.scalar("origin", "UINT8", 0), self.scalar("at", "INT64", 0)]
        self.constants += [self.scalar("by", "INT64", 1), self.scalar("yes", "BOOL", True)]
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.count = 0

    def scalar(self, name: str, kind: str, content: Any) -> Any:
        from onnx import TensorProto

        return require_onnx().make_tensor(name, getattr(TensorProto, kind), [], [content])

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def add(self, op_type: str, inputs: str, shape: tuple[int, ...] | None = None, **more: Any) -> str:
        """Add a node with one output, a value that nodes can read if it has a shape; return its name."""
        name = self.new()
        domain = more.pop("domain", "")
        self.nodes.append(node(op_type, inputs, name, domain=domain, **more))
        if shape is not None:
            self.shapes[name] = shape
        return name

    def constant(self, *shape: int) -> str:
        name = f"w{len(self.constants)}"
        self.constants.append(weight(name, *shape))
        return name

    def numbers(self, *content: int) -> str:
        name = f"w{len(self.constants)}"
        self.constants.append(integers(name, *content))
        return name

    def any(self) -> tuple[str, tuple[int, int]]:
        """Return a value, one of the last with a greater chance; all have two dimensions."""
        names = list(self.shapes)
        name = self.chance.choice(names[-4:] if self.chance.random() < 0.7 else names)
        rows, columns = self.shapes[name]
        return name, (rows, columns)

    # One kind of node each

    def plain(self) -> None:
        x, shape = self.any()
        kind = self.chance.choice(("Relu", "Neg", "Tanh", "Identity", "FastGelu", "Twice"))
        domain = {"FastGelu": MICROSOFT, "Twice": "mine"}.get(kind, "")
        self.add(kind, x, shape, domain=domain)

    def pair(self) -> None:
        x, shape = self.any()
        same = [name for name, other in self.shapes.items() if other == shape]
        other = self.chance.choice([*same, self.constant(shape[1])])
        if other in same and self.chance.random() < 0.3:
            self.add(
                "SkipLayerNormalization", f"{x} {other} {self.constant(shape[1])}", shape, domain=MICROSOFT
            )
        else:
            self.add(self.chance.choice(("Add", "Mul")), f"{x} {other}", shape)

    def joined(self) -> None:
        x, (rows, columns) = self.any()
        fit = [name for name, other in self.shapes.items() if other[1] == columns]
        other = self.chance.choice(fit)
        if rows + self.shapes[other][0] < 40:
            self.add("Concat", f"{x} {other}", (rows + self.shapes[other][0], columns), axis=0)

    def product(self) -> None:
        x, (rows, columns) = self.any()
        width = self.chance.randint(1, 6)
        kind = self.chance.choice(("MatMul", "FusedMatMul"))
        domain = MICROSOFT if kind == "FusedMatMul" else ""
        self.add(kind, f"{x} {self.constant(columns, width)}", (rows, width), domain=domain)

    def dimension(self, x: str, axis: str) -> str:
        """Return a one-dimensional value that holds a size of x."""
        return self.add("Gather", f"{self.add('Shape', x)} {axis}", axis=0)

    def reshaped(self) -> None:
        x, (rows, columns) = self.any()
        target = self.add("Concat", f"{self.dimension(x, 'one')} minus", axis=0)
        self.add("Reshape", f"{x} {target}", (columns, rows))

    def expanded(self) -> None:
        x, (rows, columns) = self.any()
        row = self.add("ReduceMax", f"{x} zero", (1, columns), keepdims=1)
        twice = self.add("Add", f"{self.dimension(x, 'zero')} one")
        target = self.add("Concat", f"{twice} {self.dimension(x, 'one')}", axis=0)
        self.add("Expand", f"{row} {target}", (rows + 1, columns))

    def counted(self) -> None:
        x, shape = self.any()
        many = self.add("Squeeze", f"{self.dimension(x, 'one')} zero")
        numbers = self.add("Range", f"at {many} by")
        self.add("Add", f"{x} {self.add('Cast', numbers, to=1)}", shape)

    def filled(self) -> None:
        x, shape = self.any()
        ones = self.add("ConstantOfShape", self.add("Shape", x))
        masked = self.add("Equal", f"{self.add('Cast', ones, to=7)} zero")
        self.add("Where", f"{masked} {x} {self.constant(1)}", shape)

    def chosen(self) -> None:
        x, (rows, columns) = self.any()
        mask = self.numbers(*(int(self.chance.random() < 0.6) for _ in range(rows - 1)), 1)
        chosen = sum(self.constants[-1].int64_data)
        places = self.add("Squeeze", f"{self.add('NonZero', mask)} zero")
        self.add("Gather", f"{x} {places}", (chosen, columns), axis=0)

    def cut(self) -> None:
        x, (rows, columns) = self.any()
        if rows > 1:
            end = self.add("Sub", f"{self.dimension(x, 'zero')} one")
            self.add("Slice", f"{x} zero {end} zero", (rows - 1, columns))

    def turned(self) -> None:
        x, (rows, columns) = self.any()
        self.add("Transpose", x, (columns, rows), perm=[1, 0])

    def quantized(self) -> None:
        x, (rows, columns) = self.any()
        kind = self.chance.randrange(4)
        if kind == 0:
            names = [self.new(), self.new(), self.new()]
            self.nodes.append(node("DynamicQuantizeLinear", x, " ".join(names)))
            width = self.chance.randint(1, 5)
            matrix = self.bytes(columns, width)
            whole = self.add("MatMulInteger", f"{names[0]} {matrix} {names[2]}")
            self.add("Mul", f"{self.add('Cast', whole, to=1)} {names[1]}", (rows, width))
        elif kind == 1:
            width = self.chance.randint(1, 5)
            matrix = self.bytes(columns, width)
            self.add("DynamicQuantizeMatMul", f"{x} {matrix} scale", (rows, width), domain=MICROSOFT)
        else:
            small = self.add("QuantizeLinear", f"{x} scale origin")
            how = "scale origin"
            if kind == 2:
                made = self.add("QLinearAdd", f"{small} {how} {small} {how} {how}", domain=MICROSOFT)
            else:
                made = self.add(
                    "QLinearConcat", f"{how} {small} {how} {small} {how}", domain=MICROSOFT, axis=0
                )
                rows *= 2
            made = self.add("QLinearSigmoid", f"{made} {how} {how}", domain=MICROSOFT)
            self.add("DequantizeLinear", f"{made} {how}", (rows, columns))

    def bytes(self, *shape: int) -> str:
        from onnx import numpy_helper

        name = f"w{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ones(shape, np.uint8), name))
        return name

    # Control flow

    def body(
        self, given: Mapping[str, tuple[int, int]], wanted: tuple[int, int], depth: int
    ) -> tuple[list[Any], str]:
        """Return the nodes of a body, at most five, and the value of the wanted shape that they make."""
        outer = self.nodes, dict(self.shapes)
        self.nodes = []
        if given:
            self.shapes.update(given)
        for _ in range(self.chance.randint(0, 2)):
            x, shape = self.any()
            kind = self.chance.randrange(3 + (depth < 2))
            if kind == 0:
                self.add("Neg", x, shape)
            elif kind == 1:
                self.add("Concat", f"{x} {x}", (2 * shape[0], shape[1]), axis=0)
            elif kind == 2:
                self.add("Mul", f"{x} {self.constant(shape[1])}", shape)
            else:
                self.branches(depth + 1)
        # a row that is broadcast to what is wanted, so that any value will do
        x, _ = self.any()
        top = self.add("ReduceMax", x, keepdims=1)
        last = self.add("Expand", f"{top} {self.numbers(*wanted)}")
        nodes = self.nodes
        self.nodes, self.shapes = outer
        return nodes, last

    def branches(self, depth: int = 0) -> None:
        from onnx import helper

        _, shape = self.any()
        bodies = []
        for side in ("then", "else"):
            nodes, last = self.body({}, shape, depth)
            bodies.append(helper.make_graph(nodes, side, [], [value(last, None)]))
        if depth or self.chance.random() < 0.7:
            condition = "c"
        else:
            x, (rows, _) = self.any()
            limit = self.numbers(self.chance.choice((0, rows + 1)))
            condition = self.add("Greater", f"{self.dimension(x, 'zero')} {limit}")
        self.add("If", condition, shape, then_branch=bodies[0], else_branch=bodies[1])

    def loop(self) -> None:
        from onnx import helper

        x, shape = self.any()
        i, go, v = self.new(), self.new(), self.new()
        nodes, last = self.body({v: shape}, shape, 1)
        on = self.new()
        nodes.append(node("Identity", go, on))
        inputs = [value(i, (), "INT64"), value(go, (), "BOOL"), value(v, None)]
        collects = self.chance.random() < 0.5
        returned = [value(on, (), "BOOL"), value(last, None), *[value(last, None)] * collects]
        body = helper.make_graph(nodes, "body", inputs, returned)
        many = self.chance.randint(1, 3)
        name = f"w{len(self.constants)}"
        self.constants.append(self.scalar(name, "INT64", many))
        outputs = [self.new(), *[self.new()] * collects]
        self.nodes.append(node("Loop", f"{name} yes {x}", " ".join(outputs), body=body))
        self.shapes[outputs[0]] = shape
        if collects:
            rows, columns = shape
            target = self.numbers(many * rows, columns)
            self.add("Reshape", f"{outputs[1]} {target}", (many * rows, columns))

    def scan(self) -> None:
        from onnx import helper

        x, (rows, columns) = self.any()
        state, piece = self.new(), self.new()
        start = self.add("ReduceMax", f"{x} zero", keepdims=1)
        row = self.new()
        nodes, last = self.body({state: (1, columns)}, (1, columns), 1)
        out = self.new()
        nodes = [*nodes, node("Add", f"{piece} {state}", row), node("Squeeze", f"{row} zero", out)]
        inputs = [value(state, None), value(piece, None)]
        body = helper.make_graph(nodes, "body", inputs, [value(last, None), value(out, None)])
        outputs = [self.new(), self.new()]
        made = node("Scan", f"{start} {x}", " ".join(outputs), body=body, num_scan_inputs=1)
        self.nodes.append(made)
        self.shapes[outputs[0]], self.shapes[outputs[1]] = (1, columns), (rows, columns)


def random_model(folder: Path, seed: int) -> tuple[Path, Arrays]:
    """Write a random model; return its path and its inputs."""
    from onnx import helper

    chance = Random(seed)
    maker = Maker(chance)
    sizes = {name: (chance.randint(1, 6), chance.randint(1, 6)) for name in ("x", "y")}
    maker.shapes.update(sizes)
    kinds = [maker.plain, maker.pair, maker.joined, maker.product, maker.reshaped, maker.expanded]
    kinds += [maker.counted, maker.filled, maker.chosen, maker.cut, maker.turned, maker.quantized]
    kinds += [maker.quantized, maker.branches, maker.loop, maker.scan]
    for _ in range(chance.randint(3, 12)):
        chance.choice(kinds)()
    made = [name for name in maker.shapes if name not in sizes]
    outputs = sorted({*chance.sample(made, min(len(made), 2)), *made[-1:]}) or ["x"]
    symbolic = chance.random() < 0.5
    inputs = [value(n, ["n", "k"] if symbolic and n == "x" else s) for n, s in sizes.items()]
    twice = helper.make_function(
        "mine",
        "Twice",
        ["a"],
        ["o"],
        [node("Concat", "a a", "t", axis=0), node("Split", "t", "o u", axis=0, num_outputs=2)],
        [helper.make_opsetid("", 21)],
    )
    path = save_model(
        folder,
        maker.nodes,
        [*inputs, value("c", (), "BOOL")],
        [value(name, None) for name in outputs],
        maker.constants,
        opset=21,
        domains=(MICROSOFT, "mine"),
        functions=[twice],
    )
    feeds = {name: np.ones(shape, np.float32) for name, shape in sizes.items()}
    return path, {**feeds, "c": np.array(True)}


# What the models need, from their arrays

VIEWS = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten")


class Scope:
    """A graph or a body that was run: its nodes with known conditions replaced, and all arrays."""

    def __init__(
        self,
        model: Any,
        graph: Any,
        arrays: Arrays,
        dynamic: set[str],
        storage: Mapping[str, str] | None = None,
    ) -> None:
        from onnx import helper
        from onnx.reference import ReferenceEvaluator

        self.model = model
        made = [name for n in graph.node for name in n.output if name]
        outputs = [value(name, None) for name in made]
        for info in outputs:
            info.ClearField("type")
        inputs = [value(name, None) for name in arrays]
        alone = helper.make_graph(list(graph.node), "alone", inputs, outputs, list(graph.initializer))
        runnable = helper.make_model(alone, opset_imports=model.opset_import, ir_version=model.ir_version)
        results = ReferenceEvaluator(runnable, new_ops=of_microsoft()).run(None, arrays)
        self.arrays = {**arrays, **dict(zip(made, results, strict=True))}
        self.arrays |= {t.name: to_array(t) for t in graph.initializer}
        self.dynamic = set(dynamic)
        self.storage = {**{name: name for name in self.arrays}, **(storage or {})}
        self.ops: list[tuple[set[str], list[str], Any]] = []
        for n in graph.node:
            self.take(n)

    def take(self, n: Any) -> None:
        reads = {*n.input, *(x for body in bodies(n) for x in captured(body))} - {""}
        if n.op_type == "If" and n.input[0] not in self.dynamic:
            side = bodies(n)[not self.arrays[n.input[0]].item()]
            inner = Scope(self.model, side, dict(self.arrays), self.dynamic, self.storage)
            self.arrays |= inner.arrays
            self.storage |= inner.storage
            self.dynamic |= inner.dynamic
            self.ops += inner.ops
            self.storage[n.output[0]] = self.storage[side.output[0].name]
            self.dynamic |= {n.output[0]} if side.output[0].name in self.dynamic else set()
            return
        if n.op_type == "Shape" or reads.isdisjoint(self.dynamic):
            return
        self.dynamic |= set(n.output)
        x, y = self.arrays[n.input[0]], self.arrays[n.output[0]]
        same = x.shape == y.shape and x.dtype == y.dtype
        turned = n.op_type == "Transpose" and 1 in x.shape
        if n.op_type in VIEWS or turned or (n.op_type in ("Cast", "Expand") and same):
            self.storage[n.output[0]] = self.storage[n.input[0]]
            return
        operands = {self.storage[name] for name in reads if name in self.dynamic}
        self.ops.append((operands, [name for name in n.output if name], n))

    def nbytes(self, name: str) -> int:
        return int(np.asarray(self.arrays[name]).nbytes)

    def workspace(self, n: Any) -> int:
        """Return what the bodies of a node hold beside what it writes in each iteration."""
        needs = []
        for body in bodies(n):
            outer = {name: self.arrays[name] for name in captured(body)}
            own = [info.name for info in body.input]
            given: list[Any] = []
            if n.op_type == "Loop":
                given = [np.array(0), np.array(True), *(self.arrays[name] for name in n.input[2:])]
            if n.op_type == "Scan":
                given = [self.arrays[n.input[0]], self.arrays[n.input[1]][0]]
            outer_dynamic = {name for name in outer if name in self.dynamic}
            inner = Scope(
                self.model, body, {**outer, **dict(zip(own, given, strict=True))}, {*own, *outer_dynamic}
            )
            needs.append(inner.least(own, [info.name for info in body.output]))
        if not needs:
            return 0
        again = {"If": len(n.output), "Loop": len(n.input) - 2, "Scan": 1}[n.op_type]
        return max(0, max(needs) - sum(self.nbytes(name) for name in n.output[:again]))

    def alive(self, outputs: Sequence[str]) -> list[tuple[set[str], list[str], Any]]:
        needed = {self.storage[name] for name in outputs}
        kept = []
        for reads, writes, n in reversed(self.ops):
            if not needed.isdisjoint(writes):
                needed |= reads
                kept.append((reads, writes, n))
        return kept[::-1]

    def least(self, own: Sequence[str], outputs: Sequence[str]) -> int:
        """Return the least peak of all orders; what comes from outside has no bytes."""
        ops = self.alive(outputs)
        peaks = [self.peak(order, own, outputs) for order in permutations(ops)]
        return min(peak for peak in peaks if peak is not None)

    def peak(self, ops: Sequence[Any], own: Sequence[str], outputs: Sequence[str]) -> int | None:
        """Return the most bytes that an order holds at once; None if it is no order."""
        final = {self.storage[name] for name in outputs}
        inner = {name for _, writes, _ in ops for name in writes}
        used = final.union(*(reads for reads, _, _ in ops))
        held = {name for name in own if name in used}
        peak = sum(map(self.nbytes, held))
        for k, (reads, writes, n) in enumerate(ops):
            if not reads & inner <= held:
                return None
            held |= set(writes)
            peak = max(peak, sum(map(self.nbytes, held)) + self.workspace(n))
            held &= final.union(*(later for later, _, _ in ops[k + 1 :]))
        return peak


def to_array(tensor: Any) -> Any:
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor)


def bodies(n: Any) -> list[Any]:
    """Return the bodies of a node, the branch that is taken first."""
    found = {a.name: a.g for a in n.attribute if a.HasField("g")}
    return [found[name] for name in ("then_branch", "else_branch", "body") if name in found]


def prune(graph: Any) -> None:
    """Remove the nodes that no output of a graph, or of a body, needs."""
    needed = {info.name for info in graph.output}
    kept = []
    for n in reversed(graph.node):
        if not needed.isdisjoint(n.output):
            for body in bodies(n):
                prune(body)
            needed |= {*n.input, *(x for body in bodies(n) for x in captured(body))}
            kept.append(n)
    kept = [type(n).FromString(n.SerializeToString()) for n in reversed(kept)]
    del graph.node[:]
    graph.node.extend(kept)


def captured(body: Any) -> list[str]:
    local = {info.name for info in body.input} | {name for n in body.node for name in n.output}
    reads = [x for n in body.node for x in (*n.input, *(x for b in bodies(n) for x in captured(b)))]
    reads += [info.name for info in body.output]
    return [name for name in dict.fromkeys(reads) if name and name not in local]


@pytest.mark.parametrize("seed", seeds(320))
def test_a_random_model_needs_what_its_arrays_need(tmp_path: Path, seed: int) -> None:
    import onnx
    from onnx.inliner import inline_local_functions

    path, feeds = random_model(tmp_path, seed)
    model = inline_local_functions(onnx.load(str(path)))
    prune(model.graph)
    scope = Scope(model, model.graph, feeds, set(feeds))
    outputs = [info.name for info in model.graph.output]
    dims = dict(zip("nk", feeds["x"].shape, strict=True))
    symbolic = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    graph = load_onnx(path, dims=dims if symbolic else None)

    ops = scope.alive(outputs)
    assert [op.kind.rpartition(".")[2] for op in graph.ops] == [n.op_type for _, _, n in ops]
    sizes = {t.name: t.nbytes for t in graph.tensors if t.kind != "weight"}
    storages = {*feeds, *(name for _, writes, _ in ops for name in writes)}
    assert sizes == {name: scope.nbytes(name) for name in storages}
    assert [op.workspace for op in graph.ops] == [scope.workspace(n) for _, _, n in ops]
    peak = scope.peak(ops, list(feeds), outputs)
    assert sequential_memory(graph).peak(range(len(graph.ops))) == peak
