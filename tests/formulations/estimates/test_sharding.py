"""Model states by formula: published numbers, and devices added up one by one."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.formulations.estimates.activations import Transformer, of_layer
from lowtide.formulations.estimates.sharding import deepspeed, zero
from lowtide.instances.generators import generate

GB = 10**9


@pytest.mark.parametrize(
    ("parameters", "devices", "published"),
    [
        (75 * 10**8, 64, ("120", "31.40625", "16.640625", "1.875")),
        (128 * GB, 1024, ("2048", "513.5", "257.75", "2.0")),
        (1000 * GB, 1024, ("16000", "4011.71875", "2013.671875", "15.625")),
    ],
)
def test_zero_takes_what_its_paper_says(parameters: int, devices: int, published: tuple[str, ...]) -> None:
    found = [Fraction(zero(parameters, devices, stage).total, GB) for stage in range(4)]
    assert found == [Fraction(text) for text in published]
    assert [zero(parameters, devices, stage).sent // parameters for stage in range(4)] == [2, 2, 2, 3]


@given(st.integers(1, 10**6), st.integers(1, 64), st.integers(0, 3), st.integers(0, 20))
def test_parts_of_all_devices_cover_each_state_once(p: int, devices: int, stage: int, optimizer: int) -> None:
    found = zero(p, devices, stage, optimizer=optimizer)
    for held, whole, sharded in (
        (found.parameters, 2 * p, 3),
        (found.gradients, 2 * p, 2),
        (found.optimizer, optimizer * p, 1),
    ):
        copies = 1 if stage >= sharded else devices
        padding = held * devices - copies * whole
        assert 0 <= padding <= (devices - 1) * (whole // p)
        assert stage < sharded or held == max(
            (whole // p) * len(range(i, p, devices)) for i in range(devices)
        )
    assert stage == 0 or found.total <= zero(p, devices, stage - 1, optimizer=optimizer).total


def test_stage_three_gathers_units() -> None:
    assert zero(100, 4, 3, largest_unit=30).gathered == 60
    assert zero(100, 4, 3, largest_unit=30, prefetch=True).gathered == 120
    assert zero(100, 4, 2, largest_unit=30).gathered == 0


def test_deepspeed_prints_these_rows() -> None:
    found = [
        (
            need.stage,
            need.offload,
            need.zero_init,
            round(need.host / 2**30, 2),
            round(need.device / 2**30, 2),
        )
        for need in deepspeed(2851 * 10**6, 32 * 10**6, 8)
    ]
    assert found == [
        (2, "optimizer", False, 127.45, 5.31),
        (2, "none", False, 127.45, 11.28),
        (3, "all", True, 71.69, 0.12),
        (3, "all", False, 127.45, 0.12),
        (3, "optimizer", True, 63.72, 0.78),
        (3, "optimizer", False, 127.45, 0.78),
        (3, "none", True, 1.43, 6.09),
        (3, "none", False, 127.45, 6.09),
    ]
    # What its documentation prints for stage 2 without offload.
    assert round((4 + 16 / 8) * 2851e6 / 2**30, 2) == 15.93


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(lt.UsageError, match="stage: found 4, expected 0, 1, 2 or 3"):
        zero(1, 1, 4)
    with pytest.raises(lt.UsageError, match="devices: found 0, expected at least 1"):
        zero(1, 0, 1)
    with pytest.raises(lt.UsageError, match="nodes: found 0, expected at least 1"):
        list(deepspeed(1, 1, 1, 0))


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize(
    ("layers", "hidden", "devices", "stash"), [(3, 8, 4, 0), (4, 16, 6, 32), (2, 4, 1, 32)]
)
def test_plans_hold_what_the_formula_says(
    stage: int, prefetch: bool, layers: int, hidden: int, devices: int, stash: int
) -> None:
    tokens, unit = 5, 12 * hidden**2
    graph = generate(
        "sharded",
        layers=layers,
        hidden=hidden,
        tokens=tokens,
        devices=devices,
        stage=stage,
        prefetch=prefetch,
        stash=stash,
    )
    states = zero(layers * unit, devices, stage, largest_unit=unit, prefetch=prefetch)
    layer = of_layer(
        Transformer(sequence=tokens, batch=1, hidden=hidden, heads=1, layers=layers), "selective"
    )
    passed = 2 * 2 * tokens * hidden  # the last layer's output, and the gradient of its input
    activations = layers * layer + passed if stash else 0
    found = lt.solve(lt.Peak(graph), "reference")
    assert found.plan is not None
    lt.verify(graph, found.plan).raise_if_invalid()
    assert found.objective == states.total + activations  # the verifier's peak
