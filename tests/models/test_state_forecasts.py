"""Forecasts of states: against linear systems, Monte Carlo and whole functions drawn on a grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from cavity import inducing, kernels, likelihoods, means
from cavity.inference.variables.inducing import InducingBelief
from cavity.models.deep.layer import Layer
from cavity.models.state_space.forecast import forecast
from cavity.models.state_space.paths import sampled_paths
from cavity.models.state_space.propagation import StateBelief, propagated
from tests.tolerances import assert_close

NOISE = 0.04
A = np.array([[0.9, 0.25], [-0.3, 0.8]])
B = np.array([[0.5, -0.2]])
KEY = jax.random.key(3)


def random_process(layer, seed=0, spread=0.3):
    """The functions of a layer under beliefs with random means and covariances."""
    random = np.random.default_rng(seed)
    views = layer.views(1e-9)
    beliefs = []
    for view in views:
        M, functions = view.root.shape[0], view.mean.outputs
        mean = jnp.asarray(random.standard_normal((1, functions, M)))
        root = np.tril(spread * random.standard_normal((1, M, M)) / np.sqrt(M))
        root += spread * np.eye(M)
        beliefs.append(InducingBelief(mean, jnp.asarray(root), jnp.zeros(())))
    return layer.process(views, beliefs)


def linear_process(variance=1e-300):
    """A known linear system of two states and one control: functions with no variance."""
    kernel, points = kernels.RBF(variance, 1.0), inducing.Points(np.eye(3))
    mean = means.Linear(np.vstack([A.T, B]), np.array([0.1, -0.2]))
    layer = Layer(kernel, points, 2, mean, NOISE, skip_connection=True)
    return random_process(layer)


def curved_process(**layer):
    """Two smooth functions of two states and one control."""
    points = np.random.default_rng(1).uniform(-2.0, 2.0, (6, 3))
    kernel = kernels.RBF(0.7, np.array([1.0, 1.3, 2.0]))
    parts = {"kernel": kernel, "inducing": inducing.Points(points)} | layer
    return random_process(
        Layer(width=2, mean=means.Identity(2), noise_variance=NOISE, skip_connection=True, **parts)
    )


def start(series=1):
    random = np.random.default_rng(5)
    root = 0.5 * np.tril(random.standard_normal((series, 2, 2)))
    cov = root @ np.swapaxes(root, 1, 2) + 0.05 * np.eye(2)
    return StateBelief(jnp.asarray(random.standard_normal((series, 2))), jnp.asarray(cov))


def controls(series, steps):
    return jnp.asarray(np.random.default_rng(6).standard_normal((series, steps, 1)))


def kalman(belief, inputs):
    """Means and covariances of a linear system, step by step."""
    means_of, covs = [], []
    mean, cov = np.asarray(belief.mean), np.asarray(belief.cov)
    for k in range(inputs.shape[1]):
        mean = mean @ A.T + np.asarray(inputs[:, k]) @ B + np.array([0.1, -0.2])
        cov = A @ cov @ A.T + NOISE * np.eye(2)
        means_of.append(mean)
        covs.append(cov)
    return np.stack(means_of, 1), np.stack(covs, 1)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["moments", "linearised"])
def test_linear_systems_are_forecast_as_by_kalman(rule):
    belief, inputs = start(3), controls(3, 50)
    mean, cov = propagated(linear_process(), belief, inputs, rule)
    expected_mean, expected_cov = kalman(belief, inputs)
    assert_close(mean, expected_mean, "algebra", scale=1.0)
    assert_close(cov, expected_cov, "algebra", scale=1.0)


@pytest.mark.sampled(1, "fresh")
@pytest.mark.parametrize("draws", ["fresh", "inducing", "exact"])
def test_paths_of_linear_systems_have_the_moments_of_kalman(draws):
    belief, inputs = start(2), controls(2, 10)
    count = 20_000 if draws != "exact" else 4_000
    paths = np.asarray(sampled_paths(linear_process(), belief, inputs, count, draws, key=KEY))
    expected_mean, expected_cov = kalman(belief, inputs)
    deviation = np.sqrt(np.diagonal(expected_cov, axis1=2, axis2=3))
    away = (paths.mean(0) - expected_mean) / deviation * np.sqrt(count)
    assert np.abs(away).max() < 4.5
    cov = np.einsum("nskd,nske->skde", *[paths - paths.mean(0)] * 2) / count
    scale = deviation[..., :, None] * deviation[..., None, :]
    assert (np.abs(cov - expected_cov) / scale).max() < 4.5 * np.sqrt(2.0 / count)


def brute_force(process, belief, x, rule):
    """Moments of one step from a dense grid of Gauss-Hermite nodes, function by function."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = np.multiply.outer(weights, weights).ravel() / np.sum(weights) ** 2
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    points = np.asarray(belief.mean[0]) + z @ np.linalg.cholesky(np.asarray(belief.cov[0])).T
    inputs = np.column_stack([points, np.full(len(points), float(x))])
    mean, var = (np.asarray(a) for a in process.moments(jnp.asarray(inputs)))
    centre = weights @ mean
    cov = (mean - centre).T @ (weights[:, None] * (mean - centre))
    return centre, cov + np.diag(weights @ var)


