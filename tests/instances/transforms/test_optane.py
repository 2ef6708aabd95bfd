"""Graphs on a socket with persistent memory: durations, modes, and what becomes of other graphs."""

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.instances import load_machine, load_problem
from lowtide.instances.transforms.optane import CXL, MOST, OPTANE, Socket, on_optane


def graph(duration: int, writes: int = 2) -> lt.Graph:
    """One op that reads 105 MB and writes tensors of 10.5 MB."""
    tensors = [lt.Tensor(name="in", nbytes=105_000_000, kind="input", initial=True)]
    tensors += [lt.Tensor(name=f"out{i}", nbytes=10_500_000, final=True) for i in range(writes)]
    op = lt.Op(name="op", reads=(0,), writes=tuple(range(1, writes + 1)), duration_ns=duration, workspace=7)
    return lt.Graph(name="one op", tensors=tuple(tensors), ops=(op,))


def test_memory_limits_an_op_of_little_arithmetic() -> None:
    (op,) = on_optane(graph(81_030)).ops  # 126 MB at 1555 bytes per ns; at 105 they take 1.2 ms
    assert op.duration_ns == 1_200_000
    assert op.workspace == 7


def test_arithmetic_limits_an_op_of_much() -> None:
    (op,) = on_optane(graph(1_536_000)).ops  # 9750 multiply-adds per ns become 1536
    assert op.duration_ns == 9_750_000


def test_modes_write_each_tensor_in_either_tier_and_take_longer_in_the_slow_one() -> None:
    (op,) = on_optane(graph(81_030)).ops
    assert [dict(mode.operands) for mode in op.modes] == [
        {1: "dram", 2: "dram"},
        {1: "dram", 2: "pmm"},
        {1: "pmm", 2: "dram"},
        {1: "pmm", 2: "pmm"},
    ]
    one = 1_200_000 + 10_500_000 / 13.9 - 10_500_000 / 39.4
    two = 1_200_000 + 21_000_000 / 13.9 - 21_000_000 / 39.4
    assert [mode.duration_ns for mode in op.modes] == pytest.approx([1_200_000, one, one, two], abs=1)
    assert {mode.workspace for mode in op.modes} == {7}


def test_many_writes_go_together_and_none_makes_no_modes() -> None:
    (op,) = on_optane(graph(81_030, MOST + 1)).ops
    assert [set(dict(mode.operands).values()) for mode in op.modes] == [{"dram"}, {"pmm"}]
    (op,) = on_optane(graph(81_030, 0)).ops
    assert op.modes == ()


def test_a_write_in_place_takes_its_bytes_over_the_measured_bandwidth() -> None:
    problem = load_problem(lt.Placement, "gen:chain?n=1&node=optane&machine=optane-node&device=1B&start=pmm")
    big = replace(problem.graph.tensors[0], nbytes=13_900_000, initial=False, final=True, kind="activation")
    one = lt.Graph(name="one", tensors=(big,), ops=(lt.Op(name="op", writes=(0,)),))
    result = lt.solve(replace(problem, graph=on_optane(one)), "autotm-static", threads=1)
    assert result.objective == pytest.approx(1_000_000, abs=2)  # at 13.9 GB/s instead of 105


@pytest.mark.parametrize("socket", [OPTANE, CXL])
def test_a_machine_adds_what_reads_of_its_slow_tier_take_longer(socket: Socket) -> None:
    machine = load_machine(f"{socket.name}-node")
    access = machine.processors[0].tiers[1]
    assert (access.tier, access.bytes_per_s) == (socket.slow, socket.added)
    assert 1e9 / socket.added == pytest.approx(1e9 / socket.read - 1 / socket.dram, rel=1e-4)


def test_cxl_memory_has_modes_of_its_own() -> None:
    found = lt.load("gen:chain?n=3&seed=1&node=cxl")
    assert [mode.operands for mode in found.ops[1].modes] == [((1, "dram"),), ((1, "cxl"),)]
    assert lt.load(found.source or "") == found
    problem = load_problem(lt.Placement, "gen:chain?n=6&seed=1&node=cxl&machine=cxl-node&device=20B")
    result = lt.solve(problem, "in-place", threads=1)
    assert result.verification is not None
    assert result.verification.valid


def test_the_option_is_part_of_the_source() -> None:
    found = lt.load("gen:chain?n=3&seed=1&node=optane")
    assert lt.load(found.source or "") == found
    assert found == on_optane(lt.load("gen:chain?n=3&seed=1"))
    with pytest.raises(lt.InstanceError, match='option node: found "gpu", expected one of optane, '):
        lt.load("gen:chain?n=3&node=gpu")
    with pytest.raises(lt.InstanceError, match="op 0 'op0': found a mode that names tiers, expected none"):
        on_optane(found)
    assert lt.load("gen:chain?n=3&seed=1&node=optane-roofline") == on_optane(
        lt.load("gen:chain?n=3&seed=1"), roofline=True
    )


def runs(op: lt.Op) -> list[int]:
    """Return the ns of an op in each mode, with what machine optane-node adds for operands in PMM."""
    sizes = {0: 105_000_000, 1: 10_500_000, 2: 10_500_000}
    access = load_machine("optane-node").processors[0].tiers[1]
    rate = access.bytes_per_s
    assert rate is not None
    slow = [sum(sizes[t] for t, tier in mode.operands if tier == access.tier) for mode in op.modes]
    return [m.duration_ns - (-b * 10**9 // rate) for m, b in zip(op.modes, slow, strict=True)]


def test_roofline_hides_slow_accesses_behind_arithmetic() -> None:
    # 1.95 ms of arithmetic, 1.2 ms of DRAM; the read takes 1.67 ms more in PMM, each write 0.66 ms
    (op,) = on_optane(graph(1536 * 200), roofline=True).ops
    read, write = 105_000_000 / 63.064, 10_500_000 * (1 / 13.9 - 1 / 39.4 + 1 / 63.064)
    times = {}
    for mode, ns in zip(op.modes, runs(op), strict=True):
        tiers = dict(mode.operands)
        assert len(tiers) == 3
        writes = sum(tiers[t] == "pmm" for t in (1, 2))
        memory = 1_200_000 + (read if tiers[0] == "pmm" else 0) + writes * write
        times[tiers[0], writes] = ns
        assert ns == pytest.approx(max(1_950_000, memory), abs=2)
    assert times["dram", 0] == 1_950_000
    assert times["dram", 1] == pytest.approx(1_950_000, abs=1)  # hidden
    assert times["dram", 2] > 2_500_000


def test_ops_that_memory_limits_are_the_same_under_the_roofline() -> None:
    small = graph(81_030)
    assert on_optane(small, roofline=True) == on_optane(small)


def test_each_algorithm_is_there_for_each_set_of_operands() -> None:
    small = graph(1)
    modes = tuple(lt.Mode(duration_ns=ns, workspace=room) for ns, room in ((1_000_000, 0), (400_000, 9)))
    several = replace(small, ops=(replace(small.ops[0], modes=modes),))
    (op,) = on_optane(several, roofline=True).ops
    assert [(mode.workspace, len(mode.operands)) for mode in op.modes] == [(0, 3)] * 8 + [(9, 3)] * 8
    assert [
        ns for ns, mode in zip(runs(op), op.modes, strict=True) if {*dict(mode.operands).values()} == {"dram"}
    ] == [
        6_347_657,
        2_539_063,
    ]
