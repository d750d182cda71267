"""What is recorded of a case: energy, gradient and marginals at given sites, and after sweeps."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

import cavity
from cavity.inference.energy import beliefs, energy, evidence_terms
from cavity.learning.data.given import Layout, as_training_data
from cavity.learning.infer import as_dtype, first_jitter
from cavity.numerics.tree import named
from tests.recorded.cases import Case

FILE = Path(__file__).parent / "recorded.npz"
JITTER = 1e-8


@eqx.filter_jit
def _at(model: Any, data: Any, approximation: Any, jitter: float, sites: Any) -> Any:
    def value(model: Any) -> Any:
        return energy(data.problem(model, approximation, jitter).graph(), sites)

    graph = data.problem(model, approximation, jitter).graph()
    q = beliefs(graph, sites)
    posterior = model.posterior(graph, q, data.rows, single=data.single)
    size = sum(abs(term) for term in evidence_terms(graph, sites, q=q))
    return eqx.filter_value_and_grad(value)(model), size, posterior


def layout_of(case: Case) -> tuple[Any, Any, float]:
    """Model and data as inference takes them, and the jitter."""
    options = dict(case.options)
    method = options.pop("method")
    data: Any = as_training_data(case.model, case.X, case.y, method, Layout(**options))
    model = as_dtype(case.model, data)
    return model, data, first_jitter(model, JITTER)


def leaves_of(case: Case) -> list[np.ndarray]:
    """Sites about those that inference finds, or about those that a search starts from."""
    model, data, jitter = layout_of(case)
    problem = data.problem(model, case.options["method"].approximation, jitter)
    found = inferred(case).found
    leaves = jax.tree.leaves(problem.empty_sites() if found is None else found)
    random = np.random.default_rng(1)
    return [np.asarray(x) * (1.0 + 0.1 * random.standard_normal(np.shape(x))) for x in leaves]


def inferred(case: Case) -> Any:
    """What inference finds."""
    return cavity.infer(case.model, case.X, case.y, **case.options)


def at_sites(case: Case, leaves: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Energy, what it is the sum of in absolute value, gradient and marginals."""
    model, data, jitter = layout_of(case)
    approximation = case.options["method"].approximation
    empty = data.problem(model, approximation, jitter).empty_sites()
    sites = jax.tree.unflatten(jax.tree.structure(empty), leaves)
    (value, slope), size, posterior = _at(model, data, approximation, jitter, sites)
    found = {"energy": value, "size": size}
    gradient = named(slope)
    found |= {f"gradient of {k}": v for k, v in gradient.items() if v is not None}
    return {k: np.asarray(v) for k, v in (found | marginals(case, posterior)).items()}


def marginals(case: Case, posterior: Any) -> dict[str, np.ndarray]:
    """Means and variances of the functions at new inputs, or of the states."""
    if case.new is None:
        return {"mean": posterior.states.mean, "variance": posterior.states.cov}
    found = posterior.marginals(case.new)
    return {"mean": found.mean, "variance": found.var}


def after_inference(case: Case) -> dict[str, np.ndarray]:
    """Evidence and marginals where sites are exact or matched; those that are learned are not."""
    result = inferred(case)
    if not result.converged or result.sites.finished_by in ("L-BFGS-B", "learning"):
        return {}
    found = {"evidence": result.log_evidence}
    found |= {f"{k} after sweeps": v for k, v in marginals(case, result.posterior).items()}
    return {k: np.asarray(v) for k, v in found.items()}


def recorded() -> dict[str, dict[str, np.ndarray]]:
    """What is in the file, by case."""
    found: dict[str, dict[str, np.ndarray]] = {}
    with np.load(FILE) as file:
        for key in file.files:
            name, _, what = key.partition(": ")
            found.setdefault(name, {})[what] = file[key]
    return found
