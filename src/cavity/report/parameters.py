"""Parameters of a model, with the columns of a table that they belong to."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from cavity.estimators.layers import layers_of, weight_priors
from cavity.kernels.base import AbstractKernel, Active
from cavity.kernels.stationary import AbstractStationary
from cavity.likelihoods.base import ONE_LATENT, LatentFunction
from cavity.likelihoods.support import Support
from cavity.means import BayesianLinear
from cavity.models.base import AbstractGP, AbstractModel
from cavity.numerics.tree import named
from cavity.parameters import FIXED, Units, bijections

Kernels = AbstractKernel | tuple[AbstractKernel, ...]
Latents = tuple[LatentFunction, ...]


class Part(NamedTuple):
    """One kernel within a composed one.

    Attributes:
        path: dotted name within the model.
        kernel: the part, its own parts included.
        columns: which input columns it sees, counted from 0.
        dimensionless: whether it multiplies a part that has the units of the target.
        latent: the name of its latent function, where each has a kernel.
    """

    path: str
    kernel: AbstractKernel
    columns: tuple[int, ...]
    dimensionless: bool
    latent: str = ""

    @property
    def groups(self) -> tuple[int, ...] | None:
        """The group of each column, where some share a lengthscale."""
        kernel = self.kernel
        return kernel.groups if isinstance(kernel, AbstractStationary) else None

    def parameters(self) -> Iterator[tuple[str, np.ndarray, Units]]:
        """Name, value and units of each array of this part itself."""
        for field, value in _fields(self.kernel):
            if eqx.is_inexact_array(value):
                unit = field.metadata.get("units", Units())
                if self.dimensionless:
                    unit = dataclasses.replace(unit, output=0)
                yield field.name, np.asarray(value, float), unit


def kernel_parts(
    kernel: Kernels, columns: Sequence[int], latents: Latents = ONE_LATENT
) -> list[Part]:
    """Every kernel that a kernel is made of, itself included, with the columns it sees.

    Args:
        kernel: the kernel, or that of each latent function.
        columns: the input columns that it is called with, counted from 0.
        latents: the latent functions of the likelihood.
    """
    if not isinstance(kernel, tuple):
        return list(_parts(kernel, Part("kernel", kernel, tuple(columns), False)))
    return [
        part
        for i, (of_latent, latent) in enumerate(zip(kernel, latents, strict=True))
        for part in _parts(
            of_latent,
            Part(f"kernel.{i}", of_latent, tuple(columns), not latent.units.output, latent.name),
        )
    ]


@functools.singledispatch
def _parts(node: object, place: Part) -> Iterator[Part]:
    """The kernels in a part of a kernel; none of anything else."""
    return iter(())


@_parts.register(tuple)
@_parts.register(list)
def _(node: Sequence[object], place: Part) -> Iterator[Part]:
    for i, value in enumerate(node):
        yield from _parts(value, place._replace(path=f"{place.path}.{i}"))


@_parts.register(AbstractKernel)
def _(node: AbstractKernel, place: Part) -> Iterator[Part]:
    place = place._replace(kernel=node)
    yield place
    yield from _inside(node, place)


@_parts.register(Active)
def _(node: Active, place: Part) -> Iterator[Part]:
    columns = tuple(place.columns[d] for d in node.dims)
    yield from _inside(node, place._replace(kernel=node, columns=columns))


def _inside(node: AbstractKernel, place: Part) -> Iterator[Part]:
    """The kernels among the fields of one."""
    for field, value in _fields(node):
        own = place.dimensionless or field.metadata.get("dimensionless", False)
        inside = place._replace(path=f"{place.path}.{field.name}", dimensionless=own)
        yield from _parts(value, inside)


def _fields(node: Any) -> Iterator[tuple[dataclasses.Field, Any]]:
    """The fields of a module with their values."""
    return ((field, getattr(node, field.name)) for field in dataclasses.fields(node))


def owners(features: Sequence[str], groups: Sequence[int] | np.ndarray | None) -> list[str]:
    """The names of groups of features: `colour` of colour=red and colour=blue.

    Of features of several columns the first is named, and how many more there are.

    Args:
        features: their names.
        groups: the group of each; None where each is alone.
    """
    if groups is None:
        return list(features)
    numbers = np.asarray(groups)
    members = [
        [features[int(i)] for i in np.flatnonzero(numbers == g)]
        for g in range(int(numbers.max(initial=-1)) + 1)
    ]
    return [_owner(own) for own in members]


def _owner(features: Sequence[str]) -> str:
    if len(features) < 2:
        return "".join(features)
    columns = {feature.partition("=")[0] for feature in features}
    return columns.pop() if len(columns) == 1 else f"{features[0]} and {len(features) - 1} more"


# ------------------------------------------------------------------------------ relevance


# What relevance is measured by, and how to read it.
BY_LENGTHSCALE, BY_SLOPE, BY_UNITS = (
    "spread / lengthscale",
    "slope deviation × spread",
    "weights of the units",
)
MEASURES = {
    BY_LENGTHSCALE: "The standard deviation of a column on this table, divided by "
    "its lengthscale: the function changes little within one lengthscale, so a short bar "
    "means a column that hardly matters or acts nearly linearly.",
    BY_SLOPE: "The prior deviation of a column's slope times the column's "
    "standard deviation on this table: a short bar means a column that hardly matters.",
    BY_UNITS: "How strongly the hidden units follow a column: the root of the sum over units of "
    "squared output weights times expected squared weights of the column, by deviation of the "
    "column; with several layers summed over the ways to the output.",
}


class Relevance(NamedTuple):
    """Relevance of the inputs to one part of a kernel, or to the units of a network.

    Attributes:
        part: the part's name.
        measure: what the values are.
        columns: the input columns, counted from 0.
        values: one per column, or per group, not negative.
        groups: the group of each column, where some share a value.
    """

    part: str
    measure: str
    columns: tuple[int, ...]
    values: np.ndarray
    groups: tuple[int, ...] | None = None

    def names(self, features: Sequence[str]) -> list[str]:
        """The names of what has a value, from those of all input columns."""
        return owners([features[i] for i in self.columns], self.groups)


def relevances(
    kernel: Kernels, spread: np.ndarray, latents: Latents = ONE_LATENT
) -> list[Relevance]:
    """The relevance of the inputs to each part of a kernel that has a parameter per column.

    Args:
        kernel: the kernel, or that of each latent function.
        spread: standard deviation of each input column, (D,).
        latents: the latent functions of the likelihood.
    """
    found = []
    for part in kernel_parts(kernel, range(len(spread)), latents):
        groups, own = part.groups, spread[list(part.columns)]
        if groups is not None:
            own = np.sqrt(np.bincount(groups, own**2))
        for name, value, unit in part.parameters():
            if value.shape != own.shape or len(own) < 2:
                continue
            if name == "lengthscale" and unit.input == 1:
                measure, values = BY_LENGTHSCALE, own / value
            elif unit.input == -2:
                measure, values = BY_SLOPE, np.sqrt(value) * own
            else:
                continue
            title = type(part.kernel).__name__ + (f" of {part.latent}" if part.latent else "")
            found.append(Relevance(title, measure, part.columns, values, groups))
    return found


def of_units(record: Mapping[str, Any]) -> list[Relevance]:
    """The relevance of the inputs to the units of a network; none of any other model.

    Args:
        record: what is remembered of the fit.
    """
    values = np.array(list(record.get("relevance", {}).values()))
    return [Relevance("", BY_UNITS, tuple(range(len(values))), values)] if len(values) else []


# ----------------------------------------------------------------------- parameters by name


class ParameterRow(NamedTuple):
    """One number of a model: the parameter's dotted name, what it belongs to, value and units."""

    name: str
    place: str
    value: float
    units: str


