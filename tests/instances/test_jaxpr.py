"""Graphs of functions of JAX: sizes, bodies, names, and peaks of HLO that XLA makes now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.verifier.allocation import verify_allocation
from tests.xla_dumps import peak_by_live_ranges

jax = pytest.importorskip("jax", reason="the package jax is not installed")


def test_a_function_is_its_equations() -> None:
    zeros = jax.numpy.zeros
    graph = lt.from_jax(
        lambda w, x: (jax.numpy.tanh(x @ w) * 2).sum(), zeros((4, 8)), zeros((3, 4)), name="f"
    )
    assert [op.kind for op in graph.ops] == ["dot_general", "tanh", "mul", "reduce_sum"]
    assert [t.nbytes for t in graph.tensors] == [128, 48, 96, 96, 96, 4]
    assert [t.final for t in graph.tensors] == [True, True, False, False, False, True]
    assert graph.ops[0].work is not None
    assert graph.ops[0].work[0].multiply_adds == 3 * 8 * 4
    donated = lt.from_jax(lambda x: x + 1, zeros(5), donate=[0])
    assert [t.final for t in donated.tensors] == [False, True]


def test_calls_are_inlined_and_views_are_none() -> None:
    inner = jax.jit(jax.checkpoint(lambda x: jax.nn.relu(x).reshape(-1)))
    graph = lt.from_jax(lambda x: inner(x)[None] + 1, jax.ShapeDtypeStruct((4, 8), "bfloat16"))
    assert [op.kind for op in graph.ops] == ["max", "broadcast_in_dim", "add"]
    assert {t.nbytes for t in graph.tensors} == {64}


def test_a_scan_holds_an_iteration_and_repeats_its_work() -> None:
    """Body: carry 400, x 400; wide 1200 beside them; then wide and the new carry. Writes 400 + 4 a step."""

    def body(c: Any, x: Any) -> Any:
        wide = jax.numpy.concatenate([c, x, c])
        return wide[:100] * 2, wide.sum()

    zeros = jax.numpy.zeros
    graph = lt.from_jax(lambda c, xs: jax.lax.scan(body, c, xs), zeros(100), zeros((7, 100)))
    (op,) = graph.ops
    assert (op.kind, [graph.tensors[t].nbytes for t in op.writes]) == ("scan", [400, 28])
    assert op.workspace == 400 + 400 + 1200 - 404
    assert {w.times for w in op.work or ()} == {7}


def test_branches_and_while_loops_hold_their_largest_body() -> None:
    def chosen(x: Any) -> Any:
        return jax.lax.cond(x[0] > 0, lambda x: (x[:, None] * x).sum(0), lambda x: -x, x)

    graph = lt.from_jax(chosen, jax.numpy.zeros(20))
    assert {op.kind: op.workspace for op in graph.ops}["cond"] == 80 + 80 + 1600 - 80
    loop = lt.from_jax(
        lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2 + 1, x), jax.numpy.zeros(20)
    )
    assert [(op.kind, op.workspace) for op in loop.ops] == [("while", 80)]


def test_what_jax_cannot_trace_is_one_line() -> None:
    with pytest.raises(lt.InstanceError, match="expected a function that JAX can trace") as error:
        lt.from_jax(lambda x: int(x.sum()), jax.numpy.zeros(3))
    assert "\n" not in str(error.value)
    with pytest.raises(lt.UsageError, match="found int, expected a function of JAX"):
        lt.from_jax(3)  # type: ignore[arg-type]
    with pytest.raises(lt.UsageError, match="bodies: found 'most', expected least or file"):
        lt.from_jax(lambda x: x, 1.0, bodies="most")


FUNCTIONS = ["MLP, gradient", "transformer, gradient", "inception", "conditional", "while"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_xla_dumps_now_is_read_as_it_means(name: str, tmp_path: Path) -> None:
    from lowtide.results.experiments.xla_temp.table import compiled

    found, path = compiled(name, tmp_path)
    buffers = lt.load_buffers(path)
    theirs = verify_allocation(buffers, {b.id: b.hint or 0 for b in buffers.buffers})
    assert theirs.valid
    assert sum(theirs.heights.values()) == found.memory_analysis().temp_size_in_bytes
    stem = Path(str(path).removesuffix("-buffer-assignment.txt"))
    graph = lt.load(f"{stem}.txt").drop({"weight"})
    peak = sequential_memory(graph).peak(range(len(graph.ops)))
    expected = peak_by_live_ranges(stem)
    assert peak == expected if name != "while" else peak <= expected
