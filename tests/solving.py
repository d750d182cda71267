"""Problems and their sites by the package's inner functions, as several tests need them."""

import jax.numpy as jnp

from cavity.inference.energy import empty_sites
from cavity.inference.problem import has_sites
from cavity.inference.solvers.driver import Limits
from cavity.inference.solvers.parallel import Parallel
from cavity.numerics.power_limits import frozen


def problem_of(model, data, method, jitter=0.0):
    """The problem of a model on prepared data."""
    return data.problem(model, method.approximation, jitter)


def build_graph(model, data, method, jitter):
    """The model's graph on prepared data."""
    return problem_of(model, data, method, jitter).graph()


def no_sites(model, data, method):
    """Sites of precision zero."""
    return problem_of(model, data, method).empty_sites()


def swept(graph, method, sites=None):
    """Sites after sweeps, constant under differentiation; no record where all are exact."""
    start = empty_sites(graph) if sites is None else sites
    if not has_sites(start):
        return start, None
    solver = method.solver
    limits = Limits(solver.tolerance, jnp.asarray(solver.max_sweeps), solver.step)
    found, record = Parallel(frozen(graph), limits).run(start)
    return frozen(found), record
