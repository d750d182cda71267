"""Power EP on the four points where no damping helps, and its double-loop form (jylanki 2.4)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, stats

import cavity
from cavity.inference.energy import beliefs, energy, marginals
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.likelihoods import StudentT
from tests.equivalence.problem import sweep_once
from tests.oracle import dense
from tests.solving import build_graph, no_sites
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
PANEL = np.polynomial.legendre.leggauss(12)
K = np.exp(-0.5 * (X - X.T) ** 2 / 0.49) + 1e-6 * np.eye(4)


def four_points():
    # the jitter of the problem as white noise in the prior
    kernel = cavity.kernels.RBF(1.0, 0.7) + cavity.kernels.White(1e-6)
    return cavity.GP(kernel, StudentT(SCALE, DF))


@functools.cache
def laid_out(power):
    data = prepare(X, Y, power=power)
    model = as_dtype(four_points(), data)
    method = cavity.PowerEP()
    return build_graph(model, data, method, jnp.zeros(())), no_sites(model, data, method)


@jax.jit
def surrogate_update(graph, sites):
    return marginals(graph, beliefs(graph, sites))


def at_points(zero, natural):
    """Sites of the four points, by their shifts and precisions, (2, 4)."""
    ((store,),) = zero
    shift, precision = (jnp.zeros_like(store.shift).at[:4, 0].set(x) for x in natural)
    return ((type(store)(shift, precision),),)


@functools.cache
def energy_of(power):
    """The energy at surrogates and its slope, functions of shifts and precisions, (8,)."""
    graph, zero = laid_out(power)

    def value(x, held):
        return energy(graph, at_points(zero, x.reshape(2, 4)), held)

    return jax.jit(value), jax.jit(jax.grad(value))


def slope_and_curvature(x, held, power):
    """jylanki 20, 21: mismatches of moments, and covariances of f and -f²/2, by quadrature."""
    (nu, tau), ((surrogates,),) = x.reshape(2, 4), held
    cov = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    m, v = cov @ nu, np.diag(cov)
    mixed = -cov * m[None, :]
    C = np.block([[cov, mixed], [mixed.T, 0.5 * cov**2 + m[:, None] * cov * m]])
    slope = -np.concatenate([m, -0.5 * (v + m**2)])
    for n in range(4):
        mean, var = (np.asarray(a)[n, 0] for a in surrogates)
        precision = 1.0 / var - power * tau[n]
        shift = mean / var - power * nu[n]
        f, p, _ = tilted_density(power, shift / precision, 1.0 / precision, Y[n])
        moments = np.stack([f, -0.5 * f**2])
        both = [n, 4 + n]
        slope[both] += moments @ p
        C[np.ix_(both, both)] += power * np.cov(moments, aweights=p, ddof=0)
    return slope, -C


def inner_maximum(held, power, start):
    """Sites that maximise the energy at surrogates, and the maximum, by Newton's method."""
    value, _ = energy_of(power)
    x, now = start.ravel(), float(value(start.ravel(), held))
    for _ in range(60):
        slope, curvature = slope_and_curvature(x, held, power)
        direction = -np.linalg.solve(curvature, slope)
        gain, length = slope @ direction, 1.0
        after = float(value(x + direction, held))
        while not after >= now - 1e-13 and length > 1e-9:
            length *= 0.5
            after = float(value(x + length * direction, held))
        x, now = x + length * direction, after
        if gain < 1e-13:
            break
    return x.reshape(2, 4), now


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 0.8])
def test_jylanki_23_25_the_double_loop(power):
    """jylanki 23, 25: inner maxima fall, as printed, to where sweeps end."""
    graph, zero = laid_out(power)
    held, values, natural = surrogate_update(graph, zero), [], np.zeros((2, 4))
    for _ in range(80):
        natural, value = inner_maximum(held, power, natural)
        values.append(value)
        held = surrogate_update(graph, at_points(zero, natural))
    assert np.all(np.diff(values) < 1e-11)
    start = int(np.argmin(np.abs(np.array(values) - PRINTED[power][0])))
    printed = PRINTED[power][: len(values) - start]
    np.testing.assert_allclose(values[start:][: len(printed)], printed, atol=6e-6)
    assert abs(values[-1] - LIMITS[power]) < 1e-5


def test_jylanki_20_21_slope_and_curvature():
    """jylanki 20, 21: the slope is that of the energy; the curvature is negative definite."""
    graph, zero = laid_out(1.0)
    held = surrogate_update(graph, zero)
    _, by_library = energy_of(1.0)
    random = np.random.default_rng(0)
    x = np.concatenate([0.3 * random.standard_normal(4), [0.2, -0.05, 0.3, 0.1]])
    slope, curvature = slope_and_curvature(x, held, 1.0)
    assert_close(by_library(x, held), slope, "fixed_point")
    h = 1e-5
    steps = h * np.eye(8)
    differences = [(by_library(x + e, held) - by_library(x - e, held)) / (2 * h) for e in steps]
    assert_close(np.array(differences), curvature, "gradient")
    assert np.linalg.eigvalsh(curvature)[-1] < 0.0


