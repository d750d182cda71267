"""A fitted model with all that is needed to predict, judge and describe it without its data."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from cavity.interfaces import storage
from cavity.interfaces.errors import StorageError
from cavity.interfaces.predictions import Predictions, predict_outputs
from cavity.interfaces.schema import Encoded, Schema
from cavity.learning.infer import NumericalError
from cavity.learning.metrics import average_metrics, regression_metrics
from cavity.likelihoods.gaussian import Gaussian
from cavity.numerics.names import named
from cavity.numerics.words import counted
from cavity.parameters import Units, units


@dataclasses.dataclass(frozen=True, eq=False)
class Fitted:
    """What the command line's model files hold.

    Attributes:
        posterior: the posterior process of the outputs divided by `output_scale`, its arrays
            numpy float64.
        schema: which columns of a table the model reads.
        record: how it was fitted, by the names of `cavity fit --json`; all JSON values.
        output_scale: divisor of each output, (P,).
        y_mean: mean of each training target, (P,), in the units of the data.
        y_var: variance of each training target, (P,).
    """

    posterior: Any
    schema: Schema
    record: dict[str, Any]
    output_scale: np.ndarray
    y_mean: np.ndarray
    y_var: np.ndarray

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(column.name for column in self.schema.targets)

    def predictive(self, X: np.ndarray, noise: np.ndarray | None = None) -> Predictions:
        """The predictive distribution of the targets, in the units of the data.

        Args:
            X: inputs, (n, D), as `schema.encode` makes them.
            noise: known noise variance of each row, where the model has a noise column.

        Raises:
            NumericalError: if a prediction is not finite.
        """
        out = predict_outputs(self.posterior, self.output_scale, X, noise)
        bad = np.flatnonzero(~np.all(np.isfinite(out.mean) & np.isfinite(out.std), axis=1))
        if len(bad):
            verb = "is" if len(bad) == 1 else "are"
            raise NumericalError(
                f"{len(bad)} of {counted(len(out.mean), 'prediction')} {verb} not finite (the "
                f"first is number {bad[0] + 1}); inputs far outside the fitted ones do this"
            )
        return out

    def metrics(self, table: Encoded) -> dict[str, Any]:
        """How well the rows of a table are predicted, by the names of `cavity evaluate --json`.

        With several targets these are means over them, and `per_target` has those of each.

        Raises:
            NumericalError: if a prediction is not finite.
        """
        assert table.y is not None
        out = self.predictive(table.X, table.noise)
        density = out.log_density(table.y)
        parts = zip(table.y.T, out.mean.T, out.std.T, density.T, strict=True)
        each = [
            regression_metrics(*part, mean, var)
            for part, mean, var in zip(parts, self.y_mean, self.y_var, strict=True)
        ]
        if len(each) == 1:
            return dict(each[0])
        named_each = dict(zip(self.targets, each, strict=True))
        return {**average_metrics(each), "per_target": named_each}

    def save(self, path: str | Path) -> None:
        """Writes the model as one file, whole or not at all.

        Raises:
            StorageError: if it cannot be written.
        """
        about = {
            "schema": self.schema.to_dict(),
            "record": {k: v for k, v in self.record.items() if k != "parameters"},
            "output_scale": self.output_scale,
            "y_mean": self.y_mean,
            "y_var": self.y_var,
        }
        storage.save(path, self.posterior, about)

    @classmethod
    def load(cls, path: str | Path) -> "Fitted":
        """The model in a file that `save` wrote.

        Raises:
            StorageError: if it cannot be read, is damaged, or holds something else.
        """
        posterior, about = storage.load(path)
        try:
            schema = Schema.from_dict(about["schema"])
            record, scale = dict(about["record"]), np.array(about["output_scale"], float)
            y_mean, y_var = np.array(about["y_mean"], float), np.array(about["y_var"], float)
            known = posterior.known_noise
            values = parameters(posterior.model, scale, known_noise=known)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise StorageError(
                f"{path} holds a model without the description of its table; this command reads "
                "models that 'cavity fit' wrote"
            ) from None
        return cls(posterior, schema, record | {"parameters": values}, scale, y_mean, y_var)


def parameters(
    model: Any, output_scale: np.ndarray, *, known_noise: bool = False
) -> dict[str, Any]:
    """The parameters of a model by dotted name, in the units of the data, as JSON values.

    Where several outputs share a parameter that is measured in their units, and their scales
    differ, it becomes a list with a value for each output.

    Args:
        model: the model.
        output_scale: divisor of each output, (P,).
        known_noise: whether the noise variance of each row was known. The likelihood's own has
            no effect then and was not learned, and is left out.
    """
    measured = named(units(model))
    replaced = known_noise and isinstance(model.likelihood, Gaussian)
    found = {}
    for name, value in named(model).items():
        if replaced and name == "likelihood.variance":
            continue
        array, unit = np.asarray(value, float), measured[name]
        if isinstance(unit, Units) and unit.output and np.any(output_scale != 1.0):
            own = name.startswith(("mean.", "likelihood.")) and array.ndim
            array = (array if own else array[..., None]) * output_scale**unit.output
        found[name] = array.tolist()
    return found
