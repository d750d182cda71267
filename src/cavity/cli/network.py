"""`cavity fit --model network`: groups of columns, and what is remembered."""

from typing import Any, cast

from cavity.cli.rows import FitRows
from cavity.cli.session import usage
from cavity.estimators.network import NetworkClassifier, NetworkRegressor
from cavity.tables.table_model import TableModel


class FitNetwork(FitRows[NetworkRegressor | NetworkClassifier]):
    """A network with a prior on its weights."""

    def settings(self) -> dict[str, Any]:
        """None that follow from the tables; more than two classes are refused."""
        classes = len(self.tables.schema.targets[0].categories)
        if classes > 2:
            raise usage(
                "--model",
                f"a network tells two classes apart, and the target has {classes}: leave --model "
                "out",
            )
        return {}

    def record(self, estimator: NetworkRegressor | NetworkClassifier) -> dict[str, Any]:
        """Entries of the record, of minibatches with the method that they have."""
        record = super().record(estimator)
        return record | ({} if estimator.batch is None else {"method": "tied"})

    def further(
        self, estimator: NetworkRegressor | NetworkClassifier, fitted: TableModel
    ) -> dict[str, Any]:
        """The prior, the units, and how strongly these follow each column."""
        features = fitted.schema.features
        hidden = cast(int | tuple[int, ...], estimator.hidden)
        relevance = map(float, estimator.relevance_)
        return {
            "prior": estimator.prior,
            "hidden": hidden if isinstance(hidden, int) else list(hidden),
            "batch": estimator.batch,
            "steps": None if estimator.batch is None else estimator.steps,
            "relevance": dict(zip(features, relevance, strict=True)),
        }
