"""Settings of forecasters, checked before any work."""

from numbers import Real
from typing import Any

from cavity.estimators.latent_settings import latent_kernel, latent_likelihood
from cavity.estimators.registry import one_of, whole
from cavity.learning.methods import PowerEP, TiedPowerEP
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.state_space.forecast import PROPAGATIONS
from cavity.numerics.linalg import MOST_JITTER

# Posteriors of states.
STATES = ("chain", "factorised", "conditional")


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
    latent_kernel(forecaster.kernel, whole("n_states", forecaster.n_states, 1))
    return latent_likelihood(forecaster.likelihood)


def method_of(hidden: object) -> PowerEP | TiedPowerEP:
    """How a model with this posterior of states is learned."""
    if hidden == "conditional":
        return TiedPowerEP(hidden="conditional")
    return PowerEP(hidden=str(hidden))
