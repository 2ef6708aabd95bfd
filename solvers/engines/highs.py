"""HiGHS: run a Pyomo MILP under the limits of a context, with trace, warm start and honest bounds.

highspy is driven directly, because Pyomo's interfaces pass on no callbacks (hence no trace and no
Ctrl-C), `contrib.solver` takes no warm start and swallows unknown options.

Bounds are floating point: what HiGHS reports of linear programs that hold within tolerances. With
m = 1e-6 + 1e-9 |bound|, ceil(bound - m) is reported, proof "floating"; m is the stated margin for rounding
errors underneath, not a proof. An optimum is claimed only where that integer meets the verified objective of
an answer: never where a model's objective exceeds 10^9 units, as m is a unit or more there, unless an exact
bound says so too. Models of large numbers are solved in other units (`highs_scaling`). Of these

- bounds count less one part in 10^5, so that only objectives below 10^5 units are called optimal;
- answers count once the verifier has found them valid: rows may be broken by less than a tolerance, but by
  many bytes. For HiGHS such an answer is one more, so that the bound holds all the same.

That a model has no solution is HiGHS's word.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...models.errors import UsageError
from ..context import Context, Outcome
from . import highs_scaling
from .highs_scheduler import run_in_turn
from .logs import check_log
from .supervise import Supervisor, guarded
from .tried import quiet_highs

Value = Callable[[Any], float]

_LARGEST_SEED = 2**31 - 1
"""The largest seed that HiGHS takes, a 32-bit integer with a sign."""


def margin(bound: float) -> float:
    """Return what is taken off a floating bound before it is rounded up."""
    return 1e-6 + 1e-9 * abs(bound)


def integer_bound(bound: float) -> int | None:
    """Return the integer bound that a floating one stands for, or None if there is none."""
    return math.ceil(bound - margin(bound)) if math.isfinite(bound) else None


def solve_highs(
    model: Any,
    context: Context,
    *,
    decode: Callable[[Value], Any],
    to_objective: Callable[[int], int],
    settings: Mapping[str, str] | None = None,
    exact: bool = False,
) -> Outcome:
    """Run HiGHS on a Pyomo model that minimizes an integer linear objective.

    Parameters
    ----------
    model
        A linear ``ConcreteModel``. If every variable has a value, the values are the warm start.
    context, decode, to_objective
        As for `lowtide.solvers.engines.cpsat.solve_cpsat`; so is what is returned and raised.
    settings
        Further options of the solver, as text; those of the context override them.
    exact
        Whether `decode` tries each row in integers, so that no answer needs a verifier.
    """
    highs = quiet_highs()
    _set_options(highs, context, settings or {})
    passed = _pass_model(highs, model, lambda: context.expired)
    if passed is None or context.expired:
        return Outcome(reason="time", detail="HiGHS was not started: no time was left")
    variables, scales = passed
    context.careful |= scales.scaled and not exact
    column = {id(variable): k for k, variable in enumerate(variables)}
    context.models.append((highs.getNumCol(), highs.getNumRow()))
    supervisor = Supervisor(context)
    given = {*context.engine_options, *(settings or {})}

    def read(values: Any) -> None:
        found = (np.asarray(list(values)) * scales.columns).tolist()
        answer = decode(lambda variable: found[column[id(variable)]])
        if answer is not None:
            context.offer(answer)
        if context.closed:
            highs.cancelSolve()

    def take_bound(value: float) -> None:
        bound = integer_bound(scales.bound(value))
        if bound is not None:
            context.raise_bound(to_objective(bound), "floating", kind="HiGHS")
        if context.closed:
            highs.cancelSolve()

    on_solution = supervisor.callback(read)
    on_bound = supervisor.callback(take_bound)
    highs.HandleUserInterrupt = True
    highs.cbMipImprovingSolution.subscribe(lambda event: on_solution(event.data_out.mip_solution))
    highs.cbMipInterrupt.subscribe(lambda event: on_bound(event.data_out.mip_dual_bound))

    crashes: list[str] = []
    work = guarded(
        lambda: run_in_turn(
            highs,
            context.remaining,
            limit="time_limit" not in given,
            silent=not {"output_flag", "log_to_console"} & given,
        ),
        crashes,
    )
    supervisor.run(work, highs.cancelSolve)
    if supervisor.abandoned:
        return Outcome(
            reason=supervisor.reason,
            detail="HiGHS did not stop when asked; it was abandoned and still runs until the process ends",
        )
    if crashes:
        return Outcome(reason="crash", detail=f"HiGHS failed: {crashes[0]}")
    return _outcome(highs, context, supervisor, read, take_bound)


def _outcome(
    highs: Any,
    context: Context,
    supervisor: Supervisor,
    read: Callable[[Any], None],
    take_bound: Callable[[float], None],
) -> Outcome:
    from highspy import HighsModelStatus, HighsVarType, SolutionStatus

    status, info = highs.getModelStatus(), highs.getInfo()
    detail = f"HiGHS: {highs.modelStatusToString(status)}{supervisor.remark}"
    if status == HighsModelStatus.kInfeasible:
        return Outcome(infeasible=True, detail=detail)
    if info.valid and info.primal_solution_status == SolutionStatus.kSolutionStatusFeasible:
        read(highs.getSolution().col_value)
    integers = any(kind == HighsVarType.kInteger for kind in highs.getLp().integrality_)
    if info.valid and integers and status != HighsModelStatus.kNotset:
        take_bound(info.mip_dual_bound)
    elif info.valid and not integers and status == HighsModelStatus.kOptimal:
        take_bound(info.objective_function_value)  # of a linear program the other one is 0
    if context.closed:
        return Outcome(detail=detail)
    reason = supervisor.reason
    if reason is None:
        reason = {
            HighsModelStatus.kTimeLimit: "time",
            HighsModelStatus.kNotset: "time",
            HighsModelStatus.kMemoryLimit: "memory",
        }.get(status)
    errors = (
        HighsModelStatus.kLoadError,
        HighsModelStatus.kModelError,
        HighsModelStatus.kPresolveError,
        HighsModelStatus.kSolveError,
        HighsModelStatus.kPostsolveError,
    )
    return Outcome(reason="crash" if status in errors else reason, detail=detail)


def check_options(options: Mapping[str, str], own: Sequence[str] = ()) -> None:
    """Raise `UsageError` if HiGHS has no option of such a name, or refuses the value.

    `own` are the names of the method's own options, which a mistyped one may mean.
    """
    highs = quiet_highs()
    for name, text in options.items():
        _set_option(highs, name, text, own)


def _set_options(highs: Any, context: Context, settings: Mapping[str, str]) -> None:
    highs.setOptionValue("threads", context.threads)
    highs.setOptionValue("random_seed", context.seed % _LARGEST_SEED)
    highs.setOptionValue("mip_rel_gap", 0.0)
    # The objective is an integer: below a gap of 1 it is exact, if the margin of the bound is small.
    small = context.incumbent is not None and margin(context.incumbent) < 0.25
    highs.setOptionValue("mip_abs_gap", 0.5 if small else 0.0)
    for name, text in {**settings, **context.engine_options}.items():
        _set_option(highs, name, text)
    if context.log is not None:
        check_log(context.log)
        highs.setOptionValue("log_to_console", False)
        highs.setOptionValue("log_file", str(context.log))
        highs.setOptionValue("output_flag", True)


def _set_option(highs: Any, name: str, text: str, own: Sequence[str] = ()) -> None:
    from highspy import HighsOptions, HighsStatus

    status, kind = highs.getOptionType(name)
    if status != HighsStatus.kOk:
        known = [x for x in dir(HighsOptions()) if not x.startswith("_")]
        near = difflib.get_close_matches(name, [*own, *known], n=3, cutoff=0.6)
        expected = f"did you mean {' or '.join(near)}?" if near else "expected an option of HiGHS"
        raise UsageError(f"solver option: found {name!r}, {expected}")
    value, expected = _typed(text.strip(), str(kind.name))
    if value is None or highs.setOptionValue(name, value) != HighsStatus.kOk:
        raise UsageError(f"solver option {name}: found {text!r}, expected {expected} that HiGHS takes")


def _typed(text: str, kind: str) -> tuple[bool | int | float | str | None, str]:
    """Return the value of an option's text, None if it is of another type; and the type in words."""
    if kind == "kBool":
        words = {"true": True, "1": True, "yes": True, "on": True}
        words |= {"false": False, "0": False, "no": False, "off": False}
        return words.get(text.lower()), "true or false"
    if kind == "kString":
        return text, "a text"
    convert, words_for = (int, "an integer") if kind == "kInt" else (float, "a number")
    try:
        return convert(text), words_for
    except ValueError:
        return None, words_for


