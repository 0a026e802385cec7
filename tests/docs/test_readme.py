import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_python_of_the_readme_runs_and_shows_what_it_says():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 7
    names = {}
    exec(blocks[0], names)
    assert names["post"].converged
    assert names["paths"].shape == (1000, 112)
    exec(blocks[1], names)
    assert names["post"].converged
    assert names["post"].parameters.keys() == {"prior.scale", "likelihood.concentration"}
    exec(blocks[2], names)
    assert not names["found"].flagged
    assert names["paths"].shape == (200, 112)
    exec(blocks[3], names)
    assert names["exact"].converged, names["exact"].verdict
    exec(blocks[4], names)
    assert names["panel"].converged, names["panel"].message
    exec(blocks[5], names)
    assert names["post"].mean.shape == (50, 2)
    assert names["post"].structure == "block"
    assert names["post"].converged, names["post"].message
    exec(blocks[6], names)
    assert set(names["changed"].words[:2]) == set(names["made_up"].moved)


def test_files_that_the_readme_links_to_exist():
    links = re.findall(r"\]\((?!http)([^)]+)\)", README.read_text())
    assert links
    for link in links:
        assert (README.parent / link).exists(), link
