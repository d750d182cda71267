"""Domains, bijections and priors of parameters, and the table that prints them."""

from cavity.parameters import priors as priors
from cavity.parameters.trees import (
    FIXED,
    INTEGRATED,
    Bijection,
    Fixed,
    IntegratedOut,
    Interval,
    Model,
    Positive,
    Real,
    Units,
    bijections,
    describe,
    entries,
    fixed,
    free_entries,
    free_parts,
    from_real,
    interval,
    log_jacobian,
    positive,
    real,
    to_real,
    units,
)

__all__ = [
    "FIXED",
    "INTEGRATED",
    "Bijection",
    "Fixed",
    "IntegratedOut",
    "Interval",
    "Model",
    "Positive",
    "Real",
    "Units",
    "bijections",
    "describe",
    "entries",
    "fixed",
    "free_entries",
    "free_parts",
    "from_real",
    "interval",
    "log_jacobian",
    "positive",
    "priors",
    "real",
    "to_real",
    "units",
]


def __dir__() -> list[str]:
    return __all__
