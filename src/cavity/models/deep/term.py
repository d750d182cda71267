r"""The term of a row of a deep Gaussian process: one power mean through all layers.

The posterior keeps hidden values at the model's own conditional, so that the whole row is one
factor of the inducing variables of every layer:

$$\log M_a = \tfrac1a \log \mathbb E_{\text{cavities}}\Big[\prod_p p(y_p \mid f_p)^a\Big]$$

where f is the output of the last layer after propagation through those below, by cavities that all
rows share or that each row has for itself. Latent inputs have a
variational posterior, over which $\log M_a$ is averaged.

References:
    Bui (2017), S59, S60, S62.
"""

import abc
import typing
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.local_terms import AbstractDifferentiatedTerm
from cavity.inference.factors.tied import TiedCavity
from cavity.inference.graph.base import AbstractView
from cavity.inference.graph.marginals import Latent, MeanRoot, Moments, ScaledSite, SharedMarginal
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites
from cavity.inference.hidden_sites import propagate_sited
from cavity.inference.propagation import AbstractPropagation, Spread, propagate
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inducing_view import InducingView
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.deep.layer import Layer, LayerProcess
from cavity.numerics.linalg import safe_sqrt
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import log_power_mean
from cavity.numerics.types import Array, Float, PyTree

# Of the inducing variables of functions.
Beliefs = Sequence[InducingBelief]


class WholeView(AbstractView[TiedCavity]):
    """Every row sees all of a variable: its mean, and a root of its covariance."""

    scalar: ClassVar[bool] = False

    def presence(self, rows: Rows) -> Array:
        return jnp.max(rows.site_presence, axis=1, keepdims=True)

    def marginal(
        self, belief: TiedCavity, rows: Rows, sites: AbstractSites | None = None
    ) -> SharedMarginal:
        return self.at((belief.mean, belief.root), rows)

    def at(self, moments: Moments, rows: Rows) -> SharedMarginal:
        return SharedMarginal(MeanRoot(*moments))


class AbstractFunctionTerm(AbstractDifferentiatedTerm):
    """Terms of functions under cavities of their inducing variables, and of what else rows see.

    All rows share a cavity of the inducing variables, or each row has its own.

    To implement:
        `count`, and `terms(functions, others, rows, power)`.
    """

    joint: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """The number of edges to inducing variables, which come first."""

    @abc.abstractmethod
    def terms(
        self, functions: Beliefs, others: tuple[Any, ...], rows: Rows, power: Power
    ) -> Float[Array, " N"]:
        """The log power mean of every row.

        Args:
            functions: cavities of inducing variables, those of all rows.
            others: the cavities of what else rows see.
            rows: the data.
            power: the power.
        """

    @typing.final
    def stationary(self, power: Power) -> bool:
        return True

    @typing.final
    def log_mean(self, latents: tuple[Any, ...], rows: Rows, power: Power) -> Array:
        functions, others = latents[: self.count], latents[self.count :]
        if functions and functions[0].mean.ndim == 3:
            return self._row_terms(functions, others, rows, power)[:, None]
        return self.terms([_belief(f) for f in functions], others, rows, power)[:, None]

    def _row_terms(
        self, functions: tuple[Latent, ...], others: tuple[Latent, ...], rows: Rows, power: Power
    ) -> Float[Array, " N"]:
        """The terms of rows that have a cavity of the functions each."""
        moments = tuple((f.mean, jnp.linalg.cholesky(f.var)) for f in functions)

        def one(row: Rows, functions: tuple, others: tuple) -> Array:
            row, others = jax.tree.map(lambda x: x[None], (row, others))
            zero = jnp.zeros((), row.y.dtype)
            own = [_belief(MeanRoot(mean, jnp.swapaxes(L, 1, 2))) for mean, L in functions]
            own_others = tuple(Latent(mean, var, zero) for mean, var in others)
            return self.terms(own, own_others, row, power)[0]

        return self.over_rows(one, rows, moments, tuple((s.mean, s.var) for s in others))

    def over_rows(self, one: Callable[..., Array], *rows: PyTree) -> Float[Array, " N"]:
        """A function of each row, for all of them."""
        return jax.vmap(one)(*rows)


