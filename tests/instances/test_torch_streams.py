"""What the runner gives a CUDA device is in order: on a model of one, no use of bytes is left to chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.instances.torch_import.running.carry_out import carry_out
from lowtide.models.errors import BackendUnavailable, InstanceError, VerificationError
from lowtide.models.graph import Graph
from lowtide.models.machine import Access, Channel, Machine, Processor, Tier
from lowtide.models.op import Op, Tensor
from lowtide.models.plan import Copy, Free, Plan, Resident, Run
from tests.effort import many, seeds
from tests.random_plans import random_case

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from lowtide.instances.torch_import.running.streams import Streams  # noqa: E402  (needs torch)
from tests.fake_cuda import FakeCuda, Race  # noqa: E402


class Kernels(Streams):
    """Ops that are no operators: they read, make and change what their op does, and take a workspace."""

    def __init__(self, fake: FakeCuda, graph: Graph, plan: Plan, seed: int = 0, keep: Any = ()) -> None:
        self.fake, self.kernels = fake, Random(seed)
        step = SimpleNamespace(graph=graph, optimizer=None, device="cuda")
        step.trace = SimpleNamespace(initial={}, gradients={}, outputs=(), content={})
        step.lowered = SimpleNamespace(index={}, sources=(None,) * len(graph.ops), absorbed=frozenset())
        self.sizes = [self.kernels.choice((0, 0, 100, 900)) for _ in graph.ops]
        frugal = [i for i, nbytes in enumerate(self.sizes) if not nbytes and self.kernels.random() < 0.7]
        super().__init__(step, plan.machine, keep=keep, frugal=frugal)  # type: ignore[arg-type]
        self._content = {t: content_of(x) for t, x in enumerate(graph.tensors) if x.initial}
        self._shown = {t: torch.empty(x.nbytes, dtype=torch.uint8) for t, x in enumerate(graph.tensors)}

    def _compute(self, op: int, tiers: Mapping[int, str]) -> None:
        def new(nbytes: int) -> Any:
            return torch.empty(nbytes, dtype=torch.uint8, device="cuda").untyped_storage()

        graph, found = self.step.graph, self.step.graph.ops[op]
        reads = [self._held[t, tiers[t]] for t in found.reads]
        kept = {t: new(graph.tensors[t].nbytes) for t in found.writes if t not in found.reads}
        workspace = [new(self.sizes[op])] if self.sizes[op] else []
        changed = [self._held[t, tiers[t]] for t in found.writes if t in found.reads]
        self.fake.launch(f"op {op}", reads, [*kept.values(), *changed, *workspace])
        for t, storage in kept.items():
            self._own(t, tiers[t], storage)

    def ends_behind_all(self, plan: Plan) -> bool:
        """Whether the last time that is taken is behind all; of a period, behind all of its runs."""
        clock, processors = self._marks[-1].clock, {p.name for p in plan.machine.processors}
        return all(
            clock.get(stream.number, 0) >= stream.clock.get(stream.number, 0)
            for key, stream in self._streams.items()
            if plan.period is None or key in processors
        )


def content_of(tensor: Tensor) -> Any:
    """Return initial content: of inputs on the device, of weights in memory of the host."""
    where = "cpu" if tensor.final else "cuda"
    return torch.empty(tensor.nbytes, dtype=torch.uint8, device=where).untyped_storage()


def checked(
    graph: Graph, plan: Plan, seed: int = 0, iterations: int = 1, keep: Any = (), **fake: Any
) -> FakeCuda:
    """Carry out a plan on the model of a device; races are raised."""
    with FakeCuda(seed, **fake) as device:
        backend = Kernels(device, graph, plan, seed, keep)
        carry_out(graph, plan, backend, iterations, watch=False)
        backend.finish()
        if backend._marks and not backend.ends_behind_all(plan):
            raise Race("the clock stops before all is over")
        assert len(backend.iterations_ns) == iterations
    return device


def one_home(machine: Machine) -> bool:
    return len({access.tier for p in machine.processors for access in p.tiers}) == 1


@cache
def drawn(flavour: str, seed: int) -> tuple[Graph, Plan] | None:
    """Return a random plan that the runner takes, and that has something to wait for."""
    for k in range(5):
        case = random_case(Random(100 * seed + k), flavour)
        if one_home(case.plan.machine) and (case.plan.copies or flavour == "parallel"):
            try:
                with FakeCuda() as fake:
                    carry_out(case.graph, case.plan, Kernels(fake, case.graph, case.plan), watch=False)
            except (InstanceError, VerificationError):
                continue
            except Race:
                pass
            return case.graph, case.plan
    return None


SLOW = pytest.mark.slow  # many plans on a model of a device


@SLOW
@pytest.mark.parametrize("flavour", ["parallel", "tiered", "recompute", "periodic"])
@given(seed=st.integers(0, 10**5))
@many(20)
def test_random_plans_leave_nothing_to_chance(flavour: str, seed: int) -> None:
    found = drawn(flavour, seed)
    if found is not None:
        checked(*found, seed=seed, iterations=3 if flavour == "periodic" else 1)


METHODS = ("planner", "vdnn", "autoswap", "demand-lru", "capuchin")
"""Of placement; each also with periods, the first one also with second runs."""


@cache
def solved(method: str, kind: str, seed: int) -> tuple[Graph, Plan] | None:
    """Return a training step whose durations, and channels, let copies begin and end while ops run."""
    rng = Random(seed)
    shape = rng.choice(("chain?n=5", "layered?layers=3&width=2", "sp?n=6"))
    graph = lt.load(f"gen:{shape}&train=1&seed={seed}")
    weight, given = len(graph.tensors), len(graph.tensors) + 1
    more = (
        Tensor(name="weight", nbytes=700, kind="weight", initial=True, final=True),
        Tensor(name="given", nbytes=600, kind="input", initial=True),
    )
    ops = [
        replace(op, duration_ns=rng.randint(1, 40), reads=(*op.reads, *((weight, given) if i == 0 else ())))
        for i, op in enumerate(graph.ops)
    ]
    ops[-1] = replace(ops[-1], reads=(*ops[-1].reads, weight), writes=(*ops[-1].writes, weight))
    tensors = tuple(replace(tensor, nbytes=60 * tensor.nbytes) for tensor in graph.tensors)
    graph = replace(graph, tensors=(*tensors, *more), ops=tuple(ops))
    peak = lt.verify(graph, lt.Plan.from_order(graph, range(len(graph.ops)))).peaks["memory"]
    machine = host_and_gpu(rng.choice((60, 75, 90)) * peak // 100, rng.choice((4, 20, 60)) * 10**9)
    options: dict[str, Any] = {"periodic": kind == "period", "recompute": kind == "second runs"}
    plan = lt.solve(lt.Placement(graph, machine, whole=True, **options), method, time_limit=1).plan
    return None if plan is None or not plan.copies else (graph, plan)


def host_and_gpu(
    capacity: int | None, rate: int, host: tuple[str, ...] = ("host",), shared: bool = True
) -> Machine:
    tiers = ("gpu", *host)
    return Machine(
        tiers=(Tier(name="gpu", capacity=capacity), *(Tier(name=name) for name in host)),
        processors=(Processor(name="gpu0", tiers=(Access(tier="gpu"),)),),
        channels=tuple(
            Channel(src=a, dst=b, bytes_per_s=rate, shared=shared) for a in tiers for b in tiers if a != b
        ),
    )


CASES = [
    *((method, kind) for method in METHODS for kind in ("once", "period")),
    ("capuchin", "second runs"),
]


@SLOW
@pytest.mark.parametrize(("method", "kind"), CASES)
def test_plans_of_methods_leave_nothing_to_chance(method: str, kind: str) -> None:
    found = [solved(method, kind, seed) for seed in seeds(6, least=3)]
    for seed, case in enumerate(found):
        if case is not None:
            checked(*case, seed=seed, iterations=3 if kind == "period" else 1)
    assert any(found)


# -- what is left out is found out --------------------------------------------------------------------

Ignore = Callable[[str, Any, Any], bool]
PROCESSOR, CHANNEL, START = "a processor", "a channel", "the start"


def kind_of(backend: Streams, stream: Any) -> str:
    key = next(key for key, found in backend._streams.items() if found is stream)
    return START if key == () else CHANNEL if isinstance(key, tuple) else PROCESSOR


def caught(ignore: Ignore = lambda *_: False) -> bool:
    """Whether a race is found in some case."""
    for seed in range(3):
        for graph, plan in cases():
            try:
                checked(graph, plan, seed, 3 if plan.period else 1, ignore=ignore)
            except Race:
                return True
    return False


@cache
def cases() -> list[tuple[Graph, Plan]]:
    found = [solved(method, kind, seed) for method, kind in CASES for seed in range(3)]
    found += [drawn("parallel", seed) for seed in range(8)] + [
        overtaking(),
        through_the_host(),
        starting_anew(),
    ]
    return [case for case in found if case is not None]


@SLOW
def test_nothing_is_found_where_nothing_is_left_out() -> None:
    assert len(cases()) > 20
    assert not caught()


@SLOW
@pytest.mark.parametrize(
    ("waits", "for_what"),
    [
        (PROCESSOR, PROCESSOR),
        (PROCESSOR, CHANNEL),
        (CHANNEL, PROCESSOR),
        (CHANNEL, CHANNEL),
        (PROCESSOR, START),
        (CHANNEL, START),
        (START, PROCESSOR),
        (START, CHANNEL),
    ],
)
def test_each_wait_for_an_event_matters(waits: str, for_what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now: list[Streams] = []
    original = Streams._stream

    def noted(self: Streams, key: object) -> Any:
        now[:] = [self]
        return original(self, key)

    monkeypatch.setattr(Streams, "_stream", noted)

    def ignore(call: str, stream: Any, event: Any) -> bool:
        if call != "wait_event":
            return False
        return (kind_of(now[0], stream), kind_of(now[0], event.stream)) == (waits, for_what)

    assert caught(ignore)


@SLOW
def test_any_single_wait_matters_or_another_one_says_the_same() -> None:
    """Of one plan each call by itself: those that nobody misses are few, and not of one kind."""
    graph, plan = next(case for case in (solved("vdnn", "period", seed) for seed in range(9)) if case)

    def count(left_out: int) -> tuple[int, bool]:
        seen = 0

        def ignore(call: str, stream: Any, event: Any) -> bool:
            nonlocal seen
            seen += call == "wait_event"
            return call == "wait_event" and seen == left_out

        try:
            seen = 0
            checked(graph, plan, 0, 2, ignore=ignore)
        except Race:
            return seen, True
        return seen, False

    calls, race = count(0)
    assert not race
    assert sum(count(n)[1] for n in range(1, calls + 1)) > calls // 10


@SLOW
def test_copies_wait_for_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their bytes are handed out again before the op runs."""
    monkeypatch.setattr("lowtide.instances.torch_import.running.streams._within", lambda one, others: True)
    assert caught()


