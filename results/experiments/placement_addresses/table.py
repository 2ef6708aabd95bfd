"""AutoTM's loop around its program: heights of its plans, rounds until they have addresses, what those cost.

Questions of `placement_autotm` on its smallest network. Each search ends at a gap of 1%, as in AutoTM's
artifact; no limit of time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import lowtide as lt

from ....instances import load_problem
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..placement_autotm.table import BATCH, METHODS, RATIOS
from ..running import Case, apart

NETWORK = "vgg19"
FORMS = tuple(method for method in METHODS if method.startswith("autotm-"))
RULES = ("first-fit", "greedy")


def cases() -> Iterator[Case]:
    """Yield a case for each ratio, form and way to addresses."""
    for ratio in RATIOS:
        for form in FORMS:
            for rule in RULES:
                words = (str(ratio), form, rule)
                yield Case(" ".join(words), partial(apart, "placement_addresses", *words))


def row(ratio: str, form: str, rule: str) -> list[Row]:
    """Return the row of one solve; its plan and its addresses were verified."""
    spec = f"onnx:{NETWORK}?batch={BATCH[NETWORK]}&train=1&weights=1&node=optane"
    graph = lt.load(spec)
    dram = lt.Peak(graph).evaluate(tuple(range(len(graph.ops)))) // (int(ratio) + 1)
    problem = load_problem(
        lt.Placement, f"{spec}&machine=optane-node&start=anywhere&periodic=1&device={dram}B"
    )
    began = time.process_time()
    options = {**METHODS[form][1], "addresses": rule, "gap": "1"}
    result = lt.solve(problem, form, threads=1, time_limit=None, options=options)
    assert result.status is not lt.Status.FAILED, result.detail
    facts = result.facts
    return [
        {
            "network": NETWORK,
            "batch": BATCH[NETWORK],
            "ops": len(graph.ops),
            "ratio": int(ratio),
            "dram": dram,
            "method": form,
            "addresses": rule,
            "ideal": graph.summary()["duration_ns"],
            "form_bound": facts["form_bound"],
            "first_period": facts["first_objective"],
            "first_height": facts["first_height"],
            "rounds": facts["rounds"],
            "period": result.objective,
            "height": facts["height"],
            "fragmentation": facts["fragmentation"],
            "seconds": round(time.process_time() - began, 1),
        }
    ]


def text(table: list[Row]) -> Fields:
    """Return by network and form what the first plan needs, and what the one with addresses takes."""
    spec = TableSpec(
        (
            Column("PMM : DRAM", lambda group: f"{group[0]['ratio']} : 1", RIGHT),
            Column("form", lambda group: METHODS[group[0]["method"]][0]),
            Column("first plan", lambda group: _slower(group[0], "first_period"), RIGHT),
            *(
                Column(f"{rule}: {heading}", partial(_cell, rule, cell), RIGHT)
                for rule in RULES
                for heading, cell in (
                    ("height", lambda r: f"{r['first_height'] / r['dram'] - 1:+.1%}"),
                    ("rounds", lambda r: f"{r['rounds']}"),
                    ("with addresses", lambda r: _slower(r, "period")),
                )
            ),
        ),
        groups=("ratio", "method"),
    )
    return {"table": spec.of(table)}


def _slower(row: Row, key: str) -> str:
    return "none" if row[key] is None else f"{row[key] / row['ideal'] - 1:.1%}"


def _cell(rule: str, cell: Callable[[Row], str], group: list[Row]) -> str:
    return next((cell(row) for row in group if row["addresses"] == rule), "-")
