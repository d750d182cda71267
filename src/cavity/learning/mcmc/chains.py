"""Chains: draws by parameter name, with convergence diagnostics (R-hat, effective sample size)."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np

from cavity.learning.mcmc.kernels import blackjax
from cavity.numerics.jit import compiled
from cavity.numerics.text import aligned, plural
from cavity.numerics.types import Array

# What counts as converged, of every parameter and every value of the functions: R-hat at most,
# bulk effective sample size at least, and the share of divergent trajectories at most.
MOST_RHAT, LEAST_ESS, MOST_DIVERGENT = 1.03, 100.0, 0.01


@dataclasses.dataclass(frozen=True, eq=False)
class Chains:
    """Draws of the posterior, after the warm-up.

    Attributes:
        parameters: real values of what moved, by dotted name, each (chains, draws, ...).
        latents: values of the latent functions at the rows that were observed, (chains, draws, N),
            of several functions (chains, draws, N, L).
        stats: of each draw, (chains, draws): "lp", the log density that was sampled, up to a
            constant (of noise that is a scale mixture that of the likelihood's parameters given
            the function), and where NUTS made it "diverging", "acceptance_rate" and "n_steps".
        rhat: rank-normalised split R-hat by name; that of the latent functions under "f".
        ess: bulk effective sample sizes by name.
        log_evidence_error: standard error of the log evidence, where one was asked for.
        weights: the weights of a linear model or a network, by name, each (chains, draws, ...);
            those of a network have no R-hat, because its units change places between chains.

    References:
        Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), rank-normalised R-hat.
    """

    parameters: dict[str, np.ndarray]
    latents: np.ndarray
    stats: dict[str, np.ndarray]
    rhat: dict[str, np.ndarray]
    ess: dict[str, np.ndarray]
    log_evidence_error: float | None = None
    weights: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @property
    def divergences(self) -> int:
        """Draws whose trajectory diverged."""
        return int(np.sum(self.stats.get("diverging", 0)))

    @property
    def worst(self) -> tuple[float, float]:
        """The largest R-hat and the smallest effective sample size."""
        # numpy's extremes are NaN where any is, Python's only where the first is
        rhat = np.max([np.max(v) for v in self.rhat.values()])
        return float(rhat), float(np.min([np.min(v) for v in self.ess.values()]))

    @property
    def converged(self) -> bool:
        """True if R-hat, effective sample sizes and divergences are all as they should be."""
        rhat, ess = self.worst
        count = self.stats["lp"].size
        few = self.divergences <= MOST_DIVERGENT * count
        return bool(rhat <= MOST_RHAT and ess >= LEAST_ESS and few)

    @property
    def message(self) -> str:
        """Summary of the chains, in a sentence."""
        chains, draws = self.stats["lp"].shape
        rhat, ess = self.worst
        said = (
            f"{plural(chains, 'chain')} of {plural(draws, 'draw')}: R-hat at most {rhat:.3f}, "
            f"effective sample size at least {ess:.0f}"
        )
        if self.divergences:
            said += f", {plural(self.divergences, 'divergence')}"
        if self.converged:
            return said
        return f"{said}; allow more draws and warmup, or give narrower priors"

    def summary(self) -> list[dict[str, Any]]:
        """A row for each parameter: name, mean, standard deviation, quantiles, R-hat and ESS."""
        return summarised(self.parameters, self.rhat, self.ess)

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("parameter", "mean", "sd", "5 %", "95 %", "R-hat", "ESS")]
        for row in self.summary():
            numbers = (f"{row[k]:.4g}" for k in ("mean", "sd", "low", "high"))
            rows.append((row["name"], *numbers, f"{row['rhat']:.3f}", f"{row['ess']:.0f}"))
        for name, shown in {"f": "functions", **{n: n for n in self.weights}}.items():
            if name in self.rhat:
                worst = f"{np.max(self.rhat[name]):.3f}", f"{np.min(self.ess[name]):.0f}"
                rows.append((f"{shown}, the worst", "", "", "", "", *worst))
        return f"{aligned(rows)}\n{self.message}"

    def to_arviz(self) -> dict[str, dict[str, np.ndarray]]:
        """The draws as `arviz.from_dict` takes them.

        `arviz.from_dict(chains.to_arviz())` from version 1 on, before it
        `arviz.from_dict(**chains.to_arviz())`. The functions are the variable "f".
        """
        posterior = {**self.parameters, **self.weights, "f": self.latents}
        return {"posterior": posterior, "sample_stats": dict(self.stats)}


def chains_of(
    parameters: Mapping[str, np.ndarray],
    latents: np.ndarray,
    stats: Mapping[str, np.ndarray],
    log_evidence_error: float | None = None,
    *,
    weights: Mapping[str, np.ndarray] = MappingProxyType({}),
    compared: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> Chains:
    """Draws with their diagnostics, those of weights that chains are to agree on among them."""
    every = {**parameters, **compared, "f": latents}
    shape = latents.shape[:2]
    # all at once, in one compiled program
    both = diagnosed(np.concatenate([v.reshape(*shape, -1) for v in every.values()], axis=2))
    ends = np.cumsum([int(np.prod(v.shape[2:])) for v in every.values()])[:-1]
    rhat, ess = (
        {n: x.reshape(v.shape[2:]) for (n, v), x in zip(every.items(), parts, strict=True)}
        for parts in (np.split(found, ends) for found in both)
    )
    return Chains(
        dict(parameters), latents, dict(stats), rhat, ess, log_evidence_error, dict(weights)
    )


def diagnosed(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """R-hat and bulk effective sample size of draws, entry by entry.

    Args:
        values: (chains, draws, ...).

    Returns:
        Two arrays (...). Draws that never move have an infinite R-hat.
    """
    flat = values.reshape(*values.shape[:2], -1)
    # two entries at least, so that nothing but the axes of chains and draws goes
    found = _diagnosed(jnp.asarray(np.concatenate([flat, flat[..., :1]], axis=2)))
    rhat, ess = (np.asarray(x)[:-1].reshape(values.shape[2:]) for x in found)
    return rhat, ess


@compiled
def _diagnosed(draws: Array) -> tuple[Array, Array]:
    known = blackjax().diagnostics
    return known.rhat(draws), known.ess_bulk(draws)


def summarised(
    parameters: Mapping[str, np.ndarray],
    rhat: Mapping[str, np.ndarray],
    ess: Mapping[str, np.ndarray],
) -> list[dict[str, Any]]:
    """A row for each entry of each parameter."""
    rows = []
    for name, values in parameters.items():
        flat = values.reshape(-1, *values.shape[2:])
        for place in np.ndindex(flat.shape[1:]):
            draws = flat[(slice(None), *place)]
            low, high = np.quantile(draws, (0.05, 0.95))
            numbers = {"mean": draws.mean(), "sd": draws.std(), "low": low, "high": high}
            numbers |= {"rhat": rhat[name][place], "ess": ess[name][place]}
            shown = f"{name}[{', '.join(map(str, place))}]" if place else name
            rows.append({"name": shown} | {k: float(v) for k, v in numbers.items()})
    return rows
