"""One small state-space model with sites on states, whose programs tests share."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.approximations.local_terms import PowerMeanTerm
from cavity.inference.energy import Graph, empty_sites, energy
from cavity.inference.factors.base import Edge
from cavity.inference.factors.local import LocalFactor
from cavity.inference.factors.slots import Private, Tied
from cavity.inference.factors.tied import TiedSite
from cavity.inference.graph.rows import Rows
from cavity.inference.solvers.driver import Limits
from cavity.inference.solvers.parallel import Parallel, sweep
from cavity.inference.variables.chain_messages import Chain
from cavity.inference.variables.function_sites import FunctionSitesView
from cavity.inference.variables.given import Given
from cavity.inference.variables.inducing import WhitenedInducing
from cavity.inference.variables.inducing_view import OutputMean
from cavity.models.deep.layer import Layer
from cavity.models.deep.term import WholeView
from cavity.models.state_space.site_terms import TransitionTerm
from cavity.models.state_space.site_views import AffineStateView, OneStateView, PairView, Start
from tests.oracle import dense, kalman

# series of 4, 1 and 3 states, and two rows of padding
LINK = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0])
ROWS, PADDED = 8, 10
JITTER = 1e-9
PROPAGATIONS = {
    "nodes": cavity.fitting.Nodes(24),
    "moments": cavity.fitting.Moments(),
    "linearised": cavity.fitting.Linearised(),
}


@functools.lru_cache
def linear(size, outputs=2, controls=1):
    """A linear model, and outputs some of which are missing; one row has none."""
    rng = np.random.default_rng(10 + size)
    model = kalman.LinearModel(
        A=0.8 * np.linalg.qr(rng.normal(size=(size, size)))[0],
        Q=rng.uniform(0.1, 0.5, size),
        C=rng.normal(size=(outputs, size)),
        R=rng.uniform(0.1, 0.4) * np.ones(outputs),
        m0=rng.normal(size=size),
        v0=rng.uniform(0.5, 2.0, size),
        b=rng.normal(size=size),
        d=rng.normal(size=outputs),
        B=rng.normal(size=(size, controls)),
    )
    y, c = rng.normal(size=(ROWS, outputs)), rng.normal(size=(ROWS, controls))
    y[2], y[6, 0] = np.nan, np.nan
    return model, y, c


def transition_layer(model, variance, points=3):
    size, columns = len(model.m0), len(model.m0) + model.B.shape[1]
    Z = np.random.default_rng(1).normal(size=(points, columns))
    return Layer(
        kernels.RBF(variance, 1.0),
        inducing.Points(Z),
        width=size,
        mean=means.Linear(np.hstack([model.A, model.B]).T, model.b),
        noise_variance=model.Q,
        skip_connection=True,
    )


def padded(values, fill=0.0):
    more = [(0, PADDED - len(values))] + [(0, 0)] * (np.ndim(values) - 1)
    return jnp.asarray(np.pad(np.nan_to_num(values, nan=fill), more))


def graph(model, y, controls, layer, propagation, power, *, factorised=False, private=False):
    """Transitions and affine outputs of a model, on inducing variables and a chain.

    These have one tied site, or one of every row.
    """
    size, link = len(model.m0), jnp.asarray(LINK)
    present = jnp.pad(jnp.asarray(~np.isnan(y), float), [(0, PADDED - ROWS), (0, 0)])
    index = jnp.arange(PADDED)
    rows = Rows(padded(controls), padded(y), present, index=index)
    steps = Rows(padded(controls), jnp.zeros((PADDED, 1)), link[:, None], index=index)
    views = layer.views(JITTER)
    start = Start(jnp.zeros((PADDED, size)), jnp.eye(size))
    if factorised:
        states = [OneStateView(True, size), OneStateView(False, size, start)]
    else:
        states = [PairView(start)]
    points = layer.inducing.size
    functions = Edge(0, WholeView(), Tied(points, jnp.full(size, jnp.sum(link))))
    if private:
        functions = Edge(0, FunctionSitesView(size, points), Private())
    edges = (functions, *(Edge(1, view, Private()) for view in states))
    term = TransitionTerm(layer, views, propagation)
    transitions = LocalFactor(edges, steps, PADDED, term, power)
    affine = OutputMean(means.Linear(model.C.T, model.d), len(model.R))
    noise = PowerMeanTerm(likelihoods.Gaussian(model.R[0]))
    outputs = LocalFactor((Edge(1, AffineStateView(affine, size)),), rows, PADDED, noise, power)
    chain = Chain(jnp.asarray(model.m0), jnp.asarray(model.v0), link)
    inducing_variable = WhitenedInducing(points) if private else Given()
    return Graph((inducing_variable, chain), factors=(transitions, outputs))


def tied_site(layer, scale=0.0, seed=0):
    """A tied site on the inducing variables."""
    rng = np.random.default_rng(seed)
    shape = (layer.width, layer.inducing.size)
    raw = np.tril(0.3 * scale * rng.normal(size=(*shape, shape[1])))
    return TiedSite(jnp.asarray(scale * rng.normal(size=shape)), jnp.asarray(raw))


def start_sites(graph, tied=None):
    """Where a search starts, with a tied site where there is one."""
    if tied is None:
        return empty_sites(graph)
    (_, *states), outputs = empty_sites(graph)
    return ((tied, *states), outputs)


@eqx.filter_jit
def swept(graph, sites, tolerance=1e-12, max_sweeps=300, step=None):
    return Parallel(graph, Limits(tolerance, max_sweeps, step)).run(sites)


@eqx.filter_jit
def swept_once(graph, sites):
    return sweep(graph, sites, 1.0)[0]


@eqx.filter_jit
def energy_of(graph, sites):
    return energy(graph, sites)


@eqx.filter_jit
def slopes_of(graph, sites):
    return eqx.filter_value_and_grad(lambda s: energy(graph, s))(sites)


def largest(tree):
    return max(float(jnp.max(jnp.abs(x))) for x in jax.tree.leaves(tree))


def bound(moments, model, y, controls, layer, tied):
    """The variational bound of a chain of one-dimensional states, by quadrature in numpy."""
    mean, cov, cross = moments
    link, Z = LINK[:ROWS], np.asarray(layer.inducing.Z)
    K = dense.rbf(Z, Z, 1.3) + JITTER * 1.3 * np.eye(len(Z))
    L = np.linalg.cholesky(K)
    m, S = np.asarray(tied.mean[0]), np.asarray(tied.root[0])
    S = S @ S.T
    total = -0.5 * (m @ m + np.trace(S) - len(m) - np.linalg.slogdet(S)[1])
    nodes, weights = np.polynomial.hermite_e.hermegauss(50)
    weights = weights / weights.sum()
    log_normal = lambda r, var: -0.5 * (np.log(2 * np.pi * var) + r**2 / var)  # noqa: E731
    for t in range(ROWS):
        entropy = 0.5 * np.log(2 * np.pi * np.e * cov[t])
        if link[t]:
            before, slope = cov[t - 1], cross[t] / cov[t - 1]
            given = cov[t] - cross[t] * slope
            entropy = 0.5 * np.log(2 * np.pi * np.e * given)
            x = mean[t - 1] + np.sqrt(before) * nodes
            inputs = np.column_stack([x, np.tile(controls[t], (len(x), 1))])
            a = np.linalg.solve(L, dense.rbf(Z, inputs, 1.3))
            f = a.T @ m + x * model.A[0, 0] + controls[t] @ model.B[0] + model.b[0]
            var = 1.3 - np.sum(a**2, axis=0) + np.einsum("mk,mn,nk->k", a, S, a)
            residual = mean[t] + slope * (x - mean[t - 1]) - f
            term = log_normal(residual, model.Q[0]) - 0.5 * (given + var) / model.Q[0]
            total += weights @ term
        else:
            total += log_normal(mean[t] - model.m0[0], model.v0[0]) - 0.5 * cov[t] / model.v0[0]
        for p in np.flatnonzero(~np.isnan(y[t])):
            residual = y[t, p] - model.C[p, 0] * mean[t] - model.d[p]
            term = log_normal(residual, model.R[p])
            total += term - 0.5 * model.C[p, 0] ** 2 * cov[t] / model.R[p]
        total += entropy
    return total
