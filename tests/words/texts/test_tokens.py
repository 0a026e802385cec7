import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.words import Tokeniser
from driftline.words.texts.tokens import MARK

CASES = {
    "Don't stop": ["don't", "stop"],
    "don’t ‘stop’ 'now'": ["don't", "stop", "now"],
    "the dogs' 'tis rock 'n' roll": ["the", "dogs", "tis", "rock", "n", "roll"],
    "don''t": ["don", "t"],
    "well-known, e.g. 3.14!": ["well", "known", "e", "g", "3", "14"],
    "snake_case #tag @name": ["snake", "case", "tag", "name"],
    "ÉCOLE e\u0301cole": ["école", "école"],
    "J\u030c": ["\u01f0"],  # composed only after lowering
    "İstanbul": ["i\u0307stanbul"],
    "ΟΔΟΣ ΣΑΣ": ["οδος", "σας"],
    "soft\u00adhyphen": ["softhyphen"],
    "zero\u200bwidth": ["zero", "width"],
    "हिन्दी भाषा": ["हिन्दी", "भाषा"],
    "\u1112\u1161\u11ab": ["\ud55c"],
    "a\ud800b": ["a", "b"],
    "I ❤\ufe0f u, #\ufe0f\u20e3 1\ufe0f\u20e3": ["i", "u", "1\u20e3"],
    "\u0301a \u0301 \u0301\u0301b": ["a", "b"],
    "a\0b": ["a", "b"],
    "': ...": [],
    "": [],
}


@pytest.mark.parametrize("text", CASES)
def test_a_text_is_cut_into_words(text):
    assert Tokeniser()(text) == CASES[text]


def test_case_can_be_kept():
    assert Tokeniser(lower=False)("Don't Été") == ["Don't", "Été"]
    assert Tokeniser(lower=False)("Don't") == ["Don't"]


def oracle(text):
    """The definition, with a regular expression, one character class at a time."""
    text = unicodedata.normalize("NFC", text.lower())
    text = re.sub("[’ʼ＇]", "'", text)
    kept = [" "]
    for character in text:
        category = unicodedata.category(character)
        if (category == "Cf" and character != "\u200b") or character in "\ufe0f\U000e0100":
            continue
        belongs = category[0] in "LN" or character == "'" or (category[0] == "M" and kept[-1] != " ")
        kept.append(character if belongs else " ")
    return re.findall(r"[^ ']+(?:'[^ ']+)*", "".join(kept))


@given(
    st.text(
        st.sampled_from(
            "aB'’ -é\u0301İΣσ\u00ad\u200bשंक한3_\0\n\u1112\u1161\U0001d400\U000e0100😀\ufe0f\u20e3"
        )
    )
)
def test_every_text_is_cut_as_defined(text):
    assert Tokeniser()(text) == oracle(text)


@given(st.lists(st.text(st.sampled_from("aB' é\0\u0301"))))
def test_texts_cut_together_are_cut_as_alone(texts):
    together = Tokeniser().cut(texts)
    alone = [word for text in texts for word in (*Tokeniser()(text), MARK)]
    assert together == (alone if texts else [MARK])
