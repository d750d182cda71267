"""Parameters of models in the units of a table, by dotted name."""

from typing import Any

import numpy as np

from cavity.estimators.layers import layers_of
from cavity.learning.mcmc.chains import Chains, summarised
from cavity.likelihoods.base import LatentFunction
from cavity.models.base import AbstractModel
from cavity.numerics.tree import named
from cavity.parameters import Units, units


def diagnostics(chains: Chains, model: AbstractModel, output_scale: np.ndarray) -> dict[str, Any]:
    """Diagnostics of draws: how many, and how far they can be trusted, as JSON values.

    Args:
        chains: draws of the model's parameters.
        model: any of the models, for the units of its parameters.
        output_scale: divisor of the output, (1,).
    """
    measured, latents = named(units(model)), model.likelihood.latent_functions
    moved = {
        name: _in_units(name, values, measured[name], output_scale, latents)
        for name, values in chains.parameters.items()
    }
    count, draws = chains.stats["lp"].shape
    rhat, ess = chains.worst
    return {
        "chains": count,
        "draws": draws,
        "rhat": rhat,
        "ess": ess,
        "divergences": chains.divergences,
        "parameters": summarised(moved, chains.rhat, chains.ess),
    }


def parameters(
    model: AbstractModel, output_scale: np.ndarray, *, known_noise: bool = False
) -> dict[str, Any]:
    """The parameters of a model by dotted name, in the units of the data, as JSON values.

    Where several outputs share a parameter that is measured in their units, and their scales
    differ, it becomes a list with a value for each output.

    Args:
        model: the model.
        output_scale: divisor of each output, (P,).
        known_noise: whether the noise variance of each row was known. The likelihood's own has
            no effect then and was not learned, and is left out.
    """
    measured, layers = named(units(model)), layers_of(model)
    found = {}
    for name, value in named(model).items():
        if known_noise and name == "likelihood.variance":
            continue
        if np.issubdtype(np.asarray(value).dtype, np.integer):
            continue  # groups, which are no parameters
        array, latents = np.asarray(value, float), model.likelihood.latent_functions
        unit, own = measured[name], name
        if layers and name.startswith("layers."):
            _, layer, own = name.split(".", 2)
            own = own.replace("mean.means.", "mean.")
            # hidden values have no units
            unit = unit if int(layer) == len(layers) - 1 else Units()
        found[name] = _in_units(own, array, unit, output_scale, latents).tolist()
    return found


def _in_units(
    name: str,
    array: np.ndarray,
    unit: object,
    scale: np.ndarray,
    latents: tuple[LatentFunction, ...],
) -> np.ndarray:
    """A parameter in the units of the data, whether or not it is measured in those of outputs."""
    if isinstance(unit, Units) and unit.output and np.any(scale != 1.0):
        return _unscaled(name, array, unit, scale, latents)
    return array


def _unscaled(
    name: str,
    array: np.ndarray,
    unit: Units,
    scale: np.ndarray,
    latents: tuple[LatentFunction, ...],
) -> np.ndarray:
    """A parameter in the units of the data, from one of outputs that were divided by `scale`."""
    owner, index = [*name.split("."), ""][:2]
    if len(latents) > 1 and owner in ("kernel", "mean") and index.isdigit():
        latent = latents[int(index)]
        if not latent.units.output:
            shift = latent.log_output * np.log(scale[0]) if owner == "mean" else 0.0
            return np.asarray(array + shift)
    if len(scale) == 1:
        return np.asarray(array * scale[0] ** unit.output)
    own = name.startswith(("mean.", "likelihood.")) and array.ndim
    return (array if own else array[..., None]) * scale**unit.output
