"""BoTorch, for the value of measuring a row: see the package for what the functions are."""

from typing import Any

import gpytorch
import numpy as np
import torch
from botorch.acquisition import qNegIntegratedPosteriorVariance
from botorch.models import SingleTaskGP

torch.set_default_dtype(torch.float64)
Problem = dict[str, np.ndarray]


def gains(p: Problem) -> dict[str, Any]:
    """By how much each candidate lowers the mean variance of f over the test rows."""
    X, y = torch.tensor(p["X"]), torch.tensor(p["y"])[:, None]
    D = X.shape[1]
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=D))
    kernel.outputscale = float(p["variance"])
    kernel.base_kernel.lengthscale = torch.tensor(p["lengthscale"])
    model = SingleTaskGP(
        X,
        y,
        train_Yvar=torch.full_like(y, float(p["noise"])),
        covar_module=kernel,
        mean_module=gpytorch.means.ZeroMean(),
        outcome_transform=None,
    )
    model.eval()
    where, candidates = torch.tensor(p["X_test"]), torch.tensor(p["candidates"])
    value = qNegIntegratedPosteriorVariance(model, mc_points=where)
    exactly = gpytorch.settings.fast_computations(False, False, False)
    with torch.no_grad(), exactly, gpytorch.settings.fast_pred_var(False):
        before = model.posterior(where).variance.mean()
        after = -value(candidates[:, None, :])
    return {"gains": (before - after).tolist()}
