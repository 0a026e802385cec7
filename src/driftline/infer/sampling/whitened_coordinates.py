r"""Coordinates in which a posterior is nearly standard normal: learnt numbers, and the noise of the path.

Given the numbers $\theta$, a path is $z = m(\theta) + B(\theta)^{-1}\epsilon$. If mean and factor stayed
where the fit has them, numbers and path would depend on each other strongly, as a scale and the steps that
it scales do. So they move with the numbers, by one Newton step from the fit at the centre,

$$\Lambda(\theta) = \Lambda_q + H(\theta) - H(\hat\theta), \qquad
  m(\theta) = \mu_q + \Lambda(\theta)^{-1} (g(\theta) - g(\hat\theta)),$$

with g and -H the gradient and the band of the Hessian of the log joint at $\mu_q$. For a linear model with
Gaussian noise that is the posterior of the path itself. Every change of coordinates is exact, with its
Jacobian; how well it fits only decides how fast a sampler is.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from driftline.families import AbstractBanded
from driftline.infer import newton
from driftline.infer.curvature import precision_like
from driftline.infer.number_vector import Layout
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.parameters import with_values

FOLLOWED = ("everything", "the prior", "nothing")  # by the path's coordinates, in the order they are tried


class Position(NamedTuple):
    """Where a sampler is: standardised numbers (K,), and the noise of the path."""

    numbers: Float[Array, " K"]
    noise: Float[Array, " T *shape"]


class Place(NamedTuple):
    """What a position stands for: learnt numbers without bounds, and the path."""

    raw: Float[Array, " K"]
    path: Float[Array, " T *shape"]


class Coordinates(eqx.Module):
    """A model as a density over positions.

    Attributes:
        template: The model, with learnt numbers at any value.
        observations: The series.
        layout: How the learnt numbers lie in a vector.
        center: Where they are at the origin.
        factor: Lower triangular; turns standardised numbers into those without bounds.
        q: The fit with the numbers at the centre.
        bands: Diagonal and off-diagonal of q's precision less that of the model there.
        slope: Gradient of the log joint at q's mean, with the numbers at the centre.
        followed: What the path's coordinates follow of the numbers.
    """

    template: Model
    observations: Observations
    layout: Layout = eqx.field(static=True)
    center: Float[Array, " K"]
    factor: Float[Array, " K K"]
    q: AbstractBanded
    bands: Any
    slope: Any
    followed: str = eqx.field(static=True)

    def log_density(self, position: Position) -> Float[Array, ""]:
        """Log of the posterior density times the evidence, at a position."""
        place, model, log_det = self._at(position)
        stretch = jnp.sum(jnp.log(jnp.diagonal(self.factor))) - log_det
        joint = model.log_joint(place.path, self.observations)
        return joint + self.layout.log_prior(place.raw) + stretch

    def log_weight(self, position: Position) -> Float[Array, ""]:
        """The same, beside the standard normal density: constant if the fit is the posterior."""
        squares = jnp.sum(position.numbers**2) + jnp.sum(position.noise**2)
        many = position.numbers.size + position.noise.size
        return self.log_density(position) + 0.5 * (squares + many * jnp.log(2.0 * jnp.pi))

    def place(self, position: Position) -> Place:
        """The numbers and the path that a position stands for."""
        return self._at(position)[0]

    def _at(self, position: Position) -> tuple[Place, Model, Float[Array, ""]]:
        raw = self.center + self.factor @ position.numbers
        model = with_values(self.template, self.layout.values(raw))
        q = self._moved(model)
        return Place(raw, q.mean + q.unwhiten(position.noise)), model, q.log_det()

    def _moved(self, model: Model) -> AbstractBanded:
        if self.followed == "nothing":
            return self.q
        model = _part(model, self.template, self.followed)
        diag, off = _precision(self.q, model, self.observations)
        linear = _slope(self.q, model, self.observations) - self.slope
        moved = type(self.q).from_natural(linear, self.bands[0] + diag, self.bands[1] + off)
        return eqx.tree_at(lambda moved: moved.mean, moved, self.q.mean + moved.mean)


def coordinates(
    model: Model,
    observations: Observations,
    q: AbstractBanded,
    layout: Layout,
    raws: np.ndarray,
    weights: np.ndarray,
) -> Coordinates:
    """Coordinates around a fit, for the model that it was fitted to.

    Args:
        model: The model, with learnt numbers at any value.
        observations: The series.
        q: Where the fit of the path starts.
        layout: How the learnt numbers lie in a vector; of no numbers if none are learnt.
        raws: Points of the learnt numbers, (P, K).
        weights: Their weights.
    """
    center = weights @ raws
    apart = raws - center
    covariance = apart.T @ (weights[:, None] * apart) + 1e-12 * np.eye(len(center))
    at_center = with_values(model, layout.values(jnp.asarray(center)))
    state = newton.refit(at_center, observations, q)
    q = state.q if np.isfinite(float(state.elbo)) else q
    likely = raws[weights > 1e-3 * weights.max()]
    factor = np.linalg.cholesky(covariance)
    for followed in FOLLOWED if len(center) else FOLLOWED[-1:]:
        part = _part(at_center, at_center, followed)
        diag, off = _precision(q, part, observations)
        own = q.precision()
        found = Coordinates(
            at_center, observations, layout, jnp.asarray(center), jnp.asarray(factor), q,
            (own[0] - diag, own[1] - off), _slope(q, part, observations), followed,
        )  # fmt: skip
        if followed == FOLLOWED[-1] or _holds(found, jnp.asarray(likely)):
            return found
    raise AssertionError("the last kind of coordinates always holds")


_precision = eqx.filter_jit(precision_like)


@eqx.filter_jit
def _slope(q: AbstractBanded, model: Model, observations: Observations) -> Float[Array, " T *shape"]:
    return jax.grad(lambda path: model.log_joint(path, observations))(q.mean)


def _part(model: Model, reference: Model, followed: str) -> Model:
    """The model, or one with the likelihood of the reference where that is not followed."""
    return model if followed == "everything" else Model(model.prior, reference.likelihood)


@eqx.filter_jit
def _holds(found: Coordinates, raws: Float[Array, " P K"]) -> Bool[Array, ""]:
    """Whether precisions stay positive definite at all of some points, and near enough to the fit's."""

    def one(raw):
        model = with_values(found.template, found.layout.values(raw))
        q = found._moved(model)
        return jnp.isfinite(q.log_det()) & jnp.all(jnp.isfinite(q.mean))

    return jnp.all(jax.lax.map(one, raws))
