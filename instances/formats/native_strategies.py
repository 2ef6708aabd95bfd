"""The native file of strategies, the answer to `sharding`; what it is for stands beside the contest's list.

::

    {"format": "lowtide/strategies", "version": 1, "network": {"name", "source", "sha256"},
     "strategies": [0, 2, ...]}
"""

from __future__ import annotations

import os
from typing import Any

from ...models.cost_network import Strategies
from ...models.files import write_packed
from ..spec import relative_spec, resolved_spec
from .strict_json import (
    REFERENCE,
    SIZE,
    TEXT,
    Field,
    check_header,
    check_object,
    dump_json,
    is_int_list,
    is_object,
    required,
)

_STRATEGIES = {
    "format": required(TEXT),
    "version": required(SIZE),
    "network": required(Field(is_object, "an object")),
    "strategies": required(Field(is_int_list, "a list of integers")),
}


def strategies_from_dict(data: Any, where: str = "strategies", *, folder: str = "") -> Strategies:
    """Return the strategies of a native JSON object.

    Parameters
    ----------
    folder
        From where a relative path in the source of the network counts.

    Raises
    ------
    InstanceError
        If it is not exactly of the format. Whether there are such strategies is the verifier's question.
    """
    check_header(data, "strategies", where)
    check_object(data, _STRATEGIES, where)
    network = data["network"]
    check_object(network, REFERENCE, f"{where}, network")
    source = network.get("source")
    return Strategies(
        choice=tuple(data["strategies"]),
        network_name=network.get("name", ""),
        network_source=None if source is None else resolved_spec(source, folder),
        network_sha256=network.get("sha256"),
    )


def write_strategies(strategies: Strategies, path: str | os.PathLike[str]) -> None:
    """Write strategies in the native format; gzipped if the name ends in ``.gz``.

    Raises
    ------
    UsageError
        If the path cannot be written.
    """
    source, folder = strategies.network_source, os.path.dirname(os.fspath(path))
    network = {
        "name": strategies.network_name,
        "source": None if source is None else relative_spec(source, folder),
        "sha256": strategies.network_sha256,
    }
    data = {
        "format": "lowtide/strategies",
        "version": 1,
        "network": network,
        "strategies": [*strategies.choice],
    }
    write_packed(path, dump_json(data, ()))
