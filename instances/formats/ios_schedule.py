"""Schedules that the inter-operator scheduler IOS (MLSys 2021) publishes, as stages of a network's ops.

::

    {"blocks": [{"inner_nodes": [{"name", "hint_name", ...}], "exit_node": {...}, "stages": [[[name]]]}]}

Stages are lists of groups, groups lists of nodes. A node that merges convolutions names all of them in its
``hint_name``: they are one op of a graph with that merge (``merge=``), else they run one after another.
"""

from __future__ import annotations

from typing import Any

from ...models.errors import InstanceError
from ...models.graph import Graph
from ...models.problems.stream_answers import Stages


def is_schedule(data: Any) -> bool:
    """Return whether a JSON value is to be read as a schedule of IOS: blocks, and no format of ours."""
    return isinstance(data, dict) and "blocks" in data and "format" not in data


def stages_of(data: Any, graph: Graph, where: str) -> Stages:
    """Return the stages of a schedule.

    Parameters
    ----------
    data
        The JSON value.
    graph
        The network, as format ``ios`` reads it: an op is called by its kind and the name of its node.
    where
        What the file is called in messages.

    Raises
    ------
    InstanceError
        If it is no schedule, or one of another network.
    """
    number = {x.removeprefix(op.kind): i for i, op in enumerate(graph.ops) for x in op.name.split("+")}
    stages = []
    try:
        for block in data["blocks"]:
            nodes = [*block["inner_nodes"], block["exit_node"]]
            ops = {x["name"]: dict.fromkeys(number[y] for y in x["hint_name"].split()) for x in nodes}
            stages += [
                tuple(tuple(i for x in group for i in ops[x]) for group in some) for some in block["stages"]
            ]
    except (AttributeError, KeyError, TypeError) as error:
        raise InstanceError(
            f"{where}: found {type(error).__name__} {error}, expected a schedule of network {graph.name!r}"
        ) from None
    return Stages(stages=tuple(stages))
