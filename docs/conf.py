"""How the documentation is built: `make docs`, with every warning an error."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent)]  # and the package `benchmarks`

import driftline  # noqa: E402

project = "driftline"
author = "the driftline authors"
project_copyright = "the driftline authors, Apache-2.0"
version = release = driftline.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",  # formulas without a request to anybody
    "benchmark_tables",
    "command_reference",
    "docstring_markup",
    "numbered_formulas",
    "public_homes",
]
exclude_patterns = ["_build", "figures/*.py"]
smartquotes_action = "D"  # dashes, but straight quotes stay as they are

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

add_module_names = False
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

nitpicky = True
# Types of other packages. There is no inventory of theirs here, because a build needs no network.
nitpick_ignore_regex = [
    ("py:.*", r"(?!driftline\b).*"),
    # Parts of public objects that are not for users; signatures name them.
    (
        "py:class",
        r"driftline\..*\.(AbstractBanded|AbstractFamily|BlockMoments|ChainMoments|Draw|Drift|Knots|Learn|LineParser|Negatives|Parts|Paths|Reader|Support)",
    ),
]

html_theme = "furo"
html_title = "driftline"
html_static_path = ["_static"]
html_css_files = ["driftline.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#8ab8ec", "color-brand-content": "#8ab8ec"},
    "footer_icons": [],
}
html_show_sphinx = False
html_copy_source = False
