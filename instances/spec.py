"""Instance specifications: ``scheme:name?key=value&key=value``, or a path."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ..models.checks import check_type
from ..models.errors import InstanceError
from ..models.problems import PROBLEMS
from .formats import BUFFER_SCHEMES, SCHEMES
from .formats.strict_json import nearest


@dataclass(frozen=True, slots=True)
class Spec:
    """What a specification says: where the graph comes from, its name there, and options as text."""

    scheme: str
    name: str
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        prefix = "" if self.scheme == "path" else f"{self.scheme}:"
        query = "&".join(f"{key}={value}" for key, value in self.options.items())
        return f"{prefix}{self.name}" + (f"?{query}" if query else "")


def parse_spec(spec: str | os.PathLike[str]) -> Spec:
    """Return the scheme, name and options of a specification.

    ``,`` serves as ``&`` between options. An existing file is taken as such, whatever its name has in
    it; so is every path object.

    Raises
    ------
    InstanceError
        If the scheme is unknown, the name empty, or an option not ``key=value`` or repeated.

    Examples
    --------
    >>> from lowtide.instances import parse_spec
    >>> parse_spec("gen:randwire?n=32,seed=1")
    Spec(scheme='gen', name='randwire', options={'n': '32', 'seed': '1'})
    """
    check_type(spec, (str, os.PathLike), "instance", "a specification or a path")
    if not isinstance(spec, str):
        return Spec("path", os.fsdecode(spec))
    if os.path.exists(spec):
        return Spec("path", spec)
    head, _, query = spec.partition("?")
    if match := re.search(r"&\w+=", head):
        corrected = f"{head[: match.start()]}?{spec[match.start() + 1 :]}"
        raise InstanceError(f"instance {spec!r}: found no ? before the first option, expected {corrected!r}")
    scheme, name = "path", head
    # One letter before the colon is a drive, not a scheme.
    if match := re.match(r"([A-Za-z][\w+-]+):", head):
        scheme, name = match[1], head[match.end() :]
        known = {**SCHEMES, **BUFFER_SCHEMES}
        if scheme not in known:
            raise InstanceError(
                f"instance {spec!r}: found unknown scheme {scheme!r}, {nearest(scheme, known)}"
            )
    if not name:
        raise InstanceError(f"instance {spec!r}: found no name, expected one")
    options: dict[str, str] = {}
    for part in re.split("[&,]", query) if query else ():
        key, equals, value = part.partition("=")
        if not key or not equals or not value:
            raise InstanceError(f"instance {spec!r}: found option {part!r}, expected KEY=VALUE")
        if key in options:
            raise InstanceError(f"instance {spec!r}: found option {key!r} twice, expected it once")
        options[key] = value
    return Spec(scheme, name, options)


def relative_spec(spec: str, folder: str) -> str:
    """Return the specification with its relative paths counted from another folder.

    These are the path of a file, if it is one, and those of machines' files (``machine=FILE.toml``,
    ``durations=FILE.toml``).
    """

    def relative(path: str) -> str:
        return os.path.relpath(os.path.realpath(path), os.path.realpath(folder or "."))

    return _with_paths(spec, relative)


def resolved_spec(spec: str, folder: str) -> str:
    """Undo `relative_spec`: return the specification as it reads from the working folder."""
    return _with_paths(spec, lambda path: os.path.join(folder, path))


def _with_paths(spec: str, changed: Callable[[str], str]) -> str:
    """Return the specification with its relative paths changed; the same text if it has none."""
    try:
        parsed = parse_spec(spec)
    except InstanceError:
        return spec
    is_file = parsed.scheme == "path" or {**SCHEMES, **BUFFER_SCHEMES}[parsed.scheme].is_file
    name = changed(parsed.name) if is_file and not os.path.isabs(parsed.name) else parsed.name
    options = dict(parsed.options)
    parameters = [pair for problem in PROBLEMS.values() for pair in problem.parameters.items()]
    names = {"durations", *(key for key, parameter in parameters if parameter.kind == "machine")}
    for key in names & {*options}:
        if options[key].endswith((".toml", ".json")) and not os.path.isabs(options[key]):
            options[key] = changed(options[key])
    if (name, options) == (parsed.name, parsed.options):
        return spec
    return str(Spec(parsed.scheme, name, options))
