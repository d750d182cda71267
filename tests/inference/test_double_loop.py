"""The double loop, on the problem where no damping helps (jylanki 2.4)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import integrate, stats

import cavity
from cavity.inference.double_loop import _newton, coordinates, inner_maximum, outer_curvature
from cavity.inference.energy import beliefs, energy, marginals
from cavity.learning.data import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.outer_loop import double_loop, lay_out, no_sites
from cavity.likelihoods import StudentT
from tests.tolerances import assert_close

X = np.array([[0.0], [0.4], [0.8], [1.2]])
Y = np.array([0.1, 0.3, 1.4, 0.2])
SCALE, DF = np.sqrt(0.02), 4.0
# energies of identity 23, from the prior marginals and zero sites
PRINTED = {
    1.0: (7.42450, 7.30191, 7.22535, 7.17539, 7.14158, 7.11796, 7.10097, 7.08856),
    0.8: (9.51948, 8.27638, 7.83944, 7.58882, 7.43662, 7.35062),
}
LIMITS = {1.0: 7.066379, 0.8: 7.202093}


def four_points():
    # the jitter of the problem as white noise in the prior
    kernel = cavity.kernels.RBF(1.0, 0.7) + cavity.kernels.White(1e-6)
    return cavity.GP(kernel, StudentT(SCALE, DF))


@functools.cache
def laid_out(power):
    data = prepare(X, Y, power=power)
    model = as_dtype(four_points(), data)
    method = cavity.PowerEP()
    return lay_out(model, data, method, jnp.zeros(())), no_sites(model, data, method)


@jax.jit
def surrogate_update(graph, sites):
    return marginals(graph, beliefs(graph, sites))


@pytest.mark.parametrize("power", [1.0, 0.8])
def test_jylanki_23_inner_maxima_fall_as_printed(power):
    """jylanki 23: strictly decreasing, and the printed numbers."""
    graph, sites = laid_out(power)
    inner = jax.jit(lambda sites, held: inner_maximum(graph, sites, held, 1e-13))
    held, zero, values = surrogate_update(graph, sites), sites, []
    for _ in range(10):
        found = inner(zero, held)
        values.append(float(found.value))
        held = surrogate_update(graph, found.sites)
    assert np.all(np.diff(values) < 0.0)
    start = int(np.argmin(np.abs(np.array(values) - PRINTED[power][0])))
    count = min(len(values) - start, len(PRINTED[power]))
    np.testing.assert_allclose(values[start:][:count], PRINTED[power][:count], atol=6e-6)


def test_jylanki_20_21_slope_and_curvature():
    """jylanki 20, 21: the slope is that of the energy; the curvature is negative definite."""
    graph, zero = laid_out(1.0)
    held = surrogate_update(graph, zero)
    flat, back = ravel_pytree(zero)
    seen = np.concatenate([np.arange(4), flat.size // 2 + np.arange(4)])
    rng = np.random.default_rng(0)
    start = np.zeros(flat.size)
    start[seen] = np.concatenate([0.3 * rng.standard_normal(4), [0.2, -0.05, 0.3, 0.1]])

    @jax.jit
    def both(t):
        slope, product = _newton(graph, back(t), held)
        basis = jnp.eye(flat.size)[seen]
        H = jax.vmap(lambda d: ravel_pytree(product(back(d)))[0])(basis)
        return ravel_pytree(slope)[0][seen], H[:, seen]

    value = jax.jit(lambda t: energy(graph, back(t), held))
    slope, H = map(np.asarray, both(jnp.asarray(start)))
    h = 1e-5
    steps = h * np.eye(flat.size)[seen]
    by_value = [(value(start + e) - value(start - e)) / (2 * h) for e in steps]
    assert_close(slope, np.array(by_value), "gradient")
    by_slope = [(both(start + e)[0] - both(start - e)[0]) / (2 * h) for e in steps]
    assert_close(-H, np.array(by_slope), "gradient")
    assert_close(H, H.T, "factorised")
    assert np.linalg.eigvalsh(H)[0] > 0.0


def test_the_slope_in_what_is_held():
    """At an inner maximum the sites need not be differentiated."""
    graph, zero = laid_out(1.0)
    inner = jax.jit(lambda x: inner_maximum(graph, zero, coordinates(held)[1](x), 1e-14))
    held = surrogate_update(graph, zero)
    place = coordinates(held)[0]
    found = inner(place)
    h, seen = 1e-4, [0, 2, place.size // 2 + 1, place.size // 2 + 3]
    for i in seen:
        e = h * jnp.eye(place.size)[i]
        by_value = (inner(place + e).value - inner(place - e).value) / (2 * h)
        assert_close(found.slope[i], by_value, "gradient")


def tilted(power, mean, var, y):
    """Moments of the tilted distribution by dense quadrature."""
    edges = np.unique(
        np.concatenate(
            [
                y + SCALE * np.linspace(-40, 40, 401),
                mean + np.sqrt(var) * np.linspace(-12, 12, 401),
            ]
        )
    )
    x, w = np.polynomial.legendre.leggauss(12)
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    f, weight = (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()
    log_p = power * stats.t(DF, y, SCALE).logpdf(f) + stats.norm(mean, np.sqrt(var)).logpdf(f)
    p = weight * np.exp(log_p - log_p.max())
    p /= p.sum()
    m = p @ f
    return m, p @ (f - m) ** 2


@pytest.mark.parametrize("power", [1.0, 0.8])
def test_jylanki_06_24_four_points_converge(power):
    """jylanki 6 and 24: tilted moments are the posterior's, by quadrature of their own."""
    found = cavity.infer(four_points(), X, Y, power=power)
    assert found.converged, found.message
    assert abs(-found.log_evidence - LIMITS[power]) < 6e-7  # seven digits are printed
    ((store,),) = found.found
    tau, nu = (np.asarray(a)[:4, 0] for a in (store.precision, store.shift))
    K = np.exp(-0.5 * (X - X.T) ** 2 / 0.49) + 1e-6 * np.eye(4)
    cov = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    m, v = cov @ nu, np.diag(cov)
    left = 1.0 / v - power * tau
    assert np.all(left > 0.0)
    for n in range(4):
        m_t, v_t = tilted(power, (m[n] / v[n] - power * nu[n]) / left[n], 1.0 / left[n], Y[n])
        assert abs(m_t - m[n]) < 1e-6 * np.sqrt(v[n])
        assert abs(v_t - v[n]) < 1e-6 * v[n]


