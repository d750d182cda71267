"""Priors that are mixtures over scales: horseshoe, and spike and slab."""

from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from cavity.numerics.types import Array, Float
from cavity.parameters import fixed, interval, positive
from cavity.weights.base import AbstractScaleMixture, Components

# Nodes in the log of a local variance, and the logs of their shares under a half-Cauchy deviation.
_STEP = 0.45
_NODES = np.arange(-40.0, 60.0, _STEP)
# log sech(ψ/2) / 2π
_LOG_SHARE = -np.logaddexp(_NODES / 2, -_NODES / 2) - np.log(np.pi) + np.log(_STEP)
# The narrowest spike, as a share of the slab's variance.
_NARROWEST = 1e-10


class Horseshoe(AbstractScaleMixture):
    r"""$w \sim \mathcal N(0, \tau^2 \lambda^2)$ with a half-Cauchy $\lambda$ for each weight.

    Small weights are shrunk to zero, and large ones hardly at all. The regularised horseshoe has
    a slab: the variance is $c^2 \tau^2\lambda^2 / (c^2 + \tau^2\lambda^2)$, so that no weight is
    larger than a few c.

    Args:
        scale: $\tau$, in units of a weight; one number, or one for each weight or group.
        slab: c, in units of a weight, not learned by default; None for the plain horseshoe.

    References:
        Carvalho, Polson and Scott (2010); Piironen and Vehtari (2017); Jylanki (2013), S94.
    """

    scale: Float[Array, "..."] = positive(output=1)
    slab: Float[Array, "..."] | None = fixed(optional=True, output=1)

    has_local_scales: ClassVar[bool] = True

    def __init__(self, scale: Any = 0.1, slab: Any = None):
        self.scale, self.slab = scale, slab

    def starting_variance(self) -> Array:
        # from much narrower a start, sweeps take sites through improper beliefs
        return 100.0 * self.scale**2

    def scales(self) -> tuple[Array, Array]:
        s = jnp.asarray(self.scale**2)[None]
        shape = (-1, *[1] * (s.ndim - 1))
        s = s * jnp.asarray(np.exp(_NODES), s.dtype).reshape(shape)
        return jnp.asarray(_LOG_SHARE, s.dtype).reshape(shape), self._regularised(s)

    def variance_given_scale(self, local: Array) -> tuple[Array, Array]:
        log_density = -jnp.logaddexp(0.5 * local, -0.5 * local) - jnp.log(jnp.pi)
        return self._regularised(self.scale**2 * jnp.exp(local)), log_density

    def _regularised(self, s: Array) -> Array:
        return s if self.slab is None else s / (1.0 + s / jnp.asarray(self.slab) ** 2)


@runtime_checkable
class HasPointSpike(Protocol):
    """A prior under which weights may be exactly zero."""

    @property
    def point_spikes(self) -> np.ndarray:
        """True where spikes are points at zero: one value, or one for each weight or group."""
        ...

    def for_weights(self, groups: Any, count: int) -> Any:
        """The prior with parameters of its own for every weight."""
        ...


class SpikeSlab(AbstractScaleMixture):
    r"""Most weights are zero, or nearly so: a mixture of two Gaussians, spike and slab.

    $p(w) = (1 - \rho)\, \mathcal N(w; 0, \text{spike}) + \rho\, \mathcal N(w; 0, \text{slab})$.
    Posteriors say with what probability each weight is in the slab. A spike of zero is a point
    at zero, which counts as a variance of 1e-10 of the slab's.

    Args:
        share: $\rho$, the share of weights that are not (nearly) zero.
        slab: the variance of these, in squared units of a weight.
        spike: the variance of the others.

    References:
        Mitchell and Beauchamp (1988); George and McCulloch (1993); Jylanki (2013), S9.
    """

    share: Float[Array, "..."] = interval(0.0, 1.0)
    slab: Float[Array, "..."] = positive(output=2)
    spike: Float[Array, "..."] = fixed(output=2)

    def __init__(self, share: Any = 0.1, slab: Any = 1.0, spike: Any = 0.0):
        self.share, self.slab, self.spike = share, slab, spike

    def __check_init__(self) -> None:
        if np.any(np.asarray(self.spike) < 0.0):
            raise ValueError(f"the variance of the spike must not be negative, given {self.spike}")

    def starting_variance(self) -> Array:
        return self.slab

    @property
    def point_spikes(self) -> np.ndarray:
        """True where spikes are points at zero: one value, or one for each weight or group."""
        return np.asarray(np.equal(self.spike, 0.0))

    def scales(self) -> tuple[Array, Array]:
        shares = jnp.broadcast_arrays(jnp.log1p(-self.share), jnp.log(self.share), self.slab)[:2]
        both = jnp.broadcast_arrays(self._narrow(), self.slab, shares[0])[:2]
        return jnp.stack(shares), jnp.stack(both)

    def inclusion_of(self, parts: Components) -> Array:
        return jnp.exp(parts.log_share[1])

    def signs_of(self, parts: Components) -> tuple[Array, Array]:
        slab = jax.tree.map(lambda x: x[1], parts)
        z, share = slab.mean / jnp.sqrt(slab.var), jnp.exp(slab.log_share)
        return share * ndtr(-z), share * ndtr(z)

    def _narrow(self) -> Array:
        return jnp.maximum(self.spike, _NARROWEST * self.slab)
