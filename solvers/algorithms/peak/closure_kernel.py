"""Maximum closures, compiled: the functions of `closure_flow` on arrays of 64-bit integers."""

from __future__ import annotations

from numba import njit

from . import closure_flow

fix = njit(cache=True, nogil=True)(closure_flow.fix)
advance = njit(cache=True, nogil=True)(closure_flow.advance)
