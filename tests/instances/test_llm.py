"""Language and image models: published sizes, sums over ranks, work of a step, and orders that are valid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.estimates.sharding import zero
from lowtide.instances.generators import generate
from lowtide.instances.generators.llm.networks import LANGUAGE, MODELS
from lowtide.models.graph import Graph
from tests.oracles.brute_force import order_peak
from tests.oracles.least_peak import least_peak

PARAMETERS = {
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "deepseek-v3": 671_026_404_352,
    "deepseek-v2-lite": 15_706_484_224,
    "qwen3-30b-a3b": 30_532_122_624,
    "gpt-oss-20b": 20_914_757_184,
    "flux.1-dev": 11_901_408_320,
    "dit-xl-2": 675_129_632 - 256 * 1152,  # without the fixed table of positions
}
"""Published numbers of parameters."""

CACHE = {
    "llama-3.2-1b": 32_768,
    "llama-3.2-3b": 114_688,
    "llama-3-8b": 131_072,
    "llama-3-70b": 327_680,
    "llama-3.1-405b": 516_096,
    "mixtral-8x7b": 131_072,
    "deepseek-v3": 70_272,
    "deepseek-v2-lite": 31_104,
    "qwen3-30b-a3b": 98_304,
    "gpt-oss-20b": 49_152,  # of a token that every layer attends to
}
"""Bytes of a token's keys and values."""

PAGE = Path(__file__).parents[2] / "docs" / "llm.md"

RANKS: list[dict[str, Any]] = [
    {"model": "llama-3-8b", "micro": 3, "batch": 2},
    {"model": "llama-3-8b", "attention": "eager"},
    {"model": "llama-3-8b", "tp": 4, "sp": True, "micro": 2},
    {"model": "llama-3-8b", "pp": 2, "micro": 3, "layers": 5},
    {"model": "llama-3-8b", "pp": 2, "stage": 1, "micro": 3, "layers": 5},
    {"model": "deepseek-v3", "layers": 4, "pp": 3, "stage": 1, "micro": 1},
    {"model": "deepseek-v2-lite", "experts": "ops", "ep": 4, "dp": 8, "tp": 2, "micro": 2, "zero": 3},
    {"model": "mixtral-8x7b", "experts": "ops", "gradients": "fp32", "ep": 2, "dp": 2, "zero": 2, "micro": 2},
    {"model": "gpt-oss-20b", "attention": "eager", "dp": 4, "zero": 1},
    {"model": "qwen3-30b-a3b", "dp": 2, "tp": 2},
    {"model": "flux.1-dev", "layers": 21, "tp": 2, "dp": 2, "zero": 3, "attention": "eager"},
    {"model": "dit-xl-2", "batch": 3, "micro": 2},
    {"model": "llama-3.2-1b", "dp": 2, "zero": 3, "micro": 2},
    {"model": "deepseek-v3", "step": "decode", "layers": 4, "experts": "ops", "ep": 2, "dp": 2},
    {"model": "gpt-oss-20b", "step": "decode", "tp": 2},
    {"model": "llama-3-8b", "step": "prefill", "pp": 2, "stage": 1},
    {"model": "flux.1-dev", "step": "prefill", "layers": 21},
    {"model": "llama-3.2-1b", "pp": 2, "micro": 3, "dp": 2, "zero": 2},
    {"model": "llama-3.2-1b", "pp": 2, "stage": 1, "micro": 3},
    {"model": "llama-3-8b", "cp": 4, "tp": 2, "sp": True, "zero": 3, "micro": 2},
    {"model": "deepseek-v2-lite", "cp": 2, "ep": 2, "dp": 2, "attention": "eager"},
    {"model": "llama-3-8b", "cp": 8, "step": "prefill", "page": 16},
    {"model": "gpt-oss-20b", "step": "decode", "page": 16, "tp": 2},
    {"model": "deepseek-v3", "step": "decode", "page": 16, "layers": 4, "tp": 2},
]


def rank(**options: Any) -> Graph:
    return generate("llm", **{"layers": 2, "seq": 64, **options})


def nbytes(graph: Graph, kind: str) -> int:
    return sum(x.nbytes for x in graph.tensors if x.kind == kind)