def tilted_density(power, mean, var, y):
    """Nodes and weights of the tilted distribution, and its log normaliser."""
    edges = np.unique(
        np.concatenate(
            [
                y + SCALE * np.linspace(-40, 40, 201),
                mean + np.sqrt(var) * np.linspace(-12, 12, 201),
            ]
        )
    )
    x, w = PANEL
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    f, weight = (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()
    log_p = power * stats.t.logpdf(f, DF, y, SCALE) + stats.norm.logpdf(f, mean, np.sqrt(var))
    p = weight * np.exp(log_p - log_p.max())
    return f, p / p.sum(), np.log(p.sum()) + log_p.max()


def tilted(power, mean, var, y):
    """Log normaliser and moments of the tilted distribution by dense quadrature."""
    f, p, log_z = tilted_density(power, mean, var, y)
    m = p @ f
    return log_z, m, p @ (f - m) ** 2


def somewhere(zero):
    """Sites that are no fixed point, with proper cavities."""
    return at_points(zero, np.array([[0.1, -0.2, 0.3, 0.1], [0.2, -0.05, 0.3, 0.1]]))


@pytest.mark.parametrize("power", [1.0, 0.6])
def test_jylanki_12_three_forms_of_the_evidence(power):
    """jylanki 12: the product of sites (2.45), the min-max form (2.47), and that with
    surrogates (2.48), which have here the moments of the tilted distributions.
    """
    method = cavity.PowerEP(tolerance=1e-11)
    found = cavity.infer(four_points(), X, Y, power=power, method=method)
    ((store,),) = found.found
    tau, nu = (np.asarray(a)[:4, 0] for a in (store.precision, store.shift))
    P0, P = np.linalg.inv(K), np.linalg.inv(K) + np.diag(tau)
    prior, posterior = dense.log_partition(P0, np.zeros(4)), dense.log_partition(P, nu)
    m, v = np.linalg.solve(P, nu), np.diag(np.linalg.inv(P))
    scales, reduced, surrogates = [], [], []
    for n in range(4):
        h, left = m[n] / v[n] - power * nu[n], 1.0 / v[n] - power * tau[n]
        log_z, m_t, v_t = tilted(power, h / left, 1.0 / left, Y[n])
        scales.append(log_z + scalar_partition(h, left) - scalar_partition(m[n] / v[n], 1 / v[n]))
        e = np.eye(4)[n]
        rest = P - power * tau[n] * np.outer(e, e), nu - power * nu[n] * e
        reduced.append(log_z + dense.log_partition(*rest) - prior)
        h, left = m_t / v_t - power * nu[n], 1.0 / v_t - power * tau[n]
        log_z = tilted(power, h / left, 1.0 / left, Y[n])[0]
        surrogates.append(log_z + scalar_partition(h, left) - scalar_partition(m_t / v_t, 1 / v_t))
    product = posterior - prior + np.sum(scales) / power
    assert_close(found.log_evidence, product, "factorised")
    min_max = (4 / power - 1.0) * (posterior - prior) - np.sum(reduced) / power
    assert_close(found.log_evidence, -min_max, "factorised")
    assert_close(found.log_evidence, posterior - prior + np.sum(surrogates) / power, "factorised")


def scalar_partition(shift, precision):
    return dense.log_partition(np.array([[precision]]), np.array([shift]))


@functools.cache
def explicit(power):
    """The energy at sites, and its slopes in lengthscale and squared scale beside them."""
    data, method = prepare(X, Y, power=power), cavity.PowerEP()

    def value(parameters, sites):
        kernel = cavity.kernels.RBF(1.0, parameters[0]) + cavity.kernels.White(1e-6)
        model = cavity.GP(kernel, StudentT(jnp.sqrt(parameters[1]), DF))
        return energy(build_graph(as_dtype(model, data), data, method, jnp.zeros(())), sites)

    return jax.jit(jax.value_and_grad(value))


@pytest.mark.slow
def test_jylanki_17_slopes_need_explicit_terms_only():
    """jylanki 17: of the energy at the fixed point, as printed; not where sweeps stop early."""
    power, place, h = 0.6, np.array([0.7, 0.02]), 1e-5

    def settled(parameters):
        kernel = cavity.kernels.RBF(1.0, parameters[0]) + cavity.kernels.White(1e-6)
        model = cavity.GP(kernel, StudentT(np.sqrt(parameters[1]), DF))
        method = cavity.PowerEP(tolerance=1e-12)
        return cavity.infer(model, X, Y, power=power, method=method)

    def stopped(parameters):
        kernel = cavity.kernels.RBF(1.0, parameters[0]) + cavity.kernels.White(1e-6)
        model = as_dtype(cavity.GP(kernel, StudentT(np.sqrt(parameters[1]), DF)), data)
        graph = build_graph(model, data, cavity.PowerEP(), jnp.zeros(()))
        sites = laid_out(power)[1]
        for _ in range(3):
            sites, _, _ = sweep_once(graph, sites, 0.5)
        return sites, explicit(power)(jnp.asarray(parameters), sites)[0]

    data = prepare(X, Y, power=power)
    steps = [h * e * place for e in np.eye(2)]
    _, slope = explicit(power)(jnp.asarray(place), settled(place).found)
    ends = [settled(place - e).log_evidence - settled(place + e).log_evidence for e in steps]
    whole = np.array(ends) / (2 * h * place)
    assert_close(slope, whole, "gradient")
    np.testing.assert_allclose(slope, [2.514125, -96.01020], rtol=4e-7)
    _, early = explicit(power)(jnp.asarray(place), stopped(place)[0])
    ends = [stopped(place + e)[1] - stopped(place - e)[1] for e in steps]
    gap = np.asarray(early) - np.array(ends) / (2 * h * place)
    assert abs(gap[1]) > 0.02 * abs(early[1])


def test_jylanki_22_the_outer_update_takes_the_moments_of_the_belief():
    """jylanki 22: the slope in the surrogate, cavities held, is its moments less the belief's.

    What the update minimises has them where it is least, and the energy falls on the way.
    """
    power = 0.8
    graph, zero = laid_out(power)
    start = somewhere(zero)
    ((before,),) = start
    ((held,),) = surrogate_update(graph, zero)
    value = jax.jit(lambda sites, held: energy(graph, sites, ((held,),)))

    def at(natural):
        """The energy at a surrogate of the four rows, by shifts and then precisions."""
        mean, var = (np.array(a) for a in held)
        shift, precision = natural
        change = shift - mean[:4, 0] / var[:4, 0], precision - 1.0 / var[:4, 0]
        nu, tau = (
            a.at[:4, 0].add(c / power)
            for a, c in zip((before.shift, before.precision), change, strict=True)
        )
        mean[:4, 0], var[:4, 0] = shift / precision, 1.0 / precision
        return float(value(((type(before)(nu, tau),),), (jnp.asarray(mean), jnp.asarray(var))))

    tau, nu = (np.asarray(a)[:4, 0] for a in (before.precision, before.shift))
    cov = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    m, v = cov @ nu, np.diag(cov)
    mean, var = (np.asarray(a)[:4, 0] for a in held)
    place = np.stack([mean / var, 1.0 / var])
    expected = np.stack([mean - m, -0.5 * (var + mean**2 - v - m**2)]) / power
    steps = 1e-5 * np.eye(8).reshape(8, 2, 4)
    slope = [(at(place + e) - at(place - e)) / 2e-5 for e in steps]
    assert_close(np.reshape(slope, (2, 4)), expected, "gradient")
    for n in range(4):
        s = np.array([m[n], -0.5 * (v[n] + m[n] ** 2)])
        linear = lambda x, s=s: scalar_partition(x[0], np.exp(x[1])) - s @ [x[0], np.exp(x[1])]  # noqa: E731
        least = optimize.minimize(linear, [0.0, 0.0], tol=1e-12).x
        assert_close(np.exp(-least[1]), v[n], "gradient")
        assert_close(least[0] * np.exp(-least[1]), m[n], "gradient", scale=1.0)
    ((found,),) = surrogate_update(graph, start)
    assert_close(np.asarray(found[0])[:4, 0], m, "factorised")
    assert_close(np.asarray(found[1])[:4, 0], v, "factorised")
    assert at(np.stack([m / v, 1.0 / v])) < at(place) - 1e-3


@pytest.mark.parametrize("power", [1.0, 0.8])
def test_jylanki_06_24_four_points_converge(power):
    """jylanki 6 and 24: tilted moments are the posterior's, by quadrature of their own."""
    found = cavity.infer(four_points(), X, Y, power=power)
    assert found.converged, found.message
    assert abs(-found.log_evidence - LIMITS[power]) < 6e-7  # seven digits are printed
    ((store,),) = found.found
    tau, nu = (np.asarray(a)[:4, 0] for a in (store.precision, store.shift))
    cov = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    m, v = cov @ nu, np.diag(cov)
    left = 1.0 / v - power * tau
    assert np.all(left > 0.0)
    for n in range(4):
        _, m_t, v_t = tilted(power, (m[n] / v[n] - power * nu[n]) / left[n], 1.0 / left[n], Y[n])
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


@pytest.mark.slow
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
