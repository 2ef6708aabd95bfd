"""Placement problems by specification, and the bundled machines."""

from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances import load_machine, load_problem, machine_names


@pytest.mark.parametrize("name", sorted(machine_names()))
def test_bundled_machines_load_and_say_what_they_are(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    assert machine_names()[name]
    lt.Placement(lt.load("catalogue:chain"), machine)


def test_g10_reference_machine_has_the_published_figures() -> None:
    machine = load_machine("a100-40g-pcie3")
    assert [t.capacity for t in machine.tiers] == [40 * 2**30, 128 * 2**30, None]
    rates = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
    assert rates["gpu", "host"] == 15_754_000_000
    assert rates["ssd", "gpu"] == 3_200_000_000
    assert {len(g.channels) for g in machine.groups} == {2}


def test_options_of_graph_machine_and_question_stand_side_by_side() -> None:
    spec = "gen:chain?n=5&machine=a100-40g-pcie3&device=24GiB&host=none&periodic=1&start.input=anywhere"
    problem = load_problem(lt.Placement, spec)
    assert len(problem.graph.ops) == 5
    assert [t.capacity for t in problem.machine.tiers] == [24 * 2**30, None, None]
    assert problem.periodic
    assert not problem.whole
    assert problem.start == {"input": ("gpu", "host", "ssd")}
    again = load_problem("placement", problem.source or "")
    assert again.instance == problem.instance


def test_start_of_everything_in_one_tier() -> None:
    problem = load_problem(lt.Placement, "gen:chain?n=5&machine=a100-40g-pcie3&start=gpu")
    assert set((problem.start or {}).values()) == {("gpu",)}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gen:chain?n=5", "found no option machine"),
        ("gen:chain?n=5&machine=a100", "found 'a100', did you mean a100"),
        (
            "gen:chain?n=5&machine=a100-40g-pcie3&device=big",
            'option device: found "big", expected bytes',
        ),
        ("gen:chain?n=5&machine=a100-40g-pcie3&capacity.disk=4GiB", "found unknown tier 'disk'"),
        ("gen:chain?n=5&machine=a100-40g-pcie3&periodic=maybe", "expected 0 or 1"),
        ("gen:chain?n=5&machine=a100-40g-pcie3&start=moon", "found tier 'moon'"),
        ("gen:chain?n=5&machine=a100-40g-pcie3&speed=1", "found unknown option 'speed'"),
    ],
)
def test_bad_specifications(spec: str, message: str) -> None:
    with pytest.raises(lt.InstanceError, match=message):
        load_problem(lt.Placement, spec)


GOOD = """
name = "mine"
[[tiers]]
name = "dram"
capacity = "1GiB"
[[tiers]]
name = "pmem"
[[processors]]
name = "cpu"
tiers = ["dram", { tier = "pmem", bytes_per_s = "8GB" }]
[[channels]]
src = "dram"
dst = "pmem"
bytes_per_s = "4GB"
[[channels]]
src = "pmem"
dst = "dram"
bytes_per_s = "12GB"
latency_ns = 300
"""


def test_a_users_machine(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    machine = load_machine(path)
    assert machine.processors[0].tiers[1] == lt.Access(tier="pmem", bytes_per_s=8 * 10**9)
    assert machine.channels[1].latency_ns == 300


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('capacity = "1GiB"', 'capacity = "-1"', "found '-1', expected bytes such as 40GiB"),
        ('capacity = "1GiB"', "capacity = -1", "capacity"),
        ('bytes_per_s = "4GB"', "bytes_per_s = 0", "expected an integer >= 1"),
        ('name = "mine"', 'name = "mine"\nspeed = 1', "speed"),
        ('src = "dram"', 'src = "tape"', "expected two different tiers"),
        ("[[tiers]]", "[[tiers", "found no TOML"),
    ],
)
def test_a_users_faults(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(lt.InstanceError, match=message):
        load_machine(path)


def test_replicas_are_copies_for_the_first_processors() -> None:
    spec = "gen:skipchain?n=6&replicas=2&machine=v100x4-16g-shared-pcie3&device=2GB&start=device"
    problem = load_problem(lt.Placement, spec)
    single = lt.load("gen:skipchain?n=6")
    assert len(problem.graph.ops) == 2 * len(single.ops)
    assert [t.capacity for t in problem.machine.tiers] == [2 * 10**9] * 2 + [None]
    assert set((problem.start or {}).values()) == {("gpu0", "gpu1")}
    assert {x for c in problem.machine.channels for x in (c.src, c.dst)} == {"gpu0", "gpu1", "host"}
    assert [len(group.channels) for group in problem.machine.groups] == [2, 2]
    for g, kind in enumerate(("gpu0", "gpu1")):
        own = [op for op in problem.graph.ops if op.all_modes[0].processors == (kind,)]
        assert [[t // 2 for t in op.reads] for op in own] == [list(op.reads) for op in single.ops]
        assert {t % 2 for op in own for t in (*op.reads, *op.writes)} == {g}
    assert lt.load(problem.graph.source or "") == problem.graph
    with pytest.raises(lt.InstanceError, match="expected 1 to 4"):
        load_problem(lt.Placement, spec.replace("replicas=2", "replicas=5"))