def operations(graph: Graph, kinds: str | tuple[str, ...]) -> int:
    ops = (op for op in graph.ops if op.kind.startswith(kinds))
    return sum(2 * work.multiply_adds * work.times for op in ops for work in op.work)


@pytest.mark.parametrize("model", PARAMETERS)
def test_parameters_are_those_published(model: str) -> None:
    assert set(PARAMETERS) == set(MODELS)
    assert nbytes(generate("llm", model=model, step="prefill"), "weight") == 2 * PARAMETERS[model]


@pytest.mark.slow
def test_the_page_has_these_numbers() -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    models = [row for row in rows if row[1].strip(" `") in MODELS]
    shown = {row[1].strip(" `"): [cell.strip() for cell in row[2:5]] for row in models}
    assert shown == {
        model: [
            f"{count:,}",
            f"{CACHE[model]:,}" if model in CACHE else "",
            f"{len(generate('llm', model=model, seq=64).ops):,}",
        ]
        for model, count in PARAMETERS.items()
    }


def test_weights_and_products_are_those_of_the_network_that_torch_traced() -> None:
    traced, graph = lt.load("catalogue:llama-1b-train"), generate("llm", model="llama-3.2-1b", seq=1024)
    tables = 2 * [1024 * 64 * 4]  # of rotary positions
    theirs = sorted(x.nbytes for x in traced.tensors if x.kind == "weight")
    assert theirs == sorted([*(2 * x.nbytes for x in graph.tensors if x.kind == "weight"), *tables])
    forward = sum(op.kind == "Linear" for op in graph.ops)
    assert forward == sum(op.kind == "LinearWeight" for op in graph.ops)
    assert (
        sum(op.kind == "mm" for op in traced.ops) == 3 * forward
    )  # theirs has as many for gradients of inputs


@pytest.mark.parametrize("model", CACHE)
def test_decoding_reads_keys_and_values_of_all_layers(model: str) -> None:
    graph = generate("llm", model=model, step="decode", seq=100, batch=3)
    read = {t for op in graph.ops for t in op.reads}
    before = [t for t, x in enumerate(graph.tensors) if x.kind == "state" and x.initial]
    assert set(CACHE) == set(LANGUAGE)
    assert len(before) == LANGUAGE[model].layers
    assert read.issuperset(before)
    assert sum(graph.tensors[t].nbytes for t in before) == 3 * 100 * CACHE[model]
    new = [x for x in graph.tensors if x.kind == "state" and not x.initial]
    assert sum(x.nbytes for x in new) == 3 * CACHE[model]
    assert all(x.final for x in new)
    prefilled = generate("llm", model=model, step="prefill", seq=100, batch=3)
    assert nbytes(prefilled, "state") == 3 * 100 * CACHE[model]


def test_a_window_bounds_the_tokens_that_every_other_layer_reads() -> None:
    graph = rank(model="gpt-oss-20b", step="decode", seq=1000)
    kv = [x.nbytes for x in graph.tensors if x.name.endswith("kv")]
    assert kv == [127 * 2048, 1000 * 2048]


def whole(model: str, sizes: Iterable[tuple[str, int]], options: dict[str, Any]) -> Fraction:
    """Return the bytes of all ranks of a stage; a weight that several ranks have counts once."""
    total, tp = Fraction(0), options.get("tp", 1)
    for name, size in sizes:
        _, _, weight = name.partition(".")
        copies = tp if "norm" in weight or weight.startswith(("router", "q_a", "kv_a", "r.")) else 1
        is_expert = weight.startswith(("experts.", "e")) and weight != "expand"
        total += Fraction(size * tp * (options.get("ep", 1) if is_expert else 1), copies)
    return total


