"""Answers to questions of the library that are better than the best known become records.

A record is a file ``ID-OBJECTIVE.json`` in the folder ``plans`` beside the best-known files: a run record
with who submitted it, the plan itself and the certificate itself, if there is one. ``lowtide audit`` verifies
both again. A bound counts only with a certificate that the checker confirms.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..._version import __version__
from ...instances import Allocation, read_answer
from ...instances.answers import is_answer, is_csv
from ...instances.formats.strict_json import located, parse_json, read_bytes
from ...instances.spec import parse_spec
from ...models.errors import InstanceError, UsageError
from ...models.files import write_whole
from ...models.plan import Plan
from ...models.problems.problem import Problem
from ...models.result import Status
from ..audits.best_known import FOLDER, read_best_known, write_best_known
from ..audits.claims import Claim, Packed, Question, claim_of
from ..audits.improvements import Better, improved
from ..audits.recheck import hash_of, made_for, recheck_bound
from ..audits.witnesses import witness_of
from ..sweeps.job import load_question
from ..sweeps.record import machine, now
from ..tables.store import read_records
from .sets import LibraryEntry, find_entry, sets

PLANS = "plans"
"""The folder of the records, beside the best-known files."""


class Submission(NamedTuple):
    """What was better than the best known, the files of the records, and in words what was not better."""

    changes: list[Better]
    files: list[Path]
    not_better: list[str]


def submit(
    paths: Sequence[str],
    by: str,
    *,
    question: str | None = None,
    certificate: str | None = None,
    best_known: str | os.PathLike[str] = FOLDER,
) -> Submission:
    """Verify answers, and write those that are better than the best known: all of them or none.

    Parameters
    ----------
    paths
        Plans, allocations and strategies, and folders of experiments.
    by
        Who submits.
    question
        The identifier of the question that a plan answers; None: the one that the plan's source and claim
        name.
    certificate
        A file that proves a bound on the question of a plan.
    best_known
        What is improved: a best-known file, or a folder of them.

    Raises
    ------
    InstanceError
        If an answer that would be better does not verify, or a certificate does not hold.
    UsageError
        If a path is no answer to a question of the library.
    """
    entries = {(e.sha256, one_set.problem): e for one_set in sets() for e in one_set.entries}
    known = read_best_known(best_known)
    records = [record for path in paths for record in _records(path, question, certificate)]
    problems: dict[Question, Problem] = {}
    claims: dict[int, Claim] = {}
    for i, record in enumerate(records):
        folder = Path(record.get("folder", "."))
        claim = claim_of({**record, "by": by}, str(folder), str(record["name"]), folder)
        if claim is not None and claim.objective is not None and claim.question in entries:
            claims[i] = _proved(claim, problems)
    if not claims:
        raise UsageError(f"{paths[0]}: found no answer to a question of the library; lowtide library list")
    better, done = improved(known, claims.values())
    if done.refused:
        raise InstanceError(done.refused[0])
    files: dict[Path, bytes] = {}
    not_better = []
    for i, claim in claims.items():
        entry, old = entries[claim.question], known.get(claim.question)
        marks = [(side, getattr(better[claim.question], side)) for side in ("objective", "bound")]
        given = [(side, mark) for side, mark in marks if getattr(claim, side) is not None]
        if any(
            mark != getattr(old, side, None) and mark.value == getattr(claim, side) for side, mark in given
        ):
            status = Status.OPTIMAL if claim.objective == claim.bound else Status.FEASIBLE
            shown = {"instance": entry.spec, "status": status, "bound": claim.bound, "by": by}
            kept = witness_of({**records[i], **shown}, _content(claim.plan), _content(claim.certificate))
            path = _folder(best_known) / f"{entry.id}-{claim.objective}.json"
            files.setdefault(path, (json.dumps({"name": entry.id, **kept}) + "\n").encode())
            continue
        not_better += [
            f"{entry.id}: {side} {getattr(claim, side):,} of {claim.method}, best known {mark.value:,}"
            for side, mark in given
        ]
    if files:
        _folder(best_known).mkdir(exist_ok=True)
        for path, content in files.items():
            write_whole(path, content)
        write_best_known(better, best_known)
    return Submission(done.changes, [*files], not_better)


def _folder(best_known: str | os.PathLike[str]) -> Path:
    path = Path(best_known)
    return (path if path.is_dir() else path.parent) / PLANS


def _records(path: str, question: str | None, certificate: str | None) -> Iterator[dict[str, Any]]:
    """Yield the run records of an experiment, or one of a plan."""
    if os.path.isdir(path):
        yield from read_records(path)
    elif is_csv(path) or is_answer(path):
        yield _record(path, question, certificate)
    else:
        raise UsageError(f"{path}: found neither a plan nor an allocation nor the folder of an experiment")


def _record(path: str, question: str | None, certificate: str | None) -> dict[str, Any]:
    """Return the run record of a plan: what the verifier says of it."""
    answer = read_answer(path)
    claim = answer.claim if isinstance(answer, Plan) else None
    problem, entry = _asked(path, answer, None if claim is None else claim.problem, question)
    with located(f"{path}: the plan does not verify"):
        judgement = problem.judge(problem.read(answer.offsets if isinstance(answer, Allocation) else answer))
    if judgement.violations:
        raise InstanceError(f"{path}: the plan does not verify: {judgement.violations[0].message}")
    plan = answer.to_dict() if is_csv(path) and isinstance(answer, Allocation) else path
    return {
        "name": entry.id,
        "instance": entry.spec,
        "instance_sha256": entry.sha256,
        "problem": problem.name,
        "method": "unknown" if claim is None else claim.method,
        "status": "feasible",
        "objective": judgement.objective,
        "bound": None if claim is None else claim.bound,
        "verified": True,
        "version": __version__,
        "started": now(),
        "machine": machine(),
        "plan": plan,
        "certificate": certificate,
    }


def _asked(path: str, answer: Any, problem: str | None, question: str | None) -> tuple[Problem, LibraryEntry]:
    """Return the question that an answer is for: the one that is named, or that of its graph."""
    sha256, source = made_for(answer)
    if question is not None:
        one_set, entry = find_entry(question)
        return load_question(one_set.problem, entry.spec), entry
    matches = []
    base = None if source is None else parse_spec(source)
    for one_set in sets():
        for entry in one_set.entries if problem in (None, one_set.problem) else ():
            spec = parse_spec(entry.spec)
            if base is not None and (spec.scheme, spec.name) == (base.scheme, base.name):
                stated = load_question(one_set.problem, entry.spec)
                if hash_of(stated, answer) == sha256:
                    matches.append((stated, entry))
    if len(matches) != 1:
        ids = ", ".join(entry.id for _, entry in matches) or "none"
        raise UsageError(
            f"{path}: found questions of the library that it may answer: {ids}; expected --id ID"
        )
    return matches[0]


def _proved(claim: Claim, problems: dict[Question, Problem]) -> Claim:
    """Return a claim with its bound if a certificate proves it, else without one."""
    if claim.bound is None or claim.certificate is None:
        return replace(claim, bound=None, proof=None)
    proof = recheck_bound(claim, problems)
    if proof.objective is None:
        raise InstanceError(f"{claim}: {proof.unchecked if proof.fault is None else proof.fault[1]}")
    return replace(claim, proof="exact")


def _content(kept: Path | Packed | None) -> Any:
    """Return the JSON object of a plan or a certificate, None if there is none."""
    if isinstance(kept, Packed):
        data: Mapping[str, Any] = kept.data
        return dict(data)
    return None if kept is None else parse_json(read_bytes(kept), str(kept))
