"""``lowtide export``: write the model that a method would solve, or the problem for MiniZinc or PSPLIB."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from . import problem_flags
from .files import check_outputs
from .output import emit_found
from .parser import SPEC_HELP, Parser, add_common, add_method_options, add_verb, unique, whole_number
from .progress import loading

if TYPE_CHECKING:
    from .parser import Subparsers


EXAMPLES = (
    "lowtide export peak graph.json.gz --method milp -o model.mps",
    "lowtide export peak gen:chain?n=8 --method cpsat -o model.pb.txt",
    "lowtide export offsets buffers.csv --method milp --part 0 -o model.mps",
    "lowtide export makespan graph.json --processors 4 --memory 12GiB --method cpsat -o model.pb",
    "lowtide export placement gen:skipchain?n=8 --machine v100-16g-pcie3 --method autotm-async -o model.mps",
    "lowtide export recompute graph.json --memory 50% --method checkmate -o model.lp",
    "lowtide export offsets buffers.csv -o model.mzn",
    "lowtide export makespan graph.json --processors 4 -o project.sm",
)


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "export",
        run,
        examples=EXAMPLES,
    )
    common = Parser(add_help=False)
    add_common(common)
    common.add_argument("spec", help=SPEC_HELP)
    common.add_argument(
        "--method", help="a method that builds a model, such as milp or cpsat; not for .mzn, .sm and .mm"
    )
    common.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="FILE",
        help=".mps or .lp (MILP), .pb.txt (CP-SAT); .mzn (MiniZinc) of peak, offsets and makespan; "
        ".sm and .mm (PSPLIB) of makespan",
    )
    common.add_argument(
        "--part", type=whole_number(0), metavar="K", help="offsets: of several independent parts, from 0"
    )
    add_method_options(common, "an option of the method on which its model depends")
    for _ in problem_flags.add_problems(parser, lambda: common, EXAMPLES):
        pass


def run(args: argparse.Namespace) -> int:
    """Build and write the model."""
    from ..instances import load_problem
    from ..models.units import exact_bytes
    from ..solvers.export import export_model
    from ..solvers.registry import find_method

    check_outputs({"--out": args.out}, (args.spec,))
    args.problem = problem_flags.asked_problem(args)
    if args.method is not None:
        find_method(args.problem, args.method)
    with loading(args.spec):
        problem: Any = load_problem(args.problem, args.spec, **problem_flags.given(args))
    check_outputs({"--out": args.out})
    options = unique(args.solver_option, "--solver-option")
    export_model(problem, args.method, args.out, part=args.part, options=options)
    nbytes = os.path.getsize(args.out)
    record = {"instance": problem.instance.name, "problem": args.problem}
    if args.method is not None:
        record["method"] = args.method
    rows = [*record.items(), ("written", f"{args.out}, {exact_bytes(nbytes)}")]
    emit_found(args.json, {**record, "nbytes": nbytes, "written": args.out}, rows)
    return 0
