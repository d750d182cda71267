"""Validation: checks of a model by itself, and of a model against the data."""

from typing import TypeVar, cast

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.approximations.approximations import TiedPowerMeans
from cavity.inference.graph.rows import WEIGHT
from cavity.learning.data.training_data import Data
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.mcmc import MCMC
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.base import AbstractModel
from cavity.models.latent_gp import shared_parameters
from cavity.numerics.text import plural
from cavity.numerics.validation import check_side_names
from cavity.parameters import FIXED, Bijection, Positive, Real, bijections, entries

M = TypeVar("M", bound=AbstractModel)
T = TypeVar("T", bound=eqx.Module)


class OutsideDomain(ValueError):
    """A parameter whose value is not in its domain; the message names it."""


def check_model(
    model: AbstractModel, blocks: ArrayLike | None, method: AbstractMethod | MCMC
) -> None:
    """Raises ValueError for combinations of model, blocks and method that make no sense."""
    method.check(model.likelihood)
    blocked = blocks is not None
    # weights do not grow with rows, and can be drawn all the same
    drawn = method.samples and model.drawn_weights is not None
    sparse = model.sparse and not drawn
    method.check_layout(model.likelihood, sparse=sparse, blocked=blocked)
    if blocked and method.couples(model.likelihood):
        raise ValueError(
            "blocks need a Gaussian likelihood: the rows of several classes have a site on the "
            "functions of all of them; leave blocks=None"
        )
    if blocked and not model.sparse:
        raise ValueError(
            "blocks change nothing in a full GP, which is exact; give the model inducing "
            "variables or leave blocks=None"
        )


def check_approximation(model: AbstractModel, method: AbstractMethod) -> None:
    """Raises ValueError for a method whose approximation the model is not for."""
    approximation = method.approximation
    hidden = approximation.hidden
    if hidden is not None and hidden not in model.hidden_posteriors:
        choices = ", ".join(map(repr, model.hidden_posteriors))
        raise ValueError(
            f"{type(model).__name__} has no posterior hidden={hidden!r}: "
            + (f"give one of {choices}" if choices else "leave hidden=None")
        )
    joint = not approximation.tied or cast(TiedPowerMeans, approximation).joint
    if not joint and not model.separable:
        raise ValueError(
            "joint=False makes the terms of a sum of kernels independent: give GP "
            "inducing.OfParts((...)), with inducing variables for each term, or leave it out"
        )
    natural = method.training.natural is not None
    model.check_approximation(approximation, natural=natural)


def check_volume(model: AbstractModel, method: AbstractMethod, power: ArrayLike) -> None:
    """Raises ValueError for residuals with a volume of their own where there can be none."""
    if method.approximation.volume is None:
        return
    if not model.volumes:
        raise ValueError(
            f"PowerEP(tight=True) and PowerEP(dtc=True) are for GP, given {type(model).__name__}: "
            "leave them out"
        )
    if np.any(np.asarray(power) != 0):
        raise ValueError(
            "PowerEP(tight=True) and PowerEP(dtc=True) change the evidence of power 0: give "
            f"power=0, given power={power}"
        )


def check_order(model: AbstractModel, method: AbstractMethod, *, in_memory: bool) -> None:
    """Raises ValueError where rows that follow each other would be taken apart."""
    if not model.ordered:
        return
    apart = method.tied and method.approximation.hidden is None
    if method.training.steps is not None and not apart:
        raise ValueError(
            "this posterior of states in time needs all rows at a time: leave interleaved=None "
            "and batch=None, or give method=cavity.TiedPowerEP(batch=...), whose states do not "
            "depend on each other"
        )
    if not in_memory:
        raise ValueError(
            "the rows of a state-space model follow each other and must be in memory: give X and "
            "y, or None and y where there are no controls"
        )


def check_shapes(model: AbstractModel, data: Data) -> None:
    """Raises ValueError where parts of a model have other numbers of columns than the data."""
    outputs = data.rows.y.shape[-1]
    check_side_names(data.rows.side, (*model.side, WEIGHT), "this model")
    check_outputs(model.likelihood, data)
    if shared_parameters(model.likelihood) and outputs > 1:
        raise ValueError(
            f"parameters are integrated out of a model of one output, y has {outputs}: fit a "
            "model to each, or leave out INTEGRATED and use cavity.integrate"
        )
    if model.likelihood.latents > 1 and outputs > 1:
        raise ValueError(
            f"{type(model.likelihood).__name__} has {model.likelihood.latents} latent functions "
            f"and takes one output, y has {outputs}: fit a model to each"
        )
    if shared_parameters(model.likelihood) and not model.integrates:
        raise ValueError(
            f"{type(model).__name__} takes no Integrated likelihood: give it the likelihood "
            "itself, and the fitted model to cavity.integrate"
        )
    model.check(data.rows)
    noise = model.likelihood.gaussian_noise
    if noise is None:
        return
    shape = np.shape(noise.noise_variance())
    if shape not in ((), (1,), (outputs,)):
        variances = plural(shape[0], "noise variance")
        if len(shape) > 1:
            variances = f"noise variances of shape {shape}"
        raise ValueError(
            f"the likelihood has {variances}, y has {plural(outputs, 'output')}: give one, or one "
            'per output; those of the rows are rows={"noise_variance": ...}'
        )


