"""Directives that write parts of pages from the package: methods, formulations, tables, flags.

==========================  ==============================================================
``{methods} peak``          a table of a problem's methods, with what they prove and source
``{options} peak``          the options of its methods
``{capabilities} placement``  which traits of questions its methods support
``{formulations} peak``     the pages of mathematics of `lowtide.formulations.peak`
``{systems} placement``     what its methods that stand for published systems rest on, and what they lack
``{policies} placement``    the docstrings of its policies
``{committed} NAME``        the text of a committed experiment
``{reproductions} values``  published figures beside those of the suite; ``set-ups``: those of other questions
``{flags} solve peak``      the output of ``lowtide solve peak --help``
``{questions} all``         the parameters of each problem beside its instance
``{machines} all``          the machines that come with the suite
``{machines} rates``        how fast they compute
``{machines} links``        their tiers, channels and sources
``{picture} coexist``       a picture of `pictures`; ``questions``: all problems, each a link to its page
==========================  ==============================================================
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import pictures
import reproductions
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from lowtide.instances import machines
from lowtide.instances.machines import load_machine, machine_names, rated_machines
from lowtide.models.problems import PROBLEMS
from lowtide.models.units import format_bytes, format_duration
from lowtide.models.work import DTYPES
from lowtide.results.experiments.__main__ import written
from lowtide.results.experiments.running import read_rows
from lowtide.solvers.method import Proves
from lowtide.solvers.registry import ROOMS, capability_matrix

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENTS = ROOT / "results" / "experiments"

PROOFS = {Proves.NOTHING: "", Proves.BOUND: "a bound", Proves.OPTIMUM: "the optimum"}


class _Markdown(SphinxDirective, ABC):
    """A part of a page that is written as Markdown."""

    required_arguments = 1
    final_argument_whitespace = True

    @abstractmethod
    def text(self) -> str:
        """Return the Markdown."""

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the Markdown."""
        parent = nodes.Element()
        lines = StringList(self.text().splitlines(), self.get_source_info()[0])
        self.state.nested_parse(lines, self.content_offset, parent)
        return parent.children


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


class Methods(_Markdown):
    """The methods of a problem."""

    def text(self) -> str:
        """Return a table."""
        rows = [
            _row(f"`{m.name}`", m.summary, PROOFS[m.proves], m.source)
            for m in ROOMS[self.arguments[0]].methods
        ]
        return "\n".join(["| method | what it does | proves | source |", "|---|---|---|---|", *rows])


class Systems(_Markdown):
    """What methods that stand for published systems rest on, as they declare."""

    def text(self) -> str:
        """Return a table."""
        declared = [m for m in ROOMS[self.arguments[0]].methods if m.basis is not None]
        rows = [_row(f"`{m.name}`", str(m.basis), m.source, m.abstracted) for m in declared]
        heads = "| system | rests on | source | missing, replaced or inferred |"
        return "\n".join([heads, "|---|---|---|---|", *rows])


class Options(_Markdown):
    """The options of a problem's methods."""

    def text(self) -> str:
        """Return a table, or that there are none."""
        owners: dict[tuple[str, str], list[str]] = {}
        for method in ROOMS[self.arguments[0]].methods:
            for option in method.options:
                owners.setdefault((option.name, option.meaning), []).append(f"`{method.name}`")
        if not owners:
            return "None of the methods has options of its own."
        rows = [_row(f"`{name}`", meaning, ", ".join(who)) for (name, meaning), who in owners.items()]
        return "\n".join(["| option | meaning | methods |", "|---|---|---|", *rows])


class Capabilities(_Markdown):
    """Which traits of questions the methods of a problem support, as they declare."""

    def text(self) -> str:
        """Return a table, and the names of the other methods."""
        groups, matrix = capability_matrix(self.arguments[0])
        largest = max(groups, key=len)
        heads = ["others" if group is largest else ", ".join(f"`{x}`" for x in group) for group in groups]
        lines = [_row("a question with", *heads), _row(*["---"] * (len(groups) + 1))]
        every = [trait for trait, row in matrix.items() if {*row} == {"yes"}]
        lines += [_row(trait, *row) for trait, row in matrix.items() if trait not in every]
        lines += ["", f"Others: {', '.join(f'`{x}`' for x in largest)}. All support: {', '.join(every)}."]
        return "\n".join(lines)


class _Docstrings(SphinxDirective, ABC):
    """The docstrings of modules, each under a title."""

    required_arguments = 1

    @abstractmethod
    def modules(self) -> Iterator[tuple[str, str]]:
        """Yield titles and modules of the package."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each module."""
        sections: list[nodes.Node] = []
        for title, name in self.modules():
            section = nodes.section(ids=[nodes.make_id(f"{self.arguments[0]}-{title}")], names=[title])
            section += nodes.title("", "", nodes.literal(text=title))
            text = f"```{{eval-rst}}\n.. automodule:: lowtide.{name}\n   :no-members:\n   :no-index:\n```"
            self.state.nested_parse(StringList(text.splitlines(), name), 0, section)
            sections.append(section)
        return sections


class Formulations(_Docstrings):
    """The pages of mathematics of a problem."""

    def modules(self) -> Iterator[tuple[str, str]]:
        """Yield the modules of its folder."""
        problem = self.arguments[0]
        for path in sorted((ROOT / "formulations" / problem).glob("*.py")):
            if path.stem != "__init__":
                yield path.stem, f"formulations.{problem}.{path.stem}"


class Policies(_Docstrings):
    """The docstrings of the policies of a problem."""

    def modules(self) -> Iterator[tuple[str, str]]:
        """Yield the modules of the methods that are policies."""
        for method in ROOMS[self.arguments[0]].methods:
            module = method.run.split(":")[0]
            if ".policies." in module:
                yield method.name, f"solvers{module}"