def objective_of(model: Any) -> Any:
    """Return the expression that a Pyomo model minimizes, whatever its objective is called."""
    from pyomo.environ import Objective

    (objective,) = model.component_data_objects(Objective, active=True)
    return objective.expr


def read_program(
    model: Any, expired: Callable[[], bool]
) -> tuple[list[Any], highs_scaling.ScaledProgram] | None:
    """Return the variables of a Pyomo model and its linear program, or None if the time is up."""
    from pyomo.environ import Constraint, Var, value
    from pyomo.repn import generate_standard_repn

    variables = list(model.component_data_objects(Var))
    column = {id(variable): k for k, variable in enumerate(variables)}
    infinity = math.inf
    lower, upper, starts, indices, coefficients = [], [], [0], [], []
    for k, row in enumerate(model.component_data_objects(Constraint, active=True)):
        if k % 1000 == 0 and expired():
            return None
        linear = generate_standard_repn(row.body)
        shift = value(linear.constant)
        lower.append(-infinity if row.lower is None else value(row.lower) - shift)
        upper.append(infinity if row.upper is None else value(row.upper) - shift)
        indices += [column[id(variable)] for variable in linear.linear_vars]
        coefficients += linear.linear_coefs
        starts.append(len(indices))
    linear = generate_standard_repn(objective_of(model))
    costs = np.zeros(len(variables))
    costs[[column[id(variable)] for variable in linear.linear_vars]] = linear.linear_coefs
    program = highs_scaling.ScaledProgram(
        costs=costs,
        offset=float(value(linear.constant)),
        lower=np.array([-infinity if x.lb is None else x.lb for x in variables], dtype=float),
        upper=np.array([infinity if x.ub is None else x.ub for x in variables], dtype=float),
        integer=np.array([not x.is_continuous() for x in variables], dtype=bool),
        row_lower=np.array(lower, dtype=float),
        row_upper=np.array(upper, dtype=float),
        starts=np.array(starts, dtype=np.int64),
        indices=np.array(indices, dtype=np.int64),
        factors=np.array(coefficients, dtype=float),
    )
    return variables, program


