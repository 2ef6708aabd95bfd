"""The tables of policies, latency and noise: cells by hand; what their rows must say of each other."""

import pytest

from lowtide.models.errors import UsageError
from lowtide.results.experiments.placement_g10.table import PUBLISHED
from lowtide.results.experiments.placement_policies.table import PAIRS, cell, rows, short
from lowtide.results.experiments.running import read_rows as read_table
from lowtide.results.tables.spec import Row


def best() -> dict[str, Row]:
    return {row["workload"]: row for row in read_table("placement_g10")}


def test_records_become_cells() -> None:
    ideal = 3715951289
    base: Row = {"spec": "catalogue:g10/vit-1280?periodic=1", "verified": True, "detail": ""}
    base["seconds"] = {"solve": 1.23}
    records = [
        {**base, "method": "vdnn", "objective": 2 * ideal, "facts": {"emergencies": 7}},
        {**base, "method": "g10", "objective": ideal, "facts": {"evictions": 12}},
        {**base, "method": "belady", "objective": None, "facts": {}, "verified": False},
    ]
    table = rows(records)
    assert [row["ideal"] for row in table] == [ideal] * 3
    assert cell("vdnn", table) == ".500 (7)"
    assert cell("vdnn", [{**row, "gives_up": 1} for row in table]) == ".500 (fails)"
    assert cell("g10", table) == "1.000"
    assert next(row["evictions"] for row in table if row["method"] == "g10") == 12
    assert cell("belady", table) == "does not fit"
    with pytest.raises(UsageError):
        rows([{**records[0], "verified": False}])


def test_ratios_are_rounded_down() -> None:
    assert (short(0.99999), short(1.0), short(0.0501)) == (".999", "1.000", ".050")


@pytest.mark.parametrize("name", ["placement_policies", "placement_latency"])
def test_policies_stay_below_the_bound_and_the_planner(name: str) -> None:
    table = read_table(name)
    assert len(table) == len(PUBLISHED) * (7 if name == "placement_policies" else 8)
    for workload, known in best().items():
        mine = {row["method"]: row for row in table if row["workload"] == workload}
        assert max(row["ratio"] for row in mine.values()) <= known["bound_ratio"]
        planner = mine.get("planner", known)
        assert all(row["ratio"] <= planner["ratio"] for row in mine.values())
        assert mine["g10"]["emergencies"] == mine["flashneuron"]["emergencies"] == 0


def test_flashneuron_fails_where_the_published_one_fails() -> None:
    system = next(i for i, (name, _) in enumerate(PAIRS) if name == "FlashNeuron")
    for row in read_table("placement_policies"):
        if row["method"] == "flashneuron":
            assert bool(row["gives_up"]) == (PUBLISHED[row["workload"]][system] == "fails")
        else:
            assert not row["gives_up"]


def test_latency_costs_time() -> None:
    free = {(row["workload"], row["method"]): row["ratio"] for row in read_table("placement_policies")}
    for row in read_table("placement_latency"):
        if row["method"] in ("demand-lru", "deepum"):
            assert row["ratio"] <= free[row["workload"], row["method"]]


def test_noise_is_never_faster_than_its_own_ideal() -> None:
    table = read_table("placement_noise")
    drawn = [row for row in table if row["noise"] is not None]
    assert {(row["workload"], row["noise"]) for row in drawn} == {(w, a) for w in PUBLISHED for a in (10, 25)}
    assert all(row["online"] >= row["ideal"] for row in drawn)
    for row in drawn:
        still = next(r for r in table if r["workload"] == row["workload"] and r["noise"] is None)
        assert row["ideal"] != still["ideal"]
        assert abs(row["ideal"] / still["ideal"] - 1) < row["noise"] / 100
