"""The table of several GPUs: every plan above its bound, and what sharing a link in turn is worth."""

from itertools import pairwise

from lowtide.results.experiments.placement_gpus.table import GPUS, GRAPHS
from lowtide.results.experiments.running import read_rows
from lowtide.solvers.placement.policies.tmof_online import SHARES


def test_all_times_stay_above_their_bounds_and_the_program_in_step_is_met() -> None:
    table = read_rows("placement_gpus")
    assert len(table) == len(GPUS) * sum(len(sizes) for _, _, sizes in GRAPHS)
    for row in table:
        times = [row[key] for key in ("in turn", "in step", "unaware", *SHARES)]
        assert row["ideal"] <= row["bound"] <= min(times)
        assert row["bound"] <= row["bound in step"] <= row["in step"]
        assert row["in turn"] < 1.04 * row["bound"]
        assert row["emergencies"] == 0
        if row["network"] == "SqueezeNet, 14 blocks":
            assert row["in step"] - row["bound in step"] <= 35
    for two, four in pairwise(table):
        if two["gpus"] < four["gpus"]:
            assert two["bound"] < four["bound"]


def test_a_token_is_worth_most_of_what_in_turn_is_where_half_of_the_peak_is_away() -> None:
    rows = [row for row in read_rows("placement_gpus") if row["gpus"] == 4 and row["footprint"] >= 1.33]
    assert sum(row["bidirectional"] < 0.75 * row["oblivious"] for row in rows) >= len(rows) - 1