@SLOW
def test_bytes_released_before_an_op_are_not_those_released_since(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Streams.run

    def run(self: Streams, action: Run, tiers: Mapping[int, str]) -> None:
        original(self, action, tiers)
        self._going.update(dict.fromkeys(self._going, 0))
        self._released.append((0, 2**62))

    monkeypatch.setattr(Streams, "run", run)
    assert caught()


@SLOW
@pytest.mark.parametrize("what", ["synchronize", "event.synchronize"])
def test_each_wait_of_the_host_matters(what: str) -> None:
    assert caught(lambda call, stream, event: call == what)


def test_content_that_is_kept_is_waited_for() -> None:
    graph, plan = next(case for case in (solved("vdnn", "once", seed) for seed in range(9)) if case)
    written = {t for op in graph.ops for t in op.writes}
    with FakeCuda() as fake:
        backend = Kernels(fake, graph, plan, keep=written)
        carry_out(graph, plan, backend, watch=False)
        assert set(backend.results) == written
        fake.ignored = lambda call, *_: call == "synchronize"
        backend = Kernels(fake, graph, plan, keep=())
        with pytest.raises(Race):
            carry_out(graph, plan, backend, watch=False)


@SLOW
def test_what_is_placed_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Streams,
        "place",
        lambda self, t, tier, *, valid: self._on_stream((), super(Streams, self).place, t, tier, valid=valid),
    )
    assert caught()


