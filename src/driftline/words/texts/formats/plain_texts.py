"""Files that are nothing but one text."""

import codecs

from driftline.words.texts import streams
from driftline.words.texts.file_formats import FileToRead, TextFormat


def text(file: FileToRead) -> str:
    """The text, without the mark with which some editors begin UTF-8."""
    data = streams.whole(file.path, file.name, file.tally, file.limits).removeprefix(codecs.BOM_UTF8)
    return streams.decode(data, file.dialect.encoding, file.name)


FORMAT = TextFormat((".txt", ".text", ".md"), text)
