"""What `Posterior.refine` returns: draws of the posterior itself, with the face of a fit."""

import dataclasses
import os
from typing import Any

import jax
import jax.random as jr
import numpy as np

from driftline.infer.judging.refinement import Refinement, agreement
from driftline.models.model import Model
from driftline.models.model_json import from_spec, shapes_of, to_spec
from driftline.models.observations import as_times, observe
from driftline.results import asked_times
from driftline.results.drawn_prediction import DrawnPrediction
from driftline.results.intervals import checked_probability
from driftline.results.learnt_number import LearntNumber
from driftline.storage import checked_files as files
from driftline.storage.explained_errors import refusing_unsound
from driftline.storage.kinds import FileKind

KIND = FileKind("refined", 1, "a refined posterior", "`save` of a refined posterior")
FEWEST = 4  # draws of a chain from which on it can be judged
LARGE = 1e150  # whose square is still a number


@dataclasses.dataclass(frozen=True, repr=False)
class Refined:
    """Draws of the hidden path and of the learnt numbers from their posterior.

    Attributes:
        draws: Paths, (chains, draws, T, *shape).
        numbers: Draws of the learnt numbers by their places, (chains, draws, ...).
        model: The model, with learnt numbers at their means; None if a file did not keep it.
        values: The observations, NaN where there were none.
        times: Numbers or dates of the steps.
        time_unit: Length of one unit of the model's time, if `times` are dates.
        divergences: How many draws' trajectories went astray.
        interrupted: Whether Ctrl-C ended it early.
        elsewhere: What part of the posterior lies around other tops, as far as they were found, that the
            chains never visit.
        r_hats: How far chains agree, by name: "path" and the places of the numbers; 1 if they do.
        sizes: Effective numbers of draws, likewise.
        flagged: Whether the draws should not be trusted as they are.
        verdict: One line in words.
        mean: Mean of the path at every step, (T, *shape).
        sd: Its standard deviation, likewise.
        again: What `at` needs to draw again; None after a file was read.
    """

    draws: np.ndarray
    numbers: dict[str, np.ndarray]
    model: Model | None
    values: np.ndarray
    times: np.ndarray
    time_unit: np.timedelta64 | None
    divergences: int
    interrupted: bool
    again: Any = None  # what a run on a longer series needs; None if it came from a file
    elsewhere: float = 0.0
    r_hats: dict[str, np.ndarray] = dataclasses.field(init=False)
    sizes: dict[str, np.ndarray] = dataclasses.field(init=False)
    flagged: bool = dataclasses.field(init=False)
    verdict: str = dataclasses.field(init=False)
    mean: np.ndarray = dataclasses.field(init=False)
    sd: np.ndarray = dataclasses.field(init=False)

    def __post_init__(self):
        found = agreement(
            Refinement(self.numbers, self.draws, self.divergences, self.interrupted, self.elsewhere)
        )
        for name, value in {
            "r_hats": found.r_hat,
            "sizes": found.ess,
            "flagged": found.flagged,
            "verdict": found.verdict,
            "mean": self.draws.mean(axis=(0, 1)),
            "sd": self.draws.std(axis=(0, 1), ddof=1),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def r_hat(self) -> np.float64:
        """The largest of all."""
        return np.float64(max(found.max() for found in self.r_hats.values()))

    @property
    def ess(self) -> np.float64:
        """The least effective number of draws, over all numbers and all steps of the path."""
        return np.float64(min(found.min() for found in self.sizes.values()))

    @property
    def converged(self) -> bool:
        """Whether the draws can be trusted."""
        return not self.flagged

    @property
    def message(self) -> str:
        """The verdict."""
        return self.verdict

    @property
    def parameters(self) -> dict[str, LearntNumber]:
        """The learnt numbers by their places; each has `mean`, `sd` and `interval`."""
        many = self.draws.shape[0] * self.draws.shape[1]
        return {
            place: LearntNumber(values.reshape(many, *values.shape[2:]), np.full(many, 1.0 / many))
            for place, values in self.numbers.items()
        }

    def interval(self, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central interval of every step with the given probability."""
        tail = 0.5 - 0.5 * checked_probability(probability)
        lower, upper = np.quantile(self.draws, (tail, 1.0 - tail), axis=(0, 1))
        return lower, upper

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        """Some of the drawn paths, (n, T, *shape); no path twice unless more are asked for than there are."""
        return _flat(self.draws)[self._chosen(n, seed)]

    def _chosen(self, n, seed):
        if n < 1:
            raise ValueError(f"sample draws at least one path, got n={n}")
        many = self.draws.shape[0] * self.draws.shape[1]
        return np.random.default_rng(seed).choice(many, n, replace=n > many)

    def forecast(self, steps: int | None = None, *, times: Any = None, seed: int = 0) -> DrawnPrediction:
        """Predict the path, and what will be observed of it, after the last step.

        Args:
            steps: Number of steps ahead, each as long as the median gap of the series; or
            times: the times themselves, after the last one, for a prior that knows time.
            seed: The same seed gives the same draws.
        """
        model = self._known_model()
        ahead = asked_times.times_ahead(model, self.times, steps, times)
        if not model.prior.is_linear:
            return self._again(ahead, seed)
        everything = np.concatenate([self.times[-1:], ahead])
        with jax.enable_x64(True):
            _, gaps, _ = as_times(everything, None, len(everything), self.time_unit)
            numbers = {place: _flat(values) for place, values in self.numbers.items()}
            return DrawnPrediction.ahead(model, numbers, _flat(self.draws)[:, -1], gaps, ahead, jr.key(seed))

    def at(self, times: Any, *, seed: int = 0) -> DrawnPrediction:
        """The path, and what would be observed of it, at any times; sampled again, with these times added."""
        return self._again(asked_times.times_between(self._known_model(), self.times, times), seed)

    def _again(self, new_times, seed):
        if self.again is None:
            raise ValueError(
                "this posterior was loaded from a file, which does not keep what sampling again needs; "
                "fit and refine it again to use this"
            )
        return self.again(new_times, seed)

    def _known_model(self) -> Model:
        if self.model is None:
            raise ValueError(
                "this posterior was loaded from a file, which does not keep functions, so its model is not "
                "known; fit and refine it again to use this"
            )
        return self.model

    def to_frame(self, probability: float = 0.9) -> Any:
        """A pandas DataFrame with the columns mean, sd, lower and upper, and the times as its index."""
        from driftline.report.frame import to_frame

        return to_frame(self, probability)

    def to_arviz(self) -> Any:
        """All draws of path and learnt numbers, chain by chain, with the data, as an `xarray.DataTree`."""
        from driftline.interop.arviz import draws_to_arviz

        return draws_to_arviz(self, {"path": self.draws, **self.numbers})

    def plot(self, probability: float = 0.9, *, ax: Any = None, **options: Any) -> Any:
        """Draw mean and band against time with matplotlib; returns the axes."""
        from driftline.report.plot import plot

        return plot(self, probability, ax=ax, **options)

    def save(self, path: str | os.PathLike) -> None:
        """Write everything to one file that `dl.load` reads; a model with functions is left out."""
        times, facts = asked_times.stored(self.times, self.time_unit)
        arrays = {f"draws of {place}": values for place, values in self.numbers.items()}
        arrays |= {"draws": self.draws, "values": self.values, "times": times}
        facts |= {
            "model": None if self.model is None else to_spec(self.model),
            "parameters": list(self.numbers),
            "divergences": self.divergences,
            "interrupted": self.interrupted,
            "elsewhere": self.elsewhere,
        }
        files.write(path, KIND, arrays, facts)

    def __repr__(self):
        shape = "×".join(str(size) for size in self.mean.shape)
        chains, draws = self.draws.shape[:2]
        return f"Refined({shape}, {chains} chains of {draws} draws, {self.verdict})"


def _flat(draws):
    return draws.reshape(-1, *draws.shape[2:])


def load(path: str | os.PathLike) -> Refined:
    """Read draws that `Refined.save` wrote; a damaged or inconsistent file is refused."""
    arrays, facts = files.read(path, KIND)
    with refusing_unsound(path, "sound draws", "refine and save them again"):
        return _built(arrays, facts)


def _built(arrays, facts):
    times, unit = asked_times.restored(arrays["times"], facts)
    draws, values, places = arrays["draws"], arrays["values"], facts["parameters"]
    gaps = as_times(times, None, len(values), unit)[1]
    wanted = {"draws", "values", "times", *(f"draws of {place}" for place in places)}
    _must(set(arrays) == wanted, f"it has {', '.join(sorted(arrays))} and not {', '.join(sorted(wanted))}")
    fits = draws.ndim >= 3 and draws.size and draws.shape[2] == len(values) and draws.shape[1] >= FEWEST
    _must(fits, f"draws of shape {draws.shape} do not go with {len(values)} steps")
    numbers = {place: arrays[f"draws of {place}"] for place in places}
    for name, array in {"the path": draws, **numbers}.items():
        usual = array.dtype == np.float64 and (np.abs(array) < LARGE).all()
        _must(usual, f"a draw of {name} is not a finite number of ordinary size")
        _must(array.shape[:2] == draws.shape[:2], f"draws of {name} have shape {array.shape[:2]}")
    _must(values.dtype == np.float64 and not np.isinf(values).any(), "a value is not a number")
    divergences, interrupted = facts["divergences"], facts["interrupted"]
    _must(type(divergences) is int and divergences >= 0, f"divergences is {divergences!r}")
    _must(type(interrupted) is bool, f"interrupted is {interrupted!r}")
    elsewhere = facts.get("elsewhere", 0.0)  # early files come from draws that did not look
    _must(type(elsewhere) is float and 0.0 <= elsewhere <= 1.0, f"elsewhere is {elsewhere!r}")
    model = None if facts["model"] is None else from_spec(facts["model"])
    if model is not None:
        with jax.enable_x64(True):
            observe(values, gaps, model.likelihood, model.prior.shape)
        _must(model.prior.shape == draws.shape[3:], f"a step has shape {draws.shape[3:]}")
        shapes = shapes_of(model)
        for place, array in numbers.items():
            own = shapes.get(place) == array.shape[2:]
            _must(own, f"the learnt number {place} does not belong to the model, or has another shape")
    return Refined(draws, numbers, model, values, times, unit, divergences, interrupted, elsewhere=elsewhere)


def _must(holds, what):
    if not holds:
        raise ValueError(what)
