"""Windows, waves, slopes and combinations against definitions, oracles and each other."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inducing import (
    AbstractInducing,
    Combinations,
    Points,
    Slopes,
    Waves,
    Windows,
    covariance,
    merged,
)
from cavity.kernels import RBF, Constant, Linear, Matern12, Matern32, SpectralMixture
from cavity.parameters import Units, units
from tests.oracle import dense
from tests.tolerances import assert_close

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.5, 1.5, (7, 2))
PLACES = RNG.normal(size=(3, 2))
KINDS = {
    "points": Points(PLACES + 0.3),
    "windows": Windows(PLACES, RNG.uniform(0.2, 0.7, (3, 2))),
    "waves": Waves(PLACES, 0.4, RNG.normal(size=(3, 2)) * 0.4, [0.0, 0.7, -2.0]),
    "slopes": Slopes(PLACES, [0, 1, -1]),
    "sums": Combinations(Windows(RNG.normal(size=(6, 2)), 0.3), RNG.normal(size=(3, 2))),
}
KERNELS = {
    "rbf": RBF(1.3, [0.9, 1.4]),
    "mixture": SpectralMixture(
        [1.0, 0.5], 0.3 * RNG.normal(size=(2, 2)), [[0.2, 0.1], [0.1, 0.2]]
    ),
    "columns": 2.0 * RBF(1.0, 0.9).on(0) * SpectralMixture([1.0], [[0.2]], [[0.2]]).on(1)
    + Constant(0.3),
}
compiled = eqx.filter_jit(covariance)


@eqx.filter_jit
def every_pair(kernel, parts):
    return jnp.block([[covariance(kernel, a, b) for b in parts] for a in parts])


@eqx.filter_jit
def above_diagonal(kernel, parts):
    """Of three functionals each: the blocks from the diagonal on, row by row."""
    return [jnp.hstack([covariance(kernel, a, b) for b in parts[i:]]) for i, a in enumerate(parts)]


class Plain(AbstractInducing):
    """The definition of another functional alone, without its closed forms."""

    inner: AbstractInducing

    def __call__(self, g):
        return self.inner(g)

    @property
    def size(self):
        return self.inner.size


@pytest.mark.parametrize(
    "name", ["rbf", "mixture", pytest.param("columns", marks=pytest.mark.slow)]
)
def test_vanderwilk_t36_t38_every_pair_is_its_definition(name):
    """vanderwilk T36, T38: closed forms are quadratures of definitions; the joint is a covariance.

    The definitions go through both arguments of the kernel, one after the other.
    """
    kernel = KERNELS[name]
    kinds = list(KINDS.values()) if name == "rbf" else [KINDS["windows"], KINDS["waves"]]
    joint = np.asarray(every_pair(kernel, [*kinds, Points(X)]))
    plain = above_diagonal(kernel, [Plain(part) for part in kinds])
    found = [joint[3 * i : 3 * i + 3, 3 * i : 3 * len(kinds)] for i in range(len(kinds))]
    assert_close(np.hstack(found), np.hstack(plain), "quadrature")
    assert_close(joint, joint.T, "factorised")
    assert np.linalg.eigvalsh(joint)[0] > -1e-9


def waves_oracle(mu, delta, omega, phi, other, lengthscale, variance):
    """vanderwilk item 52 with general widths, one column, frequencies in radians per unit."""
    mu2, delta2, omega2, phi2 = other
    l2, s = lengthscale**2, lengthscale**2 + delta**2 + delta2**2
    D, total = mu - mu2, 0.0
    for sign in (1.0, -1.0):
        c = omega * delta**2 - sign * omega2 * delta2**2
        decay = omega**2 * delta**2 + omega2**2 * delta2**2 - c**2 / s
        total += np.exp(-0.5 * decay) * np.cos(phi + sign * phi2 - c * D / s)
    return 0.5 * variance * np.sqrt(l2 / s) * np.exp(-0.5 * D**2 / s) * total


def on_a_grid(mu, delta, omega, phi, other, lengthscale, variance):
    """The same by sums over a fine grid."""
    mu2, delta2, omega2, phi2 = other
    x = np.linspace(-7, 7, 1401)

    def weight(mu, delta, omega, phi):
        density = np.exp(-0.5 * ((x - mu) / delta) ** 2) / np.sqrt(2 * np.pi) / delta
        return density * np.cos(phi + omega * (x - mu)) * (x[1] - x[0])

    K = variance * np.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2)
    return weight(mu, delta, omega, phi) @ K @ weight(mu2, delta2, omega2, phi2)


def printed(mu, c, omega, phi, other, lengthscale):
    """The covariance of waves of one width as printed in eq. A.5: frequencies are not squared."""
    mu2, _, omega2, phi2 = other
    s, l2, D = 2 * c**2 + lengthscale**2, lengthscale**2, mu - mu2
    outer = 0.5 * np.sqrt(l2 / s) * np.exp(-0.5 * (c**2 * l2 * (omega + omega2) + D**2) / s)
    total = 0.0
    for sign in (1.0, -1.0):
        decay = np.exp(-0.5 * c**4 * (omega - sign * omega2) ** 2 / s)
        angle = c**2 * (omega + sign * omega2) / s * D - (phi - sign * phi2)
        total += decay * np.cos(angle)
    return outer * total


def test_vanderwilk_t36_t39_waves_are_the_corrected_formula():
    """vanderwilk T36, T39, X-8, X-9: of any widths; the printed formula is another number."""
    first, second = (0.2, 0.5, 3.0, 0.4), (0.9, 0.3, -2.0, 1.1)
    a, b = (
        Waves([[mu]], delta, omega / (2 * np.pi), phi) for mu, delta, omega, phi in (first, second)
    )
    value = float(compiled(RBF(1.3, 0.8), a, b)[0, 0])
    assert value == pytest.approx(waves_oracle(*first, second, 0.8, 1.3), rel=1e-12)
    assert value == pytest.approx(on_a_grid(*first, second, 0.8, 1.3), rel=1e-7)
    same = (0.9, 0.5, -2.0, 1.1)
    exact = waves_oracle(*first, same, 0.8, 1.0)
    assert exact == pytest.approx(on_a_grid(*first, same, 0.8, 1.0), rel=1e-7)
    assert abs(printed(*first, same, 0.8) - exact) > 0.05 * abs(exact)


def test_vanderwilk_t37_limits():
    """vanderwilk T37: narrow windows are points, waves of no frequency windows."""
    kernel = KERNELS["rbf"]
    parts = [
        Points(PLACES),
        Windows(PLACES, 1e-7),
        Windows(PLACES, 0.4),
        Waves(PLACES, 0.4, 0.0),
    ]
    joint = np.asarray(every_pair(kernel, parts)).reshape(4, 3, 4, 3)
    assert_close(joint[1, :, 1], joint[0, :, 0], "factorised")
    assert_close(joint[1, :, 0], joint[0, :, 0], "factorised")
    assert_close(joint[3], joint[2])


def test_windows_far_from_the_origin_keep_their_digits():
    near, far = (
        compiled(RBF(1.0, 0.5), Windows(PLACES + c, 0.4), Points(X + c)) for c in (0.0, 1e6)
    )
    assert_close(far, near, "factorised")


def test_other_kernels_have_quadrature_and_stay_consistent():
    """The functional is then a sum over nodes, so that the joint is a covariance all the same."""
    parts = [KINDS["windows"], KINDS["waves"], Points(X)]
    joint = every_pair(Matern32(1.3, 0.9) + Linear(0.5), parts)
    assert_close(joint, joint.T, "factorised")
    assert np.linalg.eigvalsh(joint)[0] > -1e-9
    in_one = [Windows(PLACES[:, :1], 0.4), Points(X[:, :1])]
    x = np.linspace(-5, 5, 4001)
    weights = np.exp(-0.5 * ((x - PLACES[:, :1]) / 0.4) ** 2) / np.sqrt(2 * np.pi) / 0.4
    r = np.sqrt(3) * np.abs(x[:, None] - X[:, 0]) / 0.9
    exact = (x[1] - x[0]) * weights @ ((1 + r) * np.exp(-r))
    assert np.max(np.abs(compiled(Matern32(1.0, 0.9), *in_one) - exact)) < 1e-4


def test_slopes_are_differences():
    """Covariances of slopes against finite differences, with values among them."""
    kernel, h = Matern32(1.3, [0.9, 1.4]), 1e-5
    slopes, windows = KINDS["slopes"], Points(X)
    step = h * np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    up, down = Points(PLACES + step), Points(PLACES - step)
    by_points = np.asarray(compiled(kernel, up, windows) - compiled(kernel, down, windows)) / 2 / h
    value = np.asarray(compiled(kernel, Points(PLACES), windows))
    assert_close(
        compiled(kernel, slopes, windows), np.concatenate([by_points[:2], value[2:]]), "gradient"
    )
    own = np.asarray(compiled(kernel, slopes, slopes))
    # k = σ²(1 + r)e⁻ʳ with r² = 3 Σ (x - x')²/ℓ²: the variance of a slope is 3 σ²/ℓ²
    assert_close(np.diag(own), 1.3 * np.array([3 / 0.9**2, 3 / 1.4**2, 1.0]), "factorised")


def problem(inducing, kernel=None, **changes):
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
    likelihood = cavity.likelihoods.Gaussian(0.1)
    model = cavity.GP(KERNELS["rbf"] if kernel is None else kernel, likelihood, inducing)
    return cavity.infer(model, X, y, **{"power": 0.5, "jitter": 0.0, **changes}), y


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["windows", "waves", "slopes", "sums"])
def test_every_power_is_the_dense_evidence(kind):
    """Views do not know which functional they serve: powers 0, 1/2 and 1 on dense matrices."""
    functional = KINDS[kind]
    joint = every_pair(KERNELS["rbf"], [functional, Points(X)])
    Kuu, Kuf, Kff = joint[:3, :3], joint[:3, 3:], joint[3:, 3:]
    for power in (0.0, 0.5, 1.0):
        result, y = problem(functional, power=power)
        expected = dense.power_ep_log_evidence(
            *(np.asarray(K) for K in (Kff, Kuf, Kuu)), y, 0.1, power
        )
        assert result.log_evidence == pytest.approx(expected, rel=1e-8)


def test_vanderwilk_t40_t41_sums_of_points():
    """vanderwilk T40, T41: one point each is points; the mean in its M x C basis functions."""
    points = Points(PLACES)
    one, _ = problem(Combinations(points, np.full((3, 1), 2.0)))
    assert_close(one.log_evidence, problem(points)[0].log_evidence, "factorised")
    both = Points(np.repeat(PLACES, 2, axis=0))
    halves, _ = problem(Combinations(both, np.tile([0.3, 0.7], (3, 1))))
    assert_close(halves.log_evidence, one.log_evidence, "factorised")
    base = Points(RNG.normal(size=(6, 2)))
    weights = RNG.normal(size=(3, 2))
    result, y = problem(Combinations(base, weights), power=0.0)
    scaled, _ = problem(Combinations(base, weights * [[3.0], [-0.1], [1.0]]), power=0.0)
    assert_close(scaled.log_evidence, result.log_evidence, "factorised")
    K = np.asarray(compiled(KERNELS["rbf"], base, Points(X)))
    W = np.zeros((3, 6))
    W[np.arange(3)[:, None], np.arange(6).reshape(3, 2)] = weights
    Kuu = W @ np.asarray(compiled(KERNELS["rbf"], base, base)) @ W.T
    alpha = np.linalg.solve(Kuu + (W @ K) @ (W @ K).T / 0.1, W @ K @ y / 0.1)
    assert_close(result.posterior.marginals(X).mean, (alpha @ W) @ K, "factorised", scale=1.0)
    full = problem(base, power=0.0)[0].log_evidence
    assert result.log_evidence <= full + 1e-8  # vanderwilk T42: their span is inside
    Kuf = W @ K
    assert np.linalg.matrix_rank(dense.nystrom(Kuf, Kuu), tol=1e-8) <= 3  # vanderwilk T43


def test_vanderwilk_t46_sums_and_their_slopes():
    """vanderwilk T46: term by term is the direct sum, and so are derivatives."""
    base, weights = KINDS["sums"].base, KINDS["sums"].weights

    def direct(base, weights, kernel):
        K = covariance(kernel, base, base).reshape(3, 2, 3, 2)
        return jnp.einsum("mcnd,mc,nd->mn", K, weights, weights)

    @eqx.filter_jit
    def value_and_slope(function, parts):
        return eqx.filter_value_and_grad(lambda p: jnp.sum(jnp.sin(function(*p))))(parts)

    def streamed(base, weights, kernel):
        both = Combinations(base, weights)
        return covariance(kernel, both, both)

    parts = base, jnp.asarray(weights), KERNELS["rbf"]
    (a, slopes_a), (b, slopes_b) = (value_and_slope(f, parts) for f in (direct, streamed))
    assert_close(a, b)
    for x, y in zip(jax.tree.leaves(slopes_a), jax.tree.leaves(slopes_b), strict=True):
        assert_close(y, x, "factorised", scale=1.0)


def test_vanderwilk_t44_merged_variables_keep_the_mean():
    """vanderwilk T44: merged with the weights of the mean, at the mean's own weights."""
    points = Points(np.array([[0.0, 0.0], [0.4, 0.1], [-1.0, 0.5]]))
    kernel = KERNELS["rbf"]
    result, y = problem(points, power=0.0)
    Kuf = np.asarray(compiled(kernel, points, Points(X)))
    Kuu = np.asarray(compiled(kernel, points, points))
    alpha = np.linalg.solve(Kuu + Kuf @ Kuf.T / 0.1, Kuf @ y / 0.1)
    both = merged(points, 0, 1, alpha[:2])
    assert both.size == 2
    K = np.asarray(compiled(kernel, both, Points(X)))
    mean = np.array([alpha[2], np.max(np.abs(alpha[:2]))]) @ K
    assert_close(mean, result.posterior.marginals(X).mean, "factorised", scale=1.0)
    again = merged(both, 0, 1, [1.0, 2.0])
    assert again.size == 1
    assert again.base.size == 4


