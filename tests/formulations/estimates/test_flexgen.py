"""FlexGen's program: its public values, and the best of all batches against all of them tried."""

from fractions import Fraction
from math import ceil

import pytest

import lowtide as lt
from lowtide.formulations.estimates.flexgen import (
    FLOWS,
    Inference,
    Policy,
    best_policy,
    policy,
    published_search,
)
from lowtide.models.opt import OPT, Decoder

GIB = 2**30


def _asked(model: str, gpu: int = 16, host: int = 200) -> Inference:
    return Inference(model=OPT[model], capacity=(gpu * GIB, host * GIB, 1500 * GIB))


@pytest.mark.parametrize(
    ("question", "batch", "batches", "tokens_per_second"),
    [
        (_asked("opt-30b"), 48, 3, 6.973969),
        (_asked("opt-30b"), 8, 4, 4.372183),
        (_asked("opt-6.7b"), 4, 8, 27.437003),
        (_asked("opt-66b", 15, 204), 16, 4, 0.875425),
        (_asked("opt-175b", 15, 204), 4, 1, 0.010038),
    ],
)
def test_its_public_code_says_the_same(
    question: Inference, batch: int, batches: int, tokens_per_second: float
) -> None:
    found = policy(question, batch, batches)
    assert found is not None
    assert round(float(found.tokens_per_second), 6) == tokens_per_second
    _is_consistent(question, found)


def _is_consistent(question: Inference, found: Policy) -> None:
    for fractions in (found.weights, found.cache, found.states):
        assert min(fractions) >= 0
        assert sum(fractions) == 1
    used = [ceil(question.share * size) for size in question.capacity]
    for phase, tiers in found.memory.items():
        assert all(nbytes <= limit for nbytes, limit in zip(tiers.values(), used, strict=True))
        assert max(found.seconds[phase][name] for name in FLOWS) <= found.seconds[phase]["layer"]
    layer = {phase: found.seconds[phase]["layer"] for phase in found.seconds}
    seconds = question.model.layers * (layer["prefill"] + (question.new - 1) * layer["decode"])
    assert found.tokens_per_second == found.batch * found.batches * question.new / seconds


def test_where_opt_30b_and_66b_rest() -> None:
    found = policy(_asked("opt-30b"), 48, 3)
    assert found is not None
    assert [round(float(part), 4) for part in found.weights] == [0.087, 0.913, 0]
    assert [*found.cache, *found.states] == [0, 1, 0, 0, 1, 0]
    found = policy(_asked("opt-66b", 15, 204), 16, 4)
    assert found is not None
    assert round(float(found.cache[2]), 4) == 0.3814


def test_what_does_not_fit() -> None:
    assert policy(_asked("opt-175b"), 32, 8) is None
    nothing = Inference(model=OPT["opt-175b"], capacity=(GIB, GIB, GIB))
    assert best_policy(nothing) is None
    assert published_search(nothing) is None


def _small(layers: int, hidden: int, prompt: int, *homes: tuple[int, int]) -> Inference:
    """Each tier has room for the weights of so many layers and the caches of so many sequences."""
    model = Decoder(layers=layers, hidden=hidden, heads=4)
    cache = layers * (prompt + 4) * model.cache
    gpu, host, disk = (weights * model.weights + sequences * cache for weights, sequences in homes)
    return Inference(model=model, capacity=(gpu, host, disk), prompt=prompt, new=4)


@pytest.mark.parametrize(
    ("question", "best"),
    [
        (_small(4, 64, 256, (2, 5), (5, 12), (6, 5)), (1, 8)),
        (_small(4, 4096, 2048, (3, 5), (4, 2), (0, 2)), (1, 3)),
        (_small(4, 1024, 2048, (5, 2), (2, 12), (4, 2)), (1, 6)),
        pytest.param(
            Inference(model=OPT["opt-66b"], capacity=(16 * GIB, 200 * GIB, 0)),
            (3, 13),
            marks=pytest.mark.slow(reason="700 linear programs, one second"),
        ),
        (_small(2, 64, 16, (1, 1), (2, 2), (2, 2)), None),
    ],
)
def test_no_numbers_of_batches_are_better(question: Inference, best: tuple[int, int] | None) -> None:
    model, found = question.model, best_policy(question)
    most = int(question.share * sum(question.capacity)) // (
        model.layers * (question.prompt + question.new) * model.cache
    )
    tried = [policy(question, b, k) for b in range(1, most + 2) for k in range(1, most // b + 2)]
    fitting = [p.tokens_per_second for p in tried if p is not None]
    if found is None:
        assert best is None
        assert not fitting
    else:
        assert best == (found.batch, found.batches)
        assert found.tokens_per_second == max(fitting)
        _is_consistent(question, found)


@pytest.mark.slow
def test_the_published_search_misses_the_best_of_opt_30b() -> None:
    best, tried = best_policy(_asked("opt-30b")), published_search(_asked("opt-30b"))
    assert best is not None
    assert tried is not None
    assert (tried.batch, tried.batches) == (32, 5)
    assert (best.batch, best.batches) == (28, 6)
    assert best.tokens_per_second > tried.tokens_per_second


@pytest.mark.slow
def test_a_stopped_search_says_what_is_proved() -> None:
    question = _small(4, 64, 256, (2, 5), (5, 12), (6, 5))
    best = best_policy(question)
    assert best is not None
    assert best.at_most == best.tokens_per_second
    gaps = []
    for calls in (0, 3, 10, 30, 90):
        left = iter(range(calls))
        stopped = best_policy(question, lambda: next(left, None) is None)  # noqa: B023
        assert stopped is not None
        assert stopped.at_most is not None
        _is_consistent(question, stopped)
        assert stopped.tokens_per_second <= best.tokens_per_second <= stopped.at_most
        gaps.append(stopped.at_most - stopped.tokens_per_second)
    assert gaps[0] > gaps[-1]
    first, tried = published_search(_asked("opt-30b"), lambda: True), published_search(_asked("opt-30b"))
    assert first is not None
    assert tried is not None
    assert (first.batch, first.batches, first.at_most) == (1, 1, None)
    assert tried.tokens_per_second > first.tokens_per_second


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(lt.UsageError, match="batches: found 0, expected at least 1"):
        policy(_asked("opt-30b"), 1, 0)
    with pytest.raises(lt.UsageError, match="prompt: found 0, expected at least 1"):
        Inference(model=OPT["opt-30b"], capacity=(1, 1, 1), prompt=0)
    with pytest.raises(lt.UsageError, match="share: found 2, expected more than 0, at most 1"):
        Inference(model=OPT["opt-30b"], capacity=(1, 1, 1), share=Fraction(2))