def test_damped_sweeps_alone_fail_there():
    """What extrapolation and the fallbacks are for; it is reported, and nothing is NaN."""
    damped = cavity.PowerEP(step=0.5, fallback=False)
    alone = cavity.infer(four_points(), X, Y, power=1.0, method=damped)
    assert not alone.converged
    assert "did not converge" in alone.message
    found = cavity.infer(four_points(), X, Y, power=1.0, method=cavity.PowerEP(step=0.5))
    assert found.sites.finished_by == "Newton's method"
    extrapolated = cavity.infer(four_points(), X, Y, power=1.0)
    assert extrapolated.sites.finished_by == "parallel sweeps"
    ((store,),) = found.found
    assert np.sum(np.asarray(store.precision)[:4] < 0.0) == 1


@pytest.mark.parametrize("power", [1.0, 0.8])
def test_the_outer_loop_by_itself(power):
    """From the prior, without Newton's method on the sites."""
    data = prepare(X, Y, power=power)
    model, method = as_dtype(four_points(), data), cavity.PowerEP()
    zero = no_sites(model, data, method)
    sites, steps = double_loop(model, data, method, jnp.zeros(()), zero, zero)
    assert steps > 0
    value = jax.jit(lambda sites: energy(lay_out(model, data, method, jnp.zeros(())), sites))(
        sites
    )
    assert abs(float(value) - LIMITS[power]) < 1e-5


def test_the_curvature_of_the_outer_problem():
    """Second derivatives of the inner maximum, by differences of its slope."""
    graph, sites = laid_out(1.0)
    held = surrogate_update(graph, sites)
    place, restore = coordinates(held)
    inner = jax.jit(lambda p: inner_maximum(graph, sites, restore(p), 1e-14))
    found = inner(place)
    H, moves = jax.jit(outer_curvature)(graph, found.sites, held)
    for i in (0, 3, place.size // 2 + 1):
        step = 1e-4 * jnp.zeros(place.size).at[i].set(1.0)
        up, down = inner(place + step), inner(place - step)
        assert_close(H[i], (up.slope - down.slope) / 2e-4, "gradient")
        change = ravel_pytree(jax.tree.map(jnp.subtract, up.sites, down.sites))[0] / 2e-4
        np.testing.assert_allclose(moves[:, i], change, rtol=1e-4, atol=1e-4)


def test_jylanki_05_schedules_share_fixed_points():
    """jylanki 5: adaptive and damped sweeps end where each other does; powers do not."""
    ends = [
        cavity.infer(four_points(), X, Y, power=0.5, method=cavity.PowerEP(step=step))
        for step in (None, 0.3)
    ]
    assert all(end.converged for end in ends)
    assert_close(ends[0].log_evidence, ends[1].log_evidence, "fixed_point")
    other = cavity.infer(four_points(), X, Y, power=0.8)
    assert abs(other.log_evidence - ends[0].log_evidence) > 0.05


def test_density_of_new_rows_integrates_to_one():
    """Predictions with a site of negative precision behind them (jylanki 40)."""
    out = cavity.infer(four_points(), X, Y, power=0.8).posterior.predict(np.array([[0.6]]))

    def density(y):
        return np.exp(float(out.log_density(jnp.array([y]))[0]))

    assert integrate.quad(density, -30, 30, points=[0.0, 1.0], limit=100)[0] == pytest.approx(
        1.0, abs=1e-5
    )
