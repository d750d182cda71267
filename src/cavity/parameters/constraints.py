"""Constraints of single parameters by their dotted names: values, bounds and priors."""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np

from cavity.numerics.tree import named, with_named
from cavity.parameters.priors import Flat, Prior, flat
from cavity.parameters.trees import (
    FIXED,
    INTEGRATED,
    Bijection,
    Interval,
    Positive,
    Real,
    bijections,
)

Model = TypeVar("Model")
HELD = FIXED, INTEGRATED
EXAMPLES = {
    "fixed": '{"likelihood.variance": 0.1}',
    "bounds": '{"kernel.lengthscale": (0.1, 10.0)}',
    "priors": '{"kernel.lengthscale": priors.LogNormal(1.0, 0.5)}',
}


@dataclasses.dataclass(frozen=True)
class Constraints:
    """Constraints of parameters by dotted name, such as `kernel.lengthscale`.

    Attributes:
        fixed: the value that each keeps; None for where it starts.
        bounds: what each is learned within.
        priors: the prior of each, in the place of another.
    """

    fixed: Mapping[str, object] = dataclasses.field(default_factory=dict)
    bounds: Mapping[str, object] = dataclasses.field(default_factory=dict)
    priors: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.fixed or self.bounds or self.priors)

    def model(self, model: Model) -> Model:
        """The model with the values that are fixed.

        Raises:
            ValueError: for names of no parameter, and values that do not fit theirs.
        """
        known = named(model)
        self._check(known)
        values = {name: value for name, value in self.fixed.items() if value is not None}
        return with_named(model, {n: _value(n, v, known[n]) for n, v in values.items()})

    def maps(self, model: Model, maps: Model | None, *, stage: bool = False) -> Model:
        """Bijections with the parameters that are fixed or have bounds.

        Args:
            model: whose parameters they are.
            maps: an edited `bijections(model)`; None for the default.
            stage: whether what is frozen in these is released later, so that it may have bounds.

        Raises:
            ValueError: for bounds that there cannot be, and of what is not learned.
        """
        chosen: Any = bijections(model) if maps is None else maps
        own = named(chosen)
        self._check(own)
        found: dict[str, Bijection] = dict.fromkeys(self.fixed, FIXED)
        for name, bounds in self.bounds.items():
            frozen = stage and own[name] in HELD
            found[name] = own[name] if frozen else _within(name, own[name], bounds)
        return with_named(chosen, found)

    def stages(
        self, model: Model, maps: Model | None, schedule: Sequence[Model]
    ) -> tuple[Model | None, tuple[Model, ...]]:
        """`maps` of the last stage and of those before it, as they are where nothing is said."""
        if not (self.fixed or self.bounds):
            return maps, tuple(schedule)
        return self.maps(model, maps), tuple(
            self.maps(model, each, stage=True) for each in schedule
        )

    def densities(
        self, model: Model, densities: Model | None, maps: Model | None = None
    ) -> Model | None:
        """Priors with those that are given in the place of others.

        Args:
            model: whose parameters they are of, where learning starts.
            densities: an edited `priors.flat(model)`; None for flat ones.
            maps: an edited `bijections(model)`; None for the default.

        Raises:
            ValueError: for priors of parameters that are not learned, those of other shapes, and
                those without a density where a parameter starts.
        """
        if not (self.priors or (self.fixed and densities is not None)):
            return densities
        chosen: Any = flat(model) if densities is None else densities
        own, values = named(bijections(model) if maps is None else maps), named(model)
        self._check(own)
        for name, prior in self.priors.items():
            if not isinstance(prior, Prior):
                raise ValueError(
                    f"the prior of {name} must be one of cavity.parameters.priors, given {prior!r}"
                )
            if name in self.fixed or own[name] == FIXED:
                raise ValueError(f"{name} is not learned: leave its prior out")
            _check_density(name, prior, values[name])
        return with_named(chosen, dict.fromkeys(self.fixed, Flat()) | dict(self.priors))

    def started(self, model: Model, known: tuple[str, ...] = ()) -> Model:
        """The model with values that are fixed, and others moved to within their bounds.

        Args:
            model: as it would start without constraints.
            known: beginnings of names of parameters that are not to be moved.
        """
        model = self.model(model)
        own, moved = named(model), {}
        for name, domain in named(self.maps(model, None)).items():
            if name in self.bounds and not name.startswith(known):
                moved[name] = _inside(np.asarray(own[name], np.float64), domain)
        return with_named(model, moved)

    def _check(self, known: Mapping[str, Any]) -> None:
        for name in (*self.fixed, *self.bounds, *self.priors):
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean '{close[0]}'? " if close else ""
                raise ValueError(
                    f"the model has no parameter '{name}': {hint}known: {', '.join(known)}"
                )
        for name in set(self.fixed) & set(self.bounds):
            raise ValueError(f"{name} is fixed and has bounds: leave one of them out")


