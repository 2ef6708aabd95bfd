"""Tables of joint problems: deciding together is never behind the best that decides one after the other."""

from __future__ import annotations

from collections import defaultdict

from lowtide.results.experiments.arena.table import SYSTEMS
from lowtide.results.experiments.arena_pools.table import ALIGNMENT
from lowtide.results.experiments.placement_fragmentation.table import PAGE, PAGED
from lowtide.results.experiments.placement_g10.table import PUBLISHED
from lowtide.results.experiments.running import read_rows
from lowtide.results.experiments.swap_systems.compared import AUTO
from lowtide.results.tables.spec import Row


def by(name: str, key: str, column: str) -> list[dict[str, Row]]:
    """Return the rows of a table by what one column says, for each value of another."""
    found: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in read_rows(name):
        assert row[column] not in found[row[key]]
        found[row[key]][row[column]] = row
    return list(found.values())


def test_an_arena_is_never_above_an_order_and_then_addresses() -> None:
    groups = by("arena", "graph", "system")
    assert len(groups) == 76
    for group in groups:
        assert group.keys() == {*SYSTEMS, "least"}
        ours = group["least"]
        assert ours["bound"] <= ours["height"] <= min(group[system]["height"] for system in SYSTEMS)
        assert (ours["status"] == "optimal") == (ours["bound"] == ours["height"])
        assert ours["status"] != "optimal" or ours["certified"] == ours["height"]
    proved = sum(group["least"]["status"] == "optimal" for group in groups)
    assert proved >= 0.95 * len(groups)


def test_several_memories_need_no_less_than_one_and_no_more_than_two_steps() -> None:
    groups = by("arena_pools", "instance", "system")
    assert len(groups) == 21
    one = {g["least"]["graph"]: g["least"]["bound"] for g in groups if g["least"]["pools"] is None}
    for group in groups:
        ours = group["least"]
        assert ours["bound"] <= ours["height"] <= min(row["height"] for row in group.values())
        assert (ours["status"] == "optimal") == (ours["bound"] == ours["height"] == ours["certified"])
        heights = [int(x) for x in str(ours["each"]).split("/")]
        assert sum(heights) == ours["height"]
        # one behind the other, each from a multiple of the alignment, they are an answer in one memory
        assert one[ours["graph"]] <= sum(-(-x // ALIGNMENT) * ALIGNMENT for x in heights)


def test_a_free_order_is_never_slower_than_a_fixed_one_nor_than_two_steps() -> None:
    groups = by("placement_order", "graph", "method")
    assert len(groups) == 12
    for group in groups:
        ours = group["auto"]
        others = [group[name]["time"] for name in ("fixed", "two steps", "swapadvisor")]
        assert ours["bound"] <= ours["time"] <= min(time for time in others if time is not None)


def test_copies_and_second_runs_are_never_slower_than_one_of_them_alone() -> None:
    rows = read_rows("placement_recompute")
    assert rows
    for row in rows:
        alone = [row[name] for name in ("copies", "runs") if row[name] is not None]
        assert row["bound"] <= row["both"] <= min(alone)
        assert row["both"] <= min(row["capuchin"], row["superneurons"])


def test_pofo_and_auto_are_never_slower_than_second_runs_alone() -> None:
    rows = read_rows("placement_pofo")
    assert len(rows) == 8
    for row in rows:
        assert row["bound"] <= min(row["auto"], row["pofo"])
        assert max(row["auto"], row["pofo"]) <= row["runs"]
    assert any(row["pofo"] < min(row["copies"], row["runs"]) for row in rows)


def test_second_runs_and_two_tiers_are_never_slower_than_without_one_of_them() -> None:
    groups = by("recompute_tiers", "memory", "way")
    assert groups
    for group in groups:
        times = {name: row["time"] for name, row in group.items()}
        assert times["together"] <= min(times["host"], times["ssd"])
        assert max(times["host"], times["ssd"]) <= times["runs"]


def test_ours_fits_with_addresses_and_in_pages_and_is_the_fastest() -> None:
    rows = read_rows("placement_fragmentation")
    for page, workloads in ((None, PUBLISHED), (PAGE, PAGED)):
        some = [row for row in rows if row["page"] == page]
        ours = {row["workload"]: row["period"] for row in some if row["method"] == AUTO}
        assert ours.keys() == {*workloads}
        assert all(ours[row["workload"]] <= row["period"] for row in some if row["period"] is not None)
        for row in some:
            assert row["period"] is None or row["bound"] <= row["period"]
            assert page is not None or row["period"] is None or row["height"] <= row["device"]
