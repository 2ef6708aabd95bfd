"""Bytes of a memory over time."""

from lowtide.solvers.distributed.profile import MemoryLevel


def test_a_full_memory_has_no_room_for_twice_as_much() -> None:
    """Though what is asked for good and what is asked besides are the same."""
    level = MemoryLevel(10)
    level.change(10, 0)
    assert level.room_from(0, 3, more=3, length=5) is None
    level.change(-4, 20)
    assert level.room_from(0, 3, more=3, length=5) is None
    level.change(-2, 30)
    assert level.room_from(0, 3, more=3, length=5) == 30
    assert level.room_from(0, 3) == 20
