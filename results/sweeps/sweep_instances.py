"""The instances that one text of an experiment stands for: globs, data files, names of a scheme."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from pathlib import Path
from typing import NamedTuple

from ...models.errors import InstanceError
from .job import data_folder


class Source(NamedTuple):
    """An instance: what people call it, and what `job.load_question` is given."""

    label: str
    spec: str


def expand(text: str, folder: Path) -> list[Source]:
    """Return the instances that a text stands for, sorted.

    ``*``, ``**`` and ``[...]`` are globs in file names (relative ones count from `folder`), in the file
    names of ``data:`` and in the names of ``catalogue:`` and ``onnx:``, where ``*`` stops at ``/`` too. What
    follows ``?`` are options.

    Raises
    ------
    InstanceError
        If a glob matches nothing, or there is no data folder.

    Examples
    --------
    >>> expand("catalogue:randwire-*-train", Path("."))[0].spec
    'catalogue:randwire-20-train'
    """
    match = re.match(r"([A-Za-z][\w+-]+):", text)
    scheme, rest = (match[1], text[match.end() :]) if match else ("path", text)
    pattern, mark, options = rest.partition("?")
    query = mark + options
    is_glob = re.search(r"[*\[]", pattern) is not None
    if scheme == "data":
        return [Source(f"data:{file}{query}", f"data:{file}{query}") for file in _data_files(pattern, text)]
    if scheme in ("path", "native"):
        prefix = "" if scheme == "path" else "native:"
        if not is_glob:
            files = [pattern]
        elif not (files := _files(pattern, folder)):
            raise InstanceError(f"instance {text!r}: found no file in {folder}, expected one that matches")
        return [
            Source(f"{prefix}{file}{query}", f"{prefix}{(folder / file).absolute()}{query}") for file in files
        ]
    if not is_glob:
        return [Source(text, text)]
    names = [f"{scheme}:{name}{query}" for name in _names(scheme) if _matches(name, pattern)]
    if not names:
        raise InstanceError(f"instance {text!r}: found no such name, expected one that matches")
    return [Source(name, name) for name in names]


def _data_files(pattern: str, text: str) -> list[str]:
    folder = data_folder()
    if folder is None:
        raise InstanceError(f"instance {text!r}: found no data folder, expected LOWTIDE_DATA to name it")
    files = _files(pattern, folder)
    if not files:
        raise InstanceError(f"instance {text!r}: found no such file in {folder}, expected one")
    return files


def _files(pattern: str, folder: Path) -> list[str]:
    found = glob.glob(pattern, root_dir=folder, recursive=True)
    return sorted(Path(file).as_posix() for file in found if os.path.isfile(folder / file))


def _matches(name: str, pattern: str) -> bool:
    """Return whether a name is of a pattern, part by part between ``/``."""
    parts, patterns = name.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatch.fnmatchcase, parts, patterns))


def _names(scheme: str) -> list[str]:
    """Return the names that a scheme has; none if they cannot be listed."""
    if scheme == "catalogue":
        from ...instances.catalogue import entries

        return list(entries())
    if scheme == "onnx":
        from ...instances.onnx_import import light_models

        return sorted(light_models())
    return []
