"""The sets of the library: frozen files ``VERSION/PROBLEM-CLASS.json`` beside this module.

::

    {"format": "lowtide/set", "version": 1, "name": "2026.1/peak/hard", "problem", "rule", "created",
     "entries": [{"id", "spec", "sha256", "question": {...}, "features": {...}, "origin", "licence"}]}

``sha256`` is the hash of the question; ``lowtide audit`` loads each, and a hash that has changed is an error.
A set never changes: corrections make another version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...instances.formats.strict_json import (
    TEXT,
    Field,
    check_header,
    check_object,
    check_rows,
    dump_json,
    is_list,
    is_object,
    is_size,
    is_text,
    nearest,
    read_json,
    required,
)
from ...models.errors import InstanceError, UsageError
from ...models.problems import PROBLEMS

FORMAT = "lowtide/set"
FOLDER = Path(__file__).parent
"""The folder of the versions: each is a folder of sets."""
VERSION = "2026.1"
"""The newest version; a name of a set without a version is of it."""

_HASH = re.compile("[0-9a-f]{64}")
_ENTRY = {
    "id": required(TEXT),
    "spec": required(TEXT),
    "sha256": required(
        Field(lambda v: is_text(v) and _HASH.fullmatch(v) is not None, "64 hexadecimal digits")
    ),
    "question": required(Field(is_object, "an object")),
    "features": required(Field(is_object, "an object")),
    "origin": required(Field(lambda v: v in ("real", "generated"), '"real" or "generated"')),
    "licence": required(TEXT),
}
_SET = {
    "format": required(TEXT),
    "version": required(Field(is_size, "an integer")),
    "name": required(TEXT),
    "problem": required(TEXT),
    "rule": required(TEXT),
    "created": required(TEXT),
    "entries": required(Field(is_list, "a list of entries")),
}
_FEATURE = Field(lambda v: v is None or is_size(v), "an integer >= 0 or null")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryEntry:
    """A question of a set.

    Attributes
    ----------
    id
        Unique in the version, such as ``peak-hard-001``.
    spec, sha256
        What `lowtide.results.sweeps.job.load_question` takes, and the hash of the question.
    question
        The options of `spec` that are the problem's own.
    features
        `lowtide.results.library.features`, when the set was made.
    origin
        "real" or "generated".
    licence
        SPDX identifier of the instance.
    """

    id: str
    spec: str
    sha256: str
    question: Mapping[str, str]
    features: Mapping[str, int | None]
    origin: str
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySet:
    """A set: its name ``VERSION/PROBLEM/CLASS``, the rule of its selection, the day, its questions."""

    name: str
    problem: str
    rule: str
    created: str
    entries: tuple[LibraryEntry, ...]


def read_set(path: Path) -> LibrarySet:
    """Return the set of a file.

    Raises
    ------
    InstanceError
        If the file is not exactly of the format, or an identifier or a question stands there twice.
    """
    where = str(path)
    data = read_json(path)
    check_header(data, "set", where)
    check_object(data, _SET, where)
    check_rows(data["entries"], _ENTRY, where, "entry", key="id")
    if data["problem"] not in PROBLEMS:
        raise InstanceError(
            f"{where}: problem: found {data['problem']!r}, {nearest(data['problem'], PROBLEMS)}"
        )
    for key in ("id", "sha256"):
        seen = set()
        for row in data["entries"]:
            if row[key] in seen:
                raise InstanceError(f"{where}: found {key} {row[key]!r} twice, expected it once")
            seen.add(row[key])
    for row in data["entries"]:
        check_object(
            row["features"], dict.fromkeys(row["features"], _FEATURE), f"{where}: {row['id']}, features"
        )
        check_object(row["question"], dict.fromkeys(row["question"], TEXT), f"{where}: {row['id']}, question")
    entries = tuple(LibraryEntry(**row) for row in data["entries"])
    names = ("name", "problem", "rule", "created")
    return LibrarySet(**{key: data[key] for key in names}, entries=entries)


def set_text(one_set: LibrarySet) -> bytes:
    """Return the file of a set; `read_set` is the inverse."""
    data: dict[str, Any] = {"format": FORMAT, "version": 1}
    data |= {key: getattr(one_set, key) for key in ("name", "problem", "rule", "created")}
    fields = tuple(_ENTRY)
    data["entries"] = [{key: getattr(entry, key) for key in fields} for entry in one_set.entries]
    return dump_json(data, ("entries",))


def sets(version: str = VERSION) -> Iterator[LibrarySet]:
    """Yield the sets of a version, by the names of their files."""
    yield from map(read_set, sorted((FOLDER / version).glob("*.json")))


def find_set(name: str) -> LibrarySet:
    """Return a set by its name, ``peak/hard`` or ``2026.1/peak/hard``.

    Raises
    ------
    UsageError
        If there is none of that name.

    Examples
    --------
    >>> find_set("peak/hard").name
    '2026.1/peak/hard'
    """
    known = [f"{path.parent.name}/{'/'.join(path.stem.rsplit('-', 1))}" for path in FOLDER.glob("*/*.json")]
    full = name if name.count("/") == 2 else f"{VERSION}/{name}"
    if full not in known:
        raise UsageError(
            f"library: found no set {name!r}, {nearest(full, sorted(known))}; lowtide library list"
        )
    version, problem, level = full.split("/")
    return read_set(FOLDER / version / f"{problem}-{level}.json")


def find_entry(name: str) -> tuple[LibrarySet, LibraryEntry]:
    """Return a question of the newest version by its identifier, and its set.

    Raises
    ------
    UsageError
        If there is none of that identifier.
    """
    known = {entry.id: (one_set, entry) for one_set in sets() for entry in one_set.entries}
    if name not in known:
        raise UsageError(f"library: found no question {name!r}, {nearest(name, known)}; lowtide library list")
    return known[name]
