"""What is on record about questions: the claims of run records.

A *question* is an instance (by its hash) and a problem. A *claim* is what one record says about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...instances.formats.strict_json import show
from ...models.errors import InstanceError
from ...models.problems import PROBLEMS
from ...models.result import Status

Question = tuple[str, str]
"""Hash of the instance, name of the problem."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A plan, an allocation or a certificate out of a file of witnesses: where it stands, its JSON object."""

    where: str
    data: Mapping[str, Any]

    def __str__(self) -> str:
        return self.where


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one record says about a question.

    Attributes
    ----------
    source, name
        The file or folder that it stands in, and its name there.
    instance, sha256, problem
        The question; the instance as `lowtide.results.sweeps.job.load_question` takes it, where known.
    objective, bound
        None if absent.
    proof
        That of the bound: "exact" or "floating"; None if not stated.
    verified
        Whether the objective is the verifier's.
    plan
        The file of its plan, or the plan out of a file of witnesses, or None.
    certificate
        The proof of its bound, likewise.
    made
        How the plan of a witness is made again where it is too large to be kept.
    parameters
        The options of the method, by name.
    again
        Whether it is a row of a method that gives the same objective whenever it runs again.
    witness
        Whether it stands in a file of witnesses, and is no row itself.
    table
        The name of the committed table (one beside a ``tables.toml``) that it is a row of, or None.
    date
        The day of the run, ISO, or None.
    version
        Of the package that ran, or None.
    by
        Who submitted it; None: the suite.
    """

    source: str
    name: str
    instance: str
    sha256: str
    problem: str
    method: str
    status: Status
    objective: int | None = None
    bound: int | None = None
    proof: str | None = None
    verified: bool = True
    plan: Path | Packed | None = None
    certificate: Path | Packed | None = None
    made: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    again: bool = False
    witness: bool = False
    table: str | None = None
    date: str | None = None
    version: str | None = None
    by: str | None = None

    @property
    def question(self) -> Question:
        """What it is about."""
        return self.sha256, self.problem

    def __str__(self) -> str:
        return f"{self.source}: {self.name} ({self.method})"


def claim_of(
    record: Mapping[str, Any], source: str, name: str, folder: Path, table: str | None = None
) -> Claim | None:
    """Return the claim of a record; None if it names no instance by hash, or is of a model with added rows.

    Paths in it count from `folder`.

    Raises
    ------
    InstanceError
        If a value is not what it must be.
    """
    sha256 = record.get("instance_sha256")
    if sha256 is None or record.get("constrained"):
        return None
    texts = {"instance_sha256": sha256, **{k: record.get(k) for k in ("instance", "problem", "method")}}
    texts["instance"] = record.get("spec") or texts["instance"]
    for key, value in texts.items():
        if not isinstance(value, str):
            raise InstanceError(f"{key}: found {show(value)}, expected a string")
    if record.get("status") not in tuple(Status):
        raise InstanceError(
            f"status: found {show(record.get('status'))}, expected one of {', '.join(Status)}"
        )
    for key in ("objective", "bound"):
        if record.get(key) is not None and type(record[key]) is not int:
            raise InstanceError(f"{key}: found {show(record[key])}, expected an integer or null")
    started, proof = record.get("started"), record.get("certificate")
    if isinstance(proof, Mapping):
        proof = proof.get("document", proof.get("path"))
    return Claim(
        source=source,
        name=name,
        instance=texts["instance"],
        sha256=sha256,
        problem=texts["problem"],
        method=texts["method"],
        status=Status(record["status"]),
        objective=record.get("objective"),
        bound=record.get("bound"),
        proof=record.get("proof"),
        verified=record.get("verified", record.get("objective") is not None) is True,
        plan=_kept(record.get("plan"), folder, f"{source}: {name}"),
        certificate=_kept(proof, folder, f"{source}: {name}, certificate"),
        made=record.get("made"),
        parameters=record.get("parameters") or {},
        again=record.get("again") is True,
        table=table,
        date=started[:10] if isinstance(started, str) else None,
        version=record.get("version"),
        by=record.get("by"),
    )


def _kept(item: object, folder: Path, where: str) -> Path | Packed | None:
    """Return a file by its name, or what a witness brings along."""
    if isinstance(item, Mapping):
        return Packed(where, item)
    return folder / item if isinstance(item, str) else None


def best(claims: Sequence[Claim]) -> Claim | None:
    """Return a claim with the best objective, if one has any."""
    answered = [c for c in claims if c.objective is not None]
    if not answered:
        return None
    return (max if is_maximized(answered[0].problem) else min)(answered, key=lambda c: c.objective or 0)


def is_maximized(problem: str) -> bool:
    """Return whether larger objectives of a problem are better, and its bounds upper ones."""
    return problem in PROBLEMS and PROBLEMS[problem].maximize


def is_beyond(bound: int, objective: int, problem: str) -> bool:
    """Return whether a proved bound and a verified objective cannot both be right."""
    return bound < objective if is_maximized(problem) else bound > objective


def unit_of(problem: str) -> str:
    """Return the unit of a problem's objective; empty for a problem that is not known here."""
    return PROBLEMS[problem].unit if problem in PROBLEMS else ""
