"""Models and data that chains are for."""

import numpy as np

from cavity.inference.graph.rows import SLOPES
from cavity.learning.data.training_data import Data
from cavity.learning.mcmc.weights import check_weights
from cavity.learning.methods.mcmc import MCMC
from cavity.models.base import AbstractGP, AbstractModel
from cavity.models.latent_gp import shared_parameters


def check_draws(model: AbstractModel, data: Data, method: MCMC, *, learning: bool) -> None:
    """Refuses models and data that `MCMC` is not for.

    Raises:
        ValueError: for several outputs, an evidence that is not that of fixed parameters, and
            weights that cannot be drawn.
        TypeError: in 32-bit mode, and for models of other kinds.
    """
    weights = model.drawn_weights is not None
    if not weights and not isinstance(model, AbstractGP):
        raise TypeError(
            "MCMC() draws from Gaussian-process models, linear models and networks, given "
            f"{type(model).__name__}: use PowerEP() or TiedPowerEP()"
        )
    outputs = data.rows.y.shape[-1]
    if shared_parameters(model.likelihood):
        raise ValueError(
            "MCMC() draws every parameter: give it the likelihood itself, not Integrated"
        )
    if outputs > 1:
        raise ValueError(f"MCMC() takes one output, y has {outputs}: fit a model to each")
    if SLOPES in data.rows.side:
        raise ValueError("MCMC() takes values of the function, no slopes: use PowerEP()")
    if data.rows.weighted:
        raise ValueError(
            "MCMC() takes rows of weight 1: leave weights out, or use PowerEP() (on the command "
            "line --method power_ep)"
        )
    if data.rows.x.dtype != np.float64:
        raise TypeError(
            "MCMC() needs 64-bit numbers: give float64 inside `with jax.enable_x64(True):`"
        )
    if learning and method.temperatures is not None:
        raise ValueError(
            "MCMC(temperatures=...) estimates the log evidence at fixed parameters: leave it out "
            "in fit, and give it to cavity.infer with the fitted model"
        )
    if weights:
        check_weights(model, data.rows.x.shape[-1], method)
