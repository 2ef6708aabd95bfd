"""What verbs read: plans with graphs, allocations with buffers, run records with plans, orders as text."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..models.derived.named_ops import op_named, ops_by_name, ops_of
from ..models.errors import InstanceError, UsageError
from ..models.files import read_text

if TYPE_CHECKING:
    from ..instances import Allocation
    from ..models.buffers import Buffers
    from ..models.cost_network import CostNetwork, Strategies
    from ..models.graph import Graph
    from ..models.plan import Plan
    from ..models.result import Result


def read_plan_and_graph(path: str, graph_spec: str | None) -> tuple[Plan, Graph]:
    """Return the plan of a file and the graph that it names, or the one given instead.

    Raises
    ------
    UsageError
        If neither the plan nor the caller names a graph.
    InstanceError
        If one of them is bad input, or the graph is not the one that the plan was made for.
    """
    from ..instances import graph_of_plan, parse_spec, read_plan

    if parse_spec(path).scheme not in ("path", "native"):
        raise UsageError(f"{path}: found a graph, expected a plan, or --order FILE for an order")
    try:
        plan = read_plan(path)
    except InstanceError as error:
        hint = "; a graph needs --order FILE" if '"lowtide/graph"' in str(error) else ""
        raise InstanceError(f"{error}{hint}") from None
    if plan.graph_source is None and graph_spec is None:
        raise UsageError(f"{path}: found a plan without the source of its graph, expected --graph SPEC")
    return plan, graph_of_plan(plan, path, graph_spec)


def read_allocation_and_buffers(path: str, spec: str | None) -> tuple[Allocation, Buffers] | None:
    """Return the allocation of a file and its buffers; None if the file holds something else.

    Parameters
    ----------
    path
        An allocation, or a CSV of buffers with the column `offset`.
    spec
        The buffers, instead of those that the file names or holds.

    Raises
    ------
    InstanceError
        If one of them is bad input, or the buffers are not those that the allocation was made for.
    UsageError
        If neither the file nor the caller names the buffers.
    """
    from dataclasses import replace

    from ..instances import Allocation, load_buffers, parse_spec, read_answer
    from ..instances.answers import is_csv
    from ..instances.formats.strict_json import parse_json, read_bytes
    from ..models.errors import UsageError

    if parse_spec(path).scheme not in ("path", "native"):
        return None
    if not is_csv(path):
        data = parse_json(read_bytes(path), path)
        if not isinstance(data, dict) or data.get("format") != "lowtide/allocation":
            return None
    allocation = read_answer(path)
    assert isinstance(allocation, Allocation)
    if spec is None and is_csv(path):
        free = load_buffers(path)
        return allocation, replace(free, buffers=tuple(replace(b, offset=None) for b in free.buffers))
    source = allocation.buffers_source if spec is None else spec
    if source is None:
        raise UsageError(f"{path}: found an allocation without the source of its buffers, expected --buffers")
    buffers = load_buffers(source)
    allocation.check(buffers, path)
    return allocation, buffers


def read_strategies_and_network(path: str, spec: str | None) -> tuple[Strategies, CostNetwork] | None:
    """Return the strategies of a file and their network; None if the file holds something else.

    Parameters
    ----------
    path
        Strategies in the native format, or the contest's list alone.
    spec
        The network, instead of the one that the file names.

    Raises
    ------
    InstanceError
        If one of them is bad input, or the network is not the one that the strategies were made for.
    UsageError
        If neither the file nor the caller names the network.
    """
    from ..instances import load_network, parse_spec
    from ..instances.formats.native_strategies import strategies_from_dict
    from ..instances.formats.strict_json import is_int_list, parse_json, read_bytes
    from ..models.cost_network import Strategies

    if parse_spec(path).scheme != "path" or not path.endswith((".json", ".json.gz")):
        return None
    data = parse_json(read_bytes(path), path)
    if is_int_list(data):
        strategies = Strategies(choice=tuple(data))
    elif isinstance(data, dict) and data.get("format") == "lowtide/strategies":
        strategies = strategies_from_dict(data, path, folder=os.path.dirname(path))
    else:
        return None
    source = strategies.network_source if spec is None else spec
    if source is None:
        raise UsageError(
            f"{path}: found strategies without the source of their network, expected --graph SPEC"
        )
    network = load_network(source)
    if strategies.network_sha256 not in (None, network.sha256):
        raise InstanceError(
            f"{path}, network, sha256: found {strategies.network_sha256}, expected {network.sha256}"
        )
    return strategies, network


class Record(NamedTuple):
    """A run record, as ``solve --json`` prints it."""

    path: str
    values: Mapping[str, Any]

    @property
    def plan_path(self) -> str:
        """The record's plan: its path counts from the working folder, the record's, or its experiment's."""
        plan, folder = str(self.values["plan"]), os.path.dirname(self.path)
        places = (plan, os.path.join(folder, plan), os.path.join(folder, os.pardir, os.pardir, plan))
        return next((os.path.normpath(place) for place in places if os.path.exists(place)), plan)

    def result(self, plan: Plan, graph: Graph) -> Result:
        """Return the result that the record tells of, with its plan."""
        return result_of(plan, graph, self.values["instance"], self.values)


