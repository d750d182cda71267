"""Expectations of kernels under Gaussian inputs, against quadrature of `kernel.cross`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity import kernels
from cavity.kernels import (
    RBF,
    Constant,
    Linear,
    Matern52,
    SpectralMixture,
    White,
    expectations,
)
from cavity.kernels.expectations import (
    GaussianInputs,
    covariance_forms,
    covariance_sum,
    expected_cross,
    expected_diag,
    expected_outer_sum,
    expected_slopes,
)
from cavity.kernels.expectations import inputs as rows
from cavity.kernels.expectations.excess import _expm1, excess, turn
from cavity.kernels.expectations.rules import ClosedForm, Nodes, rule

N, D, M = 3, 2, 4
RNG = np.random.default_rng(5)
Z = jnp.asarray(RNG.normal(size=(M, D)))
MEAN = jnp.asarray(RNG.normal(size=(N, D)))
ROOTS = RNG.uniform(-0.6, 0.6, size=(N, D, D))
COVARIANCES = {
    "diagonal": jnp.asarray(RNG.uniform(0.05, 0.6, size=(N, D))),
    "full": jnp.asarray(ROOTS @ ROOTS.transpose(0, 2, 1)),
}
HALVES = RNG.normal(size=(2, M, M))
W = jnp.asarray(HALVES @ HALVES.transpose(0, 2, 1))
WEIGHTS = jnp.asarray(RNG.uniform(size=(N, 2)))

BUMP, LINE = RBF(1.3, [0.9, 1.9]), Linear([0.7, 1.2], [0.2, -0.5])
WAVES = SpectralMixture([0.6, 1.1], [[0.2, -0.1], [0.3, 0.3]], [[0.09, 0.11], [0.09, 0.11]])
CLOSED = {
    "rbf": BUMP,
    "sum": BUMP + LINE + Constant(0.4) + White(0.2),
    "waves": WAVES * RBF(0.8, 1.7) + LINE * RBF(1.1, 2.1).on(1),
    "products": BUMP.on(1, 0) * SpectralMixture([0.7], [[0.2]], [[0.1]]).on(1) * LINE
    + WAVES.on(0, 1) * SpectralMixture([0.7], [[0.2]], [[0.1]])
    + 0.5 * RBF(0.7, 1.4),
}


@eqx.filter_jit
def moments(kernel, inputs, Z, W, weights):
    values = {
        "cross": expected_cross(kernel, inputs, Z),
        "diag": expected_diag(kernel, inputs),
        "forms": covariance_forms(kernel, inputs, Z, W),
        "slopes": expected_slopes(kernel, inputs, Z),
    }
    if weights is not None:
        values["outer_sum"] = expected_outer_sum(kernel, inputs, Z, weights)
    return values


def by_quadrature(kernel, inputs):
    """The same by a Gauss-Hermite rule of order 50 in each column; slopes by Stein's identity."""
    x, w = np.polynomial.hermite_e.hermegauss(50)
    points = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    w = np.outer(w, w).ravel() / np.sum(w) ** 2
    cross, diag, cov, slopes = [], [], [], []
    evaluate = eqx.filter_jit(lambda kernel, X, Z: (kernel.cross(X, Z), kernel.diag(X)))
    for mean, S in zip(inputs.mean, inputs.cov, strict=True):
        S = np.diag(S) if S.ndim == 1 else np.asarray(S)
        steps = points @ np.linalg.cholesky(S).T
        K, variances = map(np.asarray, evaluate(kernel, mean + steps, Z))
        cross.append(w @ K)
        diag.append(w @ variances)
        away = K - cross[-1]
        cov.append(away.T @ (w[:, None] * away))
        slopes.append(np.linalg.solve(S, steps.T @ (w[:, None] * away)).T)
    cross, cov = np.array(cross), np.array(cov)
    second = cov + cross[:, :, None] * cross[:, None]
    return {
        "cross": cross,
        "diag": np.array(diag),
        "forms": np.einsum("nab,pab->np", cov, W),
        "slopes": np.array(slopes),
        "outer_sum": np.einsum("ng,nab->gab", WEIGHTS, second),
    }


