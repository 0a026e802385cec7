"""Series filled up with steps that take no part, so that similar lengths share one compiled program.

An infinite gap makes the extra steps independent standard normals, and as they are not observed they add
nothing to the ELBO. `families.padding` does the same for what was fitted.
"""

import jax
import numpy as np

from driftline.linalg.lengths import padded_length
from driftline.models.abstract_likelihood import AbstractLikelihood
from driftline.models.observations import Observations
from driftline.models.parameters import numbers_of


def pad(observations: Observations, likelihood: AbstractLikelihood) -> Observations:
    """Fill a series up to a power of two with steps that are cut off and not observed.

    A likelihood with a number for every single step, such as exposures, is left as it is.
    """
    num_steps = len(observations.values)
    length = padded_length(num_steps)
    if any(likelihood.is_per_step(leaf, observations.values) for leaf in numbers_of(likelihood)):
        return observations
    extra = length - num_steps

    def filled(array, value):
        array = np.asarray(array)
        return jax.device_put(np.concatenate([array, np.broadcast_to(value, (extra, *array.shape[1:]))]))

    values = np.asarray(observations.values)
    return Observations(
        filled(values, values[-1]),
        filled(observations.observed, False),
        filled(np.broadcast_to(observations.spacing, (num_steps - 1,)), np.inf),
    )
