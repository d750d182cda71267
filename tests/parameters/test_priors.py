"""Prior densities against scipy, and their sum over a model."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import cavity
from cavity import parameters
from cavity.parameters import priors
from tests.tolerances import assert_close

CASES = [
    (priors.Normal(0.5, 2.0), stats.norm(0.5, 2.0)),
    (priors.LogNormal(3.0, 0.7), stats.lognorm(0.7, scale=3.0)),
    (priors.HalfNormal(1.7), stats.halfnorm(scale=1.7)),
    (priors.Gamma(2.5, 0.8), stats.gamma(2.5, scale=1 / 0.8)),
    (priors.InverseGamma(3.0, 2.0), stats.invgamma(3.0, scale=2.0)),
]


@pytest.mark.parametrize(("prior", "reference"), CASES, ids=[str(prior) for prior, _ in CASES])
def test_densities(prior, reference):
    """Those of scipy.stats, in these parameters; they integrate to one."""
    x = np.array([1e-3, 0.1, 1.0, 2.7, 30.0])
    assert_close(prior.log_prob(jnp.asarray(x)), reference.logpdf(x), scale=0.0)
    start = -40.0 if isinstance(prior, priors.Normal) else 1e-9
    mass, _ = integrate.quad(lambda v: np.exp(float(prior.log_prob(jnp.asarray(v)))), start, 200)
    assert mass == pytest.approx(1.0, abs=1e-5)


def test_student_t_of_the_logarithm():
    """A Student-t density in log(x); learning leaves its Jacobian 1 / x out."""
    prior, reference = priors.LogStudentT(3.0, 0.7, 5.0), stats.t(5.0, np.log(3.0), 0.7)
    x = np.array([1e-9, 0.1, 1.0, 3.0, 1e6])
    of_logarithm = np.asarray(prior.log_prob_where_learned(jnp.asarray(x)))
    np.testing.assert_allclose(of_logarithm, reference.logpdf(np.log(x)), rtol=1e-12)
    density = np.asarray(prior.log_prob(jnp.asarray(x)))
    np.testing.assert_allclose(density, of_logarithm - np.log(x), rtol=1e-12)
    kernel = cavity.kernels.RBF(2.0, [0.5, 3.0])
    tree = eqx.tree_at(lambda m: m.lengthscale, priors.flat(kernel), prior)
    expected = reference.logpdf(np.log([0.5, 3.0])).sum()
    assert_close(priors.learned_with(kernel, tree), expected)
    assert_close(priors.log_prior(kernel, tree), expected - np.log(0.5 * 3.0))
    assert str(prior) == "logstudentt(3, 0.7, 5)"


def test_inverse_gamma_of_the_logarithm():
    prior, reference = priors.LogInverseGamma(0.4, 1.2), stats.invgamma(0.4, scale=1.2)
    x = np.array([0.05, 0.1, 1.0, 3.0, 1e6])
    found = np.asarray(prior.log_prob(jnp.asarray(x)))
    np.testing.assert_allclose(found, reference.logpdf(x), rtol=1e-10)
    beside = prior.log_prob_where_learned(jnp.asarray([2.9, 3.0, 3.1]))
    assert int(np.argmax(beside)) == 1
    kernel = cavity.kernels.RBF(2.0, [0.5, 3.0])
    tree = eqx.tree_at(lambda m: m.lengthscale, priors.flat(kernel), prior)
    expected = reference.logpdf([0.5, 3.0]).sum() + np.log(0.5 * 3.0)
    assert_close(priors.learned_with(kernel, tree), expected)
    assert str(prior) == "loginversegamma(0.4, 1.2)"


def test_beta_of_a_share():
    """That of scipy.stats; learning leaves the Jacobian of the logit out."""
    prior, reference = priors.Beta(2.0, 0.5), stats.beta(2.0, 0.5)
    x = np.array([1e-9, 0.1, 0.5, 0.999])
    density = np.asarray(prior.log_prob(jnp.asarray(x)))
    np.testing.assert_allclose(density, reference.logpdf(x), rtol=1e-12)
    learned = np.asarray(prior.log_prob_where_learned(jnp.asarray(x)))
    np.testing.assert_allclose(learned, density + np.log(x) + np.log1p(-x), rtol=1e-10)
    weights = cavity.weights.SpikeSlab(0.2, 1.0)
    tree = eqx.tree_at(lambda m: m.share, priors.flat(weights), prior)
    expected = reference.logpdf(0.2) + np.log(0.2 * 0.8)
    assert_close(priors.learned_with(weights, tree), expected)
    assert str(prior) == "beta(2, 0.5)"


def test_numbers_of_a_student_t_are_arguments_of_a_program():
    traced = []

    @jax.jit
    def density(prior, x):
        traced.append(1)
        return prior.log_prob(x)

    for median in (1.0, 2.0, 5.0):
        found = density(priors.LogStudentT(np.asarray(median)), jnp.asarray(2.0))
        expected = stats.t(4.0, np.log(median)).logpdf(np.log(2.0)) - np.log(2.0)
        assert_close(found, expected)
    assert len(traced) == 1


def test_half_normal_has_no_negative_values():
    assert priors.HalfNormal().log_prob(jnp.asarray(-0.1)) == -np.inf


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: priors.Normal(0.0, 0.0), "std"),
        (lambda: priors.LogNormal(-1.0), "median"),
        (lambda: priors.HalfNormal(0.0), "scale"),
        (lambda: priors.Gamma(-1.0, 1.0), "shape"),
        (lambda: priors.InverseGamma(1.0, 0.0), "scale"),
        (lambda: priors.LogStudentT([1.0, 0.0]), "median"),
        (lambda: priors.Beta(0.0), "a"),
        (lambda: priors.LogStudentT(1.0, 1.0, 0.0), "df"),
        (lambda: priors.LogInverseGamma(0.0), "shape"),
    ],
)
def test_impossible_parameters_are_refused(make, name):
    with pytest.raises(ValueError, match=f"{name} of a prior must be positive"):
        make()


@pytest.mark.parametrize(
    ("entry", "given"),
    [
        (parameters.Positive(), "given Positive"),
        (parameters.positive(), "given Field"),
        (priors.LogNormal, "given <class 'cavity.parameters.priors.LogNormal'>"),
        (stats.norm(0.0, 1.0), "given rv_continuous_frozen|given <scipy"),
        (1.5, "given 1.5"),
    ],
    ids=["bijection", "declaration", "class", "scipy", "number"],
)
def test_entries_that_are_no_priors_are_named(entry, given):
    model = cavity.kernels.RBF(2.0, [0.5, 3.0])
    tree = eqx.tree_at(lambda m: m.lengthscale, priors.flat(model), entry)
    place = r"cavity\.parameters\.priors, such as LogNormal"
    words = rf"entry lengthscale .* must be a prior of {place}.*{given}"
    with pytest.raises(TypeError, match=words):
        priors.log_prior(model, tree)
    with pytest.raises(TypeError, match=words):
        jax.jit(lambda m: priors.log_prior(m, tree))(model)


def test_priors_of_another_structure_are_refused():
    model = cavity.kernels.RBF()
    pair = eqx.tree_at(lambda m: m.lengthscale, priors.flat(model), [priors.Normal()] * 2)
    with pytest.raises(ValueError, match="the model has 2 arrays, the tree 3 entries"):
        priors.log_prior(model, pair)
    with pytest.raises(ValueError, match="the model has 2 arrays, the tree 1 entry"):
        priors.log_prior(model, {"lengthscale": priors.Normal()})


def test_log_prior_sums_over_all_values():
    kernel = cavity.kernels.RBF(2.0, [0.5, 3.0])
    model = cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1))
    tree = priors.flat(model)
    assert float(priors.log_prior(model, tree)) == 0.0
    length, noise = priors.Gamma(2.0, 1.0), priors.LogNormal(0.1, 1.0)
    tree = eqx.tree_at(
        lambda m: (m.kernel.lengthscale, m.likelihood.variance), tree, (length, noise)
    )
    expected = stats.gamma(2.0).logpdf([0.5, 3.0]).sum() + stats.lognorm(1.0, scale=0.1).logpdf(
        0.1
    )
    assert_close(priors.log_prior(model, tree), expected)


def test_a_value_for_each_entry():
    value = np.array([1.0, 2.0])
    each = [priors.LogNormal(m, 0.5).log_prob(value)[i] for i, m in enumerate((1.0, 3.0))]
    found = priors.LogNormal((1.0, 3.0), 0.5)
    assert_close(np.asarray(found.log_prob(value)), np.asarray(each))
    assert str(found) == "lognormal([1, 3], 0.5)"
    assert str(priors.Normal((0.0, 1.0), (1.0, 2.0))) == "normal([0, 1], [1, 2])"
    assert hash(found)
    with pytest.raises(ValueError, match="must be positive"):
        priors.LogNormal((1.0, -3.0), 0.5)
