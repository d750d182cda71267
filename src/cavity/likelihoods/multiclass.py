"""Multi-class likelihoods, with a latent function for each class."""

import abc
import dataclasses
import typing
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from cavity.likelihoods.base import AbstractLikelihood, LatentFunction
from cavity.likelihoods.capabilities import Bound
from cavity.likelihoods.predictive.base import NONE, Side
from cavity.likelihoods.predictive.classes import ClassPredictive, class_predictive
from cavity.likelihoods.support import Support
from cavity.numerics.argmax_probability import (
    largest,
    log_largest,
    log_probability_of_first,
    one_hot,
)
from cavity.numerics.orthant import log_orthant
from cavity.numerics.power_limits import Power, is_exactly, with_limit_at_zero
from cavity.numerics.qmc import normal_points
from cavity.numerics.quadrature import Tilted, at_least
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.numerics.validation import is_whole


@dataclasses.dataclass(frozen=True)
class PointSettings:
    """Numbers of quasi-random points that stand for a Gaussian of all classes.

    Attributes:
        moments: points for power means and tilted moments.
        predictions: points for predictive probabilities.
    """

    moments: int = 256
    predictions: int = 512


POINTS = PointSettings()


class AbstractClasses(AbstractLikelihood):
    r"""Labels 0 to C - 1, each with a latent function $f^j$.

    The functions may share a kernel, or have one each: `GP((k_0, ..., k_C-1), ...)`.

    To implement:
        `n_classes`, `log_prob` with its `derivatives`, `log_power_mean`, `tilted` and
        `log_probabilities`; the functions `point_log_power_mean`, `point_tilted` and
        `point_log_probabilities` average over points where there is no closed form.
    """

    n_classes: eqx.AbstractVar[int]

    @abc.abstractmethod
    def derivatives(self, f: Float[Array, "C ..."], y: Float[Array, "..."]) -> Tilted:
        """`log_prob` with its slope and curvature in the function of each class."""

    @abc.abstractmethod
    def log_probabilities(
        self, mean: Float[Array, "n C"], cov: Float[Array, "n C C"]
    ) -> Float[Array, "n C"]:
        """Log probabilities of all classes where the functions are jointly Gaussian.

        Args:
            mean: means.
            cov: covariances of the functions of all classes at a row.
        """

    @property
    @typing.final
    def classes(self) -> int:
        """The number of classes."""
        return self.n_classes

    @property
    @typing.final
    def latent_functions(self) -> tuple[LatentFunction, ...]:
        """One function for each class."""
        return tuple(LatentFunction(f"class {j}") for j in range(self.n_classes))

    @typing.final
    def initial_latents(self, y: np.ndarray, **side: np.ndarray) -> np.ndarray:
        """1 for the function of the observed class, -1 for the others, (N, C)."""
        return 2.0 * (np.asarray(y)[:, None] == np.arange(self.n_classes)) - 1.0

    @typing.final
    def sample(self, key: PRNGKeyArray, f: Float[Array, "C ..."], **side: Array) -> Array:
        ones = jnp.ones_like(f[0])
        log_p = jnp.stack([self.log_prob(f, j * ones) for j in range(self.n_classes)])
        return jax.random.categorical(key, log_p, axis=0).astype(f.dtype)

    @typing.final
    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> ClassPredictive:
        if var.ndim == mean.ndim:
            var = var[:, None] * jnp.eye(self.n_classes, dtype=var.dtype).reshape(
                self.n_classes, self.n_classes, *(1,) * (mean.ndim - 1)
            )
        inner = mean.shape[1:]
        flat = jnp.moveaxis(mean.reshape(self.n_classes, -1), 0, 1)
        cov = jnp.moveaxis(var.reshape(self.n_classes, self.n_classes, -1), 2, 0)
        log_p = self.log_probabilities(flat, cov)
        return class_predictive(log_p.reshape(*inner, self.n_classes))


def point_log_power_mean(
    likelihood: AbstractClasses, mean: Array, var: Array, y: Array, power: Power
) -> Array:
    """The log power mean as an average over fixed points."""
    value = likelihood.log_prob(_points(mean, var), y)
    return with_limit_at_zero(
        power,
        lambda: jnp.mean(value, axis=0),
        lambda a: (logsumexp(a * value, axis=0) - jnp.log(POINTS.moments)) / a,
    )


def point_tilted(
    likelihood: AbstractClasses, mean: Array, var: Array, y: Array, power: Power
) -> Tilted:
    """The log power mean with slopes and curvatures, as averages over fixed points."""
    values = likelihood.derivatives(_points(mean, var), y)
    weight = jax.nn.softmax(power * values.log_mean, axis=0)
    slope = jnp.sum(weight * values.slope, axis=1)
    curvature = jnp.sum(weight * (values.curvature + power * values.slope**2), axis=1)
    log_mean = point_log_power_mean(likelihood, mean, var, y, power)
    return Tilted(log_mean, slope, curvature - power * slope**2)


