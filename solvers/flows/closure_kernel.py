"""Maximum closures, compiled: the functions of `closure_flow` on arrays of 64-bit integers."""

from __future__ import annotations

from ..engines.kernels import kernel
from . import closure_flow

fix = kernel(closure_flow.fix)
advance = kernel(closure_flow.advance)
