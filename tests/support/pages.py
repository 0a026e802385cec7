"""Code in the documentation: blocks of Python, and the output that a page shows below them."""

import contextlib
import io
import math
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Snippet(NamedTuple):
    """Code to run, the line at which it begins, and what the page says that it prints."""

    line: int
    code: str
    shown: str | None


def snippets(page: str) -> list[Snippet]:
    """All Python of a page; a block of text right below is its output."""
    found, end = [], None
    for block in BLOCK.finditer(page):
        indent, language, content = block.groups()
        content = re.sub(f"^{indent}", "", content, flags=re.MULTILINE)
        follows = end is not None and not page[end : block.start()].strip()
        if language == "python":
            found.append(Snippet(page.count("\n", 0, block.start()) + 2, content, None))
            end = block.end()
        elif language == "text" and follows:
            found[-1] = found[-1]._replace(shown=content)
            end = None
    return found


def run(path: Path) -> dict:
    """Run a page from its first line to its last, and hold its output against what it shows."""
    names = {"__name__": "page"}
    for line, code, shown in snippets(path.read_text(encoding="utf-8")):
        place = f"{path.relative_to(ROOT)}:{line}"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (line - 1) + code, str(path), "exec"), names)
        if shown is not None:
            assert same(printed.getvalue(), shown), f"{place} prints\n{printed.getvalue()}\nand not\n{shown}"
    return names


def same(printed: str, shown: str) -> bool:
    """Whether two texts agree, but for the last digits of numbers and space at the ends of lines."""
    texts = ["\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (printed, shown)]
    words = [re.sub(r"[ ]+", " ", NUMBER.sub("#", text)) for text in texts]
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in texts]
    near = (math.isclose(a, b, rel_tol=0.02, abs_tol=0.02) for a, b in zip(*numbers, strict=False))
    return words[0] == words[1] and all(near)


def run_as_module(page: str, name: str) -> ModuleType:
    """Run all Python of a page as a module of its own, where files find the classes that it defines."""
    module = sys.modules[name] = ModuleType(name)
    for snippet in snippets((ROOT / "docs" / page).read_text(encoding="utf-8")):
        exec(snippet.code, vars(module))
    return module
