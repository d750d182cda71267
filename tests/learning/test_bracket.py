"""Brackets of the exact evidence against dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import diagnostics, fitting, inducing, kernels, likelihoods, means
from cavity.learning.diagnostics.row_covariance import Observations, low_rank, row_covariance
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


def low_rank_part(Z):
    Kuf, Kuu = (dense.rbf(Z, W, VARIANCE, LENGTHSCALE) for W in (X, Z))
    return dense.nystrom(Kuf, Kuu, JITTER * VARIANCE)


def textbook(v, y, Q, noise):
    """Both bounds for any v, written from the statement."""
    A, B = K + np.diag(noise), Q + np.diag(noise)
    r = y - A @ v
    upper = dense.gaussian_log_density(np.zeros(N), 0.0, B) - 0.5 * (2.0 * y @ v - v @ A @ v)
    share = np.sum(np.log1p(np.diag(K - Q) / noise))
    return upper - 0.5 * share - 0.5 * r @ np.linalg.solve(B, r), upper


@pytest.fixture(scope="module")
def system():
    @jax.jit
    def build(gp):
        y, ones = jnp.asarray(Y - MEAN)[:, None], jnp.ones((N, 1))
        data = Observations(jnp.asarray(X), y, ones, jnp.asarray(KNOWN)[:, None], jnp.arange(N))
        variable, view = gp.latents[0].sparse_layout(1, JITTER)
        bare = low_rank(variable, view, data)
        return bare, row_covariance(view, data, bare.belief)

    return build(jax.tree.map(jnp.asarray, model()))


def test_every_vector_gives_bounds_at_the_stated_distance(system):
    bare, rows = system
    Q = low_rank_part(X[:M])
    y = Y - MEAN
    exact = dense.exact_log_evidence(K, y, KNOWN)
    A, B = K + np.diag(KNOWN), Q + np.diag(KNOWN)
    vectors = RANDOM.normal(size=(N, 6)) * np.logspace(-3, 1, 6)
    near = np.linalg.solve(A, y)[:, None] + 0.01 * RANDOM.normal(size=(N, 2))
    columns = np.concatenate([vectors, near, np.linalg.solve(B, y)[:, None]], axis=1)
    products, solutions = rows.multiply(jnp.asarray(columns)), rows.solve(jnp.asarray(columns))
    assert_close(products, A @ columns, "factorised")
    assert_close(solutions, np.linalg.solve(B, columns), "factorised")
    assert_close(bare.volume, dense.gaussian_log_density(np.zeros(N), 0.0, B), "factorised")
    assert_close(bare.quadratic, y @ np.linalg.solve(B, y), "factorised")
    for v, Av in zip(columns.T, np.asarray(products).T, strict=True):
        lower, upper = textbook(v, y, Q, KNOWN)
        assert lower <= exact + 1e-9
        assert upper >= exact - 1e-9
        r = y - Av
        ours = float(bare.volume) - 0.5 * (2.0 * y @ v - v @ Av)
        assert_close(ours, upper, "factorised")
        width = 0.5 * float(bare.log_share) + 0.5 * r @ np.linalg.solve(B, r)
        assert_close(upper - lower, width, "factorised")


@pytest.mark.parametrize("known", [False, True])
def test_t18_bounds_enclose_the_exact_evidence_at_every_level(known):
    side = {"noise_variance": KNOWN} if known else None
    noise = KNOWN if known else np.full(N, NOISE)
    exact = dense.exact_log_evidence(K, Y, noise, MEAN)
    Kuf = dense.rbf(X[:M], X, VARIANCE, LENGTHSCALE)
    Kuu = dense.rbf(X[:M], X[:M], VARIANCE, LENGTHSCALE)
    bound = dense.vfe_log_evidence(K, Kuf, Kuu, Y, noise, MEAN, JITTER * VARIANCE)
    Q = low_rank_part(X[:M])
    d = np.diag(K - Q)
    tight = dense.dtc_log_evidence(Kuf, Kuu, Y, noise, MEAN, JITTER * VARIANCE)
    tight -= 0.5 * np.sum(np.log1p(d / noise))
    volume = dense.gaussian_log_density(np.zeros(N), 0.0, Q + np.diag(noise))
    found = {}
    for level in ("products", "trace", "row sums"):
        options = {"power": 0.0, "rows": side, "level": level}
        found[level] = b = diagnostics.bracket(model(), X, Y, **options)
        assert bound <= tight <= b.lower + 1e-8
        assert b.lower <= exact <= b.upper
        assert b.proved
        assert_close(b.per_row, (b.upper - b.lower) / N)
        assert_close(b.log_evidence, bound, "factorised")
        assert b.overestimate == 0.0
    for level, c in (("trace", d.sum()), ("row sums", np.abs(K - Q).sum(axis=1).max())):
        wide = Q + np.diag(noise + c)
        upper = volume - 0.5 * (Y - MEAN) @ np.linalg.solve(wide, Y - MEAN)
        assert_close(found[level].upper, upper, "factorised")
        assert_close(found[level].lower, tight, "factorised")
        assert found["products"].upper < upper


def test_the_budget_of_products_and_its_end():
    brackets = [diagnostics.bracket(model(), X, Y, products=count) for count in (1, 3, 10)]
    widths = [b.width for b in brackets]
    assert widths == sorted(widths, reverse=True)
    assert [b.products for b in brackets][:2] == [1, 3]
    floor = 0.5 * np.sum(np.log1p(np.diag(K - low_rank_part(X[:M])) / NOISE))
    ended = diagnostics.bracket(model(), X, Y, products=50)
    assert ended.products < 50
    assert floor < ended.width < 1.1 * floor
    constant = diagnostics.bracket(model(), X, np.full(N, MEAN))
    assert constant.products == 0
    assert np.isfinite(constant.upper)


@pytest.mark.slow
def test_t24_all_are_equal_with_a_point_at_every_row():
    exact = dense.exact_log_evidence(K, Y, NOISE, MEAN)
    for level in ("products", "trace", "row sums"):
        b = diagnostics.bracket(model(X), X, Y, power=0.0, level=level, jitter=1e-10)
        np.testing.assert_allclose([b.lower, b.upper, b.log_evidence], exact, atol=2e-3)
    # nested sets of points: bounds come closer
    widths = [diagnostics.bracket(model(X[:m]), X, Y).width for m in (M, 2 * M, 4 * M)]
    assert widths == sorted(widths, reverse=True)
    full = diagnostics.bracket(model(None), X, Y)
    assert full.lower == full.upper == full.log_evidence
    assert full.level == "exact"
    assert_close(full.lower, exact, "factorised")


@pytest.mark.slow
def test_t16_fitc_above_the_exact_evidence_is_found_out():
    # far too little noise: FITC takes what points do not explain for noise
    y = RANDOM.normal(size=N)
    wrong = model(X[:M], 0.02)
    exact = dense.exact_log_evidence(K, y, 0.02, MEAN)
    b = diagnostics.bracket(wrong, X, y, power=1.0)
    assert b.lower <= exact <= b.upper < b.log_evidence
    assert_close(b.overestimate, b.log_evidence - b.upper)
    assert diagnostics.bracket(wrong, X, y, power=0.0).overestimate == 0.0


@pytest.mark.slow
def test_outputs_add_and_missing_ones_are_left_out():
    both = np.column_stack([Y, np.cos(X[:, 1])])
    absent = both.copy()
    absent[::4, 0], absent[1::5, 1] = np.nan, np.nan
    exact = 0.0
    for column in absent.T:
        there = ~np.isnan(column)
        exact += dense.exact_log_evidence(K[np.ix_(there, there)], column[there], NOISE, MEAN)
    for level in ("products", "trace", "row sums"):
        b = diagnostics.bracket(model(), X, absent, missing="skip", level=level, products=60)
        assert b.lower <= exact <= b.upper
    exact = sum(dense.exact_log_evidence(K, column, NOISE, MEAN) for column in both.T)
    b = diagnostics.bracket(model(X[: N - 1]), X, both, products=60)
    assert b.lower <= exact <= b.upper
    assert b.per_row == pytest.approx((b.upper - b.lower) / (2 * N))


def test_a_result_knows_its_rows_power_and_blocks():
    result = cavity.infer(model(), X, Y, power=1.0)
    b = diagnostics.bracket(result)
    assert b == diagnostics.bracket(result, X, Y) == diagnostics.bracket(model(), X, Y, power=1.0)
    assert b.log_evidence == result.log_evidence
    with pytest.raises(ValueError, match="not the rows of this result"):
        diagnostics.bracket(result, X, Y + 1.0)
    blocked = cavity.infer(model(), X, Y, power=1.0, blocks=np.arange(N) // 7)
    known = diagnostics.bracket(blocked, X, Y)
    assert known.log_evidence == blocked.log_evidence
    assert_close(known.upper, b.upper, "factorised")
    assert_close(diagnostics.bracket(blocked).upper, b.upper, "factorised")
    for x, y in ((X + 1.0, Y), (X, Y + 1.0), (X[1:], Y[1:]), (X, Y[::-1])):
        with pytest.raises(ValueError, match="not the rows of this result"):
            diagnostics.bracket(blocked, x, y)
    with pytest.raises(ValueError, match="not the rows of this result"):
        diagnostics.bracket(blocked, X, Y, rows={"noise_variance": KNOWN})
    streamed = cavity.infer(model(), fitting.Batches(lambda: iter([(X, Y)])), power=1.0)
    with pytest.raises(ValueError, match="came in batches"):
        diagnostics.bracket(streamed, X, Y)


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_sites_of_other_likelihoods_give_an_estimate(power):
    labels = (Y > 0.4).astype(float)
    sparse = cavity.GP(KERNEL, likelihoods.Bernoulli(), inducing.Points(X[:30]))
    full = cavity.infer(cavity.GP(KERNEL, sparse.likelihood), X, labels, power=power)
    b = diagnostics.bracket(sparse, X, labels, power=power, products=20)
    assert not b.proved
    assert b.lower - 1.0 < full.log_evidence < b.upper + 1.0
    # where the noise is Gaussian, sites found by sweeps give what is proved
    swept = cavity.infer(model(), X, Y, power=power, method=cavity.PowerEP(exact=False))
    assert diagnostics.bracket(swept).upper == pytest.approx(
        diagnostics.bracket(model(), X, Y).upper
    )


@pytest.mark.slow
def test_what_has_no_bracket_is_refused_with_the_reason():
    for other, message in (
        (
            cavity.DeepGP([cavity.Layer(KERNEL, inducing.Points(X[:M]))], model().likelihood),
            "full GP",
        ),
        (cavity.GP(KERNEL, likelihoods.Softmax(3), inducing.Points(X[:M])), "one latent function"),
    ):
        with pytest.raises(ValueError, match=message):
            diagnostics.bracket(other, X, np.zeros(N))
    with pytest.raises(ValueError, match="level must be"):
        diagnostics.bracket(model(), X, Y, level="best")
    with pytest.raises(ValueError, match="at least 1"):
        diagnostics.bracket(model(), X, Y, products=0)
    with pytest.raises(ValueError, match="rows in memory"):
        diagnostics.bracket(model(), fitting.Batches(lambda: iter([(X, Y)])))
    with pytest.raises(ValueError, match="columns"):
        diagnostics.bracket(model(), X[:, :1], Y)
    tied = cavity.TiedPowerEP()
    sparse = cavity.GP(KERNEL, likelihoods.Bernoulli(), inducing.Points(X[:4]))
    with pytest.raises(ValueError, match="a site for every row"):
        diagnostics.bracket(sparse, X, (Y > 0.0).astype(float), method=tied)


def test_thirty_random_models_have_the_exact_evidence_inside():
    for seed in range(30):
        random = np.random.default_rng(seed)
        variance, lengthscale, noise = np.exp(random.normal(0.0, [1.0, 0.7, 1.5], 3))
        noise, y = 0.1 * noise, np.sin(random.uniform(0.5, 3.0) * X[:, 0])
        y = y + np.sqrt(noise) * random.normal(size=N)
        Z = X[random.choice(N, M, replace=False)]
        kernel = kernels.RBF(variance, lengthscale)
        gp = cavity.GP(
            kernel, likelihoods.Gaussian(noise), inducing.Points(Z), means.Constant(0.0)
        )
        exact = dense.exact_log_evidence(dense.rbf(X, X, variance, lengthscale), y, noise)
        b = diagnostics.bracket(gp, X, y, power=float(seed % 2), products=1 + seed % 7)
        assert b.proved
        slack = 1e-6 * max(abs(exact), 1.0)
        assert b.lower - slack <= exact <= b.upper + slack
        assert b.overestimate <= max(b.log_evidence - exact, 0.0) + slack
