"""Measure traced networks and a machine: native graphs with their durations, a machine file with its rates.

    python -m lowtide.instances.torch_import.measure 'resnet50?batch=32' ... [--device cuda] [--cap 8GiB]
        [--repeat 20] [--out DIR]

Each network of ``torch:`` is traced as a training step with weights (further options behind ``?``), a
module of the user's (``FILE.py:FUNCTION``, `lowtide.instances.torch_import.own_module`) as it is, and
each op is timed where it runs: by a monotonic clock on the CPU, by events on a GPU, which is given something
to do before each op, so that what is timed is the op and not how fast the host calls it. Its duration is the
median over the repetitions, after `WARM_UP` steps that do not count. The ops run in the reference order;
where that needs more than the cap, each op has its operands brought in and taken out again. On a GPU
algorithms are deterministic where torch has some, and an op's workspace is what torch's allocator held at
most while it ran beyond what the op was given and made, in bytes asked for. The CPU's allocator does not
say: workspaces are 0 there.

The machine has two tiers, and channels whose latency is the time of the smallest copy, and whose rate is
that of the largest copy without it. Its provenance lists each copy that was timed, by size; on a GPU also
beside ops, and beside copies the other way, which give the joint cap. On the CPU both tiers are the same
memory. What runs on a GPU was written without one; a test has a model of one.

Files: ``NAME.json.gz`` for each network, ``machine.toml``. Units: bytes, nanoseconds, bytes per second.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from ...models.checks import check_integer
from ...models.errors import InstanceError, LowtideError, UsageError
from ...models.graph import Graph
from ...models.lowering.builder import PlanBuilder
from ...models.machine import Access, Channel, ChannelGroup, Machine, Processor, Tier
from ...models.measurement import Measurement, Transfer
from ...models.plan import Plan
from ...models.texts import one_line
from ...models.units import parse_bytes
from ..formats.native import write_graph
from ..machines.written import write_machine
from ..spec import parse_spec
from . import checked_options, record_torch
from .errors import one_line_errors
from .own_module import is_own_module, own_recorder
from .recording import Step
from .tracing import require_device, require_torch

WARM_UP = 3
"""Steps before those that count: in them memory is allocated and kernels are chosen."""

SIZES = tuple(2**k for k in (10, 14, 18, 22, 26))
"""Bytes of the copies that are timed."""


def measured_graph(step: Step, found: Measurement, cap: int | None = None) -> Graph:
    """Return a step's graph with measured durations, and on a GPU workspaces.

    Parameters
    ----------
    found
        Where and how; `Measurement.repetitions` steps count.
    cap
        Bytes of the device that may be used; None: no limit.
    """
    from .running.carry_out import carry_out
    from .running.run import backend_of, deterministic

    plan = Plan.from_order(step.graph, range(len(step.graph.ops)))
    if cap is not None and _peak(step.graph, plan) > cap:
        plan = op_by_op(step.graph)
    times: dict[int, list[int]] = {}
    workspaces: dict[int, int] = {}
    with deterministic(step.device):
        for k in range(WARM_UP + found.repetitions):
            backend = backend_of(step, plan, alone=True)
            carry_out(step.graph, plan, backend, watch=False)
            backend.finish()
            for op, some in backend.durations.items() if k >= WARM_UP else ():
                times.setdefault(op, []).extend(some)
            workspaces = backend.workspaces
    ops = tuple(
        replace(op, duration_ns=max(1, int(median(times[i]))), workspace=workspaces.get(i, 0), work=())
        for i, op in enumerate(step.graph.ops)
    )
    provenance = {**step.graph.provenance, "durations": "measured", "measured": found.to_dict()}
    return replace(step.graph, ops=ops, provenance=provenance)


def _peak(graph: Graph, plan: Plan) -> int:
    from ...models.verifier.verify import verify

    return max(verify(graph, plan).peaks.values())


def op_by_op(graph: Graph) -> Plan:
    """Return the plan that has nothing on the device but what the op that runs reads and writes.

    Each op takes as long as it does; each copy a nanosecond, on channels that are fast enough for that.
    """
    rate = 10**9 * max([1, *(tensor.nbytes for tensor in graph.tensors)])
    machine = two_tiers(None, [Channel(src=a, dst=b, bytes_per_s=rate, shared=False) for a, b in WAYS])
    out = PlanBuilder(graph, machine)
    out.start_used("host")
    last = {t: i for i, op in enumerate(graph.ops) for t in (*op.reads, *op.writes)}
    now = 0
    for i, op in enumerate(graph.ops):
        for t in op.reads:
            out.copy(t, "host", "device", now, now + 1)
        end = now + 1 + op.duration_ns
        out.run(i, 0, now + 1, end, "device0")
        now = end + 1
        for t in op.writes:
            if t in op.reads:
                out.free(t, "host", end)
            out.copy(t, "device", "host", end, now)
        for t in dict.fromkeys((*op.reads, *op.writes)):
            out.free(t, "device", now)
            if last[t] == i and not graph.tensors[t].final:
                out.free(t, "host", now)
    return out.plan(start_tiers={})


WAYS = (("device", "host"), ("host", "device"))


def two_tiers(
    capacity: int | None,
    channels: Sequence[Channel],
    groups: Sequence[ChannelGroup] = (),
    provenance: Measurement | None = None,
) -> Machine:
    """Return a machine of a device and a host."""
    return Machine(
        name="measured",
        tiers=(Tier(name="device", capacity=capacity), Tier(name="host")),
        processors=(Processor(name="device0", tiers=(Access(tier="device"),)),),
        channels=tuple(channels),
        groups=tuple(groups),
        provenance=provenance,
    )


def measured_machine(device: str, found: Measurement, cap: int | None = None) -> Machine:
    """Return the machine of a device and a host, with the rates of copies between them.

    Parameters
    ----------
    cap
        Capacity of the device in bytes; None: all of a GPU, and no limit on the CPU.
    """
    torch = require_torch("machine")
    from .running.run import prepare

    prepare(device)
    timed = _Copies(torch, device, found.repetitions)
    kinds = ("nothing", "compute", "reverse") if device == "cuda" else ("nothing",)
    transfers = tuple(
        Transfer(src=a, dst=b, nbytes=n, duration_ns=timed(a, n, beside), beside=beside)
        for a, b in WAYS
        for beside in kinds
        for n in SIZES
    )
    took = {(t.src, t.beside, t.nbytes): t.duration_ns for t in transfers}
    channels = []
    for a, b in WAYS:
        latency, whole = took[a, "nothing", SIZES[0]], took[a, "nothing", SIZES[-1]]
        rate = SIZES[-1] * 10**9 // max(1, whole - latency)
        channels.append(Channel(src=a, dst=b, bytes_per_s=rate, latency_ns=latency))
    groups = []
    if device == "cuda":  # both ways at once, each as long as the slower of the two
        both = max(took[a, "reverse", SIZES[-1]] for a, _ in WAYS)
        groups.append(ChannelGroup(name="both", channels=WAYS, bytes_per_s=2 * SIZES[-1] * 10**9 // both))
        if cap is None:
            cap = int(torch.cuda.get_device_properties(0).total_memory)
    return two_tiers(cap, channels, groups, replace(found, transfers=transfers))


class _Copies:
    """Times of copies between the device and the host: memory of the CPU, or pinned memory and a GPU's."""

    def __init__(self, torch: Any, device: str, repetitions: int) -> None:
        self.torch, self.repetitions = torch, repetitions
        self.time = self._on_gpu if device == "cuda" else self._on_cpu
        if device == "cuda":
            from .running.streams import HEAD_START

            self.head_start = HEAD_START
            self.here, self.there = torch.cuda.Stream(), torch.cuda.Stream()
            self.square = torch.rand(4096, 4096, device="cuda")

    def __call__(self, src: str, nbytes: int, beside: str) -> int:
        """Return the median of the nanoseconds of a copy from a tier, beside something of `BESIDE`."""
        times = [self.time(src, nbytes, beside) for _ in range(WARM_UP + self.repetitions)]
        return max(1, int(median(times[WARM_UP:])))

    def _on_cpu(self, src: str, nbytes: int, beside: str) -> int:
        source, target = (self.torch.ones(nbytes, dtype=self.torch.uint8) for _ in range(2))
        begun = time.perf_counter_ns()
        target.copy_(source)
        return time.perf_counter_ns() - begun

    def _on_gpu(self, src: str, nbytes: int, beside: str) -> int:
        torch = self.torch
        near = [torch.empty(nbytes, dtype=torch.uint8, device="cuda") for _ in range(2)]
        far = [torch.empty(nbytes, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        ways = [(near[0], far[0]), (far[1], near[1])]
        (source, target), back = ways if src == "device" else ways[::-1]
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self.here):
            torch.cuda._sleep(self.head_start)
            begin.record()
        self.there.wait_event(begin)  # both begin at once, whatever the host takes to issue them
        with torch.cuda.stream(self.there):
            if beside == "compute":
                for _ in range(16):
                    self.square @ self.square
            elif beside == "reverse":
                for _ in range(3):
                    back[1].copy_(back[0], non_blocking=True)
        with torch.cuda.stream(self.here):
            target.copy_(source, non_blocking=True)
            end.record()
        torch.cuda.synchronize()
        return int(begin.elapsed_time(end) * 1e6)


def measurement(device: str, repetitions: int, conditions: str) -> Measurement:
    """Return where and how it is measured now."""
    torch = require_torch("measurement")
    versions = {"torch": str(torch.__version__), "python": platform.python_version()}
    name = platform.processor() or platform.machine()
    told = [f"threads {torch.get_num_threads()}"]
    if device == "cuda":
        name = torch.cuda.get_device_name(0)
        versions |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
        tf32 = {"products": torch.backends.cuda.matmul.allow_tf32, "cuDNN": torch.backends.cudnn.allow_tf32}
        used = [name for name, allowed in tf32.items() if allowed]
        told = ["deterministic algorithms", f"TF32 in {' and '.join(used) or 'nothing'}"]
    conditions = ", ".join(filter(None, (*told, conditions)))
    today = datetime.now(UTC).date().isoformat()
    return Measurement(
        device=name, date=today, versions=versions, repetitions=repetitions, conditions=conditions
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out what the command line says; return the exit status."""
    try:
        return _main(arguments)
    except LowtideError as error:
        print(f"lowtide: {one_line(str(error))}", file=sys.stderr)
        return 2


def _main(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}.measure")
    parser.description = (__doc__ or "").partition("\n")[0]
    parser.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help="a network of torch:, with its options; or FILE.py:FUNCTION or package.module:function, which "
        "returns (module, inputs) or (module, inputs, targets, loss)",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default cpu")
    parser.add_argument("--batch", type=int, metavar="N", help="size of the batch (else the model says)")
    parser.add_argument("--cap", metavar="SIZE", help="memory of the device that may be used, such as 8GiB")
    parser.add_argument("--repeat", type=int, default=20, metavar="N", help="steps that count (default 20)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights and inputs")
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where the files go")
    args = parser.parse_args(arguments)
    if args.repeat < 1:
        raise UsageError(f"--repeat: found {args.repeat}, expected an integer >= 1")
    check_integer(args.seed, 0, "--seed")
    require_device(args.device, "measure")
    try:
        cap = None if args.cap is None else parse_bytes(args.cap)
    except UsageError as error:
        raise UsageError(f"--cap: {str(error).removeprefix('size: ')}") from None
    from .running.run import limit_device

    limit_device(args.device, cap)
    recorders = [_recorder(model, args) for model in args.models]
    found = measurement(args.device, args.repeat, "" if cap is None else f"cap of {cap} bytes")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "machine.toml"
    both = "; both tiers are its memory" if args.device == "cpu" else ""
    write_machine(measured_machine(args.device, found, cap), path, f"{found.device}, as measured{both}")
    print(path)
    for model, recorded in zip(args.models, recorders, strict=True):
        with one_line_errors(f"measurement of {model}"):
            step = recorded()
            path = args.out / f"{step.graph.name}.json.gz"
            write_graph(measured_graph(step, found, cap), path)
        print(path)
    return 0


def _recorder(model: str, args: argparse.Namespace) -> Callable[[], Step]:
    """Return what records a model; its options are checked before anything is measured."""
    if is_own_module(model):
        if args.batch is not None:
            raise UsageError(f"--batch: found it with {model!r}, expected that the function makes the batch")
        return own_recorder(model, seed=args.seed, device=args.device)
    spec = parse_spec(model if ":" in model else f"torch:{model}")
    if spec.scheme != "torch":
        raise InstanceError(f"measure: found {model!r}, expected a network of torch:, or FILE.py:FUNCTION")
    options: dict[str, Any] = {"train": "1", "weights": "1", **spec.options}
    if args.batch is not None:
        options["batch"] = str(args.batch)
    checked_options(spec.name, options)
    return partial(record_torch, spec.name, seed=args.seed, device=args.device, **options)


if __name__ == "__main__":
    sys.exit(main())
