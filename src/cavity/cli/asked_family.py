"""The family of models that `cavity fit` is asked for, and options that do not go with it."""

from collections.abc import Iterator, Sequence

from cavity.cli.request import Request
from cavity.cli.session import blaming, usage
from cavity.estimators.registry import one_of
from cavity.families.base import Family


def asked_family(request: Request, families: Sequence[Family]) -> Family:
    """The family of a request, with which its options go.

    Args:
        request: the options.
        families: those there are.

    Raises:
        UsageError: for options of other families, and those that the family has no use for.
    """
    with blaming("--model"):
        one_of("the model", request.model, dict.fromkeys(each.name for each in families))
    family = _chosen(request, families)
    if request.model != family.name:
        reason = f"{family.several} have the model {family.name}: leave it out"
        raise usage("--model", reason)
    for setting, reason in family.unused.items():
        if request.given(setting):
            raise usage(option_of(setting), reason)
    _refuse_options_of_others(request, family, families)
    if family.needs_target and not request.targets:
        raise usage("--target", family.needs_target)
    _refuse_combinations(request, family)
    return family


def _chosen(request: Request, families: Sequence[Family]) -> Family:
    """The family that is asked for by an option of its own, or else by name."""
    own = [each for each in families if each.chosen_by and request.given(each.chosen_by)]
    named = [each for each in families if not each.chosen_by and each.name == request.model]
    return [*own, *named][0]


def _refuse_options_of_others(
    request: Request, family: Family, families: Sequence[Family]
) -> None:
    """A usage error for options of another family than the one that is asked for."""
    for setting, option in _special_options(families):
        if not request.given(setting) or setting in {**family.options, **family.unused}:
            continue
        owners = [each for each in families if setting in each.options]
        kinds = " or ".join(each.asked_by for each in owners)
        several = " and ".join(each.several for each in owners)
        raise usage(option, f"it is for {several}: add {kinds}")


def _special_options(families: Sequence[Family]) -> Iterator[tuple[str, str]]:
    """Settings that not all families have, and their options."""
    yield from dict(pair for each in families for pair in each.options.items()).items()


def _refuse_combinations(request: Request, family: Family) -> None:
    """A usage error for names that settings do not take, and for broken rules."""
    for setting, known in family.values.items():
        if getattr(request, setting) is not None:
            with blaming(option_of(setting)):
                one_of(f"the {setting}", getattr(request, setting), known)
    for rule in family.rules:
        if rule.applies(request):
            raise usage(rule.option, rule.message.format_map(vars(request)))


def option_of(setting: str) -> str:
    """The option of a field of a request."""
    named = {"targets": "--target", "columns": "--column", "controls": "--control"}
    named |= {"states": "--state", "units": "--hidden"}
    return named.get(setting, f"--{setting.replace('_', '-')}")
