"""Learning that does not wait for sites to converge (bui S29)."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.inference.energy import batch_energy, energy
from tests.equivalence.problem import laid_out
from tests.tolerances import assert_close

RNG = np.random.default_rng(4)
X = np.sort(RNG.uniform(-2.0, 2.0, 40))[:, None]
LABELS = (np.sin(3.0 * X[:, 0]) + 0.6 * RNG.standard_normal(40) > 0.0).astype(float)
POINTS = inducing.Points(np.linspace(-2.0, 2.0, 6)[:, None])


def model(points):
    return cavity.GP(kernels.RBF(1.0, 1.5), likelihoods.Bernoulli(), points)


def test_energies_of_minibatches_are_unbiased():
    graph, data = laid_out(model(POINTS), X, LABELS, power=0.7)
    found = cavity.infer(model(POINTS), X, LABELS, power=0.7)
    value = eqx.filter_jit(batch_energy)
    parts = [
        value(graph, found.found, jnp.asarray(rows), jnp.asarray(4.0))
        for rows in np.split(np.arange(40), 4)
    ]
    assert data.rows.y.shape[0] == 64
    assert_close(np.mean(parts), eqx.filter_jit(energy)(graph, found.found), "factorised")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("points", "batch"), [(POINTS, None), (POINTS, 10), (None, None)], ids=["all", "some", "full"]
)
def test_it_ends_near_where_converged_sites_lead(points, batch):
    waited = cavity.fit(model(points), X, LABELS)
    method = cavity.PowerEP(interleaved=300, batch=batch)
    seen = []
    found = cavity.fit(model(points), X, LABELS, method=method, callback=seen.append)
    start = cavity.infer(model(points), X, LABELS)
    assert len(seen) == found.n_iterations == 300
    gained = waited.log_evidence - start.log_evidence
    assert waited.log_evidence - found.log_evidence < 0.35 * gained
    assert found.sites.finished_by == "parallel sweeps" or batch is not None
    assert "steps of Adam" in found.message
    hasty = cavity.PowerEP(interleaved=10, learning_rate=1e-5)
    assert not cavity.fit(model(points), X, LABELS, method=hasty).converged


def test_without_iterations_parameters_stay():
    method = cavity.PowerEP(interleaved=10)
    fitted = cavity.fit(model(None), X, LABELS, method=method, max_iterations=0)
    assert float(fitted.model.kernel.lengthscale) == 1.5
    assert fitted.converged


def test_settings_that_cannot_be():
    with pytest.raises(ValueError, match="interleaved must be at least 1"):
        cavity.PowerEP(interleaved=0)
    with pytest.raises(ValueError, match="learning_rate must be positive"):
        cavity.PowerEP(interleaved=5, learning_rate=-1.0)
