"""The contract of models, factors, views and terms, by two models that this file alone defines.

A Gaussian process whose inputs are Gaussian variables: a tied site on the inducing variables
stands beside private sites on the inputs, and the term comes from the moments of the kernel under
a Gaussian input. And a linear model whose weights have Laplace priors: a factor whose rows
observe nothing, beside a likelihood factor on the same variable.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import cavity
from cavity.inference.approximations.local_terms import (
    AbstractLocalTerm,
    PowerMeanTerm,
    differentiated,
)
from cavity.inference.energy import Graph
from cavity.inference.factors.base import Edge
from cavity.inference.factors.exact import ExactRegression
from cavity.inference.factors.local import LocalFactor
from cavity.inference.factors.slots import Tied
from cavity.inference.graph.base import (
    AbstractBelief,
    AbstractProjectedView,
    AbstractSiteView,
    AbstractVariable,
    AbstractView,
    Messages,
)
from cavity.inference.graph.marginals import Latent, Marginal, Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.variables.gaussian_sites import projected_gaussian_messages
from cavity.inference.variables.given import Given
from cavity.inference.variables.inducing import WhitenedInducing
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from cavity.likelihoods import AbstractLikelihood, Gaussian
from cavity.models.base import AbstractModel
from cavity.numerics.linalg import cholesky_and_inverse, jittered
from cavity.parameters import positive

# ---- (b) weights with Laplace priors


class RowView(AbstractProjectedView):
    """Rows see linear projections of the weights."""

    loadings: Any  # from rows to a matrix M x N

    def project(self, rows):
        zero = jnp.zeros(rows.y.shape[0])
        return Projection(self.loadings(rows), zero, jnp.zeros_like(rows.y))

    def gaussian_messages(self, variable, rows, noise_variance, power, chunk):
        return projected_gaussian_messages(self, variable, rows, noise_variance, power, chunk)


class WeightPosterior(eqx.Module):
    """Means and variances of the weights."""

    mean: jax.Array
    var: jax.Array


class SparseLinear(AbstractModel):
    """y = Xw + noise, with a standard normal times a Laplace density for every weight."""

    likelihood: AbstractLikelihood
    scale: jax.Array = positive()

    sparse = True

    def check(self, rows):
        """Any columns will do."""

    def check_approximation(self, approximation, *, natural):
        """Any approximation will do."""

    def graph(self, rows, settings):
        power, chunk = settings.power, settings.chunk
        columns = rows.x.shape[1]
        data = Edge(0, RowView(lambda rows: rows.x.T))
        weights = Edge(0, RowView(lambda rows: rows.x.T))
        zero = jnp.zeros((columns, 1), rows.y.dtype)
        prior = Rows(jnp.eye(columns, dtype=rows.x.dtype), zero, jnp.ones_like(zero))
        noise = self.likelihood.noise_variance
        term = PowerMeanTerm(cavity.likelihoods.Laplace(self.scale))
        return Graph(
            variables=(WhitenedInducing(columns),),
            regressions=(ExactRegression((data,), rows, chunk, noise, power),),
            factors=(LocalFactor((weights,), prior, columns, term, power),),
        )

    def posterior(self, graph, q, rows, *, single):
        mean, cov = q[0].dense()
        return WeightPosterior(mean[0], jnp.diagonal(cov[0]))


def weight_by_quadrature(precision, shift, scale):
    """Log evidence, mean and variance of one weight, given its Gaussian term of the data."""

    def log_density(w):
        prior = stats.norm.logpdf(w) + stats.laplace.logpdf(w, scale=scale)
        return prior + shift * w - 0.5 * precision * w**2

    peak = max(log_density(w) for w in np.linspace(-3.0, 3.0, 601))

    def moment(power):
        integrand = lambda w: w**power * np.exp(log_density(w) - peak)  # noqa: E731
        options = {"points": [0.0, shift / precision], "epsabs": 1e-13}
        return integrate.quad(integrand, -8.0, 8.0, **options)[0]

    zeroth, first, second = (moment(power) for power in range(3))
    mean = first / zeroth
    return np.log(zeroth) + peak, mean, second / zeroth - mean**2


def test_a_prior_is_a_factor_whose_rows_observe_nothing(rng):
    """Where the design is orthogonal, the posterior is a product of one-dimensional ones."""
    n, p, noise, scale = 12, 3, 0.3, 0.4
    X = np.linalg.qr(rng.standard_normal((n, p)))[0] * 2.0
    y = X @ np.array([1.0, 0.0, -0.3]) + np.sqrt(noise) * rng.standard_normal(n)
    model = SparseLinear(Gaussian(noise), jnp.asarray(scale))
    found = cavity.infer(model, X, y, power=1.0)
    assert found.converged
    data = [(x @ x / noise, x @ y / noise) for x in X.T]
    logs, means, variances = zip(*(weight_by_quadrature(*d, scale) for d in data), strict=True)
    evidence = sum(logs)
    evidence += np.sum(stats.norm.logpdf(y, scale=np.sqrt(noise)))
    assert found.log_evidence == pytest.approx(evidence, abs=1e-7)
    np.testing.assert_allclose(found.posterior.mean, means, atol=1e-7)
    np.testing.assert_allclose(found.posterior.var, variances, rtol=1e-6)


@pytest.mark.slow
def test_learning_the_scale_of_the_prior(rng):
    """Its gradient is that of the energy with sites found anew."""
    X = np.linalg.qr(rng.standard_normal((20, 4)))[0] * 3.0
    y = X @ np.array([1.5, 0.0, 0.0, -1.0]) + 0.3 * rng.standard_normal(20)
    model = SparseLinear(Gaussian(0.1), jnp.asarray(0.5))
    result = cavity.fit(model, X, y, power=0.5)
    assert result.converged
    assert result.log_evidence > cavity.infer(model, X, y, power=0.5).log_evidence + 0.1


# ---- (a) inputs that are Gaussian variables


class InputBelief(AbstractBelief):
    """Independent Gaussians for the coordinates of every row's input."""

    mean: jax.Array
    var: jax.Array
    log_normaliser: jax.Array


