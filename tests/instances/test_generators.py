"""Generators: structure of each family, determinism by seed, committed hashes."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.instances import load
from lowtide.instances.generators import FAMILIES, generate
from lowtide.instances.generators.randwire import watts_strogatz
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Accounting, Graph
from tests.effort import many

MANY = many(60)
SEEDS = st.integers(0, 10**6)

HASHES = {
    "skipchain?n=10,seed=1": "cd8229b4d9d9db46",
    "chain": "bccd2d56c7e9e924",
    "chain?train=1": "843a43b129b72ebc",
    "intree": "652ec585a6acb406",
    "intree?train=1": "fe22740266f3ed22",
    "outtree": "e7d52980125312c1",
    "outtree?train=1": "a907a71e21093a4e",
    "sp": "88e2069d7877faff",
    "sp?train=1": "f76c1ee70e9d1aa5",
    "layered": "a0864d8d6ac76a2e",
    "layered?train=1": "87cc3ec04cd941f9",
    "randwire": "be569dbabf5ca791",
    "randwire?train=1": "9ee2f3cc8b2cd079",
    "nasnet": "ca57645cbd0ad83b",
    "nasnet?train=1": "a8e519229bf4e9ac",
    "darts": "92907e49ca3d3731",
    "darts?train=1": "ccbc4749489dc7d5",
    "unet": "751859752bbb10ee",
    "unet?train=1": "80893532accd741b",
    "transformer": "07b8e5eef5939a7d",
    "transformer?train=1": "d011f3481eec6c31",
    "chain?n=10&seed=7&sizes=equal": "450208315baef0b9",
    "intree?n=100&seed=3&arity=5": "8c6933c45d864dc4",
    "outtree?n=50&data=edge&seed=2": "f1ecc8fb19c93272",
    "sp?n=60&data=edge&seed=5": "269870b95276af26",
    "layered?layers=10&width=5&data=edge&seed=1": "b8860bfda7af78fa",
    "randwire?n=20&seed=1": "6ea4c323415f2858",
    "randwire?n=16&k=6&p=0.3&stages=2&seed=9": "bc9bc0a075965bf9",
    "nasnet?cell=random&seed=1&cells=3": "9f6984f3a5fae97f",
    "darts?cell=random&seed=1&cells=3&train=1&weights=1": "830c5d298deb886b",
    "unet?depth=2&channels=8&image=30&batch=4&weights=1": "b2952a693d42fc28",
    "transformer?form=encoder&layers=1": "571da2dc82eefe7c",
    "transformer?form=seq2seq&train=1&weights=1": "35179ab5bd0e1b6c",
    "tasks": "dd68d6aa082954cc",
    "tasks?shape=inception&cores=4&n=60&seed=3": "8a94c1571055bbe0",
    "tasks?shape=forkjoin&seed=1": "07767e6bf11601c6",
    "tasks?shape=workflow&data=edge&workspace=9": "6aeab9c9bbd5e3ad",
    "tasks?shape=tree&cores=4": "ef56fea174960521",
    "flexgen?new=3": "ba97ae7cd9d9fcb3",
    "flexgen?model=opt-1.3b&layers=3&prefill=0&batches=2&batch=4": "a7c049cd4753f956",
    "sharded": "098cbd0858a75cba",
    "sharded?stage=0&layers=2": "ebbf41e7ba442aa1",
    "sharded?stage=1&layers=2": "274602cffe05bd5e",
    "sharded?stage=2&stash=0&devices=3": "7d58623916bd8e5d",
    "sharded?prefetch=0&limiter=1": "c8da1c2c25012a8f",
    "tensor-parallel": "68dd39a3ac75121b",
    "tensor-parallel?sp=0&recompute=selective&layers=3&batch=2": "e85f8d4bea8fd788",
    "tensor-parallel?recompute=full&working=0&tensor=2": "7a9a388628bd3e75",
    "tensor-parallel?tensor=1&layers=1": "4a0b63a4a2887283",
    "llm": "20f9837fe4ee52f8",
    "llm?layers=2&tp=4&sp=1&attention=eager": "b05d8c7af8156401",
    "llm?model=deepseek-v2-lite&layers=2&experts=ops&ep=8&dp=16&zero=3&micro=2": "26fde9048c943b8d",
    "llm?model=flux.1-dev&layers=20": "d818fe2f55c91e3d",
    "llm?model=gpt-oss-20b&step=decode": "643d4d60f28c148c",
    "tinyml": "d6f814829f1a562f",
    "tinyml?network=wide-kernels&width=50&image=160": "26f4977f08f6f6db",
    "tinyml?network=mobilenet-v1&width=25&classes=2": "67eb12579337a2ec",
    "tinyml?network=ds-cnn&weights=1": "6bfeb90994a2601a",
    "hios": "10b3cfd45dd1d0e0",
    "hios?n=14&layers=4&seed=3": "67c429bc18ea95ce",
    "stages": "62e43a2a93730f4b",
    "stages?p=3&m=5&v=2&placement=v&f=12-10-7-1-2-3&w=0": "e2ad87d313d7f5f4",
    "psplib": "1163cfb0ff47077e",
    "psplib?n=60&complexity=2.1&seed=4": "db40689b8d7d1f8e",
    "backprop-chain": "bb1277909c0a8c4f",
    "backprop-chain?l=9&largest=8&spread=3&seed=4": "02f0b255929cb1a2",
    "taped-chain?l=7&seed=2": "c2f46be14cf94fc8",
    "assembly": "8b71221785eae1ee",
    "assembly?grid=9x8x7&leaf=2&stencil=box&factor=cholesky": "798a8cf16661edd7",
    "fft": "272ef5ec59c659e6",
    "fft?points=16&nbytes=8": "befad6f79adb2925",
    "matmul": "949e30524f7aa882",
    "matmul?rows=2&columns=3&inner=5": "510b6981688e8bef",
    "stencil": "d9809ba9e7cf0302",
    "stencil?cells=5&steps=2&radius=2": "383ff47fb6145fb9",
    "lu": "2dbc55df44a64882",
    "lu?tiles=3&nbytes=4096": "c5bb96701fb9770c",
    "cholesky": "00978e17eff74cce",
    "cholesky?tiles=6": "fc63cc29f4fa7153",
    "attention": "9a7066050a3aa722",
    "attention?form=eager&tiles=3": "0c47449775ced931",
}

IN_PLACE = ("lu", "cholesky", "attention")
"""Families whose ops change tensors that they read."""


def readers(graph: Graph) -> Counter[int]:
    return Counter(t for op in graph.ops for t in op.reads)


def writers(graph: Graph) -> Counter[int]:
    return Counter(t for op in graph.ops for t in op.writes)


@pytest.mark.parametrize("spec", HASHES)
def test_the_graph_of_a_seed_never_changes(spec: str) -> None:
    assert load(f"gen:{spec}").sha256[:16] == HASHES[spec]


@pytest.mark.parametrize("family", FAMILIES)
def test_common_properties(family: str) -> None:
    graph = generate(family)
    assert graph == generate(family)
    assert graph.name == family
    assert load(graph.provenance["source"]) == graph
    if family in IN_PLACE:
        assert max(writers(graph).values()) > 1
        return
    assert max(writers(graph).values()) == 1
    made = {t for t, tensor in enumerate(graph.tensors) if not tensor.initial}
    if family == "tensor-parallel":
        made |= {t for t, tensor in enumerate(graph.tensors) if tensor.initial and tensor.kind == "gradient"}
    if family in ("sharded", "llm"):  # a whole iteration: states are updated
        made |= {t for t, tensor in enumerate(graph.tensors) if tensor.initial and tensor.kind != "input"}
    assert made == set(writers(graph))
    if family != "stages":  # what is sent there has no bytes
        assert all(tensor.nbytes > 0 for tensor in graph.tensors if tensor.kind != "weight")
    for t, tensor in enumerate(graph.tensors):
        assert (readers(graph)[t] == 0) == (tensor.kind == "output")
    replace = generate(family, accounting="replace")
    assert replace.accounting is Accounting.REPLACE
    assert (replace.ops, replace.tensors) == (graph.ops, graph.tensors)


@pytest.mark.parametrize("family", [name for name, f in FAMILIES.items() if "seed" in f.parameters])
def test_seeds_differ(family: str) -> None:
    options: dict[str, object] = {"cell": "random"} if "cell" in FAMILIES[family].parameters else {}
    options |= {"largest": 20} if family == "backprop-chain" else {}
    assert len({generate(family, seed=seed, **options).sha256 for seed in range(5)}) == 5


@pytest.mark.parametrize("family", [name for name, f in FAMILIES.items() if "sizes" in f.parameters])
def test_sizes(family: str) -> None:
    assert {t.nbytes for t in generate(family, sizes="equal").tensors} == {10}
    assert {t.nbytes for t in generate(family, largest=3).tensors} == {1, 2, 3}
    assert {t.nbytes for t in generate(family, largest=1).tensors} == {1}


@pytest.mark.parametrize("family", [name for name, f in FAMILIES.items() if "weights" in f.parameters])
def test_weights_are_dropped_unless_wanted(family: str) -> None:
    without, kept = generate(family), generate(family, weights=True)
    assert not without.summary()["bytes_by_kind"].get("weight")
    lost = without.provenance["dropped_bytes"]["weight"]
    assert kept.summary()["bytes_by_kind"]["weight"] == lost > 0
    assert without == kept.drop({"weight"})
    assert all(t.initial and t.final for t in kept.tensors if t.kind == "weight")


@MANY
@given(n=st.integers(1, 30), seed=SEEDS)
def test_chain(n: int, seed: int) -> None:
    graph = generate("chain", n=n, seed=seed)
    assert [op.reads for op in graph.ops] == [(), *((i,) for i in range(n - 1))]
    assert [op.writes for op in graph.ops] == [(i,) for i in range(n)]
    assert graph.tensors[-1].final


@MANY
@given(n=st.integers(1, 40), seed=SEEDS, arity=st.integers(1, 4))
def test_intree_is_a_tree_in_postorder(n: int, seed: int, arity: int) -> None:
    graph = generate("intree", n=n, seed=seed, arity=arity)
    assert len(graph.ops) == len(graph.tensors) == n
    assert [readers(graph)[t] for t in range(n)] == [1] * (n - 1) + [0]
    assert max(len(op.reads) for op in graph.ops) <= arity
    size = [1] * n
    for i, op in enumerate(graph.ops):
        size[i] += sum(size[t] for t in op.reads)
        # In a postorder the subtree of an op stands just before it.
        assert all(i - size[i] < t < i for t in op.reads)


@MANY
@given(n=st.integers(1, 40), seed=SEEDS, arity=st.integers(1, 4))
def test_outtree_with_data_on_edges_has_one_reader_each(n: int, seed: int, arity: int) -> None:
    graph = generate("outtree", n=n, seed=seed, arity=arity, data="edge")
    assert [len(op.reads) for op in graph.ops] == [0] + [1] * (n - 1)
    assert set(readers(graph).values()) <= {1}
    assert max(len(op.writes) for op in graph.ops) <= max(1, arity)
    assert not any(t.final for t in graph.tensors)
    kept = generate("outtree", n=n, seed=seed, arity=arity, keep=1)
    assert [t.final for t in kept.tensors] == [not readers(kept)[t] for t in range(n)]


@MANY
@given(n=st.integers(1, 40), seed=SEEDS, branches=st.integers(2, 5))
def test_series_parallel_graphs_reduce_to_one_edge(n: int, seed: int, branches: int) -> None:
    graph = generate("sp", n=n, seed=seed, branches=branches, data="edge")
    assert len(graph.ops) == n
    assert [i for i, op in enumerate(graph.ops) if not op.reads] == [0]
    assert [i for i in range(n) if graph.tensors[graph.ops[i].writes[-1]].kind == "output"] == [n - 1]
    writer = {t: i for i, op in enumerate(graph.ops) for t in op.writes}
    arcs = Counter((writer[t], i) for i, op in enumerate(graph.ops) for t in op.reads)
    assert set(arcs.values()) <= {1}
    # Merge parallel arcs, contract inner nodes of degree one and one (Valdes, Tarjan, Lawler 1982).
    edges = set(arcs)
    inner = set(range(1, n - 1))
    while node := next(
        (
            v
            for v in sorted(inner)
            if sum(b == v for _, b in edges) == 1 and sum(a == v for a, _ in edges) == 1
        ),
        None,
    ):
        (a,), (b,) = ([x for x, y in edges if y == node], [y for x, y in edges if x == node])
        edges = {arc for arc in edges if node not in arc} | {(a, b)}
        inner.remove(node)
    assert edges == ({(0, n - 1)} if n > 1 else set())


@MANY
@given(layers=st.integers(1, 6), width=st.integers(1, 6), seed=SEEDS, degree=st.integers(1, 4))
def test_layered_reads_the_layer_before_only(layers: int, width: int, seed: int, degree: int) -> None:
    graph = generate("layered", layers=layers, width=width, seed=seed, degree=degree)
    assert len(graph.ops) == layers * width
    for i, op in enumerate(graph.ops):
        assert all(t // width == i // width - 1 for t in op.reads)
        assert bool(op.reads) == (i >= width)
    assert all(readers(graph)[t] for t in range((layers - 1) * width))


@MANY
@given(n=st.integers(3, 25), half=st.integers(1, 3), p=st.floats(0, 1), seed=SEEDS)
def test_watts_strogatz_is_simple_with_n_k_half_edges(n: int, half: int, p: float, seed: int) -> None:
    if 2 * half >= n:
        return
    edges = watts_strogatz(n, 2 * half, p, Random(seed))
    assert len(edges) == len(set(edges)) == n * half
    assert all(0 <= a < b < n for a, b in edges)
    assert edges == sorted(edges)


def test_watts_strogatz_without_rewiring_is_the_ring() -> None:
    assert watts_strogatz(6, 2, 0.0, Random(0)) == [(0, 1), (0, 5), (1, 2), (2, 3), (3, 4), (4, 5)]


def test_randwire_has_one_source_and_sink_in_each_stage_and_halving_sizes() -> None:
    graph = generate("randwire", n=10, stages=3, sizes="equal", seed=4)
    assert len(graph.ops) == 3 * 12
    assert [op.name for op in graph.ops if op.name.endswith("put")] == [
        f"s{k}.{end}" for k in range(3) for end in ("input", "output")
    ]
    assert [t.nbytes for t in graph.tensors] == [40] * 12 + [20] * 12 + [10] * 12
    assert sum(not op.reads for op in graph.ops) == 1
    assert sum(t.final for t in graph.tensors) == 1


def test_batch_scales_all_activations_of_networks() -> None:
    for family in ("nasnet", "darts", "unet", "transformer"):
        one, many = generate(family), generate(family, batch=32)
        assert [t.nbytes * 32 for t in one.tensors] == [t.nbytes for t in many.tensors]


def test_nasnet_cell_has_the_published_operations() -> None:
    graph = generate("nasnet", cells=1)
    kinds = Counter(op.kind for op in graph.ops if op.name.startswith("cell0."))
    # Five separable convolutions of two depthwise and two pointwise parts, two adapting convolutions,
    # three average poolings, five sums, one concatenation of six states.
    assert kinds == {"DepthwiseConv": 10, "Conv": 12, "AveragePool": 3, "Add": 5, "Concat": 1}
    assert [len(op.reads) for op in graph.ops if op.kind == "Concat"] == [6]


def test_darts_cell_has_the_published_operations() -> None:
    graph = generate("darts", cells=1)
    kinds = Counter(op.kind for op in graph.ops if op.name.startswith("cell0."))
    # Five separable convolutions, one dilated one, two adapting convolutions, two skips (no ops).
    assert kinds == {"DepthwiseConv": 11, "Conv": 13, "Add": 4, "Concat": 1}


def test_reduction_cells_quarter_the_pixels_and_double_the_channels() -> None:
    graph = generate("darts", cells=6, channels=8, image=32)
    sizes = {t.name: t.nbytes for t in graph.tensors}
    per_cell = [sizes[f"cell{k}.out"] for k in range(6)]
    full = 4 * 4 * 8 * 32 * 32
    assert per_cell == [full, full, full // 2, full // 2, full // 4, full // 4]


def test_unet_skips_are_read_at_the_other_end() -> None:
    graph = generate("unet", depth=3, channels=4, image=16)
    index = {t.name: k for k, t in enumerate(graph.tensors)}
    for level in range(3):
        concat = next(op for op in graph.ops if op.name == f"up{level}.concat")
        assert concat.reads == (index[f"down{level}.conv1"], index[f"up{level}.upsample"])
    assert graph.tensors[index["bottom.conv1"]].nbytes == 4 * 32 * 2 * 2
    assert graph.tensors[index["output"]].nbytes == 4 * 2 * 16 * 16


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"form": "llama", "groups": 3}, "heads: found 8, expected a multiple of 3"),
        ({"form": "llama", "heads": 7}, "d_model: found 512, expected a multiple of 7"),
        ({"groups": 2}, "form: found decoder with groups or hidden, expected llama"),
    ],
)
def test_transformers_that_are_none_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InstanceError, match=words):
        generate("transformer", **options)


def test_transformer_sizes_and_forms() -> None:
    graph = generate("transformer", layers=1, d_model=8, heads=2, seq=6, batch=3, vocab=10)
    sizes = {t.name: t.nbytes for t in graph.tensors}
    assert sizes["block0.attention.scores"] == 4 * 3 * 2 * 6 * 6
    assert sizes["block0.mlp.expand"] == 4 * 3 * 6 * 32
    assert sizes["logits"] == 4 * 3 * 6 * 10
    assert not any(op.name == "logits" for op in generate("transformer", form="encoder").ops)
    both = generate("transformer", form="seq2seq", layers=3)
    memory = next(k for k, t in enumerate(both.tensors) if t.name == "encoder.norm")
    # Keys and values of each decoder layer.
    assert readers(both)[memory] == 6
