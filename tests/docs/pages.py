"""Pages of the documentation as programs: their files, edits, commands and Python, in the order of the page.

* ``{code-block} LANGUAGE`` with ``:caption: FILE``: the file is written; the package of a ``pyproject.toml``
  is installed for the commands that follow, as ``pip install -e`` of its folder does;
* ``{code-block} diff`` with ``:caption: FILE``: lines with ``+`` go in behind the line above them, those with
  ``-`` go;
* ``console``: lines with ``$`` are run, and the output is compared; the exit status is 0, but where the
  output tells of an error, or of what is invalid or infeasible;
* ``python``: run, in one namespace for the page; what follows ``>>>`` is compared.

In an output, ``...`` stands for anything.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.commands import within, without_progress

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs"

PACKAGE = ("models", "formulations", "instances", "solvers", "results", "cli")
"""Folders of the package; a page that changes one of their files has a copy of the package."""

_BLOCK = re.compile(
    r"^(?P<fence>```+)(?:\{(?P<directive>[\w-]+)\}[ ]*)?(?P<kind>[^\n]*)\n(?P<body>.*?)^(?P=fence)$",
    re.M | re.S,
)
_CAPTION = re.compile(r"\A:caption: (?P<file>\S+)\n(?::.*\n)*\n")


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    kind: str
    file: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page."""
    text = page.read_text()
    for match in _BLOCK.finditer(text):
        if match["directive"] not in (None, "code-block"):
            continue
        body = match["body"]
        caption = _CAPTION.match(body)
        yield Block(
            kind=match["kind"],
            file=caption["file"] if caption else "",
            text=body[caption.end() :] if caption else body,
            line=text.count("\n", 0, match.start()) + 1,
        )


def needs_torch(page: Path) -> bool:
    """Return whether a page imports torch, which most machines do without."""
    return any(block.kind == "python" and "import torch\n" in block.text for block in blocks(page))


def needs_jax(page: Path) -> bool:
    """Return whether a page imports jax."""
    return any(block.kind == "python" and "import jax\n" in block.text for block in blocks(page))


class Reader:
    """Somebody who follows a page, in a folder of their own."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"COLUMNS": "100"}
        own = str(Path(sys.executable).parent)
        self.environment["PATH"] = os.pathsep.join((own, self.environment.get("PATH", "")))
        if any(block.file.split("/")[0] in PACKAGE for block in blocks(page)):
            self.folder = folder / "lowtide"
            _copy_package(self.folder)
            self.environment["PYTHONPATH"] = str(folder)
            self.environment.pop("PYTHONDONTWRITEBYTECODE", None)  # its commands are many, its files hundreds

    def follow(self) -> None:
        """Do what the page says."""
        for block in blocks(self.page):
            where = f"{self.page.name}, line {block.line}"
            if block.file and block.kind == "diff":
                path = self.folder / block.file
                path.write_text(edited(path.read_text(), block.text, where))
            elif block.file:
                path = self.folder / block.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text)
                if path.name == "pyproject.toml":
                    self._install(path)
            elif block.kind == "console":
                self._run(block, where)
            elif block.kind == "python":
                self._execute(block, where)

    def _install(self, file: Path) -> None:
        """Make the modules of a project and its entry points known to new processes."""
        project = tomllib.loads(file.read_text())["project"]
        info = file.parent / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        about = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        (info / "METADATA").write_text(about)
        groups = project["entry-points"].items()
        lines = [
            x for group, points in groups for x in (f"[{group}]", *(f"{k} = {v}" for k, v in points.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        before = self.environment.get("PYTHONPATH") or os.environ.get("PYTHONPATH", "")
        self.environment["PYTHONPATH"] = os.pathsep.join((str(file.parent), before))

    def _run(self, block: Block, where: str) -> None:
        for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
            command, _, expected = re.sub(r"\\\n\s*>?", "", part).partition("\n")
            done = self._here(command) if self._is_plain(command) else self._in_a_shell(command)
            found = done.stdout + without_progress(done.stderr)
            told = re.search(r"error|infeasible|invalid", expected) is not None
            assert told or not done.returncode, f"{where}: {command}\n{found}"
            assert agree(expected, found), f"{where}: {command}\nexpected:\n{expected}\nfound:\n{found}"

    def _is_plain(self, command: str) -> bool:
        """Return whether a command needs no shell; the README's run in one, as a reader's do."""
        own = "PYTHONPATH" in self.environment or self.page.name == "README.md"
        unquoted = re.sub(r"'[^']*'", "", command)
        return not own and command.startswith("lowtide ") and not re.search(r"[|&;<>$*?()]", unquoted)

    def _here(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in this process: there are hundreds, and a new one takes a while."""
        with patch.dict(os.environ, self.environment):
            return within(*shlex.split(command)[1:], cwd=self.folder)

    def _in_a_shell(self, command: str) -> subprocess.CompletedProcess[str]:
        call = re.sub(r"(^|&& )lowtide\b", rf"\1{sys.executable} -m lowtide", command)
        return subprocess.run(
            ["bash", "-c", call],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def _execute(self, block: Block, where: str) -> None:
        if "PYTHONPATH" in self.environment:  # the changed package, not the one that is imported here
            call = [sys.executable, "-c", block.text]
            done = subprocess.run(
                call, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
            )
            assert not done.returncode, f"{where}: {done.stderr}"
            return
        if ">>>" not in block.text:
            before = os.getcwd()
            os.chdir(self.folder)
            try:
                exec(compile(block.text, where, "exec"), self.names)
            finally:
                os.chdir(before)
            return
        test = doctest.DocTestParser().get_doctest(block.text, self.names, where, str(self.page), block.line)
        report: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        runner.run(test, out=report.append, clear_globs=False)
        self.names = test.globs
        assert not runner.failures, "".join(report)


def agree(expected: str, found: str) -> bool:
    """Return whether an output is what a page says; ``...`` stands for anything."""
    lines = [re.sub(r"[ \t]+", " ", line.strip()) for line in found.strip().splitlines()]
    told = [re.sub(r"[ \t]+", " ", line.strip()) for line in expected.strip().splitlines()]
    pattern = re.escape("\n".join(told)).replace(re.escape("..."), ".*?")
    return not told or re.fullmatch(pattern, "\n".join(lines), re.S) is not None


def edited(text: str, change: str, where: str) -> str:
    """Return the text with the added lines behind the lines that they stand under."""
    lines = text.splitlines()
    at: int | None = None
    for line in change.splitlines():
        if line.startswith("+"):
            assert at is not None, f"{where}: found an added line first, expected one that it stands under"
            lines.insert(at, line[1:])
            at += 1
        elif line.strip():
            start = 0 if at is None else at
            found = next((k for k in range(start, len(lines)) if lines[k] == line[1:]), None)
            assert found is not None, f"{where}: found no line {line[1:]!r}"
            at = found + 1
            if line.startswith("-"):
                del lines[found]
                at = found
    return "\n".join(lines) + "\n"


def _copy_package(to: Path) -> None:
    """Copy the package, without tests, tables and what is ignored."""
    to.mkdir()
    for name in PACKAGE:
        ignored = shutil.ignore_patterns("experiments")  # what is compiled is good for the copy too
        shutil.copytree(ROOT / name, to / name, ignore=ignored)
    for name in ("__init__.py", "__main__.py", "_version.py", "pyproject.toml"):
        shutil.copy(ROOT / name, to / name)