class Inputs(AbstractVariable):
    """Inputs with Gaussian priors about given values."""

    mean: jax.Array
    var: jax.Array

    def belief(self, messages):
        precision = 1.0 + self.var * messages.precision  # over the prior's
        shift = messages.shift - messages.precision * self.mean  # about the prior mean
        var = self.var / precision
        value = messages.shift * self.mean - 0.5 * messages.precision * self.mean**2
        value = value + 0.5 * var * shift**2 - 0.5 * jnp.log(precision)
        return InputBelief(self.mean + var * shift, var, jnp.sum(value + messages.log_scale))


class InputView(AbstractSiteView):
    """Every row sees its own input, with a scalar site on each coordinate."""

    def empty_sites(self, rows):
        return ScalarSites(jnp.zeros_like(rows.x), jnp.zeros_like(rows.x))

    def presence(self, rows):
        return jnp.broadcast_to(jnp.max(rows.presence, axis=1, keepdims=True), rows.x.shape)

    def marginal(self, belief, rows, sites=None):
        return self.at((belief.mean, belief.var), rows)

    def at(self, moments, rows):
        return Marginal(*moments, jnp.zeros(()), jnp.zeros(()))

    def messages(self, variable, rows, sites):
        return Messages(sites.shift, sites.precision, jnp.zeros(()))

    def without_site(self, belief, rows, sites):
        mean, var, ok = sites.cavity(belief.mean, belief.var, 1.0)
        return Latent(mean, var, jnp.zeros(())), ok


class WholeView(AbstractView):
    """Every row sees all inducing variables."""

    def presence(self, rows):
        return jnp.broadcast_to(jnp.max(rows.presence, axis=1, keepdims=True), rows.x.shape)

    def marginal(self, belief, rows, sites=None):
        cov = jnp.swapaxes(belief.root, -1, -2) @ belief.root
        return self.at((belief.mean.reshape(len(cov), -1), cov), rows)

    def at(self, moments, rows):
        return Marginal(*moments, jnp.zeros(()), jnp.zeros(()))


class LayerTerm(AbstractLocalTerm):
    """The log power mean of a likelihood of f(x), with Gaussian f given x moment-matched.

    For a squared-exponential kernel, whose expectations under a Gaussian input are closed forms.
    """

    model: Any
    root: jax.Array  # L⁻¹

    def stationary(self, power):
        return True

    def log_mean(self, latents, rows, power):
        (m, S, _), (x, v, _) = latents
        mean, var = jax.vmap(lambda x, v: self._output(m[0], S[0], x, v))(x, v)
        likelihood = self.model.likelihood
        return likelihood.log_power_mean(mean[:, None], var[:, None], rows.y, power, rows.columns)

    def derivatives(self, latents, rows, power):
        return differentiated(self.log_mean, latents, rows, power)

    def log_density(self, latents, rows):
        return self.log_mean(latents, rows, 1.0)

    def _output(self, m, S, x, v):
        """Mean and variance of f(x) under the cavities of u and x."""
        variance, ell = self.model.kernel.variance, self.model.kernel.lengthscale**2
        Z = self.model.inducing.Z
        spread = ell + v
        scale = variance * jnp.sqrt(jnp.prod(ell / spread * jnp.ones_like(v)))
        first = scale * jnp.exp(-0.5 * jnp.sum((x - Z) ** 2 / spread, axis=1))
        middle = 0.5 * (Z[:, None] + Z[None])
        half = 0.5 * ell + v
        scale = variance**2 * jnp.sqrt(jnp.prod(0.5 * ell / half * jnp.ones_like(v)))
        apart = jnp.exp(-0.25 * jnp.sum((Z[:, None] - Z[None]) ** 2 / ell, axis=2))
        second = scale * apart * jnp.exp(-0.5 * jnp.sum((x - middle) ** 2 / half, axis=2))
        a, A = self.root @ first, self.root @ second @ self.root.T
        mean = a @ m
        # E[k - aᵀa] + E[aᵀ(S + mmᵀ)a] - mean²
        return mean, variance - jnp.trace(A) + jnp.sum(A * (S + jnp.outer(m, m))) - mean**2


