"""A model on rows, as inference sees it."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.energy import Graph
from cavity.inference.factors.slots import ObservedRows
from cavity.inference.graph.rows import Rows
from cavity.inference.past import Past, with_past
from cavity.inference.problem import AbstractGraphBuilder
from cavity.models.base import AbstractModel, GraphSettings
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Scalar
from cavity.parameters import units


class ModelOnRows(AbstractGraphBuilder):
    """A model and the rows that it is laid out on.

    Attributes:
        model: the model.
        rows: padded data.
        power: the power of all rows; `rows.power` takes its place where given.
        approximation: what stands in the place of the likelihood terms.
        chunk: rows worked on at a time.
        total: the number of observed rows in all the data, where these rows are some
            of them.
        scale: rows in all the data for each of these rows.
        past: messages of earlier rows that are no longer in memory; None without any.
    """

    model: AbstractModel
    rows: Rows
    power: Power
    approximation: AbstractApproximation
    chunk: int = eqx.field(static=True)
    total: ObservedRows | None = None
    scale: Scalar | float = 1.0
    past: Past | None = None

    @property
    def coupled(self) -> bool:
        return self.approximation.couples(self.model.likelihood)

    @property
    def ordered(self) -> bool:
        return self.model.ordered

    @property
    def uses_descent(self) -> bool:
        # states beside inducing variables in closed form
        return self.ordered and self.approximation.closed_form and not self.approximation.tied

    @property
    def has_noise_scale(self) -> bool:
        return any(unit.output != 0 for unit in jax.tree.leaves(units(self.model.likelihood)))

    def graph(self, jitter: Scalar) -> Graph:
        layout = (self.power, self.approximation, jitter, self.chunk, self.total, self.scale)
        graph = self.model.graph(self.rows, GraphSettings(*layout))
        if self.past is None:
            return graph
        past = self.past
        if past.noise is not None:
            past = past.at_noise(self.model.likelihood.variance)  # type: ignore[attr-defined]
        return with_past(graph, past, jitter)

    def approximated_by(self, approximation: AbstractApproximation) -> "ModelOnRows":
        return dataclasses.replace(self, approximation=approximation)

    def at_power_share(self, share: Scalar | float) -> "ModelOnRows":
        dtype = self.rows.y.dtype
        rows = self.rows
        if rows.power is not None:
            rows = eqx.tree_at(lambda r: r.power, rows, share * rows.power)
        return dataclasses.replace(self, rows=rows, power=jnp.asarray(share * self.power, dtype))

    def at_noise_scale(self, factor: Scalar | float) -> "ModelOnRows":
        wide = jax.tree.map(
            lambda value, unit: value * factor**unit.output,
            self.model.likelihood,
            units(self.model.likelihood),
        )
        return dataclasses.replace(
            self, model=eqx.tree_at(lambda m: m.likelihood, self.model, wide)
        )
