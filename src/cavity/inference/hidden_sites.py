r"""Sites on hidden values: conditionals of a value given a function, times a Gaussian.

A hidden value is a function's and noise, $h = f + \epsilon$ with $\epsilon \sim \mathcal N(0,
s^2)$. With a site $t(h) = \exp(\nu h - \tfrac12 \tau h^2)$ its posterior given f is

$$q(h \mid f) = \mathcal N(h; f, s^2)\, t(h) / Z(f) = \mathcal N(h; g f + g s^2 \nu,\, g s^2),
\qquad g = 1 / (1 + s^2 \tau),$$

which is the model's own conditional where t = 1. Where f is Gaussian under a cavity, a row's term
has the ratio of the two conditionals to the power a in its mean:

$$\mathbb E_{q(f) q(h \mid f)} \Big[\Big(\tfrac{\mathcal N(h; f, s^2)}{q(h \mid f)}\Big)^a F(h)
\Big] = W^a\, \mathbb E_{\tilde q(h)} F(h)$$

for every F, with a Gaussian $\tilde q$, in closed form. At power 0 it is the marginal of q, and
$\log W$ minus the mean divergence of the conditionals; at power 1 it is the model's own marginal
with $\log W = 0$. Nothing is a difference of large numbers where $s^2 \tau$ is small.

References:
    Chamberlin (2016), S19; Bui (2017), identity 44.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from cavity.inference.graph.base import AbstractView
from cavity.inference.graph.marginals import Moments, ScaledSite, SharedMarginal
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites
from cavity.inference.propagation import AbstractPropagation, LayerFunctions, Spread, at_points
from cavity.inference.variables.hidden_values import SitedConditional
from cavity.numerics.power_limits import Power, log1p_ratio
from cavity.numerics.types import Array, Float


class SitedValue(NamedTuple):
    r"""A hidden value with a site, at a power.

    Attributes:
        mean: of $\tilde q$.
        var: of $\tilde q$.
        log_ratio: $\log W$, at most 0, of every value.
    """

    mean: Float[Array, "*rows D"]
    var: Float[Array, "*rows D"]
    log_ratio: Float[Array, "*rows D"]


def sited_value(
    mean: Float[Array, "*rows D"],
    var: Float[Array, "*rows D"],
    noise: Float[Array, "..."],
    shift: Float[Array, "..."],
    precision: Float[Array, "..."],
    power: Power,
) -> SitedValue:
    r"""A hidden value whose conditional has a site, where its function is Gaussian.

    With $\delta = f - \mathbb E[h \mid f] = (1 - g) f - g s^2 \nu$ the ratio is $W(f)^a$ given f,
    of $\log W(f) = \tfrac12 \log g - \tfrac{1}{2a} \log l - \tfrac{1 - a}{2 s^2 l} \delta^2$ where
    $l = 1 - a (1 - g)$.

    Args:
        mean: mean of f.
        var: variance of f.
        noise: $s^2$, above 0.
        shift: $\nu$.
        precision: $\tau$, above $-1 / s^2$.
        power: a.
    """
    gain = 1.0 / (1.0 + noise * precision)
    loss, offset = noise * precision * gain, noise * shift * gain  # 1 - g, g s² ν
    left = 1.0 - power * loss
    weight = (1.0 - power) / (noise * left)
    away = loss * mean - offset
    # f under the cavity times W(f)ᵃ
    narrowed = 1.0 + power * weight * loss**2 * var
    var_f = var / narrowed
    mean_f = mean - power * weight * loss * var_f * away
    log_ratio = 0.5 * (jnp.log(gain) - log1p_ratio(power, -loss))
    log_ratio -= 0.5 * (log1p_ratio(power, weight * loss**2 * var) + weight * away**2 / narrowed)
    value = (gain * mean_f + (1.0 - power) * offset) / left
    return SitedValue(value, gain * noise / left + (gain / left) ** 2 * var_f, log_ratio)


class ConditionalView(AbstractView[SitedConditional]):
    """Every row sees the sites on its own hidden values, as their stored numbers."""

    def presence(self, rows: Rows) -> Array:
        return jnp.max(rows.site_presence, axis=1, keepdims=True)

    def marginal(
        self, belief: SitedConditional, rows: Rows, sites: AbstractSites | None = None
    ) -> SharedMarginal:
        shift, log_width = belief.shift, belief.log_width
        if rows.index is not None:
            shift, log_width = shift[rows.index], log_width[rows.index]
        return self.at((shift, log_width), rows)

    def at(self, moments: Moments, rows: Rows) -> SharedMarginal:
        return SharedMarginal(ScaledSite(*moments))


def propagate_sited(
    propagation: AbstractPropagation,
    layers: Sequence[LayerFunctions],
    noises: Sequence[Float[Array, "..."]],
    sites: ScaledSite,
    rows: Rows,
    power: Power,
    first: Float[Array, "N Q"] | None = None,
) -> tuple[Spread, Float[Array, " K"], Float[Array, "J N"]]:
    r"""The outputs of the last layer where hidden values have sites.

    Args:
        propagation: how Gaussians go through layers.
        layers: the functions of every layer, without noise.
        noises: noise variances of all layers but the last, each one or one per function.
        sites: of the rows, (N, H), layer after layer.
        rows: the data.
        power: of the rows.
        first: what the first layer takes beside the inputs; None for nothing.

    Returns:
        Outputs, log weights, and the sum of $\log W$ over the hidden values on the way to each.
    """
    x = rows.x
    z, log_weights = propagation.points(sites[0].shape[1], x.shape[0], rows.index, x.dtype)
    values = at_points(layers[0], (x if first is None else first)[None], x)
    log_ratio, start = jnp.zeros((1, x.shape[0]), x.dtype), 0
    for below, layer, noise in zip(layers, layers[1:], noises, strict=False):
        columns = slice(start, start + below.width)
        shift, log_width = (numbers[:, columns] for numbers in sites)
        site = shift / jnp.sqrt(noise), jnp.expm1(log_width) / noise
        hidden = sited_value(*values, noise, *site, power)
        log_ratio = log_ratio + jnp.sum(hidden.log_ratio, axis=2)
        values = propagation.through(layer, Spread(hidden.mean, hidden.var), x, z[..., columns])
        start += below.width
    return values, log_weights, log_ratio
