"""The arrays that kernels take, contiguous; see `lowtide.solvers.engines.kernels`."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

Records = NDArray[np.void]
"""Rows of a type that `lowtide.solvers.engines.kernels.record` declares."""

Rows = Annotated[NDArray[np.int64], 2]
Rows8 = Annotated[NDArray[np.int8], 2]
"""Of two dimensions."""
