"""Estimators that go on learning: `partial_fit`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.estimators.asked_constraints import by_name
from cavity.estimators.asked_priors import asked_priors_of_stream
from cavity.estimators.learning import Learned
from cavity.estimators.settings import AUTO_INDUCING, Settings
from cavity.kernels.text_syntax import Mentioned
from cavity.learning.data.row_weights import presence_of, weights_of
from cavity.learning.streaming.result import kept_result
from cavity.learning.streaming.update import update
from cavity.models.remembered import with_points_at_rows


def for_streams(settings: Settings, rows: int) -> Settings:
    """Settings of the first batch: as many inducing points as there may be, and one power.

    Raises:
        ValueError: for methods, blocks and full GPs, which have no past that is small.
    """
    _check(settings)
    count = most_points(settings)
    power = settings.fixed_power
    return dataclasses.replace(settings, n_inducing=min(count, rows), power=power)


def most_points(settings: Settings) -> int:
    """The most inducing points of a model that goes on learning."""
    return int(settings.n_inducing or 0) if settings.counts_points else AUTO_INDUCING


def _check(settings: Settings) -> None:
    if settings.block_size is not None:
        raise ValueError("partial_fit keeps no blocks of rows: set block_size=None")
    if settings.n_inducing is None:
        raise ValueError(
            "a full GP grows with its rows, so partial_fit needs inducing points: set n_inducing "
            'to a number such as 200, or leave "auto"'
        )
    text = settings.kernel if isinstance(settings.kernel, str) else "rbf"
    asked = settings.fixed or settings.bounds or by_name(settings.priors) is not None
    if asked or Mentioned(text).values:
        raise ValueError(
            "partial_fit learns all parameters again from every batch: leave fixed, bounds and "
            'values in the text of the kernel out, and priors at "weak" or "none"'
        )
    if np.ndim(settings.power):
        raise ValueError("partial_fit takes one power for all rows, given one per row")
    if settings.method != "power_ep":
        raise ValueError(
            f'partial_fit works with method="power_ep", given method={settings.method!r}'
        )


def learned_on(
    estimator: Any,
    settings: Settings,
    X: np.ndarray,
    y: np.ndarray,
    side: Mapping[str, Any],
    half_life: float | None,
) -> Learned:
    """Update a fitted estimator with further rows.

    Args:
        estimator: a fitted `GPRegressor` or `GPClassifier`.
        settings: its settings.
        X: inputs of the rows, (N, D).
        y: outputs, (N,) or (N, P), divided by their scale.
        side: side data by name, (N,) each.
        half_life: rows after which those from before count half; None for never.
    """
    _check(settings)
    observed = estimator.n_observed_
    value = estimator.log_evidence_ + float(observed @ np.log(estimator.output_scale_))
    jitter = float(settings.jitter) if estimator.inducing_ is None else estimator.jitter_
    before = kept_result(
        estimator.posterior_,
        value,
        rows=estimator.n_rows_,
        jitter=jitter,
        tallies=estimator.tallies_,
        priors=asked_priors_of_stream(settings),
    )
    if estimator.inducing_ is None:
        before = dataclasses.replace(
            before, posterior=with_points_at_rows(estimator.posterior_, jitter)
        )
    result = update(
        before,
        X,
        y,
        power=float(settings.fixed_power),
        inducing="grow",
        max_inducing=most_points(settings),
        rows=dict(side) or None,
        missing=str(settings.missing),
        half_life=half_life,
    )
    seen = np.sum(presence_of(y.reshape(len(y), -1), weights_of(side)), axis=0)
    return Learned(result, observed + seen, result.rows_seen, settings.power)
