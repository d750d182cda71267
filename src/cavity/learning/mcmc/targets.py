"""Target densities of the chains: parameters and latent functions given data."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from cavity.learning.mcmc.kernels import Block, Draw, State, elliptical_slices
from cavity.models.base import AbstractGP
from cavity.numerics.jit import compiled
from cavity.numerics.linalg import cholesky, jittered
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters import from_real, log_jacobian
from cavity.parameters.priors import log_prior

# Elliptical slices of an iteration. They cost next to nothing beside the factorisations of NUTS.
SLICES = 5
# Newton steps to the mode that coordinates are chosen about, and the share of each that is made.
NEWTON_STEPS, NEWTON_SHARE = 30, 0.5


class Problem(eqx.Module):
    """A model with its parameters as coordinates, and data without padding.

    Attributes:
        start: the model at the origin of the coordinates, in the data's precision.
        maps: bijections.
        densities: priors, proper ones for what moves.
        inputs: (N, D).
        outputs: (N,).
        side: side data of the rows.
        origin: the unconstrained parameters of the starting model.
        scale: their change with each coordinate.
        jitter: share of the mean prior variance on the diagonal of prior covariances.
    """

    start: AbstractGP
    maps: Any
    densities: Any
    inputs: Float[Array, "N D"]
    outputs: Float[Array, " N"]
    side: dict[str, Array]
    origin: Float[Array, " parameters"]
    scale: Float[Array, " parameters"]
    jitter: Scalar

    def real(self, x: Float[Array, " parameters"]) -> Float[Array, " parameters"]:
        """The unconstrained parameters at a point."""
        return self.origin + self.scale * x

    def model(self, x: Float[Array, " parameters"]) -> AbstractGP:
        """The model at a point."""
        return from_real(self.real(x), self.start, self.maps)

    def log_prior(self, x: Float[Array, " parameters"]) -> Scalar:
        """The log prior density of a point, in the coordinates and up to a constant."""
        real = self.real(x)
        model = from_real(real, self.start, self.maps)
        return log_prior(model, self.densities) + log_jacobian(real, self.start, self.maps)

    def priors(self, model: AbstractGP) -> tuple[Float[Array, "K N N"], Float[Array, "L N"]]:
        """Covariances and means of the latent functions at the data, a priori."""
        K = jnp.stack([self._covariance(kernel) for kernel in model.kernels])
        means = [jnp.reshape(latent.mean(self.inputs), -1) for latent in model.latents]
        return K, jnp.stack(means)

    def _covariance(self, kernel: Any) -> Float[Array, "N N"]:
        K = kernel.cross(self.inputs, self.inputs)
        return jittered(K, self.jitter, kernel.diag(self.inputs))

    def log_likelihood(self, model: AbstractGP, f: Float[Array, "L N"]) -> Scalar:
        """Log density of all outputs given the latent functions."""
        values = f if model.likelihood.latents > 1 else f[0]
        return jnp.sum(model.likelihood.log_prob(values, self.outputs, **self.side))

    def log_marginal(self, model: AbstractGP, noise: Float[Array, " N"]) -> Scalar:
        """Log density of the outputs where noise is Gaussian, the function integrated out."""
        K, mean = self.priors(model)
        root, s = _scaled_root(K[0], noise)
        white = solve_triangular(root, s * (self.outputs - mean[0]), lower=True)
        half = jnp.sum(jnp.log(jnp.diagonal(root)) - jnp.log(s)) + 0.5 * white @ white
        return -half - 0.5 * LOG_2PI * white.size

    def function_given_noise(
        self, key: Array, model: AbstractGP, noise: Float[Array, " N"]
    ) -> Float[Array, "1 N"]:
        """An exact draw of the function where noise is Gaussian."""
        K, mean = self.priors(model)
        one, other = jax.random.normal(key, (2, noise.size), noise.dtype)
        f = cholesky(K[0]) @ one
        # f + K (K + V)⁻¹ (y - m - f - e), Matheron's rule
        rest = self.outputs - mean[0] - f - jnp.sqrt(noise) * other
        return (mean[0] + f + K[0] @ precision_times(K[0], noise, rest))[None]


def _scaled_root(K: Array, noise: Array) -> tuple[Array, Array]:
    """The Cholesky factor of I + S½ K S½ and the diagonal of S½, with S the noise precision."""
    s = 1.0 / jnp.sqrt(noise)
    return cholesky(jnp.eye(s.size, dtype=s.dtype) + s[:, None] * K * s), s


def precision_times(
    K: Float[Array, "N N"], noise: Float[Array, " N"], r: Float[Array, " N"]
) -> Float[Array, " N"]:
    """(K + V)⁻¹ r, with V the diagonal of the noise."""
    root, s = _scaled_root(K, noise)
    half = solve_triangular(root, s * r, lower=True)
    return s * solve_triangular(root, half, lower=True, trans=1)


def _entries(name: str, index: tuple[int, ...], log_density: Any) -> list[Block]:
    """NUTS on some entries of a vector of the state; none where there are no entries."""
    if not index:
        return []
    places = jnp.array(index)

    def read(state: State) -> Array:
        return state[name][places]

    def write(state: State, part: Array) -> State:
        return state | {name: state[name].at[places].set(part)}

    return [Block(read, write, log_density)]


class Collapsed(eqx.Module):
    """Gaussian noise: parameters with the function integrated out, which is then drawn."""

    problem: Problem

    def start(self, key: Array, x: Float[Array, " parameters"]) -> State:
        """The state of a chain that begins at a point."""
        noise = self._noise(self.problem.model(x))
        return {"x": x, "f": jnp.zeros((1, noise.size), x.dtype)}

    def moves(self) -> list[Block | Draw]:
        everything = tuple(range(self.problem.origin.size))
        return [*_entries("x", everything, self.log_density), Draw(self._function)]

    def log_density(self, state: State) -> Scalar:
        """Log posterior density of the parameters."""
        model = self.problem.model(state["x"])
        marginal = self.problem.log_marginal(model, self._noise(model))
        return marginal + self.problem.log_prior(state["x"])

    def noise(self, state: State) -> Array:
        """The noise variance of each row."""
        return self._noise(self.problem.model(state["x"]))

    def _noise(self, model: Any) -> Array:
        variance = model.likelihood.noise_variance(**self.problem.side)
        return jnp.broadcast_to(variance, self.problem.outputs.shape)

    def _function(self, key: Array, state: State) -> State:
        model = self.problem.model(state["x"])
        return state | {"f": self.problem.function_given_noise(key, model, self._noise(model))}


class WhiteningMap(eqx.Module):
    r"""Latent functions as linear maps of standard normal vectors.

    Each is $\mathbf f = \mathbf m + \mathbf L \mathbf C^{-\top} (\mathbf h + \mathbf z)$.

    Attributes:
        root: Cholesky factors L of the prior covariances, one for all of them or one each.
        inner: those of $\mathbf I + \mathbf L^\top \mathbf T \mathbf L$, C.
        offset: h.
        mean: m.
        log_constant: log integral of the prior times the sites.
    """

    root: Float[Array, "K N N"]
    inner: Float[Array, "L N N"]
    offset: Float[Array, "L N"]
    mean: Float[Array, "L N"]
    log_constant: Scalar

    def __call__(self, z: Float[Array, "L N"]) -> Float[Array, "L N"]:
        """The functions at the data."""
        inner = solve_triangular(self.inner, (self.offset + z)[..., None], lower=True, trans=1)
        root = jnp.broadcast_to(self.root, self.inner.shape)
        return self.mean + jnp.einsum("lij,lj->li", root, inner[..., 0])


class WhitenedTarget(eqx.Module):
    r"""Any likelihood: the functions in coordinates in which they are next to standard normal.

    Gaussian sites with precisions T and shifts $\nu$, the same at all parameters, stand for the
    likelihood while coordinates are chosen, and are corrected for exactly:

    $$p(\mathbf y \mid \mathbf f) p(\mathbf f) = \frac{p(\mathbf y \mid \mathbf f)}{t(\mathbf f)}
    \; Z_t \; \mathcal N(\mathbf z; \mathbf 0, \mathbf I)$$

    with z the coordinates in which prior times sites, of integral $Z_t$, is standard normal.
    Without sites they are those of the prior. NUTS moves them together with the parameters, then
    elliptical slices alone; where the likelihood has no slope, slices have to do.

    Attributes:
        problem: model and data.
        precision: T.
        shift: $\nu$.
        joint: whether NUTS moves the functions too.
        basis: the map from coordinates to functions where no parameter moves.
    """

    problem: Problem
    precision: Float[Array, "L N"]
    shift: Float[Array, "L N"]
    joint: bool = eqx.field(static=True)
    basis: WhiteningMap | None = None

    def start(self, key: Array, x: Float[Array, " parameters"]) -> State:
        """The state of a chain that begins at a point."""
        z = jax.random.normal(key, self.shift.shape, x.dtype)
        return {"x": x, "z": z, "f": self._basis(self.problem.model(x))(z)}

    def moves(self) -> list[Block | Draw]:
        count = self.problem.origin.size
        slices = Draw(self._slices)
        if not self.joint:
            return [*_entries("x", tuple(range(count)), self.log_density), slices]

        def read(state: State) -> Array:
            return jnp.concatenate([state["x"], state["z"].ravel()])

        def write(state: State, part: Array) -> State:
            return state | {"x": part[:count], "z": part[count:].reshape(self.shift.shape)}

        return [Block(read, write, self.log_density), slices]

    def log_density(self, state: State) -> Scalar:
        """Log posterior density of the parameters and the coordinates of the functions."""
        model, z = self.problem.model(state["x"]), state["z"]
        basis = self._basis(model)
        found = self.log_ratio(model, basis(z)) + basis.log_constant - 0.5 * jnp.sum(z**2)
        return found + self.problem.log_prior(state["x"])

    def log_ratio(self, model: AbstractGP, f: Float[Array, "L N"]) -> Scalar:
        """Log of the likelihood over the sites."""
        sites = jnp.sum(self.shift * f - 0.5 * self.precision * f**2)
        return self.problem.log_likelihood(model, f) - sites

    def noise(self, state: State) -> None:
        """There is no Gaussian noise."""

    def _basis(self, model: AbstractGP) -> WhiteningMap:
        if self.basis is not None:
            return self.basis
        K, mean = self.problem.priors(model)
        return basis_of(K, mean, self.precision, self.shift)

    def _slices(self, key: Array, state: State) -> State:
        model = self.problem.model(state["x"])
        basis, shape = self._basis(model), state["z"].shape

        def log_ratio(z: Array) -> Scalar:
            return self.log_ratio(model, basis(z.reshape(shape)))

        z = elliptical_slices(key, state["z"].ravel(), log_ratio, SLICES).reshape(shape)
        return state | {"z": z, "f": basis(z)}


def basis_of(
    K: Float[Array, "K N N"],
    mean: Float[Array, "L N"],
    precision: Float[Array, "L N"],
    shift: Float[Array, "L N"],
) -> WhiteningMap:
    """The coordinates in which prior times sites is standard normal."""
    root, eye = cholesky(K), jnp.eye(mean.shape[-1], dtype=mean.dtype)
    L = jnp.broadcast_to(root, (len(mean), *eye.shape))
    inner = cholesky(eye + jnp.swapaxes(L, 1, 2) @ (precision[..., None] * L))
    pull = jnp.einsum("lij,li->lj", L, shift - precision * mean)
    offset = solve_triangular(inner, pull[..., None], lower=True)[..., 0]
    # log of ∫ N(f; m, K) t(f) df
    at_mean = jnp.sum(shift * mean - 0.5 * precision * mean**2)
    halves = jnp.sum(jnp.log(jnp.diagonal(inner, axis1=1, axis2=2)))
    return WhiteningMap(root, inner, offset, mean, at_mean - halves + 0.5 * jnp.sum(offset**2))


@compiled
def fixed_basis(
    problem: Problem, precision: Float[Array, "L N"], shift: Float[Array, "L N"]
) -> WhiteningMap:
    """The coordinates at the starting model."""
    K, mean = problem.priors(problem.start)
    return basis_of(K, mean, precision, shift)


@compiled
def sites_about_mode(problem: Problem) -> tuple[Float[Array, "L N"], Float[Array, "L N"]]:
    """Precisions and shifts of sites near the mode of the functions at the starting model.

    By damped Newton steps in which each function is on its own. They need not be good: they only
    choose coordinates. Where a step fails they stay without effect.
    """
    model = problem.start
    K, mean = problem.priors(model)
    slope = jax.grad(lambda f: problem.log_likelihood(model, f))

    def second_derivative(f: Array, latent: Array) -> Array:
        direction = jnp.zeros_like(f).at[latent].set(1.0)
        return jax.jvp(slope, (f,), (direction,))[1][latent]

    def one(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        f, *before = carry
        curvature = jax.lax.map(lambda latent: second_derivative(f, latent), jnp.arange(len(f)))
        precision = jnp.maximum(-curvature, 0.0)
        shift = slope(f) + precision * f
        found = basis_of(K, mean, precision, shift)(jnp.zeros_like(f))
        good = jnp.all(jnp.isfinite(found)) & jnp.all(jnp.isfinite(precision))
        new = (f + NEWTON_SHARE * (found - f), precision, shift)
        return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, (f, *before)), None

    nothing = jnp.zeros_like(mean)
    (_, precision, shift), _ = jax.lax.scan(one, (mean, nothing, nothing), None, NEWTON_STEPS)
    return precision, shift
