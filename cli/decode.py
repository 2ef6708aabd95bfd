"""``lowtide decode``: read another solver's solution of an exported model, and have it verified."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from . import problem_flags
from .files import check_outputs
from .output import emit_found
from .parser import SPEC_HELP, Parser, add_common, add_method_options, add_verb, unique, whole_number
from .progress import loading

if TYPE_CHECKING:
    from .parser import Subparsers

EXAMPLES = [
    "lowtide export peak graph.json.gz --method milp -o model.mps",
    "glpsol model.mps -o solution.txt                # or: cbc model.mps solve solu solution.txt",
    "lowtide decode peak graph.json.gz solution.txt --method milp --plan plan.json",
    "lowtide export offsets buffers.csv -o model.mzn",
    "minizinc model.mzn -o solution.txt              # or: minizinc --output-mode json model.mzn ...",
    "lowtide decode offsets buffers.csv solution.txt --plan allocation.json",
]


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb, and a parser of its own for each problem."""
    parser = add_verb(
        subparsers,
        "decode",
        run,
        details="The answer is judged by the verifier; what the other solver proved is not known here. "
        "Read are the files of HiGHS, Gurobi, SCIP, CBC and glpsol, and CP-SAT's response as text; without "
        "--method MiniZinc's output, as text or JSON.",
        examples=EXAMPLES,
    )
    common = Parser(add_help=False)
    add_common(common)
    common.add_argument("spec", help=SPEC_HELP)
    common.add_argument("solution", metavar="FILE", help="the solution, values by name")
    common.add_argument("--method", help="the method whose model was exported; not for MiniZinc")
    common.add_argument("--part", type=whole_number(0), metavar="K", help="offsets: the exported part")
    common.add_argument("--plan", metavar="FILE", help="where to write the plan or the allocation")
    add_method_options(common, "an option of the method on which its model depends")
    for _ in problem_flags.add_problems(parser, lambda: common, EXAMPLES):
        pass


def run(args: argparse.Namespace) -> int:
    """Decode and verify."""
    from ..instances import load_problem, write_answer
    from ..models.errors import UsageError
    from ..models.result import Status
    from ..models.units import exact_value
    from ..solvers.build import build
    from ..solvers.texts import read_minizinc

    check_outputs({"--plan": args.plan}, (args.spec, args.solution))
    args.problem = problem_flags.asked_problem(args)
    with loading(args.spec):
        problem: Any = load_problem(args.problem, args.spec, **problem_flags.given(args))
    options = unique(args.solver_option, "--solver-option")
    if args.method is not None:
        result = build(problem, args.method, part=args.part, options=options).read(args.solution)
    elif options or args.part is not None:
        raise UsageError("decode: found no method, expected that of the exported part or options")
    else:
        result = read_minizinc(problem, args.solution)
    valid = result.status is Status.FEASIBLE
    rows = [("instance", result.instance), ("problem", result.problem), ("method", result.method)]
    if result.objective is not None:
        rows.append(("objective", exact_value(result.objective, result.unit)))
    rows.append(("verified", "valid" if valid else result.detail))
    if valid and args.plan is not None:
        write_answer(result, args.plan)
        rows.append(("written", args.plan))
    emit_found(args.json, result.record(args.plan if valid else None), rows)
    return 0 if valid else 1