@pytest.mark.parametrize("apart", [False, True])
def test_one_step_by_moments_has_the_moments_of_all_outcomes(apart):
    """With functions that share a kernel, and with kernels and inducing points of their own."""
    layer = {}
    if apart:
        random = np.random.default_rng(2)
        layer["kernel"] = (kernels.RBF(0.7, 1.1), kernels.RBF(1.2, np.array([0.9, 2.0, 1.0])))
        layer["inducing"] = [inducing.Points(random.uniform(-2.0, 2.0, (5, 3))) for _ in range(2)]
    process, belief, inputs = curved_process(**layer), start(), controls(1, 1)
    mean, cov = propagated(process, belief, inputs, "moments")
    expected_mean, expected_cov = brute_force(process, belief, inputs[0, 0, 0], "moments")
    assert_close(mean[0, 0], expected_mean, "quadrature")
    assert_close(cov[0, 0], expected_cov, "quadrature")
    # the functions are not independent where their input is Gaussian
    assert abs(expected_cov[0, 1]) > 0.02


def test_one_step_linearised_is_that_of_finite_differences():
    process, belief, inputs = curved_process(), start(), controls(1, 1)
    _, cov = propagated(process, belief, inputs, "linearised")

    def mean_at(x):
        full = jnp.asarray(np.append(x, inputs[0, 0, 0])[None])
        return np.asarray(process.moments(full)[0][0])

    at, h = np.asarray(belief.mean[0]), 1e-5
    steps = h * np.eye(2)
    J = np.stack([(mean_at(at + e) - mean_at(at - e)) / (2.0 * h) for e in steps], axis=1)
    _, var = process.moments(jnp.asarray(np.append(at, inputs[0, 0, 0])[None]))
    expected = J @ np.asarray(belief.cov[0]) @ J.T + np.diag(np.asarray(var[0]))
    assert_close(cov[0, 0], expected, "gradient")


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["moments", "linearised"])
def test_covariances_stay_covariances(rule):
    """Over many steps, from a start without variance and from a wide one."""
    wide = start(2).cov.at[0].set(0.0).at[1].mul(1e4)
    belief = StateBelief(start(2).mean, wide)
    mean, cov = propagated(curved_process(), belief, controls(2, 50), rule)
    assert np.all(np.isfinite(mean))
    values = np.linalg.eigvalsh(np.asarray(cov))
    assert np.all(values > -1e-13 * values[..., -1:])
    assert np.all(values[..., 1] >= NOISE)


def scalar_process():
    """One function of one state, uncertain and without process noise to speak of."""
    points = inducing.Points(np.linspace(-2.0, 2.0, 3)[:, None])
    layer = Layer(kernels.RBF(1.0, 1.0), points, 1, None, 1e-10)
    return random_process(layer, spread=0.6)


def paths_on_a_grid(process, first, steps, count):
    """Paths under whole functions that are drawn at a grid of inputs and interpolated."""
    grid = np.linspace(-8.0, 8.0, 161)
    mean, _ = process.moments(jnp.asarray(grid[:, None]))
    cov = np.asarray(process.covariance(jnp.asarray(grid[:, None]))[0])
    random = np.random.default_rng(0)
    values = random.multivariate_normal(np.asarray(mean[:, 0]), cov, count, method="eigh")
    x, path = np.full(count, first), []
    for _ in range(steps):
        x = np.array([np.interp(at, grid, f) for at, f in zip(x, values, strict=True)])
        path.append(x)
    return np.stack(path, 1)


