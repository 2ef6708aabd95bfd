"""Control flow of ONNX models: what If, Loop and Scan need beside what the outer graph holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.instances.onnx_import import load_onnx
from lowtide.instances.transforms.roofline import PEAK
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Graph
from tests.effort import many
from tests.onnx_models import integers, node, require_onnx, save_model, value, weight

pytest.importorskip("onnx", reason="the package onnx is not installed")


def body(
    nodes: Sequence[Any], outputs: Sequence[Any], inputs: Sequence[Any] = (), constants: Any = ()
) -> Any:
    return require_onnx().make_graph(nodes, "body", inputs, outputs, initializer=list(constants))


def widened(result: str, size: int, source: str = "x") -> Any:
    """Return a branch that makes a scalar by way of `size` elements."""
    middle = f"wide {result}"
    nodes = [
        require_onnx().make_node("Expand", [source, f"to{size}"], [middle]),
        require_onnx().make_node("ReduceMax", [middle], [result], keepdims=0),
    ]
    return body(nodes, [value(result, ())])


def branches(folder: Path, then: Any, other: Any, **more: Any) -> Path:
    """Write a model: x through Relu, and an If on a condition that is an input."""
    constants = [integers("to1000", 1000), integers("to500", 500), *more.pop("constants", ())]
    nodes = [node("Relu", "x", "a"), *more.pop("nodes", ())]
    return save_model(
        folder,
        [*nodes, node("If", "c", more.pop("outputs", "y"), then_branch=then, else_branch=other)],
        [value("x", (1,)), value("c", (), "BOOL")],
        more.pop("returns", [value("y", ())]),
        constants,
    )


def control(graph: Graph) -> Any:
    """Return the one op of control flow."""
    return next(op for op in graph.ops if op.kind in ("If", "Loop", "Scan"))


def need(graph: Graph) -> int:
    """Return the bytes that the op of control flow holds beside what it reads."""
    op = control(graph)
    return int(op.workspace + sum(graph.tensors[t].nbytes for t in op.writes))


def read_by(graph: Graph) -> set[str]:
    return {graph.tensors[t].name for t in control(graph).reads}


def states_its_time(graph: Graph) -> bool:
    """Return whether the work of each op takes its duration on the reference machine."""
    assert PEAK.compute is not None
    return all(op.duration_ns == PEAK.compute.duration_ns(op.work) for op in graph.ops)


def test_an_if_needs_what_its_larger_branch_needs(tmp_path: Path) -> None:
    path = branches(tmp_path, widened("t", 500, "a"), widened("e", 1000, "a"))
    graph = load_onnx(path)
    assert need(graph) == 4 * 1000 + 4
    assert read_by(graph) == {"c", "a"}  # x is gone by then, target shapes are arguments
    # condition, a, and the larger branch with the output
    assert lt.solve(lt.Peak(graph)).objective == 1 + 4 + 4004
    assert control(graph).duration_ns > 1  # as long as the larger branch
    assert states_its_time(graph)
    assert states_its_time(load_onnx(branches(tmp_path, widened("t", 1000, "a"), widened("e", 500, "a"))))
    in_bytes = load_onnx(path, dtype="int8")
    assert {part.dtype for op in in_bytes.ops for part in op.work} == {"int8"}
    assert need(in_bytes) == 1000 + 1
    assert graph.provenance["control_flow"]["workspace"] == "least peak of the bodies"


def test_the_order_in_a_body_is_the_best_one_or_that_of_the_file(tmp_path: Path) -> None:
    nodes = [
        node("Expand", "x to1000", "p"),
        node("Expand", "x to500", "q"),
        node("ReduceSum", "p", "r", keepdims=0),
        node("ReduceSum", "q", "s", keepdims=0),
        node("Add", "r s", "t"),
    ]
    path = branches(tmp_path, body(nodes, [value("t", ())]), widened("e", 500))
    assert need(load_onnx(path)) == 4004
    assert need(load_onnx(path, bodies="file")) == 6004
    assert need(lt.load(f"{path}?bodies=file")) == 6004


def test_outer_values_that_a_body_returns_are_read(tmp_path: Path) -> None:
    passed = body([], [value("big", (1000,))])
    made = body([node("Neg", "big", "n")], [value("n", (1000,))])
    nodes = [node("Expand", "a to1000", "big")]
    path = branches(tmp_path, passed, passed, nodes=nodes, returns=[value("y", (1000,))])
    graph = load_onnx(path)
    assert [op.kind for op in graph.ops] == ["Relu", "Expand", "If"]
    assert read_by(graph) == {"c", "big"}
    assert need(graph) == 4000  # the copy
    path = branches(tmp_path, passed, made, nodes=nodes, returns=[value("y", (1000,))])
    assert read_by(load_onnx(path)) == {"c", "big"}


def test_constants_of_bodies_are_local_and_stay_all_the_time(tmp_path: Path) -> None:
    def adds(name: str, size: int) -> Any:
        nodes = [
            node("Add", f"a {name}", f"sum {name}".replace(" ", "_")),
            node("ReduceMax", f"sum_{name}", name + "r", keepdims=0),
        ]
        return body(nodes, [value(name + "r", ())], constants=[weight(name, size)])

    path = branches(tmp_path, adds("v", 10), adds("w", 30))
    light, heavy = load_onnx(path), load_onnx(path, weights=True)
    assert need(light) == need(heavy) == 4 * 30 + 4
    weights = {t.name: t.nbytes for t in heavy.tensors if t.kind == "weight"}
    assert sorted(weights.values()) == [40, 120]
    assert set(weights) <= read_by(heavy)
    assert sum(t.nbytes for t in light.tensors if t.kind == "weight") == 0


def test_bodies_within_bodies(tmp_path: Path) -> None:
    inner = node("If", "c", "i", then_branch=widened("p", 500), else_branch=widened("q", 1000))
    outer = body(
        [
            node("Expand", "a to500", "kept"),
            inner,
            node("ReduceMax", "kept", "k", keepdims=0),
            node("Add", "k i", "t"),
        ],
        [value("t", ())],
    )
    graph = load_onnx(branches(tmp_path, outer, widened("e", 500)))
    # the inner If comes first; behind ReduceMax it would find the 4 bytes of k
    assert need(graph) == 4 * 1000 + 4
    assert read_by(graph) == {"c", "a", "x"}


def test_conditions_that_the_model_states_choose_their_branch(tmp_path: Path) -> None:
    helper = require_onnx()
    nodes = [
        node("Shape", "x", "s"),
        node("Equal", "s three", "is_three"),
        node(
            "If",
            "is_three",
            "y",
            # the branches differ in rank, and one contradicts the shape of x
            then_branch=body([node("Mul", "x w", "t")], [value("t", (3,))], constants=[weight("w", 3)]),
            else_branch=body([node("Squeeze", "x", "t")], [value("t", ())]),
        ),
        node(
            "If",
            "no",
            "z",
            then_branch=widened("t", 9),
            else_branch=body([node("Neg", "y", "t")], [value("t", (3,))]),
        ),
    ]
    constants = [integers("three", 3), helper.make_tensor("no", 9, [], [False]), integers("to9", 9)]
    path = save_model(tmp_path, nodes, [value("x", (3,))], [value("z", (3,))], constants)
    graph = load_onnx(path)
    assert [op.kind for op in graph.ops] == ["Mul", "Neg"]
    assert "control_flow" not in graph.provenance
    assert load_onnx(path, train=True).ops[-1].kind == "Update"


def test_a_branch_can_be_chosen(tmp_path: Path) -> None:
    path = branches(tmp_path, widened("t", 500, "a"), widened("e", 1000, "a"))
    then, other = (lt.load(f"{path}?branch={side}") for side in ("then", "else"))
    assert [op.kind for op in then.ops] == ["Relu", "Expand", "ReduceMax"]
    assert [lt.solve(lt.Peak(graph)).objective for graph in (then, other)] == [2004, 4004]


def loop(
    folder: Path,
    nodes: Sequence[Any],
    returned: Sequence[Any],
    outputs: str,
    returns: Sequence[Any],
    many: int | None = 5,
) -> Path:
    """Write a model whose Loop carries v, 10 elements, and goes round `many` times."""
    helper = require_onnx()
    inputs = [value("i", (), "INT64"), value("go", (), "BOOL"), value("v", None)]
    constants = [integers("to500", 500), helper.make_tensor("yes", 9, [], [True])]
    constants += [] if many is None else [helper.make_tensor("most", 7, [], [many])]
    names = f"{'most' if many is not None else '-'} yes x"
    return save_model(
        folder,
        [node("Loop", names, outputs, body=body(nodes, [value("go", (), "BOOL"), *returned], inputs))],
        [value("x", (10,))],
        returns,
        constants,
    )


def test_a_loop_needs_one_iteration_and_what_it_carries(tmp_path: Path) -> None:
    wide = [
        node("Concat", "v v v", "wide", axis=0),
        node("ReduceSum", "wide", "s", keepdims=1),
        node("Add", "v s", "w"),
    ]
    path = loop(tmp_path, wide, [value("w", (10,))], "y", [value("y", (10,))])
    graph = load_onnx(path)
    # go 1, v 40, wide 120; later go, v, s 4, w 40: less. The initial value x is read beside it.
    assert need(graph) == 1 + 40 + 120 + 4
    assert read_by(graph) == {"x"}
    once = loop(tmp_path, wide, [value("w", (10,))], "y", [value("y", (10,))], many=1)
    assert load_onnx(once).ops[-1].duration_ns * 5 == control(graph).duration_ns
    assert states_its_time(graph)


def test_what_a_loop_collects_is_held_beside_its_iterations(tmp_path: Path) -> None:
    nodes = [node("Neg", "v", "w"), node("Concat", "v w", "slice", axis=0)]
    returned = [value("w", (10,)), value("slice", (20,))]
    path = loop(tmp_path, nodes, returned, "y all", [value("y", None), value("all", None)])
    graph = load_onnx(path)
    assert [t.nbytes for t in graph.tensors if t.name in ("y", "all")] == [40, 5 * 80]
    # go, v, w and slice at once, beside all five slices
    assert need(graph) == 1 + 40 + 40 + 80 + 5 * 80
    assert states_its_time(graph)
    path = loop(tmp_path, nodes, returned, "y all", [value("y", None), value("all", None)], many=None)
    with pytest.raises(InstanceError, match=r"unknown number of iterations, expected a constant"):
        load_onnx(path)


def test_a_loop_that_changes_the_shape_of_what_it_carries_is_refused(tmp_path: Path) -> None:
    path = loop(tmp_path, [node("Concat", "v v", "w", axis=0)], [value("w", None)], "y", [value("y", None)])
    with pytest.raises(InstanceError, match=r"makes FLOAT \[10\] of 'x' into FLOAT \[20\], expected carried"):
        load_onnx(path)


def test_a_scan_needs_one_iteration_and_its_slices(tmp_path: Path) -> None:
    nodes = [node("Add", "state slice", "next"), node("Concat", "next next", "out", axis=0)]
    inner = body(
        nodes, [value("next", None), value("out", None)], [value("state", None), value("slice", None)]
    )
    scan = node(
        "Scan", "x seq", "last outs", body=inner, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1]
    )
    path = save_model(
        tmp_path,
        [scan],
        [value("x", (10,)), value("seq", (10, 7))],
        [value("last", (10,)), value("outs", (20, 7))],
    )
    graph = load_onnx(path)
    # state, slice, next; then next and out; beside all of the outputs
    assert need(graph) == 120 + 20 * 7 * 4
    assert read_by(graph) == {"x", "seq"}


def test_functions_in_bodies_are_inlined(tmp_path: Path) -> None:
    helper = require_onnx()
    function = helper.make_function(
        "mine",
        "Widen",
        ["p", "to"],
        ["o"],
        [node("Expand", "p to", "big"), node("ReduceMax", "big", "o", keepdims=0)],
        [helper.make_opsetid("", 17)],
    )
    then = body([node("Widen", "x to", "t", domain="mine")], [value("t", ())])
    path = save_model(
        tmp_path,
        [node("If", "c", "y", then_branch=then, else_branch=then)],
        [value("x", (1,)), value("c", (), "BOOL")],
        [value("y", ())],
        [integers("to", 1000)],
        domains=("mine",),
        functions=[function],
    )
    assert need(load_onnx(path)) == 4004


def test_what_cannot_be_sized_is_refused_with_a_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = branches(tmp_path, widened("t", 500), body([node("Identity", "x", "e")], [value("e", (1,))]))
    with pytest.raises(InstanceError, match=r"branches that return FLOAT \[1\] and FLOAT \[\].*choose one"):
        load_onnx(path)
    foreign = node("Own", "x", "y", domain="theirs", body=widened("t", 500))
    arguments = [value("x", (1,))], [value("y", ())], [integers("to500", 500)]
    path = save_model(tmp_path, [foreign], *arguments, domains=("theirs",))
    with pytest.raises(
        InstanceError, match=r"found a body in operator theirs.Own, expected one only in If, Loop"
    ):
        load_onnx(path)
    path = branches(tmp_path, widened("t", 500), widened("e", 1000))
    monkeypatch.setattr("lowtide.instances.onnx_import.forward.least_peak", lambda graph: None)
    with pytest.raises(InstanceError, match=r"no order is proved to need the least memory.*bodies=file"):
        load_onnx(path)


def test_sequences_within_bodies_give_way_to_their_elements(tmp_path: Path) -> None:
    then = body(
        [node("SequenceConstruct", "x x", "q"), node("ConcatFromSequence", "q", "t", axis=0)],
        [value("t", (2,))],
    )
    path = branches(tmp_path, then, then, returns=[value("y", (2,))])
    graph = load_onnx(path)
    assert need(graph) == 8
    assert read_by(graph) == {"c", "x"}


def test_optionals_and_sequences_that_bodies_return_are_refused(tmp_path: Path) -> None:
    returned = require_onnx().make_tensor_sequence_value_info("q", 1, None)
    then = body([node("SequenceConstruct", "x x", "q")], [returned])
    ends = [node("ConcatFromSequence", "y", "z", axis=0)]
    nodes = [node("If", "c", "y", then_branch=then, else_branch=then), *ends]
    path = save_model(tmp_path, nodes, [value("x", (1,)), value("c", (), "BOOL")], [value("z", (2,))])
    with pytest.raises(InstanceError, match=r"found a body that returns a sequence.*constant positions"):
        load_onnx(path)
    graph = load_onnx(path, branch="then")
    assert [op.kind for op in graph.ops] == ["Concat"]
    nodes = [node("Optional", "x", "o"), node("OptionalGetElement", "o", "y")]
    path = save_model(tmp_path, nodes, [value("x", (2,))], [value("y", (2,))])
    with pytest.raises(InstanceError, match=r"found type optional, which has no fixed bytes"):
        load_onnx(path)


@given(st.data())
@many(60)
def test_the_need_of_a_random_branch_is_that_of_its_best_order(tmp_path_factory: Any, data: Any) -> None:
    sizes = {"x": 1}
    made: list[tuple[str, list[str], Any]] = []
    for k in range(data.draw(st.integers(1, 5))):
        reads = data.draw(st.lists(st.sampled_from(list(sizes)), min_size=1, max_size=3))
        joins = data.draw(st.booleans())
        name = f"v{k}"
        if joins:
            made.append((name, reads, node("Concat", " ".join([*reads, "x"]), name, axis=0)))
            sizes[name] = sum(sizes[r] for r in reads) + 1
        else:
            made.append((name, reads[:1], node("ReduceMax", reads[0], name, keepdims=1)))
            sizes[name] = 1
    last = made[-1][0]
    branch = body([n for _, _, n in made], [value(last, (sizes[last],))])
    folder = tmp_path_factory.mktemp("branch")
    path = branches(folder, branch, branch, returns=[value("y", (sizes[last],))])

    wanted = {last}
    for name, reads, _ in reversed(made):
        wanted.update(reads if name in wanted else ())
    alive = [(name, reads) for name, reads, _ in made if name in wanted]
    best = min(filter(None, (peak_of(order, sizes, last) for order in permutations(alive))))
    assert need(load_onnx(path)) == 4 * best


def peak_of(order: Sequence[tuple[str, list[str]]], sizes: dict[str, int], last: str) -> int | None:
    """Return the most elements that an order holds beside x; None if it is no order."""
    held: set[str] = set()
    peak = 0
    for k, (name, reads) in enumerate(order):
        if not set(reads) <= held | {"x"}:
            return None
        held.add(name)
        peak = max(peak, sum(sizes[v] for v in held))
        later = {r for _, others in order[k + 1 :] for r in others} | {last}
        held &= later
    return peak
