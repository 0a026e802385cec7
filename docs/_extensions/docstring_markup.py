"""Docstrings are written for a terminal; this turns their code and formulas into what Sphinx reads."""

import re

import driftline
from driftline import words

CODE = re.compile(r"(?<![`:\w])`([^`\n]+(?:\n[^`\n]+)?)`(\w?)")
FORMULA = re.compile(r"\$([^$]+)\$(\w?)")
DISPLAY = re.compile(r"^( *)\$\$(.*?)\$\$(.?)$", re.DOTALL | re.MULTILINE)
LONE_STAR = re.compile(r"(?<![\w*])(\*{1,2})(?=\w)(?!\w[^*\n]*\w\*|\w\*)")


PAGES = {
    "docs/maths.md": ":doc:`the mathematics </maths>`",
    "docs/words.md": ":doc:`the word model </words>`",
}
MARKED = re.compile(r"(`[^`]*`|\$\$.*?\$\$|\$[^$]*\$)", re.DOTALL)
DRAWING = re.compile(r"(?:^ .*\n)*^ .*⎡.*\n(?:^ .*\n)*", re.MULTILINE)  # of a matrix


def public_names() -> dict[str, str]:
    """Where names that docstrings mention are documented."""
    names = {name: f"driftline.{name}" for name in driftline.__all__ if name != "__version__"}
    names |= {f"dl.{name}": place for name, place in names.items()}
    in_words = {name: f"driftline.words.{name}" for name in words.__all__}
    names |= {f"words.{name}": place for name, place in in_words.items()}
    names |= {f"datasets.{name}": f"driftline.datasets.{name}" for name in ("nile", "coal")}
    # "fit" and "load" alone may be of either; classes have names of their own.
    return names | {name: place for name, place in in_words.items() if name[0].isupper()}


PUBLIC = public_names()


def as_markup(text: str) -> str:
    """A docstring in reStructuredText."""
    text = "".join(part if i % 2 else _escaped(part) for i, part in enumerate(MARKED.split(text)))
    text = DRAWING.sub(lambda found: f".. code-block:: text\n\n{found[0]}", text)
    text = DISPLAY.sub(_display, text)
    text = CODE.sub(_code, text)
    return FORMULA.sub(lambda found: f":math:`{found[1].strip()}`{_apart(found[2])}", text)


def _escaped(text):
    return LONE_STAR.sub(lambda found: "\\*" * len(found[1]), text).replace("|", "\\|")


def _display(found):
    indent = found[1]
    formula = "\n".join(f"{indent}   {line.strip()}" for line in found[2].strip().splitlines())
    return f"\n{indent}.. math::\n\n{formula}\n"


def _code(found):
    code = " ".join(found[1].split())
    place = PUBLIC.get(code.removesuffix("()"))
    shown = f":py:obj:`{code} <{place}>`" if place else f"``{code}``"
    return PAGES.get(code, shown) + _apart(found[2])


def _apart(letter):
    return f"\\ {letter}" if letter else ""


def process(_app, _what, _name, _object, _options, lines):
    """Rewrite a docstring in place, ahead of napoleon."""
    lines[:] = as_markup("\n".join(lines)).split("\n")


def shorten(_app, _what, _name, _object, _options, signature, result):
    """Name the type of arrays as users do, not by the module that happens to hold it."""
    return tuple(text and text.replace("jaxlib._jax.Array", "Array") for text in (signature, result))


def skip(_app, _what, _name, member, _default, _options):
    """Leave out the fields of named tuples: their class describes them."""
    return True if type(member).__name__ == "_tuplegetter" else None


def setup(app):
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", process, priority=400)
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
