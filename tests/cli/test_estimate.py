"""``lowtide estimate`` as a user types it."""

import json
from pathlib import Path

import pytest

from tests.commands import answer, refused, within


def test_states_of_a_model_and_what_deepspeed_says(tmp_path: Path) -> None:
    words = (
        "estimate",
        "--parameters",
        "2851e6",
        "--devices",
        "16",
        "--nodes",
        "2",
        "--largest-layer",
        "32e6",
    )
    found = answer(*words, cwd=tmp_path)
    assert [row["total"] for row in found["states"][:2]] == [16 * 2851 * 10**6, 19 * 2851 * 10**6 // 4]
    assert found["states"][3]["gathered"] == 64 * 10**6
    assert found["deepspeed"][0]["host"] == 2851 * 10**6 * 64 * 3 // 2
    assert "activations" not in found


def test_activations_of_a_transformer(tmp_path: Path) -> None:
    words = ("--hidden", "12288", "--heads", "96", "--layers", "96", "--sequence", "2048", "--tensor", "8")
    found = answer("estimate", *words, "--stages", "8", "--chunks", "3", cwd=tmp_path)
    rows = {row["kind"]: row for row in found["activations"]}
    assert round(rows["tensor"]["first_stage"] / 2**30, 1) == 66.8
    assert rows["selective"]["layer"] == 34 * 2048 * 12288 // 8
    text = within("estimate", *words, cwd=tmp_path).stdout
    assert "selective          102 MiB" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "found neither, expected --parameters, or --sequence, --hidden, --heads and --layers"),
        (("--heads", "3"), "found --heads without --sequence, expected --sequence, --hidden"),
        (("--sequence", "3"), "found --sequence without --hidden, expected --sequence, --hidden"),
        (("--largest-layer", "3"), "found --largest-layer without --parameters, expected both"),
        (("--parameters", "1e99"), "found '1e99', expected a whole number such as 7.5e9"),
        (("--parameters", "1.5"), "found '1.5', expected a whole number such as 7.5e9"),
        (
            ("--parameters", "9", "--devices", "3", "--nodes", "2"),
            "found 3 devices in 2 nodes, expected equal",
        ),
    ],
)
def test_what_it_cannot_estimate(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert message in refused("estimate", *words, cwd=tmp_path)


def test_where_flexgen_lets_weights_caches_and_states_rest(tmp_path: Path) -> None:
    words = ("estimate", "flexgen", "--model", "opt-66b", "--gpu", "15GiB", "--host", "204GiB")
    asked = (*words, "--batch", "16", "--batches", "4")
    found = answer(*asked, cwd=tmp_path)["flexgen"]
    assert round(found["tokens_per_second"], 6) == 0.875425
    assert round(found["cache"]["disk"], 4) == 0.3814
    assert json.loads(within("estimate", "--json", *asked[1:], cwd=tmp_path).stdout)["flexgen"] == found
    text = within(*asked, cwd=tmp_path).stdout
    assert "   16        4           0.875425" in text
    assert "cache    0.00%   61.86%  38.14%" in text
    none = within(*words, "--batch", "320", "--batches", "80", cwd=tmp_path)
    assert (none.returncode, "none fits" in none.stdout) == (1, True)


def test_flexgens_searches_end_in_time_and_tiers_may_be_missing(tmp_path: Path) -> None:
    words = ("estimate", "flexgen", "--model", "opt-1.3b")
    stopped = within(*words, "--published-search", "--time-limit", "1e-9", cwd=tmp_path)
    assert "stopped by the time limit" in stopped.stderr
    found = answer(*words, "--published-search", "--time-limit", "1e-9", cwd=tmp_path)["flexgen"]
    assert (found["batch"], found["batches"], found["at_most"], found["reason"]) == (1, 1, None, "time")
    found = answer(*words, "--disk", "0", cwd=tmp_path)["flexgen"]
    assert found["at_most"] == found["tokens_per_second"]
    assert (found["memory"]["decode"]["disk"], found["reason"]) == (0, None)
    assert within(*words, "--host", "0", cwd=tmp_path).returncode == 1  # FlexGen works in it


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "opt-30c"), "--model: found 'opt-30c', did you mean opt-30b"),
        (
            ("--model", "opt-30b", "--batch", "3"),
            "expected --batch and --batches, --published-search, or none",
        ),
        (("--model", "opt-30b", "--share", "1.5"), "found '1.5', expected more than 0, at most 1"),
    ],
)
def test_what_flexgen_cannot_be_asked(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert message in refused("estimate", "flexgen", *words, cwd=tmp_path)


def test_flags_of_training_are_refused_for_inference(tmp_path: Path) -> None:
    found = refused("estimate", "--hidden", "7", "flexgen", "--model", "opt-30b", cwd=tmp_path)
    assert "estimate flexgen: found --hidden, expected the sizes of the model by its name" in found
