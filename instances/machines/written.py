"""Machines written as TOML files, which `load_machine` reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ...models.files import write_packed
from ...models.machine import Machine


def write_machine(machine: Machine, path: str | os.PathLike[str], description: str = "") -> None:
    """Write a machine as a TOML file, whole or not at all.

    Raises
    ------
    UsageError
        If the path cannot be written.
    """
    data = {"description": description, **machine.to_dict()} if description else machine.to_dict()
    if machine.compute is not None:
        data["compute"] = machine.compute.to_dict()
    plain = {key: value for key, value in data.items() if not isinstance(value, list | dict)}
    lines = _pairs(plain)
    for key, value in data.items():
        for row in value if isinstance(value, list) else []:
            lines += ["", f"[[{key}]]", *_pairs(row)]
    for key, value in data.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", *_pairs(value)]
    write_packed(path, ("\n".join(lines) + "\n").encode())


def _pairs(table: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table; what is None is left out."""
    return [f"{key} = {_text(value)}" for key, value in table.items() if value is not None]


def _text(value: Any) -> str:
    """Return a value in one line; TOML writes strings, integers and truth values as JSON does."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{json.dumps(k)} = {_text(x)}" for k, x in value.items() if x is not None)
        return f"{{ {pairs} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return json.dumps(value, ensure_ascii=False)
