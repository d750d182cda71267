"""What an estimator chose by itself, kept in the units of the data."""

import dataclasses

import numpy as np

from cavity.estimators.base import AbstractPredictor
from cavity.estimators.learning import Learned
from cavity.estimators.settings import Settings
from cavity.learning.optimisers.powers import PowerTrial


class ChoosesPower(AbstractPredictor):
    """A fit that keeps the power that it used, and how that was chosen.

    Attributes:
        power_: the power that was used.
        power_table_: of a power that was chosen, what each that was compared came to.
    """

    power_: object
    power_table_: tuple[PowerTrial, ...] | None

    def _keep(self, learned: Learned, scale: np.ndarray) -> None:
        super()._keep(learned, scale)
        self.power_, self.power_table_ = learned.power, None
        if learned.powers is not None:
            logs = np.log(self.output_scale_)
            shift, each = float(learned.observed @ logs), float(np.mean(logs))
            self.power_table_ = tuple(
                trial._replace(
                    log_evidence=trial.log_evidence - shift,
                    log_density=trial.log_density - each,
                )
                for trial in learned.powers
            )

    def _settings_used(self) -> Settings:
        return dataclasses.replace(super()._settings_used(), power=self.power_)
