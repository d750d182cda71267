"""Families as data, of which the options of commands and their refusals are made.

Nothing here imports JAX or scikit-learn: `cavity fit --help` reads this and nothing that computes.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Rule:
    """A combination of settings that makes no sense.

    Attributes:
        applies: True for a request that is refused; its attributes are settings.
        option: the option to blame, such as "--inducing".
        message: the fault and the remedy, in words; "{method}" is the value of that setting.
    """

    applies: Callable[[Any], bool]
    option: str
    message: str


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
        name: the word of `--model`.
        called: one of its models in words, such as "a deep model".
        several: its models in words, such as "deep models".
        options: options of `cavity fit` that not all families have, by setting.
        unused: settings of other families that this one has no use for, and what to say.
        values: names that a setting takes, where these are few.
        rules: between settings, in the order in which they are looked at.
        needs_target: what to say where no column to predict is named; empty where none has to be.
        chosen_by: the setting that asks for it, of several families of one name.
    """

    name: str
    called: str
    several: str
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    values: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    needs_target: str = "name at least one column to predict"
    chosen_by: str = ""

    @property
    def asked_by(self) -> str:
        """The option that asks for it, such as "--model deep"."""
        if not self.chosen_by:
            return f"--model {self.name}"
        return self.options[self.chosen_by] + " HxW"
