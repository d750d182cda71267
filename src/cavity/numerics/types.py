"""Array aliases and the dimension letters used in every annotation.

N data, M inducing variables, D inputs, L latents, P outputs, B rows of a block, K blocks,
G groups of outputs that share site precisions, R outputs in a group, S samples or nodes.
"""

from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, Key, PRNGKeyArray
from jaxtyping import PyTree as PyTree  # not in `__all__`: its own documentation is not ours

if TYPE_CHECKING:
    Array = jax.Array
else:  # a parameter stays numpy float64 until it meets data, so no precision is lost
    Array = jax.Array | np.ndarray

Scalar = Float[Array, ""]

__all__ = ["Array", "Bool", "Float", "Int", "Key", "PRNGKeyArray", "Scalar"]
