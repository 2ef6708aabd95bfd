"""Durations of a device: the formula, what keeps its own durations, what results and messages say."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.instances import load_machine, load_problem, machine_names
from lowtide.instances.durations import with_durations
from lowtide.instances.load_plan import load_plan
from lowtide.instances.machines import rated_machines
from lowtide.instances.machines.written import write_machine
from lowtide.instances.spec import relative_spec
from lowtide.instances.transforms.roofline import PEAK, duration_ns
from lowtide.models.errors import InstanceError
from lowtide.models.foreign_durations import ForeignDurationsWarning, foreign_durations
from lowtide.models.graph import PEAK_DEVICE, Graph, Op
from lowtide.models.machine import Machine
from lowtide.models.work import DTYPES, Rates, Work
from tests.strategies import with_work, works

percents = st.integers(1, 100)
speeds = st.integers(1, 10**16)
rates = st.builds(
    Rates,
    operations_per_s=st.fixed_dictionaries(dict.fromkeys(DTYPES, speeds)).map(lambda x: tuple(x.items())),
    bytes_per_s=st.integers(1, 10**13),
    arithmetic_percent=percents,
    memory_percent=percents,
    launch_ns=st.integers(0, 5000),
)

FILE = """
name = "mine"
tiers = [{ name = "gpu", capacity = "1GiB" }, { name = "host" }]
processors = [{ name = "gpu0", tiers = ["gpu"] }]
channels = [
  { src = "gpu", dst = "host", bytes_per_s = "25GB" },
  { src = "host", dst = "gpu", bytes_per_s = "25GB" },
]
"""
TABLE = (
    FILE
    + '[compute]\nbytes_per_s = "1TB/s"\noperations_per_s = { fp32 = "10T", bf16 = 40_000_000_000_000 }\n'
)


def rated(rates: Rates) -> Machine:
    return replace(Machine.single(), name="device", compute=rates)


def expected(work: Sequence[Work], rates: Rates) -> int:
    """Return the ns of work by the formula, in exact fractions."""
    reached = {
        dtype: Fraction(rate, 10**9) * rates.arithmetic_percent / 100
        for dtype, rate in rates.operations_per_s
    }
    memory = Fraction(rates.bytes_per_s, 10**9) * rates.memory_percent / 100
    total = 0
    for part in work:
        longest = max(2 * part.multiply_adds / reached[part.dtype], part.nbytes / memory)
        total += part.times * max(1, ceil(longest + rates.launch_ns))
    return total


@given(work=st.lists(works, max_size=3), rates=rates)
def test_durations_are_those_of_the_formula(work: list[Work], rates: Rates) -> None:
    assert rates.duration_ns(work) == expected(work, rates)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), rates=rates)
def test_ops_with_work_get_the_durations_of_the_device_and_others_keep_theirs(
    seed: int, rates: Rates
) -> None:
    graph = with_work(Random(seed), mode_tiers=("a", "b"))
    if not graph.states_work:
        with pytest.raises(InstanceError, match="found no op that states its work"):
            with_durations(graph, rated(rates))
        return
    timed = with_durations(graph, rated(rates))
    kept = 0
    for before, after in zip(graph.ops, timed.ops, strict=True):
        assert after.duration_ns == (expected(before.work, rates) if before.work else before.duration_ns)
        for old, new in zip(before.modes, after.modes, strict=True):
            work = old.work or before.work
            assert new.duration_ns == (expected(work, rates) if work else old.duration_ns)
            assert replace(new, duration_ns=old.duration_ns) == old
        assert replace(after, duration_ns=before.duration_ns, modes=before.modes) == before
        kept += not (before.work or any(mode.work for mode in before.modes))
    assert timed.tensors == graph.tensors
    assert timed.device == "device"
    assert timed.durations.startswith("roofline of device, ")
    assert timed.durations.endswith(f"; {kept} of {len(graph.ops)} ops given") == (kept > 0)
    again = with_durations(timed, rated(rates))
    assert again.ops == timed.ops
    assert again.durations == timed.durations


def test_a_measured_duration_is_never_overwritten() -> None:
    ops = (Op(name="measured", duration_ns=77), Op(name="counted", duration_ns=5, work=(Work(nbytes=8000),)))
    graph = Graph(name="g", tensors=(), ops=ops, provenance={"durations": "measured", "measured": {}})
    assert (graph.durations, graph.device) == ("measured", None)
    timed = with_durations(graph, load_machine("h100-80g"))
    assert [op.duration_ns for op in timed.ops] == [77, 3003]
    assert timed.durations == "roofline of h100-80g, fp32; 1 of 2 ops given"


@pytest.mark.parametrize(
    ("spec", "durations"),
    [
        ("gen:unet?depth=1", f"roofline of {PEAK_DEVICE}, fp32"),
        ("gen:unet?depth=1&durations=given", f"roofline of {PEAK_DEVICE}, fp32"),
        ("gen:unet?depth=1&durations=l4", "roofline of l4, fp32"),
        ("gen:unet?depth=1&train=1&node=zero&durations=l4", "roofline of l4, fp32; 8 of 30 ops given"),
        (
            "gen:unet?depth=1&train=1&blocks=3&weights=1&durations=h100x8",
            "roofline of h100-80g, fp32",
        ),
        ("gen:chain", "given"),
        ("gen:unet?depth=1&node=optane", "given"),
        ("gen:unet?depth=1&dtype=bf16&node=optane", "given"),
        ("catalogue:resnet50-train", f"roofline of {PEAK_DEVICE}, fp32"),
        ("gen:unet?depth=1&train=1&durations=l4&cuts=2-5&micro=2", "roofline of l4, fp32"),
        ("gen:unet?depth=1&train=1&cuts=2-5&micro=2", f"roofline of {PEAK_DEVICE}, fp32"),
        ("gen:chain?n=5&train=1&cuts=1-2", "given"),
    ],
)
def test_graphs_say_where_their_durations_come_from(spec: str, durations: str) -> None:
    graph = lt.load(spec)
    assert graph.durations == durations
    if "durations=" in spec:
        assert lt.load(graph.source or "") == graph


def test_what_transformations_add_takes_the_time_of_the_device_too() -> None:
    graph = lt.load("gen:unet?depth=1&train=1&compress.activation=2&copies=a+b&exchange=1MB&durations=l4")
    machine = load_machine("l4")
    assert machine.compute is not None
    for op in graph.ops:
        assert op.all_modes[0].duration_ns == machine.compute.duration_ns(op.work)


@given(many=st.integers(1, 20))
def test_a_block_takes_as_long_as_its_ops_on_the_device(many: int) -> None:
    graph = lt.load("gen:unet?depth=1&train=1&durations=l4")
    blocks = lt.load("gen:unet?depth=1&train=1&durations=l4", blocks=many)
    assert sum(op.duration_ns for op in blocks.ops) == sum(op.duration_ns for op in graph.ops)


@pytest.mark.parametrize("problem", ["peak", "makespan", "recompute", "streams"])
def test_every_problem_takes_durations_in_its_specification(problem: str) -> None:
    more = {"recompute": "&memory=90%"}.get(problem, "")
    question: Any = load_problem(problem, f"gen:unet?depth=1&train=1&durations=l4{more}")
    assert question.graph.durations == "roofline of l4, fp32"
    bare: Any = load_problem(problem, f"gen:unet?depth=1&train=1{more}")
    assert question.graph.sha256 != bare.graph.sha256


def test_a_machine_with_rates_gives_its_durations_and_plans_name_them(tmp_path: Path) -> None:
    spec = "gen:unet?depth=1&train=1"
    problem = load_problem(lt.Placement, f"{spec}&machine=h100-80g")
    assert problem.graph == lt.load(spec, durations="h100-80g")
    assert not foreign_durations(problem.graph, problem.machine)
    result = lt.solve(problem, "demand-lru")
    assert result.durations == result.record()["durations"] == "roofline of h100-80g, fp32"
    lt.save(result, tmp_path / "plan.json")
    plan, graph = load_plan(tmp_path / "plan.json")
    assert graph == problem.graph
    assert plan.machine == problem.machine
    kept = load_problem(lt.Placement, f"{spec}&machine=h100-80g&durations=given")
    assert kept.graph == lt.load(spec)
    assert "durations=h100-80g takes those" in foreign_durations(kept.graph, kept.machine)
    other = load_problem(lt.Placement, f"{spec}&machine=h100-80g&durations=l4")
    assert other.graph == lt.load(spec, durations="l4")
    assert foreign_durations(other.graph, other.machine)


def test_a_machine_without_rates_changes_nothing_and_is_warned_of() -> None:
    spec = "gen:unet?depth=1&train=1"
    problem = load_problem(lt.Placement, f"{spec}&machine=h200-node")
    assert problem.graph == lt.load(spec)
    assert "add a [compute] table" in foreign_durations(problem.graph, problem.machine)
    assert not foreign_durations(problem.graph, load_machine("a100-40g-pcie3"))
    assert not foreign_durations(lt.load("gen:chain"), problem.machine)
    older = Graph(name="g", tensors=(), ops=(Op(name="a"),), provenance={"durations": "roofline"})
    assert "ops state no work" in foreign_durations(older, load_machine("h100-80g"))


def test_solve_warns_once_per_question_of_durations_of_another_device() -> None:
    graph = lt.load("gen:unet?depth=2&train=1", durations="l4")
    problem = lt.Placement(graph, lt.load_machine("h100-80g"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for method in ("demand-lru", "demand-lru", "belady"):
            lt.solve(replace(problem), method)
    (warning,) = caught
    assert (warning.category, warning.filename) == (ForeignDurationsWarning, __file__)
    assert "roofline of l4, fp32, not of machine 'h100-80g': durations=h100-80g takes" in str(warning.message)
    quiet = (
        lt.Placement(graph, lt.load_machine("l4")),
        lt.Recompute(graph, memory=2**40),
        lt.Peak(graph),
        lt.Makespan(graph, 2),
    )
    methods = ("demand-lru", "store-all", "reference", "list")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for question, method in zip(quiet, methods, strict=True):
            assert lt.solve(question, method).verification
    slower = lt.Recompute(graph, memory=2**40, machine=lt.load_machine("h100-80g"))
    with pytest.warns(ForeignDurationsWarning, match="not of machine 'h100-80g'"):
        lt.solve(slower, "store-all")


def test_bundled_traces_state_work_that_takes_their_durations_on_the_reference_machine() -> None:
    graph = lt.load("catalogue:gpt2-small-flash-train")
    for op in graph.ops:
        (work,) = op.work
        assert op.duration_ns == duration_ns(work.nbytes, work.multiply_adds)
    assert lt.load("catalogue:gpt2-small-flash-train", durations="l4").durations == "roofline of l4, fp32"
    assert graph.source
    assert with_durations(graph, load_machine("l4")).source is None  # the source has other durations
    kept = load_problem(lt.Placement, "catalogue:g10/vit-1280?machine=h100-80g")
    assert kept.graph == lt.load("catalogue:g10/vit-1280")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gen:unet?durations=h200-node", r"found no rates of computation, expected a \[compute\] table"),
        ("gen:unet?durations=h100", r"machine: found 'h100', did you mean h100x8 or h100-80g"),
        ("gen:chain?durations=l4", r"found no op that states its work \(given\), expected some: load the"),
        ("gen:unet?node=optane&durations=l4", "found durations=l4 and node=optane"),
    ],
)
def test_wrong_devices_are_refused_with_the_next_step(spec: str, message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        lt.load(spec)


def test_a_data_type_without_a_rate_is_refused_with_the_next_step() -> None:
    op = Op(name="a", work=(Work(multiply_adds=1, dtype="fp8"),))
    with pytest.raises(
        InstanceError, match=r"found arithmetic in fp8, expected one of fp32.*; dtype= of the"
    ):
        with_durations(Graph(name="g", tensors=(), ops=(op,)), load_machine("a100-40g"))
    moved = replace(op, work=(Work(nbytes=1, dtype="fp8"),))
    timed = with_durations(Graph(name="g", tensors=(), ops=(moved,)), load_machine("a100-40g"))
    assert timed.ops[0].duration_ns == 3001


def test_machines_state_rates_in_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TABLE)
    machine = load_machine(path)
    assert machine.compute == Rates(
        operations_per_s=(("fp32", 10**13), ("bf16", 4 * 10**13)), bytes_per_s=10**12
    )
    assert machine.device == "mine"
    write_machine(machine, tmp_path / "again.toml")
    assert load_machine(tmp_path / "again.toml").compute == machine.compute
    path.write_text('compute = "h100-80g"\n' + FILE)
    named = load_machine(path)
    other = load_machine("h100-80g").compute
    assert other is not None
    assert named.compute == replace(other, device="h100-80g")
    problem = load_problem(lt.Placement, f"gen:unet?depth=1&machine={path}")
    assert problem.graph == lt.load("gen:unet?depth=1&durations=h100-80g")
    assert not foreign_durations(problem.graph, problem.machine)
    assert problem.machine.to_dict() == replace(problem.machine, compute=None).to_dict()
    monkeypatch.chdir(tmp_path)
    assert relative_spec("gen:unet?durations=mine.toml", "sub") == "gen:unet?durations=../mine.toml"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('compute = "h100"\n' + FILE, "compute: found 'h100', did you mean"),
        ("compute = 3\n" + FILE, "compute: found 3, expected an object, or the name"),
        (FILE + "[compute]\n", "compute: found no key 'operations_per_s'"),
        (
            TABLE.replace("10T", "10 flops"),
            "operations_per_s, fp32: found '10 flops', expected operations per",
        ),
        (TABLE.replace('"10T"', "0"), "operations_per_s: fp32: found 0, expected an integer >= 1"),
        (TABLE.replace("bf16", "half"), "operations_per_s: found unknown key"),
        (TABLE.replace("1TB/s", "fast"), "compute, bytes_per_s: found 'fast', expected bytes per second"),
        (TABLE + "memory_percent = 0\n", "memory_percent: found 0, expected an integer from 1 to 100"),
        (TABLE + "arithmetic_percent = 101\n", "arithmetic_percent: found 101, expected an integer from 1"),
        (TABLE + "launch_ns = 1.5\n", "launch_ns: found 1.5, expected an integer >= 0"),
        (
            FILE + '[compute]\nbytes_per_s = "1TB"\noperations_per_s = {}\n',
            "found no data type, expected one of",
        ),
    ],
)
def test_wrong_rates_are_refused(tmp_path: Path, table: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(table)
    with pytest.raises(InstanceError) as error:
        load_machine(path)
    assert message in str(error.value)


def test_bundled_machines_state_rates_with_their_source() -> None:
    wanted = {"a100-40g", "a100-80g", "h100-80g", "h200-141g", "gh200", "b200", "mi300x", "l40s", "l4"}
    assert {*rated_machines()} >= {*wanted, "rtx-4090", "laptop-cpu", "cortex-m", "tpu-v5e", "h100x8"}
    assert {*rated_machines()} < {*machine_names()}
    for name in rated_machines():
        machine = load_machine(name)
        assert machine.compute is not None
        assert machine.compute.source
        assert "fp32" in dict(machine.compute.operations_per_s)
        assert {dtype for dtype, _ in machine.compute.operations_per_s} <= {*DTYPES}
        eight = name.endswith("x8")
        assert len(machine.processors) == (8 if eight else 1)
        assert load_machine(machine.device).compute == replace(machine.compute, device="")


def test_rates_are_checked_where_they_are_made() -> None:
    right: dict[str, Any] = {"operations_per_s": (("fp32", 1),), "bytes_per_s": 1}
    assert Rates(**right).duration_ns([]) == 0
    for key, wrong in (
        ("operations_per_s", 3),
        ("operations_per_s", ()),
        ("operations_per_s", (("fp64", 1),)),
        ("operations_per_s", (("fp32", 0),)),
        ("operations_per_s", (("fp32", 1), ("fp32", 1))),
        ("bytes_per_s", 0),
        ("launch_ns", -1),
        ("memory_percent", 101),
        ("arithmetic_percent", 0),
        ("source", 1),
        ("device", None),
    ):
        with pytest.raises(InstanceError):
            Rates(**{**right, key: wrong})
    with pytest.raises(InstanceError, match="machine, compute: found 3, expected Rates or None"):
        Machine(
            tiers=Machine.single().tiers,
            processors=Machine.single().processors,
            compute=3,  # type: ignore[arg-type]
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_generated_networks_in_a_data_type_have_values_of_its_size_and_its_rates(dtype: str) -> None:
    spec = "gen:transformer?layers=1&d_model=32&heads=2&vocab=50&seq=8&weights=1"
    before, after = lt.load(spec), lt.load(f"{spec}&dtype={dtype}")
    for old, new in zip(before.tensors, after.tensors, strict=True):
        assert new.nbytes == (old.nbytes if old.name == "tokens" else old.nbytes * DTYPES[dtype] // 4)
    assert PEAK.compute is not None
    for old_op, op in zip(before.ops, after.ops, strict=True):
        (work,), (earlier,) = op.work, old_op.work
        assert work.nbytes == sum(after.tensors[t].nbytes for t in (*op.reads, *op.writes))
        assert (work.dtype, work.multiply_adds) == (dtype, earlier.multiply_adds)
        assert op.duration_ns == PEAK.compute.duration_ns(op.work)
    assert after.durations == f"roofline of {PEAK_DEVICE}, {dtype}"
    assert (after == before) == (dtype in ("fp32", "tf32"))  # here no op is limited by arithmetic
    assert "dtype" not in before.provenance["source"]
    trained = lt.load(f"{spec}&train=1&dtype={dtype}&durations=tpu-v5e", durations="h200-141g")
    assert trained.durations == f"roofline of h200-141g, {dtype}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_onnx_networks_in_a_data_type_have_values_of_its_size(dtype: str) -> None:
    pytest.importorskip("onnx")
    spec = "onnx:squeezenet?train=1&weights=1"
    before, after = lt.load(spec), lt.load(f"{spec}&dtype={dtype}")
    kept = 0
    for old, new in zip(before.tensors, after.tensors, strict=True):
        assert new.nbytes in (old.nbytes, old.nbytes * DTYPES[dtype] // 4)
        kept += new.nbytes == old.nbytes
    assert kept < 10 or DTYPES[dtype] == 4
    assert {part.dtype for op in after.ops for part in op.work} == {dtype}
    assert [op.work[0].multiply_adds for op in after.ops] == [op.work[0].multiply_adds for op in before.ops]
    assert after.name == f"{before.name}&dtype={dtype}"
    assert after.durations == f"roofline of {PEAK_DEVICE}, {dtype}"
    assert (after == before) == (dtype == "fp32")
    assert lt.load(f"onnx:squeezenet?conv=modes&dtype={dtype}").durations == after.durations


def test_data_types_that_are_none_are_refused_and_small_networks_state_theirs() -> None:
    for spec in ("gen:unet?dtype=half", "onnx:squeezenet?dtype=fp64"):
        with pytest.raises(InstanceError, match=r"option dtype: found .*, expected fp32 or tf32"):
            lt.load(spec)
    assert lt.load("gen:tinyml?durations=cortex-m").durations == "roofline of cortex-m, int8"
    with pytest.raises(InstanceError, match="found arithmetic in bf16, expected one of fp32, int8"):
        lt.load("gen:unet?depth=1&dtype=bf16&durations=cortex-m")


def test_ops_of_a_builder_state_their_work() -> None:
    builder = lt.GraphBuilder("mine")
    builder.op("a", work=[Work(nbytes=2400)])
    timed = with_durations(builder.build(), load_machine("l4"))
    assert timed.ops[0].duration_ns == 3010
