"""Statistics of the artifact of G10: read as it writes them, and the catalogue's five graphs come back."""

from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances.formats.g10_statistics import read_g10
from tests.commands import answer
from tests.small_files import KERNELS, TENSORS


def write(folder: Path, tensors: str = TENSORS, kernels: str = KERNELS) -> Path:
    inner = folder / "8-prefetch_lru" / "statistics"
    inner.mkdir(parents=True)
    (inner / "tensors.config").write_text(tensors)
    (inner / "kernels.config").write_text(kernels)
    return inner.parent


def test_two_kernels_by_hand(tmp_path: Path) -> None:
    graph = lt.load(f"g10:{write(tmp_path)}")
    assert graph.name == "8-prefetch_lru"
    assert [(t.name, str(t.kind), t.initial, t.final) for t in graph.tensors] == [
        ("t0", "input", True, False),
        ("t1", "weight", True, True),
        ("t2", "activation", False, False),
        ("t3", "workspace", False, False),
        ("t4", "workspace", False, False),
    ]
    first, second = graph.ops
    assert (first.name, first.kind, first.reads, first.writes) == (
        "0:Conv2d_Forward",
        "Conv2d_Forward",
        (1, 0),
        (4, 2),
    )
    assert first.duration_ns == 13_803_520  # cycles / 1.2
    assert (second.reads, second.writes, second.duration_ns) == ((2, 1), (1,), 5)
    assert lt.load(f"g10:{tmp_path}/8-prefetch_lru/statistics?clock_mhz=600").ops[1].duration_ns == 10
    assert read_g10(tmp_path / "8-prefetch_lru").sha256 == graph.sha256


def as_statistics(graph: lt.Graph) -> tuple[str, str]:
    """Write a graph as the artifact would."""
    lines = [
        f"tensor{i} Is weight (global)?: {int(t.kind == 'weight')}, Size in byte: {t.nbytes}, Range:0--4096\n"
        for i, t in enumerate(graph.tensors)
    ]
    kernels = []
    for k, op in enumerate(graph.ops):
        cycles = -(-(op.duration_ns * 12 - 6) // 10)  # the least that rounds to the duration
        kernels.append(
            f"{'_' * 68}\nKernel ID: {k}, Name: {op.kind}\nParent OP ID:0; Name: any\n"
            f"Execution Time: {cycles}\n"
            f"Input Tensors:\n{''.join(lines[t] for t in op.reads)}"
            f"Output Tensors:\n{''.join(lines[t] for t in op.writes)}{'_' * 68}\n"
        )
    return "".join(lines), "".join(kernels)


@pytest.mark.parametrize(
    "name", ["bert_base-256", "vit-1280", "inceptionv3-1536", "resnet152-1280", "senet154-1024"]
)
def test_the_five_graphs_come_back(name: str, tmp_path: Path) -> None:
    graph = lt.load(f"catalogue:g10/{name}")
    again = read_g10(write(tmp_path, *as_statistics(graph)))
    assert [str(t.kind) for t in again.tensors] == [str(t.kind) for t in graph.tensors]
    assert again.sha256 == graph.sha256


def test_convert_writes_the_native_format(tmp_path: Path) -> None:
    source = write(tmp_path)
    answer("convert", f"g10:{source}", "out.json", cwd=tmp_path)
    assert lt.load(tmp_path / "out.json").sha256 == read_g10(source).sha256


@pytest.mark.parametrize(
    ("tensors", "kernels", "message"),
    [
        (TENSORS.replace("36864", "x"), KERNELS, 'tensors.config:2: found "tensor1'),
        (TENSORS + TENSORS, KERNELS, "tensors.config:6: found tensor 0 twice"),
        ("", KERNELS, "tensors.config: found no tensor"),
        (
            TENSORS,
            KERNELS.replace("byte: 8192", "byte: 8193"),
            "found tensor 2 with 8193 bytes, expected 8192",
        ),
        (TENSORS, KERNELS.replace("Kernel ID: 1", "Kernel ID: 3"), "found kernel 3, expected kernel 1"),
        (TENSORS, KERNELS.replace("Execution Time: 6\n", ""), "found kernel 1 without Execution Time"),
        (TENSORS, KERNELS.replace("tensor4 Is", "tensor9 Is"), "expected no such tensor as in"),
        (TENSORS, "Execution Time: 6\n", "kernels.config:1: found a part of a kernel"),
        (TENSORS, "", "kernels.config: found no kernel"),
    ],
)
def test_faults_have_their_place(tensors: str, kernels: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(lt.InstanceError) as caught:
        read_g10(write(tmp_path, tensors, kernels))
    assert message in str(caught.value)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(lt.InstanceError, match=r"tensors\.config: found no such file"):
        lt.load(f"g10:{tmp_path}")
    with pytest.raises(lt.InstanceError, match="clock"):
        lt.load(f"g10:{tmp_path}?clok_mhz=3")
