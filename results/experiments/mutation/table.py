"""How many mutants of product code the tests kill, by room.

A mutant is one small change of a function (`mutants`: `<` for `<=`, a call left out, `max` for `min`), drawn
by a seed from all that rules make of a room: the same ones again while these lines stay as they are. In a
clone it meets the tests that reach its block of statements (of a compiled function: those that reach its
callers), of the files of tests that are nearest: those that import the module, then those that import its
users, then the others of its room. A mutant is killed if a test fails that passes without it, or takes many
times the processor time that it takes without it. Those that survive the quick tests meet the slow ones and
all random cases, if asked for.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ....solvers.engines.kernels import cache_folder
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, ROOT, Case, say
from .mutants import Mutant, mutants
from .runs import PLAIN, Event, Server, blocks

FOLDERS = ("cli", "formulations", "instances", "models", "results", "solvers")
LEFT_OUT = ("results/experiments/", "results/figures/", "instances/torch_import/", "cli/demo")
"""Pictures and scripts, and what needs torch."""

QUICK = ("-m", "not slow", "--hypothesis-profile=fast")
ALL = ("--hypothesis-profile=full",)

PER_ROOM = 5
"""Mutants that are drawn from each room."""

ENOUGH = 20
"""Seconds of processor time that the tests of one mutant take without it; more of them do not run."""
STAGES = (3, 12)
"""Files of tests that run first, and those that run at all: most mutants fail in the first ones."""
SLOWER, MORE = 10, 20
"""A test hangs after so many times its processor time and so many seconds more."""
COMPILATION = 180
"""Seconds of processor time that kernels are compiled in at most, where one of them is a mutant."""
PATIENCE = 900
"""Seconds of wall time after which tests that wait for another process hang."""

SERVED = 2
"""Of so many problems a module may be a part, to be tested with them."""

QUICKLY = ("quick", "hangs")
KILLED = (*QUICKLY, "all")


def cases(
    per_room: int = PER_ROOM, seed: int = 0, thorough: bool = False, kept: Path | None = None
) -> Iterator[Case]:
    """Yield a case for each mutant: the first one of each room, then the second ones, and so on.

    Parameters
    ----------
    per_room
        Mutants drawn from each room.
    seed
        Of the draw.
    thorough
        Whether the survivors of the quick tests meet all tests.
    kept
        A folder that keeps which tests reach what.
    """
    drawn = []
    for room, files in sorted(_rooms().items()):
        every = {name: (file, mutant) for file in files for name, mutant in _named(file)}
        best = sorted(every, key=lambda name: sha256(f"{seed} {name}".encode()).digest())[:per_room]
        drawn += [(turn, name, room, *every[name]) for turn, name in enumerate(best)]
    for _, name, room, file, mutant in sorted(drawn):
        yield Case(name, partial(_judged, room, file, mutant, thorough, kept))


def _named(file: str) -> Iterator[tuple[str, Mutant]]:
    """Yield the mutants of a file with names that stay when other lines of it change."""
    times: Counter[str] = Counter()
    for mutant in mutants((ROOT / file).read_text()):
        name = f"{file} {mutant.rule}: {_line(mutant.old)} to {_line(mutant.new)}"
        times[name] += 1
        yield f"{name}, {times[name]}", mutant


def _line(text: str) -> str:
    return " ".join(text.split())


@functools.cache
def _tracked() -> tuple[str, ...]:
    words = ("git", "ls-files", "-z")
    return tuple(
        subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
    )


class Reach(NamedTuple):
    """What the tests of a file reach: the seconds of those that pass, and which of them reach a block.

    Blocks are named by their module and first line; what is reached at import, all tests reach.
    """

    seconds: dict[str, float]
    blocks: dict[str, dict[str, list[str]]]

    def reaching(self, file: str, line: int | None) -> set[str]:
        """Return the tests that reach a block, or any block of a module."""
        lines = self.blocks.get(file, {})
        return set().union(*(lines.values() if line is None else [lines.get(str(line), [])]))


class Copy:
    """A clone of what is committed, in a folder with the package's name, that is gone with this process."""

    def __init__(self, kept: Path | None) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name) / "lowtide"
        subprocess.run(("git", "clone", "-q", "--no-hardlinks", ROOT, self.folder), check=True)
        self.kept = kept or Path(self.scratch.name) / "reach"
        self.kept.mkdir(parents=True, exist_ok=True)
        cache = Path(self.scratch.name) / "cache"  # mutants of kernels stay out of the user's own
        shutil.copytree(cache_folder(), cache / "kernels")
        self.server = Server(
            self.folder, {**os.environ, "PYTHONPATH": self.scratch.name, "LOWTIDE_CACHE_DIR": str(cache)}
        )
        self.changes = 0

    @functools.cache  # noqa: B019 (there is one copy)
    def reach(self, test: str, words: tuple[str, ...]) -> Reach:
        """Return what the tests of a file reach."""
        words_of_git = ("git", "ls-tree", "-r", "HEAD", *FOLDERS, test)
        files = subprocess.run(words_of_git, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        code = [line for line in files.splitlines() if LEFT_OUT[0] not in line]
        path = self.kept / f"{sha256(f'{code} {words}'.encode()).hexdigest()[:16]}.json"
        if not path.exists():
            events, _ = self.server.run([test], words, PATIENCE)
            path.write_text(json.dumps(_reach(events)))
        return Reach(*json.loads(path.read_text()))

    def failing(
        self, file: str, mutant: Mutant, tests: dict[str, float], words: tuple[str, ...]
    ) -> tuple[str, str]:
        """Return the first test that fails or hangs with a mutant and passes without it, and how it ends."""
        while tests:
            with self._changed(file, mutant):
                by, ended = self._first(tests, words)
            if by in ("", "at import") or self._first({by: tests[by]}, words) == ("", "exits"):
                return by, ended
            tests = {test: limit for test, limit in tests.items() if test != by}
        return "", "exits"

    def _first(self, tests: dict[str, float], words: tuple[str, ...]) -> tuple[str, str]:
        """Return the first test that fails or does not end, and how the run ended."""
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        events, ended = self.server.run(list(files), words, PATIENCE, tests)
        if failed := [event[1] for event in events if event[0] == "fails"]:
            return failed[0], "exits"
        begun = [event[1] for event in events if event[0] == "begins"]
        if not begun:
            return "at import", ended
        return "" if ended == "exits" else begun[-1], ended

    @contextmanager
    def _changed(self, file: str, mutant: Mutant) -> Iterator[None]:
        """Have a file changed; each time with another time of change, which kept bytecode goes by."""
        place = self.folder / file
        text, stat = place.read_bytes(), place.stat()
        self.changes += 1
        try:
            place.write_bytes(mutant.of(text))
            os.utime(place, (stat.st_atime, stat.st_mtime + self.changes))
            yield
        finally:
            place.write_bytes(text)
            os.utime(place, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _reach(events: list[Event]) -> Reach:
    """Return what the events of a run say of its tests."""
    names = [(event[1], line) for event in events if event[0] == "blocks" for line in event[2]]
    failed = {event[1] for event in events if event[0] == "fails"}
    ends = [event for event in events if event[0] == "ends" and event[1] not in failed]
    blocks: dict[str, dict[str, list[str]]] = {}
    first = {k for event in events if event[0] == "collected" for k in event[1]}
    for _, test, _, seen in ends:
        for file, line in (names[k] for k in first.union(seen)):
            blocks.setdefault(file, {}).setdefault(str(line), []).append(test)
    return Reach({test: seconds for _, test, seconds, _ in ends}, blocks)


copied = functools.cache(Copy)


def _rooms() -> dict[str, list[str]]:
    """Return the files of each room; kernels are a room of their own."""
    found: dict[str, list[str]] = {}
    for file in _tracked():
        path = Path(file)
        if path.suffix != ".py" or path.parts[0] not in FOLDERS or file.startswith(LEFT_OUT):
            continue
        room = (
            f"kernels of {path.parts[1]}"
            if _is_kernel(file)
            else "/".join(path.parts[: min(2, len(path.parts) - 1)])
        )
        found.setdefault(room, []).append(file)
    return found


def _is_kernel(file: str) -> bool:
    return Path(file).stem.endswith("_kernel")


def _is_compiled(module: str) -> bool:
    return _is_kernel(module) or f"{module.removesuffix('.py')}.py" in PLAIN


@functools.cache
def _imports(file: str) -> frozenset[str]:
    """Return the modules of ours that a file imports, as paths without suffix."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("lowtide")):
            folder = Path(file).parents[node.level - 1].parts if node.level else ()
            base = [*folder, *(node.module or "").removeprefix("lowtide").strip(".").split(".")]
            path = "/".join(filter(None, base))
            found |= {path, *(f"{path}/{alias.name}" for alias in node.names)}
    return frozenset(found)


@functools.cache
def _users(module: str) -> frozenset[str]:
    """Return the modules that import a module, as paths without suffix."""
    every = (file for file in _tracked() if file.endswith(".py") and not file.startswith("tests/"))
    return frozenset(file.removesuffix(".py") for file in every if module in _imports(file))


def _problems(modules: Iterable[str]) -> set[str]:
    paths = [Path(module).parts for module in modules]
    return {parts[1] for parts in paths if parts[0] in ("solvers", "formulations") and len(parts) > 2}


def tests_of(file: str) -> list[str]:
    """Return the files of tests of a module: those that import it, those of its users, those of its room.

    What one or two problems use within two imports is also tested with them.
    """
    module, path = file.removesuffix(".py"), Path(file)
    (problem,) = _problems([module]) or ("",)
    users = {user for near in _users(module) - {"__init__"} for user in (near, *_users(near))}
    served = problems if len(problems := _problems(users)) <= SERVED else set()
    ranked = []
    for test in _tracked():
        where = Path(test)
        if where.parts[0] != "tests" or not where.name.startswith("test_"):
            continue
        folder = where.parts[1:-1]
        if module in _imports(test):
            rank = 0
        elif _users(module) & _imports(test):
            rank = 1
        elif any(word in where.stem for word in (path.stem.removesuffix("_kernel"), *path.parts[2:-1])):
            rank = 2
        elif (problem and problem in folder) or (not problem and folder[:2] == path.parts[:-1][:2]):
            rank = 3
        elif folder[:1] == ("solvers",) and served.intersection(folder):
            rank = 4
        elif folder == path.parts[:1] or (
            problem and (folder == ("solvers",) or where.name == "test_every_constraint_matters.py")
        ):
            rank = 5
        else:
            continue
        ranked.append((rank, test))
    return [test for _, test in sorted(ranked)]


def _places(file: str, mutant: Mutant) -> list[tuple[str, int | None]]:
    """Return the block of a mutant: its module and first line; of a kernel: the modules that call it."""
    if not _is_compiled(file):
        every = blocks(ast.parse((ROOT / file).read_text()))
        lines = [b[0].lineno for b in every if b[0].lineno <= mutant.line <= (b[-1].end_lineno or 0)]
        return [(file, max(lines, default=None))]
    users: set[str] = set()
    waiting = [file.removesuffix(".py")]
    while waiting:
        for user in _users(waiting.pop()) - users:
            users.add(user)
            if _is_compiled(user):
                waiting.append(user)
    return [(f"{user}.py", None) for user in sorted(users) if not _is_compiled(user)]


def _judged(room: str, file: str, mutant: Mutant, thorough: bool, kept: Path | None) -> list[Row]:
    """Return the row of a mutant."""
    begun = time.monotonic()
    killed, by = _killed(file, mutant, "quick", QUICK, kept)
    if killed == "no" and thorough:
        killed, by = _killed(file, mutant, "all", ALL, kept)
    say(f"  {killed} {by}")
    return [
        {
            "room": room,
            "file": file,
            "line": mutant.line,
            "rule": mutant.rule,
            "old": _line(mutant.old),
            "new": _line(mutant.new),
            "killed": killed,
            "by": by,
            "seconds": round(time.monotonic() - begun),
        }
    ]


def _killed(
    file: str, mutant: Mutant, how: str, words: tuple[str, ...], kept: Path | None
) -> tuple[str, str]:
    """Return how a mutant was killed and by which test."""
    copy, files, left = copied(kept), tests_of(file), float(ENOUGH)
    more = MORE + (COMPILATION if _is_compiled(file) else 0)
    for begin, end in pairwise((0, *STAGES)):
        tests = {}
        for test_file in files[begin:end]:
            reach = copy.reach(test_file, words)
            found = set().union(*(reach.reaching(*place) for place in _places(file, mutant)))
            for test in sorted(found, key=lambda test: (reach.seconds[test], test)):
                left -= reach.seconds[test]
                if left > 0:
                    tests[test] = SLOWER * reach.seconds[test] + more
        by, ended = copy.failing(file, mutant, tests, words)
        if by:
            return "hangs" if ended == "hangs" else how, by
    return "no", ""


def together(rows: list[Row]) -> list[Row]:
    """Return the rows by room and place."""
    return sorted(rows, key=lambda row: (row["room"], row["file"], row["line"], row["old"], row["new"]))


def reasons() -> dict[tuple[str, ...], str]:
    """Return why survivors are no faults of the tests, by file, old and new text, from ``survivors.toml``."""
    entries = tomllib.loads((HERE / "mutation" / "survivors.toml").read_text()).get("survivor", [])
    return {(entry["file"], entry["old"], entry["new"]): entry["reason"] for entry in entries}


def _share(rows: list[Row], *kinds: str) -> float:
    return sum(row["killed"] in kinds for row in rows) / len(rows)


TABLE = TableSpec(
    (
        Column("room"),
        Column("mutants", len, ","),
        Column("killed by quick tests", lambda rows: _share(rows, *QUICKLY), ".0%"),
        Column("with those that met all tests", lambda rows: _share(rows, *KILLED), ".0%"),
    ),
    groups=("room",),
)

SURVIVORS = TableSpec((Column("file"), Column("line", kind=RIGHT), Column("change"), Column("why")))


def text(rows: list[Row]) -> Fields:
    """Return the rates and the survivors."""
    why = reasons()
    alive = [
        {
            **row,
            "change": f"`{row['old']}` to `{row['new']}`".replace("|", "&#124;"),
            "why": why.get((row["file"], str(row["old"]), str(row["new"]))),
        }
        for row in rows
        if row["killed"] not in KILLED
    ]
    return {
        "rooms": len({row["room"] for row in rows}),
        "alive": len(alive),
        "explained": sum(row["why"] is not None for row in alive),
        "quick": f"{_share(rows, *QUICKLY):.0%}",
        "table": TABLE.of(rows),
        "survivors": SURVIVORS.of(alive),
    }
