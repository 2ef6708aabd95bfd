"""CUDA memory snapshots: peaks of an oracle that follows events, lifetimes, iterations, hostile files."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.adapters import cuda_snapshots
from lowtide.instances.formats.cuda_snapshot import read_traces, rounded
from lowtide.instances.formats.repetition import repetition_of
from tests.commands import within
from tests.damage import JUNK, little_memory
from tests.effort import seeds
from tests.snapshots import MIB, Recorder, random_run, snapshot, training, write


def peaks_by_events(data: dict[str, Any]) -> Counter[str]:
    """Return the peaks of requested, rounded and reserved bytes, one event after the other.

    Backwards from the state that the file states; nothing is shared with the reader.
    """
    blocks = [b for s in data["segments"] for b in s["blocks"] if b["state"] != "inactive"]
    now = Counter(
        requested=sum(b["requested_size"] for b in blocks),
        rounded=sum(-(-b["requested_size"] // 512) * 512 for b in blocks),
        reserved=sum(s["total_size"] for s in data["segments"]),
    )
    most = now.copy()
    for entry in reversed(data["device_traces"][0]):
        size = entry["size"]
        sign = {"alloc": -1, "free_completed": 1}.get(entry["action"], 0)
        now["requested"] += sign * size
        now["rounded"] += sign * (size + -size % 512)
        now["reserved"] += {"segment_alloc": -size, "segment_free": size}.get(entry["action"], 0)
        most |= now
    return most


@pytest.mark.parametrize("seed", seeds(60))
def test_peaks_are_those_of_the_events(seed: int, tmp_path: Path) -> None:
    run = random_run(seed)
    path = write(tmp_path / "s.pickle", run, old=seed % 2 == 1, protocol=2 + seed % 4)
    (device,) = cuda_snapshots.snapshot_report(path, threads=1)
    expected = peaks_by_events(snapshot(run))
    assert {key: device[key] for key in expected} == dict(expected)
    for memory in device["memories"]:
        assert memory["rounded"] <= memory["bound"] <= memory["least"]
        assert memory["status"] == "optimal"
    assert device["fragmentation"] == device["reserved"] - device["least"]
    assert sum(h["nbytes"] for h in device["holders"]) == device["rounded"]
    everything = lt.load_buffers(path, sizes="requested")
    assert sorted(b.size for b in everything.buffers) == sorted(
        a.requested for a in read_traces(path)[0].allocations
    )


@pytest.mark.parametrize("seed", seeds(24))
def test_a_trace_that_lost_its_beginning_has_the_end_of_the_whole_one(seed: int, tmp_path: Path) -> None:
    whole = random_run(seed, 80)
    path = write(tmp_path / "whole.pickle", whole)
    (full,) = read_traces(path)
    lost = len(whole.trace) // 2
    gone = sum(e["action"] in ("alloc", "free_completed") for e in whole.trace[:lost])
    whole.forget(lost)
    (rest,) = read_traces(write(tmp_path / "rest.pickle", whole))
    ends = {
        (a.address, a.pool, max(0, a.lower - gone), a.upper - gone, a.requested) for a in full.allocations
    }
    assert {a[:5] for a in rest.allocations} == {row for row in ends if row[3] > 0}


def test_blocks_live_from_alloc_to_free_completed(tmp_path: Path) -> None:
    r = Recorder()
    old = r.alloc(100)
    kept = r.alloc(600, "a.py:9 f")
    r.forget(10)
    late = r.alloc(3 * MIB)  # event 1
    r.request(late)
    r.free(old)  # event 2
    r.complete(late)  # event 3
    found = lt.load_buffers(write(tmp_path / "s.pickle", r))
    assert {(b.lower, b.upper, b.size) for b in found.buffers} == {(0, 2, 512), (0, 4, 1024), (1, 3, 3 * MIB)}
    (trace,) = read_traces(tmp_path / "s.pickle")
    assert {a.frame for a in trace.allocations if a.address == kept} == {"/home/me/a.py:9 f"}
    assert trace.before == 2


def test_streams_pools_and_devices_are_memories_of_their_own(tmp_path: Path) -> None:
    first, second = Recorder(), Recorder(1)
    for stream, pool in ((0, (0, 0)), (7, (0, 0)), (7, (1, 2))):
        first.free(first.alloc(1000, stream=stream, pool=pool))
    second.alloc(2000)
    path = write(tmp_path / "s.pickle", first, second)
    names = ["gpu0/stream0", "gpu0/stream7", "gpu0/stream7/pool1.2", "gpu1/stream0"]
    assert sorted(lt.load_buffers(path).pools) == names
    assert sorted(lt.load_buffers(f"snapshot:{path}?device=0&stream=7").pools) == names[1:3]
    assert sorted(lt.load_buffers(path, pool="1.2").pools) == names[2:3]
    assert sorted(lt.load_buffers(path, pool="0.0", device=0).pools) == names[:2]
    assert lt.load_buffers(f"{path}?stream=7,capacity=1MiB").source == f"{path}?stream=7&capacity=1MiB"
    with pytest.raises(
        lt.InstanceError, match="found no such blocks, expected some; the file has gpu0/stream0, "
    ):
        lt.load_buffers(path, stream=8)
    with pytest.raises(lt.InstanceError, match="found 2 devices, expected device=NUMBER"):
        lt.load_buffers(path, iteration=1)
    with pytest.raises(lt.InstanceError, match="found unknown option 'strem', did you mean stream"):
        lt.load_buffers(path, strem=8)
    with pytest.raises(lt.InstanceError, match="found buffers, expected a graph"):
        lt.load(f"snapshot:{path}")


def test_the_pool_of_an_old_entry_is_that_of_its_segment(tmp_path: Path) -> None:
    r = Recorder()
    r.free(r.alloc(1000, pool=(3, 1)))
    r.free(r.alloc(1000))
    pools = [[*lt.load_buffers(write(tmp_path / "s.pickle", r, old=old)).pools] for old in (False, True)]
    assert pools == [["gpu0/stream0/pool3.1", "gpu0/stream0"]] * 2


def test_an_iteration_is_a_period_of_the_trace(tmp_path: Path) -> None:
    path = write(tmp_path / "s.pickle", training(iterations=5))
    (device,) = cuda_snapshots.snapshot_report(path, threads=1)
    assert device["iterations"] == {"count": 5, "events": 26, "first": 6}
    each = [lt.load_buffers(path, iteration=k) for k in range(1, 6)]
    shapes = [sorted((b.lower, b.upper, b.size) for b in found.buffers) for found in each]
    assert shapes[1:] == shapes[:-1]
    assert len(shapes[0]) == 6 + 7 + 6
    assert lt.solve(lt.Offsets(each[0])).objective == device["least"]
    with pytest.raises(lt.InstanceError, match="found 6, expected at most 5, the number of equal ones"):
        lt.load_buffers(path, iteration=6)


@pytest.mark.parametrize("seed", seeds(60))
def test_a_repetition_repeats(seed: int) -> None:
    draw = random.Random(seed)
    word = [draw.randrange(6) for _ in range(draw.randrange(8, 40))]
    times = draw.randrange(2, 6)
    around = [draw.randrange(100, 200) for _ in range(30)]
    symbols = [*around[: draw.randrange(30)], *word * times, *around]
    found = repetition_of(symbols)
    assert found is not None
    assert found.length >= len(word) * times
    part = symbols[found.first : found.first + found.length]
    assert part[found.period :] == part[: -found.period]
    assert repetition_of(range(100)) is None


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 5000, MIB - 1, MIB, 1200 * MIB + 1])
@pytest.mark.parametrize("steps", [0, 1, 2, 4, 8])
def test_sizes_are_rounded_to_the_next_step(size: int, steps: int) -> None:
    """The least step that is no smaller, of all of them."""
    found = rounded(size, {str(2**k): steps for k in range(16)})
    if steps < 2 or size <= 512 * steps:
        assert found - size < 512 or found == 512
        assert found >= size
        assert found % 512 == 0
    else:
        grid = [2**p + k * 2**p // steps for p in range(8, 32) for k in range(steps)]
        assert found == min(x for x in grid if x >= size)


class Evil:
    """What runs code where a pickle is loaded."""

    def __reduce__(self) -> Any:
        return (open, ("/tmp/should-not-exist", "w"))


HOSTILE = {
    "code": pickle.dumps({"segments": Evil()}),
    "code in protocol 0": b"cos\nsystem\n(S'true'\ntR.",
    "class": pickle.dumps({"segments": [io.StringIO]}),
    "extension": b"\x80\x02\x82\x01.",
    "persistent": b"\x80\x02Pid\n.",
    "memo of 2**32": b"\x80\x02}r\xff\xff\xff\xff.",
    "bytes of 2**60": b"\x80\x05\x96" + (2**60).to_bytes(8, "little") + b"x.",
    "text of 2**60": b"\x80\x04\x8d" + (2**60).to_bytes(8, "little") + b"x.",
    "frame of 2**60": b"\x80\x04\x95" + (2**60).to_bytes(8, "little") + b"N.",
    "itself": b"\x80\x04]\x94h\x00a.",
    "a list of lists": b"]\x94" + b"(" + b"h\x00" * 9 + b"e.",
    "deep": b"]" * 100_000 + b"a" * 99_999 + b".",
    "marks": b"(" * 1000 + b".",
    "keys that collide": pickle.dumps({k << 61: 0 for k in range(9)}),
    "nothing": b"",
    "text": b"hello, I am no pickle",
    "number": b"\x80\x04K\x01.",
    "long number": b"\x80\x04\x8a\xff" + b"\x7f" * 255 + b".",
    "half a text": b"\x80\x04\x8c\x02\xff\xfe.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(HOSTILE[name])
    with little_memory(), pytest.raises(lt.InstanceError) as error:
        lt.load_buffers(path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
    assert not Path("/tmp/should-not-exist").exists()


def test_an_entry_that_stands_in_many_places_is_refused(tmp_path: Path) -> None:
    """A small file of 2,000 references to one list of 2,000 entries."""
    blocks = [{"size": 512, "address": 0, "state": "inactive"}] * 2000
    segment = {"address": 0, "total_size": 0, "blocks": blocks}
    (tmp_path / "s.pickle").write_bytes(pickle.dumps({"segments": [segment] * 2000, "device_traces": []}))
    with pytest.raises(lt.InstanceError, match="found more entries than bytes"):
        lt.load_buffers(tmp_path / "s.pickle")


def small() -> Recorder:
    """Return a run of a few events, the last block still there."""
    r = Recorder()
    r.free(r.alloc(1000))
    r.alloc(3000)
    return r


def places(data: Any) -> list[tuple[Any, Any]]:
    """Return each place of a value that holds data: its container and its key."""
    found: list[tuple[Any, Any]] = []
    for key in range(len(data)) if isinstance(data, list) else data:
        found.append((data, key))
        if isinstance(data[key], list | dict):
            found += places(data[key])
    return found


def refused_or_read(path: Path) -> None:
    """Read a file; a refusal is one line."""
    message = ""
    try:
        with little_memory():
            lt.load_buffers(path)
    except lt.InstanceError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize("junk", range(len(JUNK)))
def test_damaged_files_are_refused_or_read(junk: int, tmp_path: Path) -> None:
    data = json.loads(json.dumps(snapshot(small())))
    path = tmp_path / "s.pickle"
    for holder, key in places(data):
        was = holder[key]
        holder[key] = JUNK[junk]
        path.write_bytes(pickle.dumps(data))
        refused_or_read(path)
        holder[key] = was


@pytest.mark.parametrize("seed", seeds(200))
def test_flipped_bytes_are_refused_or_read(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    content = bytearray(pickle.dumps(snapshot(small()), 2 + seed % 4))
    for _ in range(draw.randrange(1, 4)):
        content[draw.randrange(len(content))] = draw.randrange(256)
    path = tmp_path / "s.pickle"
    path.write_bytes(content[: draw.choice([len(content), draw.randrange(len(content))])])
    refused_or_read(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["device_traces"][0].insert(2, d["device_traces"][0][1]), "found alloc at .* again"),
        (lambda d: d["device_traces"][0][3].update(size=7), "found free_completed of 7 bytes, expected 1000"),
        (lambda d: d["device_traces"][0][1].update(action="grow"), 'found "grow", expected one of alloc, '),
        (
            lambda d: d["segments"].clear(),
            "found segments of gpu0/stream0 that the trace makes and the file lacks",
        ),
        (lambda d: d["segments"][0]["blocks"][0].update(state=3), "state: found 3, expected a str"),
        (lambda d: d.pop("device_traces"), "found no keys 'segments' and 'device_traces'"),
    ],
)
def test_files_that_contradict_themselves(change: Any, message: str, tmp_path: Path) -> None:
    data = pickle.loads(pickle.dumps(snapshot(small())))
    change(data)
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(data))
    with pytest.raises(lt.InstanceError, match=message):
        lt.load_buffers(tmp_path / "s.pickle")


def test_show_and_solve_read_a_packed_snapshot(tmp_path: Path) -> None:
    write(tmp_path / "s.pickle", training())
    (tmp_path / "s.pickle.gz").write_bytes(gzip.compress((tmp_path / "s.pickle").read_bytes()))
    shown = within("show", "s.pickle.gz", "--largest", "1", cwd=tmp_path)
    assert "fragmentation  15,700,480 B" in shown.stdout
    assert "4 equal ones of 26 events, from event 6" in shown.stdout
    assert "8,393,728  8.00 MiB       1  /home/me/train.py:25 backward" in shown.stdout
    assert "batch" not in shown.stdout
    (device,) = json.loads(within("show", "s.pickle", "--json", cwd=tmp_path).stdout)["devices"]
    solved = json.loads(within("solve", "offsets", "s.pickle?iteration=2", "--json", cwd=tmp_path).stdout)
    assert (solved["status"], solved["objective"]) == ("optimal", device["least"])
    part = within("show", "s.pickle?iteration=2", cwd=tmp_path)
    assert "count    19" in part.stdout
    refused = within("solve", "offsets", "s.pickle?iteration=x", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    lt.save(lt.load_buffers(tmp_path / "s.pickle"), tmp_path / "s.csv")
    assert lt.load_buffers(tmp_path / "s.csv").sha256 == lt.load_buffers(tmp_path / "s.pickle").sha256
    with pytest.raises(lt.UsageError, match="found no known ending"):
        lt.save(lt.load_buffers(tmp_path / "s.pickle"), tmp_path / "t.pickle")
