"""Labels in a row, cut into chunks that are merged."""

from __future__ import annotations

import numpy as np

from ....models.arrays import Integers


def chunks(count: Integers, pieces: Integers) -> Integers:
    """Return where chunks begin, and the end: of groups in a row, each cut into pieces of like length.

    Parameters
    ----------
    count
        By group, how many are in it.
    pieces
        By group, into how many pieces it is cut, at least one.

    Examples
    --------
    >>> import numpy as np
    >>> from lowtide.solvers.makespan.labels.chunks import chunks
    >>> chunks(np.array([4, 3]), np.array([2, 1])).tolist()
    [0, 2, 4, 7]
    """
    group = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(group)) - (np.cumsum(count) - count)[group]
    piece = within * pieces[group] // count[group]
    parted = (group[1:] != group[:-1]) | (piece[1:] != piece[:-1])
    return np.concatenate([[0], 1 + np.flatnonzero(parted), [len(group)]])
