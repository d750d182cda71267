"""The examination of a fit against dense algebra: terms, gains of points, noise, verdicts."""

import jax
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.learning.diagnostics import bracket as bracket_module
from tests.oracle import dense
from tests.tolerances import assert_close

N, M, JITTER = 60, 12, 1e-8
VARIANCE, LENGTHSCALE, NOISE, MEAN = 1.4, 0.9, 0.05, 0.3
RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-3.0, 3.0, (N, 2))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RANDOM.normal(size=N)
KNOWN = RANDOM.uniform(0.02, 0.3, N)
KERNEL = kernels.RBF(VARIANCE, LENGTHSCALE)
K = dense.rbf(X, X, VARIANCE, LENGTHSCALE)


def model(Z=X[:M], noise=NOISE):
    inside = None if Z is None else inducing.Points(Z)
    return cavity.GP(KERNEL, likelihoods.Gaussian(noise), inside, means.Constant(MEAN))


def low_rank(Z, rows=X):
    Kuf, Kuu = (dense.rbf(Z, W, VARIANCE, LENGTHSCALE) for W in (rows, Z))
    return dense.nystrom(Kuf, Kuu, JITTER * VARIANCE)


def textbook_terms(Q, y, noise, power):
    """Item 37 at any power, written from the statement: constant, complexity, fit, residual."""
    noise, power = np.broadcast_to(noise, N), np.broadcast_to(power, N)
    d = np.diag(K - Q)
    B = Q + np.diag(noise + power * d)
    positive = np.where(power > 0.0, power, 1.0)
    charge = np.where(
        power > 0.0, (1.0 - power) / positive * np.log1p(power * d / noise), d / noise
    )
    return (
        -0.5 * N * np.log(2.0 * np.pi),
        -0.5 * np.linalg.slogdet(B)[1],
        -0.5 * y @ np.linalg.solve(B, y),
        -0.5 * np.sum(charge),
    )


POWERS = np.linspace(0.0, 1.0, N)


@pytest.mark.sampled(1, "0")
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, POWERS], ids=["0", "0.5", "1", "per row"])
def test_the_terms_are_those_of_the_dense_objective_and_add_up(power):
    result = cavity.infer(model(), X, Y, power=power, rows={"noise_variance": KNOWN})
    e = cavity.examine(result, candidates=X[:3])
    expected = textbook_terms(low_rank(X[:M]), Y - MEAN, KNOWN, power)
    found = (e.terms.constant, e.terms.complexity, e.terms.data_fit, e.terms.residual)
    assert_close(np.array(found), np.array(expected), "factorised")
    assert_close(e.terms.log_evidence, result.log_evidence, "factorised")
    assert e.power == pytest.approx(np.mean(power))
    assert e.noise.known
    assert "known" in str(e)


def test_a_full_gp_has_terms_and_nothing_that_inducing_variables_have():
    e = cavity.examine(model(None), X, Y)
    expected = textbook_terms(K, Y - MEAN, NOISE, 0.0)
    assert_close(
        np.array([e.terms.complexity, e.terms.data_fit]), np.array(expected[1:3]), "factorised"
    )
    assert e.terms.residual == 0.0
    assert (e.count, e.gains, e.parts) == (None, None, None)
    assert e.inducing.enough
    assert e.noise.share == 0.0
    assert "is not approximated" in str(e)


def test_t22_the_gain_of_a_point_is_the_difference_of_two_dense_bounds():
    places = np.concatenate([X[M : M + 5], RANDOM.uniform(-4.0, 4.0, (4, 2)), X[2:3]])
    result = cavity.infer(model(), X, Y, power=1.0, rows={"noise_variance": KNOWN})
    gains = cavity.examine(result, candidates=places).gains
    assert gains.rows is None
    before = textbook_terms(low_rank(X[:M]), Y - MEAN, KNOWN, 0.0)
    for i, place in enumerate(places[:-1]):
        after = textbook_terms(low_rank(np.vstack([X[:M], place])), Y - MEAN, KNOWN, 0.0)
        change = np.subtract(after, before)[1:]
        found = (gains.complexity[i], gains.data_fit[i], gains.residual[i])
        np.testing.assert_allclose(found, change, rtol=1e-6, atol=1e-7)
        assert change[1] >= 0.0 >= change[0]
        assert_close(gains.gain[i], np.sum(change), "fixed_point")
    # all gains are positive, but at a point that is there already
    assert np.all(gains.gain[:-1] > 0.0)
    assert gains.gain[-1] == pytest.approx(0.0, abs=1e-5)
    assert gains.best == int(np.argmax(gains.gain))


