"""Likelihoods of several classes against integrals, Monte Carlo and derivatives."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

import cavity
from cavity.likelihoods import MultinomialProbit, RobustMax, Softmax
from cavity.likelihoods.multiclass import checked_classes
from tests.likelihoods.refused import refusal
from tests.tolerances import assert_close

C = 3
KINDS = {"probit": MultinomialProbit(C), "softmax": Softmax(C), "robust": RobustMax(C, 0.02)}
POWERS = [0.0, 0.3, 0.5, 1.0]
each_kind = pytest.mark.parametrize("name", KINDS)
# functions (C, 6), labels (6,)
F = np.random.default_rng(8).normal(size=(C, 6)) * np.array([0.1, 1.0, 1.0, 2.0, 3.0, 5.0])
LABELS = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0])
VAR = np.random.default_rng(9).uniform(0.05, 3.0, (C, 6))


@functools.cache
def compiled(name, method):
    """A method of a likelihood as one program, the power traced unless it is 0 or 1."""
    likelihood = KINDS[name]
    return eqx.filter_jit(lambda *args: getattr(likelihood, method)(*args))


def log_prob(name, f, y):
    return np.asarray(compiled(name, "log_prob")(jnp.asarray(f), jnp.asarray(y, float)))


def traced(power):
    return power if power in (0.0, 1.0) else jnp.asarray(power)


def tilted(name, power, mean=F, var=VAR, y=LABELS):
    args = (jnp.asarray(mean), jnp.asarray(var), jnp.asarray(y))
    return compiled(name, "tilted")(*args, traced(power))


def log_power_mean(name, power, mean=F, var=VAR, y=LABELS):
    args = (jnp.asarray(mean), jnp.asarray(var), jnp.asarray(y))
    return np.asarray(compiled(name, "log_power_mean")(*args, traced(power)))


# ------------------------------------------------------------------------------ densities


@each_kind
def test_jylanki_41_probabilities_sum_to_one(name):
    """jylanki 41: and know differences of functions only."""
    all_labels = [log_prob(name, F, np.full(6, float(c))) for c in range(C)]
    kind = "algebra" if name != "probit" else "quadrature"
    assert_close(logsumexp(all_labels, axis=0), np.zeros(6), kind, scale=1.0)
    assert_close(log_prob(name, F + 7.3, LABELS), log_prob(name, F, LABELS), "factorised")


def test_jylanki_41_two_classes():
    """jylanki 41: probit of the difference over the root of two; logit of the difference."""
    f = jnp.asarray(F[:2])
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    gap = np.where(y == 0.0, 1.0, -1.0) * (F[0] - F[1])
    found = jax.jit(MultinomialProbit(2).log_prob)(f, y)
    assert_close(found, stats.norm.logcdf(gap / np.sqrt(2.0)), "quadrature")
    assert_close(Softmax(2).log_prob(f, y), -np.logaddexp(0.0, -gap))
    assert_close(RobustMax(2, 0.1).log_prob(f, y), np.log(np.where(gap > 0.0, 0.9, 0.1)))


def test_jylanki_42_probit_is_the_largest_with_noise():
    """jylanki 42: Monte Carlo."""
    noise = np.random.default_rng(0).standard_normal((400_000, C, 1))
    winner = np.argmax(F + noise, axis=1)
    share = np.mean(winner == LABELS, axis=0)
    np.testing.assert_allclose(np.exp(log_prob("probit", F, LABELS)), share, atol=3e-3)


def test_probit_by_scipy():
    """(3.5), by adaptive quadrature, far in the tails too."""
    for column in (F[:, 2], F[:, 5], np.array([-9.0, 0.0, 3.0])):
        for label in range(C):
            gap = column[label] - np.delete(column, label)
            value, _ = integrate.quad(
                lambda u, gap=gap: stats.norm.pdf(u) * np.prod(stats.norm.cdf(u + gap)),
                *(-30.0, 30.0),
                epsabs=0.0,
                epsrel=1e-11,
                limit=500,
                points=[0.0, max(-gap.min(), 0.0) / 2],
            )
            found = log_prob("probit", column[:, None], [label])
            assert_close(found[0], np.log(value), "quadrature", scale=1.0)


@pytest.mark.sampled(1)
@each_kind
def test_derivatives_of_the_density(name):
    """Each function's slope and curvature, by differentiation."""
    likelihood = KINDS[name]
    f, y = jnp.asarray(F), jnp.asarray(LABELS)
    found = compiled(name, "derivatives")(f, y)

    def value(f, y):
        return likelihood.log_prob(f[:, None], y[None])[0]

    gradient = jax.jit(jax.vmap(jax.grad(value), in_axes=(1, 0), out_axes=1))(f, y)
    hessian = jax.jit(jax.vmap(jax.hessian(value), in_axes=(1, 0)))(f, y)
    assert_close(found.log_mean, log_prob(name, F, LABELS))
    if name == "robust":
        assert not np.any(found.slope)
        return
    assert_close(found.slope, gradient, "factorised", scale=1.0)
    bend = np.diagonal(hessian, axis1=1, axis2=2).T
    assert_close(found.curvature, bend, "factorised", scale=1.0)
    assert_close(np.sum(found.slope, axis=0), np.zeros(6), "factorised", scale=1.0)


