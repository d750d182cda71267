"""Settings of forecasters, checked before any work."""

from numbers import Real
from typing import Any

from cavity.estimators.latent_settings import latent_kernel, latent_likelihood
from cavity.estimators.registry import one_of, whole
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.state_space.forecast import PROPAGATIONS
from cavity.numerics.linalg import MOST_JITTER

# Posteriors of states.
STATES = ("chain", "factorised", "conditional", "tied")


def checked_settings(forecaster: Any) -> AbstractLikelihood:
    """Refuses impossible settings of a `GPForecaster`; gives its likelihood.

    Raises:
        ValueError: naming the first.
    """
    for name in ("n_states", "n_inducing", "n_paths"):
        whole(name, getattr(forecaster, name), 1)
    for name in ("n_restarts", "max_iterations"):
        whole(name, getattr(forecaster, name), 0)
    for name, most in {"power": 1.0, "jitter": MOST_JITTER}.items():
        value = getattr(forecaster, name)
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not 0.0 <= float(value) <= most:
            raise ValueError(f"{name} must be a number in [0, {most:g}], given {value!r}")
    one_of("emission", forecaster.emission, ("linear", "identity"))
    one_of("propagation", forecaster.propagation, PROPAGATIONS)
    one_of("hidden", forecaster.hidden, STATES)
    if forecaster.hidden == "conditional" and forecaster.power != 0.0:
        raise ValueError('hidden="conditional" is variational: give power=0.0')
    if forecaster.batch is not None:
        whole("batch", forecaster.batch, 2, "None (all rows) or ")
        if forecaster.hidden != "tied":
            raise ValueError(
                f'minibatches go with hidden="tied", given hidden="{forecaster.hidden}": give '
                'hidden="tied", or leave batch=None'
            )
    latent_kernel(forecaster.kernel, whole("n_states", forecaster.n_states, 1))
    return latent_likelihood(forecaster.likelihood)


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
