"""Local factors: terms of any likelihood, whose rows have a site on each of their edges.

With Gaussian noise they give the same results as exact regressions, and are their test oracle.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.approximations.local_terms import (
    AbstractLocalTerm,
    EvaluationPoint,
    PowerMeanTerm,
)
from cavity.inference.factors.base import (
    Beliefs,
    Edge,
    EdgeMoments,
    PoweredDensity,
    Sent,
    SiteUpdate,
    Stores,
)
from cavity.inference.graph.base import (
    AbstractProjectedView,
    AbstractResponse,
    AbstractSiteView,
    AbstractVariable,
    AbstractView,
)
from cavity.inference.graph.marginals import AbstractMarginal, Moments
from cavity.inference.graph.projections import holding_projections, with_projections
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import all_proper
from cavity.inference.site_update import update_sites
from cavity.numerics.chunking import map_over_rows, sum_over_rows
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Int, Scalar


class LocalFactor(eqx.Module):
    r"""Rows with any likelihood, each with a site on each of its edges.

    Attributes:
        edges: the variables that the rows see.
        rows: the data.
        chunk: rows worked on at a time.
        term: what stands in the place of the likelihood.
        power: the power of all rows; `rows.power` takes its place where given.
        evaluation_point: the distribution that the term is evaluated under.
        common_mode: whether the term depends on differences between its edges alone, and these
            are alike a priori, so that the common mode of their means is zero.
        scale: rows of the whole table for each row; above 1 in minibatches.
    """

    edges: tuple[Edge[AbstractView], ...]
    rows: Rows
    chunk: int = eqx.field(static=True)
    term: AbstractLocalTerm
    power: Power
    evaluation_point: EvaluationPoint = eqx.field(static=True, default=EvaluationPoint.CAVITY)
    common_mode: bool = eqx.field(static=True, default=False)
    scale: Scalar | float = 1.0

    @property
    def stationary(self) -> bool:
        """True if the energy is stationary in sites and marginals at a fixed point."""
        return self.term.stationary(self.row_power(self.rows))

    @property
    def site_presence(self) -> tuple[Array, ...]:
        """The powers that sites count with, per edge; 0 where none has data."""
        return self._presence(self.rows)

    def row_power(self, rows: Rows) -> Power:
        """The power of a chunk of rows, in a shape that broadcasts against its sites."""
        if rows.power is None:
            return self.power
        return rows.power if rows.blocked else rows.power[:, None]

    def site_power(self, rows: Rows) -> Power:
        """The power of the sites, which is what a cavity leaves out of them."""
        at_cavity = self.evaluation_point is EvaluationPoint.CAVITY
        return self.row_power(rows) if at_cavity else 0.0

    # ---- messages, and the energy

    def empty_sites(self) -> Stores:
        """The stores that a search starts from, one per edge."""
        return tuple(edge.slots.empty(edge.view, self.rows) for edge in self.edges)

    def messages(self, variables: Sequence[AbstractVariable], sites: Stores) -> Sent:
        """The messages of all sites to the variables."""

        def chunk_messages(chunk: tuple[Rows, Stores]) -> tuple[Any, ...]:
            rows, row_sites = self.carrying(chunk[0]), chunk[1]
            return tuple(
                cast(AbstractSiteView, edge.view).messages(
                    variables[edge.variable], rows, edge.own_sites(rows, site)
                )
                for edge, site in zip(self.edges, row_sites, strict=True)
                if edge.slots.private
            )

        tied = [
            (edge.variable, edge.slots.message(store))
            for edge, store in zip(self.edges, sites, strict=True)
            if not edge.slots.private
        ]
        total = sum_over_rows(chunk_messages, (self.rows, self.row_sites(sites)), self.chunk)
        private = [edge.variable for edge in self.edges if edge.slots.private]
        sent = ((variable, message) for variable, message in tied if message is not None)
        return (*zip(private, total, strict=True), *sent)

    def log_scale(
        self,
        q: Beliefs,
        sites: Stores,
        fixed: EdgeMoments | None = None,
        *,
        settled: bool = False,
    ) -> Scalar:
        """The log scales of all sites, in nats.

        Args:
            q: the beliefs at these sites.
            sites: the sites.
            fixed: moments to form the cavities from in place of the beliefs' own.
            settled: whether the sites are at a fixed point, where nothing is differentiated
                through the moments of the beliefs.
        """
        sources = self._sources(q, sites)

        def chunk_log_scale(chunk: tuple[Rows, Stores, EdgeMoments | None]) -> Array:
            rows, row_sites, moments = self.carrying(chunk[0]), *chunk[1:]
            marginals = self._marginals(rows, sources, row_sites, moments)
            if settled and self.stationary:
                pairs = zip(self.edges, marginals, strict=True)
                marginals = tuple(m.held() if e.slots.private else m for e, m in pairs)
            latents, proper = self._latents(rows, row_sites, marginals)
            total = self._log_mean(rows, latents)
            ratios = self._log_normaliser_ratios(rows, row_sites, marginals)
            for ratio, presence in zip(ratios, self._presence(rows), strict=True):
                total = total + jnp.sum(presence * jnp.where(proper, ratio, jnp.nan))
            return total

        chunks = (self.rows, self.row_sites(sites), fixed)
        whole = sum(e.slots.log_scale(s) for e, s in zip(self.edges, sources, strict=True))
        return whole + self.scale * sum_over_rows(chunk_log_scale, chunks, self.chunk)

    def update(self, q: Beliefs, sites: Stores, step: Power) -> SiteUpdate:
        """New sites, all moved in parallel the share `step` of the way to their match."""
        sources = self._sources(q, sites)
        return self._update(sites, step, sources=sources)

    # ---- what solvers and diagnostics ask of rows

    def moments(self, q: Beliefs) -> EdgeMoments:
        """The moments that all rows see through the edges."""

        def chunk_moments(rows: Rows) -> EdgeMoments:
            rows = self.carrying(rows)
            views = (edge.view.marginal(q[edge.variable], rows) for edge in self.edges)
            return tuple(marginal.moments for marginal in views)

        return map_over_rows(chunk_moments, self.rows, self.chunk)

    def update_at(self, fixed: EdgeMoments, sites: Stores, step: Power) -> SiteUpdate:
        """`update` from given moments."""
        return self._update(sites, step, fixed=fixed)

    def update_rows(
        self, rows: Rows, sites: Stores, marginals: tuple[AbstractMarginal, ...], step: Power
    ) -> tuple[Stores, Array, Array]:
        """`update` of a chunk of rows from their marginals: sites, residual, skipped."""
        cavities = self._cavities(rows, sites, marginals)
        latents, proper = self._latents(rows, sites, marginals)
        tilted = self.term.derivatives(latents, rows, self.row_power(rows))
        return update_sites(
            sites,
            marginals,
            [cavity[:2] for cavity in cavities],
            tilted,
            self._presence(rows),
            proper=proper,
            power=self.site_power(rows),
            step=step,
            centre_common_mode=self.common_mode,
        )

    def log_means(
        self, rows: Rows, sites: Stores, marginals: tuple[AbstractMarginal, ...]
    ) -> Scalar:
        """The log power means of a chunk of rows at their cavities, added up."""
        latents, _ = self._latents(rows, sites, marginals)
        return self._log_mean(rows, latents)

    def powered_density(self) -> PoweredDensity | None:
        """The density of which the rows' terms are powers, at cavities; None for other terms."""
        at_cavity = self.evaluation_point is EvaluationPoint.CAVITY
        powers = at_cavity and self.term.powers_density and not self.rows.blocked
        if not powers or len(self.edges) != 1:
            return None
        view = cast(AbstractProjectedView, self.edges[0].view)
        likelihood = cast(PowerMeanTerm, self.term).likelihood
        offset = view.project(self.rows).offset
        return PoweredDensity(likelihood, self.rows, self.row_power(self.rows), offset)

    def moment_changes(
        self, responses: Sequence[AbstractResponse], changes: Sequence[Any]
    ) -> EdgeMoments:
        """Changes of the moments that rows see, from changes of the beliefs."""

        def chunk_changes(rows: Rows) -> EdgeMoments:
            rows = self.carrying(rows)
            pairs = [(cast(AbstractProjectedView, e.view), e.variable) for e in self.edges]
            return tuple(view.moment_change(responses[i], changes[i], rows) for view, i in pairs)

        return map_over_rows(chunk_changes, self.rows, self.chunk)

    def log_joint(self, q: Beliefs, sites: Stores) -> Scalar:
        r"""Log of prior times likelihood at the mean, constants of the prior left out.

        By $\mathbf K^{-1} \mathbf m = \boldsymbol\nu - \mathbf T \mathbf m$, for likelihoods with
        one latent function.
        """
        sources = self._sources(q, sites)

        def chunk_log_joint(chunk: tuple[Rows, Stores]) -> Array:
            rows, row_sites = chunk
            marginals = self._marginals(rows, sources, row_sites, None)
            latents, _ = self._latents(rows, row_sites, marginals)
            log_mean = self.term.log_mean(latents, rows, self.row_power(rows))
            (site,), (marginal,) = row_sites, marginals
            mean, _ = marginal.moments
            quadratic = 0.5 * mean * (site.shift - site.precision * mean)
            return jnp.sum(rows.site_presence * (log_mean - quadratic))

        return sum_over_rows(chunk_log_joint, (self.rows, self.row_sites(sites)), self.chunk)

    def at_rows(
        self, sites: Stores, index: Int[Array, " B"], scale: Scalar | float
    ) -> tuple["LocalFactor", Stores]:
        """The factor and sites of some rows, each of which stands for `scale` rows."""
        part = LocalFactor(
            edges=tuple(Edge(e.variable, e.view, e.slots.at_rows(index)) for e in self.edges),
            rows=self.rows.take(index),
            chunk=index.shape[0],
            term=self.term,
            power=self.power,
            evaluation_point=self.evaluation_point,
            common_mode=self.common_mode,
            scale=scale,
        )
        pairs = zip(self.edges, sites, strict=True)
        return part, tuple(
            jax.tree.map(lambda x: x[index], store) if edge.slots.private else store
            for edge, store in pairs
        )

    def with_projections(self) -> "LocalFactor":
        """The factor with what its rows see at these parameters, computed once for all sweeps."""
        rows = holding_projections([edge.view for edge in self.edges], self.rows, self.chunk)
        return dataclasses.replace(self, rows=rows)

    # ---- one chunk of rows

    def carrying(self, rows: Rows) -> Rows:
        """The rows with cached projections that several edges share."""
        return with_projections([edge.view for edge in self.edges], rows)

    def row_sites(self, sites: Stores) -> Stores:
        """The site of every row, per edge; None where rows share one."""
        return tuple(e.slots.row_sites(store) for e, store in zip(self.edges, sites, strict=True))

    def _presence(self, rows: Rows) -> tuple[Array, ...]:
        return tuple(edge.view.presence(rows) for edge in self.edges)

    def _sources(self, q: Beliefs, sites: Stores) -> tuple[Any, ...]:
        power = self.power if self.evaluation_point is EvaluationPoint.CAVITY else 0.0
        return tuple(
            edge.slots.source(store, q[edge.variable], power)
            for edge, store in zip(self.edges, sites, strict=True)
        )

    def _marginals(
        self,
        rows: Rows,
        sources: tuple[Any, ...],
        sites: Stores,
        fixed: EdgeMoments | None,
    ) -> tuple[AbstractMarginal, ...]:
        """The marginals that rows see: of the sources, or with fixed moments."""
        if fixed is not None:
            pairs = zip(self.edges, fixed, strict=True)
            return tuple(edge.view.at(moments, rows) for edge, moments in pairs)
        own = (
            site if e.slots.private else None for e, site in zip(self.edges, sites, strict=True)
        )
        triples = zip(self.edges, sources, own, strict=True)
        return tuple(edge.view.marginal(source, rows, site) for edge, source, site in triples)

    def _visible(self, marginal: AbstractMarginal) -> Moments:
        """The moments that sites and the term are evaluated at."""
        mean, var = marginal.moments
        at_mode = self.evaluation_point is EvaluationPoint.MODE
        return mean, jnp.zeros_like(var) if at_mode else var

    def _cavities(
        self, rows: Rows, sites: Stores, marginals: tuple[AbstractMarginal, ...]
    ) -> list[tuple[Array, Array, Array]]:
        """Mean and variance of the cavities, and whether they are proper."""
        power = self.site_power(rows)
        triples = zip(self.edges, sites, marginals, strict=True)
        return [edge.slots.cavity(site, self._visible(m), power) for edge, site, m in triples]

    def _latents(
        self, rows: Rows, sites: Stores, marginals: tuple[AbstractMarginal, ...]
    ) -> tuple[tuple[Any, ...], Array]:
        """Distributions that the term is evaluated under; True where all cavities are proper."""
        cavities = self._cavities(rows, sites, marginals)
        pairs = zip(marginals, cavities, strict=True)
        latents = tuple(marginal.latent(mean, var) for marginal, (mean, var, _) in pairs)
        return latents, all_proper([proper for _, _, proper in cavities])

    def _log_mean(self, rows: Rows, latents: tuple[Any, ...]) -> Scalar:
        """The log means of the terms of observed outputs, added up."""
        log_mean = self.term.log_mean(latents, rows, self.row_power(rows))
        observed = rows.site_presence
        if self.term.joint:
            observed = jnp.max(observed, axis=1, keepdims=True)
        return jnp.sum(observed * log_mean)

    def _log_normaliser_ratios(
        self, rows: Rows, sites: Stores, marginals: tuple[AbstractMarginal, ...]
    ) -> list[Array]:
        power = self.site_power(rows)
        triples = zip(self.edges, sites, marginals, strict=True)
        return [
            edge.slots.log_normaliser_ratio(site, self._visible(m), power)
            for edge, site, m in triples
        ]

    def _update(
        self,
        sites: Stores,
        step: Power,
        *,
        sources: tuple[Any, ...] = (),
        fixed: EdgeMoments | None = None,
    ) -> SiteUpdate:
        def chunk_update(chunk: tuple[Rows, Stores, EdgeMoments | None]) -> tuple:
            rows, row_sites, moments = self.carrying(chunk[0]), *chunk[1:]
            marginals = self._marginals(rows, sources, row_sites, moments)
            new, residual, skipped = self.update_rows(rows, row_sites, marginals, step)
            pairs = zip(row_sites, marginals, strict=True)
            scale = tuple(None if s is None else s.fisher_scale(m.moments[1]) for s, m in pairs)
            count = rows.y.shape[0]
            return new, jnp.full(count, residual), jnp.full(count, skipped / count), scale

        chunks = (self.rows, self.row_sites(sites), fixed)
        new, residual, skipped, scale = map_over_rows(chunk_update, chunks, self.chunk)
        moves = tuple(edge.slots.private for edge in self.edges)
        triples = list(zip(moves, new, scale, sites, strict=True))
        moved = tuple(site if moves else old for moves, site, _, old in triples)
        units = tuple(
            each if moves else jax.tree.map(jnp.ones_like, old) for moves, _, each, old in triples
        )
        return SiteUpdate(moved, jnp.max(residual), jnp.sum(skipped), units)
