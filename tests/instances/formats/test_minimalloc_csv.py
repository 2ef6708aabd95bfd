"""MiniMalloc's CSV: every column and alias, what is refused, and round trips."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.instances import buffers_from_csv, csv_text, read_csv, write_csv
from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.models.errors import InstanceError, UsageError
from tests.effort import many
from tests.oracles.naive_allocation import random_buffers

EVERYTHING = Buffers(
    buffers=(
        Buffer(
            id='conv, 1 "x"',
            lower=0,
            upper=9,
            size=8,
            alignment=4,
            offset=4,
            hint=0,
            gaps=(Gap(1, 2), Gap(3, 5, 2, 6)),
            pool="gpu",
        ),
        Buffer(id="2", lower=3, upper=4, size=0),
    ),
    name="all",
)
TEXT = '''\
id,lower,upper,size,alignment,hint,gaps,offset,pool
"conv, 1 ""x""",0,9,8,4,0,1-2 3-5@2:6,4,gpu
2,3,4,0,1,-1,,-1,
'''


def test_all_columns() -> None:
    assert csv_text(EVERYTHING) == TEXT
    assert buffers_from_csv(TEXT, name="all") == EVERYTHING


def test_columns_in_any_order_with_blanks_bom_crlf_and_blank_lines_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_bytes(b"\xef\xbb\xbfsize, upper,id,lower\r\n4, 3,x,0\r\n8,5,y,2\r\n\r\n  \r\n")
    x, y = Buffer(id="x", lower=0, upper=3, size=4), Buffer(id="y", lower=2, upper=5, size=8)
    assert read_csv(path) == Buffers(buffers=(x, y), name="set")


def test_last_line_without_an_end_and_no_rows() -> None:
    assert len(buffers_from_csv("id,lower,upper,size\nx,0,3,4").buffers) == 1
    assert buffers_from_csv("id,lower,upper,size").buffers == ()


@pytest.mark.parametrize("lower", ["lower", "begin", "start"])
@pytest.mark.parametrize("name", ["id", "buffer", "buffer_id"])
def test_aliases(name: str, lower: str) -> None:
    (x,) = buffers_from_csv(f"{name},{lower},upper,size\nx,1,3,4\n").buffers
    assert x == Buffer(id="x", lower=1, upper=3, size=4)


def test_end_is_inclusive_also_in_gaps() -> None:
    (x,) = buffers_from_csv("buffer,start,end,size,gaps\nx,1,8,4,2-3 5-5@1:2\n").buffers
    assert x == Buffer(id="x", lower=1, upper=9, size=4, gaps=(Gap(2, 4), Gap(5, 6, 1, 2)))
    (y,) = buffers_from_csv("id,lower,end,size\ny,3,3,4\n").buffers
    assert (y.lower, y.upper) == (3, 4)


def test_empty_cells_of_optional_columns_are_defaults() -> None:
    text = "id,lower,upper,size,alignment,hint,gaps,offset,pool\nx,0,3,4,,,,,\n"
    assert buffers_from_csv(text).buffers == (Buffer(id="x", lower=0, upper=3, size=4),)


def test_optional_columns_are_written_only_if_used() -> None:
    plain = Buffers(buffers=(Buffer(id="x", lower=0, upper=3, size=4),))
    assert csv_text(plain) == "id,lower,upper,size\nx,0,3,4\n"
    assert csv_text(Buffers(buffers=())) == "id,lower,upper,size\n"
    hinted = Buffers(buffers=(*plain.buffers, Buffer(id="y", lower=0, upper=3, size=4, hint=0)))
    assert csv_text(hinted).splitlines() == ["id,lower,upper,size,hint", "x,0,3,4,-1", "y,0,3,4,0"]


def test_the_offset_column_is_the_solution() -> None:
    offsets = {'conv, 1 "x"': 12, "2": 0}
    written = buffers_from_csv(csv_text(EVERYTHING, offsets))
    assert {b.id: b.offset for b in written.buffers} == offsets
    with pytest.raises(InstanceError, match="offsets: found none of buffer '2', expected one of each"):
        csv_text(EVERYTHING, {'conv, 1 "x"': 12})


HEADER = "id,lower,upper,size"
BAD = {
    "": "f.csv: found no header, expected the columns id, lower, upper, size",
    "\n\n": "f.csv: found no header",
    "id,lower,upper\n": "f.csv:1: found no column 'size', expected size",
    "id,lower,size\n": "f.csv:1: found no column 'upper', expected upper or end",
    "lower,upper,size\n": "f.csv:1: found no column 'id', expected id or buffer or buffer_id",
    "id,lower,uper,size\n": "f.csv:1: found unknown column 'uper', did you mean upper or buffer?",
    "id,lower,upper,size,\n": "f.csv:1: found unknown column '', expected one of alignment",
    "id;lower;upper;size\n": "f.csv:1: found unknown column 'id;lower;upper;size'",
    "ID,lower,upper,size\n": "f.csv:1: found unknown column 'ID', did you mean id?",
    "id,lower,upper,size,size\n": "f.csv:1: found column 'size' again, expected it once",
    "id,lower,start,upper,size\n": "found column 'start' beside 'lower', which means the same",
    "id,lower,upper,end,size\n": "found column 'end' beside 'upper', which means the same",
    f"{HEADER}\nx,0,3\n": "f.csv:2: found 3 cells, expected 4",
    f"{HEADER}\nx,0,3,4,5\n": "f.csv:2: found 5 cells, expected 4",
    f"{HEADER}\nx,0,3,4\n\ny,0,3,4\n": "f.csv:3: found a blank line, expected none before the last row",
    f"\n{HEADER}\n": "f.csv:1: found a blank line",
    f"{HEADER}\nx,0,3,4\ny,0,3,4\nx,0,3,4\n": "f.csv:4, id: found 'x' again, first on line 2",
    f"{HEADER}\nx,a,3,4\n": 'f.csv:2, lower: found "a", expected an integer >= 0',
    f"{HEADER}\nx,-1,3,4\n": 'f.csv:2, lower: found "-1", expected an integer >= 0',
    f"{HEADER}\nx,3,3,4\n": 'f.csv:2, upper: found "3", expected an integer >= 4',
    "id,start,end,size\nx,3,2,4\n": 'f.csv:2, end: found "2", expected an integer >= 3',
    "id,start,end,size\nx,,2,4\n": 'f.csv:2, start: found "", expected an integer >= 0',
    f"{HEADER}\nx,0,3,\n": 'f.csv:2, size: found "", expected an integer >= 0',
    f"{HEADER}\nx,0,3,4.0\n": 'f.csv:2, size: found "4.0"',
    f"{HEADER}\nx,0,3,1_0\n": 'f.csv:2, size: found "1_0"',
    f"{HEADER}\nx,0,3,\u0663\n": "f.csv:2, size: found",
    f"{HEADER}\nx,0,3,{'9' * 5000}\n": "f.csv:2, size: found",
    f"{HEADER}\nx,0,3,{2**62 - 1}\n": "f.csv: buffers, size, offset and alignment: found the sum 4611",
    f"{HEADER}\nx,0,{2**62},3\n": "f.csv:2: buffer 'x', upper: found 4611",
    f"{HEADER},alignment\nx,0,3,4,0\n": 'f.csv:2, alignment: found "0", expected an integer >= 1',
    f"{HEADER},offset\nx,0,3,4,-2\n": 'f.csv:2, offset: found "-2", expected an integer >= -1',
    f"{HEADER},hint\nx,0,3,4,z\n": 'f.csv:2, hint: found "z", expected an integer >= -1',
    f"{HEADER},gaps\nx,0,3,4,1\n": 'f.csv:2, gaps: found "1", expected LOWER-UPPER or LOWER-UPPER@LOW:HIGH',
    f"{HEADER},gaps\nx,0,3,4,1-2@3\n": 'gaps: found "1-2@3", expected LOWER-UPPER',
    f"{HEADER},gaps\nx,0,3,4,1-2@0:5\n": "f.csv:2: buffer 'x', gaps, window: found end 5, expected at most",
    f"{HEADER},gaps\nx,0,3,4,2-2\n": "f.csv:2: buffer 'x', gaps: found 2, expected an integer >= 3",
    f"{HEADER},gaps\nx,0,3,4,0-3\n": "f.csv:2: buffer 'x', gaps: found [(0, 3, 0, 0)], expected intervals",
    "id,lower,end,size,gaps\nx,0,3,4,2-4\n": "not all of it (times as half-open intervals)",
    f"{HEADER},inplace\nx,0,3,4,\ny,0,3,4,z\n": "f.csv:3, inplace: found 'z', expected the id of another",
    f"{HEADER},inplace\nx,0,3,4,x\n": "f.csv:2, inplace: found 'x', expected the id of another buffer",
    f"{HEADER},inplace\nx,0,3,4,\ny,0,3,4,x  x\n": "f.csv:3, inplace: found '', expected the id of another",
    f"{HEADER},inplace\nx,0,3,4,\ny,0,3,4,x x\n": "f.csv:3, inplace: found 'x' again, expected it once",
    f'{HEADER},inplace\nx,0,3,4,"""x"\n': "f.csv:2, inplace: found unexpected end of data, expected ids",
    f'{HEADER}\n"x,0,3,4\n': "f.csv:2: found unexpected end of data, expected CSV",
    f'{HEADER}\n"x"y,0,3,4\n': "f.csv:2: found ',' expected after '\"', expected CSV",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_text_is_one_line(text: str) -> None:
    with pytest.raises(InstanceError) as error:
        buffers_from_csv(text, "f.csv")
    assert BAD[text] in str(error.value)
    assert str(error.value).startswith("f.csv")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    with pytest.raises(InstanceError, match="found no such file, expected one to read"):
        read_csv(path)
    path.write_bytes(b"id,lower,upper,size\n\xff,0,3,4\n")
    with pytest.raises(InstanceError, match=r"f.csv: found byte 0xff at offset 20, expected UTF-8 text"):
        read_csv(path)
    zipped = tmp_path / "f.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes())[:-4])
    with pytest.raises(InstanceError, match="truncated gzip"):
        read_csv(zipped)
    with pytest.raises(UsageError, match="found no folder"):
        write_csv(EVERYTHING, tmp_path / "nowhere" / "f.csv")


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_files_survive(ending: str, tmp_path: Path) -> None:
    path, again = tmp_path / f"all{ending}", tmp_path / f"b{ending}"
    write_csv(EVERYTHING, path)
    assert read_csv(path) == EVERYTHING
    write_csv(read_csv(path), again)
    assert path.read_bytes() == again.read_bytes()


@pytest.mark.slow
@many(100)
@given(st.integers(0, 10**6), st.text(st.characters(codec="utf-8"), max_size=6))
def test_any_buffers_survive(seed: int, name: str) -> None:
    """All but capacities, the order of the pairs, and the place of an empty window."""
    rng = Random(seed)
    first, *rest = random_buffers(rng).buffers
    expected = tuple(
        replace(b, gaps=tuple(g if g.high else Gap(g.lower, g.upper) for g in b.gaps))
        for b in (replace(first, id=f"{name} "), *rest)
    )
    ids = [b.id for b in expected]
    pairs = {(a, b) for a in ids for b in ids if a != b and rng.random() < 0.3}
    found = buffers_from_csv(csv_text(Buffers(buffers=expected, inplace=tuple(pairs))))
    assert found.buffers == expected
    assert len(found.inplace) == len(pairs)
    assert set(found.inplace) == pairs


@pytest.mark.parametrize("name", ["a b", "a\rb", "a\nb", 'a "b"', '"', " ", "", "a,b", "'", "é"])
def test_in_place_pairs_survive_whatever_the_ids_are(name: str) -> None:
    x, y, z = (Buffer(id=i, lower=0, upper=3, size=4) for i in (name, "y", "z z"))
    pairs = ((name, "y"), ("y", name), ("z z", name))
    assert set(buffers_from_csv(csv_text(Buffers(buffers=(x, y, z), inplace=pairs))).inplace) == set(pairs)


def test_pairs_stand_with_the_buffer_that_reuses() -> None:
    x, y, z = (Buffer(id=i, lower=0, upper=3, size=4) for i in ("x", "y", "z"))
    text = csv_text(Buffers(buffers=(x, y, z), inplace=(("y", "z"), ("x", "z"))))
    assert text == "id,lower,upper,size,inplace\nx,0,3,4,\ny,0,3,4,\nz,0,3,4,x y\n"
