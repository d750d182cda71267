"""Deep GPs with tied sites: energies at random sites, the parts of an oracle, and two toys."""

import equinox as eqx
import jax
import numpy as np
from scipy import stats

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.inference.energy import energy
from cavity.learning.infer import as_dtype


def random_sites(problem, seed=0):
    """Tied sites away from the prior."""
    random = np.random.default_rng(seed)

    def moved(leaf):
        return leaf + 0.3 * random.standard_normal(leaf.shape)

    return jax.tree.map(moved, problem.empty_sites())


def energy_at(model, data, method, seed=0, **batch):
    """The energy at random tied sites, and these."""
    problem = data.problem(as_dtype(model, data), method.approximation, 1e-9, **batch)
    sites = random_sites(problem, seed)
    return float(compiled_energy(problem, sites)), sites


@eqx.filter_jit
def compiled_energy(problem, sites):
    return energy(problem.graph(), sites)


# ---- an oracle of its own: numpy, one row at a time


def rbf(X, Z, variance, lengthscale):
    square = ((X[:, None] - Z[None]) / lengthscale) ** 2
    return variance * np.exp(-0.5 * square.sum(-1))


def cavity_of(m, S, power, total):
    """The cavity of N(m, SSᵀ) without a power of the site of `total` rows, and its log scale."""
    V = S @ S.T
    if power == 0.0:
        divergence = 0.5 * (np.trace(V) + m @ m - len(m) - np.linalg.slogdet(V)[1])
        return m, V, -divergence
    P, share = np.linalg.inv(V), power / total
    V_c = np.linalg.inv(P - share * (P - np.eye(len(m))))
    m_c = V_c @ ((1.0 - share) * P @ m)
    whole = log_partition(m, V)
    return m_c, V_c, whole + (log_partition(m_c, V_c) - whole) / share


def log_partition(m, V):
    """Of a Gaussian in natural parameters, up to a constant."""
    return 0.5 * m @ np.linalg.solve(V, m) + 0.5 * np.linalg.slogdet(V)[1]


def function_at(x, Z, variance, lengthscale, m, V):
    """Mean and variance of a sparse function at known inputs."""
    K = rbf(Z, Z, variance, lengthscale) + 1e-9 * variance * np.eye(len(Z))
    A = np.linalg.solve(np.linalg.cholesky(K), rbf(Z, x, variance, lengthscale))
    return A.T @ m, variance - np.sum(A * A, 0) + np.sum(A * (V @ A), 0)


def two_layer_energy(sites, X, Y, Z1, Z2, power, noise, hidden_noise, *, nodes, on_hidden=None):
    """The energy of a deep GP with one hidden function, outputs that share it, NaN missing.

    Hidden values may have sites, of the last store, whose integral is a sum over two grids: for
    the function and for the value given it.
    """
    (hidden,), outputs = [
        [
            (m, np.tril(r, -1) + np.diag(np.exp(np.diag(r))))
            for m, r in zip(site.mean, site.raw, strict=True)
        ]
        for site in sites
    ]
    present = ~np.isnan(Y)
    totals = [present.any(1).sum(), *present.sum(0)]
    roots = [hidden, *outputs]
    cavities = [cavity_of(m, S, power, N) for (m, S), N in zip(roots, totals, strict=True)]
    log_z = sum(scale for _, _, scale in cavities)
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()
    mean, var = function_at(X, Z1, 1.1, 0.6, *cavities[0][:2])
    for n in range(len(X)):
        h = (mean[n] + np.sqrt(var[n] + hidden_noise) * z)[:, None]
        weights, terms = w, np.zeros(nodes)
        if on_hidden is not None:
            numbers = np.asarray(on_hidden.shift)[n, 0], np.asarray(on_hidden.log_width)[n, 0]
            f = mean[n] + np.sqrt(var[n]) * z[:, None]
            h, terms = conditional(f, hidden_noise, *numbers, z)
            terms = (power or 1.0) * terms.ravel()
            h, weights = h.reshape(-1, 1), np.outer(w, w).ravel()
        for p in np.flatnonzero(present[n]):
            f, v = function_at(h, Z2, 0.9, 0.8, *cavities[1 + p][:2])
            if power == 0.0:
                terms += stats.norm.logpdf(Y[n, p], f, np.sqrt(noise)) - 0.5 * v / noise
                continue
            constant = 0.5 * (1.0 - power) * np.log(2.0 * np.pi * noise) - 0.5 * np.log(power)
            deviation = np.sqrt(v + noise / power)
            terms += constant + stats.norm.logpdf(Y[n, p], f, deviation)
        log_z += weights @ terms if power == 0.0 else np.log(weights @ np.exp(terms)) / power
    return -log_z


def conditional(f, noise, shift, log_width, z):
    """Values of h given f with a site, at standard normal ones, and log p(h | f) / q(h | f)."""
    precision = np.exp(log_width) / noise
    mean = (f / noise + shift / np.sqrt(noise)) / precision
    h = mean + z / np.sqrt(precision)
    own, model = stats.norm(mean, 1.0 / np.sqrt(precision)), stats.norm(f, np.sqrt(noise))
    return h, model.logpdf(h) - own.logpdf(h)


def two_outputs_model():
    """Inputs, two outputs of which one is missing twice, inducing inputs, and a model."""
    random = np.random.default_rng(1)
    X = np.linspace(-1.0, 1.0, 7)[:, None]
    Y = np.column_stack([np.sign(X[:, 0] + 1e-3), X[:, 0] ** 2])
    Y += 0.05 * random.standard_normal(Y.shape)
    Y[2, 1] = Y[5, 0] = np.nan
    Z1, Z2 = np.linspace(-1.0, 1.0, 4)[:, None], np.linspace(-1.5, 1.5, 4)[:, None]
    layers = (
        cavity.Layer(kernels.RBF(1.1, 0.6), inducing.Points(Z1), noise_variance=0.15),
        cavity.Layer(kernels.RBF(0.9, 0.8), inducing.Points(Z2), width=2),
    )
    return X, Y, Z1, Z2, cavity.DeepGP(layers, likelihoods.Gaussian(0.1))


def step_model():
    """Inputs, outputs and a model of the golden toy of the specification."""
    X = np.linspace(-1.0, 1.0, 7)[:, None]
    y = np.sign(X[:, 0] + 1e-3) + 0.05 * np.random.default_rng(2).normal(size=7)
    Z1, Z2 = np.linspace(-1.0, 1.0, 4)[:, None], np.linspace(-1.5, 1.5, 4)[:, None]
    layers = (
        cavity.Layer(kernels.RBF(1.1, 0.6), inducing.Points(Z1), noise_variance=0.15),
        cavity.Layer(kernels.RBF(0.9, 0.8), inducing.Points(Z2)),
    )
    return X, y, cavity.DeepGP(layers, likelihoods.Gaussian(0.1))
