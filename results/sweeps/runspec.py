"""One run of an experiment: what is solved, how, within which limits; and the name that follows from it.

The name is the first 16 hexadecimal digits of the SHA-256 of a canonical JSON text that holds the
instance's content (its graph's SHA-256), problem, method, parameters, seed, limits and the code: the
package version and a hash of the sources that can change an answer to the problem
(`lowtide.results.sweeps.used_sources`). So the same name is the same row, wherever the instance file lies,
and a commit that touches none of those sources redoes no run.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..._version import __version__
from ...instances.formats.strict_json import (
    FLAG,
    TEXT,
    Field,
    check_object,
    is_object,
    is_size,
    is_text,
    required,
)
from ...models.errors import InstanceError
from .used_sources import ROOT, all_sources, used_sources, users_sources

Value = bool | int | float | str
"""What a parameter of a method can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use.

    Parameters
    ----------
    seconds
        Of building and solving; None for no limit.
    memory
        Resident bytes of the run's processes together; None for no limit.
    threads
        Of the solver and of every numerical library.
    """

    seconds: float | None = 60
    memory: int | None = None
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run.

    Parameters
    ----------
    instance
        What people call it: the specification, a file by its path from the experiment's file.
    spec
        What `load_question` is given, if that is another text: a file by its absolute path.
    instance_sha256
        Of the graph; the run fails if it loads another one. None if it is not known beforehand.
    problem, method
        CLI names.
    parameters
        Options of the method.
    seed
        For everything random.
    limits
        What it may use.
    grace
        Seconds beyond the time limit before it is asked to stop, and again before it is killed.
    save_plan
        Whether the execution plan is kept.
    version, source_hash
        The code that it is to be run by; see `source_hash`.
    """

    instance: str
    problem: str
    method: str
    spec: str | None = None
    instance_sha256: str | None = None
    parameters: Mapping[str, Value] = field(default_factory=dict)
    seed: int = 0
    limits: Limits = Limits()
    grace: float = 15
    save_plan: bool = False
    version: str = __version__
    source_hash: str

    @property
    def source(self) -> str:
        """What `load_question` is given."""
        return self.instance if self.spec is None else self.spec

    @cached_property
    def name(self) -> str:
        """16 hexadecimal digits that stand for everything that can change the answer."""
        content = {
            "instance": self.instance_sha256 or self.source,
            "problem": self.problem,
            "method": self.method,
            "parameters": option_texts(self.parameters),
            "seed": self.seed,
            "limits": asdict(self.limits),
            "code": [self.version, self.source_hash],
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Return the run as JSON values, its name first."""
        return {"name": self.name, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Any, where: str = "run") -> RunSpec:
        """Return the run of a JSON object; the code defaults to the present one.

        Raises
        ------
        InstanceError
            If a key or a value is wrong, or a name is given that is not the one that follows.
        UsageError
            If there is no such problem or method.
        """
        check_object(data, _RUN, where)
        values = {key: value for key, value in data.items() if key != "name"}
        if "limits" in values:
            check_object(values["limits"], _LIMITS, f"{where}, limits")
            values["limits"] = Limits(**values["limits"])
        if "source_hash" not in values:
            values["source_hash"] = source_hash(data["problem"], data["method"])
        run = cls(**values)
        if data.get("name", run.name) != run.name:
            raise InstanceError(f"{where}, name: found {data['name']!r}, expected {run.name!r}")
        return run


def option_texts(parameters: Mapping[str, Value]) -> dict[str, str]:
    """Return parameters as `solve` takes options: as text, truth values in lower case.

    Examples
    --------
    >>> option_texts({"width": 64, "symmetry": True})
    {'width': '64', 'symmetry': 'true'}
    """
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in parameters.items()}


def source_hash(problem: str, method: str) -> str:
    """Return 16 hexadecimal digits that change with the code that can change a method's answer.

    It covers what the suite's methods for the problem use (`used_sources`) and, for a method of a user's, all
    sources of the suite and the user's (`users_sources`).

    Raises
    ------
    UsageError
        If there is no such problem or method.
    """
    from ...solvers.registry import METHODS, find_method

    chosen = find_method(problem, method)
    if chosen in METHODS:
        return _hash_of(used_sources(problem))
    if isinstance(chosen.run, str):
        module = find_spec(chosen.run.partition(":")[0])
        file = None if module is None else module.origin
    else:
        file = inspect.getsourcefile(inspect.unwrap(chosen.run))
    own = b"".join(path.read_bytes() for path in users_sources(Path(file))) if file is not None else b""
    return hashlib.sha256(_hash_of(all_sources()).encode() + own).hexdigest()[:16]


@cache
def _hash_of(paths: tuple[Path, ...]) -> str:
    """Return 16 hexadecimal digits that change with the names or the content of sources."""
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def is_seconds(value: object) -> bool:
    """Return whether the value is a number of seconds > 0."""
    return type(value) in (int, float) and 0 < value < math.inf  # type: ignore[operator]


def _is_limit(value: object) -> bool:
    return value is None or (type(value) is int and value >= 1)


_LIMITS = {
    "seconds": Field(lambda value: value is None or is_seconds(value), "seconds > 0 or null"),
    "memory": Field(_is_limit, "bytes >= 1 or null"),
    "threads": Field(lambda value: value is not None and _is_limit(value), "an integer >= 1"),
}
_RUN = {
    "name": TEXT,
    "instance": required(TEXT),
    "spec": Field(lambda value: value is None or is_text(value), "a string or null"),
    "instance_sha256": Field(lambda value: value is None or is_text(value), "a string or null"),
    "problem": required(TEXT),
    "method": required(TEXT),
    "parameters": Field(
        lambda value: type(value) is dict and {*map(type, value.values())} <= {bool, int, float, str},
        "an object of numbers, strings and truth values",
    ),
    "seed": Field(is_size, "an integer >= 0"),
    "limits": Field(is_object, "an object"),
    "grace": Field(is_seconds, "seconds > 0"),
    "save_plan": FLAG,
    "version": TEXT,
    "source_hash": TEXT,
}
