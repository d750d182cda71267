"""Whether sweeps converge on sparse linear models, whether they say so, and what the rest predict.

100 rows, 1,000 columns, neighbours correlated by 0, 0.5 or 0.9, ten coefficients of 0.7 to 1.5
(`benchmarks.sparse`), noise variance 0.5. Parameters are given, those of these problems: spike and
slab with a share of 0.01 and the mean square of the coefficients that are not zero; Laplace with
the variance of such a coefficient; the horseshoe with the scale of Piironen and Vehtari (2017),
10 / 990 times the deviation of the noise over the root of the rows.

ep: one call of infer each. A claim of convergence is false where the sites are no fixed point of
sweeps in plain numpy (`benchmarks.plain_ep`): where moments differ by more than 1e-3 deviations,
or ten damped sweeps move a mean by more than that.
gibbs: two Gibbs chains from different starts (`benchmarks.gibbs`) for each problem without
convergence and the first five with it of each prior and correlation: test RMSE, means and
inclusion probabilities, of cavity against the chains, and of the chains against each other. The
chains are pooled; under spike and slab, where their mean log joint densities differ by more than
10 nats, the higher is taken, since one that starts from zero may stay for good with columns that
fit by chance.

python -m benchmarks.sparse_convergence [--only ep,gibbs] [--seeds 100]
"""

import argparse
import itertools
import math
import time
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks import gibbs, plain_ep
from benchmarks.results import Table
from benchmarks.sparse import problem
from cavity import likelihoods, weights

TABLE = Table("sparse_convergence.csv", ("correlation", "seed", "prior"))
CHAINS = Table("sparse_gibbs.csv", ("correlation", "seed", "prior"))
# Problems with convergence that are drawn too, of each prior and correlation.
SAMPLE = 5
CORRELATIONS = (0.0, 0.5, 0.9)
NOISE, SHARE = 0.5, 0.01
# mean square of a number between 0.7 and 1.5
SLAB = (1.5**3 - 0.7**3) / (3.0 * 0.8)
LAPLACE = math.sqrt(0.5 * SHARE * SLAB)
HORSESHOE = 10.0 / 990.0 * math.sqrt(NOISE / 100.0)
PRIORS: dict[str, tuple[Any, plain_ep.Moments]] = {
    "laplace": (weights.Laplace(LAPLACE), plain_ep.laplace(LAPLACE)),
    "horseshoe": (weights.Horseshoe(HORSESHOE), plain_ep.horseshoe(HORSESHOE)),
    "spike_slab": (weights.SpikeSlab(SHARE, SLAB), plain_ep.spike_slab(SHARE, SLAB)),
}
# A claim of convergence is false where plain sweeps go farther than this, in deviations.
FALSE = 1e-3
# Nats by which a chain's mean log joint density is lower where it has not found its place.
STUCK = 10.0


def inferred(prior: str, X: np.ndarray, y: np.ndarray) -> cavity.fitting.Inference:
    model = cavity.LinearModel(PRIORS[prior][0], likelihoods.Gaussian(NOISE), intercept=False)
    return cavity.infer(model, X, y, power=1.0)


def rmse_of(mean: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((X @ mean - y) ** 2)))


def by_sweeps(seed: int, correlation: float, prior: str) -> dict[str, Any]:
    """What sweeps reach, what they claim, and whether plain numpy agrees."""
    X, y, X_test, y_test, _ = problem(seed, correlation)
    start = time.perf_counter()
    result = inferred(prior, X, y)
    seconds = time.perf_counter() - start
    stored = jax.tree.leaves(result.found)
    sites = plain_ep.Sites(*(np.asarray(x, float).ravel() for x in stored))
    check = X, y, NOISE, PRIORS[prior][1], sites
    mismatch = plain_ep.mismatch(*check)
    moved = plain_ep.moved(*check, sweeps=10) if result.converged else math.nan
    predicted = np.asarray(result.posterior.predict(X_test).mean)
    return {
        "converged": result.converged,
        "residual": result.sites.residual,
        "sweeps": result.sites.sweeps,
        "finished_by": result.sites.finished_by,
        "seconds": seconds,
        "log_evidence": result.log_evidence,
        "mismatch": mismatch,
        "moved": moved,
        "false_claim": result.converged and not max(mismatch, moved) < FALSE,
        "rmse": float(np.sqrt(np.mean((predicted - y_test) ** 2))),
    }


def sweeps(seeds: int) -> None:
    for seed, correlation, prior in itertools.product(range(seeds), CORRELATIONS, PRIORS):
        key = {"correlation": correlation, "seed": seed, "prior": prior}
        if not TABLE.has(**key):
            found = by_sweeps(seed, correlation, prior)
            TABLE.add(key | found)
            print(key, found, flush=True)


def drawn(prior: str, X: np.ndarray, y: np.ndarray, chain: gibbs.Chain) -> gibbs.Marginals:
    if prior == "spike_slab":
        return gibbs.spike_slab(X, y, NOISE, SHARE, SLAB, chain)
    if prior == "laplace":
        return gibbs.laplace(X, y, NOISE, LAPLACE, chain)
    return gibbs.horseshoe(X, y, NOISE, HORSESHOE, chain)


def reference(a: gibbs.Marginals, b: gibbs.Marginals) -> gibbs.Marginals:
    """Both chains in one, or the one of a log joint density that is higher by far."""
    if abs(a.log_joint - b.log_joint) > STUCK:
        return max(a, b, key=lambda chain: chain.log_joint)
    mean = 0.5 * (a.mean + b.mean)
    square = 0.5 * (a.deviation**2 + a.mean**2 + b.deviation**2 + b.mean**2)
    inclusion = 0.5 * (a.inclusion + b.inclusion)
    return gibbs.Marginals(mean, np.sqrt(square - mean**2), inclusion)


