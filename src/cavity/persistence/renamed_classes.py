"""Classes in model files of before: what they are called today, and what they are made into."""

from collections.abc import Callable, Mapping
from typing import Any

from cavity.inference.variables.inducing_view import OutputMean
from cavity.models.posterior import Posterior
from cavity.models.process import FullProcess, IndependentProcess, SparseProcess

# names in files of before -> names today
RENAMED = {
    "models.DrawsPosterior": "models.SampledPosterior",
    "inference.WhitenedBelief": "inference.InducingBelief",
    "inference.WhitenedClassesBelief": "inference.CoupledClassInducingBelief",
    "inference.ClassValuesBelief": "inference.CoupledClassValuesBelief",
}

Fields = dict[str, Any]


def _full(fields: Fields) -> Posterior:
    """The posterior of a full GP was a class."""
    model = fields.pop("model")
    values = {name: fields.pop(name, None) for name in ("inputs", "weights", "root", "raised")}
    mean = OutputMean(model.mean, fields["outputs"])
    process = FullProcess(kernel=model.kernel, mean=mean, **values)
    return Posterior(model=model, process=process, **fields)


def _sparse(fields: Fields) -> Posterior:
    """The posterior of a sparse GP was a class."""
    process = SparseProcess(fields.pop("view"), fields.pop("belief"))
    return Posterior(process=process, **fields)


def _latents(fields: Fields) -> Posterior:
    """Each of several latent functions had a posterior."""
    functions = fields.pop("parts")
    process = IndependentProcess(tuple(function.process for function in functions))
    return Posterior(process=process, **fields | {"single": functions[0].single})


def _classes(fields: Fields) -> Posterior:
    """The posterior of dependent functions of classes was a class."""
    return Posterior(process=fields.pop("functions"), **fields)


# names in files of before -> from the fields there to an object of today
CONVERTED: Mapping[str, Callable[[Fields], Posterior]] = {
    "models.FullPosterior": _full,
    "models.SparsePosterior": _sparse,
    "models.LatentsPosterior": _latents,
    "models.ClassesPosterior": _classes,
}
