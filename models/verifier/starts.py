"""The verifier's rule on where things may be at time 0: the question's, or what the plan says of it.

A plan states by kind the tiers where its question lets things start. Where the caller asks a question of its
own, that one counts, and the plan must not claim more for the kinds of its graph: it would stand for an
answer to this question, and verify alone as one to an easier question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..checks import shown
from ..graph import KINDS
from ..plan import Plan
from .case import Case

Starts = Mapping[str, Sequence[str]]
"""By kind of tensor, the tiers where it may be at time 0; kinds that are not named may be anywhere."""


def start_rule(case: Case, plan: Plan, question: Starts | None) -> Starts:
    """Return the rule that counts; report a statement that is ill-formed, or wider than the question."""
    stated = _statement(case, plan.start_tiers)
    if question is None:
        return {"input": case.tiers[-1:]} if stated is None else stated
    if stated is None:
        return question
    for kind in sorted({tensor.kind for tensor in case.graph.tensors if tensor.initial}):
        for tier in stated.get(kind, case.tiers):
            if tier not in question.get(kind, (tier,)):
                case.report(
                    "start",
                    f"plan, start_tiers: tensors of kind {kind!r} may start in tier {tier!r}, expected "
                    f"{list(question[kind])} as in the question",
                    time=0,
                    tier=tier,
                )
    return question


def _statement(case: Case, stated: object) -> Starts | None:
    """Return what the plan says, None if that is nothing or ill-formed."""
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        case.report("shape", f"plan, start_tiers: found a {type(stated).__name__}, expected a mapping")
        return None
    sound = {}
    for kind, tiers in stated.items():
        if type(kind) is not str or kind not in KINDS:
            case.report("shape", f"plan, start_tiers: found kind {shown(kind)}, expected a kind of tensors")
        elif not isinstance(tiers, list | tuple) or not all(
            type(x) is str and x in case.tier_number for x in tiers
        ):
            case.report("shape", f"plan, start_tiers of {kind}: found {shown(tiers)}, expected tiers")
        else:
            sound[kind] = tuple(tiers)
    return sound if len(sound) == len(stated) else None
