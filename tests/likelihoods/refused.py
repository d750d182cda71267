"""What `cavity.infer` says of outputs that a likelihood does not take."""

import jax
import numpy as np
import pytest

import cavity

X = np.linspace(0.0, 1.0, 4)[:, None]


def refusal(likelihood, y):
    """The message for four outputs."""
    model = cavity.GP(cavity.kernels.RBF(1.0, [1.0]), likelihood)
    with jax.enable_x64(True), pytest.raises(ValueError, match="does not take") as found:
        cavity.infer(model, X, np.asarray(y, float))
    return str(found.value)


def domain_error(likelihood, y):
    """The message for a parameter outside its domain."""
    model = cavity.GP(cavity.kernels.RBF(1.0, [1.0]), likelihood)
    with jax.enable_x64(True), pytest.raises(ValueError, match="its domain is") as found:
        cavity.infer(model, X, np.asarray(y, float))
    return str(found.value)
