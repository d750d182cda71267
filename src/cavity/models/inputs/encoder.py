r"""An encoder: from the outputs of a row to the posterior of its latent input.

Every output has a network of its own from its value to a Gaussian site on the input. The
posterior is the standard normal prior times the sites of the outputs that are observed, so that
missing ones are left out as they are by Bayes' rule.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.numerics.types import Array, Float
from cavity.parameters import fixed, real


class SiteEncoder(eqx.Module):
    r"""Sites on the latent input of a row, one for each of its P outputs.

    With the standardised output $\tilde y_p$ and a hidden layer $\mathbf s = \tanh(\mathbf w_p
    \tilde y_p + \mathbf b_p)$ the site has the shift $\mathbf c_p \tilde y_p + \mathbf V_p
    \mathbf s$ and the precision $\exp(\mathbf r_p + \mathbf U_p \mathbf s)$.

    Args:
        centre: means of outputs, (P,).
        spread: standard deviations of outputs, (P,).
        weights: $\mathbf w$, (P, H).
        offsets: $\mathbf b$, (P, H).
        slopes: $\mathbf c$, (P, Q).
        shifts: $\mathbf V$, (P, Q, H).
        log_precisions: $\mathbf r$, (P, Q).
        precisions: $\mathbf U$, (P, Q, H).

    References:
        Bui and Turner (2015); Bui (2017), S48.
    """

    centre: Float[Array, " P"] = fixed()
    spread: Float[Array, " P"] = fixed()
    weights: Float[Array, "P H"] = real()
    offsets: Float[Array, "P H"] = real()
    slopes: Float[Array, "P Q"] = real()
    shifts: Float[Array, "P Q H"] = real()
    log_precisions: Float[Array, "P Q"] = real()
    precisions: Float[Array, "P Q H"] = real()

    @property
    def columns(self) -> int:
        """Coordinates of a latent input."""
        return self.slopes.shape[1]

    @property
    def outputs(self) -> int:
        """Outputs of a row."""
        return self.slopes.shape[0]

    def __call__(
        self, y: Float[Array, "N P"], presence: Float[Array, "N P"]
    ) -> tuple[Float[Array, "N Q"], Float[Array, "N Q"]]:
        """Means and variances of the latent inputs of rows.

        Args:
            y: outputs.
            presence: 1 where an output is observed, else 0.
        """
        observed = presence[:, :, None]
        standard = (presence * (y - self.centre) / self.spread)[:, :, None]
        hidden = jnp.tanh(standard * self.weights + self.offsets)  # N P H
        shift = standard * self.slopes + jnp.einsum("nph,pqh->npq", hidden, self.shifts)
        log_precision = self.log_precisions + jnp.einsum("nph,pqh->npq", hidden, self.precisions)
        precision = 1.0 + jnp.sum(observed * jnp.exp(log_precision), axis=1)
        return jnp.sum(observed * shift, axis=1) / precision, 1.0 / precision


def linear_encoder(Y: np.ndarray, columns: int, hidden: int = 8, seed: int = 0) -> SiteEncoder:
    """An encoder that begins with the posterior of probabilistic principal components.

    Args:
        Y: outputs (N, P), NaN where missing.
        columns: coordinates of a latent input.
        hidden: hidden units of every network.
        seed: of the networks, which begin small.
    """
    centre = np.nanmean(Y, axis=0)
    spread = np.nanstd(Y, axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    standard = np.nan_to_num((Y - centre) / spread)
    values, vectors = np.linalg.eigh(standard.T @ standard / len(Y))
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = max(float(np.mean(values[columns:])) if columns < len(values) else 0.0, 1e-2)
    signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(len(values))])
    gains = np.sqrt(np.maximum(values[:columns] - noise, 1e-3 * values[0]))
    loadings = (vectors * signs)[:, :columns] * gains
    random = np.random.default_rng(seed)
    outputs = Y.shape[1]
    small = (outputs, columns, hidden)
    parts: dict[str, Any] = {
        "centre": centre,
        "spread": spread,
        "weights": random.standard_normal((outputs, hidden)),
        "offsets": random.standard_normal((outputs, hidden)),
        "slopes": loadings / noise,
        "shifts": 0.01 * random.standard_normal(small),
        "log_precisions": np.log(loadings**2 / noise + 1e-2),
        "precisions": 0.01 * random.standard_normal(small),
    }
    return SiteEncoder(**parts)
