"""`driftline words fit`: counts in, an atlas of moving words out; an interrupted fit can be resumed."""

import argparse
import glob
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftline.cli.console.stopping import stopped_by
from driftline.cli.words import model
from driftline.cli.words.answers import size_of
from driftline.cli.words.inputs import check_out, chosen_steps, read_counts
from driftline.cli.words.locks import only_one
from driftline.words.settings import METHODS

if TYPE_CHECKING:
    from driftline.words.atlas.atlas import Atlas
    from driftline.words.counts.counts import Counts

ORDER = 20
PART = ".part"
EPILOG = """\
A fit saves its state to a checkpoint now and then, and when Ctrl-C or SIGTERM stops it (exit codes 130 and
143). After that, or after a crash, the same command with --resume goes on, and the atlas will be the same as
without the interruption.

examples:
  driftline words fit sotu.counts -o sotu.atlas
  driftline words fit tweets.counts --drift 1 --dim 50 -o tweets.atlas
  driftline words fit sotu.counts -o sotu.atlas --resume
  driftline words fit notes.counts -o notes.atlas --seeds 3
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "fit",
        help="fit embeddings that drift to counts",
        description="Fit word embeddings that drift through time to counts from `driftline words count`.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("counts", metavar="COUNTS", type=Path, help="file from `driftline words count`")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="ATLAS", help="file for the atlas")
    group = parser.add_argument_group("model")
    what = "smoothing, filtering, or one of two baselines (%(default)s)"
    group.add_argument("--method", choices=METHODS, default=METHODS[0], help=what)
    model.add_options(group)
    what = "the most passes that each phase of the optimiser may take, such as 2000 1000"
    group.add_argument("--passes", type=int, nargs="+", default=[], metavar="N", help=what)
    model.add_hold_out(group, "steps that the fit must not see; their score is shown with the progress")
    _add_run(parser.add_argument_group("long runs"))
    parser.set_defaults(run=run)


def _add_run(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--checkpoint", type=Path, metavar="FILE", help=f"where the state is saved (ATLAS{PART})")
    what = "seconds between two checkpoints (%(default)s)"
    add("--every", type=float, default=60.0, metavar="SECONDS", help=what)
    add("--resume", action="store_true", help="go on from the checkpoint")
    what = "stop after so long; the atlas then says that it has not converged"
    add("--minutes", type=float, metavar="M", help=what)
    what = "fit from N seeds, keep the best, and report how far they agree"
    add("--seeds", type=int, default=1, metavar="N", help=what)


def run(arguments: argparse.Namespace) -> int:
    """Fit, write the atlas, and say what came of it; Ctrl-C leaves a checkpoint behind."""
    checkpoint = arguments.checkpoint or Path(f"{arguments.out}{PART}")
    _check_places(arguments, checkpoint)
    with only_one(arguments.out), only_one(checkpoint):
        _check_checkpoint(arguments, checkpoint)
        return _fit(arguments, checkpoint)


def _fit(arguments: argparse.Namespace, checkpoint: Path) -> int:
    from driftline import words

    counts = read_counts(arguments.counts)
    held_out = chosen_steps(arguments.hold_out or [], len(counts))
    _print_memory(counts, arguments, held_out)
    started = time.monotonic()
    try:
        atlas = words.fit(
            counts,
            arguments.method,
            **model.chosen(arguments),
            passes=arguments.passes,
            hold_out=held_out,
            checkpoint=checkpoint,
            resume=arguments.resume,
            every=arguments.every,
            minutes=arguments.minutes,
            seeds=arguments.seeds,
        )
        atlas.save(arguments.out)
    except KeyboardInterrupt as stop:
        if not _checkpoints(checkpoint):
            raise
        remedy = "the same command with --resume goes on from there"
        print(f"driftline: interrupted; what is done is in {checkpoint}: {remedy}", file=sys.stderr)
        return stopped_by(stop)
    for path in _checkpoints(checkpoint):
        path.unlink(missing_ok=True)
    for path in (checkpoint, arguments.out):
        _remove_halves(path)
    print(_summary(atlas, arguments.out, time.monotonic() - started))
    return 0


def _check_places(arguments: argparse.Namespace, checkpoint: Path) -> None:
    check_out(arguments.out, [arguments.counts], "words.atlas")
    check_out(checkpoint, [arguments.counts], f"words.atlas{PART}")
    if checkpoint.resolve() == arguments.out.resolve():
        raise ValueError(f"checkpoint={str(checkpoint)!r} is the file for the atlas; name another")
    if not arguments.every >= 0:
        raise ValueError(f"every={arguments.every}; a number of seconds is needed")


def _check_checkpoint(arguments: argparse.Namespace, checkpoint: Path) -> None:
    found = _checkpoints(checkpoint)
    if arguments.resume and not found:
        raise FileNotFoundError(f"there is no checkpoint {checkpoint} to go on from; begin without --resume")
    if not arguments.resume and found:
        raise ValueError(
            f"{found[0]} is the checkpoint of an unfinished fit: go on with --resume, or delete it first"
        )


def _checkpoints(checkpoint: Path) -> list[Path]:
    """Files that are there of the state: one, or one for each of several seeds."""
    seeds = checkpoint.parent.glob(f"{glob.escape(checkpoint.name)}.seed*")
    of_seeds = [path for path in seeds if path.name.rpartition(".seed")[2].isdecimal()]
    return [path for path in (checkpoint, *sorted(of_seeds)) if path.is_file()]


def _remove_halves(path: Path) -> None:
    """Remove what is left of a file that was being written when a fit was killed (`files.replacing`)."""
    place = path.resolve()  # which is replaced if the path is a link
    for half in place.parent.glob(f".{glob.escape(place.name)}.{'[0-9a-f]' * 12}"):
        half.unlink(missing_ok=True)


def _print_memory(counts: "Counts", arguments: argparse.Namespace, held_out: list[int]) -> None:
    """Say how much memory the fit will need; what cannot be fitted at all is left for the fit to refuse."""
    import numpy as np

    from driftline.words.fitting import memory
    from driftline.words.fitting.problem import FittingProblem
    from driftline.words.settings import WordSettings

    passes = tuple(arguments.passes)
    settings = WordSettings(method=arguments.method, **model.chosen(arguments), passes=passes)
    problem = FittingProblem(counts, settings, np.setdiff1d(np.arange(len(counts)), held_out))
    if len(problem.training) < 2:
        return
    free = memory.available()
    beside = "" if free is None else f", of {free / 1e9:.1f} GB that are free"
    print(f"{'memory':<8}about {memory.estimate(problem) / 1e9:.1f} GB{beside}", flush=True)


def _summary(atlas: "Atlas", path: Path, seconds: float) -> str:
    first, last = (str(date)[:4] for date in (atlas.dates[0], atlas.dates[-1]))
    if first == last:
        first, last = str(atlas.dates[0]), str(atlas.dates[-1])
    rows = {
        "steps": f"{len(atlas):,}, from {atlas.dates[0]} to {atlas.dates[-1]}",
        "words": f"{len(atlas.vocabulary):,}, in {atlas.dim} dimensions",
        "time": f"{seconds:.1f} s",
    }
    if atlas.elbo is not None:
        rows["ELBO"] = f"{atlas.elbo:,.0f} nats"
    if atlas.learnt:
        learnt = atlas.learnt
        noise = (
            f"{learnt['dispersion']:.2g} times that of independent pairs"
            if atlas.knows_noise and learnt["dispersion"] is not None
            else "not measured, as there are too few steps"
        )
        rows["prior"] = (
            f"width {learnt['scale']:.3g}, drift {learnt['drift_beyond_noise']:.2g} a year on average; "
            f"noise between steps {noise}"
        )
    rows["ended"] = "converged" if atlas.converged else f"NOT CONVERGED: {atlas.message}"
    if "seeds" in atlas.provenance:
        rows["seeds"] = _agreed(atlas.provenance["seeds"])
    name = shlex.quote(str(path))
    places = (
        f"\nAtlas: {path} ({size_of([path])})\n"
        f"Next:  driftline words changed {name} --from {first} --to {last}"
    )
    return "\n".join([*(f"{name:<8}{value}" for name, value in rows.items()), places])


def _agreed(found: dict[str, Any]) -> str:
    """How far fits from several seeds agree, in words."""
    parts = [f"{found['fits']} fits share {100 * found['share']:.0f} % of {found['n']} nearest words"]
    correlation = found["change"]["rank_correlation"]
    if correlation is not None:
        parts.append(f"rank correlation of change {correlation:.2f}")
    if found["elbo_difference"] is not None:
        parts.append(f"ELBOs within {found['elbo_difference']:,.0f} nats")
    return "; ".join(parts)
