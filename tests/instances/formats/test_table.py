"""The table of formats: its rows name functions that exist, with the options that are checked for them."""

import inspect
from collections import Counter

import pytest

import lowtide as lt
from lowtide.instances.formats import FORMATS, Format, format_of, known_endings


@pytest.mark.parametrize("row", FORMATS, ids=lambda row: row.name)
def test_a_reader_takes_the_options_that_are_checked_for_it(row: Format) -> None:
    _, *others = inspect.signature(row.reader).parameters.values()
    names = {p.name for p in others if p.kind is not p.VAR_KEYWORD}
    if row.checks:
        assert any(p.kind is p.VAR_KEYWORD for p in others)
    else:
        assert names == set(row.parameters)
    assert row.write == "" or list(inspect.signature(row.writer).parameters)[1] == "path"


def test_an_ending_tells_one_format() -> None:
    counts = Counter(ending for row in FORMATS for ending in row.endings)
    assert set(counts.values()) == {1}
    assert all(ending == ending.lower() for ending in counts)
    assert all(
        format_of(f"A{ending.upper()}", buffers=row.buffers) is row
        for row in FORMATS
        for ending in row.endings
    )


def test_endings_in_words() -> None:
    assert known_endings(written=True) == ".json, .json.gz, .dot, .gv, .graphml, .graphml.gz"
    assert known_endings(buffers=True) == f".csv, .csv.gz, {known_endings()}"
    with pytest.raises(lt.InstanceError, match=r"a\.csv: found no known ending, expected one of \.json"):
        lt.load("a.csv")
