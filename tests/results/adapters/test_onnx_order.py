"""ONNX models in the order of a plan: the nodes of the file, the same outputs, and what ONNX Runtime runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.adapters import onnx_order
from lowtide.instances.onnx_import import light_models
from lowtide.models.derived.precedence import precedence
from tests.commands import answer, refused
from tests.effort import chosen
from tests.onnx_models import integers, node, require_onnx, save_model, value, weight

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")


def some_order(graph: lt.Graph, rng: Random) -> list[int]:
    """Return a random topological order."""
    found = precedence(graph)
    left = [len(before) for before in found.predecessors]
    ready = [i for i, count in enumerate(left) if not count]
    order = []
    while ready:
        i = ready.pop(rng.randrange(len(ready)))
        order.append(i)
        for j in found.successors[i]:
            left[j] -= 1
            if not left[j]:
                ready.append(j)
    return order


def random_model(folder: Path, rng: Random) -> Path:
    """Write a model of random nodes: also views, shapes, values of weights alone, dead ones and If."""
    nodes, values, weights = [], ["x"], ["w"]
    for k in range(rng.randint(4, 14)):
        a, b, w, new = rng.choice(values), rng.choice(values), rng.choice(weights), f"v{k}"
        kind = rng.choice(
            ("Relu", "Neg", "Add", "Mul", "Reshape", "Identity", "weight", "Shape", "If", "dead")
        )
        if kind in ("Add", "Mul"):
            nodes.append(node(kind, f"{a} {rng.choice((b, w))}", new, name=f"n{k}"))
        elif kind == "Reshape":
            nodes += [node(kind, f"{a} long", f"l{k}"), node(kind, f"l{k} square", new)]
        elif kind == "weight":
            nodes.append(node("Neg", w, f"w{k}"))
            weights.append(f"w{k}")
            continue
        elif kind == "Shape":
            nodes += [
                node("Shape", a, f"s{k}"),
                node("Expand", f"w s{k}", f"e{k}"),
                node("Add", f"{a} e{k}", new),
            ]
        elif kind == "If":
            branches = [
                require_onnx().make_graph([node(op, a, f"{op}{k}")], op, [], [value(f"{op}{k}", (2, 2))])
                for op in ("Abs", "Neg")
            ]
            nodes.append(node("If", "c", new, then_branch=branches[0], else_branch=branches[1]))
        elif kind == "dead":
            nodes.append(node("Exp", a, new))
            continue
        else:
            nodes.append(node(kind, a, new, name="same name"))
        values.append(new)
    used = {name for n in nodes for name in n.input}
    outputs = [v for v in values if v not in used] or values[-1:]
    return save_model(
        folder,
        nodes,
        [value("x", (2, 2)), value("c", (), "BOOL")],
        [value(name, (2, 2)) for name in outputs],
        [weight("w", 2, 2), integers("long", 4), integers("square", 2, 2)],
    )


def outputs_of(path: Path) -> list[Any]:
    """Return what a model makes of some input, by the evaluator of the package onnx, node after node."""
    from onnx.reference import ReferenceEvaluator

    feed = {"x": np.array([[-1, 2], [3, -4]], np.float32), "c": np.array(True)}
    return list(ReferenceEvaluator(str(path)).run(None, feed))


def ops_in_file(path: Path, graph: lt.Graph) -> list[int]:
    """Return the ops in the order of their nodes."""
    makers = {graph.tensors[t].name: i for i, op in enumerate(graph.ops) for t in op.writes}
    nodes = onnx.load(str(path)).graph.node
    return list(dict.fromkeys(makers[name] for n in nodes for name in n.output if name in makers))


@pytest.mark.slow
def test_the_nodes_of_random_models_stand_in_the_order_of_the_plan(tmp_path: Path) -> None:
    changed = 0
    for seed in chosen(range(160), least=20):
        rng = Random(seed)
        path = random_model(tmp_path, rng)
        graph = lt.load(path)
        if not graph.ops:
            continue
        plan = lt.Plan.from_order(graph, some_order(graph, rng))
        out = tmp_path / "out.onnx"
        onnx_order.write(graph, plan, out)
        model = onnx.load(str(out))
        onnx.checker.check_model(model, full_check=True)
        assert ops_in_file(out, graph) == list(plan.order)
        nodes = onnx.load(str(path)).graph.node
        assert sorted(n.SerializeToString() for n in model.graph.node) == sorted(
            n.SerializeToString() for n in nodes
        )
        for ours, theirs in zip(outputs_of(out), outputs_of(path), strict=True):
            assert np.array_equal(ours, theirs)
        again = lt.load(out)
        assert {t.name: t.nbytes for t in again.tensors} == {t.name: t.nbytes for t in graph.tensors}
        assert lt.verify(again, range(len(again.ops))).peaks == lt.verify(graph, plan).peaks
        changed += list(plan.order) != sorted(plan.order)
    assert changed > 8


def test_what_depends_on_an_op_stands_right_behind_it(tmp_path: Path) -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Neg", "x", "b"),
        node("Exp", "b", "dead"),
        node("Identity", "a", "view"),
        node("Neg", "w", "unread"),
        node("Abs", "w", "folded"),
        node("Add", "view b", "y"),
        node("Add", "y folded", "z"),
    ]
    graph = lt.load(
        save_model(tmp_path, nodes, [value("x", (2, 2))], [value("z", (2, 2))], [weight("w", 2, 2)])
    )
    model = onnx_order.ordered(graph, lt.Plan.from_order(graph, (1, 0, 2, 3)))
    assert [n.output[0] for n in model.graph.node] == ["b", "dead", "a", "view", "y", "folded", "z", "unread"]


def test_an_order_against_a_computed_shape_is_refused(tmp_path: Path) -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Shape", "a", "s"),
        node("Neg", "x", "b"),
        node("Expand", "w s", "e"),
        node("Add", "b e", "y"),
        node("Add", "y a", "z"),
    ]
    graph = lt.load(
        save_model(tmp_path, nodes, [value("x", (2, 2))], [value("z", (2, 2))], [weight("w", 2, 2)])
    )
    names = [op.name for op in graph.ops]
    order = [names.index(x) for x in ("Neg:b", "Add:y", "Relu:a", "Add:z")]
    assert lt.verify(graph, order).valid
    with pytest.raises(lt.InstanceError, match="found node 'y' before one that makes a shape for it"):
        onnx_order.ordered(graph, lt.Plan.from_order(graph, order))


def test_plans_that_are_no_order_of_the_file_are_refused(tmp_path: Path) -> None:
    graph = lt.load("onnx:squeezenet?train=1")
    with pytest.raises(
        lt.InstanceError, match=r"which is no node of .*, expected an order of an inference graph"
    ):
        onnx_order.ordered(graph, lt.Plan.from_order(graph, range(len(graph.ops))))
    plain = lt.load("catalogue:diamond")
    plan = lt.Plan.from_order(plain, range(4))
    with pytest.raises(lt.InstanceError, match="found no ONNX model that it was read from"):
        onnx_order.ordered(plain, plan)
    again = replace(plan.runs[0], start=9, end=10)
    for what, more in (
        ("copies", {"copies": (lt.Copy(0, "memory", "host", 0, 1),)}),
        ("a period", {"period": 9}),
        ("ops that run twice", {"runs": (*plan.runs, again)}),
        ("ops that run at the same time", {"runs": tuple(replace(run, start=0) for run in plan.runs)}),
    ):
        with pytest.raises(lt.UsageError, match=f"found {what}, expected an order of an inference graph"):
            onnx_order.ordered(plain, replace(plan, **more))
    with pytest.raises(lt.VerificationError):
        onnx_order.ordered(plain, replace(plan, runs=plan.runs[1:]))


def test_functions_are_refused(tmp_path: Path) -> None:
    helper = require_onnx()
    twice = helper.make_function(
        "own", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [helper.make_opsetid("", 17)]
    )
    path = save_model(
        tmp_path,
        [node("Twice", "x", "m", domain="own"), node("Relu", "m", "y")],
        [value("x", (2, 2))],
        [value("y", (2, 2))],
        domains=["own"],
        functions=[twice],
    )
    graph = lt.load(path)
    with pytest.raises(lt.InstanceError, match="inline these in the file first"):
        onnx_order.ordered(graph, lt.Plan.from_order(graph, range(2)))


def test_weights_in_files_stay_beside_the_model(tmp_path: Path) -> None:
    stored = onnx.numpy_helper.from_array(np.ones((2, 2), np.float32), "w")
    path = save_model(
        tmp_path, [node("Add", "x w", "y")], [value("x", (2, 2))], [value("y", (2, 2))], [stored]
    )
    onnx.save(onnx.load(str(path)), str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    graph = lt.load(path)
    plan = lt.Plan.from_order(graph, [0])
    onnx_order.write(graph, plan, tmp_path / "out.onnx")
    assert outputs_of(tmp_path / "out.onnx")[0].tolist() == outputs_of(path)[0].tolist()
    (tmp_path / "other").mkdir()
    with pytest.raises(lt.UsageError, match="expected a file in that folder"):
        onnx_order.write(graph, plan, tmp_path / "other" / "out.onnx")


def test_convert_writes_the_model(tmp_path: Path) -> None:
    path = random_model(tmp_path, Random(3))
    answer("solve", "peak", path.name, "--method", "greedy", "--plan", "plan.json", cwd=tmp_path)
    answer("convert", "plan.json", "out.onnx", cwd=tmp_path)
    plan, graph = lt.load_plan(tmp_path / "plan.json")
    assert ops_in_file(tmp_path / "out.onnx", graph) == list(plan.order)
    native = tmp_path / "graph.json"
    lt.save(graph, native)
    shutil.move(path, tmp_path / "gone.onnx")
    assert "found no such file" in refused(
        "convert", "plan.json", "o.onnx", "--graph", "graph.json", cwd=tmp_path
    )


RUNTIME = ["squeezenet", "shufflenet", "inception_v1"]


@pytest.mark.parametrize("name", RUNTIME)
def test_onnx_runtime_runs_in_the_order_of_the_plan(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    graph = lt.load(f"onnx:{name}")
    plan = lt.Plan.from_order(graph, some_order(graph, Random(1)))
    out = tmp_path / "out.onnx"
    onnx_order.write(graph, plan, out)
    onnx.checker.check_model(str(out), full_check=True)
    makers = {graph.tensors[t].name: i for i, op in enumerate(graph.ops) for t in op.writes}

    def ran(path: Path, order: Any) -> tuple[list[int], list[Any]]:
        """Return the ops as the runtime's profile lists them, and the outputs."""
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
        options.execution_order = order
        options.enable_profiling = True
        options.profile_file_prefix = str(tmp_path / "profile")
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feed = {
            i.name: np.random.default_rng(0).random(
                [d if isinstance(d, int) else 1 for d in i.shape], np.float32
            )
            for i in session.get_inputs()
        }
        outputs = session.run(None, feed)
        nodes = onnx.load(str(path)).graph.node
        named = {n.name or f"{n.op_type}_{k}": n for k, n in enumerate(nodes)}
        events = [e for e in json.loads(Path(session.end_profiling()).read_text()) if e.get("cat") == "Node"]
        executed = [
            e["name"].removesuffix("_kernel_time") for e in events if e["name"].endswith("_kernel_time")
        ]
        assert sorted(executed) == sorted(named)
        written = [x for e in executed for x in named[e].output if x in makers]
        return list(dict.fromkeys(makers[x] for x in written)), outputs

    order = runtime.ExecutionOrder.PRIORITY_BASED
    executed, outputs = ran(out, order)
    assert executed == list(plan.order)
    before, expected = ran(light_models()[name], order)
    assert before != executed  # a runtime that ignored the file's order would show here
    for ours, theirs in zip(outputs, expected, strict=True):
        assert np.array_equal(ours, theirs)
