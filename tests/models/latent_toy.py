"""One small latent-variable model, whose programs the tests of several files share."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.inference.energy import energy
from cavity.inference.factors.tied import TiedSite
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.solvers.driver import Limits
from cavity.inference.solvers.rowwise import Rowwise
from cavity.inference.variables.inputs import InputMoments
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype

ROWS, OUTPUTS, NOISE, JITTER = 8, 3, 0.1, 1e-9
LENGTHSCALE, VARIANCE = 0.8, 1.2
Z = np.linspace(-1.8, 1.8, 4)[:, None]
NODES, MOMENTS = cavity.fitting.Nodes(40), cavity.fitting.Moments()


def kernel(X, Z):
    """The covariances of the toy's functions, in numpy."""
    square = ((X[:, None] - Z[None]) / LENGTHSCALE) ** 2
    return VARIANCE * np.exp(-0.5 * square.sum(-1))


def outputs(missing=False):
    """Smooth functions of one hidden number, and this."""
    random = np.random.default_rng(3)
    x = random.standard_normal(ROWS)
    Y = np.column_stack([np.sin(2.0 * x), x, np.cos(x)])
    Y += 0.1 * random.standard_normal(Y.shape)
    if missing:
        Y[2, 1] = Y[5, 0] = Y[5, 2] = np.nan
    return Y, x


def model(**parts):
    """The toy, or another with some of its parts."""
    gaussian = likelihoods.Gaussian(NOISE)
    parts = {"kernel": kernels.RBF(VARIANCE, LENGTHSCALE), "likelihood": gaussian} | parts
    return cavity.GPLVM(**({"inducing": inducing.Points(Z)} | parts))


def data_of(Y, power):
    """Outputs without inputs, laid out for inference."""
    return prepare(np.zeros((len(Y), 0)), Y, power=power, missing="skip")


def problem_of(gplvm, data, method, **batch):
    return data.problem(as_dtype(gplvm, data), method.approximation, JITTER, **batch)


def random_inputs(data, columns=1, seed=0):
    """Means and log deviations of latent inputs, padding included."""
    random = np.random.default_rng(seed)
    shape = (data.rows.y.shape[0], columns)
    return random.standard_normal(shape), 0.3 * random.standard_normal(shape) - 0.5


def random_tied(outputs=OUTPUTS, size=len(Z), seed=1):
    """Means and numbers of roots of a tied site, away from the prior."""
    random = np.random.default_rng(seed)
    mean = 0.5 * random.standard_normal((outputs, size))
    return mean, 0.3 * random.standard_normal((outputs, size, size))


def roots(mean, raw):
    """Means and roots of a tied site, per output, in numpy."""
    return [
        (m, np.tril(r, -1) + np.diag(np.exp(np.diag(r)))) for m, r in zip(mean, raw, strict=True)
    ]


def tied_site(mean, cov):
    """The site of given means and covariances, per output."""
    root = np.linalg.cholesky(cov)
    diagonal = np.log(np.diagonal(root, axis1=1, axis2=2))
    raw = np.tril(root, -1) + diagonal[:, :, None] * np.eye(len(mean[0]))
    return TiedSite(jnp.asarray(mean), jnp.asarray(raw))


def as_sites(data, mean, log_deviation):
    """The sites that make given beliefs about latent inputs; rows of padding have none."""
    presence = np.asarray(data.rows.site_presence).max(1, keepdims=True)
    precision = np.exp(-2.0 * log_deviation)
    return presence * mean * precision, presence * (precision - 1.0)


def stores(inputs, tied=None, *, sites=False):
    """Stores of a graph with these latent inputs; collapsed where there is no tied site."""
    arrays = tuple(None if a is None else jnp.asarray(a) for a in inputs)
    store = ScalarSites(*arrays) if sites else InputMoments(*arrays)
    first = None if tied is None else TiedSite(*map(jnp.asarray, tied))
    return ((store,),) if tied is None else ((first, store),)


@eqx.filter_jit
def energy_of(problem, sites):
    """The energy at given stores."""
    return energy(problem.graph(), sites)


@eqx.filter_jit
def slopes_of(problem, sites):
    """The energy at given stores, and its slopes in them."""
    return jax.value_and_grad(lambda s: energy(problem.graph(), s))(sites)


def log_evidence(gplvm, data, method, sites, **batch):
    """The log evidence at given stores."""
    return -float(energy_of(problem_of(gplvm, data, method, **batch), sites))


def with_inputs(data, X):
    """The same rows at known inputs."""
    padded = np.zeros((data.rows.y.shape[0], X.shape[1]))
    padded[: len(X)] = X
    return dataclasses.replace(data, rows=dataclasses.replace(data.rows, x=jnp.asarray(padded)))


@eqx.filter_jit
def swept(graph, sites):
    """Sweeps of the sites on inputs to their end."""
    return Rowwise(graph, Limits(1e-9, 500)).run(sites)


@eqx.filter_jit
def energy_on(graph, sites):
    """The energy on a graph."""
    return energy(graph, sites)
