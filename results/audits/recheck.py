"""A claim's plan and certificate, read and verified again: only the files and the verifier are trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from ...instances import Allocation, read_answer, read_certificate
from ...instances.answers import answer_from_dict
from ...instances.formats.native_certificate import decode_certificate
from ...models.certificate import Certificate
from ...models.cost_network import Strategies
from ...models.errors import InstanceError, LowtideError
from ...models.flow_proof import FlowProof, ParallelSetting
from ...models.plan import Plan
from ...models.problems import PROBLEMS
from ...models.problems.memory_edges import Edges
from ...models.problems.problem import Judgement, Problem
from ...models.verifier.certificate import verify_certificate
from ..sweeps.job import load_question
from .claims import Claim, Packed, Question


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

    The answer to `memory-edges` is in the claim's certificate: its edges, and the flow that they need.

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
    if isinstance(claim.plan, Path) and not claim.plan.is_file():
        return Recheck(fault=("plan-missing", f"found no file {claim.plan}, expected its plan"))
    try:
        answer = (
            answer_from_dict(claim.plan.data, claim.plan.where)
            if isinstance(claim.plan, Packed)
            else read_answer(claim.plan)
        )
    except InstanceError as error:
        return Recheck(fault=("plan-invalid", f"the plan cannot be read: {error}"))
    sha256, source = made_for(answer)
    try:
        problem = problem_of(claim, problems, source)
    except LowtideError as error:
        return Recheck(unchecked=str(error))
    if sha256 not in (None, hash_of(problem, answer)):
        return Recheck(fault=("plan-invalid", f"{claim.plan} is a plan for another instance"))
    if problem.answers != "edges":
        return _judge(claim, answer.offsets if isinstance(answer, Allocation) else answer, problem)
    if claim.certificate is None:
        return Recheck(unchecked="the plan has no flow, which a certificate would have")
    certificate = _read_certificate(claim, problem)
    if isinstance(certificate, Recheck):
        return certificate
    if not isinstance(certificate.proof, FlowProof) or not isinstance(certificate.setting, ParallelSetting):
        return Recheck(fault=("plan-invalid", f"{claim.certificate} has no flow, expected one"))
    return _judge(claim, Edges(edges=certificate.setting.edges, flow=certificate.proof), problem)


def recheck_bound(claim: Claim, problems: dict[Question, Problem]) -> Recheck:
    """Read the certificate of a claim and its instance, and confirm that it proves the claim's bound.

    `Recheck.objective` is then the bound that the certificate proves.

    Parameters
    ----------
    claim
        One with a certificate and a bound.
    problems
        Those loaded before; a problem that is loaded joins them.
    """
    assert claim.certificate is not None
    try:
        problem = problem_of(claim, problems)
    except LowtideError as error:
        return Recheck(unchecked=str(error))
    certificate = _read_certificate(claim, problem)
    if isinstance(certificate, Recheck):
        return certificate
    graph = getattr(problem, "graph", None)
    if graph is None:
        return Recheck(fault=("certificate-invalid", f"found one for {claim.problem}, which has none"))
    verdict = verify_certificate(graph, certificate)
    if not verdict.valid:
        return Recheck(fault=("certificate-invalid", f"the certificate does not hold: {verdict.witness}"))
    proved = certificate.bound
    aim, above = problem.proposition(claim.bound)
    if aim is None or (proved > aim if above else proved < aim):
        text = f"the certificate proves {'at most' if above else 'at least'} {proved}, expected {aim}"
        return Recheck(fault=("bound-differs", text))
    return Recheck(objective=proved)


def problem_of(claim: Claim, problems: dict[Question, Problem], *sources: str | None) -> Problem:
    """Return the claim's problem, its instance from where the record says it is, or from another source.

    Raises
    ------
    LowtideError
        If the instance is not there any more, or has changed.
    """
    if claim.question in problems:
        return problems[claim.question]
    refused: LowtideError | None = None
    for spec in dict.fromkeys((claim.instance, *sources)):
        if spec is None:
            continue
        try:
            problem = load_question(claim.problem, spec)
        except LowtideError as error:
            refused = refused or error
            continue
        if problem.instance.sha256 == claim.sha256:
            problems[claim.question] = problem
            return problem
        refused = refused or InstanceError(f"instance {spec!r}: its content has changed since")
    assert refused is not None
    raise refused


def _read_certificate(claim: Claim, problem: Problem) -> Certificate | Recheck:
    """Return the certificate, one for the problem and its setting, or what is wrong with it."""
    path = claim.certificate
    assert path is not None
    if isinstance(path, Path) and not path.is_file():
        return Recheck(fault=("certificate-missing", f"found no file {path}, expected its certificate"))
    try:
        if isinstance(path, Packed):
            certificate = decode_certificate(json.dumps(path.data).encode(), path.where)
        else:
            certificate = read_certificate(path)
    except InstanceError as error:
        return Recheck(fault=("certificate-invalid", f"the certificate cannot be read: {error}"))
    if certificate.setting != problem.setting(getattr(certificate.setting, "edges", ())):
        return Recheck(fault=("certificate-invalid", f"{path} is a certificate for another question"))
    return certificate


def made_for(answer: Plan | Allocation | Strategies) -> tuple[str | None, str | None]:
    """Return hash and source of what an answer names: a graph, buffers or a network."""
    if isinstance(answer, Plan):
        return answer.graph_sha256, answer.graph_source
    if isinstance(answer, Strategies):
        return answer.network_sha256, answer.network_source
    return answer.buffers_sha256, answer.buffers_source


def hash_of(problem: Problem, answer: Plan | Allocation | Strategies) -> str:
    """Return the hash that an answer to the problem names."""
    graph = problem.plan_graph
    return graph.sha256 if isinstance(answer, Plan) and graph is not None else problem.instance.sha256


def _judge(claim: Claim, answer: object, problem: Problem) -> Recheck:
    """Verify the answer as one to the claim's problem."""
    try:
        judgement = problem.judge(problem.read(answer))
    except InstanceError as error:
        return Recheck(fault=("plan-invalid", f"the plan does not verify: {error}"))
    if judgement.violations:
        text = f"the plan does not verify: {judgement.violations[0].message}"
        return Recheck(fault=("plan-invalid", text))
    if judgement.objective != claim.objective:
        text = f"the plan's objective is {judgement.objective}, the record says {claim.objective}"
        return Recheck(fault=("objective-differs", text))
    return Recheck(judgement=judgement, objective=judgement.objective)
