"""Posteriors of latent-variable models: new rows, reconstructions, relevance, encoders."""

import numpy as np
import pytest
from scipy import optimize, stats

import cavity
from cavity import inducing, kernels
from cavity.inference.energy import beliefs
from cavity.models.inputs.encoder import SiteEncoder, linear_encoder
from tests.models import latent_toy as toy
from tests.oracle import latent
from tests.tolerances import assert_close


@pytest.fixture(scope="module")
def collapsed():
    return cavity.infer(toy.model(), None, toy.outputs()[0], power=0.0, jitter=toy.JITTER)


@pytest.fixture(scope="module")
def by_nodes(collapsed):
    """The same posterior, whose new rows go through functions by nodes."""
    data = toy.data_of(toy.outputs()[0], 0.0)
    mean, cov = collapsed.posterior.functions.layers[0].process.belief.dense()
    ((inputs,),) = collapsed.found
    sites = ((toy.tied_site(np.asarray(mean), np.asarray(cov)), inputs),)
    method = cavity.TiedPowerEP(propagation=toy.NODES)
    graph = toy.problem_of(toy.model(), data, method).graph()
    return toy.model().posterior(graph, beliefs(graph, sites), data.rows, single=False)


def functions_of(posterior):
    """Means and variances of the functions at known latent points, in numpy."""
    means, covs = map(np.asarray, posterior.functions.layers[0].process.belief.dense())
    jitter = toy.JITTER * toy.VARIANCE
    L = np.linalg.cholesky(toy.kernel(toy.Z, toy.Z) + jitter * np.eye(len(toy.Z)))

    def moments(x):
        A = np.linalg.solve(L, toy.kernel(toy.Z, x))
        left = toy.VARIANCE - np.sum(A**2, 0)
        return A.T @ means.T, np.stack([left + np.sum(A * (V @ A), 0) for V in covs], 1)

    return moments


# Points and weights of a standard normal: those of learning by nodes, and so many that it does
# not matter that terms are not smooth.
FORTY = latent.hermite(40, 1)
GRID = np.linspace(-8.0, 8.0, 4001)[:, None]
DENSE = GRID, stats.norm.pdf(GRID[:, 0]) * 16.0 / 4000


def row_bound(moments, y, mean, log_deviation, *, through_moments, rule=FORTY):
    """The bound on the log density of a row at a posterior of its input."""
    var = np.exp(2.0 * log_deviation)
    points, weights = rule
    f, v = moments(mean + np.sqrt(var) * points)
    observed = ~np.isnan(y)
    y, f, v = y[observed], f[:, observed], v[:, observed]
    if through_moments:
        centre, within = weights @ f, weights @ v + toy.NOISE
        away = (y - centre) ** 2 + weights @ (f - centre) ** 2
        term = -0.5 * np.sum(latent.LOG_2PI + np.log(within) + away / within)
    else:
        densities = stats.norm.logpdf(y, f, np.sqrt(v + toy.NOISE))
        term = weights @ np.sum(densities, 1)
    return term - latent.divergence(np.array([mean]), np.array([var]))


NEW = np.array([[0.9, 0.4, 0.8], [np.nan, -1.0, np.nan], [0.2, np.nan, -0.3]])


@pytest.mark.parametrize("propagation", ["moments", "nodes"])
def test_new_rows_have_the_best_of_their_bounds(request, collapsed, propagation):
    """Against a search from a grid of starts, with outputs missing.

    Of complete rows posteriors are optima; steps end early where they would lower the bound.
    """
    through_moments = propagation == "moments"
    posterior = collapsed.posterior if through_moments else request.getfixturevalue("by_nodes")
    moments = functions_of(posterior)
    mean, var = posterior.transform(NEW)
    bounds = posterior.log_density(NEW)
    for y, m, v, bound in zip(NEW, mean[:, 0], var[:, 0], bounds, strict=True):

        def loss(x, y=y):
            return -row_bound(moments, y, *x, through_moments=through_moments)

        at = np.array([m, 0.5 * np.log(v)])
        if not np.any(np.isnan(y)):
            slope = np.abs(optimize.approx_fprime(at, loss, 1e-6)).max()
            # nodes are those of predictions, the same for all rows
            assert slope < (2e-3 if through_moments else 2e-2)
        ends = [end for end, _ in optima(loss)]
        best = max(dense_bound(moments, y, end) for end in ends)
        assert bound == pytest.approx(dense_bound(moments, y, at), abs=3e-2)
        assert bound > best - 3e-2
        points, weights = DENSE
        f, w = moments(points)
        seen = ~np.isnan(y)
        each = stats.norm.pdf(y[seen], f[:, seen], np.sqrt(w[:, seen] + toy.NOISE))
        assert bound < np.log(weights @ np.prod(each, 1))


def dense_bound(moments, y, at):
    return row_bound(moments, y, *at, through_moments=False, rule=DENSE)


def optima(loss):
    """The local optima that a grid of starts leads to."""
    ends = []
    for centre in np.linspace(-2.0, 2.0, 9):
        end = optimize.minimize(loss, (centre, -1.0))
        if all(np.abs(end.x - other).max() > 1e-2 for other, _ in ends):
            ends.append((end.x, end.fun))
    return ends


def test_a_row_of_the_table_is_where_it_was(collapsed):
    Y, _ = toy.outputs()
    posterior = collapsed.posterior
    found, own = posterior.transform(Y), posterior.latent
    away = np.abs(found.mean - own.mean) / np.sqrt(own.var)
    assert away.max() < 0.5
    assert own.mean.shape == own.var.shape == (toy.ROWS, 1)


