"""Structured variational inference for latent time series, and word embeddings that drift through time.

Public names load on first use: `import driftline` does not import JAX.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftline.families import BlockGaussMarkov as BlockGaussMarkov
    from driftline.families import FullRank as FullRank
    from driftline.families import GaussMarkov as GaussMarkov
    from driftline.families import MeanField as MeanField
    from driftline.fitting import fit as fit
    from driftline.infer.failures import DivergenceError as DivergenceError
    from driftline.loading import load as load
    from driftline.models import AR1 as AR1
    from driftline.models import Bernoulli as Bernoulli
    from driftline.models import Binomial as Binomial
    from driftline.models import Categorical as Categorical
    from driftline.models import Diffusion as Diffusion
    from driftline.models import Gaussian as Gaussian
    from driftline.models import Likelihood as Likelihood
    from driftline.models import LogVolatility as LogVolatility
    from driftline.models import MarkovPrior as MarkovPrior
    from driftline.models import Model as Model
    from driftline.models import NegativeBinomial as NegativeBinomial
    from driftline.models import OrnsteinUhlenbeck as OrnsteinUhlenbeck
    from driftline.models import Poisson as Poisson
    from driftline.models import RandomWalk as RandomWalk
    from driftline.models import StochasticVolatility as StochasticVolatility
    from driftline.models import StudentT as StudentT
    from driftline.models import learn as learn
    from driftline.results.panel import Panel as Panel
    from driftline.results.posterior import Posterior as Posterior
    from driftline.results.refined import Refined as Refined

__version__ = "0.1.0"

_HOMES = {
    "driftline.families": ("BlockGaussMarkov", "FullRank", "GaussMarkov", "MeanField"),
    "driftline.fitting": ("fit",),
    "driftline.infer.failures": ("DivergenceError",),
    "driftline.models": (
        "AR1",
        "Bernoulli",
        "Binomial",
        "Categorical",
        "Diffusion",
        "Gaussian",
        "Likelihood",
        "LogVolatility",
        "MarkovPrior",
        "Model",
        "NegativeBinomial",
        "OrnsteinUhlenbeck",
        "Poisson",
        "RandomWalk",
        "StochasticVolatility",
        "StudentT",
        "learn",
    ),
    "driftline.results.panel": ("Panel",),
    "driftline.loading": ("load",),
    "driftline.results.posterior": ("Posterior",),
    "driftline.results.refined": ("Refined",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]


def __getattr__(name):
    if name not in _HOME_OF:
        raise AttributeError(f"module 'driftline' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__():
    return __all__
