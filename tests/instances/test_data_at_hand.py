"""The real graphs of the catalogue: they load with known counts, and survive rewriting."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.instances import load, write_graph

COUNTS = {
    "aten/densenet121_in": (431, 674),
    "aten/efficientnet_b0_in": (239, 337),
    "aten/googlenet_tr": (596, 893),
    "aten/gpt2s_tr": (802, 902),
    "aten/mobilenet_v2_tr": (510, 769),
    "aten/resnet18_tr": (208, 308),
    "aten/resnet50_tr": (519, 784),
    "aten/swin_t_in": (356, 414),
    "aten/unet_tr": (224, 345),
    "aten/vit_b_16_tr": (591, 728),
    "g10/bert_base-256": (1369, 1463),
    "g10/inceptionv3-1536": (929, 2171),
    "g10/resnet152-1280": (1299, 3330),
    "g10/senet154-1024": (2319, 4341),
    "g10/vit-1280": (1489, 1563),
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_graph_loads_and_survives_rewriting(name: str, tmp_path: Path) -> None:
    graph = load(f"catalogue:{name}")
    assert (len(graph.ops), len(graph.tensors)) == COUNTS[name]
    write_graph(graph, tmp_path / "a.json.gz")
    again = load(tmp_path / "a.json.gz")
    assert again == graph
    assert again.provenance == graph.provenance
    write_graph(again, tmp_path / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
