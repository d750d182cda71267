"""Neal's three classes at fixed hyperparameters: every method beside a long MCMC run.

Elliptical slice sampling of the contrasts that the likelihood depends on, about the Gaussian that
EP finds, which is corrected for exactly; the evidence by thermodynamic integration from there.
Moments of the functions and class probabilities of the test rows follow from the draws. Also the
recorded demonstration (E-R2): energy, test error.

python -m benchmarks.three_classes [--draws 200000]
"""

import argparse
import gzip
import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import cavity
from benchmarks.data import FOLDER
from benchmarks.results import Table

TABLE = Table("three_classes.csv", ("method",))
VARIANCE, LENGTHSCALES = 13.1109, np.array([0.58525, 0.64233, 4.8782, 4.3622])
JITTER, CLASSES = 1e-6, 3
RECORDED = {"energy": 98.0398, "error": 0.1525}
TEMPERATURES = 16

Moments = tuple[np.ndarray, np.ndarray]


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test rows: the first 200, and the others."""
    with gzip.open(FOLDER / "gpstuff_demos" / "cdata.txt.gz", "rt") as file:
        table = np.loadtxt(file)
    X, y = table[:, :4], table[:, 4]
    return X[:200], y[:200], X[200:], y[200:]


def kernel_matrix(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    z = (A[:, None] - B[None]) / LENGTHSCALES
    return VARIANCE * np.exp(-0.5 * np.sum(z**2, axis=2))


def prior_energy(variance: float, lengthscales: np.ndarray) -> float:
    """Minus the log prior of the demonstration, in the logarithms of the parameters."""
    t: Any = stats.t(10, scale=np.sqrt(10.0))
    log_prior = t.logpdf(lengthscales).sum() + t.logpdf(np.sqrt(variance))
    log_prior += np.log(lengthscales).sum() + np.log(variance) - np.log(2 * np.sqrt(variance))
    return -float(log_prior)


class Sampler:
    """Draws of the contrasts z = B w of all functions and auxiliary variables w."""

    def __init__(self, X: np.ndarray, y: np.ndarray, found: Any):
        n = len(y)
        K = kernel_matrix(X, X) + JITTER * np.eye(n)
        self.prior = np.zeros(((CLASSES + 1) * n, (CLASSES + 1) * n))
        for k in range(CLASSES):
            self.prior[k * n : (k + 1) * n, k * n : (k + 1) * n] = K
        self.prior[CLASSES * n :, CLASSES * n :] = np.eye(n)
        pairs = [(i, j) for i in range(n) for j in range(CLASSES) if j != int(y[i])]
        self.B = np.zeros((len(pairs), len(self.prior)))
        for row, (i, j) in enumerate(pairs):
            self.B[row, [j * n + i, int(y[i]) * n + i, CLASSES * n + i]] = 1.0, -1.0, 1.0
        ((store,),) = found.found
        self.nu, self.tau = (
            np.array([np.asarray(part)[i, j] for i, j in pairs])
            for part in (store.shift, store.precision)
        )
        self.S = self.B @ self.prior @ self.B.T
        inner = np.eye(len(pairs)) + self.S * self.tau
        self.cov = np.linalg.solve(inner, self.S)
        self.mean = self.cov @ self.nu
        # log of the integral of prior times sites
        self.start = -0.5 * np.linalg.slogdet(inner)[1] + 0.5 * self.nu @ self.mean
        self.root = np.linalg.cholesky(self.cov + 1e-12 * np.trace(self.cov) * np.eye(len(pairs)))

    def draws(self, count: int, share: float, keep: int, seed: int) -> tuple[np.ndarray, float]:
        """Every `keep`-th draw at a temperature, and the mean log ratio of factors to sites."""
        found, ratio = _slices(
            jnp.asarray(self.root),
            jnp.asarray(self.mean),
            jnp.asarray(self.nu),
            jnp.asarray(self.tau),
            share,
            jax.random.key(seed),
            count // keep,
            keep,
        )
        late = slice(len(ratio) // 10, None)
        return np.asarray(found)[late], float(np.mean(np.asarray(ratio)[late]))

    def log_evidence(self, count: int, seed: int) -> float:
        """By thermodynamic integration from the sites to the factors."""
        places, weights = np.polynomial.legendre.leggauss(TEMPERATURES)
        runs = enumerate(zip(places, weights, strict=True))
        total = sum(
            0.5 * w * self.draws(count, 0.5 * (t + 1.0), 10, seed * TEMPERATURES + i)[1]
            for i, (t, w) in runs
        )
        return self.start + total

    def moments(self, z: np.ndarray) -> Moments:
        """Means and covariances of the functions at the data, (n, C) and (n, C, C)."""
        back = np.linalg.lstsq(self.S, self.B @ self.prior, rcond=1e-12)[0].T
        size = CLASSES * (len(self.prior) // (CLASSES + 1))
        w = (z @ back.T)[:, :size]
        left = (self.prior - back @ self.S @ back.T)[:size, :size]
        cov = np.cov(w.T) + left
        n = size // CLASSES
        index = np.arange(n)[:, None] + n * np.arange(CLASSES)
        return w.mean(axis=0)[index], cov[index[:, :, None], index[:, None, :]]

    def probabilities(
        self, z: np.ndarray, X: np.ndarray, new: np.ndarray, seed: int
    ) -> np.ndarray:
        """Class probabilities of new rows, averaged over draws of their functions."""
        r, n = np.random.default_rng(seed), len(X)
        cross = np.zeros((CLASSES, len(new), len(self.prior)))
        for k in range(CLASSES):
            cross[k, :, k * n : (k + 1) * n] = kernel_matrix(new, X)
        back = np.linalg.lstsq(self.S, self.B @ cross.reshape(-1, len(self.prior)).T, rcond=1e-12)
        A = back[0].T.reshape(CLASSES, len(new), -1)
        M = cross @ self.B.T  # covariances of new functions with z
        left = -np.einsum("kni,lni->nkl", A, M) + VARIANCE * np.eye(CLASSES)
        values, vectors = np.linalg.eigh(0.5 * (left + left.swapaxes(1, 2)))
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        likelihood = cavity.likelihoods.MultinomialProbit(CLASSES)
        chance = jax.jit(
            lambda f: jnp.stack(
                [jnp.exp(likelihood.log_prob(f, jnp.full(len(new), float(c)))) for c in range(3)]
            )
        )
        total = np.zeros((CLASSES, len(new)))
        for each in z:
            noise = np.einsum("nkl,nl->kn", root, r.standard_normal((len(new), CLASSES)))
            total += np.asarray(chance(A @ each + noise))
        return (total / len(z)).T


def _slices(root, mean, nu, tau, share, key, count, keep):
    """Elliptical slice sampling of N(mean, root rootᵀ) times a power of factors over sites."""

    def log_ratio(z):
        return jnp.sum(jax.scipy.special.log_ndtr(-z) - nu * z + 0.5 * tau * z**2)

    def step(state, key):
        x, value = state
        draw, level, angle = jax.random.split(key, 3)
        other = root @ jax.random.normal(draw, x.shape)
        height = share * value + jnp.log(jax.random.uniform(level))
        first = jax.random.uniform(angle, maxval=2.0 * jnp.pi)

        def at(t):
            return x * jnp.cos(t) + other * jnp.sin(t)

        def lower(s):
            return share * s[3] <= height

        def shrink(s):
            t, low, high, _, key = s
            low, high = jnp.where(t < 0.0, t, low), jnp.where(t < 0.0, high, t)
            key, sub = jax.random.split(key)
            t = jax.random.uniform(sub, minval=low, maxval=high)
            return t, low, high, log_ratio(mean + at(t)), key

        begin = (first, first - 2.0 * jnp.pi, first, log_ratio(mean + at(first)), angle)
        t, _, _, value, _ = jax.lax.while_loop(lower, shrink, begin)
        return (at(t), value), None

    def some(state, key):
        state, _ = jax.lax.scan(step, state, jax.random.split(key, keep))
        return state, (mean + state[0], state[1])

    start = (jnp.zeros_like(mean), log_ratio(mean))
    return jax.lax.scan(some, start, jax.random.split(key, count))[1]


METHODS = {
    "power 1 (nested EP)": ("probit", cavity.PowerEP(), 1.0),
    "power 0.5": ("probit", cavity.PowerEP(), 0.5),
    "power 0 (variational)": ("probit", cavity.PowerEP(), 0.0),
    "class-factorised EP": ("probit", cavity.PowerEP(coupled=False), 1.0),
    "mean field": ("probit", cavity.MeanField(), 0.0),
    "softmax, Laplace": ("softmax", cavity.Laplace(), 0.5),
    "softmax, variational": ("softmax", cavity.PowerEP(), 0.0),
}
CORRECTED = "softmax, Laplace, Tierney-Kadane"


def run(name: str, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> dict[str, Any]:
    """Evidence, moments and class probabilities of a method."""
    likelihoods = cavity.likelihoods
    link, method, power = METHODS[name]
    kind = likelihoods.MultinomialProbit if link == "probit" else likelihoods.Softmax
    kernel = cavity.kernels.RBF(VARIANCE, LENGTHSCALES) + cavity.kernels.White(JITTER)
    model = cavity.GP(kernel, kind(CLASSES))
    cavity.infer(model, X, y, power=power, method=method)
    start = time.perf_counter()
    found = cavity.infer(model, X, y, power=power, method=method)
    seconds = time.perf_counter() - start
    posterior: Any = found.posterior
    if hasattr(posterior, "functions"):
        mean, cov = map(np.asarray, posterior.process.moments(X))
    else:
        mean, var = map(np.asarray, posterior.marginals(X))
        cov = var[:, :, None] * np.eye(CLASSES)
    chances = np.exp(np.asarray(posterior.predict(new).log_probabilities))
    return {
        "found": found,
        "moments": (mean, cov),
        "chances": chances,
        "log_evidence": found.log_evidence,
        "seconds": seconds,
        "comparable": link == "probit",
    }


def corrected(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> dict[str, Any]:
    """Laplace's method with the predictive correction of Tierney and Kadane."""
    result = run("softmax, Laplace", X, y, new)
    kernel = cavity.kernels.RBF(VARIANCE, LENGTHSCALES) + cavity.kernels.White(JITTER)
    model = cavity.GP(kernel, cavity.likelihoods.Softmax(CLASSES))
    start = time.perf_counter()
    chances = np.exp(cavity.diagnostics.tierney_kadane(model, X, y, new))
    return result | {"chances": chances, "seconds": time.perf_counter() - start}


