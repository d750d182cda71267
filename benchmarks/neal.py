"""Neal's outlier regression at fixed hyperparameters: every method beside a long MCMC run.

Gibbs sampling over the function and the noise variance of each row (the scale-mixture form of the
Student-t density); the evidence by Chib's identity at the posterior mean of the function. Knows
nothing of the package but the methods that it compares.

python -m benchmarks.neal [--draws 40000]
"""

import argparse
import gzip
from typing import Any

import jax
import numpy as np
from scipy import special

import cavity
from benchmarks.data import FOLDER
from benchmarks.results import Table

TABLE = Table("neal.csv", ("method",))
VARIANCE, LENGTHSCALE, SIGMA2 = np.exp([1.0871, 0.0321, -4.6357])
DF, JITTER = 4.0, 1e-4


def data() -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(FOLDER / "neal_outliers" / "odata.txt.gz", "rt") as file:
        x, y = np.loadtxt(file)[:100].T
    return x, y


def gibbs(x: np.ndarray, y: np.ndarray, draws: int, seed: int = 0) -> dict[str, Any]:
    """Moments of the function, and the log evidence of each tenth of the draws."""
    r, n = np.random.default_rng(seed), len(y)
    K = VARIANCE * np.exp(-0.5 * (x[:, None] - x) ** 2 / LENGTHSCALE**2) + JITTER * np.eye(n)
    V = np.full(n, SIGMA2)
    means, spreads, states = [], [], []
    for i in range(draws + draws // 10):
        # f given V: mean K (K + V)⁻¹ y, covariance K - K (K + V)⁻¹ K
        L = np.linalg.cholesky(K + np.diag(V))
        A = np.linalg.solve(L, K)
        m, S = A.T @ np.linalg.solve(L, y), K - A.T @ A
        f = m + np.linalg.cholesky(S + 1e-12 * np.eye(n)) @ r.standard_normal(n)
        # V given f: (ν σ² + r²) / χ² with ν + 1 degrees of freedom
        V = (DF * SIGMA2 + (y - f) ** 2) / r.chisquare(DF + 1.0, n)
        if i >= draws // 10:
            means.append(m)
            spreads.append(np.diag(S))
            if i % 10 == 0:
                states.append((m, S))
    means, spreads = np.array(means), np.array(spreads)
    # Rao-Blackwell: the mean and variance of f over the draws of V
    mean = means.mean(axis=0)
    sd = np.sqrt(spreads.mean(axis=0) + means.var(axis=0))
    logs = np.array([_density(mean, *state) for state in states])
    value = _log_joint(mean, y, K)
    parts = [value - _log_mean_exp(part) for part in np.array_split(logs, 10)]
    return {"mean": mean, "sd": sd, "log_evidence": value - _log_mean_exp(logs), "parts": parts}


def _density(f: np.ndarray, m: np.ndarray, S: np.ndarray) -> float:
    L = np.linalg.cholesky(S + 1e-12 * np.eye(len(f)))
    half = np.linalg.solve(L, f - m)
    volume = 2.0 * np.log(np.diag(L)).sum()
    return -0.5 * (half @ half + volume + len(f) * np.log(2.0 * np.pi))


def _log_joint(f: np.ndarray, y: np.ndarray, K: np.ndarray) -> float:
    z2 = (y - f) ** 2 / SIGMA2
    height = special.gammaln((DF + 1) / 2) - special.gammaln(DF / 2)
    height -= 0.5 * np.log(DF * np.pi * SIGMA2)
    likelihood = np.sum(height - (DF + 1) / 2 * np.log1p(z2 / DF))
    return likelihood + _density(f, np.zeros(len(y)), K)


def _log_mean_exp(x: np.ndarray) -> float:
    return float(special.logsumexp(x) - np.log(len(x)))


METHODS = {
    **{f"Power EP {a:g}": (cavity.PowerEP(), a) for a in (1.0, 0.8, 0.5, 0.2)},
    "variational (power 0)": (cavity.PowerEP(), 0.0),
    "Laplace": (cavity.Laplace(), 0.5),
    "mean field": (cavity.MeanField(), 0.5),
    "local bound": (cavity.LocalBound(), 0.5),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=40_000)
    asked = parser.parse_args()
    x, y = data()
    truth = gibbs(x, y, asked.draws)
    error = float(np.std(truth["parts"]) / np.sqrt(10.0))
    show("MCMC", truth["log_evidence"], error, truth["mean"], truth["sd"], truth)
    kernel = cavity.kernels.RBF(VARIANCE, LENGTHSCALE) + cavity.kernels.White(JITTER)
    model = cavity.GP(kernel, cavity.likelihoods.StudentT(np.sqrt(SIGMA2), DF))
    for name, (method, power) in METHODS.items():
        with jax.enable_x64(True):
            found = cavity.infer(model, x[:, None], y, power=power, method=method)
            mean, var = _seen(found, x)
        show(name, found.log_evidence, 0.0, mean, np.sqrt(var), truth)


def _seen(found: cavity.fitting.Inference, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moments of f at the data, white noise of the prior included."""
    mean, var = found.posterior.marginals(x[:, None])
    return np.asarray(mean), np.asarray(var)


def show(name, log_evidence, error, mean, sd, truth) -> None:
    """One row: the evidence, and how far latent moments are from those of MCMC."""
    away = (mean - truth["mean"]) / truth["sd"]
    row = {
        "method": name,
        "log_evidence": float(log_evidence),
        "standard_error": error,
        "rms_mean_error_in_sd": float(np.sqrt(np.mean(away**2))),
        "largest_mean_error_in_sd": float(np.max(np.abs(away))),
        "mean_log_sd_ratio": float(np.mean(np.log(sd / truth["sd"]))),
        "largest_sd_ratio": float(np.max(sd / truth["sd"])),
        "least_sd_ratio": float(np.min(sd / truth["sd"])),
    }
    print(row, flush=True)
    TABLE.add(row)


if __name__ == "__main__":
    main()