@pytest.mark.parametrize(
    "options",
    [
        {"model": "llama-3-8b", "tp": 8},
        {"model": "llama-3-8b", "tp": 2, "pp": 3},
        {"model": "llama-3-70b", "tp": 8, "pp": 4},
        {"model": "llama-3.1-405b", "tp": 8, "pp": 16},
        {"model": "mixtral-8x7b", "tp": 2, "ep": 8, "dp": 8},
        {"model": "mixtral-8x7b", "tp": 2, "ep": 8, "dp": 16, "experts": "ops"},
        {"model": "deepseek-v3", "pp": 16, "ep": 64, "dp": 128},
        {"model": "deepseek-v3", "tp": 4, "ep": 8, "dp": 8, "pp": 2},
        {"model": "qwen3-30b-a3b", "tp": 4, "ep": 16, "dp": 16},
    ],
    ids=str,
)
def test_weights_of_all_ranks_are_the_model(options: dict[str, Any]) -> None:
    total = Fraction(0)
    for stage in range(options.get("pp", 1)):
        graph = generate("llm", **options, step="prefill", stage=stage)
        sizes = [(x.name, x.nbytes) for x in graph.tensors if x.kind == "weight"]
        total += whole(options["model"], sizes, options)
    assert total == 2 * PARAMETERS[options["model"]]


