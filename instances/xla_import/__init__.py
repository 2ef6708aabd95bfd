"""XLA's dumps as buffers and graphs, and functions of JAX as graphs."""

from __future__ import annotations
