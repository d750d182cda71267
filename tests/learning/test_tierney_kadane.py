"""Class probabilities as ratios of Laplace's evidences, beside what is exact."""

import jax
import numpy as np
import pytest

import cavity

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
    found = np.exp(cavity.tierney_kadane(model, X, Y, NEW))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    truth = by_sampling(kernel, log_prob, likelihood.classes)
    out = cavity.infer(model, X, Y, method=cavity.Laplace()).posterior.predict(NEW)
    labels = np.arange(likelihood.classes, dtype=float)
    plain = np.exp([np.asarray(out.log_density(np.full(2, c))) for c in labels]).T
    assert np.max(np.abs(found - truth)) < 0.02
    assert np.max(np.abs(found - truth)) < np.max(np.abs(plain - truth))


def test_what_it_is_not_for():
    kernel, Z = cavity.kernels.RBF(), cavity.inducing.Points(X)
    sparse = cavity.GP(kernel, cavity.likelihoods.Bernoulli(), Z)
    with pytest.raises(ValueError, match="full GP"):
        cavity.tierney_kadane(sparse, X, Y, NEW)
    counts = cavity.GP(kernel, cavity.likelihoods.Poisson())
    with pytest.raises(ValueError, match="no labels"):
        cavity.tierney_kadane(counts, X, Y, NEW)
    with pytest.raises(ValueError, match=r"1 column|columns"):
        cavity.tierney_kadane(
            cavity.GP(kernel, cavity.likelihoods.Bernoulli()), X, Y, np.zeros((1, 2))
        )
