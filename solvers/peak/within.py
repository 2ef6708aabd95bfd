"""Orders whose peak is within a memory: any of them will do."""

from __future__ import annotations

from dataclasses import dataclass

from ...models.problems.peak import Peak


@dataclass(frozen=True)
class Within(Peak):
    """Which order needs at most so many bytes."""

    most: int = 0

    def satisfied(self, objective: int) -> bool:
        """Return whether the order fits."""
        return objective <= self.most
