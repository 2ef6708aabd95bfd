"""One entry for every source of networks, which the problem `sharding` is about."""

from __future__ import annotations

import os

from ..models.cost_network import CostNetwork
from .catalogue import load_network_entry
from .formats.iopddl import read_iopddl
from .options import plain_spec


def load_network(spec: str | os.PathLike[str], **options: object) -> CostNetwork:
    """Return the network that a specification names.

    Parameters
    ----------
    spec
        ``iopddl:FILE`` or the path of such a file (``.json``, ``.json.gz``), or an entry of the catalogue,
        such as ``catalogue:iopddl/G``.
    options
        There are none.

    Raises
    ------
    InstanceError
        If it is no network, or an option is given.

    Examples
    --------
    >>> load_network("catalogue:iopddl/example")
    CostNetwork('example', 5 nodes, 5 edges, 9 strategies, limit 50)
    """
    parsed = plain_spec(spec, options, "iopddl")
    if parsed.scheme == "catalogue":
        return load_network_entry(parsed.name)
    return read_iopddl(parsed.name)