def test_units_of_the_parameters():
    found = units(KINDS["waves"])
    assert found.centres == Units(input=1, location=True)
    assert found.widths == Units(input=1)
    assert found.frequencies == Units(input=-1)
    assert found.phases == Units()


@pytest.mark.parametrize("kind", ["waves", "slopes", "sums"])
def test_files_keep_functionals(kind, tmp_path):
    """The posterior predicts the same after it was saved and loaded."""
    posterior = problem(KINDS[kind])[0].posterior
    cavity.fitting.save_module(tmp_path / "model", posterior, {})
    loaded, _ = cavity.fitting.load_module(tmp_path / "model")
    assert_close(loaded.marginals(X).mean, posterior.marginals(X).mean)


@pytest.mark.slow
def test_functionals_are_learned():
    """Windows in ten columns, with a text of a model that names what is learned."""
    wide = RNG.normal(size=(20, 10))
    y = np.sin(wide[:, 0])
    likelihood = cavity.likelihoods.Gaussian(0.1)
    model = cavity.GP(RBF(1.0, 3.0), likelihood, Waves(wide[:4], 0.5, 0.1))
    start = cavity.infer(model, wide, y, power=0.0).log_evidence
    result = cavity.fit(model, wide, y, power=0.0, max_iterations=4)
    assert result.log_evidence > start
    assert "inducing.frequencies" in str(result.model)
    assert "fixed" in str(cavity.GP(RBF(), likelihood, KINDS["slopes"]))


