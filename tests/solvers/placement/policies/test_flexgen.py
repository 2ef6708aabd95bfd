"""Inference in FlexGen's block schedule: the graph by its cost model, the policy, the bound of each step."""

from __future__ import annotations

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.estimates.flexgen import Inference, least_seconds, policy
from lowtide.instances.generators import generate
from lowtide.models.opt import OPT, Decoder
from lowtide.solvers.placement.policies import flexgen
from lowtide.solvers.placement.reductions import relays
from lowtide.solvers.placement.simulator.problem import simulated_problem

LAYERS = 4
MODEL = Decoder(layers=LAYERS, hidden=OPT["opt-1.3b"].hidden, heads=OPT["opt-1.3b"].heads)
LARGE = 2**45


def _graph(
    prompt: int = 16, new: int = 4, batch: int = 2, batches: int = 3, prefill: bool = True
) -> lt.Graph:
    return generate(
        "flexgen",
        model="opt-1.3b",
        layers=LAYERS,
        prompt=prompt,
        new=new,
        batch=batch,
        batches=batches,
        prefill=prefill,
    )


def _asked(capacity: int, prompt: int = 16, new: int = 4) -> Inference:
    return Inference(model=MODEL, capacity=(capacity, LARGE, LARGE), prompt=prompt, new=new)


def _on(graph: lt.Graph, device: int, host: int = LARGE, start: str = "host") -> lt.Placement:
    machine = lt.load_machine("t4-flexgen", {"gpu": device, "host": host})
    return lt.Placement(graph, machine, start={"input": (start,)})


@pytest.mark.parametrize(("prompt", "new", "batch", "batches"), [(16, 4, 2, 3), (100, 9, 5, 1), (7, 1, 1, 2)])
def test_ops_take_what_the_cost_model_says(prompt: int, new: int, batch: int, batches: int) -> None:
    graph = _graph(prompt, new, batch, batches)
    found = policy(_asked(LARGE, prompt, new), batch, batches)
    assert found is not None
    assert found.cache[0] == 1
    for phase, steps in (("prefill", 1), ("decode", new - 1)):
        ops = [op for op in graph.ops if op.kind == phase]
        assert len(ops) == steps * LAYERS * batches
        seconds = LAYERS * steps * found.seconds[phase]["compute"]
        if phase == "decode":  # (s + 1) + ... + (s + n - 1) tokens of context, on average s + n / 2
            assert 0 <= sum(op.duration_ns for op in ops) - seconds * 10**9 < len(ops) + 1
        else:
            assert 0 <= sum(op.duration_ns for op in ops) - seconds * 10**9 < len(ops)


def test_tensors_are_weights_caches_and_states() -> None:
    graph, n = _graph(), 6
    size = {
        kind: sum(t.nbytes for t in graph.tensors if t.kind == kind) for kind in ("weight", "state", "input")
    }
    assert size["weight"] == LAYERS * MODEL.weights
    assert size["state"] == LAYERS * n * (16 + 2) * MODEL.cache  # those of the last step nobody reads
    assert size["input"] == n * 16 * MODEL.state
    decoding = _graph(prefill=False)
    assert {op.kind for op in decoding.ops} == {"decode"}
    assert sum(t.nbytes for t in decoding.tensors if t.initial and t.kind == "state") == (
        LAYERS * n * 16 * MODEL.cache
    )
    last = graph.ops[-1]
    names = {graph.tensors[t].name for t in last.reads}
    assert names == {"w3", "h3.2.2", "c0.3.2", "c1.3.2", "c2.3.2"}
    assert last.workspace == 2 * (13 * MODEL.state + 2 * 19 * (MODEL.heads + MODEL.cache))


def _by_steps(graph: lt.Graph, device: int) -> float:
    """Return the ns of all steps: their ops, or the weights, keys and values of before that do not fit."""
    steps: dict[str, list[lt.Op]] = {}
    for op in graph.ops:
        steps.setdefault(op.name.split(".")[0], []).append(op)
    total = 0.0
    for ops in steps.values():
        read = {t for op in ops for t in op.reads if graph.tensors[t].kind in ("weight", "state")}
        lacks = sum(graph.tensors[t].nbytes for t in read) - device
        total += max(sum(op.duration_ns for op in ops), lacks * 10**9 / (12.89 * 2**30))
    return total


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("prefill", [False, True])
def test_no_plan_is_faster_than_the_sum_of_the_steps_bounds(layers: int, prefill: bool) -> None:
    graph = _graph(prompt=64, prefill=prefill)  # caches of 64 to 66 tokens
    device = layers * MODEL.weights
    least = least_seconds(_asked(device, 64), 2, 3, prefill=prefill) * 10**9
    whole = sum(op.duration_ns for op in graph.ops)
    assert least > (1 if prefill else 2) * whole
    assert abs(least - _by_steps(graph, device)) < len(graph.ops)
    rests = {"weights": "25", "cache": "0", "states": "100"}
    result = lt.solve(_on(graph, device), "flexgen", options=rests, threads=1)
    assert result.objective is not None
    assert result.status is lt.Status.FEASIBLE
    assert result.objective >= least
    roomy = least_seconds(_asked(LARGE, 64), 2, 3, prefill=prefill) * 10**9
    assert 0 <= whole - roomy < len(graph.ops)


