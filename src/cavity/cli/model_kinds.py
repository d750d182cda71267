"""Kinds of models on the command line, and which options are whose."""

from collections.abc import Mapping
from typing import NamedTuple

from cavity.cli.request import Request
from cavity.cli.session import usage

MODELS = ("gp", "deep", "linear", "network", "latent", "state-space")
GP, DEEP, LINEAR, NETWORK, LATENT, STATE_SPACE = MODELS


class Owner(NamedTuple):
    """The kinds of models that some options of `cavity fit` are for.

    Attributes:
        kinds: as words of `--model`.
        called: its models, in words.
        options: fields of a request, and their options.
    """

    kinds: tuple[str, ...]
    called: str
    options: Mapping[str, str]


OWNERS = (
    Owner((GP,), "Gaussian processes", {"priors": "--priors"}),
    Owner((DEEP,), "deep models", {"layers": "--layers", "width": "--width"}),
    Owner((DEEP, NETWORK), "deep models and networks", {"steps": "--steps"}),
    Owner((LINEAR, NETWORK), "linear models and networks", {"prior": "--prior"}),
    Owner((LINEAR,), "linear models", {"blocks": "--blocks", "integrate": "--integrate"}),
    Owner((NETWORK,), "networks", {"units": "--hidden", "batch": "--batch"}),
    Owner((LATENT,), "embeddings", {"components": "--components", "columns": "--column"}),
    Owner(
        (STATE_SPACE,),
        "time series",
        {"states": "--state", "controls": "--control", "series": "--series"},
    ),
)


def refuse_unused(request: Request, reasons: Mapping[str, str]) -> None:
    """A usage error for options that a model has no use for.

    Args:
        request: what was asked for.
        reasons: what to say, by the fields of a request.
    """
    for name, reason in reasons.items():
        if getattr(request, name) != getattr(Request, name):
            raise usage(f"--{name.replace('_', '-')}", reason)


def refuse_options_of_others(request: Request) -> None:
    """A usage error for options of another kind of model than the one that is asked for."""
    for owner in OWNERS:
        for name, option in owner.options.items():
            given = getattr(request, name) != getattr(Request, name)
            if given and request.model not in owner.kinds:
                kinds = " or ".join(f"--model {kind}" for kind in owner.kinds)
                raise usage(option, f"it is for {owner.called}: add {kinds}")
