"""The examples in the docstrings of the package are true."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import lowtide

ROOT = Path(lowtide.__file__).parent

FOLDERS = ("cli", "formulations", "instances", "models", "results", "solvers")

MODULES = sorted(
    ".".join(("lowtide", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if ">>> " in (text := path.read_text()) and not re.search(">>> import (torch|jax)", text)
)
"""Modules with examples that need no torch or jax; their tests run the others."""


@pytest.mark.slow  # ten seconds in all, with what they import
@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name: str) -> None:
    module = import_module(name)
    found = [test for test in doctest.DocTestFinder().find(module, name) if test.examples]
    assert found
    for example in found:
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        said: list[str] = []
        runner.run(example, out=said.append)
        assert not runner.failures, "".join(said)
