"""One small regression problem, posed to the package and to the dense oracle alike."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cavity
from cavity.inference.energy import beliefs, energy
from cavity.inference.solvers.parallel import Parallel, sweep
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.parameters import bijections, from_real, to_real
from tests.oracle import dense
from tests.solving import build_graph, swept

# 17 rows are padded, so every test that uses these also has padding.
ROWS, INDUCING, INPUTS = 17, 5, 2
JITTER = 1e-8
POWERS = (0.0, 0.25, 0.5, 1.0)
BLOCKS = np.array([0, 7, 0, 2, 2, 7, 0, 2, 7, 7, 0, 2, 3, 3, 0, 7, 3])
EACH_ROW = np.where(np.arange(ROWS) % 3 == 0, 0.0, np.where(np.arange(ROWS) % 3 == 1, 0.4, 1.0))
EACH_BLOCK = np.select([BLOCKS == 0, BLOCKS == 7, BLOCKS == 2], [0.0, 0.3, 0.8], 1.0)

SWEEPS = cavity.PowerEP(exact=False, tolerance=1e-11)


@dataclasses.dataclass(frozen=True)
class Problem:
    """Data, inducing inputs Z (None: full GP), test inputs S, and parameters.

    `known` has one noise variance per row; `weights` and `bias` make a linear mean.
    """

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray | None
    S: np.ndarray
    variance: float = 1.3
    lengthscale: np.ndarray | float = dataclasses.field(
        default_factory=lambda: np.array([0.8, 1.5])
    )
    noise: float = 0.1
    known: np.ndarray | None = None
    weights: np.ndarray | None = None
    bias: float = 0.0
    jitter: float = JITTER

    def but(self, **changes):
        return dataclasses.replace(self, **changes)

    # ------------------------------------------------------------------ the package

    @property
    def model(self):
        inducing = None if self.Z is None else cavity.inducing.Points(self.Z)
        mean = None if self.weights is None else cavity.means.Linear(self.weights, self.bias)
        kernel = cavity.kernels.RBF(self.variance, self.lengthscale)
        return cavity.GP(kernel, cavity.likelihoods.Gaussian(self.noise), inducing, mean)

    @property
    def rows(self):
        return None if self.known is None else {"noise_variance": self.known}

    def infer(self, power=0.5, blocks=None, **options):
        options = {"jitter": self.jitter, "rows": self.rows} | options
        return cavity.infer(self.model, self.X, self.y, power=power, blocks=blocks, **options)

    def evidence(self, power=0.5, blocks=None, **options):
        return self.infer(power, blocks, **options).log_evidence

    # ------------------------------------------------------------------- the oracle

    def k(self, a, b):
        return dense.rbf(a, b, self.variance, self.lengthscale)

    @property
    def Kff(self):
        return self.k(self.X, self.X)

    @property
    def Kuf(self):
        return self.k(self.Z, self.X)

    @property
    def Kuu(self):
        return self.k(self.Z, self.Z)

    @property
    def known_or_noise(self):
        return self.noise if self.known is None else self.known

    def mean_at(self, X):
        return np.zeros(len(X)) if self.weights is None else X @ self.weights + self.bias

    @property
    def train(self):
        return self.Kff, self.Kuf, self.Kuu, self.y, self.known_or_noise

    @property
    def options(self):
        """The oracle's jitter is absolute, the package's a share of the mean variance."""
        return {"mean": self.mean_at(self.X), "jitter": self.jitter * self.variance}

    def oracle(self, power, blocks=None):
        return dense.power_ep_log_evidence(*self.train, power, blocks, **self.options)

    def oracle_inducing(self, power, blocks=None):
        return dense.inducing_posterior(*self.train, power, blocks, **self.options)

    def oracle_predict(self, m, V, S=None):
        """Mean and covariance of f at the test inputs from q(u) = N(m, V)."""
        S = self.S if S is None else S
        jitter = self.options["jitter"]
        K = self.k(S, self.Z), self.k(S, S), self.Kuu
        return dense.predict(m, V, *K, self.mean_at(S), jitter)

    def exact(self):
        """The exact log evidence."""
        return dense.exact_log_evidence(
            self.Kff, self.y, self.known_or_noise, self.mean_at(self.X)
        )

    def exact_posterior(self, S=None):
        S = self.S if S is None else S
        K = self.Kff, self.k(S, self.X), self.k(S, S)
        noise = self.known_or_noise
        return dense.exact_posterior(*K, self.y, noise, self.mean_at(self.X), self.mean_at(S))

    @property
    def D(self):
        """Kff - Qff."""
        return self.Kff - dense.nystrom(self.Kuf, self.Kuu, self.options["jitter"])


def problem(seed=0, **changes):
    """A random problem with inducing inputs of their own, noise 0.1 and no mean."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (ROWS, INPUTS))
    Z = rng.uniform(0, 4, (INDUCING, INPUTS))
    S = rng.uniform(-0.5, 4.5, (6, INPUTS))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] - 1.0 + 0.3 * rng.normal(size=ROWS)
    return Problem(X, y, Z, S).but(**changes)


def known_noise(seed=0):
    return np.random.default_rng([seed, 1]).uniform(0.05, 0.3, ROWS)


def with_mean(seed=0, **changes):
    """A problem with a linear mean and a known noise variance in each row."""
    weights = np.array([0.3, -0.2])
    return problem(seed, weights=weights, bias=0.4, known=known_noise(seed), **changes)


# ----------------------------------------------------------------- values and gradients

# One program each, not one per operation.
sweep_once = eqx.filter_jit(sweep)
sweeps = eqx.filter_jit(lambda graph, sites, limits: Parallel(graph, limits).run(sites))
settled = eqx.filter_jit(swept)
energy_at = eqx.filter_jit(energy)
beliefs_at = eqx.filter_jit(beliefs)
_lay_out = eqx.filter_jit(build_graph)


def laid_out(model, X, y, method=None, *, jitter=JITTER, **options):
    """The model's graph on data, and the data, as learning sees them."""
    method = cavity.PowerEP() if method is None else method
    data = prepare(X, y, **options)
    return _lay_out(as_dtype(model, data), data, method, jnp.asarray(jitter)), data


def energy_and_gradient(model, X, y, method=None, *, jitter=JITTER, step=None, **options):
    """The energy and its gradient in the optimiser's coordinates, `step` away from the model."""
    method = cavity.PowerEP() if method is None else method
    data = prepare(X, y, **options)
    model = as_dtype(model, data)
    real = to_real(model, bijections(model))
    real = real if step is None else real + step
    value, gradient = energy_and_gradient_of(real, model, data, method, jnp.asarray(jitter))
    return float(value), np.asarray(gradient)


@eqx.filter_jit
def energy_and_gradient_of(real, model, data, method, jitter):
    """The same for prepared data."""
    maps = bijections(model)

    def loss(real):
        graph = build_graph(from_real(real, model, maps), data, method, jitter)
        sites, _ = swept(graph, method)
        return energy(graph, sites)

    return jax.value_and_grad(loss)(real)