def test_a_row_without_outputs_has_the_prior(collapsed):
    nothing = np.full((2, 3), np.nan)
    mean, var = collapsed.posterior.transform(nothing)
    np.testing.assert_allclose(mean, 0.0, atol=1e-6)
    np.testing.assert_allclose(var, 1.0, atol=1e-6)
    np.testing.assert_allclose(collapsed.posterior.log_density(nothing), 0.0, atol=1e-9)


def test_reconstructions_are_mixtures_over_the_exact_posterior_of_the_input(collapsed):
    """Of a row with one mode, and of one with several that few outputs tell apart."""
    posterior = collapsed.posterior
    x = np.linspace(-6.0, 6.0, 4001)[:, None]
    f, v = functions_of(posterior)(x)
    predictive = posterior.reconstruct(NEW)
    for i in (0, 1):
        total, seen = v + toy.NOISE, ~np.isnan(NEW[i])
        terms = -0.5 * (np.log(total) + (np.nan_to_num(NEW[i]) - f) ** 2 / total)
        log_weights = terms[:, seen].sum(axis=1) - 0.5 * x[:, 0] ** 2
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        mean = weights @ f
        var = weights @ (v + (f - mean) ** 2) + toy.NOISE
        np.testing.assert_allclose(predictive.mean[i], mean, atol=0.03)
        np.testing.assert_allclose(predictive.var[i], var, rtol=0.05)
    grid = np.linspace(-6.0, 6.0, 601)
    density = np.exp([predictive.log_density(np.full(NEW.shape, value)) for value in grid])
    np.testing.assert_allclose(np.trapezoid(density, grid, axis=0), 1.0, atol=1e-6)


def test_functions_at_known_latent_points(collapsed):
    x = np.linspace(-1.5, 1.5, 5)[:, None]
    mean, var = functions_of(collapsed.posterior)(x)
    found = collapsed.posterior.marginals(x)
    assert_close(found.mean, mean, "factorised")
    assert_close(found.var, var, "factorised")


@pytest.mark.slow
def test_relevance_names_the_dimension_that_matters():
    Y, _ = toy.outputs()
    data = toy.data_of(Y, 0.0)
    Z = np.random.default_rng(4).standard_normal((5, 2))
    kernel = kernels.RBF(1.0, [60.0, 0.8])
    model = toy.model(kernel=kernel, inducing=inducing.Points(Z))
    graph = toy.problem_of(model, data, cavity.PowerEP()).graph()
    q = beliefs(graph, toy.stores(toy.random_inputs(data, 2)))
    relevance = model.posterior(graph, q, data.rows, single=False).relevance
    assert relevance.sum() == pytest.approx(1.0)
    assert relevance[1] > 0.99


def encoder_of(random, outputs=3, columns=2, hidden=4):
    shape = (outputs, columns, hidden)
    return SiteEncoder(
        centre=random.standard_normal(outputs),
        spread=random.uniform(0.5, 2.0, outputs),
        weights=random.standard_normal((outputs, hidden)),
        offsets=random.standard_normal((outputs, hidden)),
        slopes=random.standard_normal(shape[:2]),
        shifts=random.standard_normal(shape),
        log_precisions=random.standard_normal(shape[:2]),
        precisions=random.standard_normal(shape),
    )


def test_an_encoder_leaves_missing_outputs_out(rng):
    """A missing output is as if its network were not there, whatever stands in its place."""
    encoder, y = encoder_of(rng), rng.standard_normal((4, 3))
    presence = np.array([[1.0, 0.0, 1.0]] * 3 + [[0.0, 0.0, 0.0]])
    mean, var = encoder(y, presence)
    without = SiteEncoder(**{name: np.delete(a, 1, 0) for name, a in vars(encoder).items()})
    fewer_mean, fewer_var = without(np.delete(y, 1, 1), np.delete(presence, 1, 1))
    assert_close(mean, fewer_mean)
    assert_close(var, fewer_var)
    np.testing.assert_array_equal(encoder(np.where(presence > 0, y, 1e6), presence), (mean, var))
    np.testing.assert_array_equal((mean[3], var[3]), ([0.0, 0.0], [1.0, 1.0]))


def test_an_encoder_starts_as_principal_components(rng):
    """The posterior of probabilistic principal components, by its covariance matrix."""
    hidden = rng.standard_normal((200, 2))
    Y = hidden @ np.array([[2.0, 1.0, 0.5, 0.3], [0.1, 0.5, -2.0, 1.0]])
    Y = 5.0 + 3.0 * (Y + 0.3 * rng.standard_normal(Y.shape))
    mean, var = linear_encoder(Y, 2)(Y, np.ones_like(Y))
    standard = (Y - Y.mean(0)) / Y.std(0)
    values, vectors = np.linalg.eigh(np.cov(standard.T, bias=True))
    noise = values[:2].mean()
    W = vectors[:, :1:-1] * np.sqrt(values[:1:-1] - noise)
    M = np.eye(2) + W.T @ W / noise
    expected = standard @ W @ np.linalg.inv(M) / noise
    signs = np.sign(np.sum(expected * mean, 0))
    np.testing.assert_allclose(mean, signs * expected, atol=0.1)
    np.testing.assert_allclose(var, np.tile(np.diag(np.linalg.inv(M)), (200, 1)), rtol=0.1)
