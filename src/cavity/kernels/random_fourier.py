"""Kernels that are finite sums of features: random Fourier features, and what points explain."""

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import AbstractKernel, Active, Scaled, Sum, check_columns
from cavity.kernels.stationary import (
    RBF,
    AbstractStationary,
    Constant,
    Matern12,
    Matern32,
    Matern52,
)
from cavity.numerics.linalg import cholesky_and_inverse, jittered
from cavity.numerics.types import Array, Float
from cavity.parameters import fixed, real

# Share of the variance at the points that is added to the diagonal of their covariance.
NYSTROM_JITTER = 1e-8
# Degrees of freedom of the Student-t density of frequencies; a Gaussian has infinitely many.
FREEDOM: dict[type[AbstractKernel], float] = {
    RBF: math.inf,
    Matern52: 5.0,
    Matern32: 3.0,
    Matern12: 1.0,
}


class RandomFourier(AbstractKernel):
    r"""A stationary kernel by R random waves: a sum of 2 R explicit features.

    $$k(\mathbf x, \mathbf x') = \frac{\sigma^2}{R} \sum_r \cos\Big(\sum_d \omega_{rd}
        (x_d - x'_d) / \ell_d\Big)$$

    Frequencies are drawn from the spectral density of the kernel, so that this is its average
    over draws. A full GP with this kernel, `GP(RandomFourier(kernel, R), likelihood)`, is worked
    out by the 2 R weights of its features, exactly and at a cost of N R², for every likelihood
    and power. Functions are sums of waves: far from the data they are not uncertain as those of
    the kernel itself are, and error bars there are not to be trusted.

    Sums of such kernels and constants are worked out by all their features. A sum or product with
    any other kernel has no finite number of them: it is a full GP like any other, at a cost of
    N³, and takes inducing points.

    Frequencies are not learned. Where they are (replace their bijection), this is the sparse
    spectrum GP, a model of its own that may overfit:

        maps = cavity.parameters.bijections(model)
        maps = eqx.tree_at(lambda m: m.kernel.frequencies, maps, cavity.parameters.Real())

    Args:
        kernel: `RBF`, `Matern12`, `Matern32` or `Matern52`; its parameters are learned.
        R: the number of frequencies.
        columns: of the inputs; as many as there are lengthscales where left out.
        seed: of the draw.
        orthogonal: whether frequencies of a group are at right angles: each is drawn from the same
            density, and the error is smaller with several columns.

    Raises:
        ValueError: for fewer than one frequency, or an unknown number of columns.
        TypeError: for a kernel of another kind.

    References:
        van der Wilk (2018), items 15 and 16; Rahimi and Recht (2007); Yu et al. (2016) for
        orthogonal frequencies; Lazaro-Gredilla et al. (2010) for learned ones.
    """

    kernel: AbstractStationary
    frequencies: Float[Array, "R D"] = fixed()

    def __init__(
        self,
        kernel: AbstractKernel,
        R: int,
        *,
        columns: int | None = None,
        seed: int = 0,
        orthogonal: bool = True,
    ):
        if not isinstance(kernel, AbstractStationary) or type(kernel) not in FREEDOM:
            names = ", ".join(sorted(k.__name__ for k in FREEDOM))
            raise TypeError(
                f"random Fourier features are of kernels with a known spectral density, {names}; "
                f"given {type(kernel).__name__}"
            )
        if int(R) != R or R < 1:
            raise ValueError(f"R must be a whole number of at least 1, given {R}")
        lengthscales = np.shape(kernel.lengthscales)
        count = lengthscales[0] if columns is None and lengthscales else columns
        if count is None or int(count) != count or count < 1:
            raise ValueError(
                "the number of input columns is not known: give the kernel one lengthscale per "
                f"column, or columns= at least 1; given columns={columns}"
            )
        self.kernel = kernel
        freedom = FREEDOM[type(kernel)]
        self.frequencies = _draw(freedom, int(R), int(count), seed, orthogonal=orthogonal)

    def features(self, X: Float[Array, "N D"]) -> Float[Array, "N F"]:
        """The F = 2 R features whose inner products are the covariances."""
        check_columns(X, X, lengthscale=self.kernel.lengthscales, frequencies=self.frequencies)
        angle = (X / self.kernel.lengthscales) @ self.frequencies.T
        pair = jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], axis=1)
        return jnp.sqrt(self.kernel.variance / self.frequencies.shape[0]) * pair

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        check_columns(X, Z)
        return self.features(X) @ self.features(Z).T

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return self.kernel.diag(X)


