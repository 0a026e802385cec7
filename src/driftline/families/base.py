"""What every variational family offers; written for one path, batches come from `jax.vmap`."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import abc
import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key

if TYPE_CHECKING:
    from driftline.families.banded import AbstractBanded

LOG_2PI = math.log(2.0 * math.pi)


class Draw(NamedTuple):
    """A path and the standard normal noise that it was made from."""

    path: Float[Array, " T *shape"]
    noise: Float[Array, " T *shape"]


class AbstractFamily(eqx.Module):
    r"""A Gaussian over paths $z = \mu + B^{-1} \epsilon$ whose precision is $\Lambda = B^\top B$.

    The leaves hold `mean` and the entries of the factor $B$. A gradient with respect to the parameters is
    an object of the same class that holds the derivatives in place of the values.
    """

    mean: eqx.AbstractVar[Float[Array, " T *shape"]]
    # Which band stands for it: "chains" of single elements, or one "block" chain of all of them.
    structure: ClassVar[str] = "chains"

    def __reduce__(self):
        # Copies for other processes go through NumPy: JAX's own come back in its default precision, which
        # may be single.
        leaves = vars(self)
        on_device = {name: np.asarray(leaf) for name, leaf in leaves.items() if isinstance(leaf, jax.Array)}
        others = {name: leaf for name, leaf in leaves.items() if name not in on_device}
        return _remade, (type(self), on_device, others)

    @abc.abstractmethod
    def unwhiten(self, noise: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        r"""The deviation $y = B^{-1} \epsilon$ from the mean (eq. 9)."""

    @abc.abstractmethod
    def whiten(self, deviation: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        r"""The noise $\epsilon = B y$ that belongs to a deviation from the mean."""

    @abc.abstractmethod
    def whiten_transposed(self, noise: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        r"""The product $B^\top \epsilon$; minus it is the score $\nabla_z \log q$."""

    @abc.abstractmethod
    def log_det(self) -> Float[Array, ""]:
        r"""$\log \det B = \frac12 \log \det \Lambda$."""

    @abc.abstractmethod
    def variances(self) -> Float[Array, " T *shape"]:
        """Marginal variances."""

    @abc.abstractmethod
    def lag_covariances(self) -> Float[Array, " lags *shape"]:
        """Covariances of each element with itself one step later."""

    @abc.abstractmethod
    def trace_with_precision_of(self, other: "AbstractFamily") -> Float[Array, ""]:
        r"""$\operatorname{tr}(\Lambda_{\text{other}} \Sigma_{\text{self}})$."""

    @abc.abstractmethod
    def pull_back(
        self, deviation: Float[Array, " T *shape"], score: Float[Array, " T *shape"]
    ) -> "AbstractFamily":
        r"""Gradient of $\log p(\mu + B^{-1}\epsilon)$ for one draw (eqs. 12-14).

        Making the draw took one solve; carrying the gradient back takes one with the transpose.

        Args:
            deviation: The deviation $y = B^{-1}\epsilon$ of the draw from the mean.
            score: The gradient $\gamma = \nabla_z \log p$ at the draw.
        """

    @abc.abstractmethod
    def entropy_gradient(self) -> "AbstractFamily":
        r"""Gradient of the entropy: $-1/\nu$ for the diagonal of the factor, zero elsewhere."""

    @abc.abstractmethod
    def moved(self, step: "AbstractFamily") -> "AbstractFamily":
        r"""This member after a step; $\nu$ moves by a mirror step and so stays positive (eq. 21).

        Steps in the factor are relative to $\nu$, so that they do not depend on the units of the path.
        """

    @abc.abstractmethod
    def banded(self) -> "AbstractBanded":
        """The same density as a member of a family with a band."""

    def sample(self, key: Key[Array, ""]) -> Draw:
        """Draw one path, and the noise it was made from."""
        noise = jr.normal(key, self.mean.shape, self.mean.dtype)
        return Draw(self.mean + self.unwhiten(noise), noise)

    def log_prob(self, path: Float[Array, " T *shape"]) -> Float[Array, ""]:
        """Log density of a path, with all constants."""
        return self.log_prob_of_noise(self.whiten(path - self.mean))

    def log_prob_of_noise(self, noise: Float[Array, " T *shape"]) -> Float[Array, ""]:
        """Log density of the path that `noise` makes; spares the product with the factor."""
        return self.log_det() - 0.5 * jnp.sum(noise * noise) - 0.5 * self.mean.size * LOG_2PI

    def entropy(self) -> Float[Array, ""]:
        """Entropy in nats, with all constants (eq. 6)."""
        return 0.5 * self.mean.size * (1.0 + LOG_2PI) - self.log_det()

    def divergence(self, other: "AbstractFamily") -> Float[Array, ""]:
        r"""$\mathrm{KL}(\text{self} \,\|\, \text{other})$; O(T) for the families with a band."""
        noise = other.whiten(self.mean - other.mean)
        expected = 0.5 * (jnp.sum(noise * noise) + self.trace_with_precision_of(other))
        return expected - 0.5 * self.mean.size + self.log_det() - other.log_det()


def mirror_step(value: Float[Array, "..."], step: Float[Array, "..."]) -> Float[Array, "..."]:
    """Move a positive number by a step relative to half its size; it stays positive (eq. 21)."""
    half = 0.5 * step
    size = jnp.abs(half)
    root = jnp.where(size > 1e15, size, jnp.sqrt(half * half + 1.0))  # a longer step's square overflows
    # Both forms are the same number; each cancels where the other does not.
    return jnp.where(half < 0, value / (root - half), value * (half + root))


def _remade(
    family: type[AbstractFamily], on_device: dict[str, np.ndarray], others: dict[str, Any]
) -> AbstractFamily:
    """A member from its leaves, in the precision that they have."""
    with jax.enable_x64(True):
        arrays = {name: jax.device_put(array) for name, array in on_device.items()}
    return family(**arrays, **others)
