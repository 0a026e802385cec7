"""What the command line knows of itself, as Markdown."""

import argparse
import re
from collections.abc import Iterator

from driftline.cli.console.parsing import Parser
from driftline.cli.main import COMMANDS

SPECIAL = re.compile(r"([\\*_\[\]<>$#|])")
OPTION = re.compile(r"(?<![\w`-])(--?[a-z][\w-]*)")


def parsers() -> dict[str, argparse.ArgumentParser]:
    """All commands with their parsers, such as "words count"; "" is the program itself."""
    root = Parser(prog="driftline")
    commands = root.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return dict(_tree("", root))


def _tree(name, parser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each, child in action.choices.items():
                yield from _tree(f"{name} {each}".strip(), child)


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a command takes, without its help and its subcommands."""
    left_out = (argparse._HelpAction, argparse._SubParsersAction)
    return [action for action in parser._actions if not isinstance(action, left_out)]


def markdown(parser: argparse.ArgumentParser) -> str:
    """The reference of one command."""
    usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
    parts = [
        prose(parser.description or ""),
        f"```text\n{_wrapped(usage)}\n```",
        f"```{{program}} {parser.prog}\n```",
    ]
    for group in parser._action_groups:
        actions = [action for action in options(parser) if action in group._group_actions]
        if actions:
            parts.append(f"**{(group.title or 'options').capitalize()}**")
        parts += [_entry(parser, action) for action in actions]
    return "\n\n".join([*parts, *_epilog(parser.epilog or "")])


def _entry(parser, action):
    formatter = parser._get_formatter()
    said = prose(formatter._expand_help(action)) if action.help else ""
    return f"````{{option}} {formatter._format_action_invocation(action)}\n{said}\n````"


def _epilog(text):
    """Paragraphs as prose, examples as they are typed."""
    before, mark, after = re.sub(r"^examples?:\n", "\0", text, flags=re.MULTILINE).partition("\0")
    for paragraph in before.strip().split("\n\n"):
        yield prose(" ".join(paragraph.split()))
    if mark:
        lines = [line.strip() for line in after.strip().splitlines()]
        yield "**Examples**"
        yield "```sh\n" + "\n".join(lines) + "\n```"


def prose(text: str) -> str:
    """Help as Markdown: options become code, and nothing else is taken for markup."""
    pieces = text.split("`")
    for i in range(0, len(pieces), 2):
        pieces[i] = OPTION.sub(r"`\1`", SPECIAL.sub(r"\\\1", pieces[i]))
    return "`".join(pieces)


def _wrapped(usage, width=76):
    """A usage line, broken between its parts."""
    lines, parts = [], re.findall(r"\[[^\]]*(?:\[[^\]]*\][^\]]*)*\]|\S+", usage)
    for part in parts:
        if lines and len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}" if lines else part)
    return "\n".join(lines)
