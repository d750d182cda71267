"""Gaussian-process models by deterministic approximate inference.

One number, the power, runs from variational inference (0) to expectation propagation (1):

    from cavity import inducing, kernels, likelihoods

    model = cavity.GP(kernels.RBF(), likelihoods.Gaussian(), inducing.Points(Z))
    result = cavity.fit(model, X, y, power=0.5)
    mean, var = result.posterior.marginals(X_new)

or, with scikit-learn's interface, `cavity.GPRegressor().fit(X, y).predict(X_new)` and
`cavity.GPClassifier().fit(X, labels).predict_proba(X_new)`.
"""

import lazy_loader

# `__init__.pyi` lists the public names. They are imported when they are first used, so that the
# command line can answer `--help` without waiting for JAX.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
