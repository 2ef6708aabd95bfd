"""The table of several GPUs: every plan above its bound, and what sharing a link in turn is worth."""

from itertools import pairwise

from lowtide.formulations.placement.lanes import PIECES
from lowtide.results.experiments.placement_gpus.table import GPUS, GRADIENTS, GRAPHS
from lowtide.results.experiments.running import read_rows
from lowtide.solvers.placement.policies.tmof_online import SHARES

LINK = 12 * 10**9
"""Bytes/s of the link that all GPUs share."""


def test_all_times_stay_above_their_bounds_and_the_program_in_step_is_met() -> None:
    table = read_rows("placement_gpus")
    assert len(table) == len(GPUS) * sum(len(sizes) * (1 + (name in GRADIENTS)) for name, _, sizes in GRAPHS)
    for row in table:
        times = [row[key] for key in ("in turn", "in step", "unaware", *SHARES)]
        assert row["ideal"] <= row["bound"] <= min(times)
        assert row["bound"] <= row["bound in step"] <= row["in step"]
        assert row["in turn"] < 1.05 * row["bound"]
        assert row["emergencies"] == 0
        if row["network"] == "SqueezeNet, 14 blocks" and not row["gradients"]:
            assert row["in step"] - row["bound in step"] <= 35
    for two, four in pairwise(table):
        if two["gpus"] < four["gpus"]:
            assert two["bound"] < four["bound"]


def test_what_is_exchanged_adds_in_step_what_it_takes_on_the_share_of_a_gpu() -> None:
    rows = read_rows("placement_gpus")
    with_gradients = [(before, row) for before, row in pairwise(rows) if row["gradients"]]
    assert len(with_gradients) == 4
    for before, row in with_gradients:
        many, sent = row["gpus"], -(-2 * (row["gpus"] - 1) * row["gradients"] // row["gpus"])
        assert (before["network"], before["device"], before["gpus"]) == (row["network"], row["device"], many)
        added = sent * many * 10**9 // LINK + row["ideal"] - before["ideal"]
        assert abs(row["bound in step"] - before["bound in step"] - added) <= 1
        assert row["in step"] - row["bound in step"] <= sent * many * 10**9 // LINK // PIECES + 1000
        assert row["bound"] > before["bound"]


def test_a_token_is_worth_most_of_what_in_turn_is_where_half_of_the_peak_is_away() -> None:
    rows = [row for row in read_rows("placement_gpus") if row["gpus"] == 4 and row["footprint"] >= 1.33]
    assert sum(row["bidirectional"] < 0.75 * row["oblivious"] for row in rows) >= len(rows) - 1
