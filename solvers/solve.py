"""`solve`: run a method, let the verifier judge, report the truth."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..models.checks import as_bytes, check_integer, check_seconds, check_type, shown
from ..models.errors import InstanceError, LowtideError, UsageError
from ..models.fact import Fact
from ..models.foreign_durations import warn_of_foreign_durations
from ..models.problems.problem import Judgement, Problem
from ..models.result import Result, Status
from .context import Context, Outcome, available_cores
from .engines.garbage import collected_rarely
from .engines.tried import warn_if_untried
from .judging import estimated_seconds, judging_seconds
from .method import PYOMO_SOLVER, Method, RunFunction, load, run_method
from .registry import check_freedoms, find_method, room_of, unserved

ROUNDING = 1000
"""A floating bound beyond a verified objective by one part in so many at most is rounding (4 parts in a
million were seen); by more it is a fault of the model."""

SPARE = 0.5
"""Seconds beyond the limit that judging the answer which takes no search may need: half of what a limit is
kept to."""

EXHAUSTED = "auto tried all that it has for this instance; lowtide list methods {} shows what else there is"
"""What is said where nothing better is known."""

if TYPE_CHECKING:
    from .build import Built


def solve(
    problem: Problem,
    method: str = "auto",
    *,
    time_limit: float | None = 60.0,
    seed: int = 0,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    hint: object = None,
    options: Mapping[str, str] | None = None,
    log: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
    constrain: Callable[[Built], object] | None = None,
) -> Result:
    """Solve a problem and return a verified result.

    Parameters
    ----------
    problem
        For example ``Peak(graph)`` or ``Offsets(buffers)``.
    method
        A name that ``lowtide list methods`` shows.
    time_limit
        Seconds, the verifier's own included: what judging an answer of this size takes is kept back for it
        (`lowtide.solvers.judging`). None for no limit.
    seed
        Same inputs, seed, one thread and no time limit: same result.
    threads
        For the solvers; default: the cores that this process may use.
    memory_limit
        Bytes that a solver may use, as far as the solver obeys; also as ``"8GiB"``.
    hint
        A known answer (plan, order, offsets, edges): verified, then the first incumbent.
    options
        Options of the method, or of the solver under it.
    log
        File that receives the solver's own log.
    progress
        Called with a line of text now and then.
    constrain
        A function that adds rows to the model of the method before it is solved, given what `lowtide.build`
        returns. The result then speaks of the constrained question alone (`Result.constrained`): optimal
        means optimal under these rows, infeasible that no solution of the model obeys them, and the bound is
        one among the solutions that do. The method must be one that builds a model; it starts from nothing,
        for what it knows otherwise may violate the rows.

    Returns
    -------
    Result
        ``OPTIMAL`` only if the proved bound equals the objective that the verifier recomputed.

    Raises
    ------
    UsageError
        Unknown method or option, a limit out of range.
    InstanceError
        An invalid hint.

    Warns
    -----
    ForeignDurationsWarning
        Once per question, if its durations are those of another device than its machine's.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Peak(lt.load("gen:chain?n=5&seed=1")), method="greedy")
    >>> result.status, result.verification.valid
    (<Status.FEASIBLE: 'feasible'>, True)

    A side constraint, that op 2 is the second to run:

    >>> problem = lt.Peak(lt.load("catalogue:diamond"))
    >>> def second(built):
    ...     built.model.add(built.variables["y[2][2]"] == 1)
    >>> result = lt.solve(problem, "cpsat", constrain=second)
    >>> result.order, result.constrained
    ((0, 2, 1, 3), True)
    """
    _check_arguments(problem, method, time_limit, seed, threads)
    warn_of_foreign_durations(problem)
    most_bytes = as_bytes(memory_limit, 1, "memory limit", optional=True)
    check_type(options, (Mapping, type(None)), "options", "a mapping of names to texts, or None")
    check_type(log, (str, os.PathLike, type(None)), "log", "a path or None")
    chosen = find_method(problem.name, method)
    check_freedoms(problem, chosen)
    if constrain is not None:
        chosen = chosen.with_engine_of_model()
    own, engine_options = chosen.typed(options or {})
    known = None if hint is None else _check_hint(problem, hint)
    if constrain is None:
        run = chosen.load()
    else:
        from .build import constrained

        extra = {f"option {name}": 1 for name in options or {} if name in own}
        run = constrained(problem, method, constrain, extra | ({} if hint is None else {"a hint": hint}))
    kernels = chosen.kernels
    if problem.demands:
        name, further = room_of(problem).demanded
        run, kernels = partial(load(name), run), (*kernels, *further)
    late = chosen.late and not problem.demands and constrain is None
    if constrain is None and not late:
        _compile(kernels, progress)
    if chosen.name != "auto":  # which may end without its solver
        _import_solver(chosen.engine)
    _check_engine(chosen, own, engine_options)
    with collected_rarely():
        context = Context(
            problem=problem,
            method=chosen.name,
            time_limit=time_limit,
            kept_back=judging_seconds(problem, time_limit),
            seed=seed,
            threads=threads or available_cores(),
            memory_limit=most_bytes,
            options=own,
            engine_options=engine_options,
            log=None if log is None else Path(log),
            progress=progress or (lambda line: None),
        )
        if late:
            context.prepare = partial(_compile_meanwhile, context)
        result = _run(problem, chosen, run, context, known)
    return result if constrain is None else replace(result, constrained=True)


def _compile(kernels: Sequence[str], progress: Callable[[str], None] | None) -> None:
    """Compile what does not lie on disk."""
    if kernels:
        from .engines.compilation import prepare

        prepare(kernels, progress=progress)


def _compile_meanwhile(context: Context, kernels: Sequence[str]) -> None:
    """Compile while the clock of the solve stands still."""
    began = context.clock.now()
    _compile(kernels, context.progress)
    context.clock.paused += context.clock.now() - began


def _run(problem: Problem, method: Method, run: RunFunction, context: Context, known: object) -> Result:
    """Run a method from what is known; whatever ends it, judge what it found."""
    outcome = Outcome()
    try:
        if (witness := problem.impossible()) is not None:
            return _judge(problem, method, context, Outcome(infeasible=True, detail=witness))
        if words := unserved(problem, method):
            raise UsageError(f"method {method.name}: {words}")
        if known is not None:
            context.offer(known)
        elif method.name == "auto":
            _offer_trivial(problem, context)
        outcome = run_method(run, problem, context)
        if outcome.refused:
            raise UsageError(outcome.refused)
        _raise_cheap_bound(problem, context)
    except KeyboardInterrupt:
        outcome = Outcome(reason="interrupted")
    except MemoryError:
        outcome = Outcome(reason="memory", detail="out of memory")
    except InstanceError as error:
        outcome = Outcome(reason="crash", detail=f"the method's answer is invalid: {error}")
    except LowtideError:
        raise
    except Exception as error:  # a method's defect must not lose what it found before
        logging.getLogger("lowtide").exception("method %s failed", method.name)
        outcome = Outcome(reason="crash", detail=f"{type(error).__name__}: {error}")
    return _judge(problem, method, context, outcome)


def _offer_trivial(problem: Problem, context: Context) -> None:
    """Offer what answers the problem without a search, where it is valid."""
    name, spare = room_of(problem).trivial, context.remaining() + SPARE
    if not name or problem.demands or estimated_seconds(problem) > spare:
        return
    context.careful = True
    for answer in load(name)(problem):
        context.offer(answer)
    context.careful, context.refused = False, ""


def _raise_cheap_bound(problem: Problem, context: Context) -> None:
    """Raise the bound to what takes no time to prove, if there is an answer that it may be held against."""
    cheap = room_of(problem).bound
    if not cheap or context.answer is None or context.closed:
        return
    began = context.elapsed()
    with contextlib.suppress(LowtideError):  # a machine or a graph that the bound does not know
        load(cheap)(problem, context)
    context.bound_seconds = context.elapsed() - began


def _check_arguments(
    problem: object,
    method: object,
    time_limit: object,
    seed: object,
    threads: object,
) -> None:
    """Check what any caller may get wrong, before anything is looked at."""
    room_of(problem)
    check_type(method, str, "method", "the name of a method")
    check_seconds(time_limit, "time limit")
    check_integer(seed, 0, "seed")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise UsageError(f"threads: found {shown(threads)}, expected at least 1")


def _judge(problem: Problem, method: Method, context: Context, outcome: Outcome) -> Result:
    """Lower the incumbent, have it verified, and derive the status from what was proved."""
    context.end()
    solved = context.elapsed()
    judgement = objective = None
    detail, status = outcome.detail, Status.UNKNOWN
    if context.answer is not None:
        judgement = context.judgement or problem.judge(context.answer)
        objective = judgement.objective
    if judgement is None and context.refused:
        detail = "; ".join(word for word in (detail, context.refused) if word)
    side = "below" if problem.maximize else "above"
    if context.proof == "floating" and _is_rounding(context.bound, objective, problem.maximize):
        assert objective is not None
        words = f"a solver's floating bound {context.bound} is {side} the verified objective: not taken"
        detail = "; ".join(word for word in (detail, words) if word)
        context.drop_floating(objective)
    if judgement is not None and judgement.violations:
        status, detail = Status.FAILED, f"the plan does not verify: {judgement.violations[0].message}"
    elif outcome.reason == "crash":
        status = Status.FAILED
    elif _is_beyond(context.bound, objective, problem.maximize):
        status = Status.FAILED
        detail = f"the method claims the bound {context.bound} {side} the verified objective {objective}"
    elif outcome.infeasible:
        status = Status.FAILED if judgement is not None else Status.INFEASIBLE
        detail = "claimed infeasible, but a plan verifies" if judgement is not None else detail
    elif objective is not None:
        status = Status.OPTIMAL if context.bound == objective else Status.FEASIBLE
        if status is Status.OPTIMAL and outcome.reason == "exhausted":
            detail = ""  # there is nothing more to try
    reason = None if status is Status.OPTIMAL else outcome.reason
    if method.name == "auto" and reason is None and status in (Status.FEASIBLE, Status.UNKNOWN):
        reason, detail = "exhausted", detail or EXHAUSTED.format(problem.name)
    instance = problem.instance
    return Result(
        problem=problem.name,
        method=method.name,
        instance=instance.name,
        unit=problem.unit,
        status=status,
        objective=objective,
        bound=context.bound,
        reason=reason,
        proof=context.proof,
        bound_kind=context.bound_kind,
        evidence=context.evidence,
        **_kept(judgement),
        detail=detail,
        facts={**outcome.facts, **_size(context)},
        about=_about(problem, judgement),
        seconds=_seconds(context, solved),
        trace=tuple(context.trace),
        parts=tuple(context.known.turns),
        versions=_versions(method),
        verification=None if judgement is None else judgement.verification,
        graph=getattr(problem, "graph", None),
        buffers=getattr(problem, "buffers", None),
    )


def _kept(judgement: Judgement | None) -> dict[str, Any]:
    """Return what is kept of an answer, if there is one."""
    kept = ("plan", "allocation", "edges", "strategies")
    return {} if judgement is None else {key: getattr(judgement, key) for key in kept}


def _about(problem: Problem, judgement: Judgement | None) -> tuple[Fact, ...]:
    """Return what the problem says of a valid answer; a defect there must not lose the answer."""
    if judgement is None or judgement.violations:
        return ()
    try:
        return tuple(problem.facts(judgement))
    except Exception:
        logging.getLogger("lowtide").exception("facts of %s failed", problem.name)
        return ()


def _size(context: Context) -> dict[str, int]:
    """Return the variables and constraints of the largest model that an engine was given, if any was."""
    return dict(zip(("variables", "constraints"), max(context.models, key=sum, default=()), strict=False))


def _is_beyond(bound: int | None, objective: int | None, maximize: bool) -> bool:
    """Return whether a bound contradicts a verified objective."""
    if bound is None or objective is None:
        return False
    return bound < objective if maximize else bound > objective


def _is_rounding(bound: int | None, objective: int | None, maximize: bool) -> bool:
    """Return whether a floating bound contradicts a verified objective by no more than rounding explains."""
    if bound is None or objective is None or not _is_beyond(bound, objective, maximize):
        return False
    return abs(bound - objective) * ROUNDING <= abs(objective)


def _seconds(context: Context, solved: float) -> dict[str, float]:
    """Return the wall seconds of building (if a model was built), solving, a cheap bound and verifying."""
    build, bound = context.known.build_seconds, context.bound_seconds
    return {
        **({} if build is None else {"build": build}),
        "solve": solved - (build or 0.0) - (bound or 0.0),
        **({} if bound is None else {"bound": bound}),
        "verify": context.elapsed() - solved,
    }


def _check_engine(method: Method, own: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Raise unless the solver that was chosen is there, and takes the options that are left for it.

    Raises
    ------
    UsageError
        An unknown option, or a value that the solver refuses.
    BackendUnavailable
        If Pyomo finds no such solver.
    """
    if (solver := own.get(PYOMO_SOLVER.name, PYOMO_SOLVER.default)) != PYOMO_SOLVER.default:
        from .engines.pyomo_solver import check_available

        check_available(solver)
    elif options and method.engine is not None:  # a mistyped one fails now, not only if the engine is reached
        engine = import_module(f".engines.{method.engine}", __package__)
        engine.check_options(options, tuple(own))


def _check_hint(problem: Problem, hint: object) -> Any:
    """Return the answer that a hint gives, if it verifies."""
    try:
        answer = problem.read(hint)
        if complete := room_of(problem).complete:
            answer = load(complete)(problem, answer)
    except InstanceError as error:
        raise InstanceError(f"hint: {error}") from None
    violations = problem.judge(answer).violations
    if violations:
        raise InstanceError(f"hint: {violations[0].message}")
    return answer


_SOLVERS = {"cpsat": ("ortools.sat.python.cp_model",), "highs": ("pyomo.environ", "highspy"), None: ()}


def _import_solver(engine: str | None) -> None:
    """Import the library of an engine, which takes a second; the method says so where it is missing."""
    for name in _SOLVERS[engine]:
        with contextlib.suppress(ImportError):
            import_module(name)
    for package in _PACKAGES[engine]:
        warn_if_untried(package)


_PACKAGES = {"cpsat": ("ortools",), "highs": ("pyomo", "highspy"), None: ()}


def _versions(method: Method) -> dict[str, str]:
    versions = {"lowtide": __version__, "python": platform.python_version()}
    for package in _PACKAGES[method.engine]:
        versions[package] = metadata.version(package)
    return versions | dict([method.package] if method.package else [])
