"""`fit_latent`: starts, minibatches, sites of inputs, and what it says where all is noise."""

import numpy as np
import pytest

import cavity
from cavity.kernels import RBF
from cavity.learning.initialisation.latent import LatentStart
from cavity.learning.plans import latent
from cavity.learning.plans.latent import fit_latent
from cavity.likelihoods import Gaussian

ROWS, POINTS = 30, 8


@pytest.fixture(scope="module")
def curve():
    """A curve in four dimensions."""
    random = np.random.default_rng(0)
    t = np.linspace(-1.5, 1.5, ROWS)
    Y = np.column_stack([np.sin(2.0 * t), np.cos(2.0 * t), t, t**2])
    Y += 0.05 * random.standard_normal(Y.shape)
    return (Y - Y.mean(axis=0)) / Y.std(axis=0)


def fitted(Y, encoder=False, **options):
    asked = LatentStart(RBF(1.0, [1.0]), Gaussian(0.01), 1, POINTS, encoder)
    return fit_latent(asked, Y, **options)


@pytest.mark.slow
def test_learning_does_not_end_where_all_is_noise(curve):
    """Also of a model that `fit` takes by itself: parameters wait for latent inputs."""
    Y = curve
    noise_alone = -0.5 * Y.size * (1.0 + np.log(2.0 * np.pi))
    Z = cavity.inducing.Points(np.linspace(-2.0, 2.0, POINTS)[:, None])
    model = cavity.GPLVM(RBF(lengthscale=1.0), Gaussian(0.1), Z)
    for result in (fitted(Y), cavity.fit(model, None, Y, power=0.0)):
        assert result.log_evidence > noise_alone + 50.0


def test_noise_alone_is_told():
    Y = np.random.default_rng(1).standard_normal((ROWS, 4))
    assert "everything noise" in fitted(Y).message


@pytest.mark.slow
@pytest.mark.parametrize("encoder", [False, True])
def test_minibatches_start_from_some_rows_and_place_all(curve, encoder, monkeypatch):
    monkeypatch.setattr(latent, "ROWS", 20)
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Moments(), batch=10, max_sweeps=20)
    for iterations in (0, 30):
        result = fitted(curve, method=method, encoder=encoder, max_iterations=iterations)
        assert result.posterior.latent.mean.shape == (ROWS, 1)
    assert result.n_iterations == 20


@pytest.mark.slow
def test_sites_of_inputs_start_from_variational_posteriors(curve):
    Y = curve
    variational = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(20))
    sites = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(20), input_sites=True)
    options = {"power": 0.25, "max_iterations": 20}
    first, second = (fitted(Y, method=method, **options) for method in (variational, sites))
    assert second.log_evidence > first.log_evidence - 1.0
    with pytest.raises(ValueError, match="takes the place of sites"):
        fitted(Y, method=sites, encoder=True)
