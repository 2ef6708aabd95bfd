"""CUDA memory snapshots without a GPU: a small caching allocator that records what it does, as torch does.

Its rules are those that torch documents: blocks of 512 bytes, small ones (at most 1 MiB) from segments of 2
MiB, larger ones from segments of 20 MiB or of their own size rounded up to 2 MiB; best fit, splitting,
merging.
"""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

MIB = 2**20


class Recorder:
    """An allocator of one device with a trace; sizes in bytes."""

    def __init__(self, device: int = 0) -> None:
        self.device, self.now = device, 0
        self.trace: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []

    def alloc(self, size: int, code: str = "model.py:1 forward", stream: int = 0, pool: Any = (0, 0)) -> int:
        """Return the address of a new block."""
        need = max(512, -(-size // 512) * 512)
        small = need <= MIB
        fits = [
            (block["size"], block["address"], segment, block)
            for segment in self.segments
            if (segment["stream"], segment["segment_pool_id"]) == (stream, pool)
            and (segment["segment_type"] == "small") == small
            for block in segment["blocks"]
            if block["state"] == "inactive" and block["size"] >= need
        ]
        if fits:
            _, _, segment, block = min(fits, key=lambda row: row[:2])
        else:
            total = 2 * MIB if small else 20 * MIB if need < 10 * MIB else -(-need // (2 * MIB)) * 2 * MIB
            segment = self._segment(total, small, stream, pool)
            block = segment["blocks"][0]
        left = block["size"] - need
        if left >= 512 if small else left > MIB:
            rest = {**block, "address": block["address"] + need, "size": left}
            segment["blocks"].insert(segment["blocks"].index(block) + 1, rest)
            block["size"] = need
        block |= {"state": "active_allocated", "requested_size": size, "frames": frames(code)}
        self._note("alloc", block["address"], size, stream, pool, code)
        return int(block["address"])

    def request(self, address: int) -> None:
        """Ask for a block to be freed; another stream still uses it."""
        segment, block = self._block(address)
        block["state"] = "active_awaiting_free"
        self._note(
            "free_requested", address, block["requested_size"], segment["stream"], segment["segment_pool_id"]
        )

    def complete(self, address: int) -> None:
        """Free a block."""
        segment, block = self._block(address)
        self._note(
            "free_completed", address, block["requested_size"], segment["stream"], segment["segment_pool_id"]
        )
        block |= {"state": "inactive", "requested_size": 0, "frames": []}
        merged: list[dict[str, Any]] = []
        for other in segment["blocks"]:
            if merged and merged[-1]["state"] == other["state"] == "inactive":
                merged[-1]["size"] += other["size"]
            else:
                merged.append(other)
        segment["blocks"] = merged

    def free(self, address: int) -> None:
        """Free a block that no other stream uses."""
        self.request(address)
        self.complete(address)

    def empty_cache(self) -> None:
        """Give segments back in which nothing lives."""
        for segment in [s for s in self.segments if [b["state"] for b in s["blocks"]] == ["inactive"]]:
            self.segments.remove(segment)
            place = segment["address"], segment["total_size"], segment["stream"], segment["segment_pool_id"]
            self._note("segment_free", *place)

    def forget(self, count: int) -> None:
        """Drop the first entries, as the ring buffer of torch does."""
        del self.trace[:count]

    def _segment(self, total: int, small: bool, stream: int, pool: Any) -> dict[str, Any]:
        used = sorted((s["address"], s["total_size"]) for s in self.segments)
        address = 2**45 + self.device * 2**40
        for start, size in used:
            if address + total <= start:
                break
            address = start + size
        block = {"address": address, "size": total, "requested_size": 0, "state": "inactive", "frames": []}
        segment = {
            **{"device": self.device, "address": address, "total_size": total, "stream": stream},
            **{"segment_type": "small" if small else "large", "segment_pool_id": pool, "blocks": [block]},
            **{"is_expandable": False, "frames": []},
        }
        self.segments.append(segment)
        self._note("segment_alloc", address, total, stream, pool)
        return segment

    def _block(self, address: int) -> tuple[dict[str, Any], dict[str, Any]]:
        return next((s, b) for s in self.segments for b in s["blocks"] if b["address"] == address)

    def _note(self, action: str, addr: int, size: int, stream: int, pool: Any, code: str = "") -> None:
        self.now += 1
        entry = {"action": action, "addr": addr, "size": size, "stream": stream, "pool_id": pool}
        self.trace.append({**entry, "time_us": 10**15 + self.now, "frames": frames(code) if code else []})


_FRAMES: dict[str, list[dict[str, Any]]] = {}


def frames(code: str) -> list[dict[str, Any]]:
    """Return the frames of a line of code, under one of torch; the same list for the same line."""
    if code not in _FRAMES:
        place, name = code.split(" ")
        file, line = place.split(":")
        inner = {"filename": "/env/torch/nn/functional.py", "line": 7, "name": "linear"}
        own = {"filename": f"/home/me/{file}", "line": int(line), "name": name}
        _FRAMES[code] = [{"filename": "??", "line": 0, "name": "at::empty_cuda"}, inner, own]
    return _FRAMES[code]


def snapshot(*recorders: Recorder, old: bool = False) -> dict[str, Any]:
    """Return the snapshot of devices; `old`: as before 2026, without pools in the trace."""
    devices = max(r.device for r in recorders) + 1
    traces: list[list[dict[str, Any]]] = [[] for _ in range(devices)]
    for r in recorders:
        traces[r.device] = [{k: v for k, v in e.items() if not (old and k == "pool_id")} for e in r.trace]
    return {
        "segments": [s for r in recorders for s in sorted(r.segments, key=lambda s: s["address"])],
        "device_traces": traces,
        "allocator_settings": {"roundup_power2_divisions": {"1": 0}, "garbage_collection_threshold": 0.0},
        "external_annotations": [],
    }


def write(path: Path, *recorders: Recorder, old: bool = False, protocol: int = 4) -> Path:
    """Write the snapshot of devices."""
    path.write_bytes(pickle.dumps(snapshot(*recorders, old=old), protocol))
    return path


def training(iterations: int = 4, layers: int = 6, device: int = 0) -> Recorder:
    """Return what a training loop does: weights, then equal iterations of a forward and a backward pass."""
    r = Recorder(device)
    sizes = [(1 + k % 3) * MIB + 1000 * k for k in range(layers)]
    for k, size in enumerate(sizes):
        r.alloc(size // 2, f"model.py:{k} __init__")
    for _ in range(iterations):
        kept = [r.alloc(3 * MIB, "data.py:3 batch")]
        kept += [r.alloc(size, f"model.py:{10 + k} forward") for k, size in enumerate(sizes)]
        for k, size in reversed([*enumerate(sizes)]):
            gradient = r.alloc(size + 5 * MIB, f"train.py:{20 + k} backward")
            r.free(kept.pop())
            r.free(gradient)
        r.free(kept.pop())
    return r


def random_run(seed: int, steps: int = 120) -> Recorder:
    """Return random allocations on two streams and two pools, some before the trace, some freed later."""
    draw = random.Random(seed)
    r = Recorder()
    live: list[int] = []
    waiting: list[int] = []
    for _ in range(steps):
        what = draw.random()
        if what < 0.5 or not live:
            size = draw.choice([1, 512, 700, draw.randrange(1, 2 * MIB), draw.randrange(1, 30 * MIB)])
            live.append(
                r.alloc(
                    size, f"f.py:{draw.randrange(4)} g", draw.choice([0, 7]), draw.choice([(0, 0), (1, 0)])
                )
            )
        elif what < 0.8:
            r.free(live.pop(draw.randrange(len(live))))
        elif what < 0.9:
            waiting.append(live.pop(draw.randrange(len(live))))
            r.request(waiting[-1])
        elif waiting:
            r.complete(waiting.pop(0))
        else:
            r.empty_cache()
    r.forget(draw.choice([0, 0, steps // 3]))
    return r
