"""Sizes that people read and write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.models.errors import UsageError
from lowtide.models.units import BINARY, format_bytes, format_duration, format_gap, parse_bytes
from tests.effort import many


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1025, "1.00 KiB"),
        (31749648, "30.28 MiB"),
        (150 * 2**20 + 1, "150.0 MiB"),
        (2**60, "1024 PiB"),
    ],
)
def test_sizes_are_shown_in_binary_units(nbytes: int, text: str) -> None:
    assert format_bytes(nbytes) == text


@given(st.integers(1, 10**6), st.sampled_from(BINARY))
@many(100)
def test_whole_sizes_are_read_back(number: int, unit: str) -> None:
    assert parse_bytes(f"{number} {unit}") == number * 1024 ** BINARY.index(unit)


@pytest.mark.parametrize(
    ("text", "nbytes"), [("4096", 4096), ("1.5GB", 15 * 10**8), ("0.5kib", 512), (" 2 TiB ", 2**41)]
)
def test_sizes_are_exact(text: str, nbytes: int) -> None:
    assert parse_bytes(text) == nbytes


@pytest.mark.parametrize("text", ["", "GiB", "-1", "0", "0.3B", "1e9", "4 GiBs", "1,5 GB", "nan", "٣"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        parse_bytes(text)


def test_a_small_gap_is_not_shown_as_none() -> None:
    assert [format_gap(g) for g in (0.0, 1e-9, 0.5, None)] == ["0 %", "1.0e-07 %", "50.00 %", "unknown"]


def test_durations_are_shown_in_the_unit_that_suits() -> None:
    shown = [format_duration(ns) for ns in (0, 999, 1500, 2 * 10**6, 3 * 10**9)]
    assert shown == ["0 ns", "999 ns", "1.5 µs", "2 ms", "3 s"]
