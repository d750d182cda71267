"""Several classes, with a latent function for each."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from cavity.likelihoods.base import NONE, AbstractLikelihood, Bound
from cavity.likelihoods.predictive.latent import ClassPredictive, Side, class_predictive
from cavity.likelihoods.support import Support
from cavity.numerics.argmax_probability import (
    largest,
    log_largest,
    log_probability_of_first,
    one_hot,
)
from cavity.numerics.orthant import log_orthant
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.qmc import normal_points
from cavity.numerics.quadrature import Tilted
from cavity.numerics.types import Array, Float

# Points for predictive probabilities.
POINTS = 512


class AbstractClasses(AbstractLikelihood):
    r"""Labels 0 to C - 1, each with a latent function $f^j$.

    The functions may share a kernel, or have one each: `GP((k_0, ..., k_C-1), ...)`.

    To implement:
        `log_prob`, and `derivatives` of it.

    Attributes:
        points: how many stand for a Gaussian of all classes.
    """

    n_classes: eqx.AbstractVar[int]
    points: ClassVar[int] = 256

    @abc.abstractmethod
    def derivatives(self, f: Float[Array, "C ..."], y: Float[Array, "..."]) -> Tilted:
        """`log_prob` with its slope and curvature in the function of each class."""

    @property
    def classes(self) -> int:
        return self.n_classes

    @property
    def latents(self) -> int:
        return self.n_classes

    def log_probabilities(
        self, mean: Float[Array, "n C"], cov: Float[Array, "n C C"]
    ) -> Float[Array, "n C"]:
        """Log probabilities of all classes where the functions are jointly Gaussian.

        Args:
            mean: means.
            cov: covariances of the functions of all classes at a row.
        """
        # the same points for all classes, so that probabilities add up to one
        root = _root(cov)
        points = jnp.asarray(normal_points(self.n_classes, POINTS), mean.dtype)

        def one(m: Array, R: Array) -> Array:
            f = (m + points @ R.T).T[:, :, None]
            labels = jnp.arange(self.n_classes, dtype=m.dtype)
            return logsumexp(self.log_prob(f, labels), axis=0) - jnp.log(POINTS)

        found = jax.lax.map(lambda x: one(*x), (mean, root))
        return found - logsumexp(found, axis=-1, keepdims=True)

    def guess(self, y: np.ndarray, **side: Any) -> np.ndarray:
        """One for the function of the class seen, minus one for the others, (N, C)."""
        return 2.0 * (np.asarray(y)[:, None] == np.arange(self.n_classes)) - 1.0

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        value = self.log_prob(self._sampled(mean, var), y)
        if is_exactly(power, 0.0):
            return jnp.mean(value, axis=0)
        zero = jnp.asarray(power) <= 0.0
        a = jnp.where(zero, 1.0, power)
        found = (logsumexp(a * value, axis=0) - jnp.log(self.points)) / a
        return jnp.where(zero, jnp.mean(value, axis=0), found)

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        each = self.derivatives(self._sampled(mean, var), y)
        weight = jax.nn.softmax(power * each.log_mean, axis=0)
        slope = jnp.sum(weight * each.slope, axis=1)
        curvature = jnp.sum(weight * (each.curvature + power * each.slope**2), axis=1)
        return Tilted(
            self.log_power_mean(mean, var, y, power), slope, curvature - power * slope**2
        )

    def _sampled(self, mean: Array, var: Array) -> Float[Array, "C S ..."]:
        """A fixed set of points of the Gaussian, so that energies are smooth in the parameters."""
        z = jnp.asarray(normal_points(self.n_classes, self.points), mean.dtype).T
        return mean[:, None] + jnp.sqrt(var)[:, None] * z.reshape(
            *z.shape, *(1,) * (mean.ndim - 1)
        )

    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> ClassPredictive:
        if var.ndim == mean.ndim:
            var = var[:, None] * jnp.eye(self.n_classes, dtype=var.dtype).reshape(
                self.n_classes, self.n_classes, *(1,) * (mean.ndim - 1)
            )
        inner = mean.shape[1:]
        flat = jnp.moveaxis(mean.reshape(self.n_classes, -1), 0, 1)
        cov = jnp.moveaxis(var.reshape(self.n_classes, self.n_classes, -1), 2, 0)
        found = self.log_probabilities(flat, cov)
        return class_predictive(found.reshape(*inner, self.n_classes))


class MultinomialProbit(AbstractClasses):
    r"""The class whose function is the largest, seen through normal noise of unit variance.

    $$p(y \mid \mathbf f) = \int \mathcal N(u; 0, 1) \prod_{j \ne y} \Phi(u + f^y - f^j)\, du$$

    With `PowerEP` the posterior of the functions keeps the dependence between classes, at every
    power; at power 1 it is nested EP. `PowerEP(coupled=False)` takes them as independent.

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

    def __init__(self, n_classes: Any):
        self.n_classes = checked_classes(n_classes)

    def log_prob(
        self, f: Float[Array, "C ..."], y: Float[Array, "..."], **side: Any
    ) -> Float[Array, "..."]:
        return log_probability_of_first(f, y)

    def sampled(self, power: Power) -> bool:
        return not is_exactly(power, 1.0)

    def derivatives(self, f: Float[Array, "C ..."], y: Float[Array, "..."]) -> Tilted:
        return largest(f, None, y)

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        if is_exactly(power, 1.0):
            return log_largest(mean, 1.0 + var, y)
        return super().log_power_mean(mean, var, y, power, side)

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        if is_exactly(power, 1.0):
            return largest(mean, 1.0 + var, y)
        return super().tilted(mean, var, y, power, side)

    def log_probabilities(
        self, mean: Float[Array, "n C"], cov: Float[Array, "n C C"]
    ) -> Float[Array, "n C"]:
        eye = jnp.eye(self.n_classes, dtype=mean.dtype)

        def of_class(y: Array) -> Array:
            # z_j = f_j - f_y + u
            B = eye - eye[y]
            m, V = mean @ B.T, B @ cov @ B.T + 1.0
            return log_orthant(m, V, jnp.broadcast_to(1.0 - eye[y], m.shape))

        found = jax.lax.map(of_class, jnp.arange(self.n_classes)).T
        return found - logsumexp(found, axis=-1, keepdims=True)

    @property
    def has_bound(self) -> bool:
        return True

    def bound(self, mean: Array, var: Array, y: Array, **side: Any) -> Bound:
        # with unit noise about f integrated out, the log density bends by more than -1 nowhere
        found = self.derivatives(mean, y)
        return Bound(mean, found.slope, jnp.ones_like(mean), found.log_mean)


