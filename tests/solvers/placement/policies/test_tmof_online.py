"""TMOF's on-line engine: the largest reuse distances leave, other ones on each GPU, or under a token."""

import pytest

import lowtide as lt
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.policies.tmof_online import SHARES, decide
from lowtide.solvers.placement.reductions.replicas.share import replicas
from lowtide.solvers.placement.simulator.problem import SimulatedProblem, simulated_problem
from tests.solvers.placement.machines import RATE_IN
from tests.solvers.placement.reductions.replicas.gpu_cases import CASES, parallel


def pyramid(layers: int = 6) -> lt.Graph:
    """Forward ops that make 10 kB each in 1 ms, a turn, backward ops that use them, the last one first."""
    tensors = [lt.Tensor(name=f"a{k}", nbytes=10_000) for k in range(layers)]
    ops = [lt.Op(name=f"f{k}", writes=(k,), duration_ns=1_000_000) for k in range(layers)]
    ops.append(lt.Op(name="turn", duration_ns=1_000_000))
    ops += [lt.Op(name=f"b{k}", reads=(k,), duration_ns=1_000_000) for k in reversed(range(layers))]
    return lt.Graph(name="pyramid", tensors=tuple(tensors), ops=tuple(ops))


def solved(problem: Placement, share: str) -> lt.Result:
    result = lt.solve(problem, "tmof-online", threads=1, time_limit=None, options={"share": share})
    assert result.status is not lt.Status.FAILED, result.detail
    return result


def case_of(problem: Placement) -> SimulatedProblem:
    found = replicas(problem)
    assert found is not None
    return simulated_problem(found.alone)


def away(case: SimulatedProblem, turn: tuple[int, int]) -> list[int]:
    """Return the tensors that leave."""
    tier = decide(case, turn=turn).tier
    return [int(case.absence_tensor[g]) for g in range(len(tier)) if tier[g]]


def test_the_largest_reuse_distances_leave_and_on_each_gpu_every_other_one() -> None:
    case = case_of(parallel(pyramid(), 2, 40_000))
    assert away(case, (0, 1)) == [0, 1]
    assert away(case, (0, 2)) == [0, 2]
    assert away(case, (1, 2)) == [1, 3]
    case = case_of(parallel(pyramid(), 2, 20_000))  # where every other one does not suffice, others go too
    assert away(case, (0, 2)) == [0, 1, 2, 4]
    assert away(case, (1, 2)) == [0, 1, 2, 3, 5]


def test_tensors_return_as_early_as_their_copy_takes() -> None:
    case = case_of(parallel(pyramid(), 2, 40_000))
    decisions = decide(case)
    copy = -(-10_000 * 10**9 // RATE_IN)
    for g in range(len(decisions.tier)):
        if decisions.tier[g]:
            op = int(decisions.back[g]) // 2
            due = int(case.clock[case.absence_next[g]]) - copy
            assert case.clock[op] <= due < case.clock[op + 1]


def test_what_one_gpu_has_in_time_comes_late_to_two_and_other_tensors_less_so() -> None:
    """One tensor leaves; asked back at the same time, the second GPU's comes after the first one's."""
    graph = pyramid()
    assert solved(parallel(graph, 1, 50_000), "oblivious").objective == 13_000_000
    problem, copy = parallel(graph, 2, 50_000), -(-10_000 * 10**9 // RATE_IN)
    asked = 10_000_000  # the op before which its copy must begin, to be back at 12 ms
    assert solved(problem, "oblivious").objective == 13_000_000 + asked + 2 * copy - 12_000_000
    assert solved(problem, "disjoint").objective == 13_000_000 + (asked - 1_000_000) + 2 * copy - 12_000_000


@pytest.mark.parametrize(("graph", "device"), CASES)
@pytest.mark.parametrize("many", [1, 2, 3])
def test_every_way_to_share_verifies(graph: lt.Graph, device: int, many: int) -> None:
    problem = parallel(graph, many, device)
    for share in SHARES:
        result = solved(problem, share)
        if result.objective is not None:
            assert result.verification is not None
            assert result.verification.valid
            assert result.bound is not None
            assert result.bound <= result.objective


def test_periods_of_several_gpus_are_refused() -> None:
    graph, device = CASES[0]
    problem = parallel(graph, 2, device)
    with pytest.raises(lt.LowtideError, match="found a period of several processors, expected a single run"):
        lt.solve(Placement(problem.graph, problem.machine, periodic=True), "tmof-online")
