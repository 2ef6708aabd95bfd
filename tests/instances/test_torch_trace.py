"""`lowtide.trace`: what it takes, what torch cannot trace, the same network from ONNX and `gen:llm`."""

from __future__ import annotations

import doctest
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.errors import InstanceError
from lowtide.models.texts import LONGEST, one_line
from tests.commands import refused, within

torch = pytest.importorskip("torch", reason="the package torch is not installed")
nn = torch.nn
cross_entropy = nn.functional.cross_entropy

ROWS, LABELS = torch.zeros(8, 16), torch.zeros(8, dtype=torch.int64)


def perceptron() -> Any:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))


def sizes(graph: lt.Graph) -> Counter[tuple[int, str]]:
    return Counter((tensor.nbytes, tensor.kind) for tensor in graph.tensors)


def test_the_examples_are_true() -> None:
    (example,) = doctest.DocTestFinder().find(lt.trace, "trace")
    assert doctest.DocTestRunner().run(example).failed == 0


class Named(nn.Module):  # type: ignore[misc,name-defined]
    """Arguments with a default, by name only, and trees of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 10)

    def forward(self, x: Any, pair: Any = None, *, scale: float = 1.0, shift: Any = None) -> Any:
        y = self.layer(x) * scale
        y = y if pair is None else y + pair["left"] + pair["rest"][0]
        return {"scores": y if shift is None else y + shift}


def test_inputs_are_a_tensor_a_tuple_or_some_by_name() -> None:
    row = torch.zeros(10)
    one = lt.trace(Named(), ROWS)
    assert [x.name for x in one.tensors if x.kind == "input"] == ["x"]
    assert one.name == "Named"
    assert sizes(lt.trace(Named(), (ROWS,))) == sizes(lt.trace(Named(), {"x": ROWS})) == sizes(one)
    assert sizes(lt.trace(Named(), {"any name": ROWS})) == sizes(one)
    assert len(lt.trace(Named(), {"x": ROWS, "scale": 2.0}).ops) == 2
    tree = {"left": row, "rest": (row.clone(), None)}
    graph = lt.trace(Named(), {"shift": row.clone(), "x": ROWS, "pair": tree})
    assert [x.name for x in graph.tensors if x.kind == "input"] == ["shift", "x", "pair.left", "pair.rest.0"]
    step = lt.trace(Named(), ROWS, (LABELS,), lambda output, labels: cross_entropy(output["scores"], labels))
    assert [x.name for x in step.tensors if x.kind == "input"] == ["x", "labels"]


@pytest.mark.parametrize("train", [False, True])
def test_exported_graphs_compiled_and_meta_modules_are_the_same_graph(train: bool) -> None:
    """An exported program states its inputs, and so do the nodes of a graph that was traced before."""
    module = perceptron()
    more = {"targets": LABELS, "loss": cross_entropy} if train else {}
    plain = lt.trace(module, ROWS, **more)
    exported = torch.export.export(module, (ROWS,))
    with torch.device("meta"):
        meta = perceptron()
    for given, inputs in (
        (exported, None),
        (exported, torch.zeros(8, 16)),
        (torch.fx.symbolic_trace(module), ROWS),
        (torch.compile(module), ROWS),
        (meta, ROWS),
        (meta, ROWS.to("meta")),
    ):
        graph = lt.trace(given, inputs, **more)
        assert sizes(graph) == sizes(plain)
        assert [(op.kind, len(op.reads)) for op in graph.ops] == [
            (op.kind, len(op.reads)) for op in plain.ops
        ]


def test_a_graph_of_operators_states_its_inputs() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    recorded = make_fx(lambda rows, weight: (rows @ weight).relu(), tracing_mode="fake")(
        ROWS, torch.ones(16, 4)
    )
    graph = lt.trace(recorded)
    assert [op.kind for op in graph.ops] == ["mm", "relu"]
    assert [x.nbytes for x in graph.tensors] == [4 * 8 * 16, 4 * 16 * 4, 4 * 8 * 4, 4 * 8 * 4]


def test_tracing_leaves_the_module_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(16, 10), nn.BatchNorm1d(10))
    module[1].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    lt.trace(module, torch.ones(8, 16), LABELS, cross_entropy)
    assert [part.training for part in module.modules()] == [True, True, False]
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())


def test_durations_are_those_of_a_machine() -> None:
    module = perceptron().bfloat16()
    plain = lt.trace(module, ROWS.bfloat16())
    assert plain.durations == "roofline of a100-40g at its peak rates, bf16"
    machine = lt.load_machine("h100-80g")
    for named in ("h100-80g", machine):
        timed = lt.trace(module, ROWS.bfloat16(), durations=named)
        assert timed.durations == "roofline of h100-80g, bf16"
        assert timed.states_work
    with pytest.raises(InstanceError, match="autocast: found 'fp64', expected bf16 or fp16"):
        lt.trace(module, ROWS, autocast="fp64")


def test_a_traced_graph_is_solved_saved_and_priced_on_a_machine(tmp_path: Path) -> None:
    graph = lt.trace(perceptron(), ROWS, LABELS, cross_entropy, optimizer="adamw", autocast="bf16")
    lt.save(graph, tmp_path / "step.json")
    assert lt.load(tmp_path / "step.json").sha256 == graph.sha256
    done = within("show", "step.json?durations=h100-80g", cwd=tmp_path)
    assert "roofline of h100-80g" in done.stdout


def test_options_of_named_networks_change_bytes_and_rates(tmp_path: Path) -> None:
    spec = "torch:llama_1b?seq=8&layers=1&train=1&optimizer=adamw&weights=1"
    plain, half, tf32 = (lt.load(spec + more) for more in ("", "&dtype=bf16", "&dtype=tf32"))
    assert sizes(tf32) == sizes(plain)
    assert tf32.name.endswith("-tf32")
    assert {part.dtype for op in tf32.ops for part in op.work} == {"tf32", "fp32"}
    assert {part.dtype for op in half.ops for part in op.work if op.kind in ("mm", "adamw")} == {"bf16"}
    pairs = zip(plain.tensors, half.tensors, strict=True)
    others = [(a, b) for a, b in pairs if b.nbytes != a.nbytes // 2]  # tokens, labels and masks
    assert all(a.nbytes == b.nbytes and a.kind in ("input", "activation") for a, b in others)
    assert sum(b.nbytes for _, b in others) < 1000
    cast = lt.load(spec + "&autocast=bf16")
    assert cast.name.endswith("-autocastbf16")
    weights = [[x.nbytes for x in graph.tensors if x.kind in ("weight", "state")] for graph in (plain, cast)]
    assert weights[0] == weights[1]
    assert any(op.kind == "_to_copy" for op in cast.ops)
    line = refused("show", "torch:efficientnet_b0?image=32&train=1", cwd=tmp_path, run=within)
    assert "take a batch of at least 2" in line


class Of(nn.Module):  # type: ignore[misc,name-defined]
    """A function of one tensor as a module."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def without_shapes(x: Any) -> Any:
    operator = torch.library.custom_op(
        "lowtide_tests::shapeless", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    return operator(x)


def reentrant(x: Any) -> Any:
    return torch.utils.checkpoint.checkpoint(nn.functional.relu, x, use_reentrant=True)


def mean(output: Any) -> Any:
    return output.mean()


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "no module": (
        lambda: lt.trace("net", ROWS),
        r"trace of str: found str, expected a torch.nn.Module, a torch",
    ),
    "no inputs": (
        lambda: lt.trace(perceptron()),
        r"inputs: missing a required argument: 'input', expected .*\(input\)$",
    ),
    "too many": (lambda: lt.trace(perceptron(), (ROWS, ROWS)), "inputs: too many positional arguments"),
    "no tensor": (
        lambda: lt.trace(perceptron(), 3),
        "inputs: found int, expected a tensor, a tuple of arguments",
    ),
    "targets": (lambda: lt.trace(perceptron(), ROWS, None, cross_entropy), "targets: missing .* 'target'"),
    "shape": (
        lambda: lt.trace(perceptron(), torch.zeros(3, 4)),
        r"RuntimeError of torch \(.*\[3, 4\] X \[16, 32\]\), expected a module that runs on these",
    ),
    "branch": (
        lambda: lt.trace(Of(lambda x: x if x.sum() > 0 else -x), ROWS),
        r"trace of Of, test_torch_trace.py:\d+: found Data.* not depend on the content .* torch.where$",
    ),
    "item": (
        lambda: lt.trace(Of(lambda x: x * x.sum().item()), ROWS),
        "does not depend on the content of tensors",
    ),
    "nonzero": (
        lambda: lt.trace(Of(lambda x: x[x > 0]), ROWS),
        "found DynamicOutputShape.*use a mask or torch.where",
    ),
    "no kernel": (lambda: lt.trace(Of(without_shapes), ROWS), "state it with torch.library.register_fake$"),
    "numpy": (lambda: lt.trace(Of(lambda x: torch.from_numpy(x.numpy())), ROWS), "without numpy in it$"),
    "devices": (
        lambda: lt.trace(Of(lambda x: x + torch.zeros(16, device="meta")), ROWS),
        r"on one device; move them with .to\(device\)$",
    ),
    "checkpoint": (
        lambda: lt.trace(nn.Sequential(nn.Linear(16, 4), Of(reentrant)), ROWS, None, mean),
        "pass use_reentrant=False to them$",
    ),
    "user's error": (
        lambda: lt.trace(Of(lambda x: x.no_such_attribute), ROWS),
        "found AttributeError of torch",
    ),
    "no output": (
        lambda: lt.trace(Of(lambda x: 3), ROWS),
        "output: found no tensor, expected some in tuples",
    ),
    "loss": (
        lambda: lt.trace(perceptron(), ROWS, LABELS, lambda output, labels: output),
        r"trace of Sequential, loss: found a tensor of shape \(8, 10\), expected a tensor of one element",
    ),
    "number": (lambda: lt.trace(perceptron(), ROWS, None, lambda output: 3.0), "loss: found float, expected"),
    "constant": (
        lambda: lt.trace(perceptron(), ROWS, None, lambda output: torch.zeros(())),
        "loss: found one that depends on no parameter",
    ),
    "no loss": (
        lambda: lt.trace(perceptron(), ROWS, None, "mse"),  # type: ignore[arg-type]
        "loss: found str, expected a function",
    ),
    "machine": (
        lambda: lt.trace(perceptron(), ROWS, durations="v200"),
        "machine: found 'v200', did you mean",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_torch_cannot_trace_is_said_in_one_line(case: str, capfd: pytest.CaptureFixture[str]) -> None:
    call, words = REFUSED[case]
    with pytest.raises(InstanceError) as caught:
        call()
    line = str(caught.value)
    assert re.search(words, line), line
    assert "\n" not in line
    assert len(line) < 1.5 * LONGEST
    assert re.search(words.rpartition(" ")[2], one_line(line))  # the next step is in what the command shows
    assert capfd.readouterr().err == ""


WIDTH, KEYS, HIDDEN, WORDS, TOKENS = 2048, 512, 8192, 128256, 8
"""Of one layer of Llama 3.2 1B, and a sequence."""


def llama_in_onnx(path: Path) -> None:
    """Write that layer without positions and norms, whose weights are vectors; the file has no weights."""
    onnx = pytest.importorskip("onnx")
    helper, proto = onnx.helper, onnx.TensorProto
    nodes: list[Any] = []
    weights: list[Any] = []

    def weight(name: str, *dims: int) -> str:
        tensor = proto(name=name, data_type=proto.FLOAT, dims=dims, data_location=proto.EXTERNAL)
        tensor.external_data.add(key="location", value="weights.bin")
        weights.append(tensor)
        return name

    def op(kind: str, *reads: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, [*reads], [f"{kind}{len(nodes)}"], **attributes))
        return f"{kind}{len(nodes) - 1}"

    def reshaped(x: str, *dims: int) -> str:
        name = f"shape{len(nodes)}"
        weights.append(helper.make_tensor(name, proto.INT64, [len(dims)], dims))
        return op("Reshape", x, name)

    def heads(x: str, name: str, width: int) -> str:
        rows = op("MatMul", x, weight(name, WIDTH, width))
        return reshaped(op("Transpose", reshaped(rows, TOKENS, 8, width // 8), perm=[1, 0, 2]), 8, -1, 64)

    x = op("Gather", weight("table", WORDS, WIDTH), "tokens")
    query, keys, values = heads(x, "q", WIDTH), heads(x, "k", KEYS), heads(x, "v", KEYS)
    scores = op("Softmax", op("MatMul", query, op("Transpose", keys, perm=[0, 2, 1])))
    mixed = reshaped(op("Transpose", op("MatMul", scores, values), perm=[1, 0, 2]), TOKENS, WIDTH)
    x = op("Add", x, op("MatMul", mixed, weight("o", WIDTH, WIDTH)))
    gate, up = (op("MatMul", x, weight(name, WIDTH, HIDDEN)) for name in ("gate", "up"))
    product = op("Mul", op("Mul", gate, op("Sigmoid", gate)), up)
    x = op("Add", x, op("MatMul", product, weight("down", HIDDEN, WIDTH)))
    logits = op("Gemm", x, "table", transB=1)
    given = helper.make_tensor_value_info("tokens", proto.INT64, [TOKENS])
    made = helper.make_tensor_value_info(logits, proto.FLOAT, [TOKENS, WORDS])
    model = helper.make_model(helper.make_graph(nodes, "llama", [given], [made], weights))
    path.write_bytes(model.SerializeToString())


def test_one_network_has_the_same_bytes_from_torch_onnx_and_the_generator(tmp_path: Path) -> None:
    """Matrices, the products with them, and their gradients; norms, positions, attention differ."""
    llama_in_onnx(tmp_path / "llama.onnx")
    options = f"seq={TOKENS}&layers=1"
    graphs = {
        "onnx": lt.load(tmp_path / "llama.onnx", dtype="bf16", weights=1),
        "torch": lt.load(f"torch:llama_1b?{options}&dtype=bf16&weights=1&train=1"),
        "gen:llm": lt.load(f"gen:llm?model=llama-3.2-1b&{options}&batch=1"),
    }
    large = 2 * KEYS * WIDTH

    def weights(graph: lt.Graph) -> Counter[int]:
        return Counter(x.nbytes for x in graph.tensors if x.kind == "weight" and x.nbytes >= large)

    def products(graph: lt.Graph) -> Counter[tuple[int, int]]:
        """Count (bytes of the matrix, bytes of the result) of the ops that read one in the forward pass."""
        kinds = {"Gather", "MatMul", "Gemm", "Linear", "embedding", "mm"}
        end = next(
            (i for i, op in enumerate(graph.ops) if op.kind in ("CrossEntropy", "nll_loss_forward")), None
        )
        return Counter(
            (graph.tensors[t].nbytes, graph.tensors[op.writes[0]].nbytes)
            for op in graph.ops[:end]
            for t in op.reads
            if op.kind in kinds and graph.tensors[t].kind == "weight" and graph.tensors[t].nbytes >= large
        )

    matrices = {2 * WORDS * WIDTH: 1, 2 * WIDTH * WIDTH: 2, 2 * KEYS * WIDTH: 2, 2 * HIDDEN * WIDTH: 3}
    rows = 2 * TOKENS
    for name, graph in graphs.items():
        assert weights(graph) == matrices, name
        assert products(graph) == {
            (2 * WORDS * WIDTH, rows * WIDTH): 1,
            (2 * WORDS * WIDTH, rows * WORDS): 1,
            (2 * WIDTH * WIDTH, rows * WIDTH): 2,
            (2 * KEYS * WIDTH, rows * KEYS): 2,
            (2 * HIDDEN * WIDTH, rows * HIDDEN): 2,
            (2 * HIDDEN * WIDTH, rows * WIDTH): 1,
        }, name
    for name in ("torch", "gen:llm"):
        ends = Counter(
            x.nbytes for x in graphs[name].tensors if x.name.endswith(".grad") and x.nbytes >= large
        )
        assert ends == matrices, name
