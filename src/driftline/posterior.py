"""What a fit returns: moments, intervals, samples, tables, plots, and files of them."""

import dataclasses
import os
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline import files
from driftline.families import AbstractFamily, BlockGaussMarkov, FullRank, GaussMarkov, MeanField
from driftline.infer import newton
from driftline.infer.diagnostics import Diagnosis, corrected_sample, diagnose
from driftline.intervals import central
from driftline.learnt import LearntNumber, draw_together
from driftline.models.model import Model
from driftline.models.observations import Observations, as_labels, as_times, observe
from driftline.models.spec import from_spec, to_spec
from driftline.posterior_soundness import check, check_type, checked_times
from driftline.prediction import Prediction, predict

KIND, VERSION = "posterior", 1
MOST_POINTS = 32  # values of the learnt numbers over which corrected paths are spread
FAMILIES = {family.__name__: family for family in (BlockGaussMarkov, FullRank, GaussMarkov, MeanField)}


@dataclasses.dataclass(frozen=True, repr=False)
class Posterior:
    """A Gaussian over the hidden path, given the series it was fitted to.

    Attributes:
        q: The family member; its arrays are in double precision.
        model: The model; None if it was loaded from a file and had functions of the user's.
        values: The observations, NaN where there were none.
        times: Numbers or dates of the steps.
        time_unit: Length of one unit of the model's time, if `times` are dates.
        method: The method that found it.
        elbo: The evidence lower bound in nats, with all constants.
        elbo_error: Standard error of `elbo`; zero where it was not estimated from draws.
        converged: Whether the method's own stopping rule was met.
        iterations: Number of steps that the method took.
        message: One sentence on how the fit ended.
        history: Arrays over the iterations, such as `elbo`, `gradient_norm` and `rate`; `method="bbvi"` looks
            at the first two at every fifth iteration.
        parameters: The learnt numbers by their places, such as `prior.decay`; each has `mean`, `sd` and
            `interval`. The path is averaged over them: `q` has the moments of that mixture.
        quantiles: Quantiles of that mixture for every step at the probabilities of `intervals.SCORES`, in
            standard deviations from the mean; None where the marginals are those of `q`, which are normal.
    """

    q: AbstractFamily
    model: Model | None
    values: np.ndarray
    times: np.ndarray
    time_unit: np.timedelta64 | None
    method: str
    elbo: float
    elbo_error: float
    converged: bool
    iterations: int
    message: str
    history: dict[str, np.ndarray]
    parameters: dict[str, LearntNumber] = dataclasses.field(default_factory=dict)
    quantiles: np.ndarray | None = None
    mean: np.ndarray = dataclasses.field(init=False)
    sd: np.ndarray = dataclasses.field(init=False)

    def __post_init__(self):
        num_steps = len(self.q.mean)
        with jax.enable_x64(True):
            variances = np.asarray(_variances(_filled_up(self.q)))[:num_steps]
        object.__setattr__(self, "mean", np.asarray(self.q.mean))
        object.__setattr__(self, "sd", np.sqrt(variances))

    def interval(self, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central interval of every step with the given probability.

        With learnt numbers its ends are quantiles of the mixture over them, not of the normal distribution
        that has its mean and sd.
        """
        return central(self.mean, self.sd, probability, self.quantiles)

    def sample(self, n: int, *, corrected: bool = False, seed: int = 0) -> np.ndarray:
        """Draw `n` paths, an array of shape (n, T, *shape).

        Args:
            n: Number of paths.
            corrected: Whether to draw from the posterior itself, as near as particles come to it, and not
                from the Gaussian that was fitted to it.
            seed: The same seed gives the same numbers.
        """
        if n < 1:
            raise ValueError(f"sample draws at least one path, got n={n}")
        with jax.enable_x64(True):
            if corrected:
                numbers = draw_together(self.parameters, min(n, MOST_POINTS))
                return corrected_sample(self._known_model(), self._observations(), self.q, numbers, n, seed)
            return np.asarray(_draw(self.q, jr.split(jr.key(seed), n)))

    def diagnose(self, *, seed: int = 0) -> Diagnosis:
        """Say how good the fit is; print what comes back.

        Particle filters, guided by the fit, estimate the log evidence and with it the divergence between fit
        and posterior, overall and step by step. With learnt numbers it is the path given their means that
        is judged.
        """
        model = self._known_model()
        with jax.enable_x64(True):
            observations = self._observations()
            q, elbo, error = self.q, self.elbo, self.elbo_error
            if self.parameters:
                state = newton.refit(model, observations, q)
                q, elbo, error = state.q, float(state.elbo), 0.0
            return diagnose(q, model, observations, elbo, error, seed)

    def forecast(self, steps: int | None = None, *, times: Any = None) -> Prediction:
        """Predict the path, and what will be observed of it, after the last step.

        Args:
            steps: Number of steps ahead, each as long as the median gap of the series; or
            times: the times themselves, after the last one, for a prior that knows time.

        A `Diffusion` prior pulls towards zero at every step, so that steps which are added change it.
        """
        if (steps is None) == (times is None):
            raise ValueError("forecast takes either a number of steps or times=...")
        if steps is not None:
            if steps < 1:
                raise ValueError(f"forecast looks at least one step ahead, got {steps}")
            ahead = self.times[-1] + np.arange(1, steps + 1) * _median_gap(self.times)
        else:
            self._check_knows_time()
            ahead = as_labels(times)
            if not np.all(ahead > self.times[-1]):
                raise ValueError(f"forecast looks ahead of {self.times[-1]}; use post.at(times) before it")
        return self._predict(ahead)

    def at(self, times: Any) -> Prediction:
        """The path, and what would be observed of it, at any times between and beyond the observed ones.

        Args:
            times: In any order; the answer keeps it.
        """
        self._check_knows_time()
        new_times, prior = np.atleast_1d(as_labels(times)), self._known_model().prior
        if not prior.stationary and np.any(new_times < self.times[0]):
            raise ValueError(
                f"{type(prior).__name__} begins at the first step, {self.times[0]}, and says nothing of "
                f"{new_times.min()}; ask for later times, or use OrnsteinUhlenbeck"
            )
        return self._predict(new_times)

    def _check_knows_time(self):
        prior = self._known_model().prior
        if not prior.in_continuous_time:
            raise ValueError(
                f"{type(prior).__name__} counts steps and does not know times between them; use a prior in "
                "continuous time, such as OrnsteinUhlenbeck, or forecast whole steps"
            )

    def _known_model(self) -> Model:
        if self.model is None:
            raise ValueError(
                "this posterior was loaded from a file, which does not keep functions, so its model is not "
                "known; fit it anew for that"
            )
        return self.model

    def _observations(self) -> Observations:
        model = self._known_model()
        _, gaps, _ = as_times(self.times, None, len(self.values), self.time_unit)
        return observe(self.values, gaps, model.likelihood, model.prior.shape)

    def _predict(self, new_times):
        structure = "block" if isinstance(self.q, BlockGaussMarkov) else "chains"
        return predict(
            self._known_model(), self.values, self.times, self.time_unit, np.atleast_1d(new_times),
            self.parameters, structure,
        )  # fmt: skip

    def to_frame(self, probability: float = 0.9) -> Any:
        """A pandas DataFrame with the columns mean, sd, lower and upper, and the times as its index."""
        from driftline.report.frame import to_frame

        return to_frame(self, probability)

    def to_arviz(self, draws: int = 1000, *, corrected: bool = False, seed: int = 0) -> Any:
        """Draws of the path and of the learnt numbers, with the data, as ArviZ's `xarray.DataTree`.

        The draws of the numbers go with the path's on average, not one by one: the path's are of the
        Gaussian that is already averaged over the numbers.
        """
        from driftline.report.arviz import to_arviz

        return to_arviz(self, draws, corrected=corrected, seed=seed)

    def plot(self, probability: float = 0.9, *, ax: Any = None, **options: Any) -> Any:
        """Draw mean and band against time with matplotlib; returns the axes."""
        from driftline.report.plot import plot

        return plot(self, probability, ax=ax, **options)

    def save(self, path: str | os.PathLike) -> None:
        """Write everything to one file that `dl.load` reads; a model with functions is left out."""
        arrays = {f"q.{name}": np.asarray(leaf) for name, leaf in vars(self.q).items()}
        arrays |= {f"history.{name}": column for name, column in self.history.items()}
        for place, number in self.parameters.items():
            arrays |= {f"values of {place}": number.values, f"weights of {place}": number.weights}
        if self.quantiles is not None:
            arrays["quantiles"] = self.quantiles
        dates = self.times.dtype.kind == "M"
        times = self.times.astype(np.int64) if dates else self.times
        unit = self.time_unit
        facts = {
            "family": type(self.q).__name__,
            "model": None if self.model is None else to_spec(self.model),
            "times": str(self.times.dtype) if dates else None,
            "time_unit": None if unit is None else [int(unit.astype(np.int64)), str(unit.dtype)],
            "parameters": list(self.parameters),
            **{name: getattr(self, name) for name in _PLAIN},
        }
        files.write(path, KIND, VERSION, arrays | {"values": self.values, "times": times}, facts)

    def __repr__(self):
        shape = "×".join(str(size) for size in self.mean.shape)
        return f"Posterior({shape} by {self.method}, ELBO {self.elbo:.3f}, {self.message})"


@eqx.filter_jit
def _variances(q):
    return q.variances()


@eqx.filter_jit
def _draw(q, keys):
    return jax.vmap(lambda key: q.sample(key).path)(keys)


def _filled_up(q):
    """A family with cut-off steps up to a power of two, so that similar lengths share one compilation."""
    if isinstance(q, FullRank):
        return q
    extra = max(16, 1 << (len(q.mean) - 1).bit_length()) - len(q.mean)

    def one(leaf):
        filling = np.zeros((extra, *leaf.shape[1:]))
        if leaf is q.diag:
            filling += np.eye(leaf.shape[1]) if isinstance(q, BlockGaussMarkov) else 1.0
        return np.concatenate([np.asarray(leaf), filling])

    return jax.tree.map(one, q)


def _median_gap(times):
    gaps = np.diff(times)
    if len(gaps) == 0:
        return np.timedelta64(1, "D") if times.dtype.kind == "M" else 1
    middle = np.sort(gaps)[(len(gaps) - 1) // 2]
    return middle if times.dtype.kind in "iuM" else float(np.median(gaps))


_PLAIN = ("method", "elbo", "elbo_error", "converged", "iterations", "message")


def load(path: str | os.PathLike) -> Posterior:
    """Read a posterior that `Posterior.save` wrote; a damaged or inconsistent file is refused."""
    arrays, facts = files.read(path, KIND, VERSION)
    try:
        check(arrays, facts)
        return _built(arrays, facts)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{os.fspath(path)} does not hold a sound posterior ({reason}); fit and save it anew"
        ) from error


def _built(arrays, facts):
    times, unit = _times(arrays["times"], facts)
    as_times(times, None, len(arrays["values"]), unit)
    with jax.enable_x64(True):
        leaves = {name[2:]: jnp.asarray(array) for name, array in arrays.items() if name[:2] == "q."}
        q = FAMILIES[facts["family"]](**leaves)
    post = Posterior(
        q=q,
        model=None if facts["model"] is None else from_spec(facts["model"]),
        values=arrays["values"],
        times=times,
        time_unit=unit,
        history={
            name.removeprefix("history."): array
            for name, array in arrays.items()
            if name.startswith("history.")
        },
        parameters={
            place: LearntNumber(arrays[f"values of {place}"], arrays[f"weights of {place}"])
            for place in facts["parameters"]
        },
        quantiles=arrays.get("quantiles"),
        **{name: facts[name] for name in _PLAIN},
    )
    _check_built(post)
    return post


def _check_built(post):
    """Refuse a posterior whose model, series, path and learnt numbers do not go together."""
    if not (np.isfinite(post.sd) & (post.sd > 0)).all():
        raise ValueError("a standard deviation of the path is not a positive number")
    if post.model is None:
        return
    shape = post.mean.shape[1:]
    if post.model.prior.shape != shape:
        raise ValueError(f"the path has shape {shape} at a step, and the prior {post.model.prior.shape}")
    with jax.enable_x64(True):
        post._observations()
    shapes = {
        f"{part}.{name}": np.shape(value)
        for part in ("prior", "likelihood")
        for name, value in vars(getattr(post.model, part)).items()
        if name != "shape"
    }
    for place, number in post.parameters.items():
        if shapes.get(place) != number.values.shape[1:]:
            raise ValueError(f"the learnt number {place} is none of the model's, or has another shape")


def _times(times, facts):
    """The times of the steps and their unit; early files have all dates in nanoseconds."""
    if "time_unit_ns" not in facts:
        return checked_times(times, facts["times"], facts["time_unit"])
    dates, nanoseconds = facts["dates"], facts["time_unit_ns"]
    unit = None if nanoseconds is None else [nanoseconds, "timedelta64[ns]"]
    times, unit = checked_times(times, None if dates is None else "datetime64[ns]", unit)
    if dates is not None:
        check_type(dates, "datetime64", "dates")
        times = times.astype(dates)
    return times, unit