def test_fractions_of_each_class_rest() -> None:
    graph = _graph()
    case = simulated_problem(_on(graph, LARGE, start="gpu"))
    for percentages in ((50, 0, 100), (25, 75, 0), (100, 100, 100), (0, 0, 0)):
        tried = {name: (p,) for name, p in zip(flexgen.CLASSES, percentages, strict=True)}
        ((name, decisions),) = flexgen.decide(case, tried)
        assert name == "weights {} %, cache {} %, states {} %".format(*percentages)
        away = set(case.absence_tensor[decisions.tier > 0].tolist())
        for kind, part in zip(("weight", "state"), percentages[:2], strict=True):
            of = [i for i, t in enumerate(case.tensor.tolist()) if graph.tensors[t].kind == kind]
            sizes = [int(case.size[i]) for i in of]
            rest = sum(int(case.size[i]) for i in of if i not in away)
            assert 0 <= sum(sizes) * part / 100 - rest < max(sizes)
            assert part < 100 or rest == sum(sizes)
        kinds = {graph.tensors[int(case.tensor[i])].kind for i in away}
        assert bool(kinds & {"input", "activation"}) == (name.endswith("states 0 %"))


@pytest.mark.parametrize(("layers", "percent", "resting"), [(10, 10, [9]), (15, 20, [4, 9, 14])])
def test_a_layer_rests_as_soon_as_the_fraction_has_room(
    layers: int, percent: int, resting: list[int]
) -> None:
    case = simulated_problem(
        _on(generate("flexgen", model="opt-1.3b", layers=layers, new=2, batches=1), LARGE)
    )
    ((_, decisions),) = flexgen.decide(case, {"weights": (percent,), "cache": (0,), "states": (0,)})
    away = {case.graph.tensors[int(case.tensor[i])].name for i in case.absence_tensor[decisions.tier > 0]}
    assert [j for j in range(layers) if f"w{j}" not in away] == resting


def test_weights_are_asked_back_as_the_layer_before_begins() -> None:
    case = simulated_problem(_on(_graph(), LARGE))
    ((_, decisions),) = flexgen.decide(case, {"weights": (0,), "cache": (0,), "states": (100,)})
    names = [case.graph.tensors[t].name for t in case.tensor.tolist()]
    op = {o.name: k for k, o in enumerate(case.graph.ops)}

    def asked(tensor: str, until: str) -> int:
        of = np.flatnonzero((case.absence_tensor == names.index(tensor)) & (case.absence_next == op[until]))
        return int(decisions.back[of[0]])

    assert asked("w2", "s1.l2.b0") == 2 * op["s1.l1.b0"] + 1
    assert asked("w0", "s2.l0.b0") == 2 * op["s1.l3.b0"] + 1
    assert asked("c0.2.1", "s1.l2.b1") == 2 * op["s1.l2.b0"] + 1


def test_layers_are_told_by_weights_though_the_first_op_has_none() -> None:
    weights = [lt.Tensor(name=f"w{j}", nbytes=8, kind="weight", initial=True, final=True) for j in range(2)]
    ops = [lt.Op(name="tokens"), *(lt.Op(name=f"l{k}", reads=(k % 2,)) for k in range(4))]
    case = simulated_problem(_on(lt.Graph(name="two", tensors=tuple(weights), ops=tuple(ops)), LARGE))
    ((_, decisions),) = flexgen.decide(case, {"weights": (0,), "cache": (0,), "states": (0,)})
    back = {int(until): int(decisions.back[g]) for g, until in enumerate(case.absence_next)}
    assert back[4] == 2 * 3 + 1  # for the last op, as the layer before begins


def test_it_serves_inference_in_several_passes() -> None:
    assert flexgen.serves(_on(_graph(), LARGE))
    assert not flexgen.serves(_on(_graph(new=1, batches=1), LARGE))  # no weight is read again
    trained = lt.load("gen:chain?n=4,train=1")
    assert not flexgen.serves(_on(trained, LARGE))


def test_what_fits_nowhere_is_said_once() -> None:
    result = lt.solve(
        _on(_graph(), 2 * MODEL.weights, MODEL.weights), "flexgen", options={"strict": "1"}, threads=1
    )
    assert result.plan is None
    assert result.detail.count("and 69 others") == 1  # of 210 percentages, 70 say something of their own


def test_fractions_above_all_are_refused() -> None:
    with pytest.raises(
        lt.UsageError, match=r"weights: found '200', expected a number of at least 0, at most 100"
    ):
        lt.solve(_on(_graph(), LARGE), "flexgen", options={"weights": "200"}, threads=1)


def test_asked_back_early_the_channel_does_not_wait() -> None:
    """Half of the caches rest; by layers a cache is asked back while one other op runs, early before that."""
    problem = _on(_graph(prompt=256, prefill=False), LAYERS * MODEL.weights)
    rests = {"weights": "50", "cache": "50", "states": "100"}
    late, early = (
        lt.solve(problem, "flexgen", options={**rests, "early": text}, threads=1) for text in ("0", "1")
    )
    assert late.objective is not None
    assert early.objective is not None
    assert early.objective < late.objective


def test_what_the_host_has_no_room_for_comes_from_the_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "PIECE", 2**20)
    problem = _on(_graph(prefill=False), 3 * MODEL.weights // 2, 2 * MODEL.weights)
    result = lt.solve(problem, "flexgen", options={"weights": "0", "cache": "0"}, threads=1)
    assert result.plan is not None, result.detail
    assert {c.src for c in result.plan.copies if c.dst == "host"} >= {"disk"}
    assert result.bound_kind == "windows, near tiers as one"
