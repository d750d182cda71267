"""Rules for expectations of a kernel: in closed form, or at nodes."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.kernels.base import AbstractKernel
from cavity.kernels.expectations import closed_form
from cavity.kernels.expectations.closed_form import Row
from cavity.kernels.expectations.inputs import GaussianInputs, symmetric
from cavity.kernels.expectations.nodes import columns_used, node_inputs, standard_nodes
from cavity.kernels.expectations.terms import Expansion, expansion
from cavity.numerics.types import Array, Float


class AbstractRule(eqx.Module):
    """The expectations of one kernel under some rows of Gaussian inputs.

    To implement:
        the moments, and `numbers`: how many numbers a row holds while its covariance is
        computed.
    """

    @abc.abstractmethod
    def cross(self, inputs: GaussianInputs, Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """Expected covariances with the function at the inducing points."""

    @abc.abstractmethod
    def diag(self, inputs: GaussianInputs) -> Float[Array, " N"]:
        """Expected variances."""

    @abc.abstractmethod
    def slopes(self, inputs: GaussianInputs, Z: Float[Array, "M D"]) -> Float[Array, "N M D"]:
        """Expected slopes in the input."""

    @abc.abstractmethod
    def covariance(self, inputs: GaussianInputs, Z: Float[Array, "M D"]) -> Float[Array, "N M M"]:
        """Matrices whose symmetric parts are the covariances of k(x, Z)."""

    @abc.abstractmethod
    def forms(
        self, inputs: GaussianInputs, Z: Float[Array, "M D"], W: Float[Array, "P M M"]
    ) -> Float[Array, "N P"]:
        """Sums of the products of these covariances with symmetric matrices."""

    @abc.abstractmethod
    def weighted_sum(
        self, inputs: GaussianInputs, Z: Float[Array, "M D"], weights: Float[Array, "N G"]
    ) -> Float[Array, "G M M"]:
        """Sums of these covariances over rows."""

    @abc.abstractmethod
    def numbers(self, Z: Float[Array, "M D"]) -> int:
        """The size of a row's work."""


