"""Settings of forecasters, checked before any work."""

from typing import Any

from cavity.estimators.latent_settings import latent_kernel, latent_likelihood
from cavity.families.forecaster import FORECASTER
from cavity.families.values import whole
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.likelihoods.base import AbstractLikelihood


def checked_settings(forecaster: Any) -> AbstractLikelihood:
    """Refuses impossible settings of a `GPForecaster`; gives its likelihood.

    Raises:
        ValueError: naming the first.
    """
    FORECASTER.check(forecaster)
    if forecaster.hidden == "conditional" and forecaster.power != 0.0:
        raise ValueError('hidden="conditional" is variational: give power=0.0')
    if forecaster.batch is not None and forecaster.hidden != "tied":
        raise ValueError(
            f'minibatches go with hidden="tied", given hidden="{forecaster.hidden}": give '
            'hidden="tied", or leave batch=None'
        )
    latent_kernel(forecaster.kernel, whole("n_states", forecaster.n_states, 1))
    return latent_likelihood(forecaster.likelihood)


def going_on(propagation: Any) -> dict[str, Any]:
    """Arguments `propagation` and `paths` of forecasts, of a setting that was checked."""
    if isinstance(propagation, str):
        return {"propagation": propagation}
    return {"propagation": "paths", "paths": int(propagation)}


def method_of(
    forecaster: Any, *, steps: int | None = None, seed: int = 0
) -> PowerEP | TiedPowerEP:
    """Method that learns a forecaster's model and finds its states.

    Args:
        forecaster: with settings that were checked.
        steps: of minibatches, where there are some; None for all rows at once.
        seed: of minibatches.
    """
    if forecaster.hidden == "conditional":
        return TiedPowerEP(hidden="conditional")
    if forecaster.hidden != "tied":
        return PowerEP(hidden=str(forecaster.hidden))
    if forecaster.batch is None or not steps:
        return TiedPowerEP()
    return TiedPowerEP(batch=int(forecaster.batch), max_sweeps=steps, seed=seed)
