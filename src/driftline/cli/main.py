"""The `driftline` command: finds the subcommand and runs it; imports nothing heavy to show its help."""

import functools
import os
import re
import sys
import warnings
from collections.abc import Sequence

import driftline
from driftline.cli import demo, words
from driftline.cli.console.parsing import Parser
from driftline.cli.console.standard_streams import fill_closed
from driftline.cli.console.stopping import stopped_by
from driftline.terminal import is_there

COMMANDS = (demo, words)
ERRORS = (ValueError, KeyError, OSError, ImportError, ArithmeticError, RuntimeError, MemoryError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    fill_closed()
    parser = Parser(
        prog="driftline",
        description="Structured variational inference for latent time series.",
    )
    parser.add_argument("--version", action="version", version=f"driftline {driftline.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
    chosen = parser.parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _say(message, chosen, after_progress=True)
            code = chosen.run(chosen)
            sys.stdout.flush()  # here, where it may fail
            return code
    except BrokenPipeError:
        # Whoever reads, such as `head`, has had enough. What is still to be written must not fail at exit.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        return 128 + 13  # as a shell says of a program that SIGPIPE stops
    except ERRORS as error:
        _say(error, chosen)
        return 1
    except KeyboardInterrupt as stop:
        print("driftline: interrupted", file=sys.stderr)
        return stopped_by(stop)


def _say(problem, chosen, after_progress=False):
    """Write an error or a warning in one line, with options as they are typed here.

    What Python calls date_format='%d' is --date-format '%d' here, quoted=False is --no-quoted, and a
    min_count that is only mentioned is --min-count.
    """
    text = str(problem)
    if isinstance(problem, OSError) and problem.strerror:
        text = problem.strerror + (f": {problem.filename}" if problem.filename else "")
    if isinstance(problem, KeyError) and problem.args:
        text = str(problem.args[0])  # without the quotes that Python puts around it
    text = re.sub(r"\s*\n\s*", " ", text) or type(problem).__name__
    text = re.sub(r"limits=Limits\((.*?)\)", r"\1", text)
    spelt = chosen.spelt
    names = "|".join(spelt)
    option = functools.partial(_option, spelt)
    # Not in a path, such as date=1850/texts.csv or my/min_count.csv.
    text = re.sub(rf"\b({names})=(?![^\s'\"]*/)(False\b|True\b|r(?=['\"]))?(?=(.?))", option, text)
    long = "|".join(name for name in spelt if "_" in name)
    if long:
        text = re.sub(rf"(?<![\w./\\'\"-])({long})(?![\w/\\='\"-]|\.\w)", lambda found: spelt[found[1]], text)
    start = "\n" if after_progress and is_there() else ""
    print(f"{start}driftline: {text}", file=sys.stderr)


def _option(spelt, found):
    name, value, after = spelt[found[1]], found[2], found[3]
    if value == "False":
        return f"--no-{name.removeprefix('--no-').lstrip('-')}"
    return name + (" " if value != "True" and after not in (*" ,;:.)", "") else "")