CASES = [(name, form) for name in ("rbf", "sum") for form in COVARIANCES]


@pytest.mark.sampled(4, "sum-diagonal", "waves-diagonal")
@pytest.mark.parametrize(("name", "form"), [*CASES, ("waves", "diagonal"), ("products", "full")])
def test_closed_form_is_the_integral(name, form):
    """Identities bui 4 and vanderwilk T65, against quadrature in the place of draws."""
    inputs = GaussianInputs(MEAN, COVARIANCES[form])
    assert isinstance(rule(CLOSED[name], D), ClosedForm)
    actual, expected = (
        moments(CLOSED[name], inputs, Z, W, None if name == "products" else WEIGHTS),
        by_quadrature(CLOSED[name], inputs),
    )
    for key, value in actual.items():
        scale = np.max(np.abs(expected[key]))
        np.testing.assert_allclose(
            value, expected[key], rtol=1e-10, atol=1e-13 * scale, err_msg=key
        )


def forms(kernel, inputs, W=W):
    return covariance_forms(kernel, inputs, Z, W)


@eqx.filter_jit
def small(kernel, mean, S):
    """Forms at a small covariance, by closed forms and from slopes: the first order in it."""
    slopes = jax.vmap(jax.jacfwd(lambda x: kernel.cross(x[None], Z)[0]))(mean)
    by_slopes = jnp.einsum("nac,ncd,nbd,pab->np", slopes, S, slopes, W)
    variances = jnp.diagonal(S, axis1=1, axis2=2)
    diagonal = forms(kernel, GaussianInputs(mean, variances))
    return forms(kernel, GaussianInputs(mean, S)), diagonal, by_slopes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sum", "waves"])
def test_small_variances_cost_no_digits(name):
    """The second order is a share of 1e-12 at deviations of 1e-6, and nothing at 1e-8."""
    S = np.stack([np.diag([1.0, 0.5])] * N)
    for deviation, tolerance in ((1e-6, 1e-10), (1e-8, 1e-13)):
        full, diagonal, expected = small(CLOSED[name], MEAN, jnp.asarray(deviation**2 * S))
        np.testing.assert_allclose(full, expected, rtol=tolerance)
        np.testing.assert_allclose(diagonal, expected, rtol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), [*CASES, ("waves", "diagonal"), ("products", "full")])
