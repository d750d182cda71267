"""Sites to start from when parameters that were held become variables of their own."""

from cavity.inference.energy import Sites, beliefs
from cavity.inference.problem import Problem
from cavity.numerics.jit import compiled


@compiled
def released_sites(problem: Problem, held: Problem, before: Problem, sites: Sites) -> Sites:
    """The sites of a fixed point, with sites of precision zero on the parameters.

    Rows and priors that were exact have sites now: those that they send where the parameters are
    held.

    Args:
        problem: the problem with the parameters as variables, after the variables it had before.
        held: the same, with priors of the parameters that are all but points at their values.
        before: the problem before.
        sites: its sites at the fixed point.
    """
    old, narrow, empty = before.graph(), held.graph(), problem.empty_sites()
    q = beliefs(old, sites)
    q = (*q, *beliefs(narrow, empty)[len(q) :])
    local = list(zip(old.factors, sites, strict=True))
    data = [(term, None) for term in old.regressions[len(narrow.regressions) :]]
    if not old.regressions:
        data, local = local[:1], local[1:]
    priors = [(term, None) for term in old.priors[: len(old.priors) - len(narrow.priors)]]
    found = []
    pairs = zip((*data, *priors, *local), narrow.factors, empty, strict=True)
    for (known, store), factor, own in pairs:
        kept = factor.update(q, own, 1.0).sites if store is None else store
        found.append((*kept[: len(known.edges)], *own[len(known.edges) :]))
    return tuple(found)
