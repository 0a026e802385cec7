"""Data flows one way: no folder of the package needs one that needs it."""

import ast
from collections import defaultdict
from pathlib import Path

import driftline

ROOT = Path(driftline.__file__).parent
FACADES = {"driftline", "driftline.words", "driftline.models", "driftline.families", "driftline.cli.words"}
# Modules that a station finds in a folder of its own: they belong to it.
FOUND = {"driftline.words.texts.formats": "driftline.words.texts"}


def modules():
    for path in ROOT.rglob("*.py"):
        parts = ("driftline", *path.relative_to(ROOT).with_suffix("").parts)
        yield ".".join(part for part in parts if part != "__init__"), path


def imported(path, known):
    """Modules that a file imports when it is run, wherever the import stands in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.module or node in for_types:
            continue
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            found = full if full in known else node.module
            if found.startswith("driftline"):
                yield found


def folder(module):
    """The folder that a module is in; files at the root, and packages that only name others, are alone."""
    if module in FACADES:
        return module
    home = module.rpartition(".")[0]
    return module if home in ("", "driftline") else FOUND.get(home, home)


def test_no_folder_needs_one_that_needs_it():
    known = dict(modules())
    needs = defaultdict(set)
    for module, path in known.items():
        for other in imported(path, known):
            if folder(other) != folder(module) and module not in FACADES:
                needs[folder(module)].add(folder(other))
    cycles = [(one, other) for one in needs for other in needs[one] if one in _reached(other, needs)]
    assert not cycles
    assert len(needs) > 20  # that something was looked at


def _reached(start, needs):
    found, left = set(), [start]
    while left:
        for other in needs.get(left.pop(), ()):
            if other not in found:
                found.add(other)
                left.append(other)
    return found
