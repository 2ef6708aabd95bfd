"""Layers of training steps: closed forms of a transformer, traces, sums of stages, refusals."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

import lowtide as lt
from lowtide.instances.transforms.staged import words_of
from lowtide.models.derived.layers import Choice, Layer, split_of, stage_of
from lowtide.models.derived.training_layers import training_layers

SIZES = "layers=2&d_model=64&heads=4&groups=2&hidden=160&seq=32&vocab=100"
LLAMA = f"gen:transformer?form=llama&{SIZES}&train=1&split=1"


def test_layers_of_a_llama_take_their_closed_forms() -> None:
    graph = lt.load(LLAMA)
    found = training_layers(graph)
    embedding, *blocks, norm, head = found.layers
    t, h, shared, hidden, heads, vocab = 32, 64, 32, 160, 4, 100
    assert (found.between, len(blocks)) == (4 * t * h, 4)
    times = {op.name: op.duration_ns for op in graph.ops}
    updates = sum(time for name, time in times.items() if name.endswith(".update"))
    keep = [x.ways[0] for x in found.layers]
    assert sum(x.forward for x in found.layers) + sum(y.backward + y.weight for y in keep) == (
        sum(times.values()) - updates
    )
    assert [y.weight for y in keep[1:]] == [
        sum(time for name, time in times.items() if name.startswith(layer) and name.endswith(".weights"))
        for layer in ("block0.attention", "block0.mlp", "block1.attention", "block1.mlp", "norm", "logits")
    ]
    assert [x.states for x in (embedding, *blocks[:2], norm, head)] == [
        16 * count
        for count in (vocab * h, 2 * h * (h + shared) + 2 * h, 3 * h * hidden + 2 * h, 2 * h, vocab * h)
    ]
    attention, mlp = blocks[2:]
    assert attention.ways[0].activation == 4 * t * (4 * h + 2 * shared + heads * t)
    assert mlp.ways[0].activation == 4 * t * (2 * h + 4 * hidden)
    assert [y.activation for y in attention.ways[1:]] == [4 * t * (2 * h + 2 * shared), 4 * t * h]
    assert [y.activation for y in mlp.ways[1:]] == [4 * t * (h + 2 * hidden), 4 * t * h]
    again = sum(times[f"block1.mlp.{op}"] for op in ("norm", "gate", "silu", "up", "mul"))
    assert mlp.again == again
    assert mlp.ways[2].backward == mlp.ways[0].backward + mlp.ways[0].weight + again
    assert mlp.ways[1].backward == mlp.ways[2].backward - times["block1.mlp.gate"] - times["block1.mlp.up"]
    once = stage_of(found.layers[3:5], None, 0)
    both = sum(y.backward + y.weight for y in keep[3:5])
    assert (once.backward, once.weight) == (both + attention.forward + mlp.again, 0)
    assert once.activation == 4 * t * h
    # two inputs and that of the last product; the gradients of all results, and of the normalization
    assert mlp.ways[0].kept == 4 * t * (2 * h + hidden + 2 * hidden + h + h)


@pytest.mark.slow
def test_traces_have_the_parameters_of_their_networks() -> None:
    for name, parameters, table in (
        ("gpt2-small-train", 124_439_808, 50257 * 768),
        ("bert-base-train", 109_514_298, 30522 * 768),
        ("llama-1b-train", 1_235_814_400, 128256 * 2048),
    ):
        layers = training_layers(lt.load(f"catalogue:{name}")).layers
        assert sum(x.states for x in layers) == 16 * (parameters + table)


def test_stash_and_buffer_are_enough_for_the_order_of_a_trace() -> None:
    graph = lt.load("catalogue:gpt2-small-flash-train")
    stage = stage_of(layers := training_layers(graph).layers, (0,) * len(layers), 0)
    gradients = sum(x.states for x in layers) // 4
    peak = lt.solve(lt.Peak(graph), "reference").objective
    assert peak is not None
    assert stage.activation < peak <= stage.activation + stage.fixed - 3 * gradients


def cut(layers: tuple[Layer, ...], rng: Random) -> tuple[list[int], list[Choice]]:
    """Return random stages of layers."""
    ends = [*sorted(rng.sample(range(1, len(layers)), rng.randint(1, 3))), len(layers)]
    return ends, [
        None if rng.random() < 0.2 else tuple(rng.randrange(len(x.ways)) for x in layers[i:j])
        for i, j in pairwise([0, *ends])
    ]


@pytest.mark.parametrize("seed", range(4))
def test_stages_sum_up_to_what_partition_says_of_them(seed: int) -> None:
    graph = lt.load(LLAMA)
    layers = training_layers(graph).layers
    ends, choices = cut(layers, Random(seed))
    stages = [
        stage_of(layers[i:j], choice, s)
        for s, ((i, j), choice) in enumerate(zip(pairwise([0, *ends]), choices, strict=True))
    ]
    graph_of, split = split_of(layers, ends, choices)
    n = len(layers)
    asked = lt.Partition(
        graph_of,
        len(ends),
        together=tuple((k, 2 * n - 1 - k) for k in range(n)),
        backward=tuple(range(n, 2 * n)),
        schedule="1f1b",
        micro=3,
    )
    verdict = asked.verdict(split)
    assert not verdict.violations
    assert list(verdict.loads) == [x.forward + x.backward + x.weight for x in stages]
    assert list(verdict.memories) == [
        x.fixed + min(3, len(ends) - s) * x.activation for s, x in enumerate(stages)
    ]
    cuts, ways = words_of(layers, ends, choices)
    assert lt.pipeline_graph(stages, 3).ops == lt.load(f"{LLAMA}&cuts={cuts}&ways={ways}&micro=3").ops


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("cuts=2", "expected ascending ones, the last 7"),
        ("cuts=x-7", "expected ends as in 3-6-7"),
        ("cuts=3-7&ways=k3", "found those of 1 stages, expected 2"),
        ("cuts=3-7&ways=k3-k3", "expected 4 of k, s, f"),
        ("cuts=3-7&ways=s3-k4", "found s for layer 'embedding', expected k"),
        ("cuts=3-7&devices=0", "found those of 1 stages, expected 2"),
        ("cuts=3-7&devices=a", "expected numbers as in"),
        ("cuts=3-7&devices=0-2", "device without one"),
        ("cuts=3-7&micro=0", "micro"),
    ],
)
def test_stages_that_are_none_are_refused(options: str, words: str) -> None:
    with pytest.raises(lt.InstanceError, match=words):
        lt.load(f"{LLAMA}&{options}")


def test_graphs_without_layers_in_a_row_are_refused() -> None:
    with pytest.raises(lt.InstanceError, match="no backward pass"):
        lt.load("catalogue:llama-1b?cuts=1")
    g = lt.GraphBuilder()
    g.op("f", writes=[g.tensor("x", 1)])
    g.op("b", reads=["x"], writes=[g.tensor("d", 1, kind="gradient")])
    with pytest.raises(lt.InstanceError, match="no place to cut"):
        training_layers(g.build())
