"""A request as settings of the family that it is for."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from cavity.cli.request import Request, option_of, owners_of
from cavity.cli.session import blaming, usage
from cavity.families.base import Family, Setting
from cavity.families.values import one_of


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request for a model of a family.

    Attributes:
        request: the options.
        family: the one that is asked for.
        given: by name the settings that were given.
    """

    request: Request
    family: Family
    given: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def values(self) -> dict[str, Any]:
        """All settings with an option by name, those that were not given at their defaults."""
        request = self.request
        own = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
        own |= {"targets": tuple(request.targets or ()), "ignore": tuple(request.ignore or ())}
        options = self.family.options.values()
        return own | {each.name: each.default for each in options} | {**self.given}

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the family's estimators that were given, and the seed."""
        known = {each.name for each in self.family.options.values()}
        known -= {each.name for each in self.family.command}
        chosen = {name: value for name, value in self.given.items() if name in known}
        return chosen | {"random_state": self.request.seed}

    def but(self, **changed: object) -> "Asked":
        """The request with other values of some settings."""
        return dataclasses.replace(self, given={**self.given, **changed})


def ask(request: Request, families: Sequence[Family]) -> Asked:
    """The settings that a request is, of the family that it is for.

    Args:
        request: the options.
        families: those there are.

    Raises:
        UsageError: for options of other families, those that the family has no use for, values
            that settings do not take, and combinations that make no sense.
    """
    with blaming("--model"):
        one_of("the model", request.model, dict.fromkeys(each.name for each in families))
    family = _chosen(request, families)
    if request.model != family.name:
        reason = f"{family.several} have the model {family.name}: leave it out"
        raise usage("--model", reason)
    typed = request.typed
    for option, reason in _unused(family).items():
        if option in typed and not _usual(option, typed[option], families):
            raise usage(option, reason)
    if request.task is not None and "--task" not in family.unused:
        with blaming("--task"):
            one_of("the task", request.task, family.estimators)
    _refuse_options_of_others(request, family, families)
    if family.needs_target and not request.targets:
        raise usage("--target", family.needs_target)
    read = {
        setting.name: _read(option, setting, request.options[option])
        for option, setting in family.options.items()
        if option in request.options
    }
    asked = Asked(request, family, read)
    _refuse_combinations(asked)
    return asked


def _unused(family: Family) -> dict[str, str]:
    """Why a family has no use for options; one that needs all rows at once has no parts."""
    reason = family.unused.get("--batch-rows")
    parts = {} if reason is None else dict.fromkeys(("--processes", "--scheduler"), reason)
    return parts | {**family.unused}


def _chosen(request: Request, families: Sequence[Family]) -> Family:
    """The family that is asked for by an option of its own, or else by name."""
    own = [each for each in families if each.chosen_by in request.options]
    named = [each for each in families if not each.chosen_by and each.name == request.model]
    return [*own, *named][0]


def _usual(option: str, typed: Any, families: Sequence[Family]) -> bool:
    """True for the default of the option, of the first family that has it: it asks for nothing."""
    return any(typed == each.options[option].default for each in owners_of(option, families)[:1])


def _refuse_options_of_others(
    request: Request, family: Family, families: Sequence[Family]
) -> None:
    """A usage error for options of another family than the one that is asked for."""
    for option in request.options:
        if option in {**family.options, **family.unused}:
            continue
        owners = owners_of(option, families)
        kinds = " or ".join(each.asked_by for each in owners)
        several = " and ".join(each.several for each in owners)
        raise usage(option, f"it is for {several}: add {kinds}")


def _read(option: str, setting: Setting, typed: object) -> object:
    """The value of a setting from what was typed for its option."""
    assert setting.option is not None
    with blaming(option):
        value = setting.option.read(typed)
        setting.values.check(f"the {setting.name.replace('_', ' ')}", value)
    return value


def _refuse_combinations(asked: Asked) -> None:
    """A usage error for the first rule that is broken."""
    values = asked.values | {"given": asked.given}
    for rule in asked.family.rules:
        if rule.applies(values):
            raise usage(rule.option, rule.message.format_map(values))


def check_resume(request: Request) -> None:
    """A usage error for going on from nothing."""
    if request.resume and request.checkpoint is None:
        raise usage(option_of("resume"), "it needs --checkpoint DIR, the folder to go on from")