def test_gains_add_over_outputs_with_missing_ones():
    both = np.column_stack([Y, np.cos(X[:, 1])])
    both[::4, 0], both[1::5, 1] = np.nan, np.nan
    e = cavity.examine(model(), X, both, missing="skip", power=0.0, candidates=X[M : M + 2])
    for i in range(2):
        change = 0.0
        for column in both.T:
            there = ~np.isnan(column)
            inside = K[np.ix_(there, there)]
            for Z, sign in ((X[:M], -1.0), (X[[*range(M), M + i]], 1.0)):
                Kuf = dense.rbf(Z, X[there], VARIANCE, LENGTHSCALE)
                Kuu = dense.rbf(Z, Z, VARIANCE, LENGTHSCALE)
                what = (inside, Kuf, Kuu, column[there], NOISE, MEAN, JITTER * VARIANCE)
                change += sign * dense.vfe_log_evidence(*what)
        assert_close(e.gains.gain[i], change, "fixed_point")
    assert_close(e.terms.log_evidence, e.bracket.log_evidence, "factorised")
    assert "candidate" in str(e)


def test_rows_are_the_candidates_and_the_best_one_is_the_best_of_all():
    e = cavity.examine(model(), X, Y, power=0.0)
    assert len(e.gains.gain) == N
    np.testing.assert_array_equal(e.gains.rows, np.arange(N))
    best = e.gains.best
    added = cavity.infer(model(np.vstack([X[:M], X[best]])), X, Y, power=0.0).log_evidence
    assert_close(added - e.bracket.log_evidence, e.gains.gain[best], "fixed_point")
    assert f"row {best}" in str(e)


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_t35_both_parts_of_the_function_add_up_to_it(power):
    result = cavity.infer(model(), X, Y, power=power)
    new = np.concatenate([X[:4], RANDOM.uniform(-3.0, 3.0, (5, 2)), [[50.0, 50.0]]])
    parts = cavity.diagnostics.function_parts(result.posterior, new)
    f = result.posterior.marginals(new)
    assert_close(parts.mean, f.mean, "factorised")
    assert_close(parts.var + parts.unlearnable_var, f.var, "factorised")
    prior = np.diag(low_rank(X[:M], new))
    assert_close(parts.prior_var, prior, "factorised")
    assert_close(parts.prior_var + parts.unlearnable_var, np.full(len(new), VARIANCE), "algebra")
    # T34: nothing at inducing points, everything far away
    assert np.max(parts.unlearnable_var[:4]) < 1e-6
    assert parts.unlearnable_var[-1] == pytest.approx(VARIANCE)
    assert np.all(parts.var <= parts.prior_var + 1e-12)
    with pytest.raises(ValueError, match="given FullProcess"):
        cavity.diagnostics.function_parts(cavity.infer(model(None), X, Y).posterior, new)
    with pytest.raises(ValueError, match="column"):
        cavity.diagnostics.function_parts(result.posterior, new[:, :1])


def test_the_noise_stands_beside_what_is_left_unexplained():
    result = cavity.infer(model(), X, Y, power=0.5)
    noise = cavity.examine(result).noise
    d = np.diag(K - low_rank(X[:M]))
    assert_close(noise.residual, np.mean(d), "factorised")
    assert_close(noise.share, np.mean(d) / NOISE, "factorised")
    error = np.mean((Y - np.asarray(result.posterior.marginals(X).mean)) ** 2)
    assert_close(noise.squared_error, error, "factorised")
    assert not noise.trusted
    assert cavity.examine(model(X[:57], 0.1), X, Y).noise.trusted


def test_inducing_variables_are_counted_three_ways():
    Z = np.vstack([X[:M], X[:2] + 1e-4, X[:1]])
    result = cavity.infer(model(Z), X, Y, power=1.0)
    count = cavity.examine(result).count
    assert (count.size, count.distinct) == (M + 3, M)
    # M - tr B⁻¹, with B of whitened variables at power 1
    Kuu = dense.rbf(X[:M], X[:M], VARIANCE, LENGTHSCALE) + JITTER * VARIANCE * np.eye(M)
    A = np.linalg.solve(np.linalg.cholesky(Kuu), dense.rbf(X[:M], X, VARIANCE, LENGTHSCALE))
    weight = 1.0 / (NOISE + np.diag(K) - np.sum(A**2, axis=0))
    determined = M - np.trace(np.linalg.inv(np.eye(M) + (A * weight) @ A.T))
    count = cavity.examine(model(), X, Y, power=1.0).count
    assert_close(count.determined, determined, "factorised")