def class_of(name: str, classes: Sequence[str]) -> str:
    """The class whose mean a parameter belongs to; nothing where it belongs to none.

    Args:
        name: dotted name of the parameter.
        classes: names of the classes, none in a regression.
    """
    node, _, rest = name.partition(".")
    place = rest.partition(".")[0]
    own = node == "mean" and place.isdecimal() and int(place) < len(classes)
    return classes[int(place)] if own else ""


def parameter_rows(
    model: Any,
    values: Mapping[str, Any],
    features: Sequence[str],
    targets: Sequence[str],
    classes: Sequence[str] = (),
    measured: Mapping[str, str] | None = None,
) -> list[ParameterRow]:
    """The learned parameters of a model, number by number, but for inducing points.

    Args:
        model: with `kernel`, `likelihood` and `mean`.
        values: parameters by dotted name, in the units of the data. Beyond the model's own axes
            they may have a last one, of the targets.
        features: names of the input columns, in order.
        targets: names of the targets, in order.
        classes: names of the classes, in order.
        measured: the units of columns that have some, by the name of the column.
    """
    known, domains = {}, named(bijections(model))
    if weight_priors(model):
        known |= _of_priors(model, features)
    elif layers_of(model):
        known |= _of_layers(model, features)
    else:
        known |= _of_kernel(model, features)
    labels = model.likelihood.support is Support.LABELS
    for owner, node, dimensionless in _owners(model):
        outputs = classes if labels and owner == "mean" else targets
        for field, value in _fields(node):
            array = np.asarray(value)
            unit = Units() if dimensionless else field.metadata.get("units", Units())
            along = {0: features, 1: outputs} if unit.input else {array.ndim - 1: outputs}
            known[f"{owner}.{field.name}"] = _axes(array, along), unit
            if isinstance(node, BayesianLinear) and field.name != "centre":
                domains.pop(f"{owner}.{field.name}")
    rows = []
    output = "target" if model.likelihood.support is Support.REAL else "function"
    for name, value in values.items():
        if "inducing" not in name.split(".") and domains.get(name) != FIXED:
            axes, unit = known.get(name, ([], Units()))
            owner, every = class_of(name, classes), [*axes, list(targets)]
            words = _words(unit, output)
            rows += _rows(name, np.asarray(value, float), owner, every, words, measured or {})
    return rows