def _points(mean: Array, var: Array) -> Float[Array, "C S ..."]:
    """Fixed points of independent Gaussians, so that energies are smooth in the parameters."""
    z = jnp.asarray(normal_points(mean.shape[0], POINTS.moments), mean.dtype).T
    return mean[:, None] + jnp.sqrt(var)[:, None] * z.reshape(*z.shape, *(1,) * (mean.ndim - 1))


def point_log_probabilities(
    likelihood: AbstractClasses, mean: Float[Array, "n C"], cov: Float[Array, "n C C"]
) -> Float[Array, "n C"]:
    """Log probabilities of all classes, as averages over fixed points."""
    # the same points for all classes, so that probabilities add up to one
    values, vectors = jnp.linalg.eigh(cov)
    root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None, :]
    points = jnp.asarray(normal_points(likelihood.n_classes, POINTS.predictions), mean.dtype)
    labels = jnp.arange(likelihood.n_classes, dtype=mean.dtype)

    def row_log_probabilities(row: tuple[Array, Array]) -> Array:
        m, R = row
        f = (m + points @ R.T).T[:, :, None]
        log_p = likelihood.log_prob(f, labels)
        return logsumexp(log_p, axis=0) - jnp.log(POINTS.predictions)

    return _normalised(jax.lax.map(row_log_probabilities, (mean, root)))


def _normalised(log_p: Float[Array, "n C"]) -> Float[Array, "n C"]:
    return log_p - logsumexp(log_p, axis=-1, keepdims=True)


class MultinomialProbit(AbstractClasses):
    r"""The multinomial probit: the class of the largest function plus unit normal noise.

    $$p(y \mid \mathbf f) = \int \mathcal N(u; 0, 1) \prod_{j \ne y} \Phi(u + f^y - f^j)\, du$$

    `PowerEP` keeps the posterior dependence between classes at every power; at power 1 it is
    nested EP. `PowerEP(coupled=False)` assumes independent classes.

    Args:
        n_classes: the number of classes, at least 2.

    References:
        Jylanki (2013), S72 to S83.
    """

    n_classes: int = eqx.field(static=True)

    support: ClassVar[Support] = Support.LABELS
    log_concave: ClassVar[bool] = True
    differences: ClassVar[bool] = True
    couples: ClassVar[bool] = True
    bounded: ClassVar[bool] = True
    exact_powers: ClassVar[tuple[float, ...]] = (1.0,)

    def __init__(self, n_classes: Any):
        self.n_classes = checked_classes(n_classes)

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        return log_probability_of_first(f, y)

    def derivatives(self, f: Array, y: Array) -> Tilted:
        return largest(f, None, y)

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        if is_exactly(power, 1.0):
            return log_largest(mean, 1.0 + var, y)
        return point_log_power_mean(self, mean, var, y, power)

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        if is_exactly(power, 1.0):
            return largest(mean, 1.0 + var, y)
        return point_tilted(self, mean, var, y, power)

    def log_probabilities(self, mean: Array, cov: Array) -> Array:
        eye = jnp.eye(self.n_classes, dtype=mean.dtype)

        def class_log_probability(y: Array) -> Array:
            # z_j = f_j - f_y + u
            B = eye - eye[y]
            m, V = mean @ B.T, B @ cov @ B.T + 1.0
            return log_orthant(m, V, jnp.broadcast_to(1.0 - eye[y], m.shape))

        return _normalised(jax.lax.map(class_log_probability, jnp.arange(self.n_classes)).T)

    def bound(self, mean: Array, var: Array, y: Array, **side: Array) -> Bound:
        # with unit noise about f integrated out, the curvature is above -1 everywhere
        local = self.derivatives(mean, y)
        return Bound(mean, local.slope, jnp.ones_like(mean), local.log_mean)


