"""Cases of `minio`: what is written."""

from __future__ import annotations

from itertools import product
from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.minio import cuts_cpsat, joint_cpsat, order_milp, steps_cpsat
from lowtide.formulations.minio.data import MinIOData, graph_data
from lowtide.solvers.minio.rules import tree_data
from tests.formulations.cases.case import Case, Verdict, proved, solved, verdict_of
from tests.oracles.brute_io import fewest_moved
from tests.oracles.brute_minio import fewest_bytes
from tests.solvers.minio.graphs import questions
from tests.solvers.minio.trees import small_problems


def minio_order(formulation: ModuleType, problem: lt.MinIO) -> Verdict:
    data = tree_data(problem, "test")
    order = tuple(range(data.n))
    if not formulation.demands(data, order):
        return (0, True)
    built = formulation.build(data, order)
    context = solved(
        formulation,
        problem,
        built,
        lambda value: formulation.decode(built, value),
        lambda units: units * data.unit,
    )
    return context.incumbent, not problem.judge(context.answer).violations


def minio_orders() -> list[tuple[Any, Verdict | None]]:
    found: list[tuple[Any, Verdict | None]] = []
    for whole in (False, True):
        for _, problem in small_problems(8, whole):
            n = len(problem.graph.ops)
            least = fewest_bytes(problem.graph, problem.memory, whole=whole, order=range(n))
            found.append((problem, (least, True)))
    return found


def minio_joint(formulation: ModuleType, problem: lt.MinIO) -> Verdict:
    data = tree_data(problem, "test")
    built = formulation.build(data, [0] * data.n)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, lambda units: units * data.unit))


def minio_problems() -> list[tuple[Any, Verdict | None]]:
    return [
        (problem, proved(fewest_bytes(problem.graph, problem.memory, whole=whole)))
        for whole in (False, True)
        for _, problem in small_problems(8, whole)
    ]


def minio_parent_first(formulation: ModuleType, problem: lt.MinIO) -> Verdict:
    """Whether a node may come behind its parent, which reads nothing of it."""
    data = tree_data(problem, "test")
    built = formulation.build(data, [0] * data.n)
    built.model.add(built.place[2] < built.place[0])
    read = lambda value: None  # noqa: E731
    return (solved(formulation, problem, built, read, lambda units: units).refused,)


def minio_reversed() -> list[tuple[Any, Verdict | None]]:
    """Five nodes; of the first one a file without bytes goes to the third."""
    tensors = tuple(lt.Tensor(name=f"t{k}", nbytes=min(k, 1)) for k in range(4))
    parent = {0: 2, 1: 4, 2: 4, 3: 4}
    ops = tuple(
        lt.Op(name=f"o{i}", reads=tuple(t for t, p in parent.items() if p == i), writes=(i,) if i < 4 else ())
        for i in range(5)
    )
    problem = lt.MinIO(lt.Graph(name="no bytes", tensors=tensors, ops=ops), memory=9)
    return [(problem, ("infeasible",))]


SIZES, WAITS, GAIN = (3, 4), (2, 4), 4
"""Units of two parts, how many of them wait in a cut, and what it gains."""


def minio_cut(formulation: ModuleType, cutoff: int | None) -> Verdict:
    """The fewest units of two parts that meet a cut, below a cutoff."""
    from ortools.sat.python import cp_model

    data = MinIOData(
        memory=9,
        whole=False,
        parent=(2, 2, -1),
        need=(3, 4, 8),
        maker=(0, 1),
        size=SIZES,
        tensor=(0, 1),
    )
    built = formulation.build(data)
    formulation.add_cut(built, tuple(enumerate(WAITS)), GAIN)
    if cutoff is not None:
        formulation.add_cutoff(built, cutoff)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(built.model)
    return (None if status == cp_model.INFEASIBLE else round(solver.objective_value),)


def minio_cuts() -> list[tuple[Any, Verdict | None]]:
    least = min(
        sum(w)
        for w in product(*(range(size + 1) for size in SIZES))
        if sum(max(0, a - (f - s)) for a, f, s in zip(w, SIZES, WAITS, strict=True)) >= GAIN
    )
    return [(None, (least,)), (least + 1, (least,)), (least, (None,))]


def fewest(problem: lt.MinIO, order: range | None = None) -> int | None:
    return fewest_moved(
        problem.graph,
        problem.memory,
        whole=problem.whole,
        count=problem.count,
        stored=problem.stored,
        order=order,
    )


def graph_order(formulation: ModuleType, problem: lt.MinIO) -> Verdict:
    """What the program of the reference order of a graph moves."""
    data = graph_data(problem)
    order = tuple(range(data.n))
    built = formulation.build(data, order)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    context = solved(formulation, problem, built, read, lambda units: units * data.unit + data.fixed)
    return context.incumbent, not problem.judge(context.answer).violations


def graph_orders() -> list[tuple[Any, Verdict | None]]:
    every = [problem for _, problem in questions(260, "order case") if problem.count == "traffic"]
    tight = [x for x in every if order_milp.demands(graph_data(x), range(len(x.graph.ops)))]
    return [(x, (fewest(x, range(len(x.graph.ops))), True)) for x in tight]


def graph_steps(formulation: ModuleType, problem: lt.MinIO) -> Verdict:
    data = graph_data(problem)
    built = formulation.build(data)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    rest = data.fixed - data.first_reads
    return verdict_of(solved(formulation, problem, built, read, lambda units: units * data.unit + rest))


def step_problems() -> list[tuple[Any, Verdict | None]]:
    return [(x, proved(fewest(x))) for _, x in questions(24, "steps case", n=6)]


CASES = [
    Case("minio order", order_milp, minio_orders, minio_order, (), (1,)),
    Case("minio order of a graph", order_milp, graph_orders, graph_order, (), (1, 2)),
    Case("minio steps", steps_cpsat, step_problems, graph_steps),
    Case("minio joint", joint_cpsat, minio_problems, minio_joint, (1, 4), (1, 3, 4)),
    Case("minio joint, parent first", joint_cpsat, minio_reversed, minio_parent_first, (), (2,)),
    Case("minio cuts", cuts_cpsat, minio_cuts, minio_cut),
]
