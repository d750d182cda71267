"""Outputs that are missing in different places, against one dense problem for each output."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference.energy import empty_sites
from cavity.inference.graph.sites import ScalarSites
from tests.equivalence.problem import (
    JITTER,
    ROWS,
    SWEEPS,
    energy_and_gradient,
    energy_at,
    laid_out,
    problem,
)
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(8)
WHOLE = RANDOM.normal(size=(ROWS, 2))
HOLES = WHOLE.copy()
HOLES[[0, 4, 5], 0] = np.nan
HOLES[[2, 5], 1] = np.nan
CASES = {
    "exact-whole": (cavity.PowerEP(), WHOLE),
    "exact-holes": (cavity.PowerEP(), HOLES),
    "swept-holes": (SWEEPS, HOLES),
}


def dense_evidence(p, y, power):
    """The sum over outputs of the evidence of their observed rows, in plain numpy."""
    total = 0.0
    for column in y.T:
        seen = ~np.isnan(column)
        alone = p.but(X=p.X[seen], y=column[seen])
        total += alone.exact() if p.Z is None else alone.oracle(power)
    return total


@pytest.mark.parametrize(("method", "y"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("full", [False, True], ids=["sparse", "full"])
def test_every_output_has_rows_of_its_own(full, method, y):
    """The evidence, and its slopes in the two parameters that all outputs share."""
    p = problem(lengthscale=0.9)
    p = p.but(Z=None) if full else p
    value, slope = energy_and_gradient(
        p.model, p.X, y, method, jitter=0.0 if full else JITTER, power=0.5, missing="skip"
    )
    assert_close(-value, dense_evidence(p, y, 0.5), "factorised")

    def at(log_variance, log_noise):
        other = p.but(
            variance=p.variance * np.exp(log_variance), noise=p.noise * np.exp(log_noise)
        )
        return dense_evidence(other, y, 0.5)

    h = 1e-4
    by_variance = (at(h, 0.0) - at(-h, 0.0)) / (2.0 * h)
    by_noise = (at(0.0, h) - at(0.0, -h)) / (2.0 * h)
    # the optimiser's coordinates are logarithms: of the variance, the lengthscale, the noise
    assert_close(-slope[[0, 2]], [by_variance, by_noise], "gradient")


def test_sites_of_absent_outputs_count_for_nothing():
    """Whatever they are: a fit begins from sites that rows had when they were observed."""
    p = problem()
    graph, _ = laid_out(p.model, p.X, HOLES, SWEEPS, power=0.5, missing="skip")
    ((store,),) = empty_sites(graph)
    ((presence,),) = (factor.site_presence for factor in graph.factors)
    shift = jnp.where(presence > 0.0, store.shift, 0.3)
    precision = jnp.where(presence > 0.0, store.precision, 0.2)
    other = jax.tree.map(jnp.asarray, ScalarSites(shift, precision))
    assert_close(energy_at(graph, ((other,),)), energy_at(graph, ((store,),)))
