"""Names for JAX's policies: from plans, and JAX does what the lists say."""

from __future__ import annotations

import re
from typing import Any

import pytest

import lowtide as lt
from lowtide.adapters import jax_names

jax = pytest.importorskip("jax", reason="the package jax is not installed")
ad_checkpoint = pytest.importorskip("jax.ad_checkpoint")
LAYERS = 4


def loss(weights: Any, x: Any) -> Any:
    """Return a number by layers whose two values have names."""
    for k, w in enumerate(weights):
        x = ad_checkpoint.checkpoint_name(jax.numpy.tanh(x @ w), f"h{k}")
        x = ad_checkpoint.checkpoint_name(jax.nn.gelu(x), f"g{k}")
    return (x**2).sum()


NAMES = {f"{kind}{k}" for k in range(LAYERS) for kind in "hg"}


def arguments() -> tuple[Any, Any]:
    """Return the arguments of the loss."""
    return [jax.numpy.zeros((64, 64))] * LAYERS, jax.numpy.zeros((512, 64))


def residuals(names: jax_names.CheckpointNames, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Return the names that JAX says it keeps for the backward pass."""
    capsys.readouterr()
    ad_checkpoint.print_saved_residuals(jax.checkpoint(loss, policy=names.policy()), *arguments())
    return set(re.findall(r"named '(\w+)'", capsys.readouterr().out))


def temporary(function: Any) -> int:
    """Return the temporary bytes that XLA reserves for the gradient."""
    analysis = jax.jit(jax.grad(function)).lower(*arguments()).compile().memory_analysis()
    return int(analysis.temp_size_in_bytes)


def solved(share: int) -> lt.Result:
    """Return a plan within a percentage of the least peak."""
    graph = jax_names.gradient_graph(loss, *arguments())
    peak = lt.solve(lt.Peak(graph), threads=1).objective
    assert peak is not None
    return lt.solve(lt.Recompute(graph, memory=peak * share // 100), threads=1, time_limit=10)


@pytest.mark.slow
def test_jax_keeps_the_names_of_a_plan_and_needs_less_memory(capsys: pytest.CaptureFixture[str]) -> None:
    result = solved(75)
    names = jax_names.names_of(result)
    assert {*names.saved, *names.recomputed} == NAMES
    assert names.recomputed
    assert names.saved
    assert residuals(names, capsys) == {*names.saved}
    all_kept = jax_names.CheckpointNames(saved=tuple(sorted(NAMES)), offloaded=(), recomputed=())
    assert residuals(all_kept, capsys) == NAMES
    less = temporary(jax.checkpoint(loss, policy=names.policy()))
    assert less < temporary(jax.checkpoint(loss, policy=all_kept.policy()))
    assert less < temporary(loss)


@pytest.mark.slow
def test_enough_memory_keeps_every_name() -> None:
    names = jax_names.names_of(solved(100))
    assert (names.recomputed, names.offloaded, {*names.saved}) == ((), (), NAMES)


def test_jax_moves_offloaded_names_to_the_host() -> None:
    text = ""
    for offloaded in ((), ("g0", "h1")):
        names = jax_names.CheckpointNames(saved=("h0",), offloaded=offloaded, recomputed=("g1",))
        step = jax.grad(jax.checkpoint(loss, policy=names.policy()))
        text = str(jax.make_jaxpr(step)(*arguments()))
        assert text.count("device_put") == 2 * bool(offloaded) * len(offloaded)
    assert "pinned_host" in text or "Host" in text


def small() -> tuple[lt.Graph, Any]:
    """Return a graph with a name for each op, and a machine with a host."""
    tensors = tuple(
        lt.Tensor(name=name, nbytes=size) for name, size in (("a", 4), ("b", 4), ("b/1", 8), ("c", 4))
    )
    ops = tuple(
        lt.Op(name=f"op{k}", reads=(k - 1,) if k else (), writes=(k,), duration_ns=10) for k in range(4)
    )
    names = {"a": ["a"], "b": ["b", "b/1"], "c": ["c"]}
    graph = lt.Graph(name="small", tensors=tensors, ops=ops, provenance={"checkpoint_names": names})
    machine = lt.Machine(
        tiers=(lt.Tier(name="gpu"), lt.Tier(name="host")),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="gpu"),)),),
        channels=(lt.Channel(src="gpu", dst="host", bytes_per_s=10**9),),
    )
    return graph, machine


def test_lists_are_what_the_plan_does() -> None:
    graph, machine = small()
    runs = tuple(lt.Run(op, 0, 10 * k, 10 * k + 10, "p") for k, op in enumerate((0, 1, 2, 3, 1)))
    plan = lt.Plan(machine=machine, runs=runs, copies=(lt.Copy(0, "gpu", "host", 10, 14),))
    names = jax_names.names_of(plan, graph)
    assert (names.saved, names.offloaded, names.recomputed) == (("b", "c"), ("a",), ())
    assert names.mixed == ("b",)
    again = lt.Plan(machine=machine, runs=(*runs, lt.Run(2, 0, 50, 60, "p")))
    assert jax_names.names_of(again, graph).recomputed == ("b",)


def test_what_has_no_names_or_plan_is_refused() -> None:
    plan = lt.Plan(machine=small()[1])
    with pytest.raises(lt.InstanceError, match="found no names, expected a graph of from_jax"):
        jax_names.names_of(plan, lt.load("catalogue:diamond"))
    with pytest.raises(lt.UsageError, match="found no graph"):
        jax_names.names_of(plan)
    with pytest.raises(lt.InstanceError, match="found no names, expected checkpoint_name"):
        jax_names.gradient_graph(lambda x: x.sum(), jax.numpy.zeros(3))
