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
    """Log predictive density of every output given all others, of regressions and local factors.

    NaN where the cavity is not a proper Gaussian. None for blocks, whose rows share a site. Bounds
    over an order have none.

    References:
        Jylanki (2013), S24 and identity 19.
    """
    pairs = zip(graph.factors, graph.split(sites)[0], strict=True)
    own = (factor.leave_one_out(q, store) for factor, store in pairs)
    return (*(regression.leave_one_out(q) for regression in graph.regressions), *own)


def site_precisions(
    graph: Graph, sites: Sites, q: Beliefs
) -> tuple[tuple[Float[Array, "N P"], ...] | None, ...]:
    """The precision of every row's site on each latent function, likewise.

    None where rows have no scalar sites on functions: in blocks, and of dependent classes.
    """
    pairs = zip(graph.factors, graph.split(sites)[0], strict=True)
    own = (factor.site_precisions(q, store) for factor, store in pairs)
    return (*(regression.site_precisions(q) for regression in graph.regressions), *own)
