"""Starting values of latent-variable models: principal components, and several scales."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import Points
from cavity.inference.energy import Sites
from cavity.inference.graph.rows import Rows
from cavity.kernels.base import AbstractKernel
from cavity.learning.data.scales import Scales, in_data_units
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.inputs.encoder import SiteEncoder, linear_encoder
from cavity.models.inputs.views import principal_components
from cavity.models.latent.gplvm import GPLVM


@dataclasses.dataclass(frozen=True)
class LatentStarts:
    """Settings of `latent_starts`.

    Attributes:
        lengthscales: factors of the kernel's lengthscales to begin with.
        noise: factors of the noise variance to begin with, where noise is Gaussian.
        hidden: hidden units of an encoder's networks.
    """

    lengthscales: tuple[float, ...] = (1.0, 0.5)
    noise: tuple[float, ...] = (1.0, 10.0)
    hidden: int = 8


SETTINGS = LatentStarts()


def latent_starts(
    Y: np.ndarray,
    kernel: AbstractKernel,
    likelihood: AbstractLikelihood,
    *,
    dims: int,
    points: int,
    encoder: bool = False,
    seed: int = 0,
    settings: LatentStarts = SETTINGS,
) -> list[GPLVM]:
    """Models to start from, whose inducing points lie among the principal components of rows.

    Args:
        Y: outputs (N, P), NaN where missing.
        kernel: covariance function for latent inputs of unit variance.
        likelihood: density of an output.
        dims: latent dimensions.
        points: inducing points at the most.
        encoder: whether an encoder gives the posteriors of latent inputs.
        seed: of the clusters that place inducing points, and of the encoder.
        settings: which scales are tried.
    """
    filled = np.nan_to_num(Y, nan=0.0)
    presence = (~np.isnan(Y)).astype(float)
    rows = Rows(jnp.zeros((len(Y), 0)), jnp.asarray(filled), jnp.asarray(presence))
    X = np.asarray(principal_components(rows, dims), np.float64)
    Z = Points(select_inducing(kernel, X, points, choice="kmeans", seed=seed))
    network: SiteEncoder | None = None
    if encoder:
        network = linear_encoder(Y, dims, settings.hidden, seed)
    exact = likelihood.gaussian_noise is not None
    models = []
    for noise in settings.noise if exact else (1.0,):
        for factor in settings.lengthscales:
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
