"""How `make docs` builds these pages: Markdown and docstrings in, HTML without a network out."""

import sys
from pathlib import Path

import mechtrace

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "mechtrace"
author = "the mechtrace authors"
version = release = mechtrace.__version__
html_title = f"mechtrace {version}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "from_code",
    "mathml",
]
exclude_patterns = ["_extensions"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"  # pages need no network, not even for formulas

napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False

# Docstrings speak of code as Markdown does, between single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90

html_theme = "furo"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False

#: Words in the types of parameters, such as (length, regimes), are no references.
suppress_warnings = ["ref.python"]
