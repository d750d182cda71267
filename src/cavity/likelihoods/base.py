"""What a likelihood is."""

import abc

import equinox as eqx

from cavity.numerics.summary import table
from cavity.numerics.types import Array, Float


class AbstractPredictive(eqx.Module):
    """The predictive distribution of outputs, one per row (and output).

    To implement:
        fields `mean` and `var`, `log_density(y)` and `quantile(p)`.
    """

    mean: eqx.AbstractVar[Float[Array, "..."]]
    var: eqx.AbstractVar[Float[Array, "..."]]

    @abc.abstractmethod
    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Log predictive density of y, in nats per unit of y, entry by entry."""

    @abc.abstractmethod
    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        """The values below which y falls with probability p; a leading axis for several p."""


class AbstractLikelihood(eqx.Module):
    r"""$p(y \mid f)$ for one datum.

    To implement:
        `log_prob(f, y)`, `log_power_mean(...)` and `predictive(mean, var)`. Parameters are
        declared as in kernels. A likelihood that is Gaussian in f can offer `precision`, and
        is then an exact factor.
    """

    def __str__(self) -> str:
        return table(self)

    @abc.abstractmethod
    def log_prob(
        self, f: Float[Array, "..."], y: Float[Array, "..."], noise: Float[Array, "..."] | None
    ) -> Float[Array, "..."]:
        """Log density of y given the latent value, in nats.

        Args:
            f: latent values.
            y: outputs.
            noise: noise variances of the rows where they are known, else None.
        """

    @abc.abstractmethod
    def log_power_mean(
        self,
        mean: Float[Array, "..."],
        var: Float[Array, "..."],
        y: Float[Array, "..."],
        noise: Float[Array, "..."] | None,
        power: float | Float[Array, "..."],
    ) -> Float[Array, "..."]:
        r"""$\log M_a = \tfrac1a \log \mathbb E_{\mathcal N(f; m, v)}[p(y \mid f)^a]$, elementwise.

        At power 0 this is the limit, $\mathbb E[\log p(y \mid f)]$.
        """

    @abc.abstractmethod
    def predictive(
        self,
        mean: Float[Array, "..."],
        var: Float[Array, "..."],
        noise: Float[Array, "..."] | None = None,
    ) -> AbstractPredictive:
        """The predictive distribution of y where f has these marginals."""
