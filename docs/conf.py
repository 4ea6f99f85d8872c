import hashlib
import os
import sys
from pathlib import Path

from plackett import __version__

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

project = "plackett"
author = "the plackett developers"
copyright = "the plackett developers"
release = __version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinxcontrib.bibtex",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "plackett"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
smartquotes = False  # would turn the dashes of options into one

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
bibtex_bibfiles = ["references.bib"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# The chapters of the tutorial are notebooks. They run when the site is built, and again when the code
# of the package has changed: their cache is kept under a digest of it.
_SOURCE = sorted((HERE.parent / "src").rglob("*.py"))
_DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCE)).hexdigest()[:12]
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / f"notebooks-{_DIGEST}")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
nb_output_stderr = "remove"  # progress
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
os.environ.setdefault("COLUMNS", "100")

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
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


def setup(app):
    """Fill the tables of the reference from the registries of the package."""
    from registry import fill

    app.connect("source-read", fill)
