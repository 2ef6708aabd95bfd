"""All attacks: plans made by hand to slip through, each with the kinds that it must be given, or none."""

from __future__ import annotations

from tests.oracles import attacks_on_memory, attacks_on_time
from tests.oracles.attack_kit import ATTACKS

for enter in (
    attacks_on_memory.at_one_instant,
    attacks_on_memory.ranges_and_versions,
    attacks_on_memory.without_bytes,
    attacks_on_time.rates,
    attacks_on_time.durations,
    attacks_on_time.order,
    attacks_on_time.periods,
):
    enter()

__all__ = ["ATTACKS"]
