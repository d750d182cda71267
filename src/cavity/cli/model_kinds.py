"""Kinds of models on the command line, and which options are whose."""

from collections.abc import Mapping
from typing import NamedTuple

from cavity.cli.request import Request
from cavity.cli.session import usage

MODELS = ("gp", "deep", "linear", "latent", "state-space")
GP, DEEP, LINEAR, LATENT, STATE_SPACE = MODELS


class Owner(NamedTuple):
    """The kind of model that some options of `cavity fit` are for.

    Attributes:
        called: its models, in words.
        options: fields of a request, and their options.
    """

    called: str
    options: Mapping[str, str]


OWNERS = {
    DEEP: Owner("deep models", {"layers": "--layers", "width": "--width", "steps": "--steps"}),
    LINEAR: Owner("linear models", {"prior": "--prior"}),
    LATENT: Owner("embeddings", {"components": "--components", "columns": "--column"}),
    STATE_SPACE: Owner(
        "time series", {"states": "--state", "controls": "--control", "series": "--series"}
    ),
}


def refuse_options_of_others(request: Request) -> None:
    """A usage error for options of another kind of model than the one that is asked for."""
    for kind, owner in OWNERS.items():
        for name, option in owner.options.items():
            if kind != request.model and getattr(request, name):
                raise usage(option, f"it is for {owner.called}: add --model {kind}")
