"""Run a plan of a traced network on tensors, and print what was predicted and measured.

    python -m lowtide.instances.torch_import.running PLAN.json [--module FILE.py:FUNCTION] [--iterations N]
        [--seed N] [--json]

The plan's graph is traced again, by the specification in its provenance: it is one of ``torch:NAME?…``
with ``train=1`` and ``weights=1``, or a file that was made of one. Of another module ``--module`` names the
function that makes it (`lowtide.instances.torch_import.own_module`). Names of functions in files of graphs
are not followed, since that would run whatever they name.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from ....models.errors import InstanceError, LowtideError, UsageError
from ....models.texts import one_line
from ....models.units import exact_bytes, format_duration
from ...load_plan import load_plan
from ...spec import parse_spec
from .. import record_torch
from ..errors import one_line_errors
from ..own_module import is_own_module, own_recorder
from ..tracing import require_device

if TYPE_CHECKING:
    from ....models.graph import Graph
    from ..recording import Step
    from .run import Comparison


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out what the command line says; 1 if the memory or a result is not what it must be."""
    try:
        return _main(arguments)
    except LowtideError as error:
        print(f"lowtide: {one_line(str(error))}", file=sys.stderr)
        return 2


def _main(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("plan", help="a native plan, as lowtide solve --plan writes it")
    parser.add_argument("--graph", help="the specification of its graph, instead of the source that it names")
    parser.add_argument(
        "--module",
        metavar="FILE.py:FUNCTION",
        help="what makes the module, as for measure; else the graph is one of torch:",
    )
    parser.add_argument("--iterations", type=int, default=1, metavar="N", help="how often (default 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights, inputs and dropout")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default cpu")
    parser.add_argument("--json", action="store_true", help="print one object")
    args = parser.parse_args(arguments)
    if args.iterations < 1:
        raise UsageError(f"--iterations: found {args.iterations}, expected an integer >= 1")
    require_device(args.device, "running")
    plan, graph = load_plan(args.plan, args.graph)
    recorded = _recorder(args, graph)
    from .run import run_plan

    with one_line_errors(f"run of {args.plan}"):
        step = recorded()
        found = run_plan(step, plan, graph, iterations=args.iterations, seed=args.seed)
    print(json.dumps(asdict(found)) if args.json else _text(found))
    return 0 if found.same_profile and not found.differing else 1


def _recorder(args: argparse.Namespace, graph: Graph) -> Callable[[], Step]:
    """Return what records the step of a graph."""
    if args.module is not None:
        if not is_own_module(args.module):
            raise UsageError(
                f"--module: found {args.module!r}, expected FILE.py:FUNCTION or package.module:function"
            )
        return own_recorder(args.module, seed=args.seed, device=args.device)
    if (named := graph.provenance.get("module")) is not None:
        raise InstanceError(f"{args.plan}: found a plan for a module, expected --module {named}")
    spec = parse_spec(str(graph.provenance.get("source", graph.source)))
    if spec.scheme != "torch":
        raise InstanceError(
            f"{args.plan}: found a plan for {str(spec)!r}, expected one for torch:NAME?train=1, or --module"
        )
    options: dict[str, Any] = dict(spec.options)
    return partial(record_torch, spec.name, seed=args.seed, device=args.device, **options)


def _text(found: Comparison) -> str:
    """Return the comparison for people."""
    lines = [f"{found.graph} on {found.device}"]
    for tier, predicted in found.predicted_peaks.items():
        measured = found.measured_peaks[tier]
        lines.append(f"peak {tier}: predicted {exact_bytes(predicted)}, measured {exact_bytes(measured)}")
    lines.append(f"memory at every instant: {'as predicted' if found.same_profile else 'not as predicted'}")
    times = (found.predicted_ns, found.operators_ns, found.measured_ns)
    lines.append("time: predicted {}, operators {}, in all {}".format(*map(format_duration, times)))
    if found.differing is not None:
        other = ", ".join(found.differing[:5])
        lines.append(
            f"results: {f'other bits in {other}' if other else 'bit by bit those of the eager step'}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
