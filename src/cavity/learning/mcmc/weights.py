r"""The target of chains that draw weights: those of linear models and networks.

A weight is a standard normal number times its scale, and scales that a prior has for single
weights are drawn on a logarithmic scale. Sparse priors have no funnel in these coordinates, as
both are independent a priori (the non-centred parameterisation). The posterior has one where data
know a weight well.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri

from cavity.learning.mcmc.kernels import Block, Draw, State, elliptical_slices
from cavity.learning.mcmc.problem import Problem
from cavity.learning.methods.mcmc import MCMC
from cavity.likelihoods.capabilities import capability
from cavity.models.base import AbstractModel
from cavity.models.drawn_weights import (
    DrawnWeights,
    HasWeightParts,
    KnownWeights,
    WeightPart,
)
from cavity.models.mixture_posterior import MixturePosterior
from cavity.models.posterior import Posterior
from cavity.numerics.jit import compiled
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar
from cavity.weights.base import AbstractScaleMixture, AbstractWeightPrior
from cavity.weights.mixtures import HasPointSpike

# Elliptical slices of an iteration, where the likelihood has no slope.
SLICES = 5
# Chains start so far about zero, in units of the coordinates.
DISPERSION = 0.5


def check_weights(model: AbstractModel, columns: int, sampler: MCMC) -> None:
    """Raises ValueError for weights that chains cannot draw.

    Args:
        model: a model with weights.
        columns: of the inputs.
        sampler: settings.
    """
    weights = model.drawn_weights
    assert weights is not None
    for part in weights.weight_parts(columns):
        _check_prior(part.prior)
    if sampler.temperatures is not None:
        raise ValueError(
            "MCMC(temperatures=...) estimates the log evidence of Gaussian processes, given "
            f"{type(model).__name__}: leave it out, or use PowerEP(), which has an evidence"
        )


def _check_prior(prior: AbstractWeightPrior) -> None:
    name, spike = type(prior).__name__, capability(prior, HasPointSpike)
    if spike is not None and np.any(spike.point_spikes):
        raise ValueError(
            f"MCMC() draws weights whose priors are densities, given {name} with a point at zero: "
            "give the spike a variance, as in SpikeSlab(spike=1e-3), or another prior, such as "
            "Horseshoe(), or use PowerEP()"
        )
    if not (prior.has_local_scales or prior.gaussian or isinstance(prior, AbstractScaleMixture)):
        raise ValueError(
            f"MCMC() draws weights whose priors are mixtures of Gaussians, which {name} does not "
            "say of itself: give it `has_local_scales` and `variance_given_scale`, or use "
            "PowerEP()"
        )


class DrawnPart(NamedTuple):
    """Weights of one prior, and the log density of their coordinates but for $-z^2 / 2$."""

    weights: Float[Array, "p P"]
    log_density: Scalar


def weights_at(
    part: WeightPart, z: Float[Array, "p P"], local: Float[Array, "U P"] | None
) -> DrawnPart:
    """The weights at a point.

    Args:
        part: what is known of them.
        z: standard normal numbers.
        local: local scales of the units, where the prior has such.
    """
    size = _half_normal(z) if part.prior.nonnegative else z
    if local is None:
        var, _ = part.prior.variance_given_scale(jnp.zeros_like(z))
        w = jnp.sqrt(var) * size
        if part.prior.gaussian:
            return DrawnPart(w, jnp.zeros((), z.dtype))
        log_density = jnp.sum(jax.nn.logsumexp(part.log_joint(w), axis=0))
        return DrawnPart(w, log_density + jnp.sum(0.5 * (jnp.log(var) + z**2 + LOG_2PI)))
    every = local if part.units is None else local[jnp.asarray(part.units)]
    var, log_density = part.prior.variance_given_scale(every)
    w = jnp.sqrt(var) * size
    return DrawnPart(w, jnp.sum(log_density[part.firsts]))


def _half_normal(z: Array) -> Array:
    """The size of a Gaussian as a smooth function of a standard normal number."""
    return -ndtri(0.5 * ndtr(-z))


class WeightTarget(eqx.Module):
    """Weights, their local scales and parameters, all moved by NUTS together.

    Attributes:
        problem: model and data.
        sliced: whether elliptical slices move the weights as well, for likelihoods without slope.
    """

    problem: Problem
    sliced: bool = eqx.field(static=True)

    @property
    def parts(self) -> tuple[WeightPart, ...]:
        """The weights at the starting model, by prior."""
        return self._parts(self.problem.start)

    def start(self, key: Array, x: Float[Array, " parameters"]) -> State:
        """The state of a chain that begins at a point."""
        sizes = [int(np.prod(part.shape)) for part in self.parts]
        local = [part.local_scales for part in self.parts]
        z = DISPERSION * jax.random.normal(key, (sum(sizes) + sum(local),), x.dtype)
        state = {"x": x, "z": z[: sum(sizes)], "local": z[sum(sizes) :]}
        return self._with_functions(key, state)

    def moves(self) -> list[Block | Draw]:
        count, size = self.problem.origin.size, sum(int(np.prod(p.shape)) for p in self.parts)

        def read(state: State) -> Array:
            return jnp.concatenate([state["x"], state["z"], state["local"]])

        def write(state: State, part: Array) -> State:
            z, local = part[count : count + size], part[count + size :]
            return state | {"x": part[:count], "z": z, "local": local}

        moves: list[Block | Draw] = [Block(read, write, self.log_density)]
        if self.sliced:
            moves.append(Draw(self._slices))
        return [*moves, Draw(self._with_functions)]

    def log_density(self, state: State) -> Scalar:
        """Log posterior density of parameters and coordinates of the weights."""
        found = self._log_ratio(state) - 0.5 * jnp.sum(state["z"] ** 2)
        return found + self.problem.log_prior(state["x"])

    def weights(self, state: State) -> DrawnWeights:
        """The weights of a state."""
        model = self.problem.model(state["x"])
        return tuple(each.weights for each in self._drawn(model, state))

    def named_weights(self, trace: State) -> dict[str, np.ndarray]:
        """The weights of draws, (chains, draws, ...)."""
        shape = trace["z"].shape[:2]
        names, count = ("x", "z", "local"), shape[0] * shape[1]
        flat = {name: trace[name].reshape(count, trace[name].shape[2]) for name in names}
        found = _named(self, flat)
        return {k: np.asarray(v).reshape(*shape, *v.shape[1:]) for k, v in found.items()}

    def compared(self, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Those weights on which chains have to agree."""
        return weights if self.problem.start.identified else {}

    def posterior(
        self, states: State, typical: AbstractModel, *, single: bool
    ) -> MixturePosterior:
        """The posterior over draws.

        Args:
            states: states of the draws, along a first axis.
            typical: the model at the medians of its parameters.
            single: whether outputs were given as a vector.
        """
        parts, shares = _posteriors(self, states, single=single)
        return MixturePosterior(
            model=typical,
            parts=parts,
            shares=shares,
            n_inputs=parts.n_inputs,
            outputs=parts.outputs,
            single=single,
            side=parts.side,
        )

    def _parts(self, model: HasWeightParts) -> tuple[WeightPart, ...]:
        return model.weight_parts(self.problem.inputs.shape[1])

    def _drawn(self, model: HasWeightParts, state: State) -> list[DrawnPart]:
        found, at, local_at = [], 0, 0
        for part in self._parts(model):
            rows, functions = part.shape
            z = state["z"][at : at + rows * functions].reshape(rows, functions)
            at += rows * functions
            local = state["local"][local_at : local_at + part.local_scales]
            local_at += part.local_scales
            local = local.reshape(-1, functions) if part.local_scales else None
            found.append(weights_at(part, z, local))
        return found

    def _log_ratio(self, state: State) -> Scalar:
        """Log of the density over that of a standard normal z."""
        model = self.problem.model(state["x"])
        drawn = self._drawn(model, state)
        f = model.functions_of(tuple(each.weights for each in drawn), self.problem.inputs)
        return self.problem.log_likelihood(model, f.T) + sum(each.log_density for each in drawn)

    def _slices(self, key: Array, state: State) -> State:
        z = elliptical_slices(key, state["z"], lambda z: self._log_ratio(state | {"z": z}), SLICES)
        return state | {"z": z}

    def _with_functions(self, key: Array, state: State) -> State:
        """The state with the functions that its weights make."""
        model = self.problem.model(state["x"])
        return state | {"f": model.functions_of(self.weights(state), self.problem.inputs).T}


@compiled
def _named(target: WeightTarget, states: State) -> dict[str, Array]:
    return jax.lax.map(
        lambda state: target.problem.start.named_weights(target.weights(state)), states
    )


@compiled
def _posteriors(
    target: WeightTarget, states: State, *, single: bool
) -> tuple[Posterior, Float[Array, " S"]]:
    """The posterior of every draw, in which weights are known, and their shares."""
    problem = target.problem

    def one(state: State) -> Posterior:
        model = problem.model(state["x"])
        return Posterior(
            model=model,
            process=KnownWeights(model, target.weights(state)),
            n_inputs=problem.inputs.shape[1],
            outputs=model.likelihood.latents,
            single=single,
            side=tuple(sorted(problem.side)),
        )

    count = states["x"].shape[0]
    return jax.lax.map(one, states), jnp.full(count, 1.0 / count, problem.outputs.dtype)
