"""Files of the Standard Task Graph Set: dummies, order, drawn sizes, faults with their place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lowtide as lt
from tests.effort import seeds

# Ten columns wide as in the set; task 3 before task 1, a dummy (4) in between, information below.
TEXT = """\
          5
          0          0          0
          1         20          1          3
          2          5          1          0
          3          7          1          0
          4          0          2          2          3
          5          9          2          4          1
          6          0          1          5
#  Standard Task Graph Set Project
#  4 lines say nothing 7 x
"""


def write(folder: Path, text: str = TEXT) -> Path:
    path = folder / "small.stg"
    path.write_text(text)
    return path


def test_dummies_vanish_and_the_order_is_topological(tmp_path: Path) -> None:
    graph = lt.load(write(tmp_path))
    assert [(o.name, o.duration_ns, o.reads, o.writes, o.after) for o in graph.ops] == [
        ("task 2", 5, (), (0,), ()),
        ("task 3", 7, (), (1,), ()),
        ("task 1", 20, (1,), (2,), ()),
        # Behind the dummy 4 stand 2 and 3.
        ("task 5", 9, (2,), (3,), (0, 1)),
    ]
    assert [t.final for t in graph.tensors] == [True, False, False, True]
    assert all(1 <= t.nbytes <= 20 for t in graph.tensors)


def test_options(tmp_path: Path) -> None:
    path = write(tmp_path)
    graph = lt.load(f"{path}?unit_ns=1000&sizes=equal")
    assert [o.duration_ns for o in graph.ops] == [5000, 7000, 20_000, 9000]
    assert {t.nbytes for t in graph.tensors} == {10}
    assert {t.nbytes for t in lt.load(f"stg:{path}?largest=1").tensors} == {1}
    drawn = [lt.load(f"{path}?seed={seed}&largest=1000") for seed in range(4)]
    assert len({tuple(t.nbytes for t in graph.tensors) for graph in drawn}) == 4
    assert lt.load(f"{path}?seed=1") == lt.load(path, seed=1)
    with pytest.raises(lt.InstanceError, match="did you mean seed"):
        lt.load(f"{path}?sed=1")


def test_a_task_behind_dummies_in_a_row_and_behind_what_it_reads(tmp_path: Path) -> None:
    graph = lt.load(write(tmp_path, "5\n1 4 0\n2 0 1 1\n3 0 1 2\n4 4 1 3\n5 4 2 1 3\n"))
    # What is read needs no control beside it.
    assert [(o.name, o.reads, o.after) for o in graph.ops] == [
        ("task 1", (), ()),
        ("task 4", (), (0,)),
        ("task 5", (0,), ()),
    ]


@pytest.mark.parametrize("seed", seeds(30))
def test_the_precedence_of_random_files_stays(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    n = rng.randint(1, 14)
    label = rng.sample(range(1, 100), n)
    before = [rng.sample(range(i), rng.randint(0, min(i, 3))) for i in range(n)]
    time = [rng.randint(0, 2) for _ in range(n)]
    time[rng.randrange(n)] = 1
    rows = [
        " ".join(map(str, (label[i], time[i], len(before[i]), *(label[p] for p in before[i]))))
        for i in range(n)
    ]
    rng.shuffle(rows)
    graph = lt.load(write(tmp_path, "\n".join([str(n), *rows])), data=rng.choice(["op", "edge"]))
    above: list[set[int]] = []
    for sources in before:
        above.append(set(sources).union(*(above[p] for p in sources)))
    expected = {
        f"task {label[i]}": {f"task {label[p]}" for p in above[i] if time[p]} for i in range(n) if time[i]
    }
    writer = {t: op.name for op in graph.ops for t in op.writes}
    found: dict[str, set[str]] = {}
    for op in graph.ops:
        direct = {writer[t] for t in op.reads} | {graph.ops[i].name for i in op.after}
        found[op.name] = direct.union(*(found[name] for name in direct))
    assert found == expected


def test_data_on_edges_has_one_reader_each(tmp_path: Path) -> None:
    text = "3\n1 4 0\n2 4 1 1\n3 4 2 1 2\n"
    graph = lt.load(f"{write(tmp_path, text)}?data=edge")
    assert [(o.reads, o.writes) for o in graph.ops] == [((), (0, 1)), ((0,), (2,)), ((1, 2), (3,))]
    shared = lt.load(write(tmp_path, text))
    assert [(o.reads, o.writes) for o in shared.ops] == [((), (0,)), ((0,), (1,)), ((0, 1), (2,))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "small.stg: found no number"),
        ("2 x\n", 'small.stg:1: found "x", expected an integer >= 0'),
        ("1 2 3\n", 'small.stg:1: found "1 2 3", expected the number of tasks'),
        (
            "2\n1 4 0\n2 4 1\n",
            "small.stg:3: found 3 numbers, expected number, time, count of tasks",
        ),
        ("2\n1 4\n", "small.stg:2: found 2 numbers"),
        ("2\n1 4 0\n1 4 0\n", "small.stg:3: found task 1 twice"),
        ("2\n1 4 0\n2 4 1 7\n", "task 2: found task 7 before it"),
        ("3\n1 4 0\n2 4 1 1\n", "found 2 tasks, expected 3"),
        ("1\n1 4 0\n2 4 0\n3 4 0\n4 4 0\n", "found 4 tasks, expected 1"),
        ("2\n1 4 1 2\n2 4 1 1\n", "found the cycle task 1 -> task 2 -> task 1"),
        ("1\n1 0 0\n", "found no task of positive time"),
    ],
)
def test_faults_have_their_place(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(lt.InstanceError) as caught:
        lt.load(write(tmp_path, text))
    assert message in str(caught.value)


@pytest.mark.parametrize("seed", range(3))
def test_a_character_changed_anywhere_is_read_or_refused(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for _ in range(150):
        at = rng.randrange(len(TEXT))
        text = TEXT[:at] + rng.choice(["", "0", "7", "-", ".", "#", " ", "\n", "é"]) + TEXT[at + 1 :]
        path = write(tmp_path, text)
        try:
            graph = lt.load(path)
        except lt.InstanceError as error:
            message = str(error)
        else:
            message = "expected"
            assert 1 <= len(graph.ops) <= 7
        assert "expected" in message
