"""Class probabilities as ratios of Laplace's evidences, beside what is exact."""

import jax
import numpy as np
import pytest
from scipy import special

import cavity
from tests.oracle import dense
from tests.tolerances import assert_close

X = np.array([[0.0], [1.0], [1.5], [2.4]])
Y = np.array([0.0, 1.0, 1.0, 0.0])
NEW = np.array([[0.4], [2.0]])


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def by_sampling(kernel, log_prob, classes, draws=400_000):
    """Class probabilities of the new rows, by importance sampling from the prior."""
    r = np.random.default_rng(0)
    places = np.concatenate([X, NEW])
    K = np.asarray(kernel.cross(places, places)) + 1e-10 * np.eye(len(places))
    functions = 1 if classes == 2 else classes
    f = np.linalg.cholesky(K) @ r.standard_normal((functions, len(places), draws))
    weight = np.exp(sum(log_prob(f[:, i], int(y)) for i, y in enumerate(Y)))
    each = [
        [np.sum(weight * np.exp(log_prob(f[:, len(X) + i], c))) for c in range(classes)]
        for i in range(len(NEW))
    ]
    return np.array(each) / weight.sum()


def logit(f, label):
    return -np.logaddexp(0.0, -(2.0 * label - 1.0) * f[0])


def softmax(f, label):
    return f[label] - np.logaddexp.reduce(f, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "log_prob"),
    [
        (cavity.likelihoods.Bernoulli("logit"), logit),
        (cavity.likelihoods.Softmax(3), softmax),
    ],
    ids=["logit", "softmax"],
)
def test_nearer_to_the_truth_than_the_plain_prediction(likelihood, log_prob):
    """jylanki S54."""
    kernel = cavity.kernels.RBF(6.0, 0.8)
    model = cavity.GP(kernel, likelihood)
    found = np.exp(cavity.diagnostics.tierney_kadane(model, X, Y, NEW))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    truth = by_sampling(kernel, log_prob, likelihood.classes)
    out = cavity.infer(model, X, Y, method=cavity.Laplace()).posterior.predict(NEW)
    labels = np.arange(likelihood.classes, dtype=float)
    plain = np.exp([np.asarray(out.log_density(np.full(2, c))) for c in labels]).T
    assert np.max(np.abs(found - truth)) < 0.02
    assert np.max(np.abs(found - truth)) < np.max(np.abs(plain - truth))


def evidence_at_the_mode(K, labels):
    """Laplace's log evidence of a logit, dense: Newton's method on the precision's terms."""
    alpha, eye = np.zeros(len(labels)), np.eye(len(labels))
    for _ in range(100):
        f = K @ alpha
        p = special.expit(f)
        W = p * (1.0 - p)
        alpha = np.linalg.solve(eye + W[:, None] * K, W * f + labels - p)
    f = K @ alpha
    W = special.expit(f) * special.expit(-f)
    value = np.sum(special.log_expit((2.0 * labels - 1.0) * f)) - 0.5 * alpha @ f
    return value - 0.5 * np.linalg.slogdet(eye + W[:, None] * K)[1]


def test_probabilities_are_shares_of_two_evidences():
    """Each label's evidence is about a mode of its own, and their shares add up to one."""
    model = cavity.GP(cavity.kernels.RBF(6.0, 0.8), cavity.likelihoods.Bernoulli("logit"))
    found = cavity.diagnostics.tierney_kadane(model, X, Y, NEW)
    for new, row in zip(NEW, found, strict=True):
        places = np.concatenate([X, new[None]])
        K = dense.rbf(places, places, 6.0, 0.8)
        evidences = [evidence_at_the_mode(K, np.append(Y, label)) for label in (0.0, 1.0)]
        assert_close(row, evidences - np.logaddexp(*evidences), "fixed_point")


def test_a_mode_that_is_not_found_is_an_error():
    """New labels that contradict the data need more sweeps than the mode of the data."""
    x, y = np.zeros((1, 1)), np.ones(1)
    model = cavity.GP(cavity.kernels.RBF(400.0, 0.8), cavity.likelihoods.Bernoulli("logit"))
    with pytest.raises(cavity.fitting.NumericalError, match="no mode for a new row"):
        cavity.diagnostics.tierney_kadane(model, x, y, x, method=cavity.Laplace(max_sweeps=15))


def test_what_it_is_not_for():
    kernel, Z = cavity.kernels.RBF(), cavity.inducing.Points(X)
    sparse = cavity.GP(kernel, cavity.likelihoods.Bernoulli(), Z)
    with pytest.raises(ValueError, match="full GP"):
        cavity.diagnostics.tierney_kadane(sparse, X, Y, NEW)
    counts = cavity.GP(kernel, cavity.likelihoods.Poisson())
    with pytest.raises(ValueError, match="no labels"):
        cavity.diagnostics.tierney_kadane(counts, X, Y, NEW)
    with pytest.raises(ValueError, match=r"1 column|columns"):
        cavity.diagnostics.tierney_kadane(
            cavity.GP(kernel, cavity.likelihoods.Bernoulli()), X, Y, np.zeros((1, 2))
        )