def asked_constraints(fixed: object, bounds: object, priors: object) -> Constraints:
    """Constraints as they were asked for, None for none.

    Raises:
        ValueError: for what is no dict by name.
    """
    found: list[Mapping[str, object]] = []
    for (name, example), given in zip(EXAMPLES.items(), (fixed, bounds, priors), strict=True):
        asked = {} if given is None else given
        if not isinstance(asked, Mapping) or not all(isinstance(each, str) for each in asked):
            raise ValueError(
                f"{name} is a dict by dotted name, such as {example}; given {asked!r}"
            )
        found.append(asked)
    return Constraints(*found)


def _value(name: str, value: object, own: Any) -> np.ndarray:
    """A value in the shape of a parameter.

    Raises:
        ValueError: for what is no number, and for other shapes.
    """
    try:
        return np.array(np.broadcast_to(np.asarray(value, np.float64), np.shape(own)))
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} is fixed at a number or an array of shape {np.shape(own)}, given {value!r}"
        ) from None


def _within(name: str, domain: Bijection, bounds: object) -> Bijection:
    """The domain of a parameter within bounds.

    Raises:
        ValueError: for bounds that are none, and for parameters that are not learned.
    """
    if domain in HELD:
        raise ValueError(f"{name} is not learned: leave its bounds out")
    try:
        low, high = (None if end is None else _number(end) for end in np.asarray(bounds, object))
        if low is high is None:
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds of {name} are a pair of numbers, one of which may be None; given {bounds!r}"
        ) from None
    least, most = domain.lower, domain.upper
    low = float(least if low is None else np.maximum(least, low))
    high = float(most if high is None else np.minimum(most, high))
    if not low < high:  # NaN is in no order
        raise ValueError(
            f"bounds of {name} are in order and leave a part of ({least:g}, {most:g}), given "
            f"{bounds!r}"
        )
    if low >= 0.0:
        return Positive(low, high)
    if np.isinf(low) and np.isinf(high):
        return Real()
    if np.isinf(low) or np.isinf(high):
        raise ValueError(f"{name} may be negative: give a lower and an upper bound")
    return Interval(low, high)


def _number(end: Any) -> float:
    if isinstance(end, str):
        raise TypeError
    return float(end)


def _check_density(name: str, prior: Prior, value: Any) -> None:
    """Checks a prior against the starting value of its parameter.

    Raises:
        ValueError: for another shape than the parameter's, and where it has no density there.
    """
    value = np.asarray(value, np.float64)
    try:
        hash(prior)  # numbers and tuples have one, arrays none
        density = np.broadcast_to(prior.log_prob(jnp.asarray(value)), value.shape)
    except (TypeError, ValueError):
        raise ValueError(
            f"the prior of {name} has one number, or a tuple of the shape {value.shape}; "
            f"given {prior!r}"
        ) from None
    if not np.all(np.isfinite(density)):
        outside = value.ravel()[~np.isfinite(density).ravel()][0]
        raise ValueError(
            f"{name} starts at {outside:g}, where its prior {prior} has no density: give one that "
            "has, or bounds within it"
        )


def _inside(values: np.ndarray, domain: Bijection) -> np.ndarray:
    """Values moved to within a domain, a tenth of its width from its nearer end."""
    low, high = domain.lower, domain.upper
    width = high - low if np.isfinite(high) else max(low, 1.0)
    nearest = np.clip(values, low + 0.1 * width, high - 0.1 * width if np.isfinite(high) else None)
    return np.where((values > low) & (values < high), values, nearest)