# --------------------------------------------------------------------------- power means


def sampled_power_mean(name, power, column, size=20_000):
    """log M_a by Monte Carlo, and its standard error."""
    random = np.random.default_rng(5)
    z = random.standard_normal((C, size))
    f = F[:, column, None] + np.sqrt(VAR[:, column, None]) * z
    value = log_prob(name, f, np.full(size, LABELS[column]))
    if power == 0.0:
        return value.mean(), value.std() / np.sqrt(size)
    raised = np.exp(power * value)
    return np.log(raised.mean()) / power, raised.std() / raised.mean() / power / np.sqrt(size)


@pytest.mark.sampled(3, "0.0-robust")
@each_kind
@pytest.mark.parametrize("power", POWERS)
def test_power_means_are_near_monte_carlo(name, power):
    """Fixed points that stand for a Gaussian cost a few hundredths; closed forms nothing."""
    found = log_power_mean(name, power)
    exact = name == "robust" or (name == "probit" and power == 1.0)
    for column in (1, 2):
        expected, error = sampled_power_mean(name, power, column)
        assert abs(found[column] - expected) < 5.0 * error + (0.0 if exact else 0.03)


@pytest.mark.sampled(3, "0.5-softmax")
@each_kind
@pytest.mark.parametrize("power", POWERS)
def test_tilted_is_the_derivative_of_the_power_mean(name, power):
    found = tilted(name, power)
    assert_close(found.log_mean, log_power_mean(name, power))
    step = 1e-4 * np.sqrt(VAR)
    for j in range(C):
        along = np.where(np.arange(C)[:, None] == j, step, 0.0)
        up, down = (tilted(name, power, F + s * along) for s in (1.0, -1.0))
        for of, derivative in ((0, found.slope), (1, found.curvature)):
            upper, lower = (np.asarray(t[of] if of == 0 else t[of][j]) for t in (up, down))
            slope = (upper - lower) / (2.0 * step[j])
            scale = 1.0 + np.max(np.abs(derivative))
            assert_close(derivative[j], slope, "gradient", scale=scale)


@pytest.mark.sampled(1)
@each_kind
def test_powers_of_their_own(name):
    """One per row: each row's is that of its power alone; 0 among them is the limit."""
    powers = np.array([0.0, 0.3, 0.5, 1.0, 0.0, 0.7])
    found = compiled(name, "tilted")(*map(jnp.asarray, (F, VAR, LABELS, powers)))
    for i, power in enumerate(powers):
        one = tilted(name, jnp.asarray(power) if power in (0.0, 1.0) else power)
        for got, expected in zip(found, one, strict=True):
            assert_close(np.asarray(got)[..., i], np.asarray(expected)[..., i], "factorised")
    value = compiled(name, "log_power_mean")(*map(jnp.asarray, (F, VAR, LABELS, powers)))
    assert_close(value, found.log_mean)


