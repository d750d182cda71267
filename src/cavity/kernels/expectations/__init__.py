"""Expectations of kernels under Gaussian inputs."""

from cavity.kernels.expectations.inputs import GaussianInputs
from cavity.kernels.expectations.moments import (
    covariance_forms,
    covariance_products,
    covariance_sum,
    expected_cross,
    expected_diag,
    expected_outer_sum,
    expected_slopes,
)
from cavity.kernels.expectations.terms import Expansion, Terms, expansion

__all__ = [
    "Expansion",
    "GaussianInputs",
    "Terms",
    "covariance_forms",
    "covariance_products",
    "covariance_sum",
    "expansion",
    "expected_cross",
    "expected_diag",
    "expected_outer_sum",
    "expected_slopes",
]
