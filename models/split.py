"""A split of a graph's ops among devices, one stage each, and the rules by which it is judged."""

from __future__ import annotations

from dataclasses import dataclass

HOST = "cpu"
"""The kind of processors on the host: transfers cost them nothing, and their memory has no limit."""

SCHEDULES = ("none", "gpipe", "1f1b")
"""How many micro-batches a stage keeps activations of: none counted, all, or those under way."""

RECOMPUTE = ("none", "all", "choose")
"""Which forward ops run again in the backward pass: none, all, or those that the split names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Which stage runs each op, and on what.

    Attributes
    ----------
    stage
        Per op: the number of its stage, in the order of the pipeline.
    kinds, replicas
        Per stage: the kind of its devices, and how many share its micro-batches in turn.
    again
        The forward ops that run again in the backward pass, where that is to be chosen.
    modes
        Per op: the number of its mode, where that is to be chosen.
    """

    stage: tuple[int, ...]
    kinds: tuple[str, ...]
    replicas: tuple[int, ...]
    again: tuple[int, ...] = ()
    modes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRules:
    """What is asked of a split; `lowtide.models.problems.partition.Partition` says what each means."""

    counts: dict[str, int]
    memory: int | None = None
    link: int | None = None
    sync: int | None = None
    contiguous: bool = True
    replicate: int = 1
    together: tuple[tuple[int, ...], ...] = ()
    backward: frozenset[int] = frozenset()
    schedule: str = "none"
    micro: int = 1
    recompute: str = "none"
