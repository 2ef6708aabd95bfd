"""What a problem brings to the solvers besides its methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..models.problems.problem import Problem
from .method import Method

DEMANDED = (
    ".offsets.first_come",
    ".offsets.placing_kernel",
    ".offsets.dense_kernel",
    ".offsets.squeeze_kernel",
    ".offsets.search_kernel",
)
"""Modules of the kernels that the search for addresses takes (`lowtide.solvers.offsets.demanded`)."""


class Export(NamedTuple):
    """How the model of a method is stated for other solvers.

    Parameters
    ----------
    formulation
        Module in `lowtide.formulations`; its name ends with the kind of the model, ``_milp`` or ``_cpsat``.
    data
        ``module:function``, relative to this package: from the problem to the arguments of ``build``.
    given
        Further arguments of ``build``.
    unit
        Bytes or ns of one unit of the objective: an attribute of the data, or ``module:function`` of the
        arguments of ``build``; empty: one.
    scope
        What the model is about, if its optimum is not the problem's, in words; else empty.
    for_rows
        As `data`, for a model to which rows may be added, where that is another one.
    decode
        ``module:function``: from the problem, the arguments of ``build``, the model and a function from
        variables to values to an answer; empty: the formulation's ``decode`` does that.
    """

    formulation: str
    data: str
    given: Mapping[str, object] = {}
    unit: str = "unit"
    scope: str = ""
    for_rows: str = ""
    decode: str = ""

    @property
    def engine(self) -> str:
        """The kind of model."""
        return self.formulation.rpartition("_")[2]


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
    exports
        Models that can be written, by method.
    bare
        Models of other methods, by method: ``(problem) -> (formulation, model)``, see `lowtide.solvers.bare`.
    parts
        Whether a problem falls into independent parts, of which one is exported: then the `data` of `exports`
        takes its number, too.
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
    exports: Mapping[str, Export] = field(default_factory=dict)
    bare: Mapping[str, str] = field(default_factory=dict)
    parts: bool = False
    judging: float = 10.0
    shared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        own = tuple(replace(method, problem=self.problem.name) for method in self.methods)
        object.__setattr__(self, "methods", own)