def _draw(freedom: float, R: int, D: int, seed: int, *, orthogonal: bool) -> Any:
    """Frequencies (R, D) of unit lengthscales."""
    random = np.random.default_rng(seed)
    normal = random.standard_normal((R, D))
    if orthogonal:
        for start in range(0, R, D):
            square, triangle = np.linalg.qr(random.standard_normal((D, D)))
            directions = square * np.sign(np.diagonal(triangle))
            length = np.linalg.norm(normal[start : start + D], axis=1, keepdims=True)
            normal[start : start + D] = directions[: len(length)] * length
    if freedom < math.inf:
        normal /= np.sqrt(random.chisquare(freedom, (R, 1)) / freedom)
    return normal


class Nystrom(AbstractKernel):
    r"""The part of a kernel that M points explain: subset of regressors (SoR).

    $$q(\mathbf x, \mathbf x') = k(\mathbf x, \mathbf Z) k(\mathbf Z, \mathbf Z)^{-1}
        k(\mathbf Z, \mathbf x')$$

    A full GP with this kernel, `GP(Nystrom(kernel, Z), likelihood)`, is worked out by M features,
    exactly and at a cost of N M², for every likelihood and power. Its evidence is that of
    `PowerEP(dtc=True)` with the same points. Functions return to zero, with variance zero, away
    from the points: error bars there are not to be trusted, and the kernel is there for
    comparison.

    Args:
        kernel: the other kernel.
        Z: the points, (M, D), learned like the parameters of the kernel.

    Raises:
        ValueError: where Z is no table of numbers with a row at the least.

    References:
        Bui (2017), S7; Quinonero-Candela and Rasmussen (2005).
    """

    kernel: AbstractKernel
    Z: Float[Array, "M D"] = real(input=1, location=True)

    def __init__(self, kernel: AbstractKernel, Z: Any):
        if np.ndim(Z) != 2 or np.shape(Z)[0] < 1:
            raise ValueError(
                f"Z must be a matrix of points, (M, D), with a row at the least; given shape "
                f"{np.shape(Z)}"
            )
        self.kernel = kernel
        self.Z = Z

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "K D"]) -> Float[Array, "N K"]:
        return features(self, X) @ features(self, Z).T

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return jnp.sum(features(self, X) ** 2, axis=1)


# ------------------------------------------------------------------------------ explicit features


@functools.singledispatch
def feature_count(kernel: AbstractKernel) -> int | None:
    """The number of explicit features that a kernel is to be worked out by; None for others."""
    return None


@feature_count.register
def _(kernel: RandomFourier) -> int | None:
    return 2 * kernel.frequencies.shape[0]


@feature_count.register
def _(kernel: Nystrom) -> int | None:
    return np.shape(kernel.Z)[0]


@feature_count.register(Scaled)
@feature_count.register(Active)
def _(kernel: Scaled | Active) -> int | None:
    return feature_count(kernel.kernel)


@feature_count.register
def _(kernel: Sum) -> int | None:
    counts = [_count_beside(k) for k in (kernel.first, kernel.second)]
    any_explicit = feature_count(kernel.first) or feature_count(kernel.second)
    return None if None in counts or not any_explicit else sum(c for c in counts if c)


def _count_beside(kernel: AbstractKernel) -> int | None:
    """The same beside a kernel with explicit features, where a constant has one, too."""
    return 1 if type(kernel) is Constant else feature_count(kernel)


@functools.singledispatch
def features(kernel: AbstractKernel, X: Float[Array, "N D"]) -> Float[Array, "N F"]:
    """The features of a kernel that is a finite sum of them.

    Raises:
        TypeError: for a kernel of another kind.
    """
    raise TypeError(f"the {type(kernel).__name__} kernel is no finite sum of features")


@features.register
def _(kernel: RandomFourier, X: Float[Array, "N D"]) -> Float[Array, "N F"]:
    return kernel.features(X)


@features.register
def _(kernel: Nystrom, X: Float[Array, "N D"]) -> Float[Array, "N F"]:
    Z = kernel.Z
    check_columns(X, Z)
    inside = kernel.kernel.cross(Z, Z)
    _, root = cholesky_and_inverse(jittered(inside, NYSTROM_JITTER, kernel.kernel.diag(Z)))
    return kernel.kernel.cross(X, Z) @ root.T