@pytest.mark.slow
def test_verdicts_on_enough_points_too_few_and_nothing_but_noise():
    full = cavity.examine(model(X), X, Y, power=0.0)
    assert full.inducing.enough
    assert full.found
    assert "enough" in full.sentences[0]
    few = cavity.examine(model(X[:4], 0.8), X, Y, power=0.0)
    assert not few.inducing.enough
    assert "may be too large" in str(few)
    # far too little noise: FITC takes what points do not explain for noise
    unexplained = np.random.default_rng(5).normal(size=N)
    small = cavity.examine(model(X[:M], 0.02), X, unexplained, power=1.0)
    assert "too small" in str(small)
    assert "too high" in str(small)
    # at the optimum of noise alone the bracket has no width, and is not what the verdict says
    flat = cavity.GP(
        kernels.RBF(1e-6, 1.0), likelihoods.Gaussian(np.var(Y)), inducing.Points(X[:4])
    )
    nothing = cavity.examine(flat, X, Y - np.mean(Y), power=0.0)
    assert nothing.bracket.width < 1e-3
    assert nothing.found is False
    assert "no more than noise" in str(nothing)


@pytest.mark.slow
def test_sites_of_other_likelihoods_give_estimates():
    labels = (Y > 0.4).astype(float)
    sparse = cavity.GP(KERNEL, likelihoods.Bernoulli(), inducing.Points(X[:30]))
    e = cavity.examine(sparse, X, labels, power=0.5)
    assert e.noise is None
    assert not e.bracket.proved
    assert_close(e.terms.log_evidence, e.bracket.log_evidence, "factorised")
    assert e.terms.residual <= 0.0
    assert "estimate" in str(e)
    assert np.all(e.gains.gain >= 0.0)
    full = cavity.examine(cavity.GP(KERNEL, sparse.likelihood), X, labels)
    assert full.terms is None
    assert full.found
    assert "not approximated" in str(full)


@pytest.mark.slow
def test_one_row_and_outputs_that_do_not_vary():
    for x, y in ((X[:1], Y[:1]), (X, np.full(N, 2.0))):
        e = cavity.examine(model(X[:3]), x, y, power=0.5)
        assert e.noise_alone == np.inf
        assert "do not vary" in str(e)
        assert np.all(np.isfinite(e.gains.gain))
        assert "nan" not in str(e)


def test_one_output_that_does_not_vary_leaves_the_others_to_be_judged():
    both = np.column_stack([Y, np.full(N, 0.1)])
    gp = cavity.GP(KERNEL, likelihoods.Gaussian([0.05, 0.2]), inducing.Points(X[:M]))
    e = cavity.examine(gp, X, both)
    exact = sum(
        dense.exact_log_evidence(K, column, noise)
        for column, noise in zip(both.T, (0.05, 0.2), strict=True)
    )
    assert e.bracket.lower < exact < e.bracket.upper
    assert_close(e.terms.log_evidence, e.bracket.log_evidence, "factorised")
    alone = e.noise_alone + 0.5 * N * np.log(2.0 * np.pi * 0.2)
    expected = -0.5 * N * (np.log(2.0 * np.pi * np.var(Y)) + 1.0)
    assert_close(alone, expected, "algebra")
    assert "do not vary" not in str(e)
    # verdicts are those of the output that varies
    for inside in (gp.inducing, None):
        both_of = cavity.GP(KERNEL, likelihoods.Gaussian([0.05, 1e-9]), inside)
        one = cavity.examine(cavity.GP(KERNEL, likelihoods.Gaussian(0.05), inside), X, Y)
        e = cavity.examine(both_of, X, both)
        assert e.inducing.text == one.inducing.text
        assert_close(e.inducing.explained, one.inducing.explained, "factorised")


@pytest.mark.slow
def test_weights_of_features_are_no_inducing_points():
    gp = cavity.GP(
        kernels.RandomFourier(kernels.RBF(1.0, [1.0, 1.0]), 6), likelihoods.Gaussian(0.1)
    )
    result = cavity.infer(gp, X, Y, power=1.0)
    features = np.asarray(gp.kernel.features(X))
    exact = dense.exact_log_evidence(features @ features.T, Y, 0.1)
    for e in (cavity.examine(result), cavity.examine(gp, X, Y, candidates=X[:2])):
        assert_close(e.bracket.upper, exact, "factorised")
        assert (e.bracket.level, e.bracket.width, e.gains) == ("exact", 0.0, None)
        assert_close(e.terms.log_evidence, exact, "factorised")
        weight = np.linalg.inv(np.eye(12) + features.T @ features / 0.1)
        assert_close(e.count.determined, 12 - np.trace(weight), "factorised")
        assert dict(e.rows())["weights of features"].startswith("12, of which the data determine")
        assert "one more point" not in str(e)
        assert "inducing variables leave" not in str(e)
        assert "is not approximated" in e.sentences[0]


