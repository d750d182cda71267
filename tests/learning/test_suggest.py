"""Active learning: the gains of rows, one at a time and in sets."""

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.learning.active.row_values import row_values

NOISE = 0.3
R = np.random.default_rng(0)
X = R.uniform(-2.0, 2.0, (12, 2))
POOL = R.uniform(-3.0, 3.0, (9, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1]


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def kernel(A, B):
    square = np.sum((A[:, None] - B[None]) ** 2, axis=2)
    return 1.5 * np.exp(-0.5 * square / 0.8**2)


def exact_covariance(data, new):
    cross = kernel(data, new)
    K = kernel(data, data) + NOISE * np.eye(len(data))
    return kernel(new, new) - cross.T @ np.linalg.solve(K, cross)


def posterior(likelihood=None, y=Y, functionals=None, **options):
    likelihood = likelihoods.Gaussian(NOISE) if likelihood is None else likelihood
    model = cavity.GP(kernels.RBF(1.5, 0.8), likelihood, functionals)
    return cavity.infer(model, X, y, jitter=0.0 if functionals is None else 1e-8, **options)


def test_information_with_gaussian_noise_is_half_the_log_of_one_plus_the_signal():
    found = cavity.suggest(posterior(), POOL, 1)
    values = 0.5 * np.log1p(np.diag(exact_covariance(X, POOL)) / NOISE)
    assert found.rows[0] == np.argmax(values)
    np.testing.assert_allclose(found.gains[0], np.max(values), rtol=1e-6)


def test_gains_of_a_set_add_up_to_half_the_log_determinant():
    found = cavity.suggest(posterior(), POOL, 5)
    C = exact_covariance(X, POOL[found.rows])
    total = 0.5 * np.linalg.slogdet(np.eye(5) + C / NOISE)[1]
    np.testing.assert_allclose(np.sum(found.gains), total, rtol=1e-6)
    assert np.all(np.diff(found.gains) <= 1e-12)


def test_mutual_information_is_symmetric():
    """Identity 45: of y about f as much as of f about y, in a linear-Gaussian model."""
    w_var, x, s = 0.7, 1.3, 0.2
    v = w_var * x**2
    found = row_values(likelihoods.Gaussian(s), np.array([0.4]), np.array([v]), {})
    of_y = 0.5 * np.log((v + s) / s)
    of_w = 0.5 * np.log(w_var / (1.0 / (1.0 / w_var + x**2 / s)))
    np.testing.assert_allclose([float(found.information[0]), of_w], of_y, rtol=1e-12)


@pytest.mark.parametrize("criterion", ["information", "variance", "integrated"])
def test_sets_are_those_of_conditioning_on_one_row_after_another(criterion):
    where = R.uniform(-2.0, 2.0, (7, 2))
    reference = where if criterion == "integrated" else None
    found = cavity.suggest(posterior(), POOL, 4, criterion, reference)

    def gain(data, i):
        C = exact_covariance(data, POOL[[i]])[0, 0]
        if criterion == "information":
            return 0.5 * np.log1p(C / NOISE)
        if criterion == "variance":
            return C
        more = np.vstack([data, POOL[[i]]])
        before, after = (np.mean(np.diag(exact_covariance(d, where))) for d in (data, more))
        return before - after

    data, left = X, list(range(len(POOL)))
    for row, value in zip(found.rows, found.gains, strict=True):
        gains = [gain(data, i) for i in left]
        assert row == left[int(np.argmax(gains))]
        np.testing.assert_allclose(value, np.max(gains), rtol=0, atol=1e-8)
        data, left = np.vstack([data, POOL[[row]]]), [i for i in left if i != row]


def test_integrated_is_what_inference_with_the_row_gives():
    result = posterior()
    found = cavity.suggest(result, POOL, 1, "integrated")
    more = np.vstack([X, POOL[found.rows]])
    model = result.posterior.model
    after = cavity.infer(model, more, np.append(Y, 3.0), jitter=0.0).posterior
    before = np.mean(np.asarray(result.posterior.marginals(POOL).var))
    lowered = before - np.mean(np.asarray(after.marginals(POOL).var))
    np.testing.assert_allclose(found.gains[0], lowered, rtol=0, atol=1e-8)


DENSE = {
    "bernoulli": (likelihoods.Bernoulli("logit"), np.arange(2.0)),
    "poisson": (likelihoods.Poisson(), np.arange(150.0)),
    "student_t": (likelihoods.StudentT(0.5, 4.0), np.linspace(-300.0, 300.0, 60_001)),
}


def log_density(name, f, y):
    """Densities written down independently, (f, y)."""
    f, y = f[:, None], y[None]
    if name == "bernoulli":
        return -np.logaddexp(0.0, -(2.0 * y - 1.0) * f)
    if name == "poisson":
        return stats.poisson.logpmf(y, np.exp(f))
    return stats.t.logpdf(y, 4.0, f, 0.5)


@pytest.mark.sampled(2, "bernoulli", "poisson")
@pytest.mark.parametrize("name", DENSE)
def test_information_is_the_difference_of_entropies_by_dense_sums(name):
    """H(y) - E H(y | f), and E var(f | y) = v - v² J."""
    likelihood, y = DENSE[name]
    m, v = 0.4, 0.6
    step = 1.0 if name != "student_t" else y[1] - y[0]
    f = m + np.sqrt(v) * np.linspace(-8.0, 8.0, 201)
    w = np.exp(-0.5 * (f - m) ** 2 / v)
    w = w / np.sum(w)
    log_p = log_density(name, f, y)
    joint = np.log(w)[:, None] + log_p
    mixed = logsumexp(joint, axis=0)
    entropy = -np.sum(np.exp(mixed) * mixed) * step
    given = -np.sum(np.exp(joint) * log_p) * step
    share = np.exp(joint - mixed)
    mean = f @ share
    left = np.sum(np.exp(mixed) * (f**2 @ share - mean**2)) * step
    found = row_values(likelihood, np.array([m]), np.array([v]), {})
    np.testing.assert_allclose(float(found.information[0]), entropy - given, atol=2e-6)
    np.testing.assert_allclose(v - v**2 * float(found.fisher[0, 0, 0]), left, atol=2e-5)


def test_information_of_classes_is_that_of_draws():
    """Dependent functions of three classes, against plain draws."""
    m, A = np.array([0.3, -0.2, 0.5]), R.standard_normal((3, 3))
    V = A @ A.T + 0.1 * np.eye(3)
    f = m + R.standard_normal((200_000, 3)) @ np.linalg.cholesky(V).T
    p = np.exp(f - logsumexp(f, axis=1, keepdims=True))
    average = p.mean(axis=0)
    exact = np.mean(np.sum(p * np.log(p), axis=1)) - average @ np.log(average)
    G = ((p / average).T @ (f - m) / len(f)) @ np.linalg.inv(V)
    found = row_values(likelihoods.Softmax(3), m[:, None], V[:, :, None], {})
    np.testing.assert_allclose(float(found.information[0]), exact, atol=0.01)
    J = np.einsum("y,ya,yb->ab", average, G, G)
    np.testing.assert_allclose(found.fisher[:, :, 0], J, atol=0.02)


@pytest.mark.slow
def test_information_of_two_latent_functions_is_nonnegative_and_lowers_variances():
    model = cavity.GP((kernels.RBF(), kernels.RBF()), likelihoods.HeteroscedasticGaussian())
    result = cavity.infer(model, X, Y)
    found = cavity.suggest(result, POOL, 3)
    assert np.all(found.gains > 0.0)
    assert np.all(np.diff(found.gains) < 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("coupled", [True, False])
def test_classes_are_suggested_with_and_without_dependence(coupled):
    labels = (Y > -0.5).astype(float) + (Y > 0.5)
    model = cavity.GP(kernels.RBF(), likelihoods.MultinomialProbit(3))
    result = cavity.infer(model, X, labels, method=cavity.PowerEP(coupled=coupled))
    for criterion in ("information", "integrated"):
        found = cavity.suggest(result, POOL, 2, criterion)
        assert len(set(found.rows.tolist())) == 2
        assert np.all(found.gains > 0.0)


def test_several_outputs_add_up_and_sparse_models_serve():
    points = inducing.Points(X[:8])
    one = posterior(functionals=points)
    two = posterior(y=np.column_stack([Y, -Y]), functionals=points)
    single = cavity.suggest(one, POOL, 3)
    double = cavity.suggest(two, POOL, 3)
    np.testing.assert_array_equal(single.rows, double.rows)
    np.testing.assert_allclose(double.gains, 2.0 * single.gains)
    for criterion in ("variance", "integrated"):
        found = [cavity.suggest(result, POOL, 2, criterion).gains for result in (one, two)]
        np.testing.assert_allclose(*found)


def test_the_noise_of_each_candidate_counts():
    rows = {"noise_variance": np.full(len(X), NOISE)}
    result = cavity.infer(cavity.GP(kernels.RBF(), likelihoods.Gaussian()), X, Y, rows=rows)
    noise = np.full(len(POOL), 100.0)
    noise[4] = 0.01
    found = cavity.suggest(result, POOL, 1, rows={"noise_variance": noise})
    assert found.rows.tolist() == [4]
    with pytest.raises(ValueError, match="noise variance"):
        cavity.suggest(result, POOL)


def test_many_candidates_are_screened(monkeypatch):
    monkeypatch.setattr("cavity.learning.active.suggest.JOINT", 20)
    many = R.uniform(-3.0, 3.0, (70, 2))
    result = posterior()
    for criterion in ("information", "integrated"):
        found = cavity.suggest(result, many, 3, criterion)
        assert "20 of 70" in found.message
        assert len(set(found.rows.tolist())) == 3
    C = np.diag(exact_covariance(X, many))
    assert cavity.suggest(result, many, 1).rows[0] == np.argmax(C)


@pytest.mark.sampled(1, "information")
@pytest.mark.parametrize("criterion", ["information", "variance", "integrated"])
def test_looking_at_few_candidates_again_gives_the_same_sets(monkeypatch, criterion):
    """Gains fall as rows are known, so that the last ones are bounds (Minoux, 1978)."""
    labels = (Y > 0.0).astype(float)
    result = posterior(likelihoods.Bernoulli(), labels, inducing.Points(X[:8]))
    many = R.uniform(-3.0, 3.0, (40, 2))
    whole = cavity.suggest(result, many, 6, criterion)
    monkeypatch.setattr("cavity.learning.active.greedy.BLOCK", 3)
    few = cavity.suggest(result, many, 6, criterion)
    np.testing.assert_array_equal(few.rows, whole.rows)
    np.testing.assert_allclose(few.gains, whole.gains, rtol=1e-9)


def test_candidates_that_were_measured_tell_least():
    found = cavity.suggest(posterior(), np.vstack([X[:4], [[2.9, -2.9]]]), 5)
    assert found.rows[0] == 4
    # a second output there would tell more than those at the others
    assert sorted(found.rows.tolist()) == [0, 1, 2, 3, 4]
    assert np.all(found.gains > 0.0)


def test_integrated_is_the_fall_of_the_mean_variance_of_botorch():
    """qNegIntegratedPosteriorVariance: minus the mean over the reference after conditioning.

    Its closed form, for sets of rows at once.
    """
    where = R.uniform(-2.0, 2.0, (7, 2))
    found = cavity.suggest(posterior(), POOL, 4, "integrated", where)

    def acquisition(rows):
        data = np.vstack([X, POOL[rows]])
        return -np.mean(np.diag(exact_covariance(data, where)))

    chosen = found.rows.tolist()
    values = [acquisition(chosen[:i]) for i in range(5)]
    np.testing.assert_allclose(np.diff(values), found.gains, rtol=0, atol=1e-8)


def test_equal_candidates_are_chosen_once_and_all_are_returned():
    found = cavity.suggest(posterior(), np.vstack([POOL[:3], POOL[:3]]), 10)
    assert sorted(found.rows.tolist()) == [0, 1, 2]
    assert "3 distinct candidates: all are returned" in found.message


def test_misuse_is_refused():
    result = posterior()
    bad = POOL.copy()
    bad[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN or infinite, at index \[2, 1\]"):
        cavity.suggest(result, bad)
    with pytest.raises(ValueError, match="1 column, the model was fitted with 2"):
        cavity.suggest(result, POOL[:, :1])
    with pytest.raises(ValueError, match="whole number from 1 on, given 0"):
        cavity.suggest(result, POOL, 0)
    with pytest.raises(ValueError, match="integrated, improvement, given 'best'"):
        cavity.suggest(result, POOL, criterion="best")
    with pytest.raises(ValueError, match="for 'integrated'"):
        cavity.suggest(result, POOL, reference=X)
    with pytest.raises(TypeError, match=r"of a cavity\.GP, given str: infer or fit a GP"):
        cavity.suggest("model", POOL)
