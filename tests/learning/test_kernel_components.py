"""Components of functions whose kernel is a sum, against dense formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means, weights
from cavity.diagnostics import kernel_components
from cavity.learning.diagnostics.kernel_components import summands
from tests.tolerances import assert_close

RNG = np.random.default_rng(0)
X = np.column_stack([np.linspace(0.0, 4.0, 9), RNG.uniform(-1.0, 1.0, 9)])
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.7
NEW = RNG.uniform(-1.0, 4.0, (5, 2))
Z = X[::2]
NOISE, HEIGHT = 0.04, 0.7
KERNEL = kernels.RBF(1.5, 0.8).on(0) + 2.0 * (kernels.Linear(0.3) + kernels.Matern32(0.2, 2.0))


def dense_rbf(A, B):
    return 1.5 * np.exp(-0.5 * (A[:, None, 0] - B[None, :, 0]) ** 2 / 0.8**2)


def dense_linear(A, B):
    return 0.6 * A @ B.T


def dense_matern(A, B):
    r = np.sqrt(3.0) * np.linalg.norm(A[:, None] - B[None], axis=2) / 2.0
    return 0.4 * (1.0 + r) * np.exp(-r)


DENSE = (dense_rbf, dense_linear, dense_matern)


def dense_sum(A, B):
    return sum(k(A, B) for k in DENSE)


def infer(points=None, kernel=KERNEL, mean=None, power=0.0, y=Y):
    mean = means.Constant(HEIGHT) if mean is None else mean
    where = None if points is None else inducing.Points(points)
    model = cavity.GP(kernel, likelihoods.Gaussian(NOISE), where, mean)
    return cavity.infer(model, X, y, power=power, jitter=1e-14)


def test_of_a_full_gp_they_are_posteriors_of_independent_terms():
    found = kernel_components(infer(), NEW)
    inverse = np.linalg.inv(dense_sum(X, X) + NOISE * np.eye(len(X)))
    for i, k in enumerate(DENSE):
        cross = k(NEW, X)
        assert_close(found.mean[i], cross @ inverse @ (Y - HEIGHT), "factorised")
        variance = np.diag(k(NEW, NEW) - cross @ inverse @ cross.T)
        assert_close(found.var[i], variance, "factorised")
    assert_close(found.offset, np.full(len(NEW), HEIGHT))
    assert found.names == ("rbf[0]", "2 * linear", "2 * matern32")


def test_of_a_sparse_one_they_are_what_inducing_points_say():
    found = kernel_components(infer(Z), NEW)
    Kuu, Kuf = dense_sum(Z, Z), dense_sum(Z, X)
    known = np.linalg.inv(Kuu + Kuf @ Kuf.T / NOISE)
    for i, k in enumerate(DENSE):
        cross = k(NEW, Z)
        assert_close(found.mean[i], cross @ known @ Kuf @ (Y - HEIGHT) / NOISE, "factorised")
        left = np.diag(k(NEW, NEW) - cross @ (np.linalg.inv(Kuu) - known) @ cross.T)
        assert_close(found.var[i], left, "factorised")


def test_a_compressed_posterior_has_them_too():
    result = infer(Z)
    compressed = cavity.fitting.compressed(result.posterior)
    one, other = (kernel_components(p, NEW) for p in (result.posterior, compressed))
    assert_close(other.mean, one.mean, "factorised")
    assert_close(other.var, one.var, "factorised")


@pytest.mark.parametrize("points", [None, Z], ids=["full", "sparse"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_means_and_the_prior_mean_add_up(points, outputs):
    y = Y if outputs == 1 else np.column_stack([Y, -Y])
    result = infer(points, power=0.5, y=y)
    found = kernel_components(result.posterior, NEW, ["a", "b"])
    total = np.asarray(result.posterior.marginals(NEW).mean)
    assert found.mean.shape == (3, *total.shape) == found.var.shape
    assert_close(found.mean.sum(axis=0) + found.offset, total, "factorised")
    assert found.names[0] == "rbf[a]"


def test_a_mean_that_is_integrated_out_is_a_component():
    result = infer(mean=means.BayesianLinear([0.0, 0.0], HEIGHT))
    found = kernel_components(result, NEW)
    assert found.names[-1] == "linear mean"
    total = np.asarray(result.posterior.marginals(NEW).mean)
    assert_close(found.mean.sum(axis=0) + found.offset, total, "factorised")


def test_of_several_latent_functions_the_first_and_of_classes_all():
    model = cavity.GP(
        (kernels.RBF() + kernels.Linear(), kernels.RBF()), likelihoods.HeteroscedasticGaussian()
    )
    result = cavity.infer(model, X, Y)
    found = kernel_components(result, NEW)
    total = np.asarray(result.posterior.of_function(0).marginals(NEW).mean)
    assert_close(found.mean.sum(axis=0) + found.offset, total, "factorised")
    labels = np.arange(9) % 3.0
    classes = cavity.GP(kernels.RBF() + kernels.Linear(), likelihoods.Softmax(3))
    result = cavity.infer(classes, X, labels)
    found = kernel_components(result, NEW)
    assert found.mean.shape == (2, 5, 3)
    total = np.asarray(result.posterior.marginals(NEW).mean)
    assert_close(found.mean.sum(axis=0) + found.offset, total, "factorised")


def test_summands_keep_factors_and_columns():
    both = 2.0 * (kernels.RBF() + kernels.Matern12()).on(1) + kernels.Linear() * kernels.RBF()
    parts = summands(both)
    assert len(parts) == 3
    cross = sum(k.cross(jnp.asarray(X), jnp.asarray(NEW)) for k in parts)
    assert_close(cross, both.cross(jnp.asarray(X), jnp.asarray(NEW)))


def test_what_has_no_components_says_so():
    with pytest.raises(ValueError, match=r"kernel that is a sum.*this one is rbf"):
        kernel_components(infer(kernel=kernels.RBF()), NEW)
    linear = cavity.LinearModel(weights.Gaussian(1.0), likelihoods.Gaussian(0.1))
    with pytest.raises(ValueError, match="components are of one Gaussian process"):
        kernel_components(cavity.infer(linear, X, Y), NEW)
    with pytest.raises(ValueError, match="X has 1 column"):
        kernel_components(infer(), NEW[:, :1])


def test_single_precision_is_kept():
    with jax.enable_x64(False):
        model = cavity.GP(kernels.RBF() + kernels.Linear(), likelihoods.Gaussian(0.1))
        result = cavity.infer(model, jnp.asarray(X), jnp.asarray(Y))
        found = kernel_components(result, jnp.asarray(NEW))
        assert found.mean.dtype == np.float32
