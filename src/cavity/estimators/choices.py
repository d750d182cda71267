"""Choices that an estimator made by itself, kept in the units of the data."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from cavity.estimators.asked_types import PowerAsked
from cavity.estimators.base import AbstractPredictor
from cavity.estimators.learning import Learned
from cavity.estimators.settings import Settings
from cavity.learning.diagnostics.bracket import Bracket
from cavity.learning.plans.powers import PowerTrial
from cavity.models.base import AbstractModel


class KeepsChoices(AbstractPredictor):
    """A fit that keeps the power and the inducing points that it used, and how they were chosen.

    Attributes:
        power_: the power that was used.
        power_table_: evidence and held-out density at each power that was compared; None if the
            power was given.
        n_inducing_: the number of inducing points; None for a full GP.
        bracket_: bracket of the exact evidence, if `n_inducing="enough"`.
        verdict_: whether there are enough inducing points, in a sentence; empty unless
            `n_inducing="enough"`.
    """

    remembered: ClassVar[Mapping[str, Any]] = {
        **AbstractPredictor.remembered,
        "power_": Any,
        "power_table_": tuple[PowerTrial, ...] | None,
        "bracket_": Bracket | None,
        "verdict_": str,
    }

    power_: PowerAsked
    power_table_: tuple[PowerTrial, ...] | Any
    n_inducing_: int | None
    bracket_: Bracket | Any
    verdict_: str

    def _keep(self, learned: Learned, scale: np.ndarray) -> None:
        super()._keep(learned, scale)
        self.power_, self.power_table_ = learned.power, None
        if learned.powers is not None:
            logs = np.log(self.output_scale_)
            self.power_table_ = tuple(_in_units(trial, logs) for trial in learned.powers)
        self.bracket_, self.verdict_ = None, ""
        judged = learned.judgement
        if judged is not None:
            self.verdict_ = judged.text
        if judged is not None and judged.bracket is not None:
            shift = float(judged.observed @ np.log(self.output_scale_))
            self.bracket_ = judged.bracket.shifted(-shift)

    def _keep_parts(self, model: AbstractModel) -> None:
        super()._keep_parts(model)
        inducing: Any = self.inducing_
        self.n_inducing_ = None if inducing is None else inducing.size

    def _settings_used(self) -> Settings:
        return dataclasses.replace(super()._settings_used(), power=self.power_)


def _in_units(trial: PowerTrial, logs: np.ndarray) -> PowerTrial:
    """A trial in the units of outputs that were divided by scales of these logarithms."""
    evidence = trial.log_evidence - float(np.array(trial.fitted) @ logs)
    density = trial.log_density - float(np.average(logs, weights=trial.tested))
    return trial._replace(log_evidence=evidence, log_density=density)
