"""Gaussian processes of one layer."""

from cavity.families.base import Family

GP = Family(
    name="gp",
    called="a Gaussian process",
    several="Gaussian processes",
    options={"priors": "--priors"},
    values={"priors": ("weak", "none")},
)
