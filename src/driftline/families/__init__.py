"""Gaussian families over paths: parameters, sampling, density, entropy and the band of the covariance."""

from driftline.families.banded import AbstractBanded as AbstractBanded
from driftline.families.base import AbstractFamily as AbstractFamily
from driftline.families.base import Draw as Draw
from driftline.families.block_gauss_markov import BlockGaussMarkov as BlockGaussMarkov
from driftline.families.full_rank import FullRank as FullRank
from driftline.families.gauss_markov import GaussMarkov as GaussMarkov
from driftline.families.mean_field import MeanField as MeanField
from driftline.families.moments import AbstractMoments as AbstractMoments
from driftline.families.moments import BlockMoments as BlockMoments
from driftline.families.moments import ChainMoments as ChainMoments
