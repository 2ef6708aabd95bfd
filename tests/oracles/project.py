"""The shortest project of PSPLIB: read by the package ``psplib``, solved by a model of its own."""

from __future__ import annotations

from pathlib import Path

import psplib
from ortools.sat.python import cp_model


def shortest(path: Path) -> int | None:
    """Return the least makespan of a project; None if there is no schedule."""
    project = psplib.parse(path, instance_format="psplib")
    followed = [job.successors for job in project.activities]
    assert all(followed[:-1])  # the last job is the sink, the first one the source
    assert {j for jobs in followed for j in jobs} == {*range(1, len(followed))}
    model = cp_model.CpModel()
    horizon: int = sum(max(mode.duration for mode in job.modes) for job in project.activities)
    starts, ends, takes = [], [], []
    for job in project.activities:
        start, end = model.new_int_var(0, horizon, ""), model.new_int_var(0, horizon, "")
        own = [model.new_bool_var("") for _ in job.modes]
        model.add_exactly_one(own)
        model.add(end == start + sum(m.duration * x for m, x in zip(job.modes, own, strict=True)))
        starts.append(start)
        ends.append(end)
        takes.append(own)
    for i, job in enumerate(project.activities):
        for j in job.successors:
            model.add(ends[i] <= starts[j])
    for k, resource in enumerate(project.resources):
        assert resource.renewable
        runs, demands = [], []
        for i, job in enumerate(project.activities):
            for mode, taken in zip(job.modes, takes[i], strict=True):
                runs.append(model.new_optional_fixed_size_interval_var(starts[i], mode.duration, taken, ""))
                demands.append(mode.demands[k])
        model.add_cumulative(runs, demands, resource.capacity)
    model.minimize(ends[-1])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    assert status == cp_model.OPTIMAL
    return int(solver.objective_value)
