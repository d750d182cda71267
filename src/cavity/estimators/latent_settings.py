"""Settings of an embedding: likelihood, kernel and method of a latent-variable model."""

import jax
import numpy as np

from cavity.estimators.registry import LIKELIHOODS, METHODS, as_asked, likelihood_among
from cavity.families.values import is_word, one_of, whole
from cavity.inference.propagation import Moments
from cavity.kernels.base import AbstractKernel
from cavity.kernels.text_form import written
from cavity.learning.data.scales import Scales, in_data_units
from cavity.learning.double_precision import in_double
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.support import Support
from cavity.numerics.tree import named, with_named

NAMES = ("auto", "power_ep", "tied")


def latent_likelihood(likelihood: object) -> AbstractLikelihood:
    """A likelihood of one latent function from its name, or itself.

    Raises:
        ValueError: for an unknown name, and for a likelihood of several latent functions.
    """
    simple = [name for name, entry in LIKELIHOODS.items() if entry.build(2).latents == 1]
    built = likelihood_among(simple, likelihood)
    if built.latents > 1:
        raise ValueError(
            f"the likelihood {as_asked(likelihood)} has {built.latents} latent functions, and in "
            f"an embedding every column is of one: use one of {sorted(simple)}"
        )
    return built


def latent_kernel(kernel: object, dims: int) -> AbstractKernel:
    """A kernel from its text, with lengthscales for latent points, or itself.

    Raises:
        ValueError: for text that is no kernel of so many dimensions, and for anything else.
    """
    if isinstance(kernel, AbstractKernel):
        return kernel
    found = written(kernel, dims)
    if found.fixed:
        raise ValueError(
            f"the kernel {kernel!r} holds a value, which is for functions of known inputs: here "
            "lengths are those of latent ones; leave fixed=True out"
        )
    nothing = np.zeros(dims)
    scales = Scales(nothing, np.full(dims, np.sqrt(dims)), nothing, 1.0)
    values = {name: named(found.kernel)[name] for name in found.given}
    return with_named(in_data_units(found.kernel, scales), values)


def latent_method(
    method: object, batch: object, *, rows: int, iterations: int, seed: int
) -> AbstractMethod | None:
    """Method that learns a latent-variable model; None for the likelihood's usual one.

    Args:
        method: what was asked for.
        batch: rows of a minibatch, or None.
        rows: rows of the fit.
        iterations: at the most; of minibatches, steps.
        seed: of minibatches.

    Raises:
        ValueError: for a method that is unknown or does not take such models.
    """
    if isinstance(method, AbstractMethod):
        if not isinstance(method, PowerEP | TiedPowerEP):
            name = type(method).__name__
            raise ValueError(f"an embedding takes PowerEP() or TiedPowerEP(), given {name}()")
        if batch is not None:
            raise ValueError("batch is a setting of the method object: leave batch=None")
        return method
    if any(is_word(method, name) for name in {*METHODS} - {*NAMES}):
        raise ValueError(f"the method '{method}' takes known inputs: use one of {sorted(NAMES)}")
    name = one_of("method", method, NAMES)
    if batch is None:
        named = {"power_ep": PowerEP(), "tied": TiedPowerEP(propagation=Moments(), seed=seed)}
        return named.get(name)
    if name == "power_ep":
        raise ValueError("minibatches go with the method 'tied': leave method='auto'")
    size = min(whole("batch", batch, 1, "None (all rows) or "), rows)
    steps = max(iterations, 1)
    return TiedPowerEP(propagation=Moments(), batch=size, max_sweeps=steps, seed=seed)


@in_double
def check_values(
    Y: np.ndarray, likelihood: AbstractLikelihood, names: list[str], first: int = 0
) -> None:
    """Refuses values that the likelihood does not take.

    Args:
        Y: the columns, (N, P), NaN where missing.
        likelihood: of every entry.
        names: what each column is called in a message.
        first: the number of the first row in a message.

    Raises:
        ValueError: naming the first one.
    """
    if likelihood.support is Support.REAL:
        return
    accepted = np.asarray(likelihood.accepts(jax.numpy.asarray(np.nan_to_num(Y, nan=1.0))))
    bad = np.argwhere(~accepted & ~np.isnan(Y))
    if len(bad):
        i, j = map(int, bad[0])
        raise ValueError(
            f"{names[j]}, row {i + first}: {Y[i, j]:g} is not among what the likelihood "
            f"{type(likelihood).__name__} takes, {likelihood.accepted}"
        )
