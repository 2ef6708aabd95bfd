"""The program over layers with options, against exhaustive search."""

from __future__ import annotations

from random import Random

from lowtide.formulations.recompute import layers_milp
from lowtide.formulations.recompute.layers_milp import LayerOption, LayerPair, Layers
from tests.effort import seeds
from tests.formulations.cases.recompute import layers
from tests.oracles.brute_layers import fastest, random_layers


def test_it_finds_what_exhaustive_search_finds() -> None:
    found = []
    for seed in {5, 71, 76, *seeds(40)}:
        data = random_layers(Random(seed))
        best = fastest(data)
        assert layers(layers_milp, data) == (best, best), seed
        found.append((best, sum(layer.first for layer in data.layers)))
    assert any(best is None for best, _ in found)
    assert len({best for best, _ in found}) >= 4


def test_forwards_run_again_for_what_later_ones_leave_for_an_earlier_backward() -> None:
    """Backward 0 needs what forward 2 leaves, and that reads what forward 1 leaves."""
    none = frozenset[int]()
    option = LayerOption(forward=1, backward=1, saved=0, before=1, after=1, needs=none)
    needy = LayerOption(forward=1, backward=1, saved=0, before=1, after=1, needs=frozenset({2}))
    reads = (none, none, frozenset({1}), frozenset({2}))
    leaves = (none, frozenset({1}), frozenset({2}), none)
    some = [
        LayerPair(
            options=(needy if j == 0 else option,),
            first=1,
            again=1,
            until=0,
            sweep=1,
            reads=reads[j],
            leaves=leaves[j],
            beside=0,
            through=0,
        )
        for j in range(4)
    ]
    data = Layers(layers=tuple(some), sizes={1: 1, 2: 1}, final=none, memory=9)
    last = [p.layer for p in layers_milp.places_of(data) if p.turn == 0 and not p.is_back]
    assert last == [0, 1, 2]


def test_sizes_are_no_smaller_than_models() -> None:
    for seed in range(8):
        data = random_layers(Random(seed))
        built, size = layers_milp.build(data), layers_milp.size(data)
        assert built.model.nvariables() <= size.variables
        assert built.model.nconstraints() <= size.constraints