def _pass_model(
    highs: Any, model: Any, expired: Callable[[], bool]
) -> tuple[list[Any], highs_scaling.Scales] | None:
    """Give the model to HiGHS, scaled; return its variables and the scales, or None if the time is up."""
    import highspy

    read = read_program(model, expired)
    if read is None:
        return None
    variables, program = read
    scales = highs_scaling.scale(program)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(variables), len(program.row_lower)
    lp.offset_ = program.offset
    lp.col_cost_ = program.costs
    lp.col_lower_, lp.col_upper_ = program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = program.starts.astype(np.int32)
    lp.a_matrix_.index_ = program.indices.astype(np.int32)
    lp.a_matrix_.value_ = program.factors
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if x else kinds.kContinuous for x in scales.integer.tolist()]
    if scales.scaled:
        _, gap = highs.getOptionValue("mip_abs_gap")
        highs.setOptionValue("mip_abs_gap", gap / scales.objective)
        for name in ("mip_feasibility_tolerance", "primal_feasibility_tolerance"):
            highs.setOptionValue(name, min(highs_scaling.TOLERANCE, highs.getOptionValue(name)[1]))
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise RuntimeError("HiGHS refuses the model")
    start = [x.value for x in variables]
    if all(x is not None for x in start):
        solution = highspy.HighsSolution()
        solution.col_value = (np.array(start, dtype=float) / scales.columns).tolist()
        highs.setSolution(solution)
    return variables, scales