class Softmax(AbstractClasses):
    r"""The softmax or multinomial logit, $p(y \mid \mathbf f) = e^{f^y} / \sum_j e^{f^j}$.

    `Laplace` keeps the posterior dependence between classes; `PowerEP` and `TiedPowerEP` assume
    independent classes and average over a fixed set of points.

    Args:
        n_classes: the number of classes, at least 2.

    References:
        Rasmussen and Williams (2006), 3.5; Jylanki (2013), S84.
    """

    n_classes: int = eqx.field(static=True)

    support: ClassVar[Support] = Support.LABELS
    log_concave: ClassVar[bool] = True
    differences: ClassVar[bool] = True
    bounded: ClassVar[bool] = True
    exact_powers: ClassVar[tuple[float, ...]] = ()

    def __init__(self, n_classes: Any):
        self.n_classes = checked_classes(n_classes)

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        return _class_entry(f, y) - logsumexp(f, axis=0)

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        return point_log_power_mean(self, mean, var, y, power)

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        return point_tilted(self, mean, var, y, power)

    def log_probabilities(self, mean: Array, cov: Array) -> Array:
        return point_log_probabilities(self, mean, cov)

    def log_shares(self, f: Float[Array, "... C"]) -> Float[Array, "... C"]:
        """Log probabilities of the classes given their functions, along the last axis."""
        return jax.nn.log_softmax(f, axis=-1)

    def derivatives(self, f: Array, y: Array) -> Tilted:
        shares = jax.nn.softmax(f, axis=0)
        slope = one_hot(y, f) - shares
        return Tilted(self.log_prob(f, y), slope, -shares * (1.0 - shares))

    def bound(self, mean: Array, var: Array, y: Array, **side: Array) -> Bound:
        # Böhning: minus the Hessian is at most a half of the identity
        local = self.derivatives(mean, y)
        return Bound(mean, local.slope, jnp.full_like(mean, 0.5), local.log_mean)


class RobustMax(AbstractClasses):
    r"""The robust-max likelihood: the largest function, with a share of mislabelled rows.

    $p(y \mid \mathbf f) = 1 - \varepsilon$ if $f^y$ is the largest, otherwise
    $\varepsilon / (C - 1)$.

    Args:
        n_classes: the number of classes, at least 2.
        epsilon: the share of labels that are of another class.

    References:
        Hernandez-Lobato et al. (2011); Jylanki (2013), S87.
    """

    n_classes: int = eqx.field(static=True)
    epsilon: float = eqx.field(static=True)

    support: ClassVar[Support] = Support.LABELS
    smooth: ClassVar[bool] = False
    differences: ClassVar[bool] = True

    def __init__(self, n_classes: Any, epsilon: float = 1e-3):
        self.n_classes = checked_classes(n_classes)
        if not 0.0 < epsilon < 1.0 - 1.0 / n_classes:
            raise ValueError(
                f"epsilon must lie in (0, {1.0 - 1.0 / n_classes:g}), given {epsilon}"
            )
        self.epsilon = float(epsilon)

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        is_largest = _class_entry(f, y) >= jnp.max(f, axis=0)
        return jnp.where(is_largest, *self._levels)

    def derivatives(self, f: Array, y: Array) -> Tilted:
        flat = jnp.zeros_like(f)
        return Tilted(self.log_prob(f, y), flat, flat)

    @property
    def _levels(self) -> tuple[float, float]:
        return float(np.log1p(-self.epsilon)), float(np.log(self.epsilon / (self.n_classes - 1)))

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        p = jnp.exp(log_largest(mean, _sharp(mean, var), y))
        high, low = self._levels
        return with_limit_at_zero(
            power,
            lambda: low + (high - low) * p,
            lambda a: low + jnp.log1p(p * jnp.expm1(a * (high - low))) / a,
        )

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        of_p = largest(mean, _sharp(mean, var), y)
        p, (high, low) = jnp.exp(of_p.log_mean), self._levels

        def above_zero(a: Power) -> tuple[Array, Array]:
            raised = p * jnp.expm1(a * (high - low))
            share = raised / (1.0 + raised)
            return share / a, share * (1.0 - share) / a

        # derivatives of log M in log P, the probability of being the largest
        at_zero = (high - low) * p
        first, second = with_limit_at_zero(power, lambda: (at_zero, at_zero), above_zero)
        return Tilted(
            self.log_power_mean(mean, var, y, power),
            first * of_p.slope,
            first * of_p.curvature + second * of_p.slope**2,
        )

    def log_probabilities(self, mean: Array, cov: Array) -> Array:
        var = jnp.diagonal(cov, axis1=1, axis2=2).T
        labels = jnp.arange(self.n_classes, dtype=mean.dtype)
        log_p = jax.lax.map(lambda y: self.log_power_mean(mean.T, var, y, 1.0), labels)
        return _normalised(log_p.T)


def _sharp(mean: Float[Array, "C ..."], var: Float[Array, "C ..."]) -> Float[Array, "C ..."]:
    """Variances by which distances between means can be divided, and the ratios squared."""
    eps = jnp.finfo(var.dtype).eps
    return at_least(var, eps * (jnp.max(mean**2, axis=0) + eps))


def checked_classes(n_classes: Any) -> int:
    """The number of classes, checked.

    Raises:
        ValueError: unless it is a whole number of at least 2.
    """
    if not is_whole(n_classes) or n_classes < 2:
        raise ValueError(f"n_classes must be a whole number of at least 2, given {n_classes!r}")
    return int(n_classes)


def _class_entry(x: Float[Array, "C ..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
    """The entry of class y."""
    return jnp.sum(jnp.where(one_hot(y, x) > 0.0, x, 0.0), axis=0)
