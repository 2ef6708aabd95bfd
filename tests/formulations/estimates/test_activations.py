"""Activations by formula: published numbers, and layers added up tensor by tensor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.formulations.estimates.activations import KINDS, Transformer, of_first_stage, of_layer

GPT3 = {"sequence": 2048, "batch": 1, "hidden": 12288, "heads": 96, "layers": 96, "tensor": 8, "stages": 8}


def test_attention_of_published_models() -> None:
    assert Transformer(**GPT3).attention == 80
    assert Transformer(**{**GPT3, "hidden": 20480, "heads": 128, "layers": 105, "stages": 35}).attention == 64


def test_selective_recomputation_saves_what_the_paper_says() -> None:
    for heads, hidden, saved in ((96, 12288, 0.702), (128, 20480, 0.653)):
        model = Transformer(sequence=2048, batch=1, hidden=hidden, heads=heads, layers=1, tensor=8)
        share = 1 - of_layer(model, "selective") / of_layer(model, "sequence")
        assert share == pytest.approx(saved, abs=5e-4)


def test_first_stage_of_gpt3() -> None:
    model = Transformer(**GPT3, chunks=3)
    assert round(of_first_stage(model, "tensor") / 2**30, 1) == 66.8
    assert round(of_first_stage(model, "selective") / 2**30, 1) == 12.4


@given(st.integers(1, 64), st.integers(1, 4), st.integers(1, 8), st.integers(1, 16), st.integers(1, 8))
def test_layer_is_the_sum_of_its_tensors(s: int, b: int, heads: int, width: int, t: int) -> None:
    h = heads * width
    n, scores = s * b * h, heads * s * s * b
    kept = {
        "attention": 2 * n + 4 * n + 2 * n + 2 * n + n,  # input, Q and K, V, the projection's input, its mask
        "scores": 2 * scores + scores + 2 * scores,  # softmax, mask of dropout, its output
        "perceptron": 2 * n + 8 * n + 8 * n + n,
        "norms": 2 * n + 2 * n,
    }
    model = Transformer(sequence=s, batch=b, hidden=h, heads=heads, layers=1, tensor=t)
    assert sum(kept.values()) == of_layer(model, "none")
    order = [of_layer(model, kind) for kind in KINDS]
    assert order[:4] == sorted(order[:4], reverse=True)
    assert of_layer(model, "tensor") == -(-(10 * n * t + 24 * n + 5 * scores) // t)


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(lt.UsageError, match="heads: found 0, expected at least 1"):
        Transformer(**{**GPT3, "heads": 0})
    with pytest.raises(
        lt.UsageError, match="layers: found 96, expected a multiple of 8 stages times 5 chunks"
    ):
        Transformer(**GPT3, chunks=5)
    with pytest.raises(lt.UsageError, match="kind: found 'some', expected one of none, tensor"):
        of_layer(Transformer(**GPT3), "some")
