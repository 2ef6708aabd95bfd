"""Checks flows that bound the memory of every parallel schedule, and which plans are such schedules.

The rules, and why they suffice, are in `lowtide.models.verifier.flow`.
"""

from __future__ import annotations

from ...flow_proof import FlowProof, ParallelSetting
from ...graph import Graph
from ...plan import Plan
from .refused import Refused


def check_flow(graph: Graph, setting: ParallelSetting, bound: int, proof: FlowProof) -> int:
    """Return how many arcs were checked.

    Raises
    ------
    Refused
        If the flows do not prove that no parallel schedule in the setting needs more than `bound` bytes.
    """
    from ..flow import verify_flow  # numpy, which `import lowtide` does without

    if setting.processors is not None and setting.processors < 1:
        raise Refused(f"found {setting.processors} processors, expected at least 1")
    wrong = verify_flow(graph, setting.edges, proof, setting.processors)
    if wrong:
        raise Refused(wrong[0].message)
    value = proof.value(setting.processors)
    if value > bound:
        raise Refused(f"the flow proves {value} bytes, expected at most the bound {bound}")
    return sum(len(case.arcs) for case in proof.cases)


def outside(setting: ParallelSetting, plan: Plan) -> str:
    """Return why a plan is no schedule of the setting; empty if it is one."""
    runs = {run.op: run for run in plan.runs}
    for i, j in setting.edges:
        if i in runs and j in runs and runs[i].end > runs[j].start:
            return f"op {j} starts at {runs[j].start} ns, expected not before op {i} ends at {runs[i].end} ns"
    if setting.processors is not None:
        turns = sorted([(r.start, 1) for r in plan.runs] + [(r.end, -1) for r in plan.runs])
        busy = 0
        for time, change in turns:
            busy += change
            if busy > setting.processors:
                return f"{busy} ops run at {time} ns, expected at most {setting.processors}"
    return ""
