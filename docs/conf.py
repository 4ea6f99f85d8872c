import hashlib
import os
import re
import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from myst_nb.core import render
from myst_nb.core.utils import coalesce_streams
from numpy.typing import ArrayLike
from sphinx.ext.napoleon.docstring import NumpyDocstring
from sphinx.util.typing import stringify_annotation

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
autodoc_typehints_description_target = "all"
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


def _join_streams(outputs):
    """Join the pieces of a cell's output as they came; myst-nb would begin a line with each piece."""
    joined = []
    for output in outputs:
        last = joined[-1] if joined else {}
        if output["output_type"] == "stream" and last.get("name") == output["name"]:
            last["text"] += output["text"]
        else:
            joined.append(output)
    return coalesce_streams(joined)


render.coalesce_streams = _join_streams

# The docstring of an attribute is a sentence. Napoleon would take what is before a colon as its type.
NumpyDocstring._consume_inline_attribute = lambda self: ("", self._dedent(self._consume_to_end()))


def _math(self, node):
    """Formulas as MathML: browsers draw it without a script from elsewhere."""
    is_block = isinstance(node, nodes.math_block)
    text = node.astext()
    if is_block and "\\\\" in text:
        text = f"\\begin{{aligned}}{text}\\end{{aligned}}"
    self.body.append(convert(text, display="block" if is_block else "inline"))
    raise nodes.SkipNode


_ARRAY_LIKE = stringify_annotation(ArrayLike, "smart")
_ARRAY = re.compile(r"~numpy\.ndarray\[tuple\[~typing\.Any, \.\.\.\], ~numpy\.dtype\[~?([^]]+)\]\]")


def _shorten_types(app, *_):
    """Types as one writes them: ArrayLike, not what it stands for."""
    for types in app.env.current_document.autodoc_annotations.values():
        for name, text in types.items():
            text = _ARRAY.sub(r"NDArray[~\1]", text.replace(_ARRAY_LIKE, "ArrayLike"))
            types[name] = text.replace("fit_context.", "").replace("os.PathLike", "PathLike")


def setup(app):
    """Fill the tables of the reference from the registries of the package."""
    from registry import fill

    app.connect("source-read", fill)
    app.connect("object-description-transform", _shorten_types, priority=400)  # before autodoc takes them
    app.add_html_math_renderer("mathml", (_math, None), (_math, None))


html_math_renderer = "mathml"