def test_a_result_has_its_own_power_and_method():
    result = cavity.infer(model(), X, Y, power=1.0)
    for asked in ({"power": 0.5}, {"method": cavity.PowerEP()}, {"jitter": 1e-8}):
        (name,) = asked
        for look in (cavity.examine, cavity.diagnostics.bracket):
            with pytest.raises(ValueError, match=f"has its own {name}"):
                look(result, X, Y, **asked)
    assert cavity.examine(result).power == 1.0


@pytest.mark.slow
def test_verdicts_name_the_power_or_dtc():
    repeated = np.vstack([X[:M], X[:1]])
    dtc = cavity.examine(model(repeated, 0.3), X, Y, power=0.0, method=cavity.PowerEP(dtc=True))
    assert not dtc.noise.charged
    assert_close(dtc.terms.residual, 0.0, "factorised")
    assert "DTC charges nothing" in str(dtc)
    assert "repeat others, and add nothing" in str(dtc)
    # the upper bound is above DTC at any rows, and above the bound of power 0
    assert dtc.bracket.overestimate == 0.0
    assert "powers above 0" not in str(dtc)
    bound = cavity.examine(model(repeated, 0.3), X, Y, power=0.0)
    assert bound.noise.charged
    assert "may be too large" in str(bound)
    unexplained = np.random.default_rng(5).normal(size=N)
    fitc = cavity.examine(model(repeated, 0.02), X, unexplained, power=1.0)
    assert fitc.bracket.overestimate > 0.0
    assert str(fitc).count("powers above 0") == 2


def test_beyond_the_budget_of_rows_the_cheap_bracket_is_used_and_said(monkeypatch):
    monkeypatch.setattr(bracket_module, "MOST_ROWS", N - 1)
    e = cavity.examine(model(), X, Y)
    assert e.bracket.level == "trace"
    assert "(trace)" in str(e)
    assert "cheap" in str(e)


@pytest.mark.slow
def test_what_cannot_be_examined_is_refused_with_the_reason():
    blocked = cavity.infer(model(), X, Y, power=1.0, blocks=np.arange(N) // 7)
    with pytest.raises(ValueError, match="rows of a block share"):
        cavity.examine(blocked, X, Y)
    with pytest.raises(ValueError, match="rows in memory"):
        cavity.examine(model(), cavity.fitting.Batches(lambda: iter([(X, Y)])))
    streamed = cavity.infer(model(), cavity.fitting.Batches(lambda: iter([(X, Y)])), power=0.0)
    with pytest.raises(ValueError, match="give X and y"):
        cavity.examine(streamed)
    with pytest.raises(ValueError, match="slopes"):
        cavity.examine(model(), X, Y, rows={"slope_of": np.full(N, -1)})
    softmax = cavity.GP(KERNEL, likelihoods.Softmax(3), inducing.Points(X[:M]))
    with pytest.raises(ValueError, match="one latent function"):
        cavity.examine(softmax, X, np.zeros(N))
    with pytest.raises(ValueError, match="candidates has 1 column"):
        cavity.examine(model(), X, Y, candidates=X[:, :1])
    with pytest.raises(ValueError, match="not the rows of this result"):
        cavity.examine(cavity.infer(model(), X, Y), X, Y + 1.0)
    with pytest.raises(ValueError, match="NaN"):
        cavity.examine(model(), X, np.where(np.arange(N) == 3, np.nan, Y))


@pytest.mark.slow
def test_draws_are_refused():
    pytest.importorskip("blackjax")
    sampler = cavity.MCMC(draws=20, warmup=5, chains=1, keep=20)
    drawn = cavity.infer(
        cavity.GP(KERNEL, likelihoods.Bernoulli()), X, (Y > 0.0).astype(float), method=sampler
    )
    with pytest.raises(ValueError, match="draws have no bracket"):
        cavity.examine(drawn, X, (Y > 0.0).astype(float))


@pytest.mark.slow
def test_in_single_precision():
    with jax.enable_x64(False):
        e = cavity.examine(model(X[:4]), X.astype(np.float32), Y.astype(np.float32), jitter=1e-5)
    exact = cavity.examine(model(X[:4]), X, Y, jitter=1e-5)
    assert e.terms.log_evidence == pytest.approx(exact.terms.log_evidence, rel=1e-3)
    assert e.gains.best == exact.gains.best
