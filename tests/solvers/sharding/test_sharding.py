"""Sharding: methods against all choices, the verifier on every choice, instances of the contest."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.model import BuildTimeout
from lowtide.formulations.sharding.data import ShardingData, merged_data
from lowtide.formulations.sharding.prices import UsagePrices, plain, shifted, without_dear
from lowtide.formulations.sharding.reduction import never, reduced, sharding_data
from lowtide.instances import read_answer, read_hint, write_answer
from lowtide.models.cost_network import FORBIDDEN
from lowtide.models.verifier.sharding import verify_sharding
from lowtide.solvers.context import Context
from lowtide.solvers.sharding.ascent import Ascent, solve_prices
from lowtide.solvers.sharding.auto import solve_auto
from lowtide.solvers.sharding.beam_kernel import GRAINS, BeamGuide, beam
from lowtide.solvers.sharding.beams import solve_beams
from lowtide.solvers.sharding.bounds import raise_bound
from lowtide.solvers.sharding.flat import flat_network
from lowtide.solvers.sharding.message_kernel import cost_of, usage_of
from lowtide.solvers.sharding.models import solve_milp
from tests.commands import answer, refused, within
from tests.effort import seeds
from tests.oracles.brute_sharding import choices, cost, least_cost, random_network

EXAMPLE = "catalogue:iopddl/example"


@pytest.mark.parametrize("seed", seeds(100))
def test_the_verifier_says_what_the_letter_says_of_every_choice(seed: int) -> None:
    network = random_network(seed)
    for choice in choices(network):
        verdict = verify_sharding(network, choice)
        assert (verdict.cost if verdict.valid else None) == cost(network, choice)


@pytest.mark.parametrize("seed", seeds(60))
def test_all_methods_against_all_choices(seed: int) -> None:
    problem = lt.Sharding(random_network(seed))
    least = least_cost(problem.network)
    for method in ("auto", "milp"):
        result = lt.solve(problem, method, threads=1)
        if least is None:
            assert result.status == "infeasible", method
        else:
            assert (result.status, result.objective) == ("optimal", least), method
    for method in ("lp-bound", "prices", "beam"):
        rounds = {"prices": {"rounds": "20"}, "beam": {"rounds": "2"}}.get(method)
        result = lt.solve(problem, method, threads=1, options=rounds)
        assert result.status not in ("failed", "infeasible" if least is not None else "optimal")
        if least is not None and result.bound is not None:
            assert result.bound <= least
        if result.objective is not None:
            assert least is not None
            assert result.objective >= least


@pytest.mark.parametrize("seed", seeds(200))
def test_what_is_left_has_every_allowed_choice_its_cost_and_what_fits(seed: int) -> None:
    network = random_network(seed)
    data = merged_data(network, never)
    allowed = [choice for choice in choices(network) if cost(network, choice) is not None]
    if data.empty is not None:
        assert not allowed
        return
    net = flat_network(data)
    for choice in allowed:
        labels = data.labels(choice)
        assert labels is not None
        assert tuple(data.choice(labels)) == choice
        total = data.fixed + sum(int(row[k]) for row, k in zip(data.costs, labels, strict=True))
        total += sum(int(own[labels[u], labels[v]]) for (u, v), own in data.matrices.items())
        assert total == cost(network, choice) == data.fixed + cost_of(net, np.array(labels, np.int64))
    for chosen in product(*(range(len(row)) for row in data.costs)):
        fits = (usage_of(net, np.array(chosen, np.int64)) <= data.room).all()
        assert fits == (verify_sharding(network, data.choice([*chosen])).usage <= network.limit)


@pytest.mark.parametrize("seed", seeds(300))
def test_reduction_keeps_the_least_cost_and_what_labels_cost_and_use(seed: int) -> None:
    network = random_network(seed, most_nodes=8)
    least, data = least_cost(network), reduced(merged_data(network, never))
    if data.empty is not None:
        assert least is None
        return
    used = []
    for chosen in product(*(range(len(row)) for row in data.costs)):
        choice, labels = data.choice([*chosen]), np.array(chosen, np.int64)
        total = data.fixed + cost_of(flat_network(data), labels)
        fits = (usage_of(flat_network(data), labels) <= data.room).all()
        verdict = verify_sharding(network, choice)
        forbidden = any(v.kind == "forbidden" for v in verdict.violations)
        assert forbidden == (total == np.inf)
        assert fits == (verdict.usage <= network.limit)
        if not forbidden:
            assert total == verdict.cost
            assert data.labels(tuple(choice)) == [*chosen]
            used += [total] if fits else []
    assert min(used, default=None) == least


def random_prices(data: ShardingData, seed: int) -> UsagePrices:
    rng = np.random.default_rng(seed)
    count = sum(sum(own.shape) for own in data.matrices.values())
    return UsagePrices(
        unit=int(rng.integers(1, 5)),
        sections=rng.integers(0, 4, len(data.room)),
        shares=rng.integers(-9, 9, count),
    )


@pytest.mark.parametrize("seed", seeds(200))
def test_whatever_the_prices_are_they_bound_all_and_keep_what_is_as_cheap(seed: int) -> None:
    network = random_network(seed)
    data = merged_data(network, never)
    if data.empty is not None:
        return
    for shift in (plain(data), shifted(data, random_prices(data, seed))):
        for choice in choices(network):
            total = cost(network, choice)
            if total is None:
                continue
            assert shift.bound <= total
            labels, (nodes, pairs) = data.labels(choice), without_dear(shift, total)
            assert labels is not None
            assert all(row[k] for row, k in zip(nodes, labels, strict=True))
            assert all(own[labels[u], labels[v]] for (u, v), own in pairs.items())


def test_numbers_that_are_too_large_shift_nothing() -> None:
    data = sharding_data(lt.Sharding(lt.load_network(EXAMPLE)))
    prices = random_prices(data, 1)
    large = replace(prices, shares=prices.shares * 2**59)
    assert shifted(data, large).bound == plain(data).bound


@pytest.mark.parametrize("seed", seeds(100))
def test_a_beam_that_drops_nothing_has_the_least_cost_of_what_fits(seed: int) -> None:
    problem = lt.Sharding(random_network(seed, most_nodes=8))
    data = merged_data(problem.network, never)
    if data.empty is not None or (data.room < 0).any() or not data.costs:
        return
    net, sections = flat_network(data), np.arange(len(data.room))
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 2**62, len(net.costs) + GRAINS + 1)
    messages = rng.normal(size=sum(sum(own.shape) for own in data.matrices.values()))
    labels = np.zeros(len(data.costs), np.int64)
    order = rng.permutation(len(data.costs))
    value = beam(net, BeamGuide(net.costs, messages, keys), order, labels, sections, data.room, 10_000)
    least = least_cost(problem.network)
    if np.isinf(value):
        return  # of two partial answers the cheaper one may use too much
    assert least is not None
    assert (usage_of(net, labels) <= data.room).all()
    assert value == pytest.approx(cost_of(net, labels))
    assert round(value) + data.fixed >= least
    free = replace(data, pieces=[[] for _ in data.costs], room=data.room[:0])
    value = beam(
        flat_network(free),
        BeamGuide(net.costs, messages, keys),
        order,
        labels,
        sections[:0],
        free.room,
        10_000,
    )
    every = product(*(range(len(row)) for row in data.costs))
    assert value == pytest.approx(min(cost_of(net, np.array(one, np.int64)) for one in every))


def test_presolve_and_methods_keep_the_time_limit() -> None:
    problem = lt.Sharding(lt.load_network("catalogue:iopddl/G"))
    with pytest.raises(BuildTimeout):
        sharding_data(problem, lambda: True)
    for solve in (solve_auto, solve_beams, solve_prices, solve_milp):
        assert solve(problem, Context(problem=problem, time_limit=0.0)).reason == "time"
    assert "_data" not in problem.__dict__


@pytest.mark.parametrize("seed", seeds(100))
def test_on_a_tree_the_messages_prove_the_optimum(seed: int) -> None:
    problem = lt.Sharding(random_network(seed, tree=True))
    least, data = least_cost(problem.network), sharding_data(problem)
    assert (data.empty is None) == (least is not None)  # on a tree what is left is enough
    if least is None:
        return
    context = Context(problem=problem)
    Ascent(data, seed).run(context, 100)
    assert (context.bound, context.incumbent, context.proof) == (least, least, "exact")


def test_the_sum_of_least_costs_bounds_all() -> None:
    network = lt.load_network(EXAMPLE)
    for limit, least in ((50, 445), (1000, 415)):  # of what is left within the limit
        problem = lt.Sharding(replace(network, limit=limit))
        context = Context(problem=problem)
        raise_bound(problem, context)
        assert (context.bound, context.proof) == (least, "exact")


def test_example_of_the_contest(tmp_path: Path) -> None:
    problem = lt.Sharding(lt.load_network(EXAMPLE))
    assert [problem.evaluate(x) for x in ([0, 0, 2, 1, 0], [0, 0, 2, 0, 0])] == [445, 545]
    result = lt.solve(problem, threads=1)
    assert (result.status, result.objective, result.record()["facts"]["usage"]) == ("optimal", 445, 50)
    path = tmp_path / "a.json"
    write_answer(result, path)
    assert read_answer(path) == result.strategies
    assert (
        lt.solve(problem, "prices", hint=read_hint(path, problem), options={"rounds": "1"}).objective == 445
    )
    assert json.loads(path.read_text())["strategies"] == [0, 0, 2, 1, 0]


def test_mutated_answers_are_refused(tmp_path: Path) -> None:
    answer("solve", "sharding", EXAMPLE, "--plan", "a.json", cwd=tmp_path)
    assert answer("verify", "a.json", cwd=tmp_path)["cost"] == 445
    data = json.loads((tmp_path / "a.json").read_text())
    for strategies, kind in (
        ([0, 1, 1, 0, 0], "limit"),
        ([0, 0, 3, 0, 0], "strategy"),
        ([0, 0, 2, 1], "shape"),
    ):
        (tmp_path / "b.json").write_text(json.dumps({**data, "strategies": strategies}))
        done = within("verify", "b.json", "--json", cwd=tmp_path)
        assert (done.returncode, json.loads(done.stdout)["violations"][0]["kind"]) == (1, kind)
    other = {**data, "network": {**data["network"], "sha256": "0" * 64}}
    (tmp_path / "b.json").write_text(json.dumps(other))
    assert refused("verify", "b.json", cwd=tmp_path).startswith("b.json, network, sha256: found 000")
    (tmp_path / "c.json").write_text("[0, 0, 2, 0, 0]")
    assert answer("verify", "c.json", "--graph", EXAMPLE, cwd=tmp_path)["cost"] == 545
    assert "expected --graph SPEC" in refused("verify", "c.json", cwd=tmp_path)


def test_forbidden_costs_are_not_added() -> None:
    row = ((0, 3), (0, 3))
    network = lt.CostNetwork(
        intervals=row, costs=((5, FORBIDDEN), (1, 2)), usages=((0, 0), (0, 0)), edges=((0, 1),),
        matrices=((9 * FORBIDDEN, 7, 0, 0),), limit=0,
    )  # fmt: skip
    result = lt.solve(lt.Sharding(network), threads=1)
    assert (result.status, result.objective) == ("optimal", 14)
    assert [v.kind for v in verify_sharding(network, (1, 0)).violations] == ["forbidden"]
    assert [v.kind for v in verify_sharding(network, (0, 0)).violations] == ["forbidden"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("G", 217_039), ("B", 532_843)])
def test_instances_of_the_contest_have_the_winners_cost_as_optimum(name: str, least: int) -> None:
    problem = lt.Sharding(lt.load_network(f"catalogue:iopddl/{name}"))
    result = lt.solve(problem, "milp", threads=1, time_limit=None)
    assert result.objective == least
    assert result.bound is not None
    assert least - 10 <= result.bound <= least


@pytest.mark.slow
def test_prices_alone_prove_the_winners_cost_of_b_in_integers() -> None:
    problem = lt.Sharding(lt.load_network("catalogue:iopddl/B"))
    result = lt.solve(problem, "prices", threads=1, time_limit=None)
    assert (result.status, result.objective, result.proof) == ("optimal", 532_843, "exact")
