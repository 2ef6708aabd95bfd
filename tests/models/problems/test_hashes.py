"""What questions are called and hashed as: records on disk name them by these hashes."""

from __future__ import annotations

import pytest

from lowtide.instances import load_problem
from lowtide.models.problems import PROBLEMS

CHAIN = "gen:chain?n=3&seed=1&machine=a100-40g-pcie3"
FOUR = "gen:chain?n=3&replicas=2&machine=v100x4-16g-shared-pcie3&start=device"
TASKS = "gen:tasks?shape=layered&n=12&cores=2&seed=0&processors=cpu=2+gpu=1&memory=40"

QUESTIONS = (
    ("peak", "catalogue:diamond", "diamond", "fd5d222ae715293f"),
    ("offsets", "catalogue:minimalloc/example", "input.12", "190f1a95ec7e03a4"),
    ("offsets", "catalogue:diamond?capacity=1KiB&alignment=64", "diamond", "e35fac7757e69351"),
    ("arena", "catalogue:diamond", "diamond", "177380a9101acbfd"),
    ("arena", "catalogue:diamond?alignment=16", "diamond, alignment 16", "9e74cf0b5154a8e4"),
    ("placement", f"{CHAIN}&device=24GiB", "chain?n=3&seed=1 on a100-40g-pcie3", "a0f6c9308c515334"),
    (
        "placement",
        f"{CHAIN}&periodic=1&whole=1&start.input=host+ssd",
        "chain?n=3&seed=1 on a100-40g-pcie3",
        "ea82384d9283f540",
    ),
    ("placement", FOUR, "2 x chain?n=3 on v100x4-16g-shared-pcie3", "9a650bd73634975a"),
    ("makespan", "catalogue:diamond", "diamond on 1 processor, unlimited memory", "c7999c06c3568aec"),
    (
        "makespan",
        "catalogue:diamond?processors=2&memory=1KiB",
        "diamond on 2 processors, 1024 bytes",
        "1ca2f90faf87fdb3",
    ),
    ("makespan", TASKS, "tasks?n=12 on 2 cpu and 1 gpu processors, 40 bytes", "4538fcc5a5f3ee40"),
    (
        "distributed",
        "catalogue:diamond?machine=v100x4-16g-nvlink&processors=2&memory=1KiB",
        "diamond on v100x4-16g-nvlink",
        "202ffdfde8d8036b",
    ),
    ("parallel-memory", "catalogue:diamond", "diamond", "3d486780f123b60d"),
    ("parallel-memory", "catalogue:diamond?processors=2", "diamond on 2 processors", "4b2b471eb675e043"),
    ("memory-edges", "catalogue:diamond?bound=8", "diamond, 8 bytes", "238d62b0a3609ed7"),
    (
        "memory-edges",
        "catalogue:diamond?bound=8&processors=2",
        "diamond on 2 processors, 8 bytes",
        "e3d6413c50498713",
    ),
    ("recompute", "catalogue:diamond", "diamond in unlimited memory", "0a4a61e9744c5864"),
    (
        "recompute",
        "catalogue:diamond?memory=1KiB&machine=a100-40g-pcie3",
        "diamond in 1024 bytes and host and ssd",
        "e0b6e0a077fca31c",
    ),
    ("recompute", "gen:backprop-chain?l=5&slots=3", "backprop-chain in 6 bytes", "365b7ba5e07cf863"),
    ("minio", "catalogue:harpoon?memory=14", "harpoon in 14 bytes", "16d002852ed68575"),
    ("minio", "catalogue:harpoon?memory=14&whole=1", "harpoon in 14 bytes", "aebac601eccb4efc"),
    ("sharding", "catalogue:iopddl/example", "example", "a689857daf685b5b"),
    ("hybrid", "catalogue:diamond", "diamond on 1 devices", "54f96a4a952a6c2d"),
    (
        "hybrid",
        "catalogue:layers/piper-bert32?processors=8&micro=64&recompute=none&tensor=2&memory=8GiB",
        "piper-bert32 on 8 devices",
        "797032a59a33e4be",
    ),
    ("partition", "catalogue:diamond", "diamond on 1 any devices", "ac914d47b15cbf0b"),
    (
        "partition",
        "catalogue:layers/bert24-training?processors=acc=4&schedule=1f1b&micro=8&recompute=all&memory=1GiB",
        "bert24-training on 4 acc devices",
        "a784d5b81afc89f2",
    ),
    ("streams", "catalogue:diamond", "diamond (none)", "d9564210cd2a1e8a"),
    (
        "streams",
        "catalogue:diamond?contention=fluid&streams=2&memory=1KiB&sync_ns=3",
        "diamond (fluid, 2 streams, 1024 bytes)",
        "44a21dca1063af7e",
    ),
    (
        "streams",
        "catalogue:diamond?devices=2&streams=1&memory=1KiB&link=4GB&latency_ns=5",
        "diamond (none, 1 streams, 1024 bytes, 2 devices)",
        "cd5ca12e0ed5f74b",
    ),
    ("tiles", "catalogue:mlsys2026/1", "mlsys-2026-1", "f157cfb3424b979e"),
    ("tiles", "catalogue:mlsys2026/5?raster=keep&place=shared", "mlsys-2026-5", "6e23c88bd20badd8"),
    ("pipeline", "gen:stages?p=2&m=3", "stages?p=2&m=3 (makespan)", "8ef79edb6e5ce1c1"),
    (
        "pipeline",
        "gen:stages?p=2&m=3&memory=2&latency_ns=5&objective=span",
        "stages?p=2&m=3 (span, 2 bytes, latency 5 ns)",
        "6d55de62da06d7dd",
    ),
)


@pytest.mark.parametrize(("problem", "spec", "name", "sha256"), QUESTIONS)
def test_questions_keep_their_names_and_hashes(problem: str, spec: str, name: str, sha256: str) -> None:
    instance = load_problem(problem, spec).instance
    assert (instance.name, instance.sha256[:16]) == (name, sha256)


def test_every_problem_has_a_hash_on_record() -> None:
    assert {problem for problem, *_ in QUESTIONS} == set(PROBLEMS)
