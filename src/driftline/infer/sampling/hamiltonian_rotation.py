r"""Hamiltonian steps that are exact for a standard normal.

A sampler in coordinates whitened by a good fit meets a density $N(\epsilon; 0, I)\,e^{w(\epsilon)}$ with w
nearly flat. The leapfrog rule spends its steps on the normal part, and needs smaller ones the more
coordinates there are. Here that part is followed exactly, as a rotation of position and momentum, and only
the gradient of w gives kicks (Neal 2011, section 5.5.1; Beskos et al. 2011). So the step does not shrink with
the length of a series if the fit is good, and is as small as leapfrog's if it is not.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def rotated(position: Any, momentum: Any, angle: Any) -> tuple[Any, Any]:
    """Position and momentum after some time under a standard normal."""
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return (
        jax.tree.map(lambda x, p: cos * x + sin * p, position, momentum),
        jax.tree.map(lambda x, p: cos * p - sin * x, position, momentum),
    )


def rotating(log_density: Callable[[Any], Any], kinetic_energy: Any = None) -> Callable[[Any, Any], Any]:
    """A step of the given angle, as BlackJAX wants its integrators: volume-preserving and reversible.

    Args:
        log_density: Of a position, any pytree of arrays.
        kinetic_energy: Not used: that of a unit mass. It is there because BlackJAX hands it over.
    """
    value_and_gradient = jax.value_and_grad(log_density)

    def kicked(momentum, gradient, position, angle):
        # What the density says beyond a standard normal, whose gradient is minus the position.
        return jax.tree.map(lambda p, g, x: p + angle * (g + x), momentum, gradient, position)

    def step(state, angle):
        position, momentum, _, gradient = state
        momentum = kicked(momentum, gradient, position, 0.5 * angle)
        position, momentum = rotated(position, momentum, angle)
        value, gradient = value_and_gradient(position)
        momentum = kicked(momentum, gradient, position, 0.5 * angle)
        return type(state)(position, momentum, value, gradient)

    return step
