import sys

import pytest

from driftline import words
from driftline.words.texts.named_tokeniser import ImportedTokeniser, _found

MODULE = """\
import threading

class Cutter:
    def __init__(self):
        self.lock = threading.Lock()  # cannot be sent to another process

    def letters(self, text):
        return [letter for letter in text if letter != " "]

letters = Cutter().letters
one = str
none = lambda text: [None]
nothing = lambda text: None
"""
TEXTS = [(1850, "ab cd"), (1851, "ab")]


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    (tmp_path / "cutter_of_tests.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("cutter_of_tests", None)
    _found.cache_clear()


@pytest.mark.parametrize("processes", [1, 2])
def test_a_function_is_found_by_its_name_in_every_process(processes):
    counts = words.count(TEXTS, 2, tokenise="cutter_of_tests:letters", processes=processes, buffer=1)
    assert counts.vocabulary == ("a", "b")
    assert counts.tokens.tolist() == [4, 2]
    assert counts.provenance["options"]["tokenise"] == "cutter_of_tests:letters"


@pytest.mark.parametrize(
    ("name", "message"),
    {
        "letters": "name a module and a function in it",
        "not_there_at_all:f": "module not_there_at_all cannot be imported .* install it",
        "cutter_of_tests:gone": "no function gone in the module cutter_of_tests",
        "cutter_of_tests:Cutter.gone": r"no function Cutter\.gone in",
    }.items(),
)
def test_what_is_no_function_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        ImportedTokeniser(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [("one", "'ab', not a list"), ("none", "returned None among"), ("nothing", "None, not a list")],
)
def test_what_is_no_list_of_words_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        ImportedTokeniser(f"cutter_of_tests:{name}")("ab")
