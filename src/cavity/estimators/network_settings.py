"""Settings of estimators of networks."""

import dataclasses
from typing import Any

from cavity.estimators.asked_types import Count, LikelihoodAsked, PowerAsked, WidthsAsked
from cavity.families.network import NETWORK
from cavity.families.values import one_of
from cavity.inference.networks.activations import activation_of
from cavity.learning.initialisation.linear import PRIORS
from cavity.models.network.checks import checked_widths
from cavity.weights.base import AbstractWeightPrior


@dataclasses.dataclass(eq=False, repr=False)
class AbstractNetworkSettings:
    """Settings of a network; see `NetworkRegressor` for each."""

    hidden: WidthsAsked = 10
    prior: object = "ard"
    likelihood: LikelihoodAsked = "gaussian"
    activation: object = "erf"
    linear: object = False
    power: PowerAsked = 1.0
    groups: object = None
    n_restarts: Count = 2
    batch: object = None
    steps: object = 2000
    standardise: object = True
    max_iterations: Count = 100
    tolerance: object = 1e-2
    random_state: object = None


def check_network_settings(asked: AbstractNetworkSettings) -> None:
    """Refuses impossible settings before any work."""
    checked_widths(asked.hidden)
    NETWORK.check(asked)
    activation: Any = asked.activation
    activation_of(activation)
    prior: Any = asked.prior
    if isinstance(prior, AbstractWeightPrior):
        gaussian = prior.gaussian
    else:
        gaussian = one_of("prior", prior, PRIORS) in ("ard", "gaussian")
    if asked.batch is not None and not gaussian:
        raise ValueError(
            f"batch is for Gaussian priors, 'ard' or 'gaussian', given prior={prior!r}: "
            "leave batch=None"
        )