def beside_draws(seed: int, correlation: float, prior: str) -> dict[str, Any]:
    """Predictions, means and inclusion probabilities beside those of two chains."""
    X, y, X_test, y_test, _ = problem(seed, correlation)
    result = inferred(prior, X, y)
    found = cavity.diagnostics.coefficients(result.posterior)
    start = time.process_time()
    chains = [
        drawn(prior, X, y, gibbs.Chain(seed=2 * seed + wide, wide=bool(wide))) for wide in (0, 1)
    ]
    seconds = time.process_time() - start
    known, (narrow, wide) = reference(*chains), chains
    inclusion = np.ones(len(known.mean)) if found.inclusion is None else found.inclusion
    rmse, rmse_known = (rmse_of(mean, X_test, y_test) for mean in (found.mean, known.mean))
    return {
        "converged": result.converged,
        "rmse": rmse,
        "rmse_gibbs": rmse_known,
        "rmse_from_zero": rmse_of(narrow.mean, X_test, y_test),
        "rmse_from_wide": rmse_of(wide.mean, X_test, y_test),
        "relative": rmse / rmse_known - 1.0,
        "mean_away": float(np.max(np.abs(found.mean - known.mean) / known.deviation)),
        "inclusion_away": float(np.max(np.abs(inclusion - known.inclusion))),
        "chains_mean_away": float(np.max(np.abs(narrow.mean - wide.mean) / known.deviation)),
        "chains_inclusion_away": float(np.max(np.abs(narrow.inclusion - wide.inclusion))),
        "log_joint_from_zero": narrow.log_joint,
        "log_joint_from_wide": wide.log_joint,
        "chains_cpu_s": seconds,
    }


def to_draw() -> list[dict[str, Any]]:
    """Problems without convergence, then the first few with it, those of low seeds first."""
    rows = sorted(TABLE.rows(), key=lambda row: int(row["seed"]))
    chosen = [row for row in rows if row["converged"] == "False"]
    for prior, correlation in itertools.product(PRIORS, CORRELATIONS):
        case = {"correlation": f"{correlation:g}", "prior": prior, "converged": "True"}
        chosen += [row for row in rows if all(row[k] == v for k, v in case.items())][:SAMPLE]
    return [
        {"correlation": float(row["correlation"]), "seed": int(row["seed"]), "prior": row["prior"]}
        for row in chosen
    ]


def draws() -> None:
    for key in to_draw():
        if not CHAINS.has(**key):
            found = beside_draws(**key)
            CHAINS.add(key | found)
            print(key, found, flush=True)


def summary() -> None:
    for prior, correlation in itertools.product(PRIORS, CORRELATIONS):
        case = {"correlation": f"{correlation:g}", "prior": prior}
        rows = [r for r in TABLE.rows() if all(r[k] == v for k, v in case.items())]
        if not rows:
            continue
        converged = [r for r in rows if r["converged"] == "True"]
        wrong = sum(r["false_claim"] == "True" for r in rows)
        seconds, rmse = (np.median([float(r[k]) for r in rows]) for k in ("seconds", "rmse"))
        print(
            f"{prior}, {correlation:g}: {len(converged)} of {len(rows)} converged, {wrong} false "
            f"claims, median {seconds:.2f} s, rmse {rmse:.3f}"
        )
        # what cavity predicts is that of the present sweeps, not of when chains were drawn
        predicted = {r["seed"]: {k: r[k] for k in ("rmse", "converged")} for r in rows}
        chains = [
            r | predicted[r["seed"]]
            for r in CHAINS.rows()
            if r["seed"] in predicted and all(r[k] == v for k, v in case.items())
        ]
        for name in ("True", "False"):
            of_kind = [r for r in chains if r["converged"] == name]
            if of_kind:
                print(f"    beside Gibbs, converged {name}: {_beside(of_kind)}")


def _beside(rows: list[dict[str, str]]) -> str:
    """How predictions of some problems differ from those of chains."""
    column = {k: np.array([float(r[k]) for r in rows]) for k in rows[0] if k in _NUMBERS}
    signed = column["rmse"] / column["rmse_gibbs"] - 1.0
    relative = np.abs(signed)
    apart = np.abs(column["rmse_from_zero"] / column["rmse_from_wide"] - 1.0)
    chains = np.stack([column["rmse_from_zero"], column["rmse_from_wide"]])
    nearest = np.min(np.abs(column["rmse"] / chains - 1.0), axis=0)
    return (
        f"{len(rows)} problems, {np.sum(relative < 0.05)} within 5 % "
        f"({np.sum(nearest < 0.05)} of one chain at least), median "
        f"{np.median(relative):.2%}, worst {np.max(relative):.1%} "
        f"(signed {signed[np.argmax(relative)]:+.1%}); means away "
        f"{np.median(column['mean_away']):.2g} (median), inclusion "
        f"{np.median(column['inclusion_away']):.2g}; chains apart by more than 5 % in "
        f"{np.sum(apart > 0.05)}, by {np.median(apart):.2%} (median)"
    )


_NUMBERS = (
    "rmse",
    "rmse_gibbs",
    "rmse_from_zero",
    "rmse_from_wide",
    "mean_away",
    "inclusion_away",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="ep,gibbs")
    parser.add_argument("--seeds", type=int, default=100)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    cases = options.only.split(",")
    if "ep" in cases:
        sweeps(options.seeds)
    if "gibbs" in cases:
        draws()
    summary()


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main()