@pytest.mark.slow
@each_kind
def test_the_limit_at_power_zero(name):
    """Tiny powers, a traced 0 and the number 0."""
    expected = tilted(name, 0.0)
    for got, wanted in zip(tilted(name, jnp.asarray(0.0)), expected, strict=True):
        assert_close(got, wanted, "factorised", scale=1.0)
    near, far = log_power_mean(name, 1e-5), log_power_mean(name, 2e-5)
    assert_close(2.0 * near - far, expected.log_mean, "fixed_point", scale=1.0)
    rise = [log_power_mean(name, power) for power in (0.0, 0.3, 0.5)]
    assert np.all(np.diff(rise, axis=0) > 0.0)


@each_kind
def test_power_one_with_and_without_closed_form(name):
    expected, found = log_power_mean(name, 1.0), log_power_mean(name, jnp.asarray(1.0))
    np.testing.assert_allclose(found, expected, atol=1e-10 if name != "probit" else 0.03)


EXTREME = [(m, v) for m in (-1e3, 0.0, 1e3) for v in (1e-8, 1.0, 1e4)]


def at_extremes(name, power, label):
    """Functions thousands apart, sharp and wide cavities."""
    mean = np.array([[m, 0.0, 0.5] for m, _ in EXTREME]).T
    var = np.array([[v, 1.0, 2.0] for _, v in EXTREME]).T
    return var, tilted(name, power, mean, var, np.full(len(EXTREME), float(label)))


@pytest.mark.sampled(3)
@each_kind
@pytest.mark.parametrize("power", POWERS)
def test_extremes_stay_finite(name, power):
    for label in range(C):
        _, found = at_extremes(name, power, label)
        assert all(np.all(np.isfinite(part)) for part in found)
        assert np.all(np.asarray(found.log_mean) <= 1e-9)


@pytest.mark.parametrize(("name", "power"), [("robust", 0.5), ("robust", 1.0), ("probit", 1.0)])
def test_closed_forms_stay_proper_at_extremes(name, power):
    """Tilted variances are positive."""
    for label in range(C):
        var, found = at_extremes(name, power, label)
        assert np.all(1.0 + power * var * np.asarray(found.curvature) > 0.0)


# ------------------------------------------------------------- predictions, and what is said


@pytest.mark.sampled(1, "softmax")
@each_kind
def test_predictions(name):
    """Rows sum to one; density, quantiles and moments are those of the probabilities."""
    out = compiled(name, "predictive")(jnp.asarray(F), jnp.asarray(VAR))
    chance = np.asarray(out.probabilities)
    assert chance.shape == (6, C)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, rtol=1e-12)
    numbers = np.arange(C)
    assert_close(out.mean, chance @ numbers)
    assert_close(out.var, chance @ numbers**2 - (chance @ numbers) ** 2, "factorised")
    found = out.log_density(jnp.asarray(LABELS))
    assert_close(np.exp(found), chance[np.arange(6), LABELS.astype(int)])
    for wrong in (-1.0, 0.5, float(C)):
        assert np.all(np.asarray(out.log_density(jnp.full(6, wrong))) == -np.inf)
    levels = np.array([0.1, 0.5, 0.95])
    expected = [np.sum(np.cumsum(chance, axis=1)[:, :-1] < p, axis=1) for p in levels]
    assert np.array_equal(out.quantile(levels), expected)
    assert np.array_equal(out.quantile(0.5), expected[1])
    # covariances that are diagonal are the variances
    dense = jnp.asarray(VAR[:, None] * np.eye(C)[:, :, None])
    again = compiled(name, "predictive")(jnp.asarray(F), dense)
    assert_close(again.log_probabilities, out.log_probabilities)
    matrix = compiled(name, "predictive")(
        jnp.asarray(F.reshape(C, 3, 2)), jnp.asarray(VAR.reshape(C, 3, 2))
    )
    assert_close(matrix.log_probabilities, np.asarray(out.log_probabilities).reshape(3, 2, C))


