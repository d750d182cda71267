"""Data that sites on states are not for: refused by name."""

from typing import cast

import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.approximations import AbstractApproximation, TiedPowerMeans
from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.chain import links_of
from cavity.numerics.text import plural


def check_method(approximation: AbstractApproximation, *, natural: bool) -> None:
    """Raises ValueError for a method that is none of state-space models.

    Args:
        approximation: what stands in the place of the likelihood terms.
        natural: whether tied sites move by natural gradients.
    """
    if natural:
        raise ValueError(
            "natural-gradient steps would leave the states where they are: leave natural=None"
        )
    at_cavity = approximation.evaluation_point is EvaluationPoint.CAVITY
    if not at_cavity:
        raise ValueError(
            "a state-space model needs method=cavity.PowerEP(), or cavity.TiedPowerEP() with one "
            "site for all terms of a state, which takes every likelihood and minibatches"
        )
    tied = cast(TiedPowerMeans, approximation)
    if approximation.tied and tied.hidden_sites:
        raise ValueError(
            "hidden_sites is for deep models: leave it out, or give input_sites=True for sites of "
            "rows on states"
        )
    wanted = approximation.tied and not tied.input_sites
    if approximation.hidden == "conditional" and not wanted:
        raise ValueError(
            'hidden="conditional" has one site for all rows on inducing variables: give '
            'method=cavity.TiedPowerEP(hidden="conditional")'
        )


def check_single_terms(rows: Rows) -> None:
    """Raises ValueError where at power 1 a state with one site for all its terms has one term.

    The cavity has then nothing of it: the energy does not depend on the site.
    """
    links = links_of(rows)
    linked, present = np.asarray(links.linked), np.asarray(links.present) > 0.0
    observed = np.asarray(jnp.max(rows.site_presence, axis=1))
    terms = linked + np.append(linked[1:], 0.0) + observed
    single = np.flatnonzero(present & (terms == 1.0))
    if single.size:
        raise ValueError(
            f"only one term touches the state of row {single[0]}, where there may be three: the "
            "transition from the row before, the transition to the next, and outputs. At power 1 "
            "nothing is left of it once its site is taken out: give a smaller power, such as 0.9"
        )


def check_last_states(rows: Rows, states: int) -> None:
    """Raises ValueError where at power 1 nothing is left for the last state of a series.

    A transition whose whole site is taken out leaves it with its outputs alone.
    """
    linked = np.asarray(links_of(rows).linked) > 0.0
    last = np.flatnonzero(linked & ~np.append(linked[1:], False))
    counts = np.sum(np.broadcast_to(rows.presence, rows.y.shape)[last] > 0.0, axis=1)
    for row, count in zip(last, counts, strict=True):
        if count < states:
            raise ValueError(
                f"at power 1 row {row}, the last of its series, needs an output for each of "
                f"{plural(states, 'state')}, and has {count}: nothing else observes its state "
                "without the site of its transition; give a smaller power, such as 0.9"
            )
