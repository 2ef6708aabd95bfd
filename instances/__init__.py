"""Instances: the loader for every format, the generators, the catalogue of bundled graphs."""

from ..models.files import check_writable, write_whole
from .load import list_instances, load
from .native import graph_from_dict, read_graph, write_graph
from .native_machine import machine_from_dict
from .native_plan import plan_from_dict, read_plan, write_plan
from .networkx_graph import from_networkx, to_networkx
from .save import save
from .spec import Spec, parse_spec

__all__ = [
    "Spec",
    "check_writable",
    "from_networkx",
    "graph_from_dict",
    "list_instances",
    "load",
    "machine_from_dict",
    "parse_spec",
    "plan_from_dict",
    "read_graph",
    "read_plan",
    "save",
    "to_networkx",
    "write_graph",
    "write_plan",
    "write_whole",
]
