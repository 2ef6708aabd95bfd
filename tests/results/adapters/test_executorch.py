"""Plans in ExecuTorch: least bytes, carried out as they are, judged by its own verifier and runtime."""

from __future__ import annotations

import random
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide import Buffer, Buffers
from tests.docs.pages import PAGES, Reader
from tests.effort import many
from tests.oracles.brute_offsets import brute_heights, least_outside

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir", reason="the package executorch is not installed")

from executorch.exir import memory_planning as planning  # noqa: E402
from executorch.exir.banked_memory_planning import (  # noqa: E402
    Bank,
    BankPlacementError,
    TargetMemoryMap,
    banked_memory_planning_pass,
)
from executorch.exir.error import InternalError  # noqa: E402
from executorch.exir.memory_planning import (  # noqa: E402
    MemoryPlanningAlgorithmSuite,
    Verifier,
    greedy,
)
from executorch.exir.tensor import TensorSpec  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from lowtide.adapters import executorch  # noqa: E402
from tests.results.adapters.exported import (  # noqa: E402
    INPUT,
    Branched,
    Choice,
    addresses_of,
    ours,
    passed,
    program_of,
    sizes_of,
)


def spec(size: int, first: int, last: int, arena: int | None = None) -> TensorSpec:
    made = TensorSpec(torch.uint8, torch.Size([size]))
    made.lifetime, made.mem_id = [first, last], arena
    return made


def within(base: TensorSpec, start: int, size: int, first: int, last: int) -> TensorSpec:
    made = spec(size, first, last)
    made.storage_base, made.storage_base_offset = base, start
    return made


def module(*reserved: int) -> Any:
    found = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
    found.input_mem_buffer_sizes = list(reserved)
    return found


def planned(specs: list[TensorSpec], *algorithms: Any, alignment: int = 1, **options: Any) -> list[int]:
    suite = MemoryPlanningAlgorithmSuite(algo_list=list(algorithms))
    where = module(*options.get("reserved", ()))
    return list(suite(alignment, specs, where, None, options.get("padding", 0)))


def assert_apart(specs: list[TensorSpec]) -> None:
    """Two specs that overlap in time and bytes are a base and what lies in it."""
    for k, a in enumerate(specs):
        for b in specs[:k]:
            if Verifier.storage_overlap(a, b) and Verifier.lifetime_overlap(a, b):
                assert a in Verifier._storage_root_chain(b) or b in Verifier._storage_root_chain(a)
            assert not Verifier.storage_overlap(a, b) or Verifier.mem_obj_id_match(a, b)


