"""The committed table of checkpointing schedules: what it claims, and that rows can be made again."""

from __future__ import annotations

import pytest

from lowtide.results.experiments.__main__ import main
from lowtide.results.experiments.recompute_chains.table import (
    DISK,
    DISK_X,
    H_X,
    IN_PLACE,
    MIXED,
    REVOLVE,
    H,
    plain,
    solved,
    taped,
)
from lowtide.results.experiments.recompute_chains_speed.table import LENGTHS, SLOTS
from lowtide.results.experiments.running import HERE, read_rows
from lowtide.solvers.recompute.chains.mixed import least_mixed_forwards
from lowtide.solvers.recompute.chains.revolve import least_forwards


def test_rows_are_as_published_and_as_the_peer_or_cheaper_where_said() -> None:
    rows = read_rows("recompute_chains")
    for row in rows:
        if row["published"] is not None:
            assert row["ours"] == row["published"]
        if row["peer"] is not None:
            same = row["ours"] == row["peer"]
            assert same or (row["ours"] < row["peer"] and row["algorithm"] in ("periodic", "Disk-Revolve"))
    published = [row for row in rows if row["published"] is not None]
    values = [*REVOLVE.values(), *MIXED.values(), *DISK.values(), *H.values(), *IN_PLACE.values()]
    assert len(published) == sum(map(len, values)) + 4  # and the strategies of the slide


def test_long_schedules_are_ten_times_faster_in_the_committed_table() -> None:
    rows = read_rows("recompute_chains_speed")
    assert {row["n"] for row in rows} == set(LENGTHS)
    for row in rows:
        assert row["peer"] is None or row["peer"] > 10 * row["ours"]
        assert row["peer"] is not None or row["n"] > 2000


def test_ops_of_long_schedules_are_as_committed() -> None:
    """Forwards of closed forms, whose schedules the speed table timed, and their backwards."""
    ops = {(row["algorithm"], row["n"]): row["ops"] for row in read_rows("recompute_chains_speed")}
    for n in (1000, 10_000, 100_000):
        assert ops["Revolve", n] == n + least_forwards(n, SLOTS)
        assert ops["Mixed", n] == n + (least_mixed_forwards(n, SLOTS) or 0)


@pytest.mark.parametrize("n", [6, 10])
def test_rows_of_short_chains_are_made_again(n: int) -> None:
    for s, forwards in enumerate(REVOLVE[n], start=1):
        assert solved(plain(n, s + 2), "revolve")[0] == forwards
    for s, forwards in enumerate(MIXED[n], start=1):
        assert solved(taped(n, s + 2), "mixed")[0] == forwards + n


def test_rows_with_a_disk_are_made_again() -> None:
    for x, cost in zip(DISK_X, DISK[50, 2], strict=True):
        problem = plain(50, 4, disk=0, time_ns=x)
        assert solved(problem, "disk-revolve", reads="once")[0] == cost
    for share, expected in zip(H_X, H[50, 2, 5], strict=True):
        problem = plain(50, 4, unit=10, disk=5, time_ns=round(10 * share))
        assert solved(problem, "h-revolve")[0] == round(10 * expected)


@pytest.mark.parametrize("name", ["recompute_chains", "recompute_chains_speed"])
def test_tables_stay_where_the_peer_is_not_installed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("lowtide.results.experiments.__main__.lowtide", lambda *words: None)
    before = (HERE / name / "table.csv").read_bytes()
    assert main([name]) == 2
    assert "found no package checkpoint_schedules to compare with; the table stays" in capsys.readouterr().err
    assert (HERE / name / "table.csv").read_bytes() == before
