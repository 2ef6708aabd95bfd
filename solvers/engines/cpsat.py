"""CP-SAT: run a model under the limits of a context, and report nothing that was not proved.

Values and bounds are read from a response only if it has a solution (after UNKNOWN CP-SAT returns
garbage without an error); before that the callbacks have reported them. ``repr`` of variables and
``Proto()`` crash in ortools 9.15 and are not used.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...models.errors import UsageError
from ..context import Context, Outcome
from .logs import check_log
from .supervise import Supervisor, guarded

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

Value = Callable[[Any], int]

_LARGEST_SEED = 2**31 - 1
"""The largest seed that CP-SAT takes, a 32-bit integer with a sign."""

NARROW = {"presolve_inclusion_work_limit": "0"}
"""Parameters where sums of a row leave 32 bits. The presolve of CP-SAT 9.15 adds up the factors of literals
of which at most one holds in 32 bits, and then loses optima; this leaves that part of it out."""

LOOK = 1000
"""Rows of a model between two looks at the clock."""

WITHOUT_SYMMETRIES = {"symmetry_level": "0"}
"""Parameters after CP-SAT threw an exception of its own: the search for symmetries of 9.15 does so on some
models (``absl::btree_map::at``)."""


def solve_cpsat(
    model: CpModel,
    context: Context,
    *,
    decode: Callable[[Value], Any],
    to_objective: Callable[[int], int],
    defaults: Mapping[str, str] | None = None,
) -> Outcome:
    """Run CP-SAT on a model that minimizes; incumbents and bounds go to the context as they come.

    Parameters
    ----------
    model
        With an integer objective, to be minimized.
    context
        Limits, seed, threads, log, engine options; the solver stops when its bound meets its incumbent.
    decode
        Returns the answer of a solution, given a function from variables to values; None if it has none.
    to_objective
        Turns a value of the model's objective into one of the problem's.
    defaults
        Solver parameters that suit the model, as text; options of the context override them.

    Returns
    -------
    Outcome
        Why it ended; see `Outcome`.

    Raises
    ------
    UsageError
        An unknown option, a value that the solver refuses, or a log file that cannot be written.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    narrow = NARROW if _is_wide(model, lambda: context.expired) else {}
    set_parameters(solver.parameters, context, {**narrow, **(defaults or {})})
    if context.expired:
        return Outcome(reason="time", detail="CP-SAT was not started: no time was left")
    if problem := model.validate():
        raise RuntimeError(f"invalid CP-SAT model: {problem}")
    context.models.append((len(model.proto.variables), len(model.proto.constraints)))
    supervisor = Supervisor(context)

    def on_solution(value: Value) -> None:
        if (answer := decode(value)) is not None:
            context.offer(answer)
        if context.closed:
            solver.stop_search()

    def on_bound(value: float) -> None:
        if math.isfinite(value):
            context.raise_bound(to_objective(_integer(value)), kind="CP-SAT")
        if context.closed:
            solver.stop_search()

    class OnSolution(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            take_solution(self.value)

    take_solution = supervisor.callback(on_solution)
    solver.best_bound_callback = supervisor.callback(on_bound)
    status: list[Any] = []
    crashes: list[str] = []
    with _open_log(context) as log:
        if log is not None:
            solver.parameters.log_search_progress = True
            solver.log_callback = supervisor.callback(lambda text: print(text, file=log))
        callback = OnSolution()
        work = guarded(lambda: status.append(solver.solve(model, callback)), crashes)
        supervisor.run(work, solver.stop_search)
    if supervisor.abandoned:
        return Outcome(
            reason=supervisor.reason,
            detail="CP-SAT did not stop when asked; it was abandoned and still runs until the process ends",
        )
    if (
        crashes
        and not context.closed
        and "symmetry_level" not in {**(defaults or {}), **context.engine_options}
    ):
        settings = {**(defaults or {}), **WITHOUT_SYMMETRIES}
        outcome = solve_cpsat(model, context, decode=decode, to_objective=to_objective, defaults=settings)
        return replace(outcome, detail=f"{outcome.detail}, without symmetries after {crashes[0]}")
    if crashes:
        return Outcome(reason=None if context.closed else "crash", detail=f"CP-SAT failed: {crashes[0]}")
    return _outcome(solver, status[0], context, supervisor, on_solution, to_objective)


def _outcome(
    solver: Any,
    status: Any,
    context: Context,
    supervisor: Supervisor,
    on_solution: Callable[[Value], None],
    to_objective: Callable[[int], int],
) -> Outcome:
    from ortools.sat.python import cp_model

    detail = f"CP-SAT: {status.name}{supervisor.remark}"
    if status == cp_model.MODEL_INVALID:
        if context.engine_options:
            raise UsageError(f"solver options: CP-SAT refuses them: {solver.solution_info()}")
        raise RuntimeError(f"invalid CP-SAT model: {solver.solution_info()}")
    if status == cp_model.INFEASIBLE:
        return Outcome(infeasible=True, detail=detail)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        on_solution(solver.value)
        context.raise_bound(to_objective(_integer(solver.best_objective_bound)), kind="CP-SAT")
    if context.closed or status == cp_model.OPTIMAL:
        return Outcome(detail=detail)
    return Outcome(reason=supervisor.reason or _own_reason(context), detail=detail)


def _integer(bound: float) -> int:
    """Return the integer that CP-SAT's bound stands for; from 2^53 on, where doubles round, one below it."""
    return round(bound if abs(bound) < 2**53 else math.nextafter(bound, -math.inf))


def _own_reason(context: Context) -> str | None:
    """Return why CP-SAT stopped by itself, which it does not say (None: a limit among its options).

    It may stop well before its time limit, if the next step of presolve would pass it.
    """
    if any("max_" in name or "limit" in name for name in context.engine_options):
        return "time" if context.expired else None
    if context.time_limit is not None:
        return "time"
    return None if context.memory_limit is None else "memory"


def set_parameters(parameters: Any, context: Context, defaults: Mapping[str, str]) -> None:
    """Set limits, seed and threads, then the model's defaults, then the user's options.

    Raises
    ------
    UsageError
        An unknown name (with the nearest ones) or a value of the wrong type.
    """
    parameters.num_workers = context.threads
    parameters.random_seed = context.seed % _LARGEST_SEED
    parameters.relative_gap_limit = 0.0
    parameters.absolute_gap_limit = 0.0
    parameters.catch_sigint_signal = False  # Ctrl-C is the supervisor's
    parameters.log_to_stdout = False
    if context.time_limit is not None:
        parameters.max_time_in_seconds = context.remaining()
    if context.memory_limit is not None:
        parameters.max_memory_in_mb = max(1, context.memory_limit // 2**20)
    for name, text in {**defaults, **context.engine_options}.items():
        if not parameters.merge_text_format(_assignment(name, text)):
            raise UsageError(f"solver option {name}: found {text!r}, expected one that CP-SAT takes")


def _is_wide(model: CpModel, expired: Callable[[], bool] = lambda: False) -> bool:
    """Return whether a row with literals has terms that differ by 2^31 or more in sum over their domains.

    Of a cumulative or a reservoir, which presolve may turn into such rows: all that is demanded or changed.
    """
    proto = model.proto
    ends = [(some[0], some[-1]) for some in (list(x.domain) for x in proto.variables)]
    spans = [high - low for low, high in ends]
    for k, row in enumerate(proto.constraints):
        if k % LOOK == 0 and expired():
            return False  # the model is not solved
        total = 0
        if row.has_linear():
            some = [spans[max(x, -x - 1)] for x in row.linear.vars]
            if 1 in some:
                total = sum(abs(c) * span for c, span in zip(row.linear.coeffs, some, strict=True))
        elif row.has_cumulative() or row.has_reservoir():
            terms = row.cumulative.demands if row.has_cumulative() else row.reservoir.level_changes
            for term in terms:
                total += abs(term.offset)
                total += sum(
                    abs(c) * max(map(abs, ends[x])) for x, c in zip(term.vars, term.coeffs, strict=True)
                )
        if total >= 2**31:
            return True
    return False


def check_options(options: Mapping[str, str], own: Sequence[str] = ()) -> None:
    """Raise `UsageError` if CP-SAT has no parameter of such a name, or of another type.

    `own` are the names of the method's own options, which a mistyped one may mean.
    """
    for name, text in options.items():
        _assignment(name, text, own)


def _assignment(name: str, text: str, own: Sequence[str] = ()) -> str:
    """Return ``name: value`` in the text format of protocol buffers."""
    from ortools.sat.sat_parameters_pb2 import SatParameters

    fields = SatParameters.DESCRIPTOR.fields_by_name
    if name not in fields:
        near = difflib.get_close_matches(name, [*own, *fields], n=3, cutoff=0.6)
        expected = f"did you mean {' or '.join(near)}?" if near else "expected a field of SatParameters"
        raise UsageError(f"solver option: found {name!r}, {expected}")
    field = fields[name]
    if field.message_type is not None:
        raise UsageError(f"solver option {name}: found {text!r}, expected an option that is no message")
    items = [x.strip() for x in text.split(",") if x.strip()] if field.is_repeated else [text.strip()]
    return " ".join(f"{name}: {_typed(name, item, field)}" for item in items)


def _typed(name: str, text: str, field: Any) -> str:
    """Return the value in text format, or raise `UsageError`."""
    if field.cpp_type == field.CPPTYPE_BOOL:
        words = {"true": "true", "1": "true", "yes": "true", "on": "true"}
        words |= {"false": "false", "0": "false", "no": "false", "off": "false"}
        if text.lower() in words:
            return words[text.lower()]
        raise _wrong(name, text, "true or false")
    if field.cpp_type == field.CPPTYPE_ENUM:
        if text.upper() in field.enum_type.values_by_name:
            return text.upper()
        raise _wrong(name, text, f"one of {', '.join(field.enum_type.values_by_name)}")
    if field.cpp_type == field.CPPTYPE_STRING:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        try:
            return repr(float(text))
        except ValueError:
            raise _wrong(name, text, "a number") from None
    bits = 31 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 63
    try:
        number = int(text)
    except ValueError:
        raise _wrong(name, text, "an integer") from None
    if not -(2**bits) <= number < 2**bits:
        raise _wrong(name, text, f"an integer of {bits + 1} bits")
    return str(number)


def _wrong(name: str, text: str, expected: str) -> UsageError:
    return UsageError(f"solver option {name}: found {text!r}, expected {expected}")


def _open_log(context: Context) -> Any:
    """Return the log file, opened, or None; a context manager either way."""
    if context.log is None:
        return nullcontext()
    check_log(context.log)
    return open(context.log, "w", encoding="utf-8", buffering=1)
