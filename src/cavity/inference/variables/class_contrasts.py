r"""Contrasts of classes: how a row's multinomial probit touches the functions of all classes.

$$p(y \mid \mathbf f) = \int \mathcal N(u; 0, 1) \prod_{j \ne y} \Phi(f^y - f^j + u)\, du$$

With the auxiliary variable u of the row as one more latent variable, its factors are plain probit
factors of the scalars $z_j = f^j - f^y + u$ (u has an even density), each with a scalar site of
precision $\alpha_j$ and shift $\beta_j$. Eliminating u leaves a message on the row's functions:

$$\mathbf T = \operatorname{diag}(\boldsymbol\pi) - \boldsymbol\pi \boldsymbol\pi^\top / s, \quad
\boldsymbol\nu = \boldsymbol\beta - \boldsymbol\pi \mathbf 1^\top \boldsymbol\beta / s, \quad
s = \mathbf 1^\top \boldsymbol\pi,$$

with $\pi_j = \alpha_j$ and $\pi_y = 1 / \tau$, the precision of u. At power 1 this is nested EP
without an inner loop, and it exists at every power.

References:
    Jylanki (2013), S72 to S78, with its (3.5) and (3.7).
"""

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.graph.sites import BlockSites, class_precision
from cavity.numerics.types import Array, Float


class Contrasts(eqx.Module):
    r"""The auxiliary variables of some rows.

    Attributes:
        seen: 1 for the class of the row, 0 for all others.
        variance: $\tau$, the variance of u.
    """

    seen: Float[Array, "N C"]
    variance: Float[Array, " N"]

    def weights(self, precision: Float[Array, "N C"]) -> Float[Array, "N C"]:
        r"""$\boldsymbol\pi$ of sites with these precisions."""
        return jnp.where(self.seen > 0.0, 1.0 / self.variance[:, None], precision)

    def sent(
        self, shift: Float[Array, "N C"], precision: Float[Array, "N C"]
    ) -> tuple[Float[Array, "N C"], Float[Array, "N C"], Float[Array, " N"]]:
        r"""Messages to the functions: $\boldsymbol\nu$, $\boldsymbol\pi$, log scale."""
        shift = jnp.where(self.seen > 0.0, 0.0, shift)
        weights = self.weights(precision)
        s, total = jnp.sum(weights, axis=1), jnp.sum(shift, axis=1)
        log_scale = 0.5 * (total**2 / s - jnp.log(self.variance * s))
        return shift - weights * (total / s)[:, None], weights, log_scale

    def marginal(
        self,
        mean: Float[Array, "N C"],
        cov: Float[Array, "N C C"],
        shift: Float[Array, "N C"],
        precision: Float[Array, "N C"],
    ) -> tuple[Float[Array, "N C"], Float[Array, "N C"]]:
        """Means and variances of z, from those of the functions and the row's own sites.

        Given the functions, u has precision s, and z is f less its weighted mean, and noise.
        """
        center, w, s = self._centred(mean, shift, precision)
        spread = jnp.einsum("nij,nj->ni", cov, w)
        own = jnp.diagonal(cov, axis1=1, axis2=2) - 2.0 * spread
        var = 1.0 / s + own + jnp.sum(w * spread, axis=1, keepdims=True)
        return center, jnp.maximum(var, 0.0)

    def _centred(
        self, mean: Array, shift: Array, precision: Array
    ) -> tuple[Float[Array, "N C"], Float[Array, "N C"], Float[Array, "N 1"]]:
        """Means of z, the weights of the classes, and s."""
        shift = jnp.where(self.seen > 0.0, 0.0, shift)
        weights = self.weights(precision)
        s = jnp.sum(weights, axis=1, keepdims=True)
        w = weights / s
        common = (jnp.sum(shift, axis=1, keepdims=True) / s) - jnp.sum(w * mean, 1, keepdims=True)
        return mean + common, w, s

    def apart(
        self,
        mean: Float[Array, "N C"],
        own: Float[Array, "N C"],
        spread: Float[Array, "N C"],
        shift: Float[Array, "N C"],
        precision: Float[Array, "N C"],
    ) -> tuple[Float[Array, "N C"], Float[Array, "N C"]]:
        """`marginal` of functions that vary on their own and, beyond that, in common.

        Args:
            mean: of the functions.
            own: variances on their own.
            spread: variances of what is in common, less its weighted mean over the classes.
            shift: of the row's own sites.
            precision: the same.
        """
        center, w, s = self._centred(mean, shift, precision)
        shared = jnp.sum(w**2 * own, axis=1, keepdims=True)
        return center, 1.0 / s + (1.0 - 2.0 * w) * own + shared + spread

    def class_sites(
        self, shift: Float[Array, "N C"], precision: Float[Array, "N C"]
    ) -> BlockSites:
        """Sites of a row as one site on each of its functions."""
        nu, pi, _ = self.sent(shift, precision)
        return BlockSites(nu[:, None], class_precision(pi)[:, None])
