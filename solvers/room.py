"""What a problem brings to the solvers besides its methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..models.problems.problem import Problem
from .method import Export, Method

DEMANDED = (
    ".offsets.first_come",
    ".offsets.placing_kernel",
    ".offsets.dense_kernel",
    ".offsets.squeeze_kernel",
    ".offsets.search_kernel",
)
"""Modules of the kernels that the search for addresses takes (`lowtide.solvers.offsets.demanded`)."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """A problem's room in this package; the table `methods` of each problem's folder has one.

    Functions are named as in `Method.run`, and loaded when they are first used.

    Parameters
    ----------
    problem
        The problem.
    methods
        Its methods, in the order in which they are listed; the room fills in their problem.
    certify
        Proves once more what a result claims: ``(problem, result, context) -> Certified``; see
        `lowtide.solvers.certify`.
    bound
        Raises the bound to what is proved in no time, also when the time is up: ``(problem, context)``. For
        methods that found an answer and may have proved little: their gap then means something.
    trivial
        Yields answers that take no search, such as all ops in one stage: ``(problem) -> answers``. `auto`
        begins with those that the verifier finds valid; a room whose `auto` has an answer as soon needs none.
    complete
        Adds to a hint what it lacks: ``(problem, answer) -> answer``.
    demanded
        Runs a method for a problem that demands more of answers than methods know (`Problem.demands`):
        ``(run, problem, context) -> Outcome``; and the modules of the kernels that this takes beside.
    trade_off
        Sweeps its memory, as `lowtide.sweep_memory` does.
    largest
        Whether graphs can be too large to have an answer, so that `lowtide.solvers.largest` finds the largest
        number that one can be made with.
    ideal
        The time that its `target` is a multiple of, if any: ``(problem) -> ns``.
    declared
        What each of its methods serves: a mapping from names to `lowtide.solvers.parts.Part`.
    traits
        Returns the traits of a problem of which these declarations speak: ``(problem) -> enum.Flag``.
    merges
        Chooses which ops to merge, as `lowtide.solvers.streams.merging.best_merges` does.
    joint
        Whether `lowtide.solvers.pipeline.joint` chooses its stages with the schedule.
    bare
        Models of other methods, by method: ``(problem) -> (formulation, model)``, see `lowtide.solvers.bare`.
    parts
        Whether a problem falls into independent parts, of which one is exported: then the `data` of models
        takes its number, too.
    files
        Texts that state the problem without a method, by suffix: ``(problem) -> text``. The module of
        ``.mzn`` also has ``answer``: ``(problem, values) -> answer``, see `lowtide.formulations.minizinc`.
    judging
        Microseconds of the verifier for each op and access of the graph, and each buffer; what is measured of
        them stands in `lowtide.solvers.judging`.
    shared
        Folders of other problems beside this one that its methods use.
    """

    problem: type[Problem]
    methods: tuple[Method, ...]
    certify: str = ""
    bound: str = ""
    trivial: str = ""
    complete: str = ""
    demanded: tuple[str, tuple[str, ...]] = ("", ())
    trade_off: str = ""
    largest: bool = False
    ideal: str = ""
    declared: str = ""
    traits: str = ""
    merges: str = ""
    joint: bool = False
    bare: Mapping[str, str] = field(default_factory=dict)
    parts: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    judging: float = 10.0
    shared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        own = tuple(replace(method, problem=self.problem.name) for method in self.methods)
        object.__setattr__(self, "methods", own)

    @property
    def exports(self) -> Mapping[str, Export]:
        """How models are stated, by the names of the methods that declare one."""
        return {method.name: method.model for method in self.methods if method.model is not None}