def row(name: str, result: dict[str, Any], truth: dict[str, Any], labels: np.ndarray) -> dict:
    """How far a method is from the draws, and its scores on the test rows."""
    chances, (mean, cov) = result["chances"], result["moments"]
    true_mean, true_cov = truth["moments"]
    sd, true_sd = (np.sqrt(np.diagonal(c, axis1=1, axis2=2)) for c in (cov, true_cov))
    away = (mean - true_mean) / true_sd
    upper = np.triu_indices(CLASSES, 1)
    between, truly = (c[:, upper[0], upper[1]] for c in (cov, true_cov))
    same = result["comparable"]
    own = np.arange(len(labels)), labels.astype(int)
    return {
        "method": name,
        "log_evidence": float(result["log_evidence"]) if same else np.nan,
        "standard_error": float(result.get("error", 0.0)),
        "rms_mean_error_in_sd": float(np.sqrt(np.mean(away**2))) if same else np.nan,
        "mean_log_sd_ratio": float(np.mean(np.log(sd / true_sd))) if same else np.nan,
        "mean_covariance_between_classes": float(np.mean(between)),
        "that_of_mcmc": float(np.mean(truly)),
        "test_error": float(np.mean(np.argmax(chances, axis=1) != labels)),
        "test_nlpp": float(-np.mean(np.log(chances[own]))),
        "rms_probability_error": float(np.sqrt(np.mean((chances - truth["chances"]) ** 2))),
        "seconds": result["seconds"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200_000)
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    X, y, new, labels = data()
    start = time.perf_counter()
    first = run("power 1 (nested EP)", X, y, new)
    sampler = Sampler(X, y, first["found"])
    z, _ = sampler.draws(asked.draws, 1.0, 100, 0)
    values = [sampler.log_evidence(asked.draws // 20, seed) for seed in range(1, 6)]
    truth: dict[str, Any] = {
        "moments": sampler.moments(z),
        "chances": sampler.probabilities(z, X, new, 1),
        "log_evidence": float(np.mean(values)),
        "error": float(np.std(values) / np.sqrt(len(values) - 1)),
        "comparable": True,
    }
    truth["seconds"] = time.perf_counter() - start
    energy = prior_energy(VARIANCE, LENGTHSCALES) - first["log_evidence"]
    print(f"E-R2: energy {energy:.4f}, recorded {RECORDED['energy']}", flush=True)
    for name in ("MCMC", *METHODS, CORRECTED):
        if name == CORRECTED:
            result = corrected(X, y, new)
        else:
            result = truth if name == "MCMC" else run(name, X, y, new)
        found = row(name, result, truth, labels)
        print(found, flush=True)
        TABLE.add(found)


if __name__ == "__main__":
    main()
