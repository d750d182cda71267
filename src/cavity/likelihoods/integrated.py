"""Likelihoods whose parameters are integrated out: latent values that all rows share."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.likelihoods.base import AbstractLikelihood, LatentFunction
from cavity.likelihoods.predictive.base import NONE, AbstractPredictive, Side
from cavity.likelihoods.predictive.mixture import mixed_predictive
from cavity.likelihoods.support import Support
from cavity.numerics.integrated_out import NODES, ParameterNodes
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Tilted
from cavity.numerics.tree import named, with_named
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.parameters import Units, bijections, units
from cavity.parameters.gaussian_scale import GaussianScales


class Integrated(AbstractLikelihood):
    r"""A likelihood with one or two of its parameters integrated out.

    A parameter is one more latent value z, the same in all rows, with a Gaussian prior: the
    parameter itself where its prior is normal, its logarithm where that is log-normal. Each row
    has a site on it, as on its function. At power a

    $$M_a(m, v)^a = \int M_a(m, v; z)^a\, \mathcal N(z; m_z, v_z)\, dz$$

    with $M_a(m, v; z)$ the power mean of the likelihood given the parameter; nodes of z give it,
    and its derivatives. `cavity.fit` makes such likelihoods of parameters whose bijection is
    `cavity.parameters.INTEGRATED`.

    Args:
        likelihood: the likelihood; the values that it has for these parameters do not count.
        priors: prior of each parameter by its dotted name, a `Normal`,
            `LogNormal` or `LogitNormal`.

    Raises:
        ValueError: for other parameters than the likelihood's, more than two, those that are not
            one number, and other priors.

    References:
        Jylanki (2013), S90, S102, S116 and S122.
    """

    likelihood: AbstractLikelihood
    scales: GaussianScales

    def __init__(self, likelihood: AbstractLikelihood, priors: Mapping[str, Any]):
        found = {name: np.shape(value) for name, value in named(likelihood).items()}
        for name in priors:
            if found.get(name) != ():
                raise ValueError(
                    f"{type(likelihood).__name__} has no parameter {name} that is one number: "
                    f"integrate one of {', '.join(n for n, shape in found.items() if not shape)}"
                )
        if len(priors) not in NODES:
            raise ValueError(
                f"one or two parameters of a likelihood can be integrated, given {len(priors)}: "
                "cavity.integrate takes more"
            )
        self.likelihood = likelihood
        self.scales = GaussianScales.from_priors(priors, named(bijections(likelihood)))

    @property
    def support(self) -> Support:  # type: ignore[override]
        return self.likelihood.support

    @property
    def side(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.likelihood.side

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        return self.likelihood.smooth

    @property
    def classes(self) -> Any:
        """The number of classes, of likelihoods of labels alone."""
        return getattr(self.likelihood, "classes")  # noqa: B009

    @property
    def latent_functions(self) -> tuple[LatentFunction, ...]:  # type: ignore[override]
        measured = named(units(self.likelihood))
        scales = self.scales
        own = tuple(
            LatentFunction(
                name if kind == "real" else f"{kind} {name}",
                measured[name] if kind == "real" else Units(),
                measured[name].output if kind == "log" else 0,
                prior=(scales.location[i], scales.deviation[i]),
            )
            for i, (name, kind) in enumerate(zip(scales.names, scales.kinds, strict=True))
        )
        return self.likelihood.latent_functions + own

    def given(self, z: Float[Array, "k ..."]) -> AbstractLikelihood:
        """The likelihood given its parameters, on the scale where their priors are Gaussian."""
        return with_named(self.likelihood, self.scales.values(z))

    def holding(self) -> "Integrated":
        """The likelihood with priors that are all but points at the values that it has."""
        held = self.scales.held_at(named(self.likelihood))
        return eqx.tree_at(lambda likelihood: likelihood.scales, self, held)

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        own, z = self._split(f)
        return self.given(z).log_prob(own, y, **side)

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        m, v, nodes = self._parts(mean, var)
        return nodes.log_power_mean(
            lambda z: self.given(z).log_power_mean(m, v, y, power, side), power
        )

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        m, v, nodes = self._parts(mean, var)
        own, others = nodes.tilted(lambda z: self.given(z).tilted(m, v, y, power, side), power)
        every = (own, *others)
        shape = (-1, *own.log_mean.shape)
        slope, curvature = (
            jnp.concatenate([jnp.reshape(x, shape) for x in part])
            for part in ([t.slope for t in every], [t.curvature for t in every])
        )
        return Tilted(own.log_mean, slope, curvature)

    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> AbstractPredictive:
        m, v, nodes = self._parts(mean, var)
        draws = jax.lax.map(lambda z: self.given(z).predictive(m, v, side), nodes.nodes)
        log_share = jax.nn.log_softmax(nodes.log_weight, axis=0)
        return mixed_predictive(self.likelihood, draws, log_share)

    def sample(self, key: PRNGKeyArray, f: Array, **side: Array) -> Array:
        """One output for every latent value, drawn independently."""
        own, z = self._split(f)
        return getattr(self.given(z), "sample")(key, own, **side)  # noqa: B009

    def _split(self, x: Array) -> tuple[Array, Array]:
        """Split into the rows' functions and the parameters."""
        count = self.likelihood.latents
        return (x[0] if count == 1 else x[:count]), x[count:]

    def _parts(self, mean: Array, var: Array) -> tuple[Array, Array, ParameterNodes]:
        """Moments of the functions of rows, and nodes of the parameters."""
        (m, mean_z), (v, var_z) = self._split(mean), self._split(var)
        return m, v, ParameterNodes.about(tuple(mean_z), tuple(var_z))