@each_kind
def test_predictions_are_near_monte_carlo(name):
    random, size = np.random.default_rng(2), 20_000
    f = F[:, 3, None] + np.sqrt(VAR[:, 3, None]) * random.standard_normal((C, size))
    share = [np.exp(log_prob(name, f, np.full(size, float(c)))).mean() for c in range(C)]
    found = compiled(name, "predictive")(jnp.asarray(F), jnp.asarray(VAR)).probabilities[3]
    np.testing.assert_allclose(found, share, atol=0.01)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["probit", "softmax"])
def test_bounds_lie_below_and_touch(name):
    """Böhning's bound of all functions at once; for probit as for softmax."""
    likelihood, random = KINDS[name], np.random.default_rng(4)
    centre = random.standard_normal((C, 1)) * 2.0
    f = centre + random.standard_normal((C, 4000)) * np.geomspace(1e-3, 6.0, 4000)
    for label in range(C):
        bound = likelihood.bound(jnp.asarray(centre), jnp.ones((C, 1)), jnp.array([float(label)]))
        z = f - np.asarray(bound.centre)
        each = np.asarray(bound.slope) * z - 0.5 * np.asarray(bound.precision) * z**2
        below = np.asarray(bound.constant) + each.sum(axis=0)
        gap = log_prob(name, f, np.full(4000, float(label))) - below
        assert np.min(gap) > -1e-9
        assert abs(gap[0]) < 1e-5
        assert_close(bound.constant, log_prob(name, centre, [label]))


@pytest.mark.parametrize("make", [MultinomialProbit, Softmax, RobustMax, checked_classes])
@pytest.mark.parametrize("count", [1, 0, -3, True])
def test_impossible_numbers_of_classes(make, count):
    with pytest.raises(ValueError, match=r"n_classes must be a whole number of at least 2, giv"):
        make(count)


@pytest.mark.parametrize("count", [2.0, "3", None])
def test_what_is_no_number_of_classes(count):
    with pytest.raises(ValueError, match=r"n_classes must be a whole number of at least 2, giv"):
        checked_classes(count)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, -0.1, 0.75, np.nan])
def test_impossible_shares_of_other_labels(epsilon):
    with pytest.raises(ValueError, match=r"epsilon must lie in \(0, 0.75\), given"):
        RobustMax(4, epsilon)


@each_kind
def test_what_it_is(name):
    likelihood = KINDS[name]
    assert likelihood.classes == likelihood.latents == C
    assert type(likelihood)(checked_classes(np.int64(5))).classes == 5
    guess = likelihood.initial_latents(LABELS)
    assert guess.shape == (6, C)
    assert np.array_equal(np.argmax(guess, axis=1), LABELS)
    assert bool(jnp.all(likelihood.accepts(jnp.arange(3.0))))
    assert not bool(jnp.any(likelihood.accepts(jnp.array([-1.0, 0.5, 3.0, jnp.nan]))))
    assert "it takes the labels 0 to 2" in refusal(likelihood, [0, 1, 3, 2])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax", "robust"])
def test_softmax_and_robust_max_do_not_couple_in_power_ep(name):
    """Their posterior of power EP has independent classes: a variance each."""
    X = np.linspace(0.0, 1.0, 4)[:, None]
    model = cavity.GP(cavity.kernels.RBF(1.0, [1.0]), KINDS[name])
    found = cavity.infer(model, X, np.array([0.0, 1.0, 2.0, 1.0]), power=1.0)
    assert found.converged
    assert found.posterior.marginals(X).var.shape == (4, C)
    assert not hasattr(found.posterior, "functions")


@pytest.mark.sampled(1)
@each_kind
def test_drawn_labels_have_their_probabilities(name):
    likelihood = KINDS[name]
    f = jnp.asarray([0.4, -0.3, 1.0])[:, None] * jnp.ones(20_000)
    labels = np.asarray(likelihood.sample(jax.random.key(0), f))
    for label in range(3):
        expected = float(jnp.exp(likelihood.log_prob(f[:, :1], jnp.full(1, float(label))))[0])
        assert np.mean(labels == label) == pytest.approx(expected, abs=0.015)
