"""The families of graphs that `lowtide.instances.generators` makes, and their parameters."""

from __future__ import annotations

from .algorithms import OF_ALGORITHMS
from .devices import ON_DEVICES
from .family import DTYPE, Family
from .networks import OF_NETWORKS
from .shapes import BY_SHAPE

__all__ = ["DTYPE", "FAMILIES", "Family"]

FAMILIES: dict[str, Family] = {**BY_SHAPE, **ON_DEVICES, **OF_ALGORITHMS, **OF_NETWORKS}
"""The families by name, with what the arguments of their functions mean."""
