"""Deep GPs with posteriors of hidden values: models that small tests share, and their energies."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.energy import beliefs, energy
from cavity.inference.factors.tied import TiedSite
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from tests.oracle import deep

FAMILIES = ["factorised", "chain", "conditional", "conditional_local", "nested"]
# Best bounds of the toy of Chamberlin's thesis, over many starts, by a prototype.
GOLDEN = {"factorised": -13.349, "conditional_local": -12.431, "conditional": -12.275}
TIED_TO_MODEL, EVIDENCE = -14.692, -7.70


@eqx.filter_jit
def compiled_energy(problem, sites):
    return energy(problem.graph(), sites)


@eqx.filter_jit
def compiled_slopes(problem, sites):
    return jax.value_and_grad(lambda s: energy(problem.graph(), s))(sites)


compiled_beliefs = eqx.filter_jit(lambda problem, sites: beliefs(problem.graph(), sites))


def problem_of(model, X, Y, family, power=0.0, **options):
    data = prepare(X, Y, power=power, **options)
    approximation = cavity.PowerEP(hidden=family).approximation
    return data.problem(as_dtype(model, data), approximation, deep.JITTER)


def random_sites(problem, seed=0):
    """Beliefs away from where a search starts."""
    random = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: leaf + 0.3 * random.standard_normal(leaf.shape), problem.empty_sites()
    )


def hidden_of(sites, count, family):
    """Means, variances or covariances, and slopes of the rows, as the oracle takes them."""
    ((*_, store),) = sites
    out = []
    for layer in store.layers:
        slopes = [np.asarray(each) for each in layer.slopes]
        slopes = slopes[0] if slopes else None
        if slopes is not None and family != "chain":
            slopes = np.moveaxis(slopes, 1, 0)
        mean, var = np.asarray(layer.mean), np.exp(2.0 * np.asarray(layer.log_deviation))
        if layer.lower is not None:
            root = np.tril(layer.lower, -1) + np.sqrt(var)[:, :, None] * np.eye(var.shape[1])
            var = root @ root.swapaxes(1, 2)
        out.append([None if a is None else a[:count] for a in (mean, var, slopes)])
    return out


def direct_of(sites):
    """Means and covariances of inducing variables with beliefs that are given."""
    ((*functions, _),) = sites
    given = [site for site in functions if site is not None]
    return [(np.asarray(s.mean), np.asarray(s.root @ jnp.swapaxes(s.root, 1, 2))) for s in given]


def toy():
    x = np.linspace(-1.0, 1.0, 7)[:, None]
    y = np.sign(x + 1e-3) + 0.05 * np.random.default_rng(2).normal(size=7)[:, None]
    specs = [
        {"Z": np.linspace(-1.0, 1.0, 4)[:, None], "variance": 1.1, "lengthscale": 0.6}
        | {"noise": 0.15, "width": 1},
        {"Z": np.linspace(-1.5, 1.5, 4)[:, None], "variance": 0.9, "lengthscale": 0.8}
        | {"noise": 0.1},
    ]
    return x, y, specs, model_of(specs)


def model_of(specs):
    """The model that the oracle's layers describe."""
    layers = []
    for i, spec in enumerate(specs):
        last = i + 1 == len(specs)
        layers.append(
            cavity.Layer(
                kernels.RBF(spec["variance"], spec["lengthscale"]),
                inducing.Points(spec["Z"]),
                width=spec.get("width", 1),
                mean=means.Linear(spec["weights"]) if "weights" in spec else None,
                noise_variance=None if last else spec["noise"],
                skip_connection=spec.get("skips", False),
            )
        )
    return cavity.DeepGP(layers, likelihoods.Gaussian(specs[-1]["noise"]))


def wide():
    """Two functions in every layer, one linear mean, one skip connection, outputs missing."""
    random = np.random.default_rng(3)
    X, Y = random.standard_normal((6, 1)), random.standard_normal((6, 2))
    Y[2], Y[4, 0] = np.nan, np.nan
    shape = {"variance": 1.2, "lengthscale": 0.9, "width": 2}
    specs = [
        shape | {"Z": random.standard_normal((3, 1)), "noise": 0.2},
        shape | {"Z": random.standard_normal((4, 2)), "noise": 0.3}
        | {"weights": random.standard_normal((2, 2))},
        shape | {"Z": random.standard_normal((3, 3)), "noise": 0.1, "skips": True},
    ]  # fmt: skip
    return X, Y, specs, model_of(specs)


def tied(mean, cov):
    """A belief as the numbers that an optimiser moves."""
    L = np.linalg.cholesky(np.asarray(cov))
    logs = np.log(np.diagonal(L, axis1=1, axis2=2))
    raw = np.tril(L, -1) + logs[:, :, None] * np.eye(L.shape[1])
    return TiedSite(jnp.asarray(mean), jnp.asarray(raw))
