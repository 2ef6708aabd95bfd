"""Problems as texts: MiniZinc models and PSPLIB projects have the optimum, and solutions become plans."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.models.graph import Accounting
from lowtide.solvers.export import export_model
from lowtide.solvers.texts import minizinc_values, read_minizinc
from tests.effort import seeds, share
from tests.oracles.brute_offsets import random_set
from tests.oracles.project import shortest
from tests.strategies import ACCOUNTINGS, random_graph

SEEDS = 60


def random_peak(seed: int) -> lt.Peak:
    return lt.Peak(random_graph(Random(seed), max_ops=6))


def random_offsets(seed: int) -> lt.Offsets | None:
    """Return a problem; None of a set that has no allocation by what it says of a single buffer."""
    try:
        buffers = random_set(Random(seed))
        satisfy = seed % 5 == 0 and None not in buffers.pools.values()
        return lt.Offsets(buffers, satisfy)
    except lt.InstanceError:
        return None


def random_makespan(seed: int) -> lt.Makespan | None:
    """Return a problem; None if some kind of processors has no op."""
    rng = Random(seed)
    kinds = ("cpu", "gpu") if seed % 3 == 0 else ()
    graph = random_graph(rng, max_ops=5, max_tensors=5, mode_kinds=kinds)
    processors = {"cpu": rng.randint(1, 2), "gpu": 1} if kinds else rng.randint(1, 3)
    memory = rng.choice((None, rng.randint(0, sum(t.nbytes for t in graph.tensors) + 3)))
    try:
        return lt.Makespan(graph, processors=processors, memory=memory)
    except lt.InstanceError:
        return None


RANDOM = {"peak": random_peak, "offsets": random_offsets, "makespan": random_makespan}


def two_readers(*read: int) -> lt.Graph:
    """Return two ops, each of which reads a tensor of 10 bytes, by number, and writes 5 in its place."""
    tensors = [lt.Tensor(name=f"t{k}", nbytes=10, initial=True) for k in range(max(read) + 1)]
    ops = tuple(lt.Op(name=f"op{i}", reads=(k,), writes=(len(tensors) + i,)) for i, k in enumerate(read))
    tensors += [lt.Tensor(name=f"u{i}", nbytes=5, final=True) for i in range(2)]
    return lt.Graph(name="readers", tensors=tuple(tensors), ops=ops, accounting=Accounting.REPLACE)


def two_kinds(cpu: int, gpu: int) -> lt.Makespan:
    """Return two ops, which a CPU and a GPU run in so many ns."""
    modes = tuple(lt.Mode(duration_ns=d, processors=(k,)) for d, k in ((cpu, "cpu"), (gpu, "gpu")))
    graph = lt.Graph(name="two", tensors=(), ops=tuple(lt.Op(name=x, modes=modes) for x in "ab"))
    return lt.Makespan(graph, processors={"cpu": 1, "gpu": 1})


def placed(*buffers: tuple[int, int, int], **more: Any) -> lt.Offsets:
    """Return buffers by size, start and stop; fixed offsets, alignments and gaps in the same order."""
    fixed = (*more.pop("fixed", ()), None, None, None, None)
    alignments = (*more.pop("alignments", ()), 1, 1, 1, 1)
    gaps = (*more.pop("gaps", ()), (), (), (), ())
    rows = tuple(
        Buffer(id=str(i), size=size, lower=a, upper=b, offset=fixed[i], alignment=alignments[i], gaps=gaps[i])
        for i, (size, a, b) in enumerate(buffers)
    )
    return lt.Offsets(Buffers(buffers=rows, **more))


BY_HAND: dict[str, tuple[tuple[Any, int | None], ...]] = {
    "peak": (
        (lt.Peak(two_readers(0, 1)), 20),  # what is there before the first op
        (lt.Peak(two_readers(0, 0)), 15),  # one op after another: two at once would need 10
    ),
    "offsets": (
        (placed((4, 0, 4), (4, 0, 4), (8, 0, 4), fixed=(12, 0), alignments=(1, 1, 16)), 24),
        (placed((8, 0, 3), (4, 1, 2), gaps=((Gap(1, 2, 4, 8),),)), 8),  # where the other one has a gap
        # At one offset the first two may overlap, but the others are in the way of all below 12.
        (
            placed(
                (8, 0, 2), (8, 1, 3), (4, 0, 1), (4, 2, 3), fixed=(None, None, 0, 8), inplace=(("0", "1"),)
            ),
            16,
        ),
    ),
    "makespan": (
        (lt.Makespan(two_readers(0, 1), processors=2, memory=19), None),  # what is there before the first op
        (lt.Makespan(two_readers(0, 0), processors=2, memory=10), 1),
        (two_kinds(cpu=3, gpu=2), 3),
    ),
}


def problems(name: str, count: int) -> Iterator[tuple[Any, int | None]]:
    """Return problems with their optima: those by hand, then random ones."""
    for problem, least in BY_HAND[name]:
        assert optimum(problem) == least
        yield problem, least
    for seed in seeds(count):
        if (problem := RANDOM[name](seed)) is not None:
            yield problem, optimum(problem)


def optimum(problem: Any) -> int | None:
    """Return the proved optimum; None if there is no answer."""
    result = lt.solve(problem, threads=1)
    assert result.status in ("optimal", "infeasible") or problem.satisfied(0)
    return result.objective


def stated(problem: lt.Problem, path: Path) -> dict[str, Any]:
    """Return the data of an exported model: numbers, and lists of numbers, sets and texts."""
    export_model(problem, None, path)
    assigned = re.findall(r"^(\w+) = (?:array1d\(\w+, (\[.*?\])\)|(-?\d+));", path.read_text(), re.M | re.S)
    return {name: eval((listed or number).replace("{}", "set()"), {}) for name, listed, number in assigned}


def least_peak(d: dict[str, Any]) -> int:
    """Return the least peak in units, by trying all orders."""
    lives = list(zip(d["born"], d["last"], d["held"], d["nbytes"], strict=True))
    first = d["base"] + sum(nbytes for born, _, _, nbytes in lives if born < 0)
    peaks: list[int] = []
    for position in itertools.permutations(range(d["ops"])):
        if any(position[j] >= position[i] for i, before in enumerate(d["before"]) for j in before):
            continue
        memory = [d["base"]] * d["ops"]
        for i, nbytes in enumerate(d["workspace"]):
            memory[position[i]] += nbytes
        for born, last, held, nbytes in lives:
            end = max(position[i] for i in last) + held if last else d["ops"]
            for k in range(0 if born < 0 else position[born], end):
                memory[k] += nbytes
        peaks.append(max(first, *memory))
    return min(peaks)


def test_data_of_peak_have_the_optimum(tmp_path: Path) -> None:
    for problem, least in problems("peak", SEEDS // 2):
        d = stated(problem, tmp_path / "model.mzn")
        assert least_peak(d) * d["unit"] == least, problem


def best_allocation(d: dict[str, Any], most: int) -> int | None:
    """Return the least sum of heights up to a limit, in units, by trying all offsets."""
    pairs = {frozenset(pair) for pair in zip(d["one"], d["other"], strict=True)}
    rectangles = list(zip(d["owner"], d["first"], d["last"], d["low"], d["high"], strict=True))

    def clash(offset: tuple[int, ...], r: tuple[int, ...], q: tuple[int, ...]) -> bool:
        i, j = r[0], q[0]
        apart = i == j or d["pool"][i] != d["pool"][j] or r[2] <= q[1] or q[2] <= r[1]
        if apart or (frozenset((i, j)) in pairs and offset[i] == offset[j]):
            return False
        return offset[i] + r[3] < offset[j] + q[4] and offset[j] + q[3] < offset[i] + r[4]

    places = [
        [o for o in range(most + 1) if o % a == 0 and f in (-1, o) and o + size <= d["highest"][pool]]
        for a, f, size, pool in zip(d["alignment"], d["fixed"], d["size"], d["pool"], strict=True)
    ]
    best = most + 1
    for offset in itertools.product(*places):
        heights = [0] * d["pools"]
        for o, size, pool in zip(offset, d["size"], d["pool"], strict=True):
            heights[pool] = max(heights[pool], o + size)
        if sum(heights) < best and not any(
            clash(offset, r, q) for r, q in itertools.combinations(rectangles, 2)
        ):
            best = sum(heights)
    return None if best > most else best


def test_data_of_offsets_have_the_optimum(tmp_path: Path) -> None:
    compared = 0
    for problem, least in problems("offsets", SEEDS):
        if problem.satisfy:
            continue
        d = stated(problem, tmp_path / "model.mzn")
        most = sum(d["highest"]) if least is None else least // d["unit"]
        if (most + 1) ** len(d["size"]) < 10_000:
            compared += 1
            best = best_allocation(d, most)
            assert (None if best is None else best * d["unit"]) == least, problem
    assert compared >= share(SEEDS) // 4


def shortest_schedule(d: dict[str, Any], most: int) -> int | None:
    """Return the least makespan up to a limit, in ticks, by trying all alternatives and all starts."""
    lives = list(zip(d["born"], d["last"], d["held"], d["nbytes"], strict=True))
    own = [[a for a, op in enumerate(d["op"]) if op == i] for i in range(d["ops"])]
    best = most + 1
    for taken in itertools.product(*own):
        for start in itertools.product(*(range(best - d["duration"][a]) for a in taken)):
            stop = [s + d["duration"][a] for s, a in zip(start, taken, strict=True)]
            end = max(stop)
            if end >= best or any(stop[j] > start[i] for i, js in enumerate(d["before"]) for j in js):
                continue
            spans = [
                (
                    0 if born < 0 else start[born],
                    max(stop[i] if held else start[i] for i in last) if last else end,
                    nbytes,
                )
                for born, last, held, nbytes in lives
            ]
            for now in range(end):
                runs = [a for a, s, e in zip(taken, start, stop, strict=True) if s <= now < e]
                memory = d["base"] + sum(d["workspace"][a] for a in runs)
                memory += sum(nbytes for s, e, nbytes in spans if s <= now < e)
                kinds = [d["kind"][a] for a in runs]
                if memory > d["memory"] or any(kinds.count(k) > p for k, p in enumerate(d["processors"])):
                    break
            else:
                best = end
    first = d["base"] + sum(nbytes for born, _, _, nbytes in lives if born < 0)
    return None if best > most or first > d["memory"] else best


def test_data_of_makespan_have_the_optimum(tmp_path: Path) -> None:
    compared = infeasible = 0
    for problem, least in problems("makespan", SEEDS):
        d = stated(problem, tmp_path / "model.mzn")
        most = sum(d["duration"]) if least is None else least // d["tick"]
        if (most + 1) ** d["ops"] * 2 ** (len(d["op"]) - d["ops"]) < 30_000:
            compared += 1
            infeasible += least is None
            best = shortest_schedule(d, most)
            assert (None if best is None else best * d["tick"]) == least, problem
    assert compared >= share(SEEDS) // 4
    assert infeasible > 0


@pytest.mark.slow  # a process for each model
@pytest.mark.skipif(
    None in (shutil.which("minizinc"), shutil.which("fzn-gecode")),
    reason="MiniZinc with Gecode is not installed",
)
@pytest.mark.parametrize("name", RANDOM)
def test_minizinc_has_the_optimum_and_its_solutions_verify(name: str, tmp_path: Path) -> None:
    model, solution = tmp_path / "model.mzn", tmp_path / "solution.txt"
    infeasible = 0
    for k, (problem, least) in enumerate(problems(name, SEEDS // 2)):
        d, mode = stated(problem, model), ("item", "dzn", "json")[k % 3]
        words = ["minizinc", "--solver", "gecode", "--output-mode", mode, "--output-objective", str(model)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        solution.write_text(done.stdout)
        if "UNSATISFIABLE" in done.stdout:
            assert least is None, problem
            infeasible += 1
            continue
        assert "==========" in done.stdout or problem.satisfied(0)
        result = read_minizinc(problem, solution)
        assert result.status == "feasible", result.detail
        if not problem.satisfied(0):
            objective = re.findall(r'_objective"?\s*[=:]\s*(\d+)', done.stdout)[-1]
            unit = d["tick" if name == "makespan" else "unit"]
            assert result.objective == least == int(objective) * unit, problem
    assert bool(infeasible) == (name != "peak")


DIAMOND = lt.Peak(lt.load("catalogue:diamond"))


@pytest.mark.parametrize(
    "text",
    [
        "position = [0: 0, 1: 2, 2: 1, 3: 3];\npeak = 8;\n----------\n==========\n",
        "position = array1d(0..3, [0, 2, 1, 3]);\npeak = 8;\n_objective = 8;\n----------\n",
        '{\n  "position" : [0, 2, 1, 3],\n  "peak" : 8,\n  "_objective" : 8\n}\n----------\n==========\n',
        "position = [0, 1, 2, 3];\n----------\nposition = [0, 2,\n 1, 3];\n----------\n==========\n",
        "position = [0, 2, 1, 3];\n----------\nposition = [0, 1, 2, 3];\npea",
    ],
    ids=["item", "dzn", "json", "last", "stopped"],
)
def test_output_of_minizinc_is_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "solution.txt"
    path.write_text(text)
    result = read_minizinc(DIAMOND, path)
    assert (result.status, result.objective, result.order) == ("feasible", 8, (0, 2, 1, 3))
    assert result.method == "minizinc (solved elsewhere)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=====UNSATISFIABLE=====\n", "found UNSATISFIABLE, expected MiniZinc's output"),
        ("nothing\n", "found no value of a variable"),
        ("x = [3];\n----------\n", r"found position = \[\], expected 4 integers"),
        ("position = [0, 1];\n", r"found position = \[0, 1\], expected 4 integers"),
        ("position = [0, 1, 2, 2.5];\n", r"found position = \[0, 1, 2, 2.5\], expected 4 integers"),
        ("position = [3, 2, 1, 0];\n", "op 1"),
        ('{"position" : [0, ', "found no value of a variable"),
    ],
)
def test_what_is_no_solution_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "solution.txt"
    path.write_text(text)
    with pytest.raises(lt.InstanceError, match=message):
        read_minizinc(DIAMOND, path)
    with pytest.raises(lt.InstanceError, match="found No such file or directory"):
        minizinc_values(tmp_path / "missing.txt")


def test_an_alternative_of_another_op_is_refused(tmp_path: Path) -> None:
    problem, path = two_kinds(cpu=10, gpu=4), tmp_path / "solution.txt"
    path.write_text("start = [0, 2];\ntaken = [1, 3];\n")  # in ticks of 2 ns
    assert read_minizinc(problem, path).objective == 8
    path.write_text("start = [0, 0];\ntaken = [0, 1];\n")
    with pytest.raises(lt.InstanceError, match=r"op 1 .b.: found alternative -1, expected one in \[0, 2\)"):
        read_minizinc(problem, path)


def test_an_allocation_that_overlaps_does_not_verify(tmp_path: Path) -> None:
    x, y = Buffer(id="x", lower=0, upper=3, size=4), Buffer(id="y", lower=2, upper=5, size=8)
    problem = lt.Offsets(Buffers(buffers=(x, y)))
    path = tmp_path / "solution.txt"
    path.write_text("offset = [2, 0];\n")  # in units of 4 bytes
    assert read_minizinc(problem, path).objective == 12
    path.write_text("offset = [0, 0];\n")
    assert "both alive from time 2" in read_minizinc(problem, path).detail


def test_a_graph_without_ops(tmp_path: Path) -> None:
    kept = lt.Tensor(name="w", nbytes=9, initial=True, final=True)
    problem = lt.Peak(lt.Graph(name="empty", tensors=(kept,), ops=()))
    path = tmp_path / "solution.txt"
    path.write_text("position = [];\npeak = 1;\n----------\n")
    assert read_minizinc(problem, path).objective == 9
    d = stated(problem, tmp_path / "model.mzn")
    assert (d["ops"], d["base"] * d["unit"]) == (0, 9)


def test_names_are_texts_of_minizinc(tmp_path: Path) -> None:
    ops = (lt.Op(name='a"\\(b)'), lt.Op(name="tab\t", after=(0,)))
    export_model(lt.Peak(lt.Graph(name="odd\nname", tensors=(), ops=ops)), None, tmp_path / "model.mzn")
    text = (tmp_path / "model.mzn").read_text()
    assert r'op_name = array1d(OPS, ["a\"\\(b)", "tab\\t"]);' in text
    assert r"% Data: graph 'odd\nname', accounting coexist" in text


@pytest.mark.parametrize("seed", seeds(30))
def test_projects_have_the_optimum_without_memory(seed: int, tmp_path: Path) -> None:
    problem = random_makespan(seed)
    if problem is None:
        return
    problem = lt.Makespan(problem.graph, processors=problem.processors)
    path = tmp_path / "project.mm"
    export_model(problem, None, path)
    tick = int(re.search(r"ticks of (\d+) ns", path.read_text())[1])  # type: ignore[index]
    assert (shortest(path) or 0) * tick == optimum(problem)
    if not problem.has_choice:
        single = path.with_suffix(".sm")
        export_model(problem, None, single)
        assert single.read_text() == path.read_text()


def local_problem(seed: int) -> lt.Makespan:
    """Return a problem in whose memory every tensor is there while one op runs, or throughout."""
    rng = Random(seed)
    n = rng.randint(2, 6)
    tensors = [lt.Tensor(name="kept", nbytes=rng.choice((0, 4)), initial=True, final=True)]
    ops = []
    for i in range(n):
        tensors.append(lt.Tensor(name=f"t{i}", nbytes=2 * rng.randint(0, 3)))
        ops.append(
            lt.Op(
                name=f"op{i}",
                duration_ns=3 * rng.randint(1, 4),
                workspace=2 * rng.randint(0, 3),
                reads=(0,) if rng.random() < 0.5 else (),
                writes=(i + 1,),
                after=tuple(j for j in range(i) if rng.random() < 0.2),
            )
        )
    accounting = rng.choice(ACCOUNTINGS)
    graph = lt.Graph(name="local", tensors=tuple(tensors), ops=tuple(ops), accounting=accounting)
    return lt.Makespan(graph, processors=rng.randint(2, 3), memory=rng.randint(4, 22))


def test_a_memory_of_workspaces_is_a_renewable_resource(tmp_path: Path) -> None:
    path = tmp_path / "project.sm"
    counts = {"infeasible": 0, "memory": 0}
    for seed in seeds(SEEDS):
        problem = local_problem(seed)
        export_model(problem, None, path)
        text = path.read_text()
        tick = int(re.search(r"ticks of (\d+) ns", text)[1])  # type: ignore[index]
        least, expected = shortest(path), optimum(problem)
        assert (None if least is None else least * tick) == expected, seed
        counts["infeasible"] += expected is None
        counts["memory"] += "units of" in text
    assert counts["infeasible"] > 0
    assert counts["memory"] >= share(SEEDS) // 4


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (19, "tensor 't0' of 10 B, live between ops, and a memory of 19 B that may not hold all at once"),
        (20, None),
    ],
)
def test_a_tensor_between_ops_is_no_demand(memory: int, message: str | None, tmp_path: Path) -> None:
    tensors = tuple(lt.Tensor(name=f"t{k}", nbytes=10) for k in range(2))
    ops = (lt.Op(name="a", writes=(0,)), lt.Op(name="b", reads=(0,), writes=(1,)))
    problem = lt.Makespan(lt.Graph(name="chain", tensors=tensors, ops=ops), memory=memory)
    path = tmp_path / "project.sm"
    if message is None:
        export_model(problem, None, path)
        assert shortest(path) == 2
        return
    with pytest.raises(lt.UsageError, match=message):
        export_model(problem, None, path)
    assert not path.exists()


def test_what_cannot_be_stated_is_refused(tmp_path: Path) -> None:
    modes = tuple(lt.Mode(duration_ns=d, processors=(k,)) for d, k in ((5, "cpu"), (2, "gpu")))
    kept = lt.Tensor(name="w", nbytes=9, initial=True, final=True)
    graph = lt.Graph(name="one", tensors=(kept,), ops=(lt.Op(name="a", reads=(0,), modes=modes),))
    problem = lt.Makespan(graph, processors={"cpu": 1, "gpu": 1})
    with pytest.raises(
        lt.UsageError, match=r"found 2 modes of op 0 'a', expected one of each op; \.mm states"
    ):
        export_model(problem, None, tmp_path / "x.sm")
    tight = lt.Makespan(graph, processors={"cpu": 1, "gpu": 1}, memory=8)
    with pytest.raises(lt.UsageError, match="found 9 B that are kept throughout, expected at most 8 B"):
        export_model(tight, None, tmp_path / "x.mm")
    with pytest.raises(lt.UsageError, match=r"x\.sm: found no method, .*, or a file \.mzn$"):
        export_model(DIAMOND, None, tmp_path / "x.sm")
    with pytest.raises(lt.UsageError, match=r"found no method, expected one that builds a model$"):
        export_model(lt.Recompute(DIAMOND.graph, memory=99), None, tmp_path / "x.mzn")
    with pytest.raises(lt.UsageError, match=r"export to \.mzn: found part 0, expected none"):
        export_model(DIAMOND, None, tmp_path / "x.mzn", part=0)
    with pytest.raises(lt.UsageError, match="decode: found no method"):
        read_minizinc(lt.Recompute(DIAMOND.graph, memory=99), tmp_path / "x.txt")
    assert list(tmp_path.iterdir()) == []
