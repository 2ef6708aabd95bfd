"""Instances: the loader for every format, the generators, the catalogue of bundled graphs."""

from ..models.files import check_writable, write_whole
from .answers import read_answer, read_hint, write_answer
from .formats.minimalloc_csv import buffers_from_csv, csv_text, read_csv, write_csv
from .formats.native import graph_from_dict, read_graph, write_graph
from .formats.native_allocation import Allocation, allocation_from_dict, read_allocation, write_allocation
from .formats.native_buffers import buffers_from_dict, read_buffers, write_buffers
from .formats.native_certificate import decode_certificate, encode_certificate, read_certificate
from .formats.native_machine import machine_from_dict
from .formats.native_plan import plan_from_dict, read_plan, write_plan
from .formats.networkx_graph import from_networkx, to_networkx
from .load import list_instances, load
from .load_buffers import LoadedBuffers, load_buffers, load_buffers_and_plan
from .load_network import load_network
from .load_plan import graph_of_plan, load_plan
from .load_tiles import load_tiles
from .machines import load_machine, machine_names
from .problems import load_problem
from .save import save
from .spec import Spec, parse_spec

__all__ = [
    "Allocation",
    "LoadedBuffers",
    "Spec",
    "allocation_from_dict",
    "buffers_from_csv",
    "buffers_from_dict",
    "check_writable",
    "csv_text",
    "decode_certificate",
    "encode_certificate",
    "from_networkx",
    "graph_from_dict",
    "graph_of_plan",
    "list_instances",
    "load",
    "load_buffers",
    "load_buffers_and_plan",
    "load_machine",
    "load_network",
    "load_plan",
    "load_problem",
    "load_tiles",
    "machine_from_dict",
    "machine_names",
    "parse_spec",
    "plan_from_dict",
    "read_allocation",
    "read_answer",
    "read_buffers",
    "read_certificate",
    "read_csv",
    "read_graph",
    "read_hint",
    "read_plan",
    "save",
    "to_networkx",
    "write_allocation",
    "write_answer",
    "write_buffers",
    "write_csv",
    "write_graph",
    "write_plan",
    "write_whole",
]
