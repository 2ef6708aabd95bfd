"""What methods that make streams have in common."""

from __future__ import annotations

from ...models.errors import UsageError
from ...models.problems.streams import Streams


def refuse_stages(problem: Streams) -> None:
    """Raise a `UsageError` if the contention prices stages."""
    if problem.device.staged:
        raise UsageError(
            f"contention: found {problem.contention!r}, which prices stages, expected none or proportional"
        )
