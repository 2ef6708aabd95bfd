"""Schedules in torch itself: its checker, its own schedules as plans, and a run on processes with gloo."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lowtide as lt
from lowtide.adapters import torch_pipelining

torch = pytest.importorskip("torch", reason="the package torch is not installed")
schedules = pytest.importorskip("torch.distributed.pipelining.schedules")


def question(p: int, m: int, v: int = 1, w: int = 1, placement: str = "interleaved") -> lt.Pipeline:
    return lt.Pipeline(lt.load(f"gen:stages?p={p}&m={m}&v={v}&w={w}&placement={placement}"))


PLANS = {
    "gpipe": question(3, 5, w=0),
    "1f1b": question(4, 7, w=0),
    "zb-h1": question(3, 6),
    "zb-h2": question(3, 6),
    "list": question(2, 5),
    "interleaved": question(2, 4, v=2, w=0),
    "v-min": question(3, 6, v=2, placement="v"),
    "v-half": question(3, 6, v=2, placement="v"),
    "v-zb": question(3, 6, v=2, placement="v"),
}


@pytest.mark.parametrize("method", PLANS)
def test_torch_accepts_our_plans(method: str) -> None:
    problem = PLANS[method]
    plan = lt.solve(problem, method).plan
    assert plan is not None
    busiest = max(len(row) for row in torch_pipelining.rows(problem.graph, plan))
    assert torch_pipelining.check(problem.graph, plan) >= busiest


def test_torch_refuses_what_is_no_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PLANS["1f1b"]
    plan = lt.solve(problem, "1f1b").plan
    assert plan is not None
    cells = torch_pipelining.rows(problem.graph, plan)
    for wrong, words in (
        ([cells[0][::-1], *cells[1:]], "without first running Forward"),
        ([cells[0][1:], *cells[1:]], "AssertionError"),
        ([cells[1], cells[0], *cells[2:3], cells[3][:3]], "Got 2 "),
        (cells[::-1], None),
    ):
        monkeypatch.setattr(torch_pipelining, "rows", lambda *_, wrong=wrong: wrong)
        if words is None:
            assert torch_pipelining.check(problem.graph, plan)
            continue
        with pytest.raises(lt.UsageError, match=words) as error:
            torch_pipelining.check(problem.graph, plan)
        assert "\n" not in str(error.value)


def torchs_own(name: str, rank_count: int, micro: int, v: int) -> Any:
    """Return a schedule of torch's, without processes."""
    made = schedules.get_schedule_class(name)
    several = issubclass(made, schedules.PipelineScheduleMulti)
    stages = [
        SimpleNamespace(
            num_stages=rank_count * v,
            group_size=rank_count,
            group_rank=0,
            stage_index=k,
            is_first=k == 0,
            is_last=k == rank_count * v - 1,
            has_backward=False,
            submod=None,
        )
        for k in range(v)
    ]
    return made(stages if several else stages[0], micro, loss_fn=None)


OWN = {
    "GPipe": (1, "interleaved", 0),
    "LoopedBFS": (2, "interleaved", 0),
    "Interleaved1F1B": (2, "interleaved", 0),
    "Interleaved1F1B, one stage each": (1, "interleaved", 0),
    "InterleavedZeroBubble": (2, "interleaved", 1),
    "ZBVZeroBubble": (2, "v", 1),
    "DualPipeV": (2, "v", 1),
}


@pytest.mark.parametrize("name", OWN)
def test_schedules_of_torch_are_plans(name: str, tmp_path: Path) -> None:
    v, placement, w = OWN[name]
    problem, path = question(2, 8, v=v, w=w, placement=placement), tmp_path / "own.csv"
    own = torchs_own(name.partition(",")[0], 2, 8, v)
    seen = []
    for kind in ("compute_only", "compute_comms"):
        if name == "GPipe":
            order = own._get_pipeline_order()
            lines = [",".join("" if a is None else str(a) for a in order[rank]) for rank in range(2)]
            path.write_text("\n".join([*lines, ""]))
        else:
            own._dump_csv(str(path), kind)
        plan = torch_pipelining.read(path, problem)
        verdict = lt.verify(problem.graph, plan)
        assert verdict.valid, verdict.violations
        torch_pipelining.check(problem.graph, plan)
        seen.append(verdict.makespan)
    assert len(set(seen)) == 1
    if v == 1:
        assert seen[0] == (8 + 2 - 1) * 2


def model(stage: int) -> Any:
    torch.manual_seed(stage)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())


def loss_of(output: Any, target: Any) -> Any:
    return torch.nn.functional.mse_loss(output, target)


def batch(micro: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(9)
    return (torch.randn(2 * micro, 8, generator=generator), torch.randn(2 * micro, 8, generator=generator))


def work(rank: int, folder: str, chunks: tuple[tuple[int, ...], ...], count: int, micro: int) -> None:
    """Run a rank: load the schedule, step once, save the gradients and what the profiler lists as run."""
    from torch.distributed.pipelining import PipelineStage

    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", rank=rank, world_size=len(chunks), init_method=f"file://{folder}/meeting"
    )
    device = torch.device("cpu")
    stages = [PipelineStage(model(s), s, count, device) for s in chunks[rank]]
    schedule = schedules._PipelineScheduleRuntime(stages, micro, loss_fn=loss_of, scale_grads=True)
    schedule._load_csv(f"{folder}/schedule.csv", format="compute_only")
    inputs, target = batch(micro)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        arguments = (inputs,) if 0 in chunks[rank] else ()
        schedule.step(*arguments, **({"target": target} if count - 1 in chunks[rank] else {}))
    actions = sorted((e.time_range.start, e.name[3:]) for e in profile.events() if e.name.startswith("PP:"))
    gradients = {
        s: [x.grad for x in stage.submod.parameters()] for s, stage in zip(chunks[rank], stages, strict=True)
    }
    torch.save((gradients, [name for _, name in actions]), f"{folder}/rank{rank}")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("method", ["1f1b", "zb-h1", "interleaved", "v-half"])
def test_processes_run_the_schedule_with_the_same_gradients(method: str, tmp_path: Path) -> None:
    problem = {"zb-h1": question(2, 4), "v-half": question(2, 4, v=2, placement="v")}.get(
        method, question(2, 4, v=2 if method == "interleaved" else 1, w=0)
    )
    plan = lt.solve(problem, method).plan
    assert plan is not None
    torch_pipelining.write(problem.graph, plan, tmp_path / "schedule.csv")
    chunks, count, micro = problem.line.chunks, len(problem.line.stages), problem.line.micro
    context = torch.multiprocessing.get_context("spawn")
    ranks = [
        context.Process(target=work, args=(r, str(tmp_path), chunks, count, micro))
        for r in range(len(chunks))
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
    hung = [rank for rank in ranks if rank.exitcode is None]
    for rank in hung:
        rank.kill()
    assert not hung
    assert [rank.exitcode for rank in ranks] == [0] * len(ranks)
    whole = [model(s) for s in range(count)]
    inputs, target = batch(micro)
    for part, goal in zip(inputs.chunk(micro), target.chunk(micro), strict=True):
        (loss_of(torch.nn.Sequential(*whole)(part), goal) / micro).backward()
    for r, row in enumerate(torch_pipelining.rows(problem.graph, plan)):
        gradients, actions = torch.load(tmp_path / f"rank{r}", weights_only=False)
        assert [name for name in actions if "_" not in name and "SHARD" not in name] == row
        for s, found in gradients.items():
            for ours, parameter in zip(found, whole[s].parameters(), strict=True):
                torch.testing.assert_close(ours, parameter.grad)
