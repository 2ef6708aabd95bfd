"""Certificates from exhaustive passes over executed sets: every state within the limit, and its free op.

A pass (`lowtide.solvers.peak.search.beam`) under the limit one byte below the bound, which fails without
having dropped a set, is written down level by level. What that proves is in
`lowtide.models.verifier.proofs.states`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....models.verifier.proofs.states import SetLevel, StatesProof
from ..search.beam import LARGEST, PLAIN_STEPS, largest
from ..search.compiled_pass import compiled_pass
from ..search.plain_pass import plain_pass
from ..search.state_space import StateSpace
from .ends import OutOfMemory, TooHigh

WIDEST = 2**40
"""Levels may be as large as memory and effort allow."""

BYTES_PER_STATE = 150
"""Of one state that is written down."""


def prove_by_states(
    space: StateSpace, bound: int, most: int, expired: Callable[[], bool], nbytes: int
) -> StatesProof | None:
    """Return the states that walks below a bound in bytes can reach; None if that takes more effort or time.

    Parameters
    ----------
    space
        The states of a graph with ops, in one direction.
    most
        Give up after so many steps.
    expired
        Asked now and then; give up when it holds.
    nbytes
        What it may hold.

    Raises
    ------
    OutOfMemory
        If it would hold more.
    TooHigh
        If an order stays below the bound.
    """
    levels, count = list[SetLevel](), 0

    def record(parents: Any, ops: Any, free: Any) -> None:
        nonlocal count
        count += len(free)
        if count * BYTES_PER_STATE > nbytes // 2:
            raise OutOfMemory
        levels.append(
            SetLevel(
                parents=_tuple(parents),
                ops=_tuple(ops),
                free=tuple(None if v < 0 else v for v in _tuple(free)),
            )
        )

    if most <= PLAIN_STEPS or largest(space) >= LARGEST:
        result = plain_pass(space, bound - 1, WIDEST, expired, exhaustive=True, most=most, record=record)
    else:
        result = compiled_pass(
            space, bound - 1, WIDEST, expired, exhaustive=True, most=most, nbytes=nbytes // 2, record=record
        )
    if result.out_of_memory:
        raise OutOfMemory
    if result.order is not None:
        raise TooHigh
    if result.bound is None:
        return None
    return StatesProof(backward=space.backward, levels=tuple(levels))


def _tuple(values: Any) -> tuple[int, ...]:
    return tuple(np.asarray(values, dtype=np.int64).tolist())