def overtaking() -> tuple[Graph, Plan]:
    """Return a plan in which a copy begins behind another one on its channel, and ends before it."""
    graph = Graph(
        name="overtaking",
        tensors=(
            Tensor(name="long", nbytes=100, initial=True),
            Tensor(name="short", nbytes=10, initial=True),
        ),
        ops=(Op(name="read", reads=(0, 1), duration_ns=5),),
    )
    plan = Plan(
        machine=host_and_gpu(None, 10**9, shared=False),
        start=(Resident(0, "host"), Resident(1, "host")),
        start_tiers={},
        copies=(Copy(0, "host", "gpu", 0, 100), Copy(1, "host", "gpu", 1, 11)),
        runs=(Run(0, 0, 100, 105, "gpu0"),),
        frees=tuple(Free(t, tier, 105) for t in (0, 1) for tier in ("host", "gpu")),
    )
    return graph, plan


def starting_anew() -> tuple[Graph, Plan]:
    """Return a period whose input may start where a copy still reads what was there."""
    graph = Graph(
        name="anew",
        tensors=(Tensor(name="given", nbytes=600, initial=True), Tensor(name="made", nbytes=600)),
        ops=(Op(name="make", reads=(0,), writes=(1,), duration_ns=5),),
    )
    plan = Plan(
        machine=host_and_gpu(None, 10**9),
        start=(Resident(0, "gpu"),),
        start_tiers={},
        copies=(Copy(1, "gpu", "host", 5, 605),),
        runs=(Run(0, 0, 0, 5, "gpu0"),),
        frees=(Free(0, "gpu", 5), Free(1, "gpu", 605), Free(1, "host", 605)),
        period=606,
    )
    return graph, plan


