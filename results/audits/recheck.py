"""A claim's plan, read and verified again: nothing but the files and the verifier is trusted."""

from __future__ import annotations

from typing import NamedTuple

from ...instances import Allocation, read_answer
from ...models.errors import InstanceError, LowtideError
from ...models.plan import Plan
from ...models.problem import Judgement, Problem
from ...models.problems import PROBLEMS
from ..sweeps.job import load_question
from .claims import Claim, Question


class Recheck(NamedTuple):
    """What came of it: a plan with its objective, or a fault, or the reason why it is unchecked.

    Attributes
    ----------
    judgement, objective
        The verdict on the plan, which is valid, and its objective as the verifier recomputed it.
    fault
        (kind, message): the plan is not what the claim says.
    unchecked
        Why it could not be verified here, such as an instance that is not at hand.
    """

    judgement: Judgement | None = None
    objective: int | None = None
    fault: tuple[str, str] | None = None
    unchecked: str | None = None


def recheck(claim: Claim, problems: dict[Question, Problem]) -> Recheck:
    """Read the plan of a claim and its instance, verify, and recompute the objective.

    Parameters
    ----------
    claim
        One with a plan.
    problems
        Those loaded before; a problem that is loaded joins them.
    """
    assert claim.plan is not None
    if claim.problem not in PROBLEMS:
        return Recheck(unchecked=f"no rule to recompute the objective of {claim.problem!r}")
    if not claim.plan.is_file():
        return Recheck(fault=("plan-missing", f"found no file {claim.plan}, expected its plan"))
    try:
        answer = read_answer(claim.plan)
    except InstanceError as error:
        return Recheck(fault=("plan-invalid", f"the plan cannot be read: {error}"))
    made_for, _ = _made_for(answer)
    if made_for not in (None, claim.sha256):
        return Recheck(fault=("plan-invalid", f"{claim.plan} is a plan for another instance"))
    try:
        problem = _problem_of(claim, answer, problems)
    except LowtideError as error:
        return Recheck(unchecked=str(error))
    return _judge(claim, answer, problem)


def _made_for(answer: Plan | Allocation) -> tuple[str | None, str | None]:
    """Return hash and source of the instance that an answer names."""
    if isinstance(answer, Plan):
        return answer.graph_sha256, answer.graph_source
    return answer.buffers_sha256, answer.buffers_source


def _judge(claim: Claim, answer: Plan | Allocation, problem: Problem) -> Recheck:
    """Verify the answer as one to the claim's problem."""
    try:
        judgement = problem.judge(problem.read(answer if isinstance(answer, Plan) else answer.offsets))
    except InstanceError as error:
        return Recheck(fault=("plan-invalid", f"the plan does not verify: {error}"))
    if judgement.violations:
        text = f"the plan does not verify: {judgement.violations[0].message}"
        return Recheck(fault=("plan-invalid", text))
    if judgement.objective != claim.objective:
        text = f"the plan's objective is {judgement.objective}, the record says {claim.objective}"
        return Recheck(fault=("objective-differs", text))
    return Recheck(judgement=judgement, objective=judgement.objective)


def _problem_of(claim: Claim, answer: Plan | Allocation, problems: dict[Question, Problem]) -> Problem:
    """Return the claim's problem, its instance from where the plan or the record says it is.

    Raises
    ------
    LowtideError
        If the instance is not there any more, or has changed.
    """
    if claim.question in problems:
        return problems[claim.question]
    refused: LowtideError | None = None
    for spec in dict.fromkeys((_made_for(answer)[1], claim.instance)):
        if spec is None:
            continue
        try:
            problem = load_question(claim.problem, spec)
        except LowtideError as error:
            refused = error
            continue
        if problem.instance.sha256 == claim.sha256:
            problems[claim.question] = problem
            return problem
        refused = InstanceError(f"instance {spec!r}: its content has changed since")
    assert refused is not None
    raise refused
