"""Sphinx configuration: `make docs` builds the site into docs/_build/html."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from lowtide import __version__  # noqa: E402

project = "lowtide"
author = "the lowtide authors"
project_copyright = "the lowtide authors"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",
    "directives",
    "scoreboard",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_block", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_timeout = 120
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_merge_streams = True
intersphinx_mapping: dict[str, tuple[str, None]] = {}

autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = "lowtide"
html_static_path = ["static"]
html_css_files = ["wide_tables.css"]
