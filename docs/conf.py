from plackett import __version__

project = "plackett"
author = "the plackett developers"
release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinxcontrib.bibtex",
]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
bibtex_bibfiles = ["references.bib"]
html_theme = "furo"
html_title = "plackett"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
# Examples in docstrings run in their modules (pytest --doctest-modules); here only those of pages.
doctest_test_doctest_blocks = ""
doctest_global_setup = """\
import numpy as np
import plackett as pk
from importlib.util import find_spec
"""
nitpicky = False
