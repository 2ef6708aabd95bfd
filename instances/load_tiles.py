"""One entry for every source of tensors with shapes and a scratchpad, which the problem `tiles` is about."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ..models.tile_rules import TileInstance
from .catalogue import load_tiles_entry
from .formats.mlsys import read_shapes
from .generators.tile_blocks import PARAMETERS, tile_blocks
from .options import plain_spec, typed_options
from .spec import Spec, parse_spec


def load_tiles(spec: str | os.PathLike[str], **options: object) -> TileInstance:
    """Return the instance of `tiles` that a specification names.

    Parameters
    ----------
    spec
        ``mlsys:FILE`` or the path of such a file (``.json``, ``.json.gz``), an entry of the catalogue, such
        as ``catalogue:mlsys2026/1``, or ``gen:tiles``.
    options
        Of ``gen:tiles`` (`lowtide.instances.generators.tile_blocks`); the others have none.

    Raises
    ------
    InstanceError
        If it is no such instance, or an option is unknown.

    Examples
    --------
    >>> load_tiles("catalogue:mlsys2026/1").capacity
    60000
    >>> len(load_tiles("gen:tiles?kind=attention&blocks=3").outputs)
    36
    """
    generated = parse_spec(spec)
    if f"{generated.scheme}:{generated.name}" == "gen:tiles":
        stated = Spec("gen", "tiles", {**generated.options, **{key: str(x) for key, x in options.items()}})
        values: dict[str, Any] = typed_options({**generated.options, **options}, PARAMETERS, str(stated))
        return replace(tile_blocks(**values), source=str(stated))
    parsed = plain_spec(spec, options, "mlsys")
    if parsed.scheme == "catalogue":
        return load_tiles_entry(parsed.name)
    return replace(read_shapes(parsed.name), source=str(parsed))
