"""Sums over ops and steps, collected row by row from the windows in which variables are free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Rows:
    """Linear rows 0..n-1: variables with weights, and a constant each.

    Collecting takes the time of the free variables, not of rows times ops.

    Examples
    --------
    >>> rows = Rows(3)
    >>> rows.variable(1, "y", 5)
    >>> rows.constant(1, 9, 2)
    >>> list(rows)
    [(0, [], [], 0), (1, ['y'], [5], 2), (2, [], [], 2)]
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._variables: list[list[Any]] = [[] for _ in range(n)]
        self._weights: list[list[int]] = [[] for _ in range(n)]
        self._jumps = [0] * (n + 1)

    def __len__(self) -> int:
        return self._n

    def variable(self, row: int, variable: Any, weight: int) -> None:
        """Add a weighted variable to a row; nothing if the weight is 0 or there is no such row."""
        if weight and 0 <= row < self._n:
            self._variables[row].append(variable)
            self._weights[row].append(weight)

    def constant(self, first: int, last: int, weight: int) -> None:
        """Add a constant to the rows from `first` to `last`, as far as they exist."""
        first, last = max(first, 0), min(last, self._n - 1)
        if first <= last:
            self._jumps[first] += weight
            self._jumps[last + 1] -= weight

    def __iter__(self) -> Iterator[tuple[int, list[Any], list[int], int]]:
        constant = 0
        for row in range(self._n):
            constant += self._jumps[row]
            yield row, self._variables[row], self._weights[row], constant
