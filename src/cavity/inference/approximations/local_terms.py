"""Likelihood terms: what a method puts in the place of the log density of a row.

Each gives, for what the row sees of the latent function, the log of the term's scale and the
derivatives that its site is matched to. Power EP takes the power mean; Laplace's method the log
density at the mode; local bounds and mean field the expectation of a Gaussian lower bound.
"""

import abc
import enum
import functools
import typing
from collections.abc import Callable
from typing import Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.graph.marginals import Latent, TermArgument
from cavity.inference.graph.rows import Rows
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.binary import Bernoulli
from cavity.likelihoods.capabilities import (
    HasBlockPowerMean,
    HasClassProbabilities,
    HasGaussianBound,
    HasMultinomialCurvature,
    capability,
)
from cavity.numerics.power_limits import Power, is_exactly, log1p_ratio
from cavity.numerics.quadrature import Tilted
from cavity.numerics.types import Array

# Steps to the tightest bound of a row whose residual is not zero.
TIGHTENINGS = 30
# Residuals below this share of a likelihood's width enter by their first-order effect.
NARROW = 1e-4


class EvaluationPoint(enum.Enum):
    """Distribution of the latent value under which a term is evaluated."""

    CAVITY = "the belief without the power of its own site"
    POSTERIOR = "the belief"
    MODE = "the mean of the belief"