class Softmax(AbstractClasses):
    r"""$p(y \mid \mathbf f) = e^{f^y} / \sum_j e^{f^j}$, the multinomial logit.

    `Laplace` keeps the dependence between classes, `PowerEP` and `TiedPowerEP` take them as
    independent and average over a fixed set of points.

    Args:
        n_classes: the number of classes, at least 2.

    References:
        Rasmussen and Williams (2006), 3.5; Jylanki (2013), S84.
    """

    n_classes: int = eqx.field(static=True)

    support: ClassVar[Support] = Support.LABELS
    log_concave: ClassVar[bool] = True
    differences: ClassVar[bool] = True

    def __init__(self, n_classes: Any):
        self.n_classes = checked_classes(n_classes)

    def log_prob(
        self, f: Float[Array, "C ..."], y: Float[Array, "..."], **side: Any
    ) -> Float[Array, "..."]:
        return _chosen(f, y) - logsumexp(f, axis=0)

    def sampled(self, power: Power) -> bool:
        return True

    def derivatives(self, f: Float[Array, "C ..."], y: Float[Array, "..."]) -> Tilted:
        shares = jax.nn.softmax(f, axis=0)
        slope = one_hot(y, f) - shares
        return Tilted(self.log_prob(f, y), slope, -shares * (1.0 - shares))

    @property
    def has_bound(self) -> bool:
        return True

    def bound(self, mean: Array, var: Array, y: Array, **side: Any) -> Bound:
        # Böhning: minus the Hessian is at most a half of the identity
        found = self.derivatives(mean, y)
        return Bound(mean, found.slope, jnp.full_like(mean, 0.5), found.log_mean)