class ClosedForm(AbstractRule):
    """A kernel that is a sum of terms."""

    expansion: Expansion

    def cross(self, inputs: GaussianInputs, Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        return self._map_rows(closed_form.cross, inputs, Z)

    def diag(self, inputs: GaussianInputs) -> Float[Array, " N"]:
        return self._map_rows(closed_form.diag, inputs, inputs.mean[:0])

    def slopes(self, inputs: GaussianInputs, Z: Float[Array, "M D"]) -> Float[Array, "N M D"]:
        return self._map_rows(closed_form.slopes, inputs, Z)

    def covariance(self, inputs: GaussianInputs, Z: Float[Array, "M D"]) -> Float[Array, "N M M"]:
        return self._map_rows(closed_form.covariance, inputs, Z)

    def forms(
        self, inputs: GaussianInputs, Z: Float[Array, "M D"], W: Float[Array, "P M M"]
    ) -> Float[Array, "N P"]:
        if len(W) > 1:
            return _forms(self.covariance(inputs, Z), W)

        def form(expansion: Expansion, row: Row) -> Array:
            return closed_form.form(expansion, row, W[0])

        return self._map_rows(form, inputs, Z)[:, None]

    def weighted_sum(
        self, inputs: GaussianInputs, Z: Float[Array, "M D"], weights: Float[Array, "N G"]
    ) -> Float[Array, "G M M"]:
        # spikes do not vary
        return _sum_of_rows(Expansion(self.expansion.stacks), inputs.mean, inputs.cov, Z, weights)

    def numbers(self, Z: Float[Array, "M D"]) -> int:
        return len(Z) ** 2

    def _map_rows(
        self, moment: Callable[[Expansion, Row], Array], inputs: GaussianInputs, Z: Array
    ) -> Array:
        def row_moment(mean: Array, cov: Array) -> Array:
            return moment(self.expansion, Row(mean, cov, Z))

        return jax.vmap(row_moment)(inputs.mean, inputs.cov)


class Nodes(AbstractRule):
    """Any kernel, at nodes: accurate where deviations are below a few lengthscales.

    In up to three columns the nodes are exact for polynomials.
    """

    kernel: AbstractKernel

    def cross(self, inputs: GaussianInputs, Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        values, weights = self._values(inputs, Z)
        return jnp.einsum("s,nsm->nm", weights, values)

    def diag(self, inputs: GaussianInputs) -> Float[Array, " N"]:
        places, weights = self._places(inputs)
        values = self.kernel.diag(places.reshape(-1, places.shape[2]))
        return values.reshape(places.shape[:2]) @ weights

    def slopes(self, inputs: GaussianInputs, Z: Float[Array, "M D"]) -> Float[Array, "N M D"]:
        mean = inputs.mean

        def along(direction: Float[Array, " D"]) -> Float[Array, "N M"]:
            def at(mean: Float[Array, "N D"]) -> Float[Array, "N M"]:
                return self.cross(GaussianInputs(mean, inputs.cov, inputs.uncertain), Z)

            return jax.jvp(at, (mean,), (jnp.broadcast_to(direction, mean.shape),))[1]

        return jnp.moveaxis(jax.lax.map(along, jnp.eye(mean.shape[1], dtype=mean.dtype)), 0, 2)

    def covariance(self, inputs: GaussianInputs, Z: Float[Array, "M D"]) -> Float[Array, "N M M"]:
        values, weights = self._values(inputs, Z)
        # equal nodes, of inputs without variance, have no deviations to the last digit
        away = values - values[:, :1]
        away = away - jnp.einsum("s,nsm->nm", weights, away)[:, None]
        return jnp.einsum("s,nsk,nsm->nkm", weights, away, away)

    def forms(
        self, inputs: GaussianInputs, Z: Float[Array, "M D"], W: Float[Array, "P M M"]
    ) -> Float[Array, "N P"]:
        return _forms(self.covariance(inputs, Z), W)

    def weighted_sum(
        self, inputs: GaussianInputs, Z: Float[Array, "M D"], weights: Float[Array, "N G"]
    ) -> Float[Array, "G M M"]:
        return _weighted_sum(self.covariance(inputs, Z), weights)

    def _places(self, inputs: GaussianInputs) -> tuple[Float[Array, "N S D"], Float[Array, " S"]]:
        columns = columns_used(self.kernel, inputs.mean.shape[1])
        if inputs.uncertain is not None:
            columns &= frozenset(inputs.uncertain)
        points, weights = standard_nodes(len(columns))
        places = node_inputs(inputs, sorted(columns), points)
        return places, jnp.asarray(weights, inputs.mean.dtype)

    def _values(
        self, inputs: GaussianInputs, Z: Float[Array, "M D"]
    ) -> tuple[Float[Array, "N S M"], Float[Array, " S"]]:
        places, weights = self._places(inputs)
        values = self.kernel.cross(places.reshape(-1, places.shape[2]), Z)
        return values.reshape(*places.shape[:2], len(Z)), weights

    def numbers(self, Z: Float[Array, "M D"]) -> int:
        D = Z.shape[1]
        nodes = len(standard_nodes(len(columns_used(self.kernel, D)))[1])
        return nodes * (len(Z) + D) + len(Z) ** 2


def rule(kernel: AbstractKernel, D: int) -> AbstractRule:
    """The closed form of a kernel of D input columns, where it has one, or else nodes."""
    terms = expansion(kernel, D)
    return Nodes(kernel) if terms is None else ClosedForm(terms)


def _forms(covariance: Float[Array, "N M M"], W: Float[Array, "P M M"]) -> Float[Array, "N P"]:
    return jnp.einsum("nkm,pkm->np", covariance, W)


def _weighted_sum(
    covariance: Float[Array, "N M M"], weights: Float[Array, "N G"]
) -> Float[Array, "G M M"]:
    # a product with a single row would compute the exponentials one by one
    padded = jnp.pad(weights, [(0, 0), (0, 1)])
    return symmetric(jnp.einsum("ng,nkm->gkm", padded, covariance)[:-1])


@jax.custom_vjp
def _sum_of_rows(
    expansion: Expansion, mean: Array, cov: Array, Z: Array, weights: Array
) -> Float[Array, "G M M"]:
    """Sums over rows of a closed form's covariances.

    Its derivative is that of the sum of the products of covariances with the slopes, for which no
    covariance is needed.
    """
    covariance = ClosedForm(expansion).covariance(GaussianInputs(mean, cov), Z)
    return _weighted_sum(covariance, weights)


def _sum_forward(*arguments: Any) -> tuple[Array, tuple]:
    return _sum_of_rows(*arguments), arguments


def _sum_backward(arguments: tuple, slopes: Float[Array, "G M M"]) -> tuple:
    slopes = symmetric(slopes)

    def total(
        expansion: Expansion, mean: Array, cov: Array, Z: Array, weights: Array
    ) -> Float[Array, ""]:
        def row_form(mean: Array, cov: Array, W: Array) -> Array:
            return closed_form.form(expansion, Row(mean, cov, Z), W)

        if len(slopes) == 1:
            return weights[:, 0] @ jax.vmap(row_form, (0, 0, None))(mean, cov, slopes[0])
        own = jnp.einsum("ng,gkm->nkm", weights, slopes)
        return jnp.sum(jax.vmap(row_form)(mean, cov, own))

    return jax.grad(total, (0, 1, 2, 3, 4))(*arguments)


_sum_of_rows.defvjp(_sum_forward, _sum_backward)