def check_outputs(likelihood: AbstractLikelihood, data: Data) -> None:
    """Raises ValueError for an observed output that the likelihood does not have."""
    y = np.asarray(data.rows.y)
    observed = np.broadcast_to(np.asarray(data.rows.presence), y.shape) > 0.0
    bad = np.argwhere(observed & ~np.asarray(likelihood.accepts(y)))  # type: ignore[arg-type]
    if len(bad):
        value, name = float(y[tuple(bad[0])]), type(likelihood).__name__
        raise ValueError(
            f"y has {plural(len(bad), 'value')} that the {name} likelihood does not take (the "
            f"first is {value:g}): it takes {likelihood.accepted}"
        )


def check_domains(
    model: AbstractModel, maps: AbstractModel | None = None, verb: str = "starts at"
) -> None:
    """Raises OutsideDomain naming the first parameter whose value is not in its domain.

    A learned parameter must lie strictly inside its domain in `maps`; any other one in the
    domain that its class declares, bounds included.

    Args:
        model: the model.
        maps: an edited `bijections(model)` in which it is to be learned, or None.
        verb: what the message says of a parameter that is to be learned.
    """
    declared = entries(model, bijections(model))
    edited = declared if maps is None else entries(model, maps)
    for (name, value, by_class), (_, _, chosen) in zip(declared, edited, strict=True):
        if not isinstance(by_class, Bijection):
            continue
        learned = maps is not None and chosen.free
        domain = chosen if learned else by_class
        values = np.asarray(value)
        bad = _outside(values, domain, learned=learned)
        if len(bad):
            entry = f"[{', '.join(map(str, bad[0]))}]" if values.ndim else ""
            outside = float(values[tuple(bad[0])])
            wanted = Real() if domain == FIXED else domain
            raise OutsideDomain(
                f"the parameter {name}{entry} {verb if learned else 'is'} {outside:g}, but its "
                f"domain is {wanted}: {_remedy(outside, by_class, learned=learned)}"
            )


def _outside(values: np.ndarray, domain: Bijection, *, learned: bool) -> np.ndarray:
    """The places of values that the domain does not have, (count, axes)."""
    good = np.isfinite(values)
    inside = (values > domain.lower) & (values < domain.upper)
    zero = isinstance(domain, Positive) & (values == 0.0)
    bound = ((values == domain.lower) | (values == domain.upper)) & ~zero
    good &= inside if learned else inside | bound
    return np.argwhere(~good)


def _remedy(value: float, declared: Bijection, *, learned: bool) -> str:
    if not np.isfinite(value):
        return "give it a finite value"
    if learned and not len(_outside(np.asarray(value), declared, learned=False)):
        return "start inside it, or freeze it with FIXED"
    return "give it a value inside"


def fix_unused_noise(model: M, maps: M, data: Data) -> M:
    """The bijections with FIXED for a noise variance in whose place the rows' own is used."""
    if "noise_variance" not in data.rows.side or model.likelihood.gaussian_noise is None:
        return maps
    return eqx.tree_at(lambda m: m.likelihood, maps, all_fixed(maps.likelihood))


def all_fixed(maps: T) -> T:
    """The bijections with every parameter held."""
    return jax.tree.map(lambda _: FIXED, maps)


def inputs_first(model: M) -> tuple[M, ...]:
    """A stage in which latent inputs alone move, with the encoder that gives them.

    Otherwise noise may rise before the inputs have moved, to where all is noise.
    """
    maps = bijections(model)
    held = all_fixed(maps)
    encoder = getattr(maps, "encoder", None)
    if encoder is not None:
        held = eqx.tree_at(lambda m: m.encoder, held, encoder)
    return (held,)


def verbs(count: int) -> list[str]:
    """Phrases that introduce the parameters at each stage of learning, for messages."""
    if count == 1:
        return ["starts at"]
    early = (f"starts stage {i} of the schedule at" for i in range(1, count))
    return [*early, "starts the last stage at"]