class RobustMax(AbstractClasses):
    r"""The class whose function is the largest, but for a share of labels that may be anything.

    $p(y \mid \mathbf f) = 1 - \varepsilon$ if $f^y$ is the largest, otherwise
    $\varepsilon / (C - 1)$.

    Args:
        n_classes: the number of classes, at least 2.
        epsilon: the share of labels of another class.

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

    def log_prob(
        self, f: Float[Array, "C ..."], y: Float[Array, "..."], **side: Any
    ) -> Float[Array, "..."]:
        largest = _chosen(f, y) >= jnp.max(f, axis=0)
        return jnp.where(largest, *self._levels)

    def derivatives(self, f: Float[Array, "C ..."], y: Float[Array, "..."]) -> Tilted:
        flat = jnp.zeros_like(f)
        return Tilted(self.log_prob(f, y), flat, flat)

    @property
    def _levels(self) -> tuple[float, float]:
        return float(np.log1p(-self.epsilon)), float(np.log(self.epsilon / (self.n_classes - 1)))

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        chance = jnp.exp(log_largest(mean, var, y))
        high, low = self._levels
        if is_exactly(power, 0.0):
            return low + (high - low) * chance
        zero = jnp.asarray(power) <= 0.0
        a = jnp.where(zero, 1.0, power)
        raised = low + jnp.log1p(chance * jnp.expm1(a * (high - low))) / a
        return jnp.where(zero, low + (high - low) * chance, raised)

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        found = largest(mean, var, y)
        chance, (high, low) = jnp.exp(found.log_mean), self._levels
        # derivatives of log M in log P, the probability of being the largest
        first = second = (high - low) * chance
        if not is_exactly(power, 0.0):
            zero = jnp.asarray(power) <= 0.0
            a = jnp.where(zero, 1.0, power)
            raised = chance * jnp.expm1(a * (high - low))
            share = raised / (1.0 + raised)
            first = jnp.where(zero, first, share / a)
            second = jnp.where(zero, second, share * (1.0 - share) / a)
        return Tilted(
            self.log_power_mean(mean, var, y, power),
            first * found.slope,
            first * found.curvature + second * found.slope**2,
        )

    def log_probabilities(
        self, mean: Float[Array, "n C"], cov: Float[Array, "n C C"]
    ) -> Float[Array, "n C"]:
        var = jnp.diagonal(cov, axis1=1, axis2=2).T
        labels = jnp.arange(self.n_classes, dtype=mean.dtype)
        found = jax.lax.map(lambda y: self.log_power_mean(mean.T, var, y, 1.0), labels).T
        return found - logsumexp(found, axis=-1, keepdims=True)


def checked_classes(n_classes: Any) -> int:
    """The number of classes, if it is one.

    Raises:
        ValueError: for anything but a whole number of at least 2.
    """
    whole = isinstance(n_classes, int | np.integer) and not isinstance(n_classes, bool)
    if not whole or n_classes < 2:
        raise ValueError(f"n_classes must be a whole number of at least 2, given {n_classes!r}")
    return int(n_classes)


def _chosen(x: Float[Array, "C ..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
    """The entry of class y."""
    return jnp.sum(jnp.where(one_hot(y, x) > 0.0, x, 0.0), axis=0)


def _root(cov: Float[Array, "n C C"]) -> Float[Array, "n C C"]:
    values, vectors = jnp.linalg.eigh(cov)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None, :]
