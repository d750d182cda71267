"""Constraints of single parameters that estimators are asked for."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cavity.learning.initialisation.models import first_kernel
from cavity.models.gp import GP
from cavity.numerics.tree import named
from cavity.parameters.constraints import Constraints, asked_constraints


def by_name(asked: object) -> Mapping[str, Any] | None:
    """Settings of single parameters by their names; None for nothing, and for a word."""
    return asked if isinstance(asked, Mapping) else None


def constraints(
    fixed: object, bounds: object, priors: object, model: GP, held: Sequence[str] = ()
) -> Constraints:
    """The constraints of a model's parameters.

    Args:
        fixed: as it was asked for.
        bounds: as they were asked for.
        priors: as they were asked for; a name says nothing of single parameters.
        model: whose parameters they are of.
        held: parameters of the first function's kernel that its text holds.

    Raises:
        ValueError: for names of no parameter, and for what is no such request.
    """
    found = asked_constraints(fixed, bounds, by_name(priors))
    for name in (f"{first_kernel(model.kernel)}{name}" for name in held):
        if found.fixed.get(name) is not None:
            raise ValueError(
                f"{name} is fixed, and the text of the kernel holds it: leave one of them out"
            )
        found = dataclasses.replace(found, fixed={**found.fixed, name: None})
    found.model(model)
    return found


def fixed_in_kernel(model: GP, said: Constraints) -> dict[str, np.ndarray]:
    """The values of the first function's kernel that are fixed, by name within it."""
    own, first = named(said.model(model)), first_kernel(model.kernel)
    names = [name for name, value in said.fixed.items() if value is not None]
    return {n.removeprefix(first): own[n] for n in names if n.startswith(first)}
