"""Texts cut into words, for any script that puts something between its words."""

import dataclasses
import functools
import unicodedata

import numpy as np

MARK = "\0"  # stands between documents that are cut together
APOSTROPHE = ord("'")
SPACE = ord(" ")
VARIATIONS = {chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))}  # of how to draw
ZERO_WIDTH_SPACE = 0x200B  # a format character, but one that parts words
DROPPED = np.uint32(0x1FFFFF)  # no code point
CAREFUL = np.uint32(1 << 31)  # added to characters that cannot be treated one by one
COMBINING = np.uint32(1 << 30)  # added to marks that combine with the character before


@dataclasses.dataclass(frozen=True)
class Tokeniser:
    """Cuts a text into words.

    A word is a run of letters and digits of any script, with their combining marks and with apostrophes
    inside it: "don't" is one word and "well-known" two. Curly apostrophes become straight ones, soft hyphens
    and other invisible characters are dropped, and text is brought to the composed form (NFC), so that a word
    has one spelling. Scripts that write without spaces need a function of their own: any function from a text
    to its words can stand in for this one.

    Attributes:
        lower: Whether words are put in lower case.
    """

    lower: bool = True

    def __call__(self, text: str) -> list[str]:
        """The words of a text."""
        return self.cut([text])[:-1]

    def cut(self, texts: list[str]) -> list[str]:
        """The words of all texts in one list, with `MARK` after those of each."""
        joined = f" {MARK} ".join([text.replace(MARK, " ") for text in texts]) + f" {MARK} "
        return (self._ascii(joined) if joined.isascii() else self._unicode(joined)).split()

    def _ascii(self, text: str) -> str:
        data = text.encode("ascii").translate(_ascii_table(self.lower))
        if b"'" in data:
            codes = np.frombuffer(bytearray(data), np.uint8)
            _free_apostrophes(codes)
            data = codes.tobytes()
        return data.decode("ascii")

    def _unicode(self, text: str) -> str:
        codes = _table(self.lower).take(_codes(text))
        if codes.max() >= CAREFUL:
            # Lower case and composition may depend on the characters around.
            text = unicodedata.normalize("NFC", text.lower() if self.lower else text)
            codes = _table(self.lower).take(_codes(text)) & ~CAREFUL
            codes = codes[codes != DROPPED]
            _free_marks(codes)
        _free_apostrophes(codes)
        return codes.tobytes().decode("utf-32-le")


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _free_marks(codes: np.ndarray) -> None:
    """Put spaces where a combining mark has nothing to combine with, and take the flag off the others."""
    combining = codes >= COMBINING
    base = np.maximum.accumulate(np.where(combining, -1, np.arange(len(codes))))
    codes[combining & (codes[base] == SPACE)] = SPACE  # at -1, before the first base, is a space too
    codes &= ~COMBINING


def _free_apostrophes(codes: np.ndarray) -> None:
    """Put spaces where an apostrophe does not stand between two characters of a word."""
    places = np.flatnonzero(codes == APOSTROPHE)
    # The last character is a space, so that every place has a right neighbour and place 0 has a left one, -1.
    before, after = codes[places - 1], codes[places + 1]
    free = (before == SPACE) | (before == APOSTROPHE) | (after == SPACE) | (after == APOSTROPHE)
    codes[places[free]] = SPACE


@functools.cache
def _ascii_table(lower: bool) -> bytes:
    kept = "".join(
        chr(code) if chr(code).isalnum() or chr(code) in (MARK, "'") else " " for code in range(128)
    )
    return (kept.lower() if lower else kept).encode() + b" " * 128


@functools.cache
def _table(lower: bool) -> np.ndarray:
    """What becomes of every code point; made at the first text that is not ASCII, in a tenth of a second."""
    table = np.full(0x110000, SPACE, "<u4")
    # The planes between are empty or private.
    for code in (*range(0x40000), *range(0xE0000, 0xE0200)):
        table[code] = _fate(chr(code), lower)
    for apostrophe in "'’ʼ＇":
        table[ord(apostrophe)] = APOSTROPHE
    table[ord(MARK)] = ord(MARK)
    table[ZERO_WIDTH_SPACE] = SPACE
    return table


def _fate(character, lower):
    category = unicodedata.category(character)
    if category == "Cf" or character in VARIATIONS:
        return DROPPED | CAREFUL
    if category[0] not in "LMN":
        return SPACE
    if category[0] == "M":
        return ord(character) | CAREFUL | COMBINING
    becomes = character.lower() if lower else character
    alone = (
        character not in "Σ"  # its lower case is another at the end of a word
        and not "\u1100" <= character <= "\u11ff"  # parts of Korean syllables
        and len(becomes) == 1
        and unicodedata.is_normalized("NFC", character)
    )
    return ord(becomes[0]) | (0 if alone else CAREFUL)
