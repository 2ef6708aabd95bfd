"""The table of formats: its rows name functions that exist, with the options that are checked for them."""

import gzip
import inspect
import json
from collections import Counter
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances.formats import FORMATS, Format, format_of, known_endings
from tests import small_files
from tests.problems import tiles_examples


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
    own = ".csv, .csv.gz, .pickle, .pkl, .pickle.gz, -buffer-assignment.txt"
    assert known_endings(buffers=True) == f"{own}, {known_endings()}"
    with pytest.raises(lt.InstanceError, match=r"a\.csv: found no known ending, expected one of \.json"):
        lt.load("a.csv")


JSON = {
    "mlsys": tiles_examples.SPLIT,
    "iopddl": small_files.NETWORK_OF_COSTS,
    "wfcommons": small_files.WORKFLOW,
    "inductor": small_files.INDUCTOR,
    "ios": small_files.NETWORK,
    "dnn-partitioning": small_files.LAYERS,
    "piper": small_files.MODES,
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("scheme", sorted(row.name for row in FORMATS if row.keys))
def test_a_json_file_of_another_program_is_known_by_its_keys(
    scheme: str, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / ("a.json.gz" if packed else "a.json")
    content = json.dumps(JSON[scheme]).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    load = lt.load_network if scheme == "iopddl" else lt.load
    assert load(str(path)).sha256 == load(f"{scheme}:{path}").sha256
    with pytest.raises(lt.InstanceError, match="'format'"):
        lt.load(f"native:{path}")


@pytest.mark.parametrize("text", ['{"nodes": [], "edges": []}', "[1]", "{", ""])
def test_what_no_keys_tell_is_read_as_ours(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(lt.InstanceError) as ours:
        lt.load(f"native:{tmp_path / 'a.json'}")
    with pytest.raises(lt.InstanceError) as unnamed:
        lt.load(str(tmp_path / "a.json"))
    assert str(unnamed.value) == str(ours.value)
