"""What docstrings and comments cite of `docs/maths.md` exists there."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "driftline").rglob("*.py"))
MATHS = (ROOT / "docs" / "maths.md").read_text(encoding="utf-8")

NUMBER = r"\(?\d+\)?"
NUMBERS = rf"{NUMBER}(?:\s*(?:,|,?\s*and|to|-|–)\s*{NUMBER})*"
EQUATIONS = re.compile(rf"\b(?:eqs?\.|equations?)\s*({NUMBERS})(?!\.?\d)")
# A number with a dot, such as 2.10, is a section of somebody's book.
SECTIONS = re.compile(rf"\bsections?\s+({NUMBERS})(?!\.?\d)")


def numbers(cited: str) -> set[int]:
    """The numbers in a list such as "(3), 5 and 7-9"."""
    found = {int(number) for number in re.findall(r"\d+", cited)}
    for first, last in re.findall(r"(\d+)\)?\s*(?:to|-|–)\s*\(?(\d+)", cited):
        found.update(range(int(first), int(last) + 1))
    return found


def cited(pattern: re.Pattern[str], text: str) -> set[int]:
    """All numbers that a text cites, also across line breaks."""
    lists = pattern.findall(" ".join(text.split()))
    return set().union(*map(numbers, lists))


def prose(source: str) -> str:
    """The docstrings and comments of a module."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    docstrings = [ast.get_docstring(node) or "" for node in nodes]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join([*docstrings, *comments])


def tags(text: str) -> list[int]:
    return [int(tag) for tag in re.findall(r"\\tag\{(\d+)\}", text)]


def sections(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"^## (\d+)\. ", text, flags=re.MULTILINE)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_module_cites_exists(path):
    text = prose(path.read_text(encoding="utf-8"))
    assert cited(EQUATIONS, text) <= set(tags(MATHS))
    assert cited(SECTIONS, text) <= set(sections(MATHS))


def test_what_the_page_cites_of_itself_exists():
    assert cited(EQUATIONS, MATHS) <= set(tags(MATHS))
    assert cited(SECTIONS, MATHS) <= set(sections(MATHS))


def test_tags_and_sections_are_unique_and_consecutive():
    assert tags(MATHS) == list(range(1, len(tags(MATHS)) + 1))
    assert sections(MATHS) == list(range(1, len(sections(MATHS)) + 1))
    assert tags(MATHS)
    assert sections(MATHS)


@pytest.mark.parametrize(
    ("text", "equations"),
    [
        ("See `docs/maths.md`, eq. (12).", {12}),
        ("by two solves (eqs. 12-14).", {12, 13, 14}),
        ("eqs. (9) and (11)", {9, 11}),
        ("eqs. (2), (5), and (7) to (9)", {2, 5, 7, 8, 9}),
        ("one more solve (eq.\n    11): nothing", {11}),
        ("equation (3), and 4 more things", {3, 4}),  # better one too many than one too few
        ("the sequence. 5 of seq. 6", set()),
    ],
)
def test_the_finder_reads_lists_and_ranges_of_equations(text, equations):
    assert cited(EQUATIONS, text) == equations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(`docs/maths.md`, section 4)", {4}),
        ("sections 3 and 5.", {3, 5}),
        ("Durbin & Koopman (2012, section 2.10)", set()),
        ("the intersection 3", set()),
    ],
)
def test_the_finder_reads_sections(text, expected):
    assert cited(SECTIONS, text) == expected


def test_the_finder_sees_docstrings_and_comments_of_the_package():
    text = prose((ROOT / "src" / "driftline" / "linalg" / "tridiagonal.py").read_text(encoding="utf-8"))
    assert {15, 16, 17, 18} <= cited(EQUATIONS, text)  # 16 stands in a comment, the others in docstrings
    assert 4 in cited(SECTIONS, text)


def test_the_finder_does_not_read_code():
    assert cited(EQUATIONS, prose('"""One."""\nname = "eq. (99)"\n')) == set()
