"""Banks: the least traffic outside of the first one, against every division of the buffers."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide import Buffer, Buffers, Gap
from lowtide.formulations.offsets.banks_cpsat import banks_data, bound
from lowtide.instances import load_problem
from lowtide.models.buffers import read_banks
from tests.commands import within
from tests.effort import share
from tests.oracles.brute_offsets import least_outside


def random_buffers(draw: random.Random) -> tuple[Buffers, str]:
    buffers = []
    for k in range(draw.randint(1, 5)):
        lower, length, size = draw.randint(0, 4), draw.randint(1, 4), draw.randint(0, 4)
        gaps: tuple[Gap, ...] = ()
        if size and length > 2 and draw.random() < 0.4:
            gaps = (Gap(lower + 1, lower + 2, 0, draw.randint(0, size - 1)),)
        buffers.append(
            Buffer(
                id=str(k),
                lower=lower,
                upper=lower + length,
                size=size,
                alignment=draw.choice((1, 1, 2)),
                gaps=gaps,
                pool=draw.choice(("", "", "", "b")),
                traffic=draw.choice((None, draw.randint(0, 9))),
            )
        )
    last = draw.choice(("c", f"c={draw.randint(1, 6)}"))
    middle = draw.choice(("b", f"b={draw.randint(1, 5)}/{last}"))
    return Buffers(buffers=tuple(buffers)), f"a={draw.randint(1, 6)}/{middle}"


@pytest.mark.parametrize("seed", range(share(200)))
def test_the_optimum_is_that_of_every_division(seed: int) -> None:
    buffers, banks = random_buffers(random.Random(seed))
    problem = lt.Offsets(buffers, banks=banks)
    least = least_outside(buffers, banks)
    result = lt.solve(problem, threads=1)
    if least is None:
        assert result.status == "infeasible"
        return
    assert (result.status, result.objective, result.bound) == ("optimal", least, least)
    assert bound(banks_data(buffers, problem.bank_list)) <= least


def pair(**changes: Any) -> Buffers:
    x, y = (Buffer(id=name, lower=0, upper=2, size=4) for name in "xy")
    return Buffers(buffers=(x, replace(y, **changes)))


def test_what_is_used_most_lies_in_the_fast_bank() -> None:
    result = lt.solve(lt.Offsets(pair(traffic=40), banks="fast=4/slow"))
    assert result.allocation == {"x": 4, "y": 0}
    assert result.objective == 4


@pytest.mark.parametrize(
    ("addresses", "kind"),
    [
        ({"x": 0, "y": 0}, "overlap"),
        ({"x": 2, "y": 8}, "capacity"),
        ({"x": 4, "y": 6}, "overlap"),
        ({"x": 0, "y": 9}, "alignment"),
    ],
    ids=["one address", "across the border", "in the slow bank", "from the first byte of the bank"],
)
def test_the_verifier_judges_each_bank(addresses: dict[str, int], kind: str) -> None:
    problem = lt.Offsets(pair(alignment=2), banks="fast=4/slow")
    assert {v.kind for v in problem.judge(addresses).violations} == {kind}
    assert problem.judge({"x": 0, "y": 6}).objective == 4


def test_a_buffer_of_another_bank_is_found_there() -> None:
    x, y = pair().buffers
    problem = lt.Offsets(Buffers(buffers=(x, replace(y, pool="slow"))), banks="fast=8/slow")
    assert [v.kind for v in problem.judge({"x": 0, "y": 4}).violations] == ["offset"]
    assert lt.solve(problem).objective == 4


@pytest.mark.parametrize("text", ["", "a", "a=4", "a/b=4", "a=4/a", "a=0/b", "a=x/b", "/b", "a=4/"])
def test_texts_that_are_no_banks(text: str) -> None:
    with pytest.raises(lt.UsageError, match=r"^banks: found .*, expected names with bytes such as"):
        read_banks(text)


@pytest.mark.parametrize(
    ("buffers", "found"),
    [
        (pair(offset=0), "buffer 'y': found a fixed offset"),
        (replace(pair(), inplace=(("x", "y"),)), "inplace: found"),
        (replace(pair(), pools={"": 4}), "capacity 4, expected"),
        (Buffers(buffers=(Buffer(id="x", lower=0, upper=1, size=1, pool="gpu"),)), "pool 'gpu'"),
    ],
)
def test_what_banks_do_not_go_with(buffers: Buffers, found: str) -> None:
    with pytest.raises(lt.InstanceError, match=found):
        lt.Offsets(buffers, banks="fast=4/slow")


def test_methods_that_know_no_banks_are_refused() -> None:
    with pytest.raises(
        lt.UsageError, match="method greedy: found banks, expected a method that knows it: auto"
    ):
        lt.solve(lt.Offsets(pair(), banks="fast=4/slow"), "greedy")


def test_the_command_line_and_specifications_take_banks(tmp_path: Path) -> None:
    for name in ("buffers.csv", "buffers.json"):
        path = tmp_path / name
        lt.save(pair(traffic=40), path)
        done = within("solve", "offsets", str(path), "--banks", "fast=4/slow", "--quiet", cwd=tmp_path)
        assert "objective  4 B" in done.stdout
        assert load_problem("offsets", f"{path}?banks=fast=4/slow") == lt.Offsets(
            lt.load_buffers(path), banks="fast=4/slow"
        )