@features.register
def _(kernel: Constant, X: Float[Array, "N D"]) -> Float[Array, "N F"]:
    return jnp.full((X.shape[0], 1), jnp.sqrt(kernel.variance))


@features.register
def _(kernel: Scaled, X: Float[Array, "N D"]) -> Float[Array, "N F"]:
    return jnp.sqrt(kernel.factor) * features(kernel.kernel, X)


@features.register
def _(kernel: Active, X: Float[Array, "N D"]) -> Float[Array, "N F"]:
    return features(kernel.kernel, X[:, jnp.array(kernel.dims)])


@features.register
def _(kernel: Sum, X: Float[Array, "N D"]) -> Float[Array, "N F"]:
    return jnp.concatenate([features(kernel.first, X), features(kernel.second, X)], axis=1)


# ------------------------------------------------------------------------------ how many waves


def fourier_error_probability(
    kernel: AbstractStationary, diameter: ArrayLike, epsilon: ArrayLike, R: ArrayLike
) -> np.ndarray:
    r"""A bound of the probability that covariances of random features err by more than a share.

    $$\Pr\Big(\sup_{\mathbf x, \mathbf x'} |\hat k - k| \ge \epsilon \sigma^2\Big) \le
        2^8 \Big(\frac{\sigma_\omega L}{\epsilon}\Big)^2 e^{-R \epsilon^2 / (4 (D + 2))}$$

    For independent frequencies and inputs in a set of diameter L, with $\sigma_\omega^2$ the
    second moment of frequencies. It is above 1, and says nothing, until $R \epsilon^2$ is large.
    It says nothing of posteriors, which depend on inverses of covariances.

    Args:
        kernel: `RBF`, `Matern32` or `Matern52`, with one lengthscale per column.
        diameter: L, in the units of the inputs.
        epsilon: $\epsilon$, as a share of the variance.
        R: the number of frequencies.

    Returns:
        The bound, which may be above 1.

    Raises:
        ValueError: for numbers that are not positive, and for a kernel whose frequencies have no
            second moment.

    References:
        Rahimi and Recht (2007), claim 1; van der Wilk (2018), item 15.
    """
    _check_positive(diameter=diameter, epsilon=epsilon, R=R)
    columns, moment = _second_moment(kernel)
    decay = np.asarray(R) * np.asarray(epsilon) ** 2 / (4.0 * (columns + 2))
    ratio = np.asarray(diameter) / np.asarray(epsilon)
    return np.asarray(2.0**8 * moment * ratio**2 * np.exp(-decay))


def fourier_frequencies_needed(
    kernel: AbstractStationary, diameter: float, epsilon: float, probability: float
) -> int:
    """The number of frequencies at which the bound on the probability of errors is that small.

    Args:
        kernel: `RBF`, `Matern32` or `Matern52`, with one lengthscale per column.
        diameter: of the set of inputs.
        epsilon: the error, as a share of the variance.
        probability: that an error is larger.

    Raises:
        ValueError: for numbers that are not positive, and for a kernel whose frequencies have no
            second moment.
    """
    _check_positive(diameter=diameter, epsilon=epsilon, probability=probability)
    columns, moment = _second_moment(kernel)
    ratio = 2.0**8 * moment * (diameter / epsilon) ** 2 / probability
    return max(math.ceil(4.0 * (columns + 2) / epsilon**2 * math.log(max(ratio, 1.0))), 1)


def _check_positive(**numbers: ArrayLike) -> None:
    for name, number in numbers.items():
        if not np.all((np.asarray(number) > 0) & np.isfinite(number)):
            raise ValueError(f"{name} must be positive and finite, given {number}")


def _second_moment(kernel: AbstractStationary) -> tuple[int, float]:
    """The number of columns, and the mean squared length of frequencies."""
    freedom = FREEDOM.get(type(kernel), 0.0)
    if freedom <= 2.0:
        raise ValueError(
            f"the bound needs frequencies with a second moment: RBF, Matern32 or Matern52, given "
            f"{type(kernel).__name__}"
        )
    lengthscales = np.atleast_1d(np.asarray(kernel.lengthscales, float))
    spread = 1.0 if freedom == math.inf else freedom / (freedom - 2.0)
    return len(lengthscales), float(spread * np.sum(lengthscales**-2.0))