@given(st.randoms(use_true_random=False))
@many(120)
def test_random_specs_take_the_least_bytes(draw: random.Random) -> None:
    alignment, padding = draw.choice((1, 2)), draw.choice((0, 2))
    reserved = [0, *(2 * draw.randint(0, 2) for _ in range(draw.randint(0, 2)))]
    specs, arenas = [], [None, None, 1, 2, 3]
    for _ in range(draw.randint(1, 5)):
        first = draw.randint(0, 5)
        specs.append(spec(draw.randint(0, 4), first, first + draw.randint(0, 3), draw.choice(arenas)))
    for base in draw.sample(specs, draw.randint(0, len(specs))):
        start = alignment * draw.randint(0, base.shape[0] // (2 * alignment))
        size = draw.randint(0, base.shape[0] - start)
        specs.append(within(base, start, size, base.lifetime[1], base.lifetime[1] + draw.randint(0, 2)))
    own = [s for s in specs if s.storage_base is None]
    ends = {id(s): max(o.lifetime[1] for o in specs if s in (o, o.storage_base)) for s in own}
    for s in own:
        s.lifetime = [s.lifetime[0], ends[id(s)]]
    buffers = [
        Buffer(
            id=str(k),
            lower=s.lifetime[0],
            upper=s.lifetime[1] + 1,
            size=s.realign(alignment) // alignment,
            pool=str(s.mem_id or 1),
        )
        for k, s in enumerate(own)
    ]
    heights = brute_heights(Buffers(buffers=tuple(buffers)))
    assert heights is not None
    count = max(len(reserved), 2, *(int(pool) + 1 for pool in heights))
    least = [*reserved, *[0] * (count - len(reserved))]
    for pool, height in heights.items():
        least[int(pool)] += alignment * height + padding

    sizes = planned(specs, executorch.algorithm(), alignment=alignment, reserved=reserved, padding=padding)
    assert sizes == least
    assert_apart(specs)
    for s in specs:
        assert s.mem_offset % alignment == 0
        assert s.mem_offset >= (reserved[s.mem_id] if s.mem_id < len(reserved) else 0)
        assert s.mem_offset + s.allocated_memory + padding <= sizes[s.mem_id]
        if s.storage_base is not None:
            base = s.storage_base
            assert (s.mem_id, s.mem_offset) == (base.mem_id, base.mem_offset + s.storage_base_offset)


def test_a_suite_takes_ours_where_greedy_needs_more() -> None:
    alone, both = (program_of(Branched(), *some) for some in ([greedy], [greedy, executorch.algorithm()]))
    assert (sizes_of(alone), sizes_of(both)) == ([0, 83968], [0, 77824])


def test_the_program_has_the_addresses_of_the_plan() -> None:
    """Fails if ExecuTorch ignored the plan: one shifted by 4096 bytes has no address in common with it."""
    plans: list[Any] = []
    plan = executorch.algorithm()

    def shifted(*arguments: Any) -> Any:
        result = plan(*arguments)
        for spot in result.spec_dict.values():
            spot.mem_offset += 4096 * len(plans)
        result.bufsizes[1] += 4096 * len(plans)
        plans.append(result)
        return result

    for _ in range(2):
        program = program_of(Branched(), shifted)
        of = {(spot.mem_id, spot.mem_offset) for spot in plans[-1].spec_dict.values()}
        assert addresses_of(program) == of
        assert sizes_of(program) == plans[-1].bufsizes
    assert sizes_of(program) == [0, 77824 + 4096]


def verified(program: Any) -> int:
    held = program.exported_program()
    return int(Verifier(held.graph_module, True, True, True, held.graph_signature).verify_storage_reuse())


def test_the_verifier_of_executorch_confirms_the_plan_and_catches_a_wrong_one() -> None:
    program = program_of(Branched(), executorch.algorithm())
    assert verified(program) > 0
    nodes = {node.name: node.meta.get("spec") for node in program.exported_program().graph.nodes}
    nodes["aten_addmm_default"].mem_offset = nodes["aten_relu_default"].mem_offset
    with pytest.raises(InternalError, match="Unexpected storage overlap"):
        verified(program)


@pytest.mark.parametrize("made", [Branched, pytest.param(Choice, marks=pytest.mark.slow)])
def test_the_runtime_computes_the_same(made: Any) -> None:
    runtime = pytest.importorskip("executorch.extension.pybindings.portable_lib")
    network = made()
    content = ours(made).buffer  # the runtime keeps no copy
    loaded = runtime._load_for_executorch_from_buffer(content)
    for x in (INPUT + 1, INPUT - 1):
        torch.testing.assert_close(loaded.forward([x])[0], network(x))


@pytest.mark.slow
def test_branches_keep_their_bytes() -> None:
    asked: list[int] = []
    planning = executorch.algorithm(report=lambda _, result: asked.append(result.objective or 0))
    program = program_of(Choice(), planning)
    *branches, whole = asked
    assert sizes_of(program) == [0, max(branches) + whole]
    assert sizes_of(program) <= sizes_of(program_of(Choice(), greedy))
    assert verified(program) > 0


def test_what_shares_storage_lies_in_it() -> None:
    """A relu that writes over its input, as backends mark it."""

    def mark(graph_module: Any) -> None:
        (relu,) = (node for node in graph_module.graph.nodes if "relu" in node.name)
        relu.meta["_share_alloc_with_arg_idx"] = 0

    plain = ours(Branched)
    shared = program_of(Branched(), executorch.algorithm(), before=mark)
    for program in (plain, shared):
        nodes = {node.name: node.meta.get("spec") for node in program.exported_program().graph.nodes}
        relu, linear = nodes["aten_relu_default"], nodes["aten_addmm_default"]
        assert (relu.mem_offset == linear.mem_offset) is (program is shared)
    assert verified(shared) > 0


def test_reports_name_question_and_answer() -> None:
    asked: list[Any] = []
    program_of(Branched(), executorch.algorithm(report=lambda *both: asked.append(both)))
    ((problem, result),) = asked
    assert (len(problem.buffers.buffers), str(result.status), result.bound) == (7, "optimal", 77824)


@pytest.mark.parametrize("start", [1, 16], ids=["unaligned", "outside"])
def test_greedy_answers_where_a_base_does_not_hold_its_spec(start: int) -> None:
    base = spec(16, 0, 3)
    with (
        pytest.warns(UserWarning, match="storage_base_offset: found bytes .* the plan is that of greedy"),
        pytest.raises(InternalError),
    ):
        planned([base, within(base, start, 16, 1, 2)], executorch.algorithm(), alignment=16)


def test_greedy_answers_where_a_base_is_not_planned() -> None:
    with pytest.warns(UserWarning, match="one that is not planned"), pytest.raises(InternalError):
        planned([within(spec(16, 0, 3), 0, 16, 1, 2)], executorch.algorithm(), alignment=16)


def test_greedy_answers_where_a_base_is_its_own() -> None:
    base = spec(16, 0, 3)
    other = within(base, 0, 16, 1, 2)
    base.storage_base = other
    with pytest.warns(UserWarning, match="a circle"), pytest.raises(InternalError):
        planned([base, other], executorch.algorithm(), alignment=16)


def test_greedy_answers_where_no_plan_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = replace(lt.solve(lt.Offsets(Buffers(buffers=()))), allocation=None)
    monkeypatch.setattr("lowtide.results.adapters.executorch.solve", lambda *_, **__: empty)
    specs = [spec(16, 0, 3), spec(16, 1, 2)]
    with pytest.warns(UserWarning, match="found no plan in time, status optimal"):
        assert planned(specs, executorch.algorithm(), alignment=16) == [0, 32]


def test_no_specs_have_the_arenas_of_greedy() -> None:
    assert planned([], executorch.algorithm()) == planned([], greedy) == [0, 0]


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    Reader(PAGES / "adapters" / "executorch.md", tmp_path).follow()


def target(*sizes: int, alignments: tuple[int | None, ...] = (None, None)) -> Any:
    return TargetMemoryMap(
        [Bank(f"bank {k}", n, k + 1, a) for k, (n, a) in enumerate(zip(sizes, alignments, strict=True))]
    )


@given(st.randoms(use_true_random=False))
@many(120)
def test_random_specs_have_the_fewest_bytes_outside_of_the_fast_bank(draw: random.Random) -> None:
    alignments = (draw.choice((None, 2)), draw.choice((None, 4)))
    step = max(1, *(a or 1 for a in alignments))
    reserved = [0, draw.choice((0, 4)), draw.choice((0, 4))]
    padding = draw.choice((0, 4))
    banks = target(draw.randint(1, 20), draw.choice((8, 20, 1000)), alignments=alignments)
    specs = []
    for _ in range(draw.randint(1, 5)):
        first = draw.randint(0, 5)
        wish = draw.choice((None, None, None, 2, 5))
        specs.append(spec(draw.randint(1, 10), first, first + draw.randint(0, 3), wish))
    rooms = {b.name: b.size - reserved[b.mem_id] - padding for b in banks.banks}
    text = "/".join(f"{n}={size // step}" for n, size in rooms.items() if size >= step)
    buffers = tuple(
        Buffer(
            id=str(k),
            lower=s.lifetime[0],
            upper=s.lifetime[1] + 1,
            size=s.realign(step) // step,
            pool={2: "bank 1"}.get(s.mem_id, ""),
        )
        for k, s in enumerate(specs)
        if s.mem_id != 5
    )
    least = least_outside(Buffers(buffers=buffers), text) if text.count("=") == 2 else None
    run = partial(planned, specs, executorch.algorithm(banks=banks), reserved=reserved, padding=padding)
    if least is None:
        both = text.count("=") != 1
        refused = pytest.warns(UserWarning, match="the plan is that of banked_greedy")
        with refused if both else nullcontext(), suppress(BankPlacementError):
            run()
        return
    sizes = run()
    assert_apart(specs)
    outside = sum(s.realign(step) for s in specs if s.mem_id == 2)
    assert outside == step * least
    for s in specs:
        assert s.mem_offset % step == 0
        assert s.mem_offset + s.allocated_memory + padding <= sizes[s.mem_id]
        assert s.mem_id == 5 or s.mem_offset >= reserved[s.mem_id]
    for bank in banks.banks:
        assert len(sizes) <= bank.mem_id or sizes[bank.mem_id] <= bank.size


def test_a_program_lies_in_banks() -> None:
    """In 76 KiB all of it fits, which ExecuTorch's own algorithm does not find."""
    banks = target(76 * 1024, 1 << 20)
    plain = passed(Branched(), banked_memory_planning_pass(banks))
    best = passed(Branched(), executorch.planning_pass(banks=banks, order=False))
    assert verified(best) > 0
    assert (bytes_in(plain, 2), bytes_in(best, 2)) == (8192, 0)
    assert sizes_of(best) == [0, 76 * 1024]
    smaller = passed(Branched(), executorch.planning_pass(banks=target(74 * 1024, 1 << 20)))
    assert (bytes_in(smaller, 2), sizes_of(smaller)[2]) == (2048, 2048)


def bytes_in(program: Any, arena: int) -> int:
    specs = {
        s
        for node in program.exported_program().graph.nodes
        for s in planning.get_node_tensor_specs(node)
        if s.mem_id == arena
    }
    return sum(s.allocated_memory for s in specs)


def test_shared_buffers_do_not_go_with_banks() -> None:
    with pytest.raises(lt.UsageError, match="share_mutable_buffers: found it with banks"):
        executorch.planning_pass(banks=target(64, 64), share_mutable_buffers=True)
