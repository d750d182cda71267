"""Learning of a forecaster: its columns, its model, and a test on the end of the series."""

from typing import Any, NamedTuple, cast

import numpy as np

from cavity.estimators.forecaster_settings import checked_settings, going_on, method_of
from cavity.estimators.latent_map import Standardised, standardised
from cavity.estimators.latent_settings import check_values, latent_kernel
from cavity.estimators.time_tables import TimeData
from cavity.families.values import whole
from cavity.learning.free_simulation import ITERATIONS, FreeSimulation, free_simulation
from cavity.learning.initialisation.state_space import StateSpaceStart
from cavity.learning.plans.state_space import fit_state_space
from cavity.learning.plans.state_space_update import follow_states
from cavity.learning.results.result import FitResult
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.support import Support
from cavity.models.state_space.posterior import StateSpacePosterior


class Learned(NamedTuple):
    """A fit of a forecaster, with the units of its columns.

    Attributes:
        outputs: how outputs are standardised.
        controls: how controls are standardised.
        result: of the fit of all rows.
        simulated: scores of forecasts of the last rows from the earlier ones; None if there were
            none.
    """

    outputs: Standardised
    controls: Standardised
    result: FitResult
    simulated: FreeSimulation | None


def learned(
    forecaster: Any, data: TimeData, callback: Any, checkpoint: Any, *, seed: int
) -> Learned:
    """Learns from all rows.

    Args:
        forecaster: with the settings.
        data: the rows.
        callback: as in `GPForecaster.fit`.
        checkpoint: as in `GPForecaster.fit`.
        seed: of everything random.

    Raises:
        ValueError: for unusable rows or settings.
    """
    likelihood = checked_settings(forecaster)
    outputs = _outputs(data.y, likelihood)
    spread = data.X.std(axis=0)
    controls = Standardised(data.X.mean(axis=0), np.where(spread > 0.0, spread, 1.0))
    Y, X = outputs.forward(data.y), _controls(controls, data)
    states = whole("n_states", forecaster.n_states, 1)
    limit = whole("max_iterations", forecaster.max_iterations, 0)
    asked = StateSpaceStart(
        states,
        whole("n_inducing", forecaster.n_inducing, 1),
        str(forecaster.emission),
        latent_kernel(forecaster.kernel, states + data.X.shape[1]),
        # Gaussian noise starts from what the linear model leaves, one for each output
        None if forecaster.likelihood == "gaussian" else likelihood,
        seed,
    )
    result = fit_state_space(
        asked,
        Y,
        X,
        series=data.series,
        method=method_of(forecaster, steps=limit, seed=seed),
        n_restarts=whole("n_restarts", forecaster.n_restarts, 0),
        max_iterations=limit,
        callback=callback,
        checkpoint=checkpoint,
        **_numbers(forecaster),
    )
    simulated = None
    real = likelihood.support is Support.REAL
    if forecaster.calibrate and real and data.series is None and not result.interrupted:
        try:
            simulated = free_simulation(
                cast(StateSpacePosterior, result.posterior),
                Y,
                X,
                method=method_of(forecaster),
                propagation=going_on(forecaster.propagation)["propagation"],
                seed=seed,
                max_iterations=min(limit, ITERATIONS),
                **_numbers(forecaster),
            )
        except KeyboardInterrupt:
            result = result.stopped()
    if simulated is not None:
        result = result.saying(simulated.message)
    return Learned(outputs, controls, result, simulated)


def followed(
    forecaster: Any, data: TimeData, outputs: Standardised, controls: Standardised
) -> FitResult:
    """The posterior of all rows at the parameters that were learned.

    Args:
        forecaster: that has learned.
        data: the rows.
        outputs: how outputs are standardised.
        controls: how controls are standardised.
    """
    return follow_states(
        forecaster.posterior_,
        outputs.forward(data.y),
        _controls(controls, data),
        method=method_of(forecaster),
        **_numbers(forecaster),
    )


def _outputs(y: np.ndarray, likelihood: AbstractLikelihood) -> Standardised:
    """Units in which outputs are learned; refuses outputs that cannot be learned from."""
    names = [f"output {j}" for j in range(y.shape[1])]
    empty = np.isnan(y).all(axis=0)
    if np.any(empty):
        raise ValueError(f"{names[int(np.argmax(empty))]} has no value in any row")
    check_values(y, likelihood, names)
    outputs = standardised(y, likelihood.support, each=True)
    if not np.any(outputs.varying):
        raise ValueError("y is constant, so there are no dynamics to learn from it")
    return outputs


def _controls(controls: Standardised, data: TimeData) -> np.ndarray | None:
    """Controls, standardised; None where there are none."""
    return controls.forward(data.X) if data.X.shape[1] else None


def _numbers(forecaster: Any) -> dict[str, Any]:
    """Options of all inference."""
    return {
        "power": float(forecaster.power),
        "jitter": float(forecaster.jitter),
    }
