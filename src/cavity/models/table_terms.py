"""Terms of the rows of a table: a regression with Gaussian noise, or a local factor."""

from typing import NamedTuple

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.factors.base import Edge
from cavity.inference.factors.exact import ExactRegression
from cavity.inference.factors.local import LocalFactor
from cavity.inference.graph.rows import Rows
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Scalar


class TableTerms(NamedTuple):
    """The terms of a table, of which there is one.

    Attributes:
        regressions: of Gaussian noise, where the approximation has closed forms.
        factors: of any other likelihood.
    """

    regressions: tuple[ExactRegression, ...]
    factors: tuple[LocalFactor, ...]


def table_terms(
    likelihood: AbstractLikelihood,
    approximation: AbstractApproximation,
    edges: tuple[Edge, ...],
    rows: Rows,
    power: Power,
    chunk: int,
    *,
    full: bool,
    common_mode: bool = False,
    scale: Scalar | float = 1.0,
) -> TableTerms:
    """The terms of the rows of a table.

    Args:
        likelihood: the density of an output given its functions.
        approximation: what stands in its place.
        edges: to the variables of the functions.
        rows: the data.
        power: the power of all rows.
        chunk: rows worked on at a time.
        full: whether rows see their functions without residual.
        common_mode: as of `LocalFactor`.
        scale: rows of the whole table for each row.
    """
    noise = capability(likelihood, GaussianInLatent)
    if approximation.closed_form and noise is not None:
        volume = None if full else approximation.volume
        exact = ExactRegression(edges, rows, chunk, noise.noise_variance, power, volume)
        return TableTerms((exact,), ())
    local = LocalFactor(
        edges=edges,
        rows=rows,
        chunk=chunk,
        term=approximation.term(likelihood, exact=full),
        power=power,
        evaluation_point=approximation.evaluation_point,
        common_mode=common_mode,
        scale=scale,
    )
    return TableTerms((), (local,))
