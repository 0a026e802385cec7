"""Formulas of several lines keep their numbers: Sphinx would put them into a `split`, which has none."""

from docutils import nodes


def unwrap(_app, doctree):
    """Delimit such formulas here, so that Sphinx leaves them alone."""
    for formula in doctree.findall(nodes.math_block):
        text = formula.astext()
        if r"\tag" in text and r"\\" in text:
            formula["no-wrap"] = True
            formula.children = [nodes.Text(rf"\[{text}\]")]


def setup(app):
    """Register with Sphinx."""
    app.connect("doctree-read", unwrap)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
