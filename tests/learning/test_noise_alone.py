"""The evidence of noise alone, and the verdict on inducing variables that is measured by it."""

import dataclasses

import numpy as np
import pytest
from scipy import optimize, stats

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.learning.data.arrays import prepare
from cavity.learning.diagnostics.inducing_verdict import judge_inducing
from cavity.learning.diagnostics.noise_alone import noise_alone

RANDOM = np.random.default_rng(3)
N = 60
X = RANDOM.uniform(-3.0, 3.0, (N, 2))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RANDOM.normal(size=N)
BRACKET = cavity.diagnostics.Bracket(-50.0, -49.0, 1.0 / N, -51.0, 0.0, True, "products", 3)


def test_gaussian_noise_has_the_density_of_one_normal_distribution_of_the_outputs():
    expected = stats.norm(Y.mean(), Y.std()).logpdf(Y).sum()
    assert noise_alone(likelihoods.Gaussian(0.3), prepare(X, Y)) == pytest.approx(expected)
    # it is the largest evidence of a model without a function
    known = RANDOM.uniform(0.1, 2.0, N)
    data = prepare(X, Y, rows={"noise_variance": known})
    best = optimize.minimize_scalar(lambda c: -stats.norm(c, np.sqrt(known)).logpdf(Y).sum())
    assert noise_alone(likelihoods.Gaussian(0.3), data) == pytest.approx(-best.fun)


def test_several_outputs_share_a_variance_or_have_their_own_and_may_be_missing():
    both = np.column_stack([Y, 3.0 * np.cos(X[:, 1])])
    both[::4, 1] = np.nan
    data = prepare(X, both, missing="skip")
    seen = [column[~np.isnan(column)] for column in both.T]
    own = sum(stats.norm(c.mean(), c.std()).logpdf(c).sum() for c in seen)
    assert noise_alone(likelihoods.Gaussian([0.3, 0.3]), data) == pytest.approx(own)
    left = np.concatenate([c - c.mean() for c in seen])
    shared = stats.norm(0.0, np.sqrt(np.mean(left**2))).logpdf(left).sum()
    assert noise_alone(likelihoods.Gaussian(0.3), data) == pytest.approx(shared)


def test_an_output_that_does_not_vary_has_the_noise_of_the_model():
    # 0.1 has a mean that is not quite 0.1, so that its variance is a rounding error
    both = np.column_stack([np.full(N, 0.1), Y])
    expected = stats.norm(0.0, np.sqrt(0.2)).logpdf(0.0) * N
    expected += stats.norm(Y.mean(), Y.std()).logpdf(Y).sum()
    found = noise_alone(likelihoods.Gaussian([0.2, 0.3]), prepare(X, both))
    assert found == pytest.approx(expected)
    left = np.concatenate([np.zeros(N), Y - Y.mean()])
    shared = stats.norm(0.0, left.std()).logpdf(left).sum()
    assert noise_alone(likelihoods.Gaussian(0.3), prepare(X, both)) == pytest.approx(shared)
    assert noise_alone(likelihoods.Gaussian([0.2, 0.3]), prepare(X, both[:, [0, 0]])) == np.inf


def test_labels_counts_and_heavy_tails_have_their_best_constant():
    labels = (Y > 0.4).astype(float)
    share = labels.mean()
    entropy = N * (share * np.log(share) + (1.0 - share) * np.log(1.0 - share))
    assert noise_alone(likelihoods.Bernoulli(), prepare(X, labels)) == pytest.approx(entropy)
    counts = RANDOM.poisson(3.0, N).astype(float)
    expected = stats.poisson(counts.mean()).logpmf(counts).sum()
    assert noise_alone(likelihoods.Poisson(), prepare(X, counts)) == pytest.approx(expected)
    tailed = stats.t(4.0).rvs(N, random_state=1)
    df, place, scale = stats.t.fit(tailed, f0=4.0)
    best = stats.t(df, place, scale).logpdf(tailed).sum()
    likelihood = likelihoods.StudentT(scale=0.3, df=4.0)
    found = noise_alone(likelihood, prepare(X, tailed))
    assert found >= best - 1e-4
    classes = RANDOM.choice(3, N, p=[0.5, 0.3, 0.2]).astype(float)
    share = np.bincount(classes.astype(int)) / N
    expected = N * np.sum(share * np.log(share))
    found = noise_alone(likelihoods.Softmax(3), prepare(X, classes))
    assert found == pytest.approx(expected, rel=1e-4)


def test_outputs_that_do_not_vary_have_no_bound():
    for likelihood in (likelihoods.Gaussian(0.3), likelihoods.StudentT(scale=0.3, df=4.0)):
        assert noise_alone(likelihood, prepare(X, np.full(N, 2.0))) == np.inf
    assert noise_alone(likelihoods.Gaussian(0.3), prepare(X[:1], Y[:1])) == np.inf
    with pytest.raises(ValueError, match="no slopes"):
        noise_alone(likelihoods.Gaussian(0.3), prepare(X, Y, rows={"slope_of": np.zeros(N)}))


def test_the_verdict_measures_a_bracket_by_what_is_explained_over_noise():
    enough = judge_inducing(BRACKET, noise=-100.0)
    assert enough.enough
    assert enough.more_than_noise
    assert (enough.explained, enough.share) == (50.0, 0.02)
    assert "2 % of the 50" in str(enough)
    short = judge_inducing(BRACKET, noise=-60.0)
    assert not short.enough
    assert short.more_than_noise
    assert str(short).startswith("not enough")
    cheap = judge_inducing(dataclasses.replace(BRACKET, level="trace"), noise=-60.0)
    assert not cheap.enough
    assert str(cheap).startswith("not shown")
    unknown = judge_inducing(dataclasses.replace(BRACKET, upper=0.0), noise=-51.0)
    assert not unknown.enough
    assert unknown.more_than_noise is None
    # all noise: no width, and nothing to be had
    flat = judge_inducing(dataclasses.replace(BRACKET, upper=-50.0), noise=-50.0)
    assert flat.enough
    assert flat.more_than_noise is False
    assert "cannot help" in str(flat)
    assert "do not vary" in str(judge_inducing(BRACKET, noise=np.inf))
    # worse than noise: parameters of an approximation that is not near the model
    fault = judge_inducing(BRACKET, noise=-20.0)
    assert not fault.enough
    assert fault.more_than_noise is False
    assert "parameters are at fault" in str(fault)


def test_a_model_of_noise_has_a_tight_bracket_and_no_more_than_noise():
    y = RANDOM.normal(size=N)
    flat = cavity.GP(
        kernels.RBF(1e-6, 1.0), likelihoods.Gaussian(np.var(y)), inducing.Points(X[:4])
    )
    b = cavity.diagnostics.bracket(flat, X, y - y.mean())
    verdict = judge_inducing(b, noise_alone(flat.likelihood, prepare(X, y)))
    assert b.width < 1e-3
    assert verdict.more_than_noise is False
