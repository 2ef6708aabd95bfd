"""Workflow traces: versions 1.0 to 1.5 of the schema, what becomes of them, and faults with their place."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances.formats.wfcommons import read_wfcommons
from tests.commands import answer
from tests.small_files import FILE_SIZES as SIZES
from tests.small_files import WORKFLOW as NEW


def old(version: str) -> dict[str, Any]:
    """Return the same workflow as versions 1.0 to 1.4 have it."""
    named = version == "1.4"
    tasks = []
    for task in NEW["workflow"]["specification"]["tasks"]:
        run = next(r for r in NEW["workflow"]["execution"]["tasks"] if r["id"] == task["id"])
        files = [
            {"name": name, "link": link, "sizeInBytes" if named else "size": SIZES[name]}
            for key, link in (("inputFiles", "input"), ("outputFiles", "output"))
            for name in task.get(key, ())
        ]
        row = {
            "name": task["id"],
            "type": "compute",
            "parents": task["parents"],
            "files": files,
            "runtimeInSeconds" if named else "runtime": run["runtimeInSeconds"],
        }
        if "command" in run:
            row["category"] = run["command"]["program"]
        if "memoryInBytes" in run:
            row["memoryInBytes" if named else "memory"] = 50 if named else 0.05
        tasks.append(row)
    key = "tasks" if version >= "1.3" else "jobs"
    return {"name": "small", "schemaVersion": version, "workflow": {"makespan": 10, key: tasks}}


def write(folder: Path, data: object) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps(data))
    return path


def test_a_fork_and_a_join_by_hand(tmp_path: Path) -> None:
    graph = lt.load(f"wfcommons:{write(tmp_path, NEW)}")
    assert (graph.name, graph.provenance["schema_version"]) == ("small", "1.5")
    assert [(t.name, t.nbytes, t.kind, t.initial, t.final) for t in graph.tensors] == [
        ("raw", 100, "input", True, False),
        ("a", 7, "activation", False, False),
        ("b", 9, "activation", False, False),
        ("out", 3, "output", False, True),
    ]
    assert [(o.name, o.kind, o.duration_ns, o.workspace, o.reads, o.writes, o.after) for o in graph.ops] == [
        ("left_1", "split", 1_500_000_000, 50, (0,), (1,), ()),
        ("right_2", "", 2_000_000_000, 0, (0,), (2,), ()),
        ("join_3", "", 250_000_000, 0, (1, 2), (3,), ()),
        ("check_4", "", 1, 0, (), (), (2,)),
    ]
    assert lt.load(f"wfcommons:{tmp_path}/trace.json?memory=0").ops[0].workspace == 0


@pytest.mark.parametrize("version", ["1.0", "1.2", "1.3", "1.4"])
def test_earlier_versions_say_the_same(version: str, tmp_path: Path) -> None:
    def content(graph: lt.Graph) -> object:
        """Without the order in which the tensors are listed: earlier versions have no list of files."""
        names = [t.name for t in graph.tensors]
        return (
            {t.name: t for t in graph.tensors},
            [(o.name, o.kind, o.duration_ns, o.workspace, o.after) for o in graph.ops],
            [{names[t] for t in o.reads} for o in graph.ops],
            [{names[t] for t in o.writes} for o in graph.ops],
        )

    new, earlier = write(tmp_path, NEW), tmp_path / "earlier.json"
    earlier.write_text(json.dumps(old(version)))
    assert content(read_wfcommons(earlier)) == content(read_wfcommons(new))


def test_parents_by_id_in_earlier_versions_and_compressed(tmp_path: Path) -> None:
    data = old("1.3")
    for k, task in enumerate(data["workflow"]["tasks"]):
        task["id"] = f"ID{k}"
    data["workflow"]["tasks"][0]["parents"] = ["ID1", "ID2"]
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    assert read_wfcommons(path).ops == read_wfcommons(write(tmp_path, old("1.3"))).ops


def test_convert_writes_the_native_format(tmp_path: Path) -> None:
    source = write(tmp_path, NEW)
    answer("convert", f"wfcommons:{source}", "out.json", cwd=tmp_path)
    assert lt.load(tmp_path / "out.json") == read_wfcommons(source)


def faulty(*keys: Any, value: Any = None) -> dict[str, Any]:
    """Return the workflow with one place changed, or left out."""
    data = deepcopy(NEW)
    at = data
    for key in keys[:-1]:
        at = at[key]
    if value is None:
        del at[keys[-1]]
    else:
        at[keys[-1]] = value
    return data


SPEC, RUNS = ("workflow", "specification"), ("workflow", "execution", "tasks")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "found [], expected an object"),
        (faulty("schemaVersion"), "found no key 'schemaVersion'"),
        (faulty("workflow", value=3), "workflow: found 3, expected an object"),
        (faulty(*SPEC, "tasks", value=[]), "found no task, expected some"),
        (faulty(*SPEC, "tasks", 0, "id"), "task 0: found no key 'id'"),
        (faulty(*SPEC, "tasks", 1, "id", value="join_3"), "found task 'join_3' twice"),
        (
            faulty(*SPEC, "tasks", 0, "parents", value=["left"]),
            "task 'join_3': found parent 'left', expected the",
        ),
        (faulty(*SPEC, "tasks", 1, "children", value=["x"]), "task 'left_1': found child 'x'"),
        (faulty(*SPEC, "tasks", 1, "inputFiles", value=[3]), "inputFiles: found [3], expected a list of"),
        (
            faulty(*SPEC, "tasks", 1, "inputFiles", value=["z"]),
            "task 'left_1': found file 'z' without a size",
        ),
        (
            faulty(*SPEC, "tasks", 1, "inputFiles", value=["a"]),
            "found file 'a' read and written, expected one",
        ),
        (
            faulty(*SPEC, "tasks", 2, "outputFiles", value=["a"]),
            "file 'a': found the writers 'left_1' and 'right_2', expected one",
        ),
        (faulty(*SPEC, "files", 0, "sizeInBytes", value=-1), "file 0 'raw', sizeInBytes: found -1"),
        (faulty(*SPEC, "files", 1, "id", value="raw"), "file 1 'raw': found 7 bytes, expected 100 as"),
        (faulty(*RUNS, 2), "task 0 'join_3': found no run in workflow.execution.tasks"),
        (faulty(*RUNS, 0, "runtimeInSeconds"), "found no key 'runtimeInSeconds', expected a number"),
        (
            faulty(*RUNS, 0, "runtimeInSeconds", value=-2),
            "runtimeInSeconds: found -2, expected a number",
        ),
        (
            faulty(*SPEC, "tasks", 1, "parents", value=["join_3"]),
            "found the cycle join_3 -> left_1 -> join_3, expected an acyclic graph",
        ),
        (faulty(*SPEC, "files", 0, "sizeInBytes", value=2**62), "nbytes: found the sum"),
    ],
)
def test_faults_have_their_place(data: object, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, data)
    with pytest.raises(lt.InstanceError) as caught:
        read_wfcommons(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_a_second_run_of_a_task(tmp_path: Path) -> None:
    data = deepcopy(NEW)
    data["workflow"]["execution"]["tasks"].append({"id": "left_1", "runtimeInSeconds": 3})
    with pytest.raises(lt.InstanceError, match="task 4 'left_1': found a second run, expected one"):
        read_wfcommons(write(tmp_path, data))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value inside of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


@pytest.mark.parametrize("version", ["1.0", "1.4", "1.5"])
@pytest.mark.parametrize("value", [None, True, -1, 0.5, 1e300, "", "x", [], ["x"], [[]], {}, {"id": "x"}])
def test_whatever_stands_anywhere_is_read_or_refused(version: str, value: Any, tmp_path: Path) -> None:
    source = NEW if version == "1.5" else old(version)
    read, messages = 0, list[str]()
    for place in places(source):
        data = deepcopy(source)
        at = data
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = value
        path = write(tmp_path, data)
        try:
            read_wfcommons(path)
        except lt.InstanceError as error:
            messages.append(str(error))
        else:
            read += 1
    assert read
    assert messages
    assert all("found" in message and "expected" in message for message in messages)


def test_unknown_option_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(lt.InstanceError, match="did you mean memory"):
        lt.load(f"wfcommons:{write(tmp_path, NEW)}?memori=0")
    with pytest.raises(lt.InstanceError, match="found no such file"):
        lt.load("wfcommons:nothing.json")