class DeepTerm(AbstractFunctionTerm):
    """The log power mean of a likelihood at the end of layers.

    Attributes:
        layers: the layers of the model.
        views: how rows see the inducing variables of each layer.
        likelihood: the density of outputs.
        propagation: how Gaussians go through layers.
        latent_inputs: whether rows see their latent inputs after the inducing variables, over
            whose posterior the logarithm of the power mean is averaged.
        hidden_sites: whether the last of what rows see is their sites on hidden values.
    """

    layers: tuple[Layer, ...]
    views: tuple[tuple[InducingView, ...], ...]
    likelihood: AbstractLikelihood
    propagation: AbstractPropagation
    latent_inputs: bool = eqx.field(static=True, default=False)
    hidden_sites: bool = eqx.field(static=True, default=False)

    @property
    def count(self) -> int:
        return sum(map(len, self.views))

    def over_rows(self, one: Callable[..., Array], *rows: PyTree) -> Float[Array, " N"]:
        if self.likelihood.latents == 1:
            return jax.vmap(one)(*rows)
        # their quadratures branch, which has no reverse derivative for several rows at a time
        return jax.lax.map(lambda row: one(*row), rows)

    def terms(
        self, functions: Beliefs, others: tuple[Any, ...], rows: Rows, power: Power
    ) -> Float[Array, " N"]:
        layers = self.processes(functions)
        sites = others[-1] if self.hidden_sites else None
        if not self.latent_inputs:
            return self._at_inputs(layers, rows, power, sites, None)
        mean, var, _ = others[0]
        z, log_weights = self.propagation.points(mean.shape[1], len(mean), rows.index, mean.dtype)
        first = (mean + safe_sqrt(var) * z).reshape(-1, mean.shape[1])
        rows, sites = jax.tree.map(
            lambda a: jnp.tile(a, (len(z),) + (1,) * (a.ndim - 1)), (rows, sites)
        )
        terms = self._at_inputs(layers, rows, power, sites, first).reshape(len(z), -1)
        return jnp.exp(log_weights) @ terms

    def _at_inputs(
        self,
        layers: tuple[LayerProcess, ...],
        rows: Rows,
        power: Power,
        sites: ScaledSite | None,
        first: Float[Array, "N Q"] | None,
    ) -> Float[Array, " N"]:
        """The log power means of rows whose inputs are known, all of them."""
        if sites is None:
            how = self.propagation, layers
            values, log_weights = propagate(*how, rows.x, rows.index, first)
            terms = terms_at(self.likelihood, values, rows, power)
        else:
            functions = [layer.without_noise() for layer in layers]
            noises = [cast(Array, layer.noise_variance) for layer in layers[:-1]]
            values, log_weights, log_ratio = propagate_sited(
                self.propagation, functions, noises, sites, rows, power, first
            )
            terms = terms_at(self.likelihood, values, rows, power) + log_ratio
        weights = jnp.broadcast_to(log_weights[:, None], terms.shape)
        return log_power_mean(terms, weights, power)

    def processes(self, beliefs: Beliefs) -> tuple[LayerProcess, ...]:
        """The functions of every layer under beliefs about all inducing variables."""
        ends = np.cumsum([len(views) for views in self.views])
        triples = zip(self.layers, self.views, ends, strict=True)
        first, *above = (
            layer.process(views, beliefs[end - len(views) : end]) for layer, views, end in triples
        )
        return (first.beside_latent() if self.latent_inputs else first, *above)


def terms_at(
    likelihood: AbstractLikelihood, values: Spread, rows: Rows, power: Power
) -> Float[Array, "K N"]:
    """The log power means at Gaussians of outputs, summed over the outputs that are observed.

    Args:
        likelihood: the density of outputs.
        values: K Gaussians per row for the functions.
        rows: the data.
        power: the power.
    """
    mean, var = values.mean, values.var
    if likelihood.latents > 1:  # functions of one output, along a first axis
        mean, var = jnp.moveaxis(mean, 2, 0)[..., None], jnp.moveaxis(var, 2, 0)[..., None]
    y = jnp.broadcast_to(rows.y, (values.mean.shape[0], *rows.y.shape))
    each = likelihood.log_power_mean(mean, var, y, power, rows.columns)
    return jnp.sum(rows.observed * each, axis=2)


def _belief(seen: MeanRoot) -> InducingBelief:
    """A cavity as a belief, whose marginals a process gives."""
    zero = jnp.zeros((), seen.mean.dtype)
    return InducingBelief(seen.mean[:, None, :], seen.root, zero, as_forms=True)
