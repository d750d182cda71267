"""Counts: Poisson, and negative binomial for overdispersed ones."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import betainc, gammaincc, gammaln, ndtr

from cavity.likelihoods.by_quadrature import AbstractQuadratureLikelihood
from cavity.likelihoods.log_link import AbstractLogLinear, capped_exp, log_link_moments
from cavity.likelihoods.support import Support
from cavity.numerics.power_limits import Power, log1p_ratio
from cavity.numerics.quadrature import Feature
from cavity.numerics.special import LOG_2PI
from cavity.numerics.tilted_mode import tilted_mode
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.parameters import positive


@dataclasses.dataclass(frozen=True)
class CountSettings:
    """Thresholds above which asymptotic expansions replace special functions.

    Attributes:
        uniform: counts (and shape) above which distribution functions use their expansion.
        stirling: shape above which differences of log gamma functions use Stirling's series.
    """

    uniform: float = 300.0
    stirling: float = 30.0


SETTINGS = CountSettings()


class Poisson(AbstractLogLinear):
    r"""Poisson counts, $p(y \mid f) = \mu^y e^{-\mu} / y!$ with $\mu = e\, e^f$.

    The exposure e, such as a time or a population, is side data of the rows
    (`rows={"exposure": ...}`), 1 where there is none. The variance of the counts is their mean:
    for overdispersed counts, `NegativeBinomial` is the better model.

    References:
        Rasmussen and Williams (2006), section 3.3; McCullagh and Nelder (1989), section 6.2.
    """

    support: ClassVar[Support] = Support.COUNTS
    side: ClassVar[tuple[str, ...]] = ("exposure",)
    sign: ClassVar[float] = 1.0

    def terms(
        self, y: Float[Array, "..."], *, exposure: Array | float = 1.0, **side: Array
    ) -> tuple[Array, Array, Array]:
        log_exposure = jnp.log(jnp.asarray(exposure, y.dtype))
        return y * log_exposure - gammaln(y + 1.0), y, log_exposure

    def cdf(self, y: Array, f: Array, *, exposure: Array | float = 1.0, **side: Array) -> Array:
        """Probability that the output is at most y given f."""
        rate = exposure * capped_exp(f)
        exact = gammaincc(jnp.clip(jnp.floor(y) + 1.0, 1.0, SETTINGS.uniform), rate)
        return _cdf(y, rate, 0.0, exact, y)

    def predictive_moments(
        self, mean: Array, var: Array, *, exposure: Array | float = 1.0, **side: Array
    ) -> tuple[Array, Array]:
        return log_link_moments(mean, var, linear=1.0, square=0.0, scale=exposure)

    def sample(
        self, key: PRNGKeyArray, f: Array, *, exposure: Array | float = 1.0, **side: Array
    ) -> Array:
        return sample_counts(key, exposure * capped_exp(f))


class NegativeBinomial(AbstractQuadratureLikelihood):
    r"""Overdispersed counts (negative binomial) with mean $\mu = e\, e^f$.

    $$p(y \mid f) = \frac{\Gamma(y + 1/d)}{\Gamma(1/d)\, y!}
    \frac{(d \mu)^y}{(1 + d \mu)^{y + 1/d}}$$

    The variance is $\mu + d \mu^2$; as the dispersion d tends to 0 the counts are Poisson. The
    exposure e is side data of the rows (`rows={"exposure": ...}`), 1 where there is none.

    Args:
        dispersion: d.

    References:
        Cameron and Trivedi (2013), Regression Analysis of Count Data, section 3.3 (NB2).
    """

    dispersion: Float[Array, ""] = positive()

    support: ClassVar[Support] = Support.COUNTS
    side: ClassVar[tuple[str, ...]] = ("exposure",)
    log_concave: ClassVar[bool] = True

    def __init__(self, dispersion: Any = 0.5):
        self.dispersion = dispersion

    def log_prob(
        self,
        f: Float[Array, "..."],
        y: Float[Array, "..."],
        *,
        exposure: Array | float = 1.0,
        **side: Array,
    ) -> Float[Array, "..."]:
        d = self.dispersion
        t = f + jnp.log(jnp.asarray(exposure, f.dtype))
        growth = jax.nn.softplus(t + jnp.log(d))
        # log Γ(y + 1/d)/Γ(1/d) dʸ + y log μ - (y + 1/d) log(1 + dμ)
        return _rising(y, d) - gammaln(y + 1.0) + y * (t - growth) - growth / d

    def features(
        self,
        mean: Array,
        var: Array,
        y: Array,
        power: Power,
        *,
        exposure: Array | float = 1.0,
        **side: Array,
    ) -> tuple[Feature, ...]:
        d, ones = self.dispersion, jnp.ones_like(mean)
        log_exposure = jnp.log(jnp.asarray(exposure, mean.dtype))
        a = jnp.maximum(power, 1e-6)
        # the peak of the powered density, or the edge of a wide peak
        count = jnp.maximum(y, 1.0 / a)
        width = jnp.minimum(jnp.sqrt((1.0 + d * count) / (a * count)), 1.0)

        def change(f: Array) -> Array:
            z = f + log_exposure + jnp.log(d)
            return y * jax.nn.sigmoid(-z) - jax.nn.sigmoid(z) / d

        peak = tilted_mode(change, mean, var, power)
        curvature = -(jnp.log(d) + log_exposure) * ones
        return ((jnp.log(count) - log_exposure) * ones, width * ones), (curvature, ones), peak

    def analytic_strip(self, y: Array, *, exposure: Array | float = 1.0, **side: Array) -> Feature:
        # off the real line it grows like a Gaussian about its peak
        centre = jnp.log(jnp.maximum(y, 0.5)) - jnp.log(jnp.asarray(exposure, y.dtype))
        width = jnp.sqrt(4.0 * (1.0 + self.dispersion * y) / jnp.maximum(y, 1.0))
        return centre, jnp.minimum(0.8, width)

    def cdf(self, y: Array, f: Array, *, exposure: Array | float = 1.0, **side: Array) -> Array:
        """Probability that the output is at most y given f."""
        d, mean = self.dispersion, exposure * capped_exp(f)
        size = jnp.minimum(1.0 / d, jnp.floor(y))
        small = jnp.where(size < SETTINGS.uniform, jnp.maximum(jnp.floor(y) + 1.0, 1.0), 1.0)
        return _cdf(y, mean, d, betainc(1.0 / d, small, 1.0 / (1.0 + d * mean)), size)

    def predictive_moments(
        self, mean: Array, var: Array, *, exposure: Array | float = 1.0, **side: Array
    ) -> tuple[Array, Array]:
        return log_link_moments(mean, var, linear=1.0, square=self.dispersion, scale=exposure)

    def sample(
        self, key: PRNGKeyArray, f: Array, *, exposure: Array | float = 1.0, **side: Array
    ) -> Array:
        rates, counts = jax.random.split(key)
        d = self.dispersion
        gamma = d * jax.random.gamma(rates, 1.0 / d, f.shape, f.dtype)
        return sample_counts(counts, exposure * capped_exp(f) * gamma)


def sample_counts(key: PRNGKeyArray, rate: Array) -> Array:
    """Poisson counts with these rates, as floating-point numbers."""
    largest = 0.25 * jnp.iinfo(jax.dtypes.canonicalize_dtype(int)).max
    return jax.random.poisson(key, jnp.minimum(rate, largest)).astype(rate.dtype)


def _rising(y: Array, d: Array) -> Array:
    r"""$\log \Gamma(y + 1/d) - \log \Gamma(1/d) + y \log d$, accurate for every d > 0."""
    r = 1.0 / jnp.maximum(d, 1.0 / SETTINGS.stirling)
    direct = gammaln(y + r) - gammaln(r) - y * jnp.log(r)
    d = jnp.minimum(d, 1.0 / SETTINGS.stirling)
    # (r + y - ½) log(1 + yd) - y, and what Stirling's series has beyond
    series = log1p_ratio(d, y) - y + (y - 0.5) * jnp.log1p(y * d)
    series = series + _stirling(1.0 / d + y) - _stirling(1.0 / d)
    return jnp.where(d < 1.0 / SETTINGS.stirling, series, direct)


def _stirling(x: Array) -> Array:
    """log Γ(x) - (x - ½) log x + x - ½ log 2π for x of at least 30."""
    s = 1.0 / x**2
    return (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s / 1680.0))) / x


def _cdf(y: Array, mean: Array, d: Any, exact: Array, size: Array) -> Array:
    r"""The distribution function of counts, by a uniform expansion for large counts.

    $\Phi(w) + \phi(w) (1/w - 1/u)$ for $a = y + 1$, with
    $w^2/2 = a \log(a/\mu) - (a + 1/d) \log \frac{1 + d a}{1 + d \mu}$.

    Args:
        y: counts.
        mean: their mean.
        d: dispersion.
        exact: the values for small counts.
        size: the counts, or the shape 1/d where it is smaller.

    References:
        Temme (1996), Special Functions, sections 11.2.4 and 11.3.3.
    """
    a = jnp.maximum(jnp.floor(y) + 1.0, 1.0)
    mean = jnp.maximum(mean, 1e-300 if a.dtype == jnp.float64 else 1e-30)
    z = (a - mean) / (1.0 + d * mean)
    exponent = a * jnp.log1p((a - mean) / mean) - (1.0 + d * a) * log1p_ratio(d, z)
    w = jnp.sign(a - mean) * jnp.sqrt(2.0 * jnp.maximum(exponent, 0.0))
    u = z * jnp.sqrt((1.0 + d * a) / a)
    # the difference 1/w - 1/u loses its digits there
    is_small = jnp.abs(u) < float(jnp.finfo(a.dtype).eps) ** (1 / 7)
    limit = (d * a - 1.0) / (3.0 * jnp.sqrt(a * (1.0 + d * a)))
    safe_w, safe_u = (jnp.where(is_small | (x == 0.0), 1.0, x) for x in (w, u))
    extra: Any = jnp.where(is_small, limit, 1.0 / safe_w - 1.0 / safe_u)
    expansion = ndtr(w) + jnp.exp(-0.5 * (w**2 + LOG_2PI)) * extra
    value = jnp.where(size < SETTINGS.uniform, exact, jnp.clip(expansion, 0.0, 1.0))
    return jnp.where(y < 0.0, 0.0, value)
