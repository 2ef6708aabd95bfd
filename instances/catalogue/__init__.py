"""The bundled instances: made by this project, named, hashed, with the best known bounds.

``catalogue.json`` lists them. An entry has either a ``spec`` (a generator) or a ``file`` in this
folder (native format). ``peak`` holds what is known for the question `peak`, in bytes; null where
nothing was proved yet.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ...models.errors import InstanceError
from ...models.graph import Graph
from ..strict_json import nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The best known bounds of a question, and where they come from; None where nothing is known."""

    optimum: int | None = None
    lower: int | None = None
    upper: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A bundled instance.

    Parameters
    ----------
    name, description
        As ``lowtide list instances`` shows them.
    sha256
        Of the graph; the loader checks it.
    spec, file
        One of them: the generator's specification, or the native file in this folder.
    peak
        What is known for the question `peak`.
    """

    name: str
    description: str
    sha256: str
    spec: str | None = None
    file: str | None = None
    peak: Bounds = Bounds()


@cache
def entries() -> dict[str, Entry]:
    """Return the bundled instances by name."""
    text = resources.files(__package__).joinpath("catalogue.json").read_text("utf-8")
    rows = json.loads(text)["instances"]
    return {row["name"]: Entry(**{**row, "peak": Bounds(**row["peak"])}) for row in rows}


def load_entry(name: str) -> Graph:
    """Return a bundled graph.

    Raises
    ------
    InstanceError
        If there is none of that name, or its hash is not the one that the catalogue states.
    """
    entry = entries().get(name)
    if entry is None:
        raise InstanceError(
            f"instance 'catalogue:{name}': found unknown name {name!r}, {nearest(name, entries())}"
        )
    graph = _load(entry)
    if graph.sha256 != entry.sha256:
        raise InstanceError(
            f"instance 'catalogue:{name}': found sha256 {graph.sha256}, expected {entry.sha256}"
        )
    return graph


def _load(entry: Entry) -> Graph:
    from ..load import load
    from ..native import read_graph

    if entry.spec is not None:
        return load(entry.spec)
    with resources.as_file(resources.files(__package__).joinpath(str(entry.file))) as path:
        return read_graph(path)