def test_a_table_that_is_embedding_and_head_is_on_the_first_and_the_last_stage() -> None:
    options: dict[str, Any] = {"model": "llama-3.2-1b", "pp": 4, "layers": 16}
    table = 2 * 128_256 * 2048
    stages = [rank(**options, stage=stage, network=10) for stage in range(4)]
    assert sum(nbytes(graph, "weight") for graph in stages) == 2 * PARAMETERS["llama-3.2-1b"] + table
    ties = [[op for op in graph.ops if op.name.endswith(".tie")] for graph in stages]
    assert [[(op.name, op.kind) for op in some] for some in ties] == [
        [("embed.table.tie", "all-reduce")],
        [],
        [],
        [("head.logits.tie", "all-reduce")],
    ]
    for graph, some in zip(stages, ties, strict=True):
        for op in some:
            (t,) = op.reads
            assert (op.writes, graph.tensors[t].nbytes) == ((t,), table)
            assert op.duration_ns == -(-table // 10)  # of two ranks each sends all of it
            before = max(i for i, other in enumerate(graph.ops) if t in other.writes and other is not op)
            update = next(
                i for i, other in enumerate(graph.ops) if other.kind == "adamw" and t in other.reads
            )
            assert before < graph.ops.index(op) < update
    for zero_stage in (1, 2, 3):
        graph = rank(**options, dp=8, zero=zero_stage, network=10)
        (op,) = (op for op in graph.ops if op.name.endswith(".tie"))
        assert op.duration_ns == -(-table // 8 // 10)
    assert not [op for op in rank(**options, step="prefill").ops if op.name.endswith(".tie")]


CONTEXT: list[dict[str, Any]] = [
    {"model": "llama-3-8b"},
    {"model": "llama-3-8b", "attention": "eager", "batch": 2},
    {"model": "llama-3-8b", "tp": 2, "sp": True},
    {"model": "llama-3.2-1b", "micro": 2},
    {"model": "deepseek-v2-lite", "attention": "flash"},
    {"model": "deepseek-v2-lite", "tp": 2, "attention": "eager"},
    {"model": "mixtral-8x7b", "dp": 2, "ep": 2},
]


@pytest.mark.parametrize("options", CONTEXT, ids=str)
def test_ranks_that_share_sequences_add_up_to_one(options: dict[str, Any]) -> None:
    """Operations, and bytes of each value: those of the whole, but of keys and values that are gathered."""
    one, part = rank(**options), rank(**options, cp=4)
    kinds = ("Linear", "Flash", "MatMul")
    assert 4 * operations(part, kinds) == operations(one, kinds)
    sizes = {x.name: (x.nbytes, x.kind) for x in one.tensors}
    gathered = 0
    for x in part.tensors:
        kept = x.kind in ("weight", "state") or ".grad" in x.name or x.name.partition("@")[0] == "head.loss"
        if x.name in sizes:
            whole_size, kind = sizes[x.name]
            assert kind == x.kind
            is_all = "attention.back.d" in x.name or "scores.back.d" in x.name or "mix.back.d" in x.name
            fits = {whole_size, whole_size // 4} if is_all else {whole_size if kept else whole_size // 4}
            assert x.nbytes in fits, x.name
        else:
            assert ".all" in x.name or x.name.endswith((".sum", ".again")), x.name
            gathered += x.nbytes if x.name.endswith(".all") else 0
    names = {"k_rope", "v"} if "deepseek" not in options["model"] else {"k", "v", "r_rope"}
    layers, micro = 2, options.get("micro", 1)
    marks = [f"@{j}" for j in range(micro)] if micro > 1 else [""]
    wanted = [f"l{i}.{name}{mark}" for i in range(layers) for name in names for mark in marks]
    assert gathered == sum(sizes[name][0] for name in wanted)


def test_gathered_keys_and_values_do_not_stay_until_the_backward_pass() -> None:
    graph = rank(cp=4)
    index = {x.name: t for t, x in enumerate(graph.tensors)}
    readers = [op.name for op in graph.ops if index["l0.k_rope.all"] in op.reads]
    assert readers == ["l0.attention"]
    again = [op for op in graph.ops if index["l0.k_rope.all.again"] in op.reads]
    assert [op.name for op in again] == ["l0.attention.back"]
    (back,) = again
    (scattered,) = (op for op in graph.ops if op.name == "l0.k_rope.all.back")
    assert {*scattered.reads} <= {*back.writes}
    assert graph.tensors[scattered.writes[0]].nbytes == graph.tensors[index["l0.k_rope"]].nbytes


@pytest.mark.parametrize(("cp", "seq"), [(2, 8), (4, 16), (4, 64), (3, 66)])
def test_chunks_from_both_ends_have_equally_many_pairs(cp: int, seq: int) -> None:
    chunk = seq // (2 * cp)
    counts = set()
    for i in range(cp):
        mine = [*range(i * chunk, (i + 1) * chunk), *range(seq - (i + 1) * chunk, seq - i * chunk)]
        counts.add(sum(t + 1 for t in mine))
    (pairs,) = counts
    graph = rank(step="prefill", layers=1, seq=seq, cp=cp)
    assert operations(graph, "Flash") == 4 * 4096 * pairs


def test_ranks_that_share_sequences_share_keys_and_values_and_states() -> None:
    whole_cache = nbytes(rank(step="prefill"), "state")
    assert 4 * nbytes(rank(step="prefill", cp=4), "state") == whole_cache
    shards = zero(PARAMETERS["llama-3-8b"], 64, 3)
    graph = generate("llm", model="llama-3-8b", dp=16, cp=4, zero=3, seq=64)
    assert (nbytes(graph, "weight"), nbytes(graph, "state")) == (shards.parameters, shards.optimizer)


@pytest.mark.parametrize("model", CACHE)
@pytest.mark.parametrize("seq", [100, 111, 112])
def test_blocks_of_the_cache_hold_whole_sequences(model: str, seq: int) -> None:
    """A sequence has the blocks of its tokens, that of the new one among them; windows keep the last ones."""
    shape, page, batch = LANGUAGE[model], 16, 3
    graph = generate("llm", model=model, step="decode", seq=seq, batch=batch, page=page, layers=2)
    blocks = [t for t, x in enumerate(graph.tensors) if x.kind == "state"]
    tokens = set(range(seq + 1))
    wanted = []
    for i in range(2):
        seen = {t for t in tokens if not shape.window or i % 2 or seq - t < shape.window}
        wanted.append(len({t // page for t in seen}) * page)
    each = CACHE[model] // shape.layers
    assert [graph.tensors[t].nbytes for t in blocks] == [batch * n * each for n in wanted]
    assert all(graph.tensors[t].initial and graph.tensors[t].final for t in blocks)
    (table,) = (x for x in graph.tensors if x.name == "blocks")
    assert table.nbytes == 4 * batch * len({t // page for t in tokens})
    for t in blocks:
        write, attention = (op for op in graph.ops if t in op.reads)
        assert (write.kind, write.writes, attention.kind) == ("CacheWrite", (t,), "FlashAttention")
        (work,) = write.work
        assert work.nbytes == 2 * batch * each + table.nbytes
        new = {*write.reads} - {t}
        assert not [x for x in attention.reads if x in new and graph.tensors[x].name != "blocks"]


def test_prefill_writes_blocks_beside_keys_and_values() -> None:
    graph = rank(step="prefill", page=16, seq=100)
    assert nbytes(graph, "state") == 2 * 112 * CACHE["llama-3-8b"] // 32
    assert not any(x.initial for x in graph.tensors if x.kind == "state")


@pytest.mark.parametrize("stage", range(4))
def test_states_of_a_rank_are_those_of_zero(stage: int) -> None:
    graph = generate("llm", model="llama-3-8b", dp=64, zero=stage, seq=64)
    states = zero(PARAMETERS["llama-3-8b"], 64, stage)
    buffers = [x.nbytes for x in graph.tensors if x.name.endswith(".grad")]
    assert nbytes(graph, "weight") == states.parameters
    assert sum(buffers) == states.gradients
    assert nbytes(graph, "state") == states.optimizer


@pytest.mark.parametrize("model", LANGUAGE)
def test_a_step_has_six_operations_for_each_parameter_in_use_and_token(model: str) -> None:
    """Parameters in use: without the table of embeddings, which is not multiplied, and idle experts."""
    shape = LANGUAGE[model]
    graph = generate("llm", model=model, seq=512, batch=2)
    n = PARAMETERS[model] - (0 if shape.tied else shape.vocab * shape.width)
    if shape.experts:
        idle = (shape.layers - shape.dense) * (shape.experts - shape.top)
        n -= idle * 3 * shape.width * shape.expert
    assert operations(graph, "Linear") == pytest.approx(6 * n * 1024, rel=0.002)
    if model in ("llama-3.2-1b", "llama-3-70b", "llama-3.1-405b"):
        assert operations(graph, "Linear") == pytest.approx(6 * PARAMETERS[model] * 1024, rel=0.05)


def test_operations_of_ranks_and_micro_batches_add_up() -> None:
    one = operations(rank(batch=4), ("Linear", "Flash"))
    assert one == operations(rank(micro=4), ("Linear", "Flash"))
    assert one == 4 * operations(rank(batch=4, tp=4), ("Linear", "Flash"))
    stages = [rank(batch=4, pp=2, stage=stage) for stage in range(2)]
    assert one == sum(operations(graph, ("Linear", "Flash")) for graph in stages)
    fused, single = (rank(model="qwen3-30b-a3b", experts=x) for x in ("fused", "ops"))
    assert operations(fused, "Linear") == operations(single, "Linear")


def test_attention_attends_to_earlier_tokens_alone_and_eager_to_all() -> None:
    flash, eager = rank(step="prefill", layers=1), rank(step="prefill", layers=1, attention="eager")
    assert operations(flash, "Flash") == 4 * 4096 * 64 * 65 // 2
    assert operations(eager, "MatMul") == 4 * 4096 * 64 * 64
    scores = [x.nbytes for x in rank(layers=1, attention="eager").tensors if "softmax" in x.name]
    assert scores == [2 * 32 * 64 * 64, 2 * 32 * 64 * 64]  # and their gradient


@pytest.mark.parametrize("options", RANKS, ids=str)
def test_graphs_are_whole(options: dict[str, Any]) -> None:
    graph = rank(**options)
    assert graph == rank(**options)
    for named in (graph.ops, graph.tensors):
        assert not [name for name, n in Counter(x.name for x in named).items() if n > 1]
    written: set[int] = set()
    for op in graph.ops:
        for t in op.writes:
            x = graph.tensors[t]
            # Only sums in place, optimizers and gathered weights write what has content.
            fresh = t not in written and not x.initial
            assert fresh or t in op.reads or op.kind == "adamw", (op.name, x.name)
        written.update(op.writes)
        assert (op.kind in EXCHANGES) == (op.all_modes[0].processors == ("link",))
        assert bool(op.work) == (op.kind not in EXCHANGES)
    read = {t for op in graph.ops for t in op.reads}
    idle = options.get("step") == "decode" and options.get("experts") == "ops"
    for t, x in enumerate(graph.tensors):
        assert x.initial == (t not in written) or x.kind in ("weight", "state")
        unread = "weight" if idle else "state" if options.get("page") and not x.initial else ""
        assert (t in read) != (x.kind == "output") or x.kind == unread
    if options.get("step", "train") == "train":
        updated = {t for op in graph.ops if op.kind == "adamw" for t in op.writes}
        assert updated == {t for t, x in enumerate(graph.tensors) if x.kind in ("weight", "state")}


EXCHANGES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "send", "receive")


def test_ops_of_micro_batches_are_in_the_order_of_1f1b() -> None:
    graph = rank(layers=6, pp=3, stage=1, micro=4)
    ends = {
        f"l2.{op}@{j}": f"{which}{j}" for which, op in (("F", "x2"), ("B", "norm1.back")) for j in range(4)
    }
    passes = [ends[op.name] for op in graph.ops if op.name in ends]
    assert passes == ["F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"]


def test_without_overlap_ops_run_on_any_processor() -> None:
    with_kinds, without = rank(tp=2), rank(tp=2, overlap=0)
    assert all(not op.modes for op in without.ops)
    assert [op.duration_ns for op in without.ops] == [op.all_modes[0].duration_ns for op in with_kinds.ops]


def test_exchanges_take_the_time_of_a_ring() -> None:
    ops = {op.name: op.duration_ns for op in rank(layers=1, tp=4, dp=2, nvlink=100, network=10).ops}
    hidden, parameters = 2 * 64 * 4096, 2 * 4096 + (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) // 4
    assert ops["l0.o.reduce"] == -(-2 * hidden * 3 // 4 // 100)
    assert ops["l0.reduce.2"] == -(-2 * parameters // 10)


def bytes_on_the_ring(graph: Graph, op: lt.Op) -> int:
    """Return the bytes that a collective op is about, of all ranks together; of an all-reduce twice."""
    about = op.writes if op.kind == "all-gather" else op.reads
    if op.kind == "reduce-scatter":  # what is read and written is the sum so far
        about = tuple(t for t in op.reads if t not in op.writes) or op.reads
    return (2 if op.kind == "all-reduce" else 1) * sum(graph.tensors[t].nbytes for t in about)


@pytest.mark.parametrize(
    "options",
    [
        {"tp": 4},
        {"tp": 4, "sp": True},
        *({"dp": 4, "zero": stage, "micro": 2} for stage in range(4)),
        {"cp": 4},
        {"cp": 4, "zero": 1},
        {"cp": 4, "zero": 3, "micro": 2},
        {"model": "mixtral-8x7b", "dp": 4, "ep": 4, "zero": 3},
        {"model": "mixtral-8x7b", "dp": 4, "ep": 4, "experts": "ops"},
    ],
    ids=str,
)
def test_every_exchange_sends_as_a_ring_of_four_does(options: dict[str, Any]) -> None:
    graph = rank(nvlink=100, network=10, **options)
    rate = 100 if "tp" in options else 10
    exchanges = [op for op in graph.ops if op.kind in EXCHANGES]
    for op in exchanges:
        sent = bytes_on_the_ring(graph, op) * 3 // 4
        assert op.duration_ns == max(1, -(-sent // rate)), op.name
    summed = [op.name for op in exchanges if ".reduce.4" in op.name]
    units, collects = 4, options.get("zero", 0) >= 2  # units: embedding, two layers, head
    assert len(summed) == (
        units * (options.get("micro", 1) if collects else 1) if {"dp", "cp"} & {*options} else 0
    )


def test_ranks_that_share_a_layer_have_the_ops_of_one() -> None:
    """So no gradient is lost where a layer is split, gathered or summed."""

    def gradients_read(graph: Graph) -> dict[str, int]:
        return {
            op.name.replace(".part.sum", ".sum"): sum(graph.tensors[t].kind == "gradient" for t in op.reads)
            for op in graph.ops
            if op.kind not in EXCHANGES
        }

    alone = gradients_read(rank())
    for options in ({"tp": 2}, *({"dp": 2, "zero": stage} for stage in range(4))):
        assert gradients_read(rank(**options)) == alone, options
    graph = rank(tp=2, sp=True)
    assert gradients_read(graph).keys() == alone.keys()
    tensors = [x.name for x in graph.tensors]
    for op in graph.ops:
        if op.name in ("l0.q.dw", "l1.up.dw", "head.logits.dw"):
            assert any(tensors[t].endswith(".again") for t in op.reads), op.name


def test_flash_attention_makes_the_scores_again_and_a_window_bounds_them() -> None:
    for options, kind, ratio in (({}, "FlashAttention", 2.5), ({"attention": "eager"}, "MatMul", 2)):
        graph = rank(**options)
        there, back = (
            sum(w.multiply_adds for op in graph.ops if op.kind == k for w in op.work)
            for k in (kind, f"{kind}Backward")
        )
        assert back == ratio * there
    graph = rank(model="gpt-oss-20b", step="prefill", seq=256)
    found = [2 * w.multiply_adds for op in graph.ops if op.kind == "FlashAttention" for w in op.work]
    assert found == [4 * 64 * 64 * sum(min(i, window) for i in range(1, 257)) for window in (128, 256)]


def test_ops_move_what_they_read_and_write_but_of_tables_and_idle_experts_only_a_part() -> None:
    graph = rank(model="qwen3-30b-a3b", seq=8)  # 64 rows for 128 experts
    sizes = [x.nbytes for x in graph.tensors]
    hidden, expert = 2 * 2048, 2 * 2048 * 768
    others = {
        "embed.x": 8 * 8 + 2 * 8 * hidden,
        "l0.experts.gate": 64 * (hidden + 2 * 768) + 64 * expert,
        "l0.experts.down": 64 * (hidden + 2 * 768) + 64 * expert,
    }
    for op in graph.ops:
        (work,) = op.work
        if op.name in others:
            assert work.nbytes == others[op.name], op.name
        elif op.kind not in ("adamw", "Linear"):
            assert work.nbytes == sum(sizes[t] for t in {*op.reads, *op.writes}), op.name


def test_peaks_agree_with_an_independent_calculation() -> None:
    for options in ({}, {"attention": "eager", "micro": 2}, {"model": "mixtral-8x7b", "experts": "ops"}):
        graph = rank(layers=1, **options)
        reference = lt.solve(lt.Peak(graph), "reference").objective
        assert reference == order_peak(graph, range(len(graph.ops)))
    graph = rank(layers=1, step="prefill", model="mixtral-8x7b")
    result = lt.solve(lt.Peak(graph))
    assert result.status is lt.Status.OPTIMAL
    assert result.objective == least_peak(graph)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"tp": 16},
            "tp: found 16, which does not divide the heads of keys and values, 8, expected one of 1, 2",
        ),
        ({"model": "flux.1-dev", "tp": 5}, "tp: found 5, which does not divide the heads, 24"),
        ({"ep": 2, "dp": 2}, "ep: found 2 for a model without experts, expected 1"),
        ({"model": "mixtral-8x7b", "ep": 3, "dp": 3}, "ep: found 3, expected a divisor of the 8 experts"),
        ({"model": "mixtral-8x7b", "ep": 8}, "ep: found 8 with dp=1, expected a divisor of dp, such as dp=8"),
        ({"model": "dit-xl-2", "step": "decode"}, "step: found decode for an image model, expected train"),
        ({"step": "decode", "zero": 3}, "zero: found 3 with step=decode, expected 0"),
        ({"model": "flux.1-dev", "pp": 2}, "pp: found 2 for an image model, expected 1"),
        ({"cp": 4, "step": "decode"}, "cp: found 4 with step=decode, expected 1"),
        ({"cp": 4, "seq": 60}, "cp: found 4 with seq=60, expected seq a multiple of 8"),
        ({"cp": 2, "model": "gpt-oss-20b"}, "cp: found 2 for a model whose layers have windows"),
        ({"cp": 2, "model": "dit-xl-2"}, "cp: found 2 for an image model, expected 1, or another model"),
        ({"sp": True, "tp": 8, "cp": 2, "seq": 8}, "sp: found 4 tokens with tp=8, expected a multiple of 8"),
        ({"page": 16}, "page: found 16 for a step without a cache of keys and values, expected 0"),
        ({"pp": 3}, "pp: found 3 stages of 2 layers, expected at most 2"),
        ({"pp": 2, "stage": 2}, "stage: found 2 with pp=2, expected 0 to 1"),
        ({"layers": 33}, "layers: found 33, expected at most 32, or 0 for all"),
        ({"sp": True, "model": "mixtral-8x7b"}, "sp: found 1, expected 0, or step=train of a language model"),
        ({"sp": True, "tp": 8, "seq": 60}, "sp: found 60 tokens with tp=8, expected a multiple of 8"),
        (
            {"model": "qwen3-30b-a3b", "experts": "ops", "seq": 8},
            "experts: found ops with 64 rows for 128 experts, expected more tokens, or fused",
        ),
        ({"model": "llama-3-9b"}, "llama-3-8b"),
    ],
    ids=str,
)
def test_what_is_impossible_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(lt.InstanceError, match=words):
        rank(**options)