class AbstractLocalTerm(eqx.Module):
    """The terms of a chunk of rows.

    To implement:
        `stationary`, `log_mean`, `derivatives` and `log_density`.

    Attributes:
        powers_density: whether the term is a `PowerMeanTerm`: its tilted distributions are
            cavities times powers of a density.
        joint: whether a row has one term for all its outputs, with an axis of length one.
    """

    powers_density: ClassVar[bool] = False
    joint: ClassVar[bool] = False

    @abc.abstractmethod
    def stationary(self, power: Power) -> bool:
        """True if the energy is stationary in sites and marginals at a fixed point."""

    @abc.abstractmethod
    def log_mean(self, latents: tuple[TermArgument, ...], rows: Rows, power: Power) -> Array:
        """Contribution to the log evidence, per row and output (blocks: per block)."""

    @abc.abstractmethod
    def derivatives(
        self, latents: tuple[TermArgument, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        """Slope and curvature in the mean of each edge, beside `log_mean`."""

    @abc.abstractmethod
    def log_density(self, latents: tuple[TermArgument, ...], rows: Rows) -> Array:
        """Log density of the outputs where f has these means and total variances."""


class AbstractDifferentiatedTerm(AbstractLocalTerm):
    """Local term defined by its log power mean; sites follow by automatic differentiation.

    To implement:
        `stationary(power)` and `log_mean(latents, rows, power)`.
    """

    @typing.final
    def derivatives(self, latents: tuple[Any, ...], rows: Rows, power: Power) -> tuple[Any, ...]:
        return differentiated(self.log_mean, latents, rows, power)

    @typing.final
    def log_density(self, latents: tuple[Any, ...], rows: Rows) -> Array:
        return self.log_mean(latents, rows, 1.0)


class PowerMeanTerm(AbstractLocalTerm):
    r"""$\log M_a$ of a likelihood under the cavity: Power EP."""

    likelihood: AbstractLikelihood
    powers_density: ClassVar[bool] = True

    def stationary(self, power: Power) -> bool:
        # an average over points has a curvature that is not twice its slope in the variance
        return not self.likelihood.sampled(power)

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        mean, var = _stacked(latents)
        if rows.blocked:
            return _block_terms(self.likelihood, mean, var, rows, power)
        return self.likelihood.log_power_mean(mean, var, rows.y, power, rows.columns)

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        if rows.blocked:
            return differentiated(self.log_mean, latents, rows, power)
        mean, var = _stacked(latents)
        return _unstacked(self.likelihood.tilted(mean, var, rows.y, power, rows.columns), latents)

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        return self.log_mean(latents, rows, 1.0)


class MultinomialProbitTerm(AbstractLocalTerm):
    r"""$\log M_a$ of the probit factors of contrasts: multinomial probit, classes coupled."""

    likelihood: HasClassProbabilities

    def stationary(self, power: Power) -> bool:
        return True

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        return PowerMeanTerm(Bernoulli()).log_mean(latents, rows, power)

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        return PowerMeanTerm(Bernoulli()).derivatives(latents, rows, power)

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        ((mean, var, residual),) = latents
        log_p = self.likelihood.log_probabilities(mean[:, 0], (var + residual)[:, 0])
        return jnp.sum(rows.y * log_p, axis=1, keepdims=True)


class SoftmaxLaplaceTerm(AbstractLocalTerm):
    """The log density at the mean of all classes: Laplace's method, as for the softmax.

    References:
        Rasmussen and Williams (2006), algorithm 3.3.
    """

    likelihood: HasMultinomialCurvature

    def stationary(self, power: Power) -> bool:
        # the mode and the curvature there both move with the parameters
        return False

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        return self._log_shares(latents, rows)[1]

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        log_shares, value = self._log_shares(latents, rows)
        shares = jnp.exp(log_shares)
        observed = (rows.y == jnp.arange(shares.shape[-1])).astype(shares.dtype)[:, None]
        return (Tilted(value, observed - shares, -shares),)

    def _log_shares(self, latents: tuple[Latent, ...], rows: Rows) -> tuple[Array, Array]:
        log_shares = self.likelihood.log_shares(latents[0].mean)
        index = rows.y.astype(int)[:, :, None]
        return log_shares, jnp.take_along_axis(log_shares, index, axis=2)[:, :, 0]

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        ((mean, var, residual),) = latents
        log_p = self.likelihood.log_probabilities(mean[:, 0], (var + residual)[:, 0])
        return jnp.take_along_axis(log_p, rows.y.astype(int), axis=1)


class LaplaceTerm(AbstractLocalTerm):
    r"""The log density at the mean alone: Laplace's method.

    With a residual D it is $\tfrac1a \log \mathbb E_{\mathcal N(f; z, D)}[p(y \mid f)^a]$ at
    the mean z.

    Attributes:
        likelihood: a likelihood with two derivatives.
        exact: whether residuals are zero.
        floored: whether curvatures above zero count as zero, so that a step is uphill wherever
            the mode is.

    References:
        Jylanki (2013), S48, S61 and S63.
    """

    likelihood: AbstractLikelihood
    exact: bool = eqx.field(static=True)
    floored: bool = eqx.field(static=True, default=False)

    def stationary(self, power: Power) -> bool:
        # the mode and the curvature there both move with the parameters
        return False

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        return self._parts(latents, rows, power).log_mean

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        found = self._parts(latents, rows, power)
        if self.floored:
            found = found._replace(curvature=jnp.minimum(found.curvature, 0.0))
        return _unstacked(found, latents)

    def _parts(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Tilted:
        z, residual = _stacked(latents)  # the variable itself has no variance here

        def narrow(f: Array) -> Array:
            value = functools.partial(self.likelihood.log_prob, y=rows.y, **rows.columns)
            if self.exact:
                return value(f)
            level, slope, curvature = _with_derivatives(value, f)
            # ℓ + ½ D (ℓ'' + a ℓ'²)
            return level + 0.5 * residual * (curvature + power * slope**2)

        near = Tilted(*_with_derivatives(narrow, z))
        if self.exact:
            return near
        _, slope, curvature = _with_derivatives(
            functools.partial(self.likelihood.log_prob, y=rows.y, **rows.columns), z
        )
        small = residual * (jnp.abs(curvature) + slope**2) < NARROW
        wide = jnp.where(small, NARROW / (jnp.abs(curvature) + slope**2 + NARROW), residual)
        far = self.likelihood.tilted(z, wide, rows.y, power, rows.columns)
        return jax.tree.map(lambda a, b: jnp.where(small, a, b), near, far)

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        return PowerMeanTerm(self.likelihood).log_density(latents, rows)


class LocalBoundTerm(AbstractLocalTerm):
    r"""The expectation of the tightest Gaussian lower bound of a density.

    Attributes:
        likelihood: one with `bound`.
        variational: whether the residual counts as variance of the variable (power 0).

    References:
        Jylanki (2013), S42, S44 to S46.
    """

    likelihood: AbstractLikelihood
    variational: bool = eqx.field(static=True, default=False)

    def stationary(self, power: Power) -> bool:
        return True

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        return self.derivatives(latents, rows, power)[0].log_mean

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        mean, var, residual = _parts(latents)
        a: Power = 0.0 if self.variational else power
        centre, slope, precision, constant = self._tightest(mean, var, residual, rows, a)
        z = mean - centre
        # bound^a averaged over the residual: (c - log(1 + aDτ)/2a) + ... / (1 + aDτ)
        left = 1.0 + a * residual * precision
        quadratic = slope * z - 0.5 * precision * (z**2 + var) + 0.5 * a * residual * slope**2
        each = quadratic / left - 0.5 * log1p_ratio(a, residual * precision)
        log_mean = constant + (each if len(latents) == 1 else jnp.sum(each, axis=0))
        bends = (slope - precision * z) / left, -precision / left
        return _unstacked(Tilted(log_mean, *bends), latents)

    def _tightest(
        self, mean: Array, var: Array, residual: Array, rows: Rows, power: Power
    ) -> tuple[Array, Array, Array, Array]:
        """The bound that makes `log_mean` largest; its place is constant under differentiation."""
        m, v, D = jax.lax.stop_gradient((mean, var, jnp.broadcast_to(residual, mean.shape)))
        bound = functools.partial(
            cast(HasGaussianBound, self.likelihood).bound, y=rows.y, **rows.columns
        )

        def tighter(_: Array | int, now: tuple[Array, Array]) -> tuple[Array, Array]:
            # f given z and the bound, averaged over z
            centre, slope, precision, _ = jax.lax.stop_gradient(bound(*now))
            left = 1.0 + power * D * precision
            moved = centre + (m - centre + power * D * slope) / left
            return moved, D / left + v / left**2

        start = (m, v + D)
        if is_exactly(power, 0.0):
            return bound(*start)
        return bound(*jax.lax.fori_loop(0, TIGHTENINGS, tighter, start))

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        return PowerMeanTerm(self.likelihood).log_density(latents, rows)


def _parts(latents: tuple[Latent, ...]) -> Latent:
    """Means, variances and residuals; several latent functions along a first axis."""
    if len(latents) == 1:
        return latents[0]
    return Latent(*(jnp.stack(parts) for parts in zip(*latents, strict=True)))


def _stacked(latents: tuple[Latent, ...]) -> tuple[Array, Array]:
    """Means and total variances; several latent functions along a first axis."""
    mean, var, residual = _parts(latents)
    return mean, var + residual


def _unstacked(found: Tilted, latents: tuple[Latent, ...]) -> tuple[Tilted, ...]:
    if len(latents) == 1:
        return (found,)
    pairs = zip(found.slope, found.curvature, strict=True)
    return tuple(Tilted(found.log_mean, slope, curvature) for slope, curvature in pairs)


def _with_derivatives(fn: Callable[[Array], Array], x: Array) -> tuple[Array, Array, Array]:
    """A function applied entry by entry, with its first and second derivatives."""
    one = jnp.ones_like(x)

    def first(at: Array) -> tuple[Array, Array]:
        return jax.jvp(fn, (at,), (one,))

    (value, slope), (_, curvature) = jax.jvp(first, (x,), (one,))
    return value, slope, curvature


def differentiated(
    log_mean: Callable[..., Array], latents: tuple[Any, ...], rows: Rows, power: Power
) -> tuple[Any, ...]:
    r"""Slope and curvature of a log power mean by one backward pass; rows are independent.

    None in the place of what is no `Latent`.

    $H = 2\, \partial \log M / \partial V - a\, \mathbf G \mathbf G^\top$. Where the power mean is
    an exact Gaussian integral, H is its second derivative in the mean; where it is itself an
    approximation, such as a moment-matched layer, this H is the one that makes the energy
    stationary in the sites at a fixed point.
    """

    def total(moments: dict[int, tuple[Array, Array]]) -> tuple[Array, Array]:
        moved = list(latents)
        for i, (m, v) in moments.items():
            moved[i] = latents[i]._replace(mean=m, var=v)
        value = log_mean(tuple(moved), rows, power)
        return jnp.sum(value), value

    # no site of a row is on a Gaussian that all of them share
    own = {i: x.row_moments for i, x in enumerate(latents) if x.row_moments is not None}
    slopes, value = jax.grad(total, has_aux=True)(own)
    found = {
        i: Tilted(value, G, _curvature(G, by_var, power)) for i, (G, by_var) in slopes.items()
    }
    return tuple(found.get(i) for i in range(len(latents)))


def _curvature(G: Array, by_var: Array, power: Power) -> Array:
    """H from the derivatives in the mean and in the variance (blocks: a matrix each)."""
    if by_var.ndim == G.ndim:
        return 2.0 * by_var - power * G**2
    a = power[:, None, None, None] if isinstance(power, jax.Array) and power.ndim else power
    return by_var + jnp.swapaxes(by_var, -1, -2) - a * G[..., :, None] * G[..., None, :]


def _block_terms(
    likelihood: AbstractLikelihood, mean: Array, var: Array, rows: Rows, power: Power
) -> Array:
    with_blocks = capability(likelihood, HasBlockPowerMean)
    if with_blocks is None:
        raise ValueError(
            "blocks need a Gaussian likelihood: with any other, the term of a block is an "
            "integral over all its rows; leave blocks=None"
        )
    y = jnp.swapaxes(rows.y, 1, 2)
    presence = jnp.swapaxes(jnp.broadcast_to(rows.presence, rows.y.shape), 1, 2)
    noise = jnp.broadcast_to(with_blocks.noise_variance(**rows.columns), rows.y.shape)
    blocks = (mean, var, y, presence, jnp.swapaxes(noise, 1, 2))
    a = jnp.broadcast_to(jnp.asarray(power, y.dtype), y.shape[:1])
    per_output = jax.vmap(with_blocks.log_power_mean_block, in_axes=(0, 0, 0, 0, 0, None))
    return jax.vmap(per_output)(*blocks, a)
