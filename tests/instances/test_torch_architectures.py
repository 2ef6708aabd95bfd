"""The networks compute what their papers say: causality, windows, rotations, experts; small real tensors."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the package torch is not installed")


def family(name: str) -> Any:
    return import_module(f"lowtide.instances.torch_import.architectures.{name}")


DECODERS = {
    "gpt2": {"flash": False, "width": 16, "heads": 2},
    "llama": {"flash": False, "width": 16, "heads": 4, "groups": 2, "hidden": 24},
    "moe": {"experts": 2, "width": 16, "heads": 2},
}


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_does_not_look_ahead(name: str) -> None:
    torch.manual_seed(0)
    network = family(name).build(batch=1, seq=8, layers=2, **DECODERS[name]).module.eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    before = torch.arange(8)[None]
    after = before.clone()
    after[0, 5] = 99
    with torch.no_grad():
        one, other = network(before), network(after)
    same = torch.isclose(one, other, atol=1e-6).all(-1)[0]
    assert same[:5].all()
    assert not same[5:].any()


def test_an_encoder_looks_both_ways() -> None:
    torch.manual_seed(0)
    network = family("bert").build(batch=1, seq=8, layers=1, width=16, heads=2).module.eval()
    before = torch.arange(8)[None]
    after = before.clone()
    after[0, 5] = 99
    with torch.no_grad():
        one, other = (network(x, torch.zeros_like(x)) for x in (before, after))
    assert not torch.isclose(one, other).all(-1).any()


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_is_the_same_function(causal: bool) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 9, 5)
    attend = family("attention").attend
    assert torch.allclose(attend(q, k, v, causal, False), attend(q, k, v, causal, True), atol=1e-6)


def test_windows_hold_neighbours_and_go_back_to_their_place() -> None:
    swin = family("swin")
    x = torch.arange(2 * 14 * 21.0).reshape(2, 14, 21, 1)
    windows = swin._partition(x)
    assert windows.shape == (2 * 2 * 3, 49, 1)
    assert torch.equal(windows[1].reshape(7, 7), x[0, :7, 7:14, 0])
    square = torch.randn(2, 14, 14, 3)
    assert torch.equal(swin._unpartition(swin._partition(square), 14), square)


def test_biases_are_shared_by_pairs_of_the_same_offset() -> None:
    swin = family("swin")
    offsets = swin._offsets()
    assert offsets.shape == (49, 49)
    assert sorted(offsets.unique().tolist()) == list(range(13**2))
    assert (offsets.diagonal() == offsets[0, 0]).all()
    assert offsets[0, 8] == offsets[9, 17] != offsets[8, 0]


def test_a_shifted_window_keeps_apart_what_the_roll_made_neighbours() -> None:
    swin = family("swin")
    side, shift = 14, 3
    mask = swin._mask(side, shift)
    place = torch.arange(side**2).reshape(1, side, side, 1)
    rolled = swin._partition(torch.roll(place, (-shift, -shift), (1, 2)))[:, :, 0]
    rows, columns = rolled // side, rolled % side
    for window in range(4):
        for a in range(49):
            for b in range(49):
                near = max(
                    abs(int(rows[window, a] - rows[window, b])),
                    abs(int(columns[window, a] - columns[window, b])),
                )
                assert (mask[window, a, b] == 0) == (near < swin.WINDOW)


def test_rotated_products_depend_on_the_distance_only() -> None:
    torch.manual_seed(0)
    llama = family("llama")
    cosine, sine = llama._rotations(12, 8)
    q, k = (torch.randn(8).expand(12, 8) for _ in range(2))
    products = llama.rotate(q, cosine, sine) @ llama.rotate(k, cosine, sine).T
    for distance in range(-11, 12):
        line = products.diagonal(distance)
        assert torch.allclose(line, line[:1].expand_as(line), atol=1e-5)
    assert torch.allclose(llama.rotate(q, cosine, sine).norm(dim=1), q.norm(dim=1))


def test_rms_norm_is_that_of_torch() -> None:
    norm = family("llama").RMSNorm(6)
    x = torch.randn(3, 6)
    assert torch.allclose(norm(x), torch.nn.functional.rms_norm(x, (6,), eps=1e-5))


def test_experts_get_their_two_best_gates_until_they_are_full() -> None:
    torch.manual_seed(0)
    moe = family("moe")
    block = moe.ExpertBlock(8, 2, experts=4, capacity=3)
    gates = torch.softmax(torch.randn(10, 4), dim=-1)
    combine, balance = block._route(gates)
    assert combine.shape == (10, 4, 3)
    room = dict.fromkeys(range(4), 3)
    wanted = torch.zeros_like(combine)
    best = gates.topk(2, dim=-1).indices
    for k in (0, 1):  # all first choices before any second one
        for token in range(10):
            expert = int(best[token, k])
            if room[expert]:
                weight = gates[token, expert] / gates[token, best[token]].sum()
                wanted[token, expert, 3 - room[expert]] = weight
                room[expert] -= 1
    assert torch.allclose(combine, wanted)
    first = torch.nn.functional.one_hot(best[:, 0], 4).float().mean(0)
    assert torch.allclose(balance, 4 * (first * gates.mean(0)).sum())


def test_with_room_for_all_the_experts_are_a_weighted_sum() -> None:
    torch.manual_seed(0)
    block = family("moe").ExpertBlock(8, 2, experts=3, capacity=5)
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(1, 5, 8)
    y = x + block.attention(block.norm1(x))
    flat = block.norm2(y)[0]
    gates = torch.softmax(block.gate(flat), dim=-1)
    wanted = y.clone()
    for token in range(5):
        chosen = gates[token].topk(2).indices
        for expert in chosen:
            hidden = torch.nn.functional.gelu(flat[token] @ block.up[expert])
            share = gates[token, expert] / gates[token, chosen].sum()
            wanted[0, token] += share * (hidden @ block.down[expert])
    assert torch.allclose(block(x)[0], wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "options", "shape"),
    [
        ("resnet", {"image": 64, "blocks": (1, 1, 1, 1), "bottleneck": True}, (2, 1000)),
        ("densenet", {"image": 64, "blocks": (2, 2), "growth": 8}, (2, 1000)),
        ("efficientnet", {"image": 64}, (2, 1000)),
        ("unet", {"image": 204}, (2, 2, 20, 20)),
        ("diffusion_unet", {"image": 16}, (2, 3, 16, 16)),
        ("swin", {"image": 56, "blocks": (2, 2), "width": 8, "heads": (2, 4)}, (2, 1000)),
    ],
)
def test_networks_of_images_run(name: str, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    example = family(name).build(batch=2, **options)
    with torch.no_grad():
        output = example.module.eval()(*example.inputs.values())
    assert output.shape == shape
    assert example.loss(output, *example.targets.values()).shape == ()


def test_the_middle_of_a_residual_network_halves_its_side_at_each_stage() -> None:
    network = family("resnet").ResNet((3, 4, 6, 3), True)
    sides = []
    for block in network.blocks:
        block.register_forward_hook(lambda _m, _x, y: sides.append(tuple(y.shape[1:3])))
    with torch.no_grad():
        network.eval()(torch.zeros(1, 3, 224, 224))
    assert sides == [(256, 56)] * 3 + [(512, 28)] * 4 + [(1024, 14)] * 6 + [(2048, 7)] * 3
