"""Checked over all tests of the solvers: kernels are called with the types that they are annotated with."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def kernels_are_called_as_annotated() -> Iterator[None]:
    """Fail if a call compiled a kernel anew, for other types: it would while a limit runs."""
    yield
    if "lowtide.solvers.engines.kernels" not in sys.modules:
        return
    from lowtide.solvers.engines.kernels import kernels_of, signature_of

    loaded = [name for name in sys.modules if name.startswith("lowtide.solvers.")]
    for kernel in (kernel for name in loaded for kernel in kernels_of(name)):
        others = set(kernel.overloads) - {signature_of(kernel.py_func)}
        assert not others, f"{kernel}: called with {others}"
