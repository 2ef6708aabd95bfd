"""A plan together with the graph that it is for."""

from __future__ import annotations

import os

from ..models.errors import InstanceError
from ..models.graph import Graph
from ..models.plan import Plan
from .formats.native_plan import read_plan
from .load import load


def load_plan(
    path: str | os.PathLike[str], graph: str | os.PathLike[str] | None = None
) -> tuple[Plan, Graph]:
    """Return the plan of a file and the graph that it names.

    Parameters
    ----------
    path
        A native plan, ``.json`` or ``.json.gz``.
    graph
        The specification of its graph, instead of the source that it names.

    Raises
    ------
    InstanceError
        If one of them is bad input, the plan does not name a graph, or the graph is not the one that the
        plan was made for.

    Examples
    --------
    >>> import os, tempfile
    >>> import lowtide as lt
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "plan.json")
    ...     lt.save(lt.solve(lt.Peak(lt.load("gen:chain?n=3")), "greedy"), path)
    ...     plan, graph = lt.load_plan(path)
    >>> lt.verify(graph, plan).valid
    True
    """
    plan = read_plan(path)
    return plan, graph_of_plan(plan, os.fspath(path), graph)


def graph_of_plan(plan: Plan, where: str = "plan", graph: str | os.PathLike[str] | None = None) -> Graph:
    """Return the graph that a plan names.

    Parameters
    ----------
    graph
        The specification of its graph, instead of the source that it names.

    Raises
    ------
    InstanceError
        If the plan does not name a graph, or the graph is bad input or not the one that the plan was made
        for.
    """
    source = plan.graph_source if graph is None else graph
    if source is None:
        raise InstanceError(f"{where}: found a plan without the source of its graph, expected one")
    loaded = load(source)
    if plan.graph_sha256 not in (None, loaded.sha256):
        raise InstanceError(
            f"{where}, graph, sha256: found {plan.graph_sha256}, expected {loaded.sha256} ({source})"
        )
    return loaded