@pytest.mark.slow
def test_paths_that_come_back_go_on_as_before():
    """T68 of vanderwilk.md: where inputs are as they were, a path has the same next state. Here
    inputs are a control alone, as the lengthscale of the state is without end."""
    kernel, points = kernels.RBF(1.0, np.array([1e6, 1.0])), inducing.Points(np.eye(2))
    process = random_process(Layer(kernel, points, 1, None, 1e-10, skip_connection=True))
    belief = StateBelief(jnp.full((1, 1), 0.9), jnp.zeros((1, 1, 1)))
    controls = jnp.asarray([0.5, -2.0, 0.5, -2.0])[None, :, None]
    # beside the process noise, of deviation 1e-5
    for draws, same in (("exact", True), ("fresh", False)):
        paths = sampled_paths(process, belief, controls, 40, draws, key=jax.random.key(0))
        again = np.asarray(paths[:, 0, 2:] - paths[:, 0, :2])
        assert np.all(np.std(np.asarray(paths[:, 0, :2, 0]), axis=0) > 0.1)
        assert (np.max(np.abs(again)) < 1e-3) == same


def test_exact_paths_are_those_of_whole_functions():
    """T68 of vanderwilk.md: in mean, spread and dependence between steps, where fresh draws have
    another one."""
    process, count = scalar_process(), 3000
    belief = StateBelief(jnp.full((1, 1), 0.9), jnp.zeros((1, 1, 1)))
    expected = paths_on_a_grid(process, 0.9, 4, count)
    drawn = {
        draws: np.asarray(
            sampled_paths(process, belief, jnp.zeros((1, 4, 0)), count, draws, key=KEY)
        )[:, 0, :, 0]
        for draws in ("exact", "inducing", "fresh")
    }
    for k in range(4):
        assert stats.ks_2samp(drawn["exact"][:, k], expected[:, k]).pvalue > 1e-3
    # how far neighbouring steps go together
    first, last = (np.corrcoef(path, rowvar=False) for path in (expected, drawn["exact"]))
    assert np.abs(first - last).max() < 5.0 / np.sqrt(count)
    nearest = [np.abs(np.corrcoef(drawn[d], rowvar=False) - first).max() for d in drawn]
    assert nearest[0] < nearest[2]


def test_filters_give_the_density_under_whole_functions():
    """Particles go on with their functions: against an average over functions and their paths."""
    process, y = scalar_process(), np.array([0.8, -0.4, 0.6, 0.2])
    paths = paths_on_a_grid(process, 0.9, 4, 6000)
    logs = np.cumsum(stats.norm.logpdf(y, paths, np.sqrt(0.3)), axis=1)
    expected = logsumexp(logs, axis=0) - np.log(len(paths))
    belief = StateBelief(jnp.full((1, 1), 0.9), jnp.zeros((1, 1, 1)))
    parts = process, means.Identity(1), likelihoods.Gaussian(0.3), belief, jnp.zeros((1, 4, 0)), 1
    densities = {}
    for draws in ("exact", "fresh"):
        future = forecast(*parts, "paths", paths=3000, draws=draws, key=KEY)
        densities[draws] = future.joint_log_density(y.reshape(1, 4, 1))[0]
    assert np.abs(densities["exact"] - expected).max() < 0.12
    assert np.abs(densities["fresh"] - expected).max() > 0.2


WEIGHTS = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]])


def outputs_of(propagation, likelihood=None, emission=None, steps=6, paths=2000, **settings):
    likelihood = likelihoods.Gaussian(0.1) if likelihood is None else likelihood
    emission = means.Linear(WEIGHTS, np.array([0.0, 0.1, 0.2])) if emission is None else emission
    return forecast(
        linear_process(),
        emission,
        likelihood,
        start(2),
        controls(2, steps),
        3,
        propagation,
        paths=paths,
        key=KEY,
        **settings,
    )


@pytest.fixture(scope="module")
def by_moments():
    return outputs_of("moments")


@pytest.fixture(scope="module")
def by_paths():
    return outputs_of("paths")


