"""Mathematical optimization for memory-aware scheduling of computation graphs."""

from __future__ import annotations

from ._version import __version__

__all__ = ["__version__"]