def test_what_was_begun_later_counts_as_over_even_if_it_ended_before(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, plan = overtaking()
    assert lt.verify(graph, plan).valid
    checked(graph, plan)

    def ended(self: Streams, action: Run | Copy) -> None:
        key = action.processor if isinstance(action, Run) else (action.src, action.dst)
        self._ended[key] = self._begun.pop(action)

    monkeypatch.setattr(Streams, "ended", ended)
    with pytest.raises(Race, match=r"op 0 on \d uses what h2d on"):
        checked(graph, plan)


def through_the_host() -> tuple[Graph, Plan]:
    """Return a plan whose tensor goes to the host, from there to a drive, and all the way back."""
    graph = Graph(
        name="far",
        tensors=(Tensor(name="x", nbytes=100),),
        ops=(
            Op(name="make", writes=(0,), duration_ns=5),
            Op(name="read", reads=(0,), duration_ns=5),
        ),
    )
    ways = (("gpu", "host"), ("host", "drive"), ("drive", "host"), ("host", "gpu"))
    copies = tuple(Copy(0, a, b, 5 + 100 * k, 105 + 100 * k) for k, (a, b) in enumerate(ways))
    plan = Plan(
        machine=host_and_gpu(None, 10**9, ("host", "drive")),
        start_tiers={},
        copies=copies,
        runs=(Run(0, 0, 0, 5, "gpu0"), Run(1, 0, 405, 410, "gpu0")),
        frees=(
            *(Free(0, copy.src, copy.end) for copy in copies),
            Free(0, "gpu", 410),
        ),
    )
    return graph, plan


def test_copies_between_tiers_of_the_host_wait_on_the_host() -> None:
    graph, plan = through_the_host()
    assert lt.verify(graph, plan).valid
    checked(graph, plan)
    with pytest.raises(Race, match="copy on -1 uses what d2h on"):
        checked(graph, plan, ignore=lambda call, *_: call == "event.synchronize")


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, plan = overtaking()
    two = Processor(name="cpu", tiers=(Access(tier="host"),))
    machine = replace(plan.machine, processors=(*plan.machine.processors, two))
    with pytest.raises(InstanceError, match="processors use tiers"):
        checked(graph, replace(plan, machine=machine))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BackendUnavailable, match="found no CUDA device"):
        Kernels(FakeCuda(), graph, plan)
