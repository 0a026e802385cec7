"""The line on which progress is shown."""

from driftline import terminal


def test_what_comes_too_soon_is_shown_in_the_end(capsys, monkeypatch):
    monkeypatch.setattr(terminal.time, "monotonic", iter([0.0, 0.01, 0.02, 0.5, 0.51]).__next__)
    line = terminal.Line()
    for text in ("one", "two", "three", "four", "five"):
        line.write(text)
    line.close()
    assert capsys.readouterr().err == "\rone\rfour\rfive\n"


def test_a_line_without_a_text_writes_nothing(capsys):
    terminal.Line().close()
    assert capsys.readouterr().err == ""
