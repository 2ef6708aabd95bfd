"""The least largest load of stages for public inputs, proved, and published splits beside.

What dnn-partitioning's own program found is stated in ms; times and transfers are whole ns here. PipeDream's
profiles are cut as its planner does, in stages of one device each and with replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....instances import load_problem
from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case

STATED = {
    "bert24-inference": 17.78990625,
    "bert24-training": 41.7458125,
    "gnmt-inference": 32.910658203125,
    "gnmt-training": 107.0044140625,
    "inceptionv3-inference": 51.55186358642578,
    "inceptionv3-training": 122.76161621093763,
    "resnet50-inference": 33.774666015625,
    "resnet50-training": 78.6318125,
    "resnet50-ops-inference": 124.34884977404485,
    "resnet50-ops-training": 255.19441645217384,
    "bert-3-ops-inference": 27.9185676799125,
    "bert-3-ops-training": 65.30314912208605,
    "bert-6-ops-inference": 29.57950580645155,
    "bert-6-ops-training": 72.86496632241122,
    "bert-12-ops-inference": 147.47798444934838,
    "bert-12-ops-training": 437.9976378578455,
}
"""Optima in ms by the dynamic program of Tarnawski and others (NeurIPS 2020)."""

SPLITS = ("expert", "torchgpipe", "pipedream", "chain")
PROFILES = ("alexnet", "vgg16", "resnet50", "densenet121", "gnmt", "gnmt-large", "squeezenet1-0")
ANY = ("bert24-inference", "bert24-training")


def cases() -> Iterator[Case]:
    """Yield a case for each input, each in stages of any order, and each profile."""
    for name in STATED:
        yield Case(name, partial(rows_of, name))
    for name in ANY:
        yield Case(f"{name} any", partial(rows_of_any, name))
    for name in PROFILES:
        yield Case(name, partial(rows_of_profile, name))


def rows_of(name: str) -> Iterator[Row]:
    """Yield a row for the optimum, and for each published way."""
    problem = load_problem(lt.Partition, f"catalogue:layers/{name}")
    for method in ("ideals", *SPLITS):
        yield _row(name, problem, method)


def rows_of_any(name: str) -> Iterator[Row]:
    """Yield a row for stages in any order."""
    problem = load_problem(lt.Partition, f"catalogue:layers/{name}", contiguous="no")
    yield _row(name, problem, "branch-price")


def rows_of_profile(name: str) -> Iterator[Row]:
    """Yield rows without and with replicas on four devices of 1 GB/s."""
    spec = f"catalogue:layers/pipedream-{name}?processors=4"
    yield _row(name, load_problem(lt.Partition, spec), "chain")
    yield _row(name, load_problem(lt.Partition, spec, replicate=4, sync="1GB"), "chain")


def _row(name: str, problem: lt.Partition, method: str) -> Row:
    result = lt.solve(problem, method, threads=1)
    return {
        "instance": problem.source,
        "network": name,
        "method": method,
        "contiguous": int(problem.contiguous),
        "replicate": problem.replicate,
        "ops": len(problem.graph.ops),
        "ideals": result.facts.get("ideals"),
        "status": str(result.status),
        "load": result.objective,
        "bound": result.bound,
        "stated_ms": STATED.get(name),
    }


def _ms(key: str, title: str = "") -> Column:
    return Column(title or key, lambda row: None if row.get(key) is None else row[key] / 1e6, ",.3f")


OPTIMA = TableSpec(
    (
        Column("input", lambda row: row["network"]),
        Column("ops", kind="d"),
        Column("ideals", kind=",d"),
        _ms("ideals_load", "optimum ms"),
        Column("stated ms", lambda row: row["stated_ms"], ",.3f"),
        Column("ns apart", lambda row: round(row["ideals_load"] - row["stated_ms"] * 1e6), ",d"),
        *(_ms(method) for method in SPLITS),
    )
)

ANY_ORDER = TableSpec(
    (
        Column("input", lambda row: row["network"]),
        Column("status"),
        _ms("load", "ms"),
        _ms("bound", "bound ms"),
    )
)

REPLICAS = TableSpec(
    (
        Column("profile", lambda row: row["network"]),
        Column("ops", kind="d"),
        _ms("straight", "one device each ms"),
        _ms("replicated", "with replicas ms"),
        Column("status"),
    )
)


def text(table: list[Row]) -> Fields:
    """Return the lines of inputs, of stages in any order, and of profiles."""
    inputs: dict[str, Row] = {}
    profiles: dict[str, Row] = {}
    anyhow = []
    for row in table:
        name = row["network"]
        if name in PROFILES:
            line = profiles.setdefault(name, {"network": name, "ops": row["ops"]})
            line["straight" if row["replicate"] == 1 else "replicated"] = row["load"]
            line["status"] = row["status"]
        elif not row["contiguous"]:
            anyhow.append(row)
        elif row["method"] == "ideals":
            if row["status"] != "optimal":
                raise ValueError(f"{name}: found {row['status']}, expected a proved optimum")
            inputs[name] = {**row, "ideals_load": row["load"]}
        else:
            inputs[name][row["method"]] = row["load"]
    return {
        "inputs": OPTIMA.of(inputs.values()),
        "any": ANY_ORDER.of(anyhow),
        "profiles": REPLICAS.of(profiles.values()),
    }
