"""Experiments: a TOML file that says which methods are run on which instances, and with what.

::

    [experiment]
    name = "widths"            # what the experiment is called; default: the name of the file
    seed = 1                   # of the order in which the runs are started; default 0
    save_plans = true          # keep every execution plan; default false

    [limits]                   # of each run
    seconds = 60               # of building and solving, or "none"; default 60
    memory = "4GiB"            # resident bytes of the run's processes, or "none"; default none
    threads = 1                # default 1
    grace = 15                 # seconds beyond the limit before a run is asked to stop; default 15

    [[runs]]                   # every instance x method x combination of parameters x seed
    problem = "peak"
    instances = ["onnx:*?train=1", "data:aten/*.json.gz", "graphs/*.onnx?batch=8", "gen:chain?n=9,seed=1"]
    methods = ["beam"]
    seeds = [1, 2]             # default [0]
    parameters = { width = [16, 64] }  # a grid: a value or a list of values for each option
    limits = { seconds = 10 }  # what differs from above

Paths count from the folder of the file; see `sweep_instances.expand` for globs. Every mistake of a file
is found in one go, with its line. The instances are loaded to that end, and because a run is named by
the content of its instance (`lowtide.results.sweeps.runspec`).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...instances.formats.strict_json import (
    is_flag,
    is_size,
    is_text,
    nearest,
    parse_toml,
    read_bytes,
    show,
)
from ...models.errors import InstanceError, LowtideError, UsageError
from ...models.units import parse_bytes
from .job import load_question
from .preflight import Trial, complaints
from .runspec import Limits, RunSpec, Value, is_seconds, source_hash
from .sweep_instances import Source, expand
from .toml_lines import Place, line_numbers

KEYS: dict[Place, tuple[str, ...]] = {
    (): ("experiment", "limits", "runs"),
    ("experiment",): ("name", "seed", "save_plans"),
    ("limits",): ("seconds", "memory", "threads", "grace"),
    ("runs",): ("problem", "instances", "methods", "seeds", "parameters", "limits"),
}
"""What each table may hold."""


GRACE = 15.0
"""Seconds: more than the ten that the engines give a solver which overruns its limit."""


class ExperimentError(UsageError):
    """Mistakes in an experiment's file.

    Attributes
    ----------
    problems
        One line for each: file, line, what was found and expected.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What an experiment's file says.

    Attributes
    ----------
    name
        What it is called.
    content
        The bytes of the file.
    runs
        In the order in which they are started, each once.
    repeated
        How many more the file asks for that are the same as others (same content under another name).
    """

    name: str
    content: bytes
    runs: tuple[RunSpec, ...]
    repeated: int


def read_experiment(path: str | Path, *, progress: Callable[[str], None] = lambda line: None) -> Experiment:
    """Return the experiment that a file describes.

    Parameters
    ----------
    progress
        Called with a line of text while instances are loaded.

    Raises
    ------
    ExperimentError
        If anything in it is wrong; it lists all mistakes.
    """
    path = Path(path)
    try:
        content = read_bytes(path)
        data = parse_toml(content, str(path))
    except InstanceError as error:
        raise ExperimentError([str(error)]) from None
    text = content.decode()
    reader = _Reader(path, data, line_numbers(text), progress)
    runs = list(reader.runs())
    if reader.problems:
        raise ExperimentError([f"{path}:{line}: {words}" for line, words in sorted(set(reader.problems))])
    unique = {run.name: run for run in runs}
    seed = reader.seed
    order = sorted(unique.values(), key=lambda run: hashlib.sha256(f"{seed} {run.name}".encode()).digest())
    return Experiment(name=reader.name, content=content, runs=tuple(order), repeated=len(runs) - len(unique))


class _Reader:
    """Reads the parsed file; notes every mistake with its line and goes on."""

    def __init__(
        self, path: Path, data: dict[str, Any], lines: Mapping[Place, int], progress: Callable[[str], None]
    ) -> None:
        self.path, self.data, self.lines, self.progress = path, data, lines, progress
        self.problems: list[tuple[int, str]] = []
        self.known: dict[tuple[str, str], str | None] = {}  # SHA-256, None if not to be loaded
        self.loading: dict[tuple[str, str], str] = {}
        self.keys((), data, KEYS[()])
        head = self.table(("experiment",), data.get("experiment", {}))
        self.name = self.get(("experiment",), head, "name", path.stem, is_text, "a string")
        self.seed = self.get(("experiment",), head, "seed", 0, is_size, "an integer >= 0")
        self.save_plans = self.get(("experiment",), head, "save_plans", False, is_flag, "true or false")
        self.limits, self.grace = self.read_limits(("limits",), data.get("limits", {}), Limits(), GRACE)

    def wrong(self, place: Place, words: str) -> None:
        """Note a mistake; the line is that of the place, or of the nearest thing around it."""
        where = place
        while where and where not in self.lines:
            where = where[:-1]
        self.problems.append((self.lines.get(where, 1), f"{_called(place)}{words}"))

    def keys(self, place: Place, table: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in table:
            if key not in known:
                self.wrong((*place, key), f"found an unknown key, {nearest(key, known)}")

    def table(self, place: Place, value: Any) -> dict[str, Any]:
        """Return a table whose keys are known, whatever was found."""
        if not isinstance(value, dict):
            self.wrong(place, f"found {_shown(value)}, expected a table")
            return {}
        self.keys(place, value, KEYS[(place[0],) if place[-1] != "limits" else ("limits",)])
        return value

    def get(
        self,
        place: Place,
        table: Mapping[str, Any],
        key: str,
        default: Any,
        test: Callable[[Any], bool],
        expected: str,
    ) -> Any:
        """Return the value of a key if it is good, else the default."""
        if key not in table:
            return default
        if not test(table[key]):
            self.wrong((*place, key), f"found {_shown(table[key])}, expected {expected}")
            return default
        return table[key]

    def read_limits(self, place: Place, value: Any, limits: Limits, grace: float) -> tuple[Limits, float]:
        table = self.table(place, value)
        wanted = 'seconds > 0, or "none"'
        seconds = self.get(
            place, table, "seconds", limits.seconds, lambda v: v == "none" or is_seconds(v), wanted
        )
        seconds = None if seconds == "none" else seconds
        if isinstance(seconds, float) and seconds.is_integer():  # 10.0 and 10 are the same limit
            seconds = int(seconds)
        memory = self.get(
            place, table, "memory", limits.memory, lambda v: v == "none" or is_text(v) or is_size(v), "a size"
        )
        if memory == "none":
            memory = None
        elif memory is not None:
            try:
                memory = parse_bytes(str(memory))
            except UsageError as error:
                self.wrong((*place, "memory"), str(error).removeprefix("size: "))
                memory = None
        threads = self.get(
            place, table, "threads", limits.threads, lambda v: is_size(v) and v > 0, "an integer >= 1"
        )
        grace = self.get(place, table, "grace", grace, is_seconds, "seconds > 0")
        return Limits(seconds=seconds, memory=memory, threads=threads), grace

    def runs(self) -> Iterator[RunSpec]:
        """Yield every run that is asked for, in the order of the file."""
        tables = self.data.get("runs", [])
        if not isinstance(tables, list) or not tables:
            self.wrong(("runs",), "found no run, expected at least one table [[runs]]")
            return
        sweeps = [self.sweep(("runs", i), table) for i, table in enumerate(tables)]
        trials = list(itertools.chain.from_iterable(trials for trials, _ in sweeps))
        for (place, _), words in zip(trials, complaints([trial for _, trial in trials]), strict=True):
            if words is not None:
                self.wrong(place, words)
        for _, runs in sweeps:
            yield from runs

    def sweep(self, place: Place, value: Any) -> tuple[list[tuple[Place, Trial]], list[RunSpec]]:
        """Return one table's methods with their parameters, to be tried, and its runs."""
        from ...models.problems import PROBLEMS
        from ...models.problems.peak import Peak

        table = self.table(place, value)
        for key in ("problem", "instances", "methods"):
            if isinstance(value, dict) and key not in table:
                self.wrong(place, f"found no key {key!r}, expected one")
        problem = self.get(place, table, "problem", None, is_text, "a string")
        if problem is not None and problem not in PROBLEMS:
            self.wrong((*place, "problem"), f"found {problem!r}, {nearest(problem, PROBLEMS)}")
            problem = None
        sources = []
        if "instances" in table:
            sources = self.sources((*place, "instances"), table["instances"], problem or Peak.name)
        seeds = self.values((*place, "seeds"), table.get("seeds", [0]), is_size, "an integer >= 0")
        limits, grace = self.read_limits((*place, "limits"), table.get("limits", {}), self.limits, self.grace)
        names: list[str] = []
        if "methods" in table:
            names = self.values((*place, "methods"), table["methods"], is_text, "a string")
        pairs = self.methods(place, problem, names) if problem is not None else []
        grid = self.grid((*place, "parameters"), table.get("parameters", {}), [m for m, _ in pairs], problem)
        where: Place = (*place, "parameters") if "parameters" in table else (*place, "methods")
        trials = [(where, Trial(str(problem), method, point)) for method, _ in pairs for point in grid]
        runs = [
            RunSpec(
                instance=source.label,
                spec=None if source.spec == source.label else source.spec,
                instance_sha256=self.known[str(problem), source.spec],
                problem=str(problem),
                method=method,
                parameters=point,
                seed=seed,
                limits=limits,
                grace=grace,
                save_plan=self.save_plans,
                source_hash=code,
            )
            for source in sources
            for method, code in pairs
            for point in grid
            for seed in seeds
        ]
        return trials, runs

    def values(self, place: Place, value: Any, test: Callable[[Any], bool], expected: str) -> list[Any]:
        """Return the good elements of a list without repetition."""
        if not isinstance(value, list) or not value:
            self.wrong(place, f"found {_shown(value)}, expected a list")
            return []
        good: list[Any] = []
        for i, item in enumerate(value):
            if not test(item):
                self.wrong((*place, i), f"found {_shown(item)}, expected {expected}")
            elif any(item == other and type(item) is type(other) for other in good):
                self.wrong((*place, i), f"found {_shown(item)} twice, expected it once")
            else:
                good.append(item)
        return good

    def methods(self, place: Place, problem: str, names: Sequence[str]) -> list[tuple[str, str]]:
        """Return the methods that exist, each with the hash of its code."""
        methods = []
        for name in names:
            try:
                methods.append((name, source_hash(problem, name)))
            except LowtideError as error:
                index = self.data["runs"][place[1]]["methods"].index(name)
                self.wrong((*place, "methods", index), str(error).removeprefix("method: "))
        return methods

    def grid(
        self, place: Place, value: Any, names: Sequence[str], problem: str | None
    ) -> list[dict[str, Value]]:
        """Return every combination of parameters."""
        from ...solvers.registry import find_method

        if not isinstance(value, dict):
            self.wrong(place, f"found {_shown(value)}, expected a table")
            return [{}]
        axes = []
        for key, item in value.items():
            strangers = []
            for name in names:
                method = find_method(str(problem), name)
                own = [option.name for option in method.options]
                if key not in own and method.engine is None:
                    self.wrong((*place, key), f"found no such option of method {name}, {nearest(key, own)}")
                    strangers.append(name)
            if strangers:
                continue
            items = item if isinstance(item, list) else [item]
            expected = "a number, a string or a truth value"
            good = self.values((*place, key), items, lambda v: type(v) in (bool, int, float, str), expected)
            axes.append([(key, choice) for choice in good])
        return [dict(point) for point in itertools.product(*axes)]

    def sources(self, place: Place, value: Any, problem: str) -> list[Source]:
        """Return the instances that can be loaded, each once."""
        named: dict[str, Source] = {}
        for item in self.values(
            place, value, _is_instance, "a string, or a table of spec and name, maybe sha256"
        ):
            where = (*place, value.index(item))
            text, name, hashed = (
                (item, None, None)
                if isinstance(item, str)
                else (item["spec"], item["name"], item.get("sha256"))
            )
            try:
                sources = expand(text, self.path.parent)
            except LowtideError as error:
                self.wrong(where, str(error))
                continue
            if name is not None and len(sources) > 1:
                self.wrong(where, f"found {len(sources)} instances named {name!r}, expected one")
                continue
            for source in sources if name is None else [sources[0]._replace(label=name)]:
                sha256 = self.sha256(problem, source, where)
                if hashed not in (None, sha256) and sha256 is not None:
                    self.wrong(where, f"found sha256 {sha256}, expected {hashed}: the instance has changed")
                elif sha256 is not None:
                    named[source.spec] = source
        return list(named.values())

    def sha256(self, problem: str, source: Source, place: Place) -> str | None:
        """Return the hash of an instance of a problem; note why it cannot be loaded."""
        key = (problem, source.spec)
        if key not in self.known:
            self.progress(f"loading {source.label}")
            try:
                self.known[key] = load_question(problem, source.spec).instance.sha256
            except Exception as error:  # a defect of a reader is one line of many
                self.known[key] = None
                words = str(error) if isinstance(error, LowtideError) else f"{type(error).__name__}: {error}"
                self.loading[key] = words
        if self.known[key] is None:
            self.wrong(place, self.loading[key])
        return self.known[key]


def _is_instance(value: object) -> bool:
    """Return whether a value names an instance: a specification, or one with its name and maybe its hash."""
    if not isinstance(value, dict):
        return is_text(value)
    return value.keys() - {"sha256"} == {"spec", "name"} and all(is_text(x) and x for x in value.values())


def _called(place: Place) -> str:
    """Return how a message calls a place."""
    words = [f"{step + 1}" if isinstance(step, int) else step for step in place]
    text = ""
    for word, step in zip(words, place, strict=True):
        text += f" {word}" if isinstance(step, int) else f"{', ' if text else ''}{word}"
    return f"{text}: " if text else ""


def _shown(value: Any) -> str:
    return show(value) if isinstance(value, (str, int, float, bool, list, dict)) else str(value)
