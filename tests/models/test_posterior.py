"""The posterior process: marginals, joints, samples and predictions, full and sparse."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.models import posterior as module
from tests.equivalence.problem import known_noise, problem
from tests.tolerances import assert_close


@pytest.fixture(scope="module", params=[False, True], ids=["sparse", "full"])
def posed(request):
    p = problem()
    return p.but(Z=None) if request.param else p


@pytest.fixture(scope="module")
def posterior(posed):
    return posed.infer(0.5).posterior


@pytest.fixture(scope="module")
def several(posed):
    """Three outputs with holes."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=(len(posed.X), 3))
    y = np.where(rng.uniform(size=y.shape) < 0.2, np.nan, y)
    return cavity.infer(posed.model, posed.X, y, missing="skip").posterior, y


def test_shapes_follow_the_outputs(posed, posterior, several):
    """A vector y gives vectors; a matrix of one column or more gives matrices."""
    S, n = posed.S, len(posed.S)
    assert [a.shape for a in posterior.marginals(S)] == [(n,), (n,)]
    assert [a.shape for a in posterior.joint(S)] == [(n,), (n, n)]
    assert posterior.sample(S, 4, key=jax.random.key(0)).shape == (4, n)
    assert posterior.predict(S).quantile(0.5).shape == (n,)
    many, _ = several
    assert [a.shape for a in many.marginals(S)] == [(n, 3), (n, 3)]
    assert [a.shape for a in many.joint(S)] == [(n, 3), (3, n, n)]
    assert many.sample(S, 4, key=jax.random.key(0)).shape == (4, n, 3)
    assert many.predict(S).quantile(jnp.array([0.1, 0.9])).shape == (2, n, 3)
    column = posed.but(y=posed.y[:, None]).infer(0.5).posterior
    assert [a.shape for a in column.marginals(S)] == [(n, 1), (n, 1)]
    assert_close(column.marginals(S).mean[:, 0], posterior.marginals(S).mean)
    assert_close(column.joint(S).cov[0], posterior.joint(S).cov)


def test_marginals_are_the_diagonal_of_the_joint(posed, posterior, several):
    for found in (posterior, several[0]):
        marginals, joint = found.marginals(posed.S), found.joint(posed.S)
        assert_close(marginals.mean, joint.mean)
        diagonal = jnp.diagonal(joint.cov, axis1=-2, axis2=-1)
        assert_close(marginals.var, jnp.moveaxis(diagonal, 0, -1), "factorised")
        assert_close(joint.cov, jnp.swapaxes(joint.cov, -1, -2), "factorised")


