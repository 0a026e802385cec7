"""`driftline words`: from dated texts to word embeddings that drift; one command per file."""

import argparse

from driftline.cli.words import changed, count, evaluate, export, fit, import_vectors, neighbors, similarity

COMMANDS = (count, fit, evaluate, neighbors, similarity, changed, export, import_vectors)


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the commands."""
    parser = commands.add_parser(
        "words",
        help="word embeddings that drift through time",
        description="Word embeddings that drift through time, from dated texts.",
    )
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subcommands)
