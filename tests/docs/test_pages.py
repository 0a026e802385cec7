"""Every snippet of Python in the documentation runs, and prints what its page shows."""

import pytest

from support.pages import ROOT, run, same, snippets

# Their classes and commands belong in modules of the package.
OWN_TESTS = {f"docs/develop/adding-a-{what}.md" for what in ("likelihood", "prior", "query", "reader")}
SLOW = {"docs/guide/densities.md", "docs/guide/methods.md", "docs/guide/series.md"}  # many models to compile
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "docs").rglob("*.md")
    if "_build" not in path.parts and snippets(path.read_text(encoding="utf-8"))
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page in SLOW else [])
        for page in PAGES
        if page not in OWN_TESTS
    ],
)
def test_the_python_of_a_page_runs_and_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(ROOT / page)


def test_pages_with_code_are_found():
    assert {"docs/start.md", "docs/guide/series.md", *OWN_TESTS, *SLOW} <= set(PAGES)


def test_output_is_held_against_the_text_below_the_code():
    page = "```python\nprint(1)\n```\n\n```text\n1\n```\n\nProse.\n\n```text\nno output\n```\n"
    assert [snippet.shown for snippet in snippets(page)] == ["1\n"]


@pytest.mark.parametrize(
    ("printed", "shown", "agree"),
    [
        ("a  1.00\n", "a 1.01", True),
        ("a 1.0", "a 2.0", False),
        ("a 1.0", "b 1.0", False),
        ("a 1", "a 1 1", False),
        ("", "a", False),
    ],
)
def test_output_may_differ_in_last_digits_only(printed, shown, agree):
    assert same(printed, shown) == agree
