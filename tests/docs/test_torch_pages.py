"""Pages that need torch do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Reader, needs_torch

pytest.importorskip("torch", reason="the package torch is not installed")


@pytest.mark.parametrize("page", [page for page in sorted(PAGES.rglob("*.md")) if needs_torch(page)], ids=str)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    Reader(page, tmp_path).follow()