class NoisyInputs(AbstractModel):
    """A sparse GP whose inputs are only known up to a variance."""

    kernel: cavity.kernels.RBF
    likelihood: AbstractLikelihood
    inducing: cavity.inducing.Points
    input_variance: jax.Array = positive()

    sparse = True

    def check(self, rows):
        """Any columns will do."""

    def check_approximation(self, approximation, *, natural):
        """Any approximation will do."""

    def graph(self, rows, settings):
        power, jitter, chunk, scale = (
            settings.power,
            settings.jitter,
            settings.chunk,
            settings.scale,
        )
        Z = self.inducing.Z
        Kuu = jittered(self.kernel.cross(Z, Z), jitter, self.kernel.diag(Z))
        _, root = cholesky_and_inverse(Kuu)
        total = settings.observed(rows)
        inputs = Inputs(rows.x, jnp.broadcast_to(self.input_variance, rows.x.shape))
        tied = Edge(0, WholeView(), Tied(Z.shape[0], total.per_output))
        edges = (tied, Edge(1, InputView()))
        factor = LocalFactor(edges, rows, chunk, LayerTerm(self, root), power, scale=scale)
        return Graph((Given(), inputs), factors=(factor,))

    def posterior(self, graph, q, rows, *, single):
        return q


TIED = cavity.TiedPowerEP(max_sweeps=400, tolerance=1e-9)


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(4)
    X = np.sort(rng.uniform(-2.0, 2.0, 20))[:, None]
    y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(20)
    kernel, points = (
        cavity.kernels.RBF(1.3, 0.8),
        cavity.inducing.Points(np.linspace(-2, 2, 5)[:, None]),
    )
    return X, y, kernel, points


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_inputs_without_variance_give_the_sparse_gp(noisy, power):
    """With a variance of 1e-12 the evidence and what is learned are those of known inputs."""
    X, y, kernel, points = noisy
    likelihood = cavity.likelihoods.StudentT(0.2, 4.0)
    known = cavity.GP(kernel, likelihood, points)
    unknown = NoisyInputs(kernel, likelihood, points, jnp.asarray(1e-12))
    expected = cavity.infer(known, X, y, power=power, method=TIED)
    found = cavity.infer(unknown, X, y, power=power, method=TIED)
    assert found.log_evidence == pytest.approx(expected.log_evidence, rel=1e-6)
    mean = found.posterior[0].mean.ravel()
    np.testing.assert_allclose(mean, expected.posterior.process.belief.mean.ravel(), atol=1e-4)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_learning_with_private_sites_beside_a_tied_one(noisy, power):
    """`fit` raises the evidence over all parameters, the variance of the inputs among them."""
    X, y, kernel, points = noisy
    model = NoisyInputs(kernel, Gaussian(0.1), points, jnp.asarray(0.02))
    start = cavity.infer(model, X, y, power=power, method=TIED)
    assert np.isfinite(start.log_evidence)
    assert np.ptp(np.asarray(start.posterior[1].var)[: len(X)]) > 0.0
    learned = cavity.fit(model, X, y, power=power, method=TIED, max_iterations=30)
    assert learned.log_evidence > start.log_evidence + 1.0


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_gradients_hold_private_sites_constant(noisy, power):
    """They are those of the energy with private sites found anew."""
    X, y, kernel, points = noisy
    model = NoisyInputs(kernel, Gaussian(0.1), points, jnp.asarray(0.1))
    data = prepare(X, y, power=power)
    fn = Objective(as_dtype(model, data), data, method=TIED)
    random = np.random.default_rng(0)
    x = fn.first + 0.05 * random.standard_normal(fn.size)
    fn(x)
    _, slope = fn(x)
    for i in (0, 1, 2, 5, 9, fn.size - 1, fn.size - 7):
        step = 1e-4 * np.eye(fn.size)[i]
        difference = (fn(x + step)[0] - fn(x - step)[0]) / 2e-4
        assert slope[i] == pytest.approx(difference, rel=1e-4, abs=1e-4)
