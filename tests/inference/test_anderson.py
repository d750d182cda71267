"""Extrapolated iterations (Walker and Ni, 2011) against plain ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference.solvers import anderson
from cavity.inference.solvers.anderson import empty_history
from cavity.inference.solvers.settings import AndersonSettings
from cavity.likelihoods import StudentT

EIGENVALUES = {
    "diverges": [-3.0, 2.0, 0.5, -0.9],
    "creeps": [0.999, -0.998, 0.99, 0.3],
}
SETTINGS = AndersonSettings()
# a unit in which nothing is far away
SMALL = 1e-6
# the log evidences of the four-point problem at the powers of identity 23
FOUR_POINTS = {1.0: -7.066379, 0.8: -7.202093}


@eqx.filter_jit
def step(history, at, target, calm):
    units = jax.tree.map(lambda x: jnp.full_like(x, SMALL), at)
    return history.next_iterate(at, target, units, jnp.asarray(1.0), calm)


def linear(eigenvalues):
    """A map G(x) = A x + b, A not symmetric, and its fixed point."""
    random = np.random.default_rng(4)
    basis = np.eye(len(eigenvalues)) + 0.3 * random.standard_normal((len(eigenvalues),) * 2)
    A = basis @ np.diag(eigenvalues) @ np.linalg.inv(basis)
    b = random.standard_normal(len(eigenvalues))
    return A, b, np.linalg.solve(np.eye(len(b)) - A, b)


def iterated(A, b, count):
    """The iterates of extrapolation from zero, in two leaves as sites have them."""
    half = len(b) // 2
    at = {"shift": jnp.zeros(half), "precision": jnp.zeros(len(b) - half)}
    history, found = empty_history(at), []
    for _ in range(count):
        x = np.concatenate([at["precision"], at["shift"]])
        found.append(x)
        target = A @ x + b
        parts = {"precision": jnp.asarray(target[:-half]), "shift": jnp.asarray(target[-half:])}
        at, history = step(history, at, parts, jnp.asarray(True))
    return found + [np.concatenate([at["precision"], at["shift"]])]


@pytest.mark.parametrize("case", EIGENVALUES)
def test_linear_iterations_end_after_as_many_steps_as_dimensions(case):
    """Walker and Ni (2011), theorem 2.2: with all differences kept it is GMRES."""
    A, b, fixed = linear(EIGENVALUES[case])
    size = np.linalg.norm(fixed)
    plain = np.zeros(len(b))
    for _ in range(len(b) + 2):
        plain = A @ plain + b
    assert np.linalg.norm(plain - fixed) > 0.3 * size
    found = iterated(A, b, len(b) + 2)
    assert np.linalg.norm(found[-1] - fixed) < 1e-3 * size
    assert np.linalg.norm(found[len(b) - 1] - fixed) > 1e-3 * size
    assert np.linalg.norm(iterated(A, b, 40)[-1] - fixed) < 1e-9 * size


def test_old_differences_make_room():
    """More dimensions than are kept still converge, and the memory stays as it is."""
    eigenvalues = np.linspace(-0.95, 0.99, 2 * SETTINGS.depth)
    A, b, fixed = linear(eigenvalues)
    found = iterated(A, b, 120)
    plain = np.zeros(len(b))
    for _ in range(120):
        plain = A @ plain + b
    error = np.linalg.norm(found[-1] - fixed)
    assert error < 1e-6 * np.linalg.norm(fixed)
    assert error < 1e-3 * np.linalg.norm(plain - fixed)


@pytest.mark.slow
def test_work_in_parts_changes_nothing(monkeypatch):
    """Parts of which the last one overlaps with the one before."""
    A, b, _ = linear(np.linspace(-0.95, 0.99, 13))
    whole = iterated(A, b, 20)
    monkeypatch.setattr(anderson, "PART", 5)
    jax.clear_caches()
    np.testing.assert_allclose(iterated(A, b, 20)[:8], whole[:8], rtol=1e-6, atol=1e-9)
    jax.clear_caches()


def test_long_iterates_have_fewer_differences():
    settings = AndersonSettings(depth=8, most=40)
    for size, depth in ((3, 8), (10, 4), (1000, 2)):
        assert empty_history(jnp.zeros(size), settings).residual_differences.shape == (depth, size)


@pytest.mark.parametrize("length", [1.0, 0.3])
def test_without_a_past_the_step_is_plain(length):
    x, target = jnp.array([1.0, -2.0, 0.5]), jnp.array([0.0, 4.0, 0.7])
    new, history = empty_history(x).next_iterate(
        x, target, jnp.ones(3), jnp.asarray(length), jnp.asarray(True)
    )
    np.testing.assert_allclose(new, x + length * (target - x), rtol=1e-14)
    np.testing.assert_array_equal(history.iterate, x)
    np.testing.assert_array_equal(history.residual, target - x)
    assert int(history.count) == 1


def test_a_disturbance_forgets_the_past():
    """The step is plain, and what comes after depends on nothing before it."""
    A, b, _ = linear(EIGENVALUES["diverges"])
    G = lambda x: jnp.asarray(A) @ x + b  # noqa: E731
    x = jnp.ones(len(b))
    history = empty_history(x)
    for _ in range(4):
        x, history = step(history, x, G(x), jnp.asarray(True))
    start = jnp.array([0.3, -1.0, 2.0, 0.1])
    plain, after = step(history, start, G(start), jnp.asarray(False))
    np.testing.assert_allclose(plain, G(start), rtol=1e-12)
    fresh, fresh_history = step(empty_history(x), start, G(start), jnp.asarray(True))
    for _ in range(3):
        plain, after = step(after, plain, G(plain), jnp.asarray(True))
        fresh, fresh_history = step(fresh_history, fresh, G(fresh), jnp.asarray(True))
        np.testing.assert_allclose(plain, fresh, rtol=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_undefined_differences_do_no_harm(bad):
    """A step from a place that was undefined is plain, and extrapolation recovers."""
    A, b, fixed = linear(EIGENVALUES["creeps"])
    G = lambda x: jnp.asarray(A) @ x + b  # noqa: E731
    x = jnp.zeros(len(b))
    history = empty_history(x)
    for _ in range(2):
        x, history = step(history, x, G(x), jnp.asarray(True))
    _, history = step(history, x, jnp.full_like(x, bad), jnp.asarray(True))
    new, history = step(history, x, G(x), jnp.asarray(True))
    np.testing.assert_allclose(new, G(x), rtol=1e-12)
    for _ in range(40):
        x = new
        new, history = step(history, x, G(x), jnp.asarray(True))
    assert np.linalg.norm(new - fixed) < 1e-6 * np.linalg.norm(fixed)


def test_a_fixed_point_stays():
    """Differences of length zero get no share."""
    x = jnp.array([1.0, 2.0])
    history = empty_history(x)
    for _ in range(4):
        new, history = step(history, x, x, jnp.asarray(True))
        np.testing.assert_array_equal(new, x)


def test_units_make_extrapolation_the_same_in_every_scale():
    """Iterates of rescaled coordinates, with their units, are those of units of one, rescaled."""
    A, b, _ = linear(np.linspace(-0.95, 0.99, 2 * SETTINGS.depth))
    ones = np.ones(len(b))
    scale = np.random.default_rng(0).permutation(np.logspace(-4, 4, len(b)))
    extrapolate = eqx.filter_jit(lambda history, *args: history.next_iterate(*args))

    def run(scale, units, count=12):
        x, history = jnp.zeros(len(b)), empty_history(jnp.zeros(len(b)))
        for _ in range(count):
            target = scale * (A @ (x / scale) + b)
            x, history = extrapolate(
                history, x, target, units, jnp.asarray(1.0), jnp.asarray(True)
            )
        return x / scale

    plain = run(ones, SMALL * ones)
    np.testing.assert_allclose(run(scale, SMALL / scale), plain, rtol=1e-6)
    assert np.linalg.norm(run(scale, SMALL * ones) - plain) > 0.01 * np.linalg.norm(plain)


def test_extrapolations_lead_no_farther_than_is_linear():
    """A creeping iteration's limit is far away: the way there is made in several steps."""
    x, rate = jnp.array([0.0, 0.0]), jnp.array([0.999, 0.5])
    limit = jnp.array([100.0, 0.01])
    history, ones = empty_history(x), jnp.ones(2)
    lengths = []
    for _ in range(12):
        args = (x, limit + rate * (x - limit), ones, jnp.asarray(1.0), jnp.asarray(True))
        new, history = history.next_iterate(*args)
        lengths.append(float(jnp.max(jnp.abs(new - x))))
        x = new
    assert max(lengths[1:]) == pytest.approx(SETTINGS.longest, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("power", FOUR_POINTS)
def test_jylanki_2_4_no_damping_helps_but_extrapolation_does(power):
    """jylanki 2.4, 23: where sweeps fail at every damping, to the limit of the double loop."""
    X = np.array([[0.0], [0.4], [0.8], [1.2]])
    y = np.array([0.1, 0.3, 1.4, 0.2])
    kernel = cavity.kernels.RBF(1.0, 0.7) + cavity.kernels.White(1e-6)
    model = cavity.GP(kernel, StudentT(np.sqrt(0.02), 4.0))
    found = cavity.infer(model, X, y, power=power)
    assert found.converged
    assert found.sites.finished_by == "parallel sweeps"
    assert found.log_evidence == pytest.approx(FOUR_POINTS[power], abs=1e-6)
    damped = cavity.PowerEP(step=0.5, fallback=False)
    if power == 1.0:
        assert not cavity.infer(model, X, y, power=power, method=damped).converged