def test_outputs_of_linear_systems_are_normal(by_moments, by_paths):
    mean, cov = kalman(start(2), controls(2, 6))
    expected = mean @ WEIGHTS + np.array([0.0, 0.1, 0.2])
    var = np.einsum("dp,skde,ep->skp", WEIGHTS, cov, WEIGHTS) + 0.1
    assert_close(by_moments.mean, expected, "algebra", scale=1.0)
    assert_close(by_moments.var, var)
    assert_close(by_moments.quantile(0.9), stats.norm.ppf(0.9, expected, np.sqrt(var)))
    y = expected + 0.3
    density = stats.norm.logpdf(y, expected, np.sqrt(var))
    assert_close(by_moments.log_density(y), density)
    assert_close(by_moments.joint_log_density(y), np.cumsum(density.sum(2), 1))
    assert np.abs(by_paths.mean - expected).max() < 0.15
    assert np.abs(by_paths.log_density(y) - density).max() < 0.15
    assert np.abs(by_paths.quantile([0.1, 0.9])[1] - by_moments.quantile(0.9)).max() < 0.2
    assert np.all(by_paths.var > 0.1)


def test_paths_know_that_steps_go_together(by_paths):
    """The joint density of a block of outputs, against that of the whole Gaussian block."""
    belief, inputs, steps = start(2), controls(2, 6), 3
    mean, _ = kalman(belief, inputs)
    # x_k = A^k x_0 + ... + sum_j A^(k-j) e_j: the block's covariance
    power = [np.linalg.matrix_power(A, k) for k in range(steps + 1)]
    for s in range(2):
        load = np.vstack(
            [
                np.hstack(
                    [WEIGHTS.T @ power[k] @ np.linalg.cholesky(np.asarray(belief.cov[s]))]
                    + [
                        np.sqrt(NOISE) * WEIGHTS.T @ (power[k - j] if j <= k else 0.0 * A)
                        for j in range(1, steps + 1)
                    ]
                )
                for k in range(1, steps + 1)
            ]
        )
        cov = load @ load.T + 0.1 * np.eye(3 * steps)
        centre = (mean[s, :steps] @ WEIGHTS + np.array([0.0, 0.1, 0.2])).ravel()
        y = centre + 0.2
        block = np.full((2, 6, 3), np.nan)
        block[s, :steps] = y.reshape(steps, 3)
        expected = stats.multivariate_normal.logpdf(y, centre, cov)
        joint = by_paths.joint_log_density(block)
        assert joint[s, steps - 1] == pytest.approx(expected, abs=0.15)
        # missing outputs add nothing
        assert_close(joint[s, steps:], np.full(3, joint[s, steps - 1]))
        assert np.all(joint[1 - s] == 0.0)


def test_missing_outputs_have_no_density(by_moments):
    y = np.array(by_moments.mean)
    y[0, 1, 2] = np.nan
    density = by_moments.log_density(y)
    assert np.isnan(density[0, 1, 2])
    assert np.isnan(density).sum() == 1
    with pytest.raises(ValueError, match=r"shape of the forecast, \(2, 6, 3\)"):
        by_moments.log_density(y[0])


@pytest.mark.slow
def test_outputs_through_gaussian_processes_and_counts():
    """Emissions with variance, and a likelihood that is not Gaussian."""
    points = np.random.default_rng(4).uniform(-1.0, 1.0, (4, 2))
    layer = Layer(kernels.RBF(0.3, 1.5), inducing.Points(points), 3)
    emission = random_process(layer, seed=1)
    counts = likelihoods.Poisson()
    forecasts = [
        outputs_of(name, counts, emission, paths=600)
        for name in ("moments", "paths", "linearised")
    ]
    for each in forecasts:
        assert each.mean.shape == (2, 6, 3)
        assert np.all(np.isfinite(each.mean))
        assert np.all(each.var > 0.0)
        assert np.all(np.isfinite(each.log_density(np.ones((2, 6, 3)))))
    # one step is the same mixture, up to its shape
    assert np.abs(forecasts[0].mean / forecasts[1].mean - 1.0).max() < 0.3


def test_settings_are_named(by_moments):
    with pytest.raises(ValueError, match="paths, moments, linearised"):
        outputs_of("nodes")
    with pytest.raises(ValueError, match="fresh, inducing, exact"):
        outputs_of("paths", draws="whole")
    with pytest.raises(ValueError, match="bytes"):
        outputs_of("paths", draws="exact", steps=2000, paths=10_000)
    with pytest.raises(ValueError, match="at least one step"):
        outputs_of("moments", steps=0)
