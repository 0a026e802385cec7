"""`driftline words`: from dated texts to word embeddings that drift; one command per file.

A command is a module here with an `add_parser`, and with an `ORDER` that says where in the list it stands.
They are discovered automatically (`docs/develop/adding-a-query.md`).
"""

import argparse
import importlib
import pkgutil
from types import ModuleType


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the commands."""
    parser = commands.add_parser(
        "words",
        help="word embeddings that drift through time",
        description="Word embeddings that drift through time, from dated texts.",
    )
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in found_commands():
        command.add_parser(subcommands)


def found_commands() -> list[ModuleType]:
    """The modules of all commands, in the order in which help lists them."""
    names = [each.name for each in pkgutil.iter_modules(__path__, f"{__name__}.")]
    modules = [importlib.import_module(name) for name in names]
    return sorted((each for each in modules if hasattr(each, "add_parser")), key=lambda each: each.ORDER)
