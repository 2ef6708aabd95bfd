"""``lowtide solve pipeline … --stages N --micro M``: stages of a training step, chosen with the schedule."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .parser import refuse_useless, whole_number
from .progress import Progress

if TYPE_CHECKING:
    from ..models.derived.layers import Joint
    from ..models.problems.pipeline import Pipeline
    from ..models.result import Result
    from ..solvers.pipeline.joint import JointPlan

_USELESS = ("hint", "log", "memory_limit")
"""Flags of stages that are given."""

CHOSEN = ("cuts", "ways", "devices", "micro")
"""Options of the source that say what is decided here."""

ALL = "all stages"
"""What the bound holds for."""


def add_flags(parser: argparse._ActionsContainer) -> None:
    """Add the flags of the question."""
    parser.add_argument(
        "--stages",
        type=whole_number(1),
        metavar="N",
        help="of a training step: choose so many stages, one on each device, together with what of them runs "
        "again and the schedule, all within --memory; with a bound of the makespan of all of them",
    )
    parser.add_argument(
        "--micro", type=whole_number(1), metavar="M", help="with --stages: micro-batches, each such a step"
    )


def check_flags(args: argparse.Namespace) -> None:
    """Raise `UsageError` at flags that do not go together."""
    from ..models.errors import UsageError
    from ..solvers.registry import ROOMS

    stages, micro = (getattr(args, name, None) for name in ("stages", "micro"))
    if not ROOMS[args.problem].joint or (stages is None and micro is None):
        return
    if stages is None or micro is None:
        found, other = ("--stages", "--micro") if micro is None else ("--micro", "--stages")
        raise UsageError(f"solve: found {found} without {other}, expected both")
    refuse_useless(args, "--stages", _USELESS)
    if args.method != "auto" or args.solver_option:
        raise UsageError("solve: found a method or its options with --stages, expected auto, which chooses")
    if args.objective == "span":
        raise UsageError("solve: found --stages with --objective span, expected makespan, which is bounded")


Found = tuple["Result", float, dict[str, Any], list[tuple[str, str]]]
"""Result of the stages, seconds of loading; what the record says besides, and rows of it."""


def solved(args: argparse.Namespace, given: dict[str, object]) -> Found:
    """Choose stages, and return what is to be said of them."""
    from ..instances import load_problem
    from ..instances.transforms.staged import words_of
    from ..models.problems.pipeline import Pipeline
    from ..models.result import relative_gap
    from ..models.units import exact_value, format_gap
    from ..solvers.pipeline.joint import joint_plan

    started = time.perf_counter()
    asked = question(args, given)
    loaded = time.perf_counter() - started
    with Progress(quiet=args.quiet, always=args.progress, unit="ns") as progress:
        joint = joint_plan(
            asked,
            time_limit=args.time_limit,
            threads=args.threads,
            seed=args.seed,
            progress=progress,
        )
    seconds = time.perf_counter() - started - loaded
    cuts, ways = None, None
    if joint.result is None:
        result = _nothing(args, joint, seconds)
    else:
        cuts, ways = words_of(asked.layers, joint.ends, joint.choices)
        problem = load_problem(Pipeline, args.spec, cuts=cuts, ways=ways, micro=asked.micro, **given)
        result = _of_all(_of_source(joint.result, problem, seconds), joint)
    together: dict[str, Any] = {"stages": asked.devices, "micro": asked.micro, "cuts": cuts, "ways": ways}
    rows = [] if cuts is None or ways is None else [("cuts", cuts), ("ways", ways)]
    if joint.result is not None and (own := joint.result.bound) is not None:
        together["bound_of_these"] = own
        gap = format_gap(relative_gap(joint.result.objective, own))
        rows.append(("these cuts", f"{joint.result.status}, bound {exact_value(own, 'ns')}, gap {gap}"))
    return result, loaded, {"joint": together}, rows


def question(args: argparse.Namespace, given: dict[str, object]) -> Joint:
    """Return layers, devices, memory and latency that are asked about.

    Raises
    ------
    UsageError
        If the source says what is chosen, or has fewer layers than stages.
    """
    from ..instances import load, load_problem
    from ..instances.spec import Spec, parse_spec
    from ..models.derived.layers import Joint
    from ..models.derived.training_layers import training_layers
    from ..models.errors import UsageError
    from ..models.problems.pipeline import Pipeline

    spec = parse_spec(args.spec)
    if said := [name for name in CHOSEN if name in spec.options]:
        raise UsageError(
            f"{args.spec}: found {said[0]} with --stages, which chooses it, expected it left out"
        )
    own = {key: text for key, text in spec.options.items() if key not in Pipeline.parameters}
    layers = training_layers(load(str(Spec(spec.scheme, spec.name, own)))).layers
    if len(layers) < args.stages:
        raise UsageError(
            f"{args.spec}: found {len(layers)} layers, expected at least {args.stages} for --stages"
        )
    # One stage of all layers has the memory and the latency that the source or flags say.
    alone = load_problem(Pipeline, args.spec, cuts=len(layers), micro=args.micro, **given)
    if alone.objective != "makespan":
        raise UsageError(f"{args.spec}: found objective={alone.objective} with --stages, expected makespan")
    return Joint(
        layers=layers,
        devices=args.stages,
        micro=args.micro,
        memory=alone.memory,
        latency_ns=alone.latency_ns,
    )


def _of_source(result: Result, problem: Pipeline, seconds: float) -> Result:
    """Return a result on stages with the source that they are loaded from, and the seconds of the search."""
    assert result.plan is not None
    plan = replace(result.plan, graph_name=problem.graph.name, graph_source=problem.graph.source)
    spent = {**result.seconds, "solve": seconds - result.seconds.get("verify", 0.0)}
    return replace(result, instance=problem.instance.name, plan=plan, graph=problem.graph, seconds=spent)


def _of_all(result: Result, joint: JointPlan) -> Result:
    """Return a result with what is proved of all stages, not of those that were chosen alone."""
    from ..models.result import Status

    closed = result.objective == joint.bound
    return replace(
        result,
        status=Status.OPTIMAL if closed else Status.FEASIBLE,
        reason=None if closed else joint.reason or "exhausted",
        bound=joint.bound,
        proof=None if joint.bound is None else "exact",
        bound_kind=None if joint.bound is None else ALL,
    )


def _nothing(args: argparse.Namespace, joint: JointPlan, seconds: float) -> Result:
    """Return the result where there is no plan, or none was found."""
    from ..models.result import Result, Status

    result = Result(
        problem="pipeline",
        method="auto",
        instance=f"{args.spec} in {args.stages} stages",
        unit="ns",
        status=Status.INFEASIBLE,
        detail="no stages are within the memory",
        seconds={"solve": seconds},
    )
    if joint.bound is None:
        return result
    return replace(
        result,
        status=Status.UNKNOWN,
        reason=joint.reason or "exhausted",
        bound=joint.bound,
        proof="exact",
        bound_kind=ALL,
        detail="" if joint.reason else "found no stages of which a rule has a schedule within the memory",
    )
