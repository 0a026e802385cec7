"""The parser of the command line: options with several values do not swallow what follows them."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any


class Text:
    """A type of arguments that takes any text, but can say what looks like one of them.

    Args:
        accepts: Whether a text looks like such an argument.
    """

    def __init__(self, accepts: Callable[[str], bool]):
        self.accepts = accepts

    def __call__(self, text: str) -> str:
        """The text itself."""
        return text


class Parser(argparse.ArgumentParser):
    """Parses `--at 1900 2000 ATLAS WORD` as it is meant, and notes how each option is spelt."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None):  # noqa: D102
        given = list(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(self._apart(given), namespace)
        found.spelt = vars(found).get("spelt", {}) | _spellings(self._actions)
        return found, rest

    def _apart(self, args):
        """Arguments with options of several values last, if positional arguments that follow were missing."""
        end = args.index("--") if "--" in args else len(args)
        needed = sum(not each.option_strings and each.nargs is None for each in self._actions)
        kept, moved, position, free = [], [], 0, 0
        while position < end:
            action = self._option_string_actions.get(args[position])
            stop = position + 1 + _num_values(action, args[position + 1 : end])
            is_several = action is not None and action.nargs == "+" and free < needed
            free += action is None and not args[position].startswith("-")
            follows = position + 1 < stop < end and not args[stop].startswith("-")
            (moved if is_several and follows else kept).extend(args[position:stop])
            position = stop
        return kept + moved + args[end:]


def _num_values(action, following):
    """How many of the arguments after an option are its values."""
    if action is None or action.nargs == 0:
        return 0
    if action.nargs != "+":
        return min(action.nargs if isinstance(action.nargs, int) else 1, len(following))
    many = 0
    while many < len(following) and _accepts(action, following[many]):
        many += 1
    return many


def _accepts(action, text):
    if isinstance(action.type, Text):
        return action.type.accepts(text)
    try:
        value = text if action.type is None else action.type(text)
    except (ValueError, argparse.ArgumentTypeError):
        return False
    return action.choices is None or value in action.choices


def _spellings(actions):
    """Options as they are typed, by the names that they have in Python."""
    found = {}
    for action in actions:
        for option in action.option_strings:
            found[option.lstrip("-").replace("-", "_")] = option
        if action.option_strings:
            found[action.dest] = action.option_strings[-1 if action.nargs != 0 else 0]
    return found
