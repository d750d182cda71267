"""Starting values of latent-variable models: principal components, and several scales."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import Points
from cavity.inference.energy import Sites
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import BlockSites
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inputs import InputMoments
from cavity.kernels.base import AbstractKernel
from cavity.learning.data.scales import Scales, in_data_units
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.inputs.encoder import linear_encoder
from cavity.models.inputs.views import principal_components
from cavity.models.latent.gplvm import GPLVM

# Factors of the kernel's lengthscales, and of a variance of Gaussian noise, that are tried.
LENGTHSCALES, NOISE = (1.0, 0.5), (1.0, 10.0)
# Hidden units of an encoder's networks.
HIDDEN = 8


@dataclasses.dataclass(frozen=True)
class LatentStart:
    """A latent-variable model as it was asked for.

    Attributes:
        kernel: covariance function for latent inputs of unit variance.
        likelihood: density of an output.
        dims: latent dimensions.
        points: inducing points at the most.
        encoder: whether an encoder gives the posteriors of latent inputs.
        seed: of the clusters that place inducing points, and of the encoder.
    """

    kernel: AbstractKernel
    likelihood: AbstractLikelihood
    dims: int
    points: int = 50
    encoder: bool = False
    seed: int = 0


def latent_starts(asked: LatentStart, Y: np.ndarray) -> list[GPLVM]:
    """Models to start from, whose inducing points lie among the principal components of rows.

    Args:
        asked: the model.
        Y: outputs (N, P), NaN where missing.
    """
    kernel, likelihood, dims = asked.kernel, asked.likelihood, asked.dims
    filled = np.nan_to_num(Y, nan=0.0)
    presence = (~np.isnan(Y)).astype(float)
    rows = Rows(jnp.zeros((len(Y), 0)), jnp.asarray(filled), jnp.asarray(presence))
    X = np.asarray(principal_components(rows, dims), np.float64)
    Z = Points(select_inducing(kernel, X, asked.points, choice="kmeans", seed=asked.seed))
    network = linear_encoder(Y, dims, HIDDEN, asked.seed) if asked.encoder else None
    models = []
    for noise in (1.0,) if likelihood.gaussian_noise is None else NOISE:
        for factor in LENGTHSCALES:
            unit, nothing = np.full(dims, factor), np.zeros(dims)
            scales = Scales(nothing, unit, nothing, 1.0)
            start = in_data_units(kernel, scales)
            wide = in_data_units(likelihood, dataclasses.replace(scales, y_spread=noise**0.5))
            models.append(GPLVM(start, wide, Z, encoder=network))
    return models


def with_sites(stores: Sites, count: int) -> Sites:
    """Sites on latent inputs in the place of the variational posteriors that they make.

    Args:
        stores: the tied sites and the posteriors of a GPLVM.
        count: rows without padding.
    """
    ((tied, moments),) = stores
    present = (jnp.arange(len(moments.mean)) < count)[:, None]
    return ((tied, moments.sites(present.astype(moments.mean.dtype))),)


def with_row_sites(belief: InducingBelief, moments: InputMoments, count: int) -> Sites:
    """Sites of every row that make a belief about inducing variables, and the inputs' posteriors.

    Args:
        belief: of which every row has an equal share.
        moments: posteriors of the latent inputs, padding included.
        count: rows without padding.
    """
    present = (jnp.arange(len(moments.mean)) < count)[:, None].astype(moments.mean.dtype)
    mean, cov = belief.dense()
    precision = jnp.linalg.inv(cov)
    share = (present / count)[:, :, None]
    shift = share * jnp.einsum("pij,pj->pi", precision, mean)
    functions = BlockSites(shift, share[..., None] * (precision - jnp.eye(mean.shape[1])))
    return ((functions, moments.sites(present)),)