def test_samples_have_the_moments_of_the_joint(posed, posterior, several):
    """Within five standard errors; the same key gives the same samples."""
    n = 4000
    for found in (posterior, several[0]):
        draws = np.asarray(found.sample(posed.S, n, key=jax.random.key(3)))
        joint = found.joint(posed.S)
        sd = np.sqrt(np.asarray(found.marginals(posed.S).var))
        assert np.all(np.abs(draws.mean(axis=0) - joint.mean) < 5 * sd / np.sqrt(n) + 1e-12)
        outputs = draws[..., None] if draws.ndim == 2 else draws
        covariances = np.reshape(joint.cov, (-1, len(posed.S), len(posed.S)))
        for i, cov in enumerate(covariances):
            scale = np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
            error = np.abs(np.cov(outputs[..., i].T) - cov)
            assert np.all(error < 5 * 1.5 * scale / np.sqrt(n))
    one, two = (posterior.sample(posed.S, 3, key=jax.random.key(5)) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_samples_at_repeated_inputs_agree(posed, posterior):
    """A singular covariance is no obstacle."""
    S = np.concatenate([posed.S, posed.S])
    draws = posterior.sample(S, 5, key=jax.random.key(0))
    n = len(posed.S)
    np.testing.assert_allclose(draws[:, :n], draws[:, n:], atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_chunks_of_predictions_change_nothing(posed, posterior, device, monkeypatch):
    """Each row's moments are its own; three hundred rows take several chunks."""
    S = np.random.default_rng(0).uniform(0, 4, (300, 2))
    whole = posterior.marginals(S)
    budget, sizes = {"cpu": ("BUDGET", "CACHED"), "gpu": ("BUDGET_ON_GPU", "BUSY")}[device]
    monkeypatch.setattr(module, budget, 64 * posterior.size)
    monkeypatch.setattr(f"cavity.numerics.chunking.{sizes}", (32,))
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    chunked = posterior.marginals(S)
    assert_close(chunked.mean, whole.mean, "factorised")
    assert_close(chunked.var, whole.var, "factorised")
    alone = posterior.marginals(S[137:138])
    assert_close(alone.mean[0], whole.mean[137], "factorised")


def test_predictions_add_noise(posed, posterior):
    S = posed.S
    mean, var = posterior.marginals(S)
    predictive = posterior.predict(S)
    assert_close(predictive.mean, mean)
    assert_close(predictive.var, var + posed.noise)
    y = np.linspace(-1, 1, len(S))
    expected = -0.5 * (np.log(2 * np.pi * predictive.var) + (y - mean) ** 2 / predictive.var)
    assert_close(predictive.log_density(y), expected)


def test_noise_per_output(posed, several):
    """One learned noise variance per output."""
    _, y = several
    noise = np.array([0.1, 0.2, 0.7])
    found = cavity.infer(posed.but(noise=noise).model, posed.X, y, missing="skip").posterior
    predictive, marginals = found.predict(posed.S), found.marginals(posed.S)
    assert_close(predictive.var - marginals.var, np.tile(noise, (len(posed.S), 1)), "factorised")


def test_known_noise_is_asked_for_again(posed):
    """A model fitted with known noise cannot guess that of new rows."""
    found = posed.but(known=known_noise()).infer(0.5).posterior
    with pytest.raises(ValueError, match="predicting y needs them too"):
        found.predict(posed.S)
    with pytest.raises(ValueError, match=r"one value per row, \(6,\), given shape \(4,\)"):
        found.predict(posed.S, rows={"noise_variance": np.ones(4)})
    noise = np.linspace(0.1, 0.6, 6)
    predictive = found.predict(posed.S, rows={"noise_variance": noise})
    assert_close(predictive.var, found.marginals(posed.S).var + noise)


def test_unknown_side_data_is_refused(posed, posterior):
    """A misspelt name must not be ignored."""
    with pytest.raises(ValueError, match=r"unknown side data \['noise'\]"):
        posterior.predict(posed.S, rows={"noise": np.ones(6)})


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("noise", "variance"), [(1e-12, 1.3), (1e-10, 1e4)])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_no_variance_is_ever_negative(posed, noise, variance, power):
    """Tiny noise, twice as many inducing points as rows, rows on top of each other."""
    X = np.concatenate([posed.X, posed.X[:5]])
    y = np.concatenate([posed.y, posed.y[:5]])
    rng = np.random.default_rng(0)
    Z = None if posed.Z is None else np.concatenate([X, X + 1e-9 * rng.normal(size=X.shape)])
    p = posed.but(X=X, y=y, Z=Z, noise=noise, variance=variance, lengthscale=10.0)
    found = p.infer(power).posterior
    for S in (X, posed.S, X + 1e-7, np.repeat(posed.S[:1], 4, axis=0)):
        assert np.all(found.marginals(S).var >= 0.0)
        assert np.all(np.isfinite(found.marginals(S).mean))
        assert np.all(np.diagonal(found.joint(S).cov) >= 0.0)
        assert np.all(found.predict(S).var > 0.0)
        assert np.all(np.isfinite(found.sample(S, 2, key=jax.random.key(0))))


def test_missing_outputs_are_left_out(posed):
    """NaN in single outputs: as if those rows were not there."""
    y = posed.y.copy()
    y[[2, 9]] = np.nan
    with pytest.raises(ValueError, match="y has 2 entries that are NaN"):
        posed.but(y=y).infer(0.5)
    found = posed.but(y=y).infer(0.5, missing="skip")
    keep = ~np.isnan(y)
    alone = posed.but(X=posed.X[keep], y=y[keep]).infer(0.5)
    assert_close(found.log_evidence, alone.log_evidence)
    a, b = (r.posterior.marginals(posed.S).mean for r in (found, alone))
    assert_close(a, b, "factorised")


def test_inside_jit_and_grad(posed, posterior):
    """A posterior is a pytree, and its marginals are functions to differentiate."""
    S = jnp.asarray(posed.S)
    mean, var = posterior.marginals(S)

    @eqx.filter_jit
    def inside(posterior, S):
        return posterior.marginals(S)

    assert_close(inside(posterior, S).mean, mean, "factorised")
    assert_close(inside(posterior, S).var, var, "factorised")

    def first(s):
        return posterior.marginals(s[None]).mean[0]

    slope = jax.grad(first)(S[0])
    for d in range(2):
        step = 1e-5 * np.eye(2)[d]
        numeric = (first(S[0] + step) - first(S[0] - step)) / 2e-5
        assert_close(slope[d], numeric, "gradient", scale=1.0)


@pytest.mark.parametrize(
    ("S", "message"),
    [
        (np.zeros((3, 5)), "X has 5 columns, the model was fitted with 2"),
        (np.zeros(3), "X must be a matrix"),
        (np.full((2, 2), np.nan), "X has 4 entries that are NaN"),
        (np.zeros((0, 2)), "X has no rows"),
    ],
)
def test_unusable_inputs_are_refused(posterior, S, message):
    for use in (posterior.marginals, posterior.joint, posterior.predict):
        with pytest.raises(ValueError, match=message):
            use(S)
    with pytest.raises(TypeError, match="X must hold numbers"):
        posterior.marginals(np.array([["a", "b"]]))
