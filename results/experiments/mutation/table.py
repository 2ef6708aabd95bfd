"""How many mutants of product code the tests kill, by room.

A mutant is one small change of a function (`mutants`: `<` for `<=`, a call left out, `max` for `min`), drawn
by a seed from all that rules make of a room: the same ones again while these lines stay as they are. In a
clone, the tests that import the changed module run first, then those of the modules that import it, then the
others of its room. A mutant is killed if a test fails that passes without it, or if the tests hang that end
without it. Those that survive the quick tests meet the slow ones and all random cases, if asked for.
"""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import HERE, ROOT, Case, say
from .mutants import Mutant, mutants

FOLDERS = ("cli", "formulations", "instances", "models", "results", "solvers")
LEFT_OUT = ("results/experiments/", "results/figures/", "instances/torch_import/", "cli/demo")
"""Pictures and scripts, and what needs torch."""

QUICK = ("-m", "not slow", "--hypothesis-profile=fast")
ALL = ("--hypothesis-profile=full",)

PER_ROOM = 2
"""Mutants that are drawn from each room."""

PATIENCE = 900
"""Seconds that the tests of one mutant take at most."""
HANG = 240
"""Seconds after which one test hangs, the compilation of kernels included."""

SERVED = 2
"""Of so many problems a module may be a part, to be tested with them."""

QUICKLY = ("quick", "hangs")
KILLED = (*QUICKLY, "all")


def cases(per_room: int = PER_ROOM, seed: int = 0, thorough: bool = False) -> Iterator[Case]:
    """Yield a case for each mutant.

    Parameters
    ----------
    per_room
        Mutants drawn from each room.
    seed
        Of the draw.
    thorough
        Whether the survivors of the quick tests meet all tests.
    """
    for room, files in sorted(_rooms().items()):
        every = {name: (file, mutant) for file in files for name, mutant in _named(file)}
        drawn = sorted(every, key=lambda name: sha256(f"{seed} {name}".encode()).digest())[:per_room]
        for name in sorted(drawn):
            yield Case(name, partial(_judged, room, *every[name], thorough))


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


class Copy:
    """A clone of what is committed, in a folder with the package's name, that is gone with this process."""

    def __init__(self) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name) / "lowtide"
        subprocess.run(("git", "clone", "-q", "--no-hardlinks", ROOT, self.folder), check=True)
        self.broken: set[str] = set()
        """Tests that fail without a mutant."""

    def failing(self, tests: list[str], words: tuple[str, ...]) -> str | None:
        """Return the first test that fails, empty if all pass, None if they take too long."""
        call = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "--tb=no",
            f"--override-ini=faulthandler_timeout={HANG}",
            "--override-ini=faulthandler_exit_on_timeout=true",
            *words,
            *tests,
        ]
        call += [f"--deselect={test}" for test in sorted(self.broken)]
        environment = {**os.environ, "PYTHONPATH": self.scratch.name, "PYTHONDONTWRITEBYTECODE": "1"}
        run = partial(subprocess.run, cwd=self.folder, env=environment, capture_output=True, text=True)
        try:
            done = run(call, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode in (0, 5):
            return ""
        if "Timeout (" in done.stderr:
            return None
        lines = [line.split() for line in done.stdout.splitlines()]
        return next((words[1] for words in lines if words[:1] in (["FAILED"], ["ERROR"])), "at import")


copied = functools.cache(Copy)


def _rooms() -> dict[str, list[str]]:
    """Return the files of each room; kernels are a room of their own."""
    found: dict[str, list[str]] = {}
    for file in _tracked():
        path = Path(file)
        if path.suffix != ".py" or path.parts[0] not in FOLDERS or file.startswith(LEFT_OUT):
            continue
        is_kernel = path.stem.endswith("_kernel")
        room = (
            f"kernels of {path.parts[1]}"
            if is_kernel
            else "/".join(path.parts[: min(2, len(path.parts) - 1)])
        )
        found.setdefault(room, []).append(file)
    return found


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


def _judged(room: str, file: str, mutant: Mutant, thorough: bool) -> list[Row]:
    """Return the row of a mutant."""
    begun = time.monotonic()
    killed, by = _killed(file, mutant, "quick", QUICK)
    if killed == "no" and thorough:
        killed, by = _killed(file, mutant, "all", ALL)
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


def _killed(file: str, mutant: Mutant, how: str, words: tuple[str, ...]) -> tuple[str, str]:
    """Return how a mutant was killed and by which test; a test that fails without it does not count."""
    copy, tests = copied(), tests_of(file)
    place = copy.folder / file
    text = place.read_bytes()
    while tests:
        try:
            place.write_bytes(mutant.of(text))
            by = copy.failing(tests, words)
        finally:
            place.write_bytes(text)
        if by is None:
            return ("no" if copy.failing(tests, words) is None else "hangs"), ""
        if by in ("", "at import"):
            return (how if by else "no"), by
        if not copy.failing([by], words):
            return how, by
        copy.broken.add(by)
    return "no", ""


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
