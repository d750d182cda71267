r"""Leave-one-out predictive densities, from the cavities, and the sites that make them.

Taking the whole of a row's site out of the posterior leaves what the other rows contribute, so
that $\log \mathbb E_{q / t_n}[p(y_n \mid f_n)]$ approximates
$\log p(y_n \mid \mathbf y_{-n})$. For the exact GP it is the closed form.
"""

from cavity.inference.energy import Beliefs, Graph, Sites
from cavity.numerics.types import Array, Float


def leave_one_out(
    graph: Graph, sites: Sites, q: Beliefs
) -> tuple[Float[Array, "N P"] | None, ...]:
    """Log predictive density of every output given all others, per factor.

    NaN where the cavity is not a proper Gaussian. None for blocks, whose rows share a site.

    References:
        Jylanki (2013), S24 and identity 19.
    """
    pairs = zip(graph.row_factors, sites, strict=True)
    return tuple(factor.leave_one_out(q, store) for factor, store in pairs)


def site_precisions(
    graph: Graph, sites: Sites, q: Beliefs
) -> tuple[tuple[Float[Array, "N P"], ...] | None, ...]:
    """The precision of every row's site on each latent function, per factor.

    None where rows have no scalar sites on functions: in blocks, and of dependent classes.
    """
    pairs = zip(graph.row_factors, sites, strict=True)
    return tuple(factor.site_precisions(q, store) for factor, store in pairs)
