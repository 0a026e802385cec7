import pytest

from driftline import words
from driftline.words.texts.unspaced_scripts import unspaced_share

TEXTS = {
    "Chinese": "我们在这里。他们不在这里。",
    "Japanese": "これはペンです。それは本です。",
    "Thai": "ฉันรักคุณ เขารักเธอ",
    "Khmer": "ខ្ញុំស្រឡាញ់អ្នក គាត់ទៅផ្ទះ",
    "Burmese": "ကျွန်တော်ချစ်တယ် သူသွားတယ်",
    "Lao": "ຂ້ອຍຮັກເຈົ້າ ລາວໄປ",
}


@pytest.mark.parametrize("script", TEXTS)
def test_a_script_without_spaces_is_noticed(script):
    with pytest.warns(UserWarning, match=rf"100% of the text .*such as {script} .*tokenise='jieba:lcut'"):
        words.count([(1850, TEXTS[script]), (1851, TEXTS[script])], 2)


@pytest.mark.parametrize(
    "text", ["한국어는 띄어쓰기를 한다", "déjà vu", "a long text about 漢字", "слово за словом"]
)
def test_other_texts_pass(text):
    words.count([(1850, text), (1851, text)], 2)


def test_a_function_of_the_user_knows_better():
    counts = words.count([(1850, TEXTS["Chinese"]), (1851, TEXTS["Chinese"])], 8, tokenise=list)
    assert set(counts.vocabulary) == set(TEXTS["Chinese"])


def test_the_share_is_of_letters_as_often_as_they_occur():
    assert unspaced_share(["漢字", "word"], [3, 1]) == (0.6, "漢字")
    assert unspaced_share([], []) == (0.0, None)
