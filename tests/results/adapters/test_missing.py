"""What an adapter says where its framework is not installed."""

from __future__ import annotations

import sys

import pytest

from lowtide import BackendUnavailable
from lowtide.adapters import executorch


def test_executorch_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "executorch.exir", None)
    with pytest.raises(BackendUnavailable, match=r"^executorch: .* pip install 'lowtide\[executorch\]'$"):
        executorch.algorithm()
