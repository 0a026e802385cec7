"""The `driftline` command: finds the subcommand and runs it; imports nothing heavy to show its help."""

import argparse
import sys
from collections.abc import Sequence

import driftline
from driftline.cli import demo

COMMANDS = (demo,)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="driftline",
        description="Structured variational inference for latent time series.",
    )
    parser.add_argument("--version", action="version", version=f"driftline {driftline.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
    chosen = parser.parse_args(arguments)
    try:
        return chosen.run(chosen)
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        print(f"driftline: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("driftline: interrupted", file=sys.stderr)
        return 130
