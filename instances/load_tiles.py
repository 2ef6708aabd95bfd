"""One entry for every source of tensors with shapes and a scratchpad, which the problem `tiles` is about."""

from __future__ import annotations

import os
from dataclasses import replace

from ..models.tile_rules import TileInstance
from .catalogue import load_tiles_entry
from .formats.mlsys import read_shapes
from .options import plain_spec


def load_tiles(spec: str | os.PathLike[str], **options: object) -> TileInstance:
    """Return the instance of `tiles` that a specification names.

    Parameters
    ----------
    spec
        ``mlsys:FILE`` or the path of such a file (``.json``, ``.json.gz``), or an entry of the catalogue,
        such as ``catalogue:mlsys2026/1``.
    options
        There are none.

    Raises
    ------
    InstanceError
        If it is no such instance, or an option is given.

    Examples
    --------
    >>> load_tiles("catalogue:mlsys2026/1").capacity
    60000
    """
    parsed = plain_spec(spec, options, "mlsys")
    if parsed.scheme == "catalogue":
        return load_tiles_entry(parsed.name)
    return replace(read_shapes(parsed.name), source=str(parsed))
