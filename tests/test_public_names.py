"""What `lowtide` exports is documented, and the examples in its docstrings are true."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

import lowtide as lt

OBJECTS: dict[str, Any] = {
    name: item
    for name in lt.__all__
    if inspect.isclass(item := getattr(lt, name)) or inspect.isfunction(item)
}


@pytest.mark.parametrize("name", OBJECTS)
def test_examples_in_docstrings_are_true(name: str) -> None:
    item = OBJECTS[name]
    assert item.__doc__
    if ">>> import torch" in item.__doc__:
        pytest.skip("its examples need torch; tests/instances/test_torch_trace.py runs them")
    if ">>> import jax" in item.__doc__:
        pytest.skip("its examples need jax; tests/docs/test_jax_pages.py runs them")
    for example in doctest.DocTestFinder(recurse=True).find(item, name, extraglobs={"lt": lt}):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        said: list[str] = []
        runner.run(example, out=said.append)
        assert not runner.failures, "".join(said)


@pytest.mark.parametrize("name", [name for name in OBJECTS if inspect.isfunction(OBJECTS[name])])
def test_functions_have_an_example_and_say_what_they_take(name: str) -> None:
    doc = inspect.getdoc(OBJECTS[name]) or ""
    assert ">>> " in doc
    for parameter in inspect.signature(OBJECTS[name]).parameters:
        assert parameter in doc
