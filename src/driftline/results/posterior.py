"""What a fit returns: moments, intervals, samples, tables, plots, and files of them."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import dataclasses
import os
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Key

from driftline.families import (
    AbstractBanded,
    AbstractFamily,
    BlockGaussMarkov,
    FullRank,
    GaussMarkov,
    MeanField,
)
from driftline.families.padding import fill
from driftline.infer import newton
from driftline.infer.judging.corrected_draws import corrected_sample
from driftline.infer.judging.diagnosis import Diagnosis, Judged, diagnose
from driftline.infer.start import starting_family
from driftline.models.model import Model
from driftline.models.model_json import from_spec, shapes_of, to_spec
from driftline.models.observations import Observations, as_times, observe
from driftline.models.parameters import Support
from driftline.results import asked_times
from driftline.results.intervals import central
from driftline.results.learnt_number import LearntNumber
from driftline.results.posterior_checks import check
from driftline.results.prediction import Prediction, predict
from driftline.results.refined import Refined
from driftline.results.refining import Problem, points_of, refined
from driftline.storage import checked_files as files
from driftline.storage.explained_errors import refusing_unsound
from driftline.storage.kinds import FileKind

KIND = FileKind("posterior", 1, "a posterior", "`save` of a posterior")
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
        quantiles: Quantiles of that mixture for every step, those of a table of probabilities, in
            standard deviations from the mean; None where the marginals are those of `q`, which are normal.
        supports: Where the learnt numbers may be and what was believed of them; not kept in files.
        mean: Mean of the path at every step, (T, *shape).
        sd: Its standard deviation, likewise.
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
    supports: dict[str, Support] = dataclasses.field(default_factory=dict)
    mean: np.ndarray = dataclasses.field(init=False)
    sd: np.ndarray = dataclasses.field(init=False)

    def __post_init__(self):
        num_steps = len(self.q.mean)
        with jax.enable_x64(True):
            variances = np.asarray(_variances(fill(self.q)))[:num_steps]
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
            corrected: Whether to draw from the posterior itself, as near as tempering comes to it, and not
                from the Gaussian that was fitted to it.
            seed: The same seed gives the same numbers.
        """
        if n < 1:
            raise ValueError(f"sample draws at least one path, got n={n}")
        with jax.enable_x64(True):
            if corrected:
                fit = self._judged()
                return corrected_sample(
                    fit.model, fit.observations, self._start(), fit.layout, fit.points, n, seed
                )
            return np.asarray(_draw(self.q, jr.split(jr.key(seed), n)))

    def diagnose(self, *, seed: int = 0) -> Diagnosis:
        """Say how good the fit is; print what comes back.

        Draws of the fit are carried to the posterior by tempering, together with the learnt numbers. That
        gives the log evidence, and with it the divergence between fit and posterior; and along which
        direction the fit is off most. Fits from other starts look for other tops. Filters that are guided by
        the fit tell where in time it is off. What cannot be seen is said, too.
        """
        with jax.enable_x64(True):
            return diagnose(self._judged(), seed)

    def _judged(self) -> Judged:
        model, observations = self._known_model(), self._observations()
        known = {place: self.parameters[place] for place in self.supports}
        layout, points = points_of(known, self.supports)
        q, mean, sd, elbo, error = self.q, self.mean, self.sd, self.elbo, self.elbo_error
        if self.parameters and (not self.supports or len(points[1]) == 1):
            # Nothing is known of the numbers but their values: the path given their means is judged.
            layout, points = points_of({}, {})
            state = newton.refit(model, observations, q.banded())
            q, elbo, error = state.q, float(state.elbo), 0.0
            mean, sd = np.asarray(q.mean), np.sqrt(np.asarray(q.variances()))
        return Judged(q, mean, sd, elbo, error, self.converged, model, observations, layout, points)

    def _start(self) -> AbstractBanded:
        """A family with a band, from which the path can be fitted again."""
        if isinstance(self.q, AbstractBanded):
            return self.q
        model, observations = self._known_model(), self._observations()
        return starting_family(model, self.q.mean, observations, "chains")

    def forecast(self, steps: int | None = None, *, times: Any = None) -> Prediction:
        """Predict the path, and what will be observed of it, after the last step.

        Args:
            steps: Number of steps ahead, each as long as the median gap of the series; or
            times: the times themselves, after the last one, for a prior that knows time.

        A `Diffusion` prior pulls towards zero at every step, so that steps which are added change it.
        """
        return self._predict(asked_times.times_ahead(self._known_model(), self.times, steps, times))

    def at(self, times: Any) -> Prediction:
        """The path, and what would be observed of it, at any times between and beyond the observed ones.

        Args:
            times: In any order; the answer keeps it.
        """
        return self._predict(asked_times.times_between(self._known_model(), self.times, times))

    def refine(
        self, draws: int = 1000, chains: int = 4, *, warmup: int = 300, seed: int = 0, progress: Any = None
    ) -> Refined:
        """Draw from the posterior itself, by NUTS in coordinates in which this fit is a standard normal.

        Path and learnt numbers are drawn together. Needs BlackJAX: `pip install 'driftline[mcmc]'`. Ctrl-C
        returns the draws so far.

        All chains start around this fit. Other tops of the posterior are searched for from several starts;
        the verdict tells of those that hold some of it and that no chain visits.

        Args:
            draws: Of every chain.
            chains: How many, side by side.
            warmup: Draws of every chain that come before, and are thrown away.
            seed: The same seed gives the same draws.
            progress: True or False, a function that takes a `DrawProgress`, or None for a line on a terminal.

        Returns:
            A `Refined`, with the face of this posterior, and with `r_hat`, `ess`, `divergences`, `elsewhere`,
            `verdict`.
        """
        return refined(
            self._problem(), draws=draws, chains=chains, warmup=warmup, seed=seed, progress=progress
        )

    def _problem(self) -> Problem:
        return Problem(
            self._known_model(), self.values, self.times, self.time_unit, self.structure, self.parameters,
            self.supports,
        )  # fmt: skip

    @property
    def structure(self) -> str:
        """How the elements of a step go together in `q`: as "chains" of their own, or in one "block"."""
        return self.q.structure

    def _known_model(self) -> Model:
        if self.model is None:
            raise ValueError(
                "this posterior was loaded from a file, which does not keep functions, so its model is not "
                "known; fit it again to use this"
            )
        return self.model

    def _observations(self) -> Observations:
        model = self._known_model()
        _, gaps, _ = as_times(self.times, None, len(self.values), self.time_unit)
        return observe(self.values, gaps, model.likelihood, model.prior.shape)

    def _predict(self, new_times: np.ndarray) -> Prediction:
        return predict(
            self._known_model(), self.values, self.times, self.time_unit, new_times, self.parameters,
            self.structure,
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
        from driftline.interop.arviz import to_arviz

        return to_arviz(self, draws, corrected=corrected, seed=seed)

    def plot(self, probability: float = 0.9, *, ax: Any = None, **options: Any) -> Any:
        """Draw mean and band against time with matplotlib; returns the axes."""
        from driftline.report.plot import plot

        return plot(self, probability, ax=ax, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file that `dl.load` reads; a model with functions is left out."""
        arrays = {f"q.{name}": np.asarray(leaf) for name, leaf in vars(self.q).items()}
        arrays |= {f"history.{name}": column for name, column in self.history.items()}
        for place, number in self.parameters.items():
            arrays |= {f"values of {place}": number.values, f"weights of {place}": number.weights}
        if self.quantiles is not None:
            arrays["quantiles"] = self.quantiles
        times, facts = asked_times.stored(self.times, self.time_unit)
        facts |= {
            "family": type(self.q).__name__,
            "model": None if self.model is None else to_spec(self.model),
            "parameters": list(self.parameters),
            **{name: getattr(self, name) for name in _PLAIN},
        }
        files.write(path, KIND, arrays | {"values": self.values, "times": times}, facts)

    def __repr__(self):
        shape = "×".join(str(size) for size in self.mean.shape)
        return f"Posterior({shape} by {self.method}, ELBO {self.elbo:.3f}, {self.message})"


@eqx.filter_jit
def _variances(q: AbstractFamily) -> Array:
    return q.variances()


@eqx.filter_jit
def _draw(q: AbstractFamily, keys: Key[Array, " n"]) -> Array:
    def one(key: Key[Array, ""]) -> Array:
        return q.sample(key).path

    return jax.vmap(one)(keys)


_PLAIN = ("method", "elbo", "elbo_error", "converged", "iterations", "message")


def load(path: str | os.PathLike[str]) -> Posterior:
    """Read a posterior that `Posterior.save` wrote; a damaged or inconsistent file is refused."""
    arrays, facts = files.read(path, KIND)
    with refusing_unsound(path, "a sound posterior", "fit and save it again"):
        check(arrays, facts)
        return _built(arrays, facts)


def _built(arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> Posterior:
    times, unit = asked_times.restored(arrays["times"], facts)
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


def _check_built(post: Posterior) -> None:
    """Refuse a posterior whose model, series, path and learnt numbers do not go together."""
    if not (np.isfinite(post.sd) & (post.sd > 0)).all():
        raise ValueError("a standard deviation of the path is not a positive number")
    if post.model is None:
        return
    shape = post.mean.shape[1:]
    if post.model.prior.shape != shape:
        raise ValueError(f"the path has shape {shape} at a step, and the prior {post.model.prior.shape}")
    with jax.enable_x64(True):
        post._observations()  # pyright: ignore[reportPrivateUsage], it is of this file
    shapes = shapes_of(post.model)
    for place, number in post.parameters.items():
        if shapes.get(place) != number.values.shape[1:]:
            raise ValueError(f"the learnt number {place} does not belong to the model, or has another shape")