REFUSED = {
    "widths": (lambda: Windows(PLACES, [0.1, 0.2, 0.3]), "broadcasts"),
    "centres": (lambda: Windows(PLACES[:, 0], 0.1), r"centres\[:, None\]"),
    "no centres": (lambda: Windows(PLACES[:0], 0.1), "at least one row"),
    "zero width": (lambda: problem(Windows(PLACES, 0.0)), "widths must be positive"),
    "negative width": (lambda: problem(Windows(PLACES, -1.0)), "widths must be positive"),
    "no such column": (lambda: Slopes(PLACES, 2), "columns 0 to 1"),
    "half a column": (lambda: Slopes(PLACES, 0.5), "no column"),
    "rough": (lambda: problem(Slopes(PLACES, 0), Matern12()), "Matern12"),
    "rough inside": (lambda: problem(Slopes(PLACES, 0), RBF() * 2.0 + Matern12().on(0)), "Mat"),
    "other columns": (lambda: problem(Windows(PLACES[:, :1], 0.1)), "X has 2"),
    "no weights": (lambda: Combinations(Points(PLACES), np.zeros((3, 1))), "are zero"),
    "wrong base": (lambda: Combinations(Points(PLACES), np.ones((3, 2))), "base of 6"),
    "vector of weights": (lambda: Combinations(Points(PLACES), np.ones(3)), "matrix"),
    "merged with itself": (lambda: merged(Points(PLACES), 1, 1, [1, 1]), "different"),
    "merged with none": (lambda: merged(Points(PLACES), 0, 1, [0, 0]), "not both zero"),
    "too many columns": (
        lambda: compiled(Matern32(), Windows(np.zeros((2, 10)), 0.1), Points(np.ones((2, 10)))),
        "up to 3 columns",
    ),
}


@pytest.mark.parametrize(("attempt", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_with_the_reason(attempt, message):
    with pytest.raises(ValueError, match=message):
        attempt()
