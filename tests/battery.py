"""The battery: what every method answers to small questions, on record, to compare two states of the code.

    .venv/bin/python -m tests.battery write      # the record: tests/battery.json, from the code as it is
    .venv/bin/python -m tests.battery write arena    # of questions with one of these texts; others stay
    .venv/bin/python -m tests.battery compare    # runs what is on record again; names every difference
    .venv/bin/python -m tests.battery compare placement "| milp"    # those with one of these texts alone

Every question is put to every method of its problem, without a time limit, with one thread and seed 0. What
a method refuses, and what takes it more than some seconds, is not put on record; `compare` has no clock. On
record are status, objective, bound and a hash of the plan, so a change that must not alter results can be
held against the state before it. A change that means to alter them writes the record anew.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import astuple
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.models.errors import LowtideError
from lowtide.solvers.registry import methods
from tests.problems.placement import machine, random_graph, tiny_graph, working_set

RECORD = Path(__file__).with_name("battery.json")

PATIENCE = 10
"""Seconds after which a run is not put on record: those of exact methods on questions too large for them."""

LOADED = {
    "peak": (
        "catalogue:accumulate",
        "catalogue:chain-replace",
        "catalogue:harpoon",
        "catalogue:intree-50",
        "catalogue:layered-6x4",
        "catalogue:pyramid",
        "catalogue:randwire-20-0",
        "catalogue:sp-50",
        "catalogue:two-branches",
        "catalogue:unet-4",
    ),
    "offsets": (
        "catalogue:minimalloc/example",
        "catalogue:unet-4-train?alignment=64",
        "gen:randwire?n=16&seed=3",
        "gen:randwire?n=24&seed=4&capacity=200",
    ),
    "arena": (
        "catalogue:accumulate",
        "catalogue:harpoon?alignment=4",
        "catalogue:unet-4?alignment=16&pools=input+output",
        "gen:randwire?n=12&seed=3",
    ),
    "makespan": (
        "catalogue:intree-50?processors=3&memory=400",
        "gen:randwire?n=12&seed=3&processors=3&memory=220",
        "gen:tasks?shape=layered&n=12&cores=2&seed=0&processors=2&memory=40",
        "gen:tasks?shape=layered&n=20&cores=2&seed=1&processors=2&memory=95",
        "gen:tasks?shape=tree&n=14&cores=2&seed=1&processors=2&memory=400",
    ),
    "parallel-memory": (
        "catalogue:diamond",
        "catalogue:layered-6x4?processors=3",
        "catalogue:randwire-20-0",
        "catalogue:sp-50",
        "catalogue:unet-4-train?processors=2",
    ),
    "memory-edges": (
        "catalogue:diamond?bound=8",
        "catalogue:layered-6x4?bound=100",
        "catalogue:randwire-20-0?bound=200",
        "catalogue:unet-4-train?bound=100MiB",
    ),
    "distributed": (
        "gen:skipchain?n=8&train=1&machine=v100x4-16g-nvlink&processors=2&memory=590MB",
        "catalogue:ios/squeezenet?machine=v100x4-16g-nvlink&processors=2",
    ),
    "streams": (
        "catalogue:ios/squeezenet",
        "catalogue:ios/squeezenet?contention=proportional&streams=2&sync_ns=500",
        "catalogue:ios/squeezenet?contention=proportional&memory=10MB",
        "catalogue:ios/squeezenet?contention=fluid&sync_ns=500",
        "catalogue:ios/squeezenet?contention=half-serial&memory=10MB",
        "catalogue:ios/inception_v3?contention=proportional",
        "catalogue:layered-6x4?memory=120&streams=3",
    ),
    "pipeline": (
        "gen:stages?p=3&m=6&memory=2&objective=span",
        "gen:stages?p=3&m=6&v=2&w=0&memory=12&latency_ns=1",
        "gen:stages?p=2&m=4&v=2&placement=v&memory=4",
    ),
    "partition": (
        "catalogue:layers/bert24-training",
        "catalogue:layers/bert-3-ops-inference",
        "catalogue:layers/pipedream-vgg16?processors=4&replicate=4&sync=1GB",
        "catalogue:unet-4-train?processors=3",
    ),
    "hybrid": (
        "catalogue:layers/piper-bert32?processors=16&memory=8GiB&link=25GiB",
        "catalogue:unet-4-train?processors=3&micro=6",
    ),
    "sharding": ("catalogue:iopddl/example",),
    "recompute": (
        "catalogue:pyramid?memory=4",
        "catalogue:unet-4-train?memory=40MiB",
        "gen:backprop-chain?l=6&memory=6",
        "gen:backprop-chain?l=8&accounting=replace&slots=3",
        "gen:backprop-chain?l=8&slots=3",
        "gen:taped-chain?l=6&seed=1&memory=60",
    ),
    "tiles": ("catalogue:mlsys2026/1",),
    "minio": (
        "catalogue:harpoon?memory=14",
        "catalogue:intree-50?memory=300",
        "catalogue:intree-50?memory=300&whole=1",
        "gen:harpoon?levels=2&memory=30",
        "gen:harpoon?levels=3&memory=903&whole=1",
    ),
}


def placements() -> Iterator[tuple[str, lt.Placement]]:
    """Yield small placement questions: two and three tiers, single runs and the steady state."""
    for seed in range(3):
        graph = random_graph(seed)
        least = working_set(graph)
        for ssd in (False, True):
            small = machine(least + 4, 30 if ssd else None, ssd=ssd)
            for periodic in (False, True):
                name = f"random {seed}, {3 if ssd else 2} tiers" + ", periodic" * periodic
                yield name, lt.Placement(graph, small, periodic=periodic)
        tiny = tiny_graph(seed)
        two = machine(working_set(tiny), None, ssd=False)
        yield f"tiny {seed}", lt.Placement(tiny, two)
        yield f"tiny {seed}, whole", lt.Placement(tiny, two, whole=True)


def questions() -> dict[str, Callable[[], Any]]:
    """Return every question by its name."""
    asked: dict[str, Callable[[], Any]] = {}
    for problem, specs in LOADED.items():
        for spec in specs:
            asked[f"{problem} {spec}"] = partial(load_problem, problem, spec)
    for name, placement in placements():
        asked[f"placement {name}"] = partial(copy, placement)
    return asked


def fingerprint(result: lt.Result) -> str | None:
    """Return a hash of what is executed, allocated or added, None if there is nothing."""
    if result.edges is not None:
        said: Any = sorted(result.edges)
    elif result.allocation is not None:
        said = sorted((str(name), offset) for name, offset in result.allocation.items())
    elif result.plan is not None:
        plan = result.plan
        said = [[astuple(x) for x in part] for part in (plan.start, plan.runs, plan.copies, plan.frees)]
        if plan.allocation is not None:
            said.append(sorted(plan.allocation.items()))
    else:
        return None
    return hashlib.sha256(json.dumps(said, default=str).encode()).hexdigest()[:16]


def _answer(question: str, method: str, to: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        result = lt.solve(questions()[question](), method, time_limit=None, threads=1)
        to.send([result.status.value, result.objective, result.bound, fingerprint(result)])
    except LowtideError as error:
        to.send([type(error).__name__])


def answer(question: str, method: str, seconds: float | None = None) -> list[Any] | None:
    """Return what a method says in a process of its own; None if it takes longer or dies."""
    near, far = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_answer, args=(question, method, far))
    process.start()
    far.close()
    try:
        found: list[Any] | None = near.recv() if near.poll(seconds) else None
    except EOFError:
        found = None
    process.kill()
    process.join()
    return found


def write(texts: list[str]) -> None:
    """Put on record what every method says, if it says it soon and twice the same."""
    before = json.loads(RECORD.read_text()) if texts else {}
    record: dict[str, list[Any]] = {}
    for question in questions():
        for method in methods():
            if method.problem != question.split()[0]:
                continue
            if texts and not any(text in question for text in texts):
                name = f"{question} | {method.name}"
                record |= {name: before[name]} if name in before else {}
                continue
            found = answer(question, method.name, PATIENCE)
            if found is not None and len(found) > 1 and answer(question, method.name, 4 * PATIENCE) == found:
                record[f"{question} | {method.name}"] = found
                print(question, method.name, *found, flush=True)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in record.items())
    RECORD.write_text(f"{{\n{lines}\n}}\n")


def compare(texts: list[str]) -> int:
    """Run what is on record, with texts what contains one of them; return the number of differences."""
    record, differences = json.loads(RECORD.read_text()), 0
    if texts:
        record = {name: found for name, found in record.items() if any(text in name for text in texts)}
    for name, before in record.items():
        question, _, method = name.rpartition(" | ")
        now = answer(question, method)
        if now != before:
            differences += 1
            print(f"{name}: found {now}, on record {before}", flush=True)
    print(f"{len(record)} runs, {differences} differences")
    return differences


if __name__ == "__main__":
    verb, *rest = sys.argv[1:] or [""]
    if verb == "write":
        write(rest)
    elif verb == "compare":
        sys.exit(compare(rest) > 0)
    else:
        sys.exit(__doc__)
