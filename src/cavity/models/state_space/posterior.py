"""The posterior of a state-space model: transition, emission and states."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inference.graph.rows import Rows
from cavity.inference.variables.chain import ChainBelief
from cavity.means import AbstractMean
from cavity.models.base import AbstractModel
from cavity.models.deep.layer import LayerProcess
from cavity.numerics.types import Float


class States(NamedTuple):
    """The posterior of the states, given all outputs.

    Attributes:
        mean: means.
        cov: covariances of the states of a row.
        cross: covariances of the states of the row before with those of a row; zero where a row
            starts a series.
    """

    mean: Float[np.ndarray, "T D"]
    cov: Float[np.ndarray, "T D D"]
    cross: Float[np.ndarray, "T D D"]

    @property
    def var(self) -> Float[np.ndarray, "T D"]:
        """Variances."""
        return np.diagonal(self.cov, axis1=1, axis2=2)


class StateSpacePosterior(eqx.Module):
    """The posterior of a state-space model at fixed parameters.

    Attributes:
        model: the model.
        transition: the functions that give the next state, with process noise.
        emission: the functions that give outputs: affine, or with Gaussian process posteriors.
        chain: the states, with padding.
        rows: the data, with padding.
        single: whether y was given as a vector.
    """

    model: AbstractModel
    transition: LayerProcess
    emission: LayerProcess | AbstractMean
    chain: ChainBelief
    rows: Rows
    single: bool = eqx.field(static=True)

    @property
    def states(self) -> States:
        """The posterior of the states of the training rows."""
        count = int(jnp.sum(self.rows.side["series"] >= 0.0))
        chain = self.chain
        return States(*(np.asarray(a)[:count] for a in (chain.mean, chain.cov, chain.cross)))