class Committed(_Markdown):
    """The table of a committed experiment, or the excerpt that its module makes of the rows."""

    option_spec = {"part": directives.unchanged}  # noqa: RUF012 - as docutils has it

    def text(self) -> str:
        """Return its text, links made relative to the page."""
        name = self.arguments[0]
        path = EXPERIMENTS / name / "table.md"
        self.env.note_dependency(str(path))
        here = Path(self.env.doc2path(self.env.docname)).parent
        part = self.options.get("part")
        text = written(name, read_rows(name), part) if part else path.read_text()
        base = ROOT if part else path.parent

        def link(match: re.Match[str]) -> str:
            target = (base / match[1]).resolve()
            if target.name == "table.md":
                return f"](/results.md#{target.parent.name})"
            return f"]({os.path.relpath(target, here)})"

        return re.sub(r"\]\((?!https?:|/|#)([^)]+)\)", link, text)


class Flags(_Markdown):
    """The flags of a command."""

    def text(self) -> str:
        """Return the text of ``--help``."""
        call = [sys.executable, "-m", "lowtide", *self.arguments[0].split(), "--help"]
        environment = dict(os.environ, COLUMNS="92", NO_COLOR="1")
        text = subprocess.run(call, capture_output=True, text=True, check=True, env=environment).stdout
        return f"```text\n{text.rstrip()}\n```"


class Questions(_Markdown):
    """The parameters of problems beside their instance."""

    def text(self) -> str:
        """Return a table."""
        rows = [
            _row(f"`{name}`", f"`{option}{'KIND' if option.endswith('.') else ''}`", parameter.text)
            for name, problem in PROBLEMS.items()
            for option, parameter in problem.parameters.items()
        ]
        return "\n".join(["| problem | option | meaning |", "|---|---|---|", *rows])


class Machines(_Markdown):
    """The machines that come with the suite."""

    def text(self) -> str:
        """Return a table."""
        return {"all": self._all, "rates": self._rates, "links": self._links}[self.arguments[0]]()

    def _all(self) -> str:
        rows = [_row(f"`{name}`", meaning) for name, meaning in machine_names().items()]
        return "\n".join(["| machine | description |", "|---|---|", *rows])

    def _rates(self) -> str:
        head = ["machine", *DTYPES, "memory", "reached", "launch", "source"]
        rows = []
        for name in rated_machines():
            rates = load_machine(name).compute
            assert rates is not None
            by_dtype = dict(rates.operations_per_s)
            rows.append(
                _row(
                    f"`{name}`",
                    *(f"{by_dtype[x] / 1e12:,.5g}" if x in by_dtype else "" for x in DTYPES),
                    f"{rates.bytes_per_s / 1e9:,.5g}",
                    f"{rates.arithmetic_percent} % / {rates.memory_percent} %",
                    format_duration(rates.launch_ns),
                    rates.source,
                )
            )
        return "\n".join([_row(*head), "|---|" + "---:|" * (len(head) - 2) + "---|", *rows])

    def _links(self) -> str:
        rows = []
        for name in machine_names():
            machine = load_machine(name)
            tiers = dict.fromkeys(
                f"{_anyone(t.name)} {'' if t.capacity is None else format_bytes(t.capacity)}".rstrip()
                for t in machine.tiers
            )
            links = dict.fromkeys(
                f"{_anyone(c.src)} → {_anyone(c.dst)} {c.bytes_per_s / 1e9:g}" for c in machine.channels
            )
            notes = (resources.files(machines) / f"{name}.toml").read_text(encoding="utf-8").splitlines()
            source = " ".join(x.removeprefix("# ") for x in takewhile(lambda x: x.startswith("#"), notes))
            rows.append(_row(f"`{name}`", ", ".join(tiers), ", ".join(links), source))
        return "\n".join(["| machine | tiers | GB/s | what the file says |", "|---|---|---|---|", *rows])


def _anyone(name: str) -> str:
    """Return the name of a tier, those of several GPUs as one."""
    return re.sub(r"\d+$", "*", name)


class Picture(SphinxDirective):
    """A picture, drawn into the page in its colours."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return it."""
        self.env.note_dependency(pictures.__file__)
        if self.arguments[0] == "questions":
            return [nodes.raw("", self._questions(), format="html")]
        drawn = f'<div class="picture">{pictures.svg(self.arguments[0])}</div>'
        return [nodes.raw("", drawn, format="html")]

    def _questions(self) -> str:
        """Return the pictures of all problems, each a link to its page."""
        pages = {name: f"problems/{name}" for name in pictures.QUESTIONS}
        pages["parallel-memory"] = "problems/parallel"
        relative = self.env.app.builder.get_relative_uri
        links = (
            f'<a href="{relative(self.env.docname, page)}">{pictures.question(name)}</a>'
            for name, page in pages.items()
        )
        return f'<div class="questions">{"".join(links)}</div>'


class Reproductions(_Markdown):
    """A table of published figures beside those of committed rows."""

    def text(self) -> str:
        """Return the table."""
        entries = reproductions.TABLES[self.arguments[0]]
        for entry in entries:
            self.env.note_dependency(str(EXPERIMENTS / entry.experiment / "table.csv"))
        return reproductions.table(entries)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    tables = (Methods, Systems, Options, Capabilities, Committed, Reproductions, Flags, Questions, Machines)
    for directive in (*tables, Formulations, Policies, Picture):
        app.add_directive(directive.__name__.lower(), directive)
    return {"parallel_read_safe": True}
