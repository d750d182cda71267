"""How close is close, in one place.

A comparison names its kind, and the precision of what the package computed picks the number:

- `algebra`: the same formula, summed or multiplied in another order.
- `factorised`: different formulas for one quantity, through Cholesky factors or inverses.
- `quadrature`: an integral by a rule of finite order.
- `gradient`: a derivative against finite differences.
- `fixed_point`: the end of an iteration that stops at a tolerance.
"""

import numpy as np

RELATIVE = {
    "algebra": {np.float64: 1e-12, np.float32: 1e-5},
    "factorised": {np.float64: 1e-8, np.float32: 1e-3},
    "quadrature": {np.float64: 1e-7, np.float32: 1e-4},
    "gradient": {np.float64: 1e-5, np.float32: 1e-2},
    "fixed_point": {np.float64: 1e-6, np.float32: 1e-3},
}


def relative(kind, dtype=np.float64):
    """The relative tolerance of a kind of comparison at a precision."""
    return RELATIVE[kind][np.dtype(dtype).type]


def assert_close(actual, expected, kind="algebra", scale=None):
    """Fails unless `actual` is within the tolerance of `kind` from `expected`.

    The error is measured against each entry, and against `scale` where entries are near zero
    (default: the largest entry expected).
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    tolerance = relative(kind, actual.dtype if actual.dtype.kind == "f" else np.float64)
    if scale is None:
        scale = np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)
