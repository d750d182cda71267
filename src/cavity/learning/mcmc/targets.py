"""Target densities of the chains: parameters and latent functions given data."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from cavity.learning.mcmc.kernels import Block, Draw, State, elliptical_slices
from cavity.learning.mcmc.problem import Problem, precision_times
from cavity.models.base import AbstractGP
from cavity.models.sampled_posterior import SampledPosterior
from cavity.numerics.jit import compiled
from cavity.numerics.linalg import cholesky
from cavity.numerics.types import Array, Float, Scalar

# Elliptical slices of an iteration. They cost next to nothing beside the factorisations of NUTS.
SLICES = 5
# Newton steps to the mode that coordinates are chosen about, and the share of each that is made.
NEWTON_STEPS, NEWTON_SHARE = 30, 0.5


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


class AbstractFunctionTarget(eqx.Module):
    """Parameters and functions of a Gaussian process.

    To implement:
        `problem`, `noise(state)`, and what chains ask of a target.
    """

    problem: eqx.AbstractVar[Problem]

    @abc.abstractmethod
    def noise(self, state: State) -> Array | None:
        """The noise variance of each row, where functions given the draw are exact."""

    def named_weights(self, trace: State) -> dict[str, np.ndarray]:
        """There are no weights."""
        return {}

    def compared(self, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Those weights on which chains have to agree."""
        return weights

    def posterior(self, states: State, typical: AbstractGP, *, single: bool) -> SampledPosterior:
        """The posterior over draws.

        Args:
            states: states of the draws, along a first axis.
            typical: the model at the medians of its parameters.
            single: whether outputs were given as a vector.
        """
        problem = self.problem
        draws, weights, noise = _drawn_functions(self, states)
        count = problem.start.likelihood.latents
        return SampledPosterior(
            model=typical,
            draws=draws,
            inputs=problem.inputs,
            weights=weights,
            noise=noise,
            jitter=problem.jitter,
            n_inputs=problem.inputs.shape[1],
            outputs=count,
            single=single and count == 1,
            side=tuple(sorted(problem.side)),
        )


@compiled
def _drawn_functions(
    target: AbstractFunctionTarget, states: State
) -> tuple[AbstractGP, Array, Array | None]:
    """Models, weights and noise of draws, along a first axis."""
    problem = target.problem

    def one(state: State) -> tuple[Any, Array, Array | None]:
        model, noise = problem.model(state["x"]), target.noise(state)
        K, mean = problem.priors(model)
        if noise is not None:
            weights = precision_times(K[0], noise, problem.outputs - mean[0])[None]
            return model, weights, noise
        root = jnp.broadcast_to(cholesky(K), (len(mean), *K.shape[1:]))
        solve = jax.vmap(lambda L, r: cho_solve((L, True), r))
        return model, solve(root, state["f"] - mean), None

    return jax.lax.map(one, states)


class Collapsed(AbstractFunctionTarget):
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


class WhitenedTarget(AbstractFunctionTarget):
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
