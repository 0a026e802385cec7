"""Models: a Markov prior over paths, a likelihood at each step, and the observations that they meet."""

from driftline.models.function_likelihood import Likelihood as Likelihood
from driftline.models.likelihoods import Bernoulli as Bernoulli
from driftline.models.likelihoods import Binomial as Binomial
from driftline.models.likelihoods import Categorical as Categorical
from driftline.models.likelihoods import Gaussian as Gaussian
from driftline.models.likelihoods import LogVolatility as LogVolatility
from driftline.models.likelihoods import NegativeBinomial as NegativeBinomial
from driftline.models.likelihoods import Poisson as Poisson
from driftline.models.likelihoods import StudentT as StudentT
from driftline.models.markov_prior import MarkovPrior as MarkovPrior
from driftline.models.model import Model as Model
from driftline.models.parameters import learn as learn
from driftline.models.priors import AR1 as AR1
from driftline.models.priors import Diffusion as Diffusion
from driftline.models.priors import OrnsteinUhlenbeck as OrnsteinUhlenbeck
from driftline.models.priors import RandomWalk as RandomWalk
from driftline.models.stochastic_volatility import StochasticVolatility as StochasticVolatility
