"""What a likelihood is, and all that follows from its density."""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.likelihoods.predictive.latent import AbstractPredictive, Side, grid_predictive
from cavity.likelihoods.support import Support
from cavity.numerics import quadrature
from cavity.numerics.chunking import map_over_entries
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Landmark, Measure, Tilted
from cavity.numerics.types import Array, Bool, Float, PRNGKeyArray
from cavity.parameters.table import table

NONE: Side = {}


class Bound(NamedTuple):
    r"""$\exp(c + s (f - f_0) - \tfrac12 \tau (f - f_0)^2)$, below a density everywhere.

    Attributes:
        centre: $f_0$.
        slope: $s$.
        precision: $\tau$.
        constant: $c$.
    """

    centre: Float[Array, "..."]
    slope: Float[Array, "..."]
    precision: Float[Array, "..."]
    constant: Float[Array, "..."]


class AbstractLikelihood(eqx.Module):
    r"""$p(y \mid f)$ for one datum, with a scalar latent value.

    Power means and tilted moments for every power, and predictive distributions, follow from the
    density by quadrature.

    To implement:
        `support`, what outputs may be, and `log_prob(f, y)`. Parameters are declared as in
        kernels. `landmarks` makes the quadrature sharp, `analytic_strip` fast; closed forms
        override `log_power_mean`, `tilted` and `predictive`. Where the default does not fit,
        `guess` and, of labels, `classes` are overridden too.

    Attributes:
        support: what outputs may be.
        side: names of the side data that `log_prob` takes as keywords.
        log_concave: whether the density is log-concave in f for every y; sites then never have
            negative precisions.
        smooth: whether the log density has two derivatives in f everywhere.
        couples: whether inference may leave several latent functions dependent.
        differences: whether the density depends on differences of latent functions alone.
        opens: whether the density is analytic, and not much larger than on the real line, within
            45 degrees of it from a centre where it is as wide as `analytic_strip` says.
        mixes_scales: whether the density is a mixture of Gaussians about f over their variance,
            which `draw_variance` then draws.
    """

    support: eqx.AbstractClassVar[Support]
    side: ClassVar[tuple[str, ...]] = ()
    log_concave: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    couples: ClassVar[bool] = False
    differences: ClassVar[bool] = False
    analytic_in_cone: ClassVar[bool] = False
    mixes_scales: ClassVar[bool] = False

    @property
    def latents(self) -> int:
        """Latent functions that an output depends on.

        With several, means and variances of f have them along a first axis.
        """
        return 1

    def sampled(self, power: Power) -> bool:
        """Whether moments are averages over points, whose curvature may have any sign."""
        return False

    def __str__(self) -> str:
        return table(self)

    @abc.abstractmethod
    def log_prob(
        self, f: Float[Array, "..."], y: Float[Array, "..."], **side: Any
    ) -> Float[Array, "..."]:
        """Log density of y given the latent value, in nats.

        Args:
            f: latent values.
            y: outputs, within the support.
            **side: side data of the rows.
        """

    def landmarks(
        self,
        mean: Float[Array, "..."],
        var: Float[Array, "..."],
        y: Float[Array, "..."],
        power: Power,
        **side: Any,
    ) -> tuple[Landmark, ...] | None:
        """Where in f the density has features: pairs of a centre and a width; None to search.

        Args:
            mean: mean of the Gaussian that the density is integrated against.
            var: its variance.
            y: outputs.
            power: the power that the density is raised to.
            **side: side data of the rows.
        """
        return None

    def analytic_strip(self, y: Float[Array, "..."], **side: Any) -> Landmark | None:
        """Where in f the density has its features, and how far from there it is smooth.

        A centre, and half the width of the strip around the real line in which the density is
        analytic and not much larger than on the line; quadrature is quicker where cavities are
        not much wider than that. None where nothing is known.

        Args:
            y: outputs.
            **side: side data of the rows.
        """
        return None

    @property
    def has_bound(self) -> bool:
        """Whether there is a Gaussian lower bound of the density, `bound`."""
        return False

    def bound(
        self,
        mean: Float[Array, "..."],
        var: Float[Array, "..."],
        y: Float[Array, "..."],
        **side: Any,
    ) -> Bound:
        """The Gaussian lower bound with the largest expected logarithm under N(f; mean, var).

        Raises:
            NotImplementedError: where there is none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no Gaussian lower bound")

    def draw_variance(self, key: PRNGKeyArray, residual: Float[Array, " N"]) -> Float[Array, " N"]:
        """A draw of the variance of each row's noise given the noise itself.

        Args:
            key: a random key.
            residual: y minus f.

        Raises:
            NotImplementedError: where noise is no mixture of Gaussians (`mixes_scales`).
        """
        raise NotImplementedError(f"{type(self).__name__} is no mixture of Gaussians")

    @property
    def classes(self) -> int:
        """The number of classes, where outputs are labels."""
        return 2

    def accepts(self, y: Float[Array, "..."]) -> Bool[Array, "..."]:
        """Whether each value is a possible output."""
        inside = self.support.contains(y)
        return inside & (y < self.classes) if self.support is Support.LABELS else inside

    @property
    def accepted(self) -> str:
        """What outputs may be, in words."""
        if self.support is not Support.LABELS:
            return self.support.value
        return f"the labels 0 {'and' if self.classes == 2 else 'to'} {self.classes - 1}"

    def guess(self, y: np.ndarray, **side: Any) -> np.ndarray:
        """Rough latent values that would give these outputs, for starting values.

        Args:
            y: outputs, (N,).
            **side: side data of the rows.
        """
        if self.support is Support.POSITIVE:
            return np.log(y)
        if self.support is Support.UNIT:
            return np.log(y) - np.log1p(-y)
        if self.support is Support.COUNTS:
            return np.log(y + 0.5)
        if self.support is Support.LABELS:
            # the log odds of the classes, and a unit to either side
            share = np.clip(np.mean(y), 0.5 / len(y), 1.0 - 0.5 / len(y))
            return np.log(share) - np.log1p(-share) + 2.0 * (y - np.mean(y))
        return y

    def log_power_mean(
        self,
        mean: Float[Array, "..."],
        var: Float[Array, "..."],
        y: Float[Array, "..."],
        power: Power,
        side: Side = NONE,
    ) -> Float[Array, "..."]:
        r"""$\log M_a = \tfrac1a \log \mathbb E_{\mathcal N(f; m, v)}[p(y \mid f)^a]$, elementwise.

        At power 0 this is the limit, $\mathbb E[\log p(y \mid f)]$.
        """
        return _log_power_mean((self, y, side), power, *jnp.broadcast_arrays(mean, var))

    def tilted(
        self,
        mean: Float[Array, "..."],
        var: Float[Array, "..."],
        y: Float[Array, "..."],
        power: Power,
        side: Side = NONE,
    ) -> Tilted:
        r"""$\log M_a$ with its slope and curvature in the mean, elementwise.

        Rows are taken a few at a time: their nodes stay in the processor's cache, and many of
        them only rows that need them get.
        """

        def part(rows: tuple[Array, Array, Array, dict[str, Array], dict[str, Array]]) -> Tilted:
            mean, var, y, side, own = rows
            raised = own.get("power", power)

            def from_nodes(measure: Measure) -> Tilted:
                value = self.log_prob(measure.nodes, y, **side)
                return quadrature.tilted_moments(value, measure, mean, var, raised)

            return self._by_quadrature(from_nodes, mean, var, y, raised, side, quadrature.EVEN)

        rows = jnp.broadcast_arrays(mean, var, y)
        own = {"power": power} if jnp.ndim(power) else {}
        beside = jax.tree.map(lambda x: jnp.broadcast_to(x, rows[0].shape), (dict(side), own))
        return map_over_entries(part, (*rows, *beside))

    def _by_quadrature(
        self,
        from_nodes: Callable[[Measure], Any],
        mean: Array,
        var: Array,
        y: Array,
        power: Power,
        side: Side,
        counts: Sequence[int],
    ) -> Any:
        """What a function makes of nodes: as few as do for all entries."""
        mean, var, y = jnp.broadcast_arrays(mean, var, y)

        def graded() -> Any:
            return from_nodes(self.measure(mean, var, y, power, side))

        where = self.analytic_strip(y, **side)

        def even(counts: Sequence[int]) -> Any:
            if where is None or not counts:
                return graded()
            stretched = self.analytic_in_cone and counts[0] > quadrature.EVEN[0]
            rule = functools.partial(quadrature.even_measure, stretched=stretched)
            measure, fine = rule(mean, var, *where, counts[0])
            return jax.lax.cond(fine, lambda: from_nodes(measure), lambda: even(counts[1:]))

        return even(counts)

    def measure(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Measure:
        """Nodes that resolve the Gaussian and the density at these outputs."""
        mean, var, y = jnp.broadcast_arrays(mean, var, y)
        at = jax.tree.map(jax.lax.stop_gradient, (self, mean, var, y, side))
        likelihood, m, v, observed, given = at
        marks = likelihood.landmarks(m, v, observed, power, **given)
        if marks is not None:
            edges = quadrature.landmark_edges(m, v, marks)
        else:
            density = lambda f: likelihood.log_prob(f, observed, **given)  # noqa: E731
            edges = quadrature.searched_edges(density, m, v, power)
        return quadrature.gaussian_measure(mean, var, edges)

    def predictive(
        self, mean: Float[Array, "..."], var: Float[Array, "..."], side: Side = NONE
    ) -> AbstractPredictive:
        """The predictive distribution of y where f has these marginals."""
        return grid_predictive(self, mean, var, side)


def _by_nodes(given: tuple, power: Power, mean: Array, var: Array) -> Array:
    """The log power mean of a likelihood at outputs with side data, by quadrature."""
    likelihood, y, side = given

    def from_nodes(measure: Measure) -> Array:
        value = likelihood.log_prob(measure.nodes, y, **side)
        return quadrature.log_power_mean(value, measure.log_weight, power)

    few = quadrature.EVEN[:1]
    return likelihood._by_quadrature(from_nodes, mean, var, y, power, side, few)


_log_power_mean = eqx.filter_custom_jvp(_by_nodes)


@_log_power_mean.def_jvp
def _log_power_mean_jvp(at: tuple, by: tuple) -> tuple[Array, Array]:
    """Moments are what derivatives in mean and variance need; nodes, those in anything else.

    By the heat equation a variance does half of what two derivatives in the mean do.
    """
    given, power, mean, var = at
    *others, d_mean, d_var = by
    if jax.tree.leaves(others):
        moves = jax.tree.map(lambda x: x is not None, by, is_leaf=lambda x: x is None)
        moved, still = eqx.partition(at, moves)
        return jax.jvp(lambda moved: _by_nodes(*eqx.combine(moved, still)), (moved,), (by,))
    likelihood, y, side = given
    found = AbstractLikelihood.tilted(likelihood, mean, var, y, power, side)
    change = jnp.zeros_like(found.log_mean)
    if d_mean is not None:
        change = change + found.slope * d_mean
    if d_var is not None:
        change = change + 0.5 * (found.curvature + power * found.slope**2) * d_var
    return found.log_mean, change
