"""Pages and examples that need jax do what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Reader, needs_jax

pytest.importorskip("jax", reason="the package jax is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in sorted(PAGES.rglob("*.md")) if needs_jax(page)], ids=str)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    Reader(page, tmp_path).follow()


@pytest.mark.parametrize("name", ["instances.xla_import.jaxpr", "results.adapters.jax_names"])
def test_examples_are_true(name: str) -> None:
    failed, tried = doctest.testmod(import_module(f"lowtide.{name}"), optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 0) == (0, True)
