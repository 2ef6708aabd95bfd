"""Do the verifier and the naive simulator agree on a case, and where not?

They must agree on whether a plan is valid, and then on profiles, peaks and figures. On an invalid plan they
agree on every rule that looks at no memory, and on memory up to the first instant at which something is
wrong. After that the state depends on how a broken action is carried on, which no rule says: there the kinds
must still agree unless two writers met in the same bytes, and each witness of the verifier must be a fault
that the simulator sees too.
"""

from __future__ import annotations

from collections.abc import Callable

from lowtide.models.verifier.verdict import Verification, Violation
from lowtide.models.verifier.verify import verify
from tests.oracles.naive_rules import Fault
from tests.oracles.naive_simulator import simulate
from tests.oracles.naive_state import Outcome
from tests.random_plans import Case

STATIC = frozenset(
    {
        "graph",
        "shape",
        "start",
        "missing-run",
        "repeated-run",
        "processor-kind",
        "processor-overlap",
        "precedence",
        "channel",
        "channel-rate",
        "group-rate",
    }
)
"""The rules that look at no memory."""

UNTIDY = frozenset({"write-conflict", "copy-target"})
"""Two writers met: what the bytes hold from then on is nobody's rule."""


def judged(case: Case, verifier: Callable[..., Verification] = verify) -> Verification:
    return verifier(case.graph, case.plan, rerun=case.rerun, start_tiers=case.start_tiers)


def simulated(case: Case) -> Outcome:
    return simulate(case.graph, case.plan, rerun=case.rerun, start_tiers=case.start_tiers)


def disagreement(case: Case) -> str | None:
    """Return what the two judges disagree on, None if nothing."""
    return difference(judged(case), simulated(case))


def difference(found: Verification, expected: Outcome) -> str | None:
    """Return the first difference between the two verdicts, None if there is none."""
    for name in ("makespan", "stall", "recomputed", "traffic"):
        a, b = getattr(found, name), getattr(expected, name)
        if a != b:
            return f"{name}: verifier {a}, simulator {b}"
    if found.valid != expected.valid:
        faults = found.violations or sorted(expected.faults, key=repr)
        return f"valid: verifier {found.valid}, simulator {expected.valid}: {faults[:5]}"
    if found.valid:
        return _profiles(found, expected)
    return _kinds(found, expected) or _witnesses(found, expected)


def _profiles(found: Verification, expected: Outcome) -> str | None:
    if dict(found.profiles) != expected.profiles:
        return f"profiles: verifier {found.profiles}, simulator {expected.profiles}"
    if dict(found.peaks) != expected.peaks:
        return f"peaks: verifier {found.peaks}, simulator {expected.peaks}"
    return None


def _kinds(found: Verification, expected: Outcome) -> str | None:
    kinds = {v.kind for v in found.violations}
    differ = kinds ^ expected.kinds
    if UNTIDY & (kinds | expected.kinds):
        differ &= STATIC
    if "missing-run" in kinds & expected.kinds:
        differ.discard("precedence")  # the simulator also asks it of pairs around the missing op
    if differ:
        return f"kinds: verifier {sorted(kinds)}, simulator {sorted(expected.kinds)}"
    return None


def _witnesses(found: Verification, expected: Outcome) -> str | None:
    times = [x[1] for x in expected.faults if x[0] not in STATIC]
    first = min((t for t in times if t is not None), default=None)
    untidy = bool(UNTIDY & expected.kinds)
    for violation in found.violations:
        late = violation.time is not None and first is not None and violation.time > first
        if violation.kind not in STATIC and untidy and late:
            continue
        if not any(matches(violation, fault) for fault in expected.faults):
            return f"no fault of the simulator matches {violation.to_dict()}"
    for fault in expected.faults:
        kind, time = fault[:2]
        if kind in STATIC or time == first or (kind == "capacity" and not untidy):
            if kind == "precedence":
                continue  # the verifier does not tell of pairs that follow from others
            if not any(matches(v, fault) for v in found.violations):
                return f"no violation of the verifier matches {fault}"
    return None


def matches(violation: Violation, fault: Fault) -> bool:
    """Do the two name the same thing at the same time, as far as both name one?"""
    kind, time, op, tensor, tier = fault
    if kind != violation.kind:
        return False
    if kind == "shape":
        positions = {
            "runs": violation.run,
            "copies": violation.copy,
            "frees": violation.free,
            "start": violation.entry,
        }
        return tier is None or positions[tier] == tensor
    if kind in ("channel-rate", "group-rate"):
        return time == violation.time and tier == violation.resource
    ops = {violation.op, violation.other} if violation.op is not None else set()
    if kind == "write-conflict":
        tier = None  # each of the two writers has its own
    return (
        (time is None or violation.time is None or time == violation.time)
        and (op is None or not ops or op in ops)
        and (tensor is None or violation.tensor is None or tensor == violation.tensor)
        and (tier is None or violation.tier is None or tier == violation.tier)
    )
