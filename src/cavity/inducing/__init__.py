"""Floor 1: linear functionals of the latent function."""

from cavity.inducing.base import AbstractInducing, Points, covariance, covariance_from

__all__ = ["AbstractInducing", "Points", "covariance", "covariance_from"]
