"""Pages that need torch do what they say; that of executorch is run by the tests of its adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Reader, needs_torch

pytest.importorskip("torch", reason="the package torch is not installed")


NEED_TORCH = [page for page in sorted(PAGES.rglob("*.md")) if needs_torch(page) and page.stem != "executorch"]


@pytest.mark.parametrize("page", NEED_TORCH, ids=str)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    Reader(page, tmp_path).follow()
