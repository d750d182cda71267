"""Settings of an update, and checks of what it is given."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.graph.rows import WEIGHT
from cavity.learning.data.arrays import prepare
from cavity.learning.results.result import Inference
from cavity.learning.streaming.inducing_choice import CHOICES
from cavity.learning.streaming.live_rows import LiveRows, rows_of
from cavity.models.compression import is_compressed
from cavity.models.latent_gp import shared_parameters
from cavity.models.posterior import Posterior
from cavity.models.remembered import grows_with_rows
from cavity.numerics.text import plural

REUSED = ("likelihood", "posterior")


@dataclasses.dataclass(frozen=True)
class UpdateSettings:
    """The settings of an update, checked; see `update`.

    Raises:
        ValueError: for numbers out of range, and settings that exclude each other.
    """

    power: float
    past_power: float
    learn: bool
    inducing: str
    max_inducing: int
    memory: int
    half_life: float | None
    reuse: str
    one_pass: bool
    max_iterations: int

    def __post_init__(self) -> None:
        for name, value in (("power", self.power), ("past_power", self.past_power)):
            if not np.ndim(value) == 0 or not 0.0 <= float(value) <= 1.0:
                raise ValueError(f"{name} must be one number in [0, 1], given {value!r}")
        if self.inducing not in CHOICES:
            raise ValueError(f"inducing must be one of {CHOICES}, given {self.inducing!r}")
        if self.reuse not in REUSED:
            raise ValueError(f"reuse must be one of {REUSED}, given {self.reuse!r}")
        if self.memory < 0 or int(self.memory) != self.memory:
            raise ValueError(f"memory must be a number of rows, given {self.memory!r}")
        if self.half_life is not None and not self.half_life > 0.0:
            raise ValueError(
                f"half_life must be a positive number of rows, or None, given {self.half_life!r}"
            )
        if self.max_iterations < 0:
            raise ValueError(f"max_iterations must not be negative, given {self.max_iterations}")
        if self.reuse == "posterior" and self.inducing != "keep":
            raise ValueError(
                'reuse="posterior" takes the old posterior of inducing variables as their prior, '
                'so that they have to stay: give inducing="keep"'
            )
        if self.one_pass and (self.power != 1.0 or self.learn or self.memory):
            raise ValueError(
                "one_pass=True visits each row once at power 1 and forgets it: give power=1, "
                "learn=False and memory=0"
            )


def check_remembers(posterior: object) -> None:
    """Raises TypeError for a posterior that cannot be updated without its earlier rows."""
    if not isinstance(posterior, Posterior):
        raise TypeError(
            f"update() is for results of a sparse cavity.GP, given {type(posterior).__name__}: "
            "fit again with all rows"
        )
    if shared_parameters(posterior.model.likelihood):
        raise TypeError(
            "update() holds or learns the parameters of a likelihood, and this one has some that "
            "are integrated out: fit again with all rows, or a fit without INTEGRATED"
        )
    if is_compressed(posterior):
        raise TypeError(
            "a compressed posterior is for predictions alone: update the one that it was made from"
        )
    if grows_with_rows(posterior.process):
        raise TypeError(
            "a full GP grows with its rows, and linear models and networks are not updated: fit "
            "again with all rows, or give a GP inducing variables, as in "
            "cavity.GP(kernel, likelihood, cavity.inducing.Points(Z))"
        )


def new_rows(
    result: Inference,
    X: ArrayLike,
    y: ArrayLike,
    rows: Mapping[str, ArrayLike] | None,
    missing: str,
) -> LiveRows:
    """The new rows, checked against what came before; none where X has no rows."""
    posterior: Posterior = result.posterior
    single, outputs = posterior.single, _outputs(posterior)
    if np.shape(X)[:1] == (0,):
        empty = np.zeros((0, posterior.n_inputs))
        return LiveRows(empty, np.zeros((0, outputs)), {})
    side = posterior.model.row_data(rows, len(np.asarray(y)))
    data = prepare(X, y, rows=side, missing=missing)
    new = rows_of(data)
    if new.X.shape[1] != posterior.n_inputs:
        raise ValueError(
            f"X has {plural(new.X.shape[1], 'column')}, the model was learned from "
            f"{plural(posterior.n_inputs, 'column')}: give the same ones"
        )
    if new.y.shape[1] != outputs or data.single != single:
        raise ValueError(
            f"y has shape {np.shape(y)}, the model was learned from "
            + ("a vector of outputs" if single else f"{plural(outputs, 'output')}")
            + ": give the same ones"
        )
    if {*new.side} - {WEIGHT} != {*posterior.side}:
        raise ValueError(
            f"the model came with the side data {sorted(posterior.side)}, the new rows have "
            f"{sorted({*new.side} - {WEIGHT})}: give the same ones, as rows={{name: values}}"
        )
    return new


def _outputs(posterior: Posterior) -> int:
    """Columns of y."""
    return posterior.outputs if posterior.model.likelihood.latents == 1 else 1
