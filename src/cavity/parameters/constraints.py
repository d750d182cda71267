"""What a user says of single parameters by their dotted names: values, bounds and priors."""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.tree import named, with_named
from cavity.parameters.priors import Flat, Prior, flat
from cavity.parameters.trees import (
    FIXED,
    Bijection,
    Fixed,
    Interval,
    Positive,
    Real,
    bijections,
)

Model = TypeVar("Model")


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

    def maps(self, model: Model, maps: Model | None) -> Model:
        """Bijections with the parameters that are fixed or have bounds.

        Args:
            model: whose parameters they are.
            maps: an edited `bijections(model)`; None for the default.

        Raises:
            ValueError: for bounds that there cannot be, and of what is not learned.
        """
        chosen: Any = bijections(model) if maps is None else maps
        own = named(chosen)
        self._check(own)
        found: dict[str, Bijection] = dict.fromkeys(self.fixed, FIXED)
        return with_named(
            chosen, found | {n: _within(n, own[n], b) for n, b in self.bounds.items()}
        )

    def stages(
        self, model: Model, maps: Model | None, schedule: Sequence[Model]
    ) -> tuple[Model | None, tuple[Model, ...]]:
        """`maps` of the last stage and of those before it, as they are where nothing is said."""
        if not (self.fixed or self.bounds):
            return maps, tuple(schedule)
        return self.maps(model, maps), tuple(self.maps(model, each) for each in schedule)

    def densities(self, model: Model, densities: Model | None) -> Model | None:
        """Priors with those that are given in the place of others.

        Args:
            model: whose parameters they are of.
            densities: an edited `priors.flat(model)`; None for flat ones.

        Raises:
            ValueError: for priors of parameters that are not learned.
        """
        if not (self.priors or (self.fixed and densities is not None)):
            return densities
        chosen: Any = flat(model) if densities is None else densities
        own = named(bijections(model))
        self._check(own)
        for name, prior in self.priors.items():
            if not isinstance(prior, Prior):
                raise ValueError(
                    f"the prior of {name} must be one of cavity.parameters.priors, given {prior!r}"
                )
            if name in self.fixed or not own[name].free:
                raise ValueError(f"{name} is not learned: leave its prior out")
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


def _value(name: str, value: object, own: Any) -> np.ndarray:
    """A value in the shape of a parameter.

    Raises:
        ValueError: for what is no number, and for other shapes.
    """
    try:
        return np.array(
            np.broadcast_to(np.asarray(cast(ArrayLike, value), np.float64), np.shape(own))
        )
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} is fixed at a number or an array of shape {np.shape(own)}, given {value!r}"
        ) from None


def _within(name: str, domain: Bijection, bounds: object) -> Bijection:
    """The domain of a parameter within bounds.

    Raises:
        ValueError: for bounds that are none, and for parameters that are not learned.
    """
    if isinstance(domain, Fixed):
        raise ValueError(f"{name} is not learned: leave its bounds out")
    try:
        low, high = (None if b is None else float(b) for b in cast(Iterable[Any], bounds))
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds of {name} are a pair of numbers, one of which may be None; given {bounds!r}"
        ) from None
    least, most = getattr(domain, "lower", -np.inf), getattr(domain, "upper", np.inf)
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


def _inside(values: np.ndarray, domain: Any) -> np.ndarray:
    """Values moved to within a domain, a tenth of its width from its nearer end."""
    if isinstance(domain, Real):
        return values
    low, high = domain.lower, domain.upper
    width = high - low if np.isfinite(high) else max(low, 1.0)
    nearest = np.clip(values, low + 0.1 * width, high - 0.1 * width if np.isfinite(high) else None)
    return np.where((values > low) & (values < high), values, nearest)
