"""Linear means of estimators: weights that are integrated out."""

import numpy as np
import pytest

import cavity
from cavity import means
from cavity.estimators import settings as build
from tests.estimators.problem import problem


def test_a_linear_mean_is_as_uncertain_as_least_squares():
    rng = np.random.default_rng(0)
    x = rng.uniform(1.0, 2.0, 30)
    y = np.log(x) + 0.05 * rng.standard_normal(30)
    model = cavity.GPRegressor(mean="linear", random_state=0).fit(x[:, None], y)
    slope, cov = np.polyfit(x, y, 1, cov="unscaled")
    errors = np.sqrt(np.diag(cov)[0] * np.sum((np.polyval(slope, x) - y) ** 2) / 28)
    _, std = model.predict([[50.0]], return_std=True)
    assert std[0] > 0.9 * 48.5 * errors
    found = model.mean_
    assert abs(found.weights[0] - slope[0]) < 3.0 * found.weight_deviations[0] > 0.0
    assert "Sum" not in type(model.kernel_).__name__


@pytest.mark.parametrize(
    ("chosen", "kind"),
    [
        ({}, means.BayesianLinear),
        ({"n_inducing": 5}, means.Linear),
        ({"standardise": False}, means.Linear),
        ({"method": "mcmc"}, means.Linear),
        ({"mean": means.Linear([0.0, 0.0])}, means.Linear),
    ],
)
def test_weights_of_a_linear_mean_are_integrated_out_in_full_models(chosen, kind):
    """Inducing points would have to carry them; draws integrate over them anyway."""
    X, y = problem()
    settings = build.Settings(**{"mean": "linear"} | chosen)
    starts, _ = build.build(settings, X, y[:, None], {})
    assert type(starts[0].mean) is kind