def _of_kernel(model: AbstractGP, features: Sequence[str]) -> dict[str, tuple[Any, Units]]:
    """Owners of the entries of each parameter of a kernel, and its units."""
    known = {}
    latents = model.likelihood.latent_functions
    for part in kernel_parts(model.kernel, range(len(features)), latents):
        names = owners([features[i] for i in part.columns], part.groups)
        for name, array, unit in part.parameters():
            known[f"{part.path}.{name}"] = _axes(array, {array.ndim - 1: names}), unit
    return known


def _of_priors(model: Any, features: Sequence[str]) -> dict[str, tuple[Any, Units]]:
    """The same of the priors of a linear model, which have a value for each column or group."""
    groups, known = model.units(len(features)), {}
    names = owners(features, groups)
    several = len(model.priors) > 1 and isinstance(model.prior, tuple)
    for i, prior in enumerate(model.priors):
        path = f"prior.{i}" if several else "prior"
        for field, value in _fields(prior):
            array = np.asarray(value)
            unit = field.metadata.get("units", Units())
            known[f"{path}.{field.name}"] = _axes(array, {0: names}), unit
    return known


def _of_layers(model: AbstractModel, features: Sequence[str]) -> dict[str, tuple[Any, Units]]:
    """The same of the kernels of layers, of which hidden values have no units."""
    known, names, layers = {}, list(features), layers_of(model)
    for i, layer in enumerate(layers):
        names += list(features) if layer.skip_connection else []
        latents = ONE_LATENT * len(layer.groups)
        for part in kernel_parts(layer.kernel, range(len(names)), latents):
            columns = owners([names[c] for c in part.columns], part.groups)
            for name, array, unit in part.parameters():
                output = unit.output if i == len(layers) - 1 else 0
                axes = _axes(array, {array.ndim - 1: columns})
                unit = Units(input=0 if i else unit.input, output=output)
                known[f"layers.{i}.{part.path}.{name}"] = axes, unit
        names = [f"hidden value {j + 1}" for j in range(layer.width)]
    return known


def _owners(model: Any) -> Iterator[tuple[str, Any, bool]]:
    """The likelihood and the means: name, module, and whether it has no units of the target."""
    yield "likelihood", model.likelihood, False
    if layers_of(model) or weight_priors(model):
        return
    if not isinstance(model.mean, tuple):
        yield "mean", model.mean, False
        return
    for i, mean in enumerate(model.mean):
        yield f"mean.{i}", mean, not model.likelihood.latent_functions[i].units.output


def _axes(array: np.ndarray, along: Mapping[int, Sequence[str]]) -> list[list[str]]:
    """Owners of the entries along each axis of a parameter."""
    axes = []
    for i, size in enumerate(array.shape):
        names = list(along.get(i, ()))
        alone = [f"component {k + 1}" for k in range(size)] if size > 1 else [""]
        axes.append(names if len(names) == size else alone)
    return axes


def _rows(
    name: str,
    value: np.ndarray,
    owner: str,
    axes: list[list[str]],
    words: str,
    measured: Mapping[str, str],
) -> Iterator[ParameterRow]:
    for index in np.ndindex(value.shape):
        entries = [names[i] for names, i in zip(axes, index, strict=False) if i < len(names)]
        units = words
        for entry in entries:
            if entry in measured:
                unit = measured[entry]
                units = units.replace("per column", f"per {unit[:-1]}").replace("column", unit)
        place = ", ".join(filter(None, [owner, *entries]))
        yield ParameterRow(name, place, float(value[index]), units)


def _words(unit: Units, output: str) -> str:
    """Units of measurement in words."""
    powers = {1: "", 2: "²"}
    parts = []
    if unit.output > 0:
        parts.append(f"{output}{powers[unit.output]}")
    if unit.input > 0:
        parts.append(f"column{powers[unit.input]}")
    if unit.input < 0:
        parts.append(f"per column{powers[-unit.input]}")
    return " ".join(parts) or "none"
