"""Forecasters in files and on pages."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.kept import AbstractKept, Kept
from cavity.estimators.kept_times import rows_from, rows_record
from cavity.estimators.time_tables import TimeData, time_data
from cavity.families.base import Family, loaded
from cavity.families.forecaster import FORECASTER
from cavity.learning.double_precision import in_double
from cavity.learning.free_simulation import FreeSimulation
from cavity.persistence.known_classes import Classes
from cavity.persistence.typed_values import Large


class KeptSeries(AbstractKept):
    """A forecaster that files hold, with the rows of its fit."""

    family: ClassVar[Family] = FORECASTER
    remembered: ClassVar[Mapping[str, Any]] = {
        "log_evidence_": float,
        "converged_": bool,
        "message_": str,
        "n_iter_": Large,
        "history_": tuple[float, ...],
        "interrupted_": bool,
        "free_simulation_": FreeSimulation | None,
        "_seed": Large,
        "_fh": np.ndarray | None,
        "_data": TimeData,
        "_names": tuple[tuple[str, ...], tuple[str, ...]],
    }

    free_simulation_: FreeSimulation | Any

    _data: TimeData
    _names: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    @in_double
    def rows_and_names(self) -> tuple[TimeData, tuple[str, ...], tuple[str, ...]]:
        """The rows of the fit, and the names of outputs and controls."""
        return (self._data, *self._names)

    @in_double
    def report(self, path, y, X=None, series=None):
        """Writes one self-contained HTML page on the model and rows, as `cavity report` does.

        Args:
            path: the file, such as "report.html"; what it held before is replaced.
            y: rows, (n,) or (n, P): those of the fit, which are known by their values, rows that
                follow them, or both.
            X: their controls, where the fit had some.
            series: labels of their series, where the fit had some.

        Returns:
            The names of the page's figures.

        Raises:
            ValueError: for unusable rows.
            DataError: if the file cannot be written.
        """
        check_is_fitted(self, "posterior_")
        data = time_data(y, X, controls=self._data.X.shape[1], series=series)
        return loaded(self.family.report)(self, path, data)

    @in_double
    def kept(self, classes: Classes | None = None) -> Kept:
        """Settings and attributes for files; the rows too, to which `update` adds others.

        Args:
            classes: further classes by name.
        """
        return super().kept(classes).but(_data=rows_record(self._data))

    @in_double
    def recall(self, posterior: Any, fitted: Mapping[str, Any]) -> Any:
        """The forecaster with what is known of a fit; see `AbstractKept`."""
        return super().recall(posterior, {**fitted, "_data": rows_from(fitted.get("_data"))})
