"""`cavity fit --model network`: what it does not take."""

from typing import Any

from cavity.cli.rows import FitRows
from cavity.cli.session import usage
from cavity.estimators.network import NetworkClassifier, NetworkRegressor


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
