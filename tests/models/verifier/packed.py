"""An allocation of the buffers of one plan, worked out by hand."""

from __future__ import annotations

PACKED = {
    "0:w[0:4]@gpu@0": 0,
    "0:w[4:8]@gpu@5": 4,
    "1:x@gpu@0": 8,
    "2:y@gpu@10": 14,
    "3:z@gpu@15": 8,
    "0:a/workspace@gpu@10": 12,
    "0:w@host@0": 0,
    "1:x@host@0": 8,
}
