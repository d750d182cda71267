"""Families as data, of which the options of commands and their refusals are made.

Nothing here imports JAX or scikit-learn: `cavity fit --help` reads this and nothing that computes.
What computes is named by import path and loaded when it is used.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

from cavity.families.values import AbstractValues, Anything

Kind = Literal["text", "texts", "whole", "flag"]
# Commands for model files of functions of rows.
OF_ROWS = (
    *("predict", "evaluate", "examine", "report", "show", "update", "suggest", "coefficients"),
    "compress",
)


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of `cavity fit`; families may share one, each with a help of its own.

    Attributes:
        name: as it is typed, such as "--layers".
        metavar: what stands for its value in the help, such as "N".
        help: what it says, in a sentence or two.
        kind: what it takes; "texts" for an option that can be repeated.
        least: of a whole number.
        read: the value of a setting from what was typed; its ValueError is a usage error.
    """

    name: str
    metavar: str
    help: str
    kind: Kind = "text"
    least: int = 1
    read: Callable[[Any], Any] = lambda typed: typed


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting of a family: a parameter of its estimators.

    Attributes:
        name: of the parameter.
        default: its value where none is given.
        values: those that it takes.
        option: of `cavity fit`; None where the command line has none.
    """

    name: str
    default: object = None
    values: AbstractValues = Anything()
    option: Option | None = None

    def with_default(self, default: object, help: str | None = None) -> "Setting":
        """The setting with another default, and another help where one is given."""
        option = self.option
        if option is not None and help is not None:
            option = dataclasses.replace(option, help=help)
        return dataclasses.replace(self, default=default, option=option)


@dataclasses.dataclass(frozen=True)
class Rule:
    """A combination of settings that makes no sense.

    Attributes:
        applies: True for what is refused, given all settings and options by name.
        option: the option to blame, such as "--inducing".
        message: the fault and the remedy, in words; "{method}" is the value of that setting.
    """

    applies: Callable[[Mapping[str, Any]], bool]
    option: str
    message: str


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
        name: the word of `--model`.
        called: one of its models in words, such as "a deep model".
        several: its models in words, such as "deep models".
        about: one of its models at more length, for the help; empty for as it is called.
        estimators: import paths by task, such as "cavity.estimators.deep:DeepGPRegressor".
        fitting: import path of the class that does `cavity fit`, in module `cavity.cli`.
        files: import path of the class by which its estimators become model files, and these
            estimators.
        record: import path of the function that says of a fit what others have not, given an
            estimator and the contents of its file; empty for nothing.
        report: import path of the function that writes a page on an estimator and data.
        in_words: import path of the function that describes these.
        page: import path of the function that writes a page on these and a table, and gives
            entries of `--json`.
        commands: those that its model files are for.
        settings: parameters of its estimators; those of one task alone are in `only`.
        only: settings that the estimators of a task have alone, by task.
        command: options of `cavity fit` that are no parameters: roles of columns, and draws.
        unused: options that other families have a use for, and what to say, by option.
        rules: between settings, in the order in which they are looked at.
        needs_target: what to say where no column to predict is named; empty where none has to be.
        chosen_by: the option that asks for it, of several families of one name.
    """

    name: str
    called: str
    several: str
    about: str = ""
    estimators: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fitting: str = "cavity.cli.rows:FitRows"
    files: str = "cavity.tables.rows_files:RowsFiles"
    record: str = ""
    report: str = "cavity.report.of_estimators:rows_report"
    in_words: str = "cavity.cli.text:describe_fit"
    page: str = "cavity.cli.pages:rows_page"
    commands: tuple[str, ...] = OF_ROWS
    settings: tuple[Setting, ...] = ()
    only: Mapping[str, tuple[Setting, ...]] = dataclasses.field(default_factory=dict)
    command: tuple[Setting, ...] = ()
    unused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    needs_target: str = "name at least one column to predict"
    chosen_by: str = ""

    @property
    def options(self) -> dict[str, Setting]:
        """The settings that `cavity fit` has an option for, by option."""
        tasks = [each for own in self.only.values() for each in own]
        settings = (*self.command, *reversed(tasks), *self.settings)
        return {each.option.name: each for each in settings if each.option is not None}

    @property
    def asked_by(self) -> str:
        """The option that asks for it, such as "--model deep"."""
        if not self.chosen_by:
            return f"--model {self.name}"
        option = self.options[self.chosen_by].option
        return f"{self.chosen_by} {option.metavar if option else ''}"

    @property
    def word(self) -> str:
        """The word by which files know it; others may have the same name."""
        return self.chosen_by.removeprefix("--") or self.name

    @property
    def task(self) -> str:
        """The task of its estimators, the first where there are several."""
        return next(iter(self.estimators))

    def settings_of(self, task: str) -> tuple[Setting, ...]:
        """The parameters of the estimator of a task."""
        return (*self.settings, *self.only.get(task, ()))

    def check(self, estimator: object) -> None:
        """Refuses values that settings do not take, of those that estimators of all tasks have.

        Args:
            estimator: with the settings as attributes.

        Raises:
            ValueError: about the first, saying what is wanted, and what was given.
        """
        for each in self.settings:
            each.values.check(each.name, getattr(estimator, each.name))


def loaded(path: str) -> Any:
    """The object of an import path such as "cavity.estimators.deep:DeepGPRegressor"."""
    home, _, name = path.partition(":")
    return getattr(importlib.import_module(home), name)