def test_known_inputs(name, form):
    """Identity bui 4: without variance moments are the kernel's own values, nothing varies."""
    inputs = GaussianInputs(MEAN.at[0].set(Z[1]), jnp.zeros_like(COVARIANCES[form]))
    actual = moments(CLOSED[name], inputs, Z, W, None if name == "products" else WEIGHTS)
    K = CLOSED[name].cross(inputs.mean, Z)
    np.testing.assert_allclose(actual["cross"], K, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(actual["diag"], CLOSED[name].diag(inputs.mean), rtol=1e-14)
    assert np.all(actual["forms"] == 0.0)


def test_white_noise_of_uncertain_inputs():
    """An input is equal to a point only where the columns that the kernel sees are known."""
    mean = jnp.broadcast_to(Z[1], (3, D))
    inputs = GaussianInputs(mean, jnp.asarray([[0.0, 0.0], [0.0, 0.1], [0.1, 0.0]]))
    values = expected_cross(White(2.0) + White(3.0).on(0), inputs, Z)[:, 1]
    np.testing.assert_array_equal(values, [5.0, 3.0, 0.0])


@pytest.mark.slow
def test_gradients():
    """Along a direction in kernel, means, covariances, points and W: a central difference."""
    inputs = GaussianInputs(MEAN, COVARIANCES["full"])
    kernel, weights = CLOSED["sum"], jnp.asarray(RNG.normal(size=(N, 2)))
    leaves, structure = jax.tree.flatten((kernel, inputs, Z, W))
    steps = [jnp.asarray(RNG.normal(size=np.shape(leaf))) for leaf in leaves]

    @jax.jit
    def function(step):
        shifted = [leaf + step * direction for leaf, direction in zip(leaves, steps, strict=True)]
        kernel, inputs, Z, W = jax.tree.unflatten(structure, shifted)
        symmetric = GaussianInputs(inputs.mean, inputs.cov + jnp.swapaxes(inputs.cov, 1, 2))
        outer = expected_outer_sum(kernel, symmetric, Z, weights)
        slopes = expected_slopes(kernel, symmetric, Z)
        return (
            jnp.sum(weights * covariance_forms(kernel, symmetric, Z, W))
            + jnp.sum(outer * W)
            + jnp.sum(slopes)
        )

    difference = (function(1e-6) - function(-1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(function)(0.0), difference, rtol=1e-7)


def test_slopes_are_those_of_the_mean():
    """Also of a kernel at nodes."""
    inputs = GaussianInputs(MEAN, COVARIANCES["diagonal"])
    kernel, step = Matern52(1.3, [0.9, 1.9]), 1e-5 * np.eye(D)
    actual = expected_slopes(kernel, inputs, Z)
    for d in range(D):
        high, low = (
            expected_cross(kernel, GaussianInputs(MEAN + sign * step[d], inputs.cov), Z)
            for sign in (1, -1)
        )
        np.testing.assert_allclose(actual[:, :, d], (high - low) / 2e-5, rtol=1e-7, atol=1e-9)


def test_forms_are_not_negative():
    """With semidefinite W, at deviations from 1e-6 to 10 lengthscales in both columns."""
    cases = 10_000
    rng = np.random.default_rng(7)
    mean = 2.0 * rng.normal(size=(cases, D))
    variances = 10.0 ** rng.uniform(-12.0, 2.0, size=(cases, D))
    angle = rng.uniform(0.0, np.pi, size=cases)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    S = np.einsum("abn,nb,cbn->nac", turn, variances, turn)
    halves = rng.normal(size=(cases, M, M))
    halves[::2, :, 1:] = 0.0
    kernel = RBF(1.3, 1.0)

    def form_of(mean, S, half):
        inputs = GaussianInputs(mean[None], S[None])
        return forms(kernel, inputs, (half @ half.T)[None])[0, 0]

    diagonal = jax.jit(jax.vmap(form_of))(mean, variances, halves)
    full = jax.jit(jax.vmap(form_of))(mean, S, halves)
    assert np.min(diagonal) >= 0.0
    assert np.min(full) >= 0.0


@pytest.mark.parametrize("form", COVARIANCES)
def test_nodes_come_to_the_closed_form(form):
    """In two columns by a product rule, in four by quasi-random points."""
    inputs = GaussianInputs(MEAN, COVARIANCES[form])

    @eqx.filter_jit
    def moments_by(way, inputs):
        covariance = way.covariance(inputs, Z)
        symmetric = covariance + jnp.swapaxes(covariance, 1, 2)
        return way.cross(inputs, Z), way.slopes(inputs, Z), symmetric, way.diag(inputs)

    by_nodes, closed = Nodes(BUMP + LINE), rule(BUMP + LINE, D)
    for actual, expected in zip(
        moments_by(by_nodes, inputs), moments_by(closed, inputs), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-9)


def test_nodes_of_many_columns():
    """Known columns take no nodes; with four uncertain ones the points are quasi-random."""
    rng = np.random.default_rng(8)
    mean, Z = jnp.asarray(rng.normal(size=(N, 5))), jnp.asarray(rng.normal(size=(M, 5)))
    variances = jnp.asarray(rng.uniform(0.05, 0.3, size=(N, 5))).at[:, 1].set(0.0)
    few = variances.at[:, jnp.array([0, 4])].set(0.0)
    kernel = RBF(1.3, 1.5)
    by_nodes, closed = (eqx.filter_jit(way.cross) for way in (Nodes(kernel), rule(kernel, 5)))
    for cov, uncertain, tolerance in ((variances, (0, 2, 3, 4), 2e-2), (few, (2, 3), 1e-10)):
        inputs = GaussianInputs(mean, cov, uncertain)
        actual, expected = by_nodes(inputs, Z), closed(inputs, Z)
        np.testing.assert_allclose(actual, expected, atol=tolerance * np.max(expected))


def test_sums_with_a_kernel_at_nodes_are_at_nodes():
    assert isinstance(rule(BUMP + Matern52(), D), Nodes)
    assert isinstance(rule(LINE * Linear(), D), Nodes)


@pytest.mark.slow
def test_rows_in_chunks(monkeypatch):
    """The last chunk is filled up with rows that do not count."""
    inputs = GaussianInputs(MEAN, COVARIANCES["diagonal"])

    def function(inputs):
        outer = expected_outer_sum(BUMP, inputs, Z, WEIGHTS)
        return jnp.sum(WEIGHTS * forms(BUMP, inputs)) + jnp.sum(outer * W)

    whole = jax.jit(jax.value_and_grad(function))(inputs)
    monkeypatch.setattr(rows, "CACHED_NUMBERS", 2 * M**2)
    cut = jax.jit(jax.value_and_grad(lambda inputs: function(inputs)))(inputs)
    for actual, expected in zip(*map(jax.tree.leaves, (cut, whole)), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-13)


def test_derivative_of_excess():
    """What is written by hand is what differentiation of the plain formula gives."""
    a, b = jnp.asarray(RNG.normal(size=4)), jnp.asarray(RNG.normal(size=3))
    L = jnp.asarray([[1e-9, 0.2, 0.3], [-0.2, -0.3, 3.0], [-40.0, 50.0, 0.0], [1e-3, -1e-5, 1.0]])

    def plain(a, b, L):
        return jnp.exp(a)[:, None] * jnp.exp(b)[None, :] * jnp.expm1(L)

    change = (jnp.ones(4), jnp.arange(3.0), jnp.cos(L))
    for actual, expected in zip(
        jax.jvp(excess, (a, b, L), change), jax.jvp(plain, (a, b, L), change), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=2e-15)


@pytest.mark.slow
@pytest.mark.parametrize("form", COVARIANCES)
def test_derivatives_of_a_bump(form):
    """Of a form, of sums over rows, and forwards: as of the covariances one by one."""
    cov, weights = COVARIANCES[form], jnp.asarray(RNG.normal(size=(N, 2)))

    def plain(kernel, mean, cov, Z, W):
        covariance = rule(kernel, D).covariance(GaussianInputs(mean, cov), Z)
        return jnp.sum(weights[:, :1] * jnp.einsum("nkm,pkm->np", covariance, W))

    def of_rows(kernel, mean, cov, Z, W):
        return jnp.sum(weights[:, :1] * covariance_forms(kernel, GaussianInputs(mean, cov), Z, W))

    def of_sums(kernel, mean, cov, Z, W, columns=1):
        sums = covariance_sum(kernel, GaussianInputs(mean, cov), Z, weights[:, :columns])
        return jnp.sum(sums[0] * W)

    def of_several_sums(*arguments):
        return of_sums(*arguments, columns=2)

    point = BUMP, MEAN, cov, Z, W[:1]

    def slopes(function):
        kernel, mean, cov, *others = jax.jit(jax.grad(function, range(5)))(*point)
        # of slopes in a symmetric matrix only the symmetric part is defined
        cov = cov + jnp.swapaxes(cov, 1, 2) if cov.ndim == 3 else cov
        return kernel, mean, cov, *others

    expected = slopes(plain)
    for function in (of_rows, of_sums, of_several_sums):
        actual = slopes(function)
        for one, other in zip(*map(jax.tree.leaves, (actual, expected)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
    change = jax.tree.map(jnp.cos, point)
    along = [jax.jit(lambda f=f: jax.jvp(f, point, change)[1])() for f in (of_rows, plain)]
    np.testing.assert_allclose(*along, rtol=1e-12)


def test_expm1():
    """To all digits of small and large numbers, in both precisions."""
    x = np.concatenate([[0.0, 1e-18], np.geomspace(1e-300, 59.0, 500)])
    x = np.concatenate([x, -x])
    np.testing.assert_allclose(jax.jit(_expm1)(x), np.expm1(x), rtol=5e-16)
    single = x[(np.abs(x) > 1e-30) | (x == 0.0)].astype("f")
    actual = jax.jit(_expm1)(single)
    assert actual.dtype == single.dtype
    np.testing.assert_allclose(actual, np.expm1(single), rtol=3e-7)


def test_turn():
    """1 - cos and sin by polynomials, to all digits of small angles."""
    angles = np.concatenate([[0.0, np.pi, -np.pi], np.geomspace(1e-9, 1e5, 200), [-1.0, -300.0]])
    versine, sine = turn(jnp.asarray(angles))
    small = np.abs(angles) < 1.0
    for actual, expected in ((versine, 2.0 * np.sin(0.5 * angles) ** 2), (sine, np.sin(angles))):
        np.testing.assert_allclose(actual, expected, atol=2e-15)
        np.testing.assert_allclose(actual[small], expected[small], rtol=1e-15)


@pytest.mark.slow
def test_far_from_all_points():
    """Means that underflow times a ratio that overflows; and a wave that only its square has."""
    far = GaussianInputs(jnp.full((1, D), 80.0), jnp.full((1, D), 1.0))
    value, slope = jax.jit(jax.value_and_grad(lambda x: jnp.sum(forms(RBF(), x))))(far)
    assert value == 0.0
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slope))
    with jax.enable_x64(False):
        single = GaussianInputs(np.full((1, D), 30.0, "f"), np.ones((1, D), "f"))
        points, weights = np.zeros((3, D), "f"), np.ones((1, 3, 3), "f")
        assert covariance_forms(RBF(), single, points, weights) == 0.0
    # E k = 0 to e⁻⁸⁰⁰, E k² = 1/2 less what the narrow bandwidth takes
    wave = SpectralMixture([1.0], [[10.0]], [[1e-9]])
    inputs = GaussianInputs(jnp.zeros((1, 1)), jnp.full((1, 1), 1.0))
    variance = eqx.filter_jit(covariance_forms)(
        wave, inputs, jnp.zeros((1, 1)), jnp.ones((1, 1, 1))
    )
    np.testing.assert_allclose(variance, [[0.5]], rtol=1e-12)


def test_bad_inputs_are_refused():
    with pytest.raises(ValueError, match=r"given shapes \(3, 2\) and \(3, 2, 3\)"):
        GaussianInputs(jnp.zeros((3, 2)), jnp.zeros((3, 2, 3)))
    with pytest.raises(ValueError, match="the inputs have 2"):
        expected_cross(RBF().on(2), GaussianInputs(MEAN, COVARIANCES["full"]), Z)


def test_arrays_of_numpy_and_active_columns():
    """As arrays of JAX: loops over rows take elements of them."""
    random = np.random.default_rng(0)
    mean, Z = random.normal(size=(2, 3)), random.normal(size=(4, 3))
    some, var = kernels.Active(kernels.Matern32(), (0,)), np.full((2, 3), 0.1)
    found = expectations.expected_cross(some, expectations.GaussianInputs(mean, var), Z)
    inputs = expectations.GaussianInputs(jnp.asarray(mean), jnp.asarray(var))
    wanted = expectations.expected_cross(some, inputs, jnp.asarray(Z))
    np.testing.assert_array_equal(found, wanted)