def result_of(plan: Plan, graph: Graph, instance: str, claim: Mapping[str, Any]) -> Result:
    """Return the result of a plan, as a run record or the plan's claim tells of it."""
    from ..models.problems import PROBLEMS
    from ..models.result import Result, Status

    problem = PROBLEMS.get(claim["problem"])
    return Result(
        problem=claim["problem"],
        method=claim["method"],
        instance=instance,
        unit="bytes" if problem is None else problem.unit,
        status=Status(claim["status"]),
        objective=claim["objective"],
        bound=claim["bound"],
        plan=plan,
        graph=graph,
    )


def read_record(path: str) -> Record | None:
    """Return the run record of a file; None if the file holds something else.

    Raises
    ------
    InstanceError
        If the file cannot be read, is no JSON, or is a run record without a plan or with wrong values.
    """
    from ..instances.formats.strict_json import parse_json, read_bytes
    from ..models.result import Status

    values = parse_json(read_bytes(path), path)
    texts, numbers = ("problem", "method", "instance", "plan"), ("objective", "bound")
    if not isinstance(values, dict) or "format" in values or not {*texts, *numbers, "status"} <= {*values}:
        return None
    if values["plan"] is None:
        raise InstanceError(f"{path}, plan: found a run record without a plan, expected solve --plan FILE")
    for key in texts:
        if not isinstance(values[key], str):
            raise InstanceError(f"{path}, {key}: found {values[key]!r}, expected a string")
    for key in numbers:
        if values[key] is not None and type(values[key]) is not int:
            raise InstanceError(f"{path}, {key}: found {values[key]!r}, expected an integer or null")
    if values["status"] not in tuple(Status):
        raise InstanceError(
            f"{path}, status: found {values['status']!r}, expected one of {', '.join(Status)}"
        )
    return Record(path, values)


def read_order(path: str, graph: Graph) -> list[int]:
    """Return the op indices of an order file, or of a plan's runs by their start.

    A text file lists the ops by index or by unique name, one a line or separated by blanks; ``#`` begins
    a comment. A name with blanks needs a line of its own. Digits are an index.

    Raises
    ------
    InstanceError
        If the file cannot be read, has a word that names no op, or several, or is the plan of another graph.
    """
    if path.endswith((".json", ".json.gz")):
        from ..instances import read_plan

        plan = read_plan(path)
        if plan.graph_sha256 not in (None, graph.sha256):
            raise InstanceError(
                f"{path}: found a plan for {plan.graph_name!r}, expected one for {graph.name!r}"
            )
        return list(ops_of(graph, plan.order, path))
    text = read_text(path, "a text file with an order")
    named = ops_by_name(graph)
    order = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = re.sub(r"(^|\s)#.*", "", line).strip()
        words = [content] if content in named else content.split()
        order += [op_named(word, named, len(graph.ops), f"{path}:{number}") for word in words]
    return order
