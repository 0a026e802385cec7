"""The README: its Python runs, its table is what was measured, and its links lead somewhere."""

import re

from headline import table, written
from support.pages import ROOT, run

README = ROOT / "README.md"


def test_the_python_of_the_readme_runs_and_shows_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run(README)
    assert names["post"].converged
    assert names["post"].parameters.keys() == {"prior.scale"}
    assert set(names["changed"].words[:2]) == set(names["made_up"].moved)


def test_the_table_of_the_readme_is_made_from_the_stored_results():
    text = README.read_text(encoding="utf-8")
    assert table() in text
    assert written(text) == text, "run python docs/_extensions/headline.py"


def test_the_readme_has_the_two_commands_that_show_everything():
    text = README.read_text(encoding="utf-8")
    assert re.search(r"^make demo +#", text, flags=re.MULTILINE)
    assert re.search(r"^make test +#", text, flags=re.MULTILINE)


def test_files_that_the_readme_links_to_exist():
    links = re.findall(r"\]\((?!http)([^)]+)\)", README.read_text(encoding="utf-8"))
    assert links
    for link in links:
        assert (README.parent / link).exists(), link
