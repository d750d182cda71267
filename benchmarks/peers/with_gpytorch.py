"""GPyTorch: see the package for what the functions are."""

import os
from collections.abc import Callable
from typing import Any

import gpytorch
import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
torch.set_num_interop_threads(1)
Problem = dict[str, np.ndarray]


def _kernel(p: Problem) -> Any:
    D = p["X"].shape[1]
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=D))
    kernel.outputscale = float(p["variance"])
    kernel.base_kernel.lengthscale = torch.tensor(p["lengthscale"])
    return kernel


def _likelihood(p: Problem) -> Any:
    floor = gpytorch.constraints.GreaterThan(1e-6)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=floor)
    likelihood.noise = float(p["noise"])
    return likelihood


class Regression(gpytorch.models.ExactGP):
    """The exact GP, or SGPR."""

    def __init__(self, p: Problem, likelihood: Any, method: str):
        X, y = torch.tensor(p["X"]), torch.tensor(p["y"])
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = _kernel(p)
        if method == "vfe":
            Z = torch.tensor(p["Z"])
            self.covar_module = gpytorch.kernels.InducingPointKernel(_kernel(p), Z, likelihood)

    def forward(self, x: Any) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Variational(gpytorch.models.ApproximateGP):
    """SVGP, whitened, from the prior."""

    def __init__(self, p: Problem):
        M = len(p["Z"])
        q = gpytorch.variational.CholeskyVariationalDistribution(M)
        strategy = gpytorch.variational.VariationalStrategy(
            self, torch.tensor(p["Z"]), q, learn_inducing_locations=True
        )
        super().__init__(strategy)
        strategy.variational_params_initialized.fill_(1)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = _kernel(p)

    def forward(self, x: Any) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Layer(gpytorch.models.deep_gps.DeepGPLayer):
    """Functions of a deep GP that share a kernel and points, with the q of some of the problem's.

    Args:
        p: the problem.
        variance: the name of the kernel's variance.
        which: whose q.
        mean: the prior mean; None for zero.
        width: the number of functions; None for the one of the last layer.
    """

    def __init__(self, p: Problem, variance: str, which: slice, mean: Any, width: int | None):
        (M, D), q_mean, q_root = p["Z"].shape, p["q_mean"][which], p["q_root"][which]
        shape = torch.Size([] if width is None else [width])
        q = gpytorch.variational.CholeskyVariationalDistribution(M, batch_shape=shape)
        points = {"learn_inducing_locations": True, "jitter_val": float(p["jitter"])}
        strategy = gpytorch.variational.VariationalStrategy(
            self, torch.tensor(p["Z"]), q, **points
        )
        super().__init__(strategy, D, width)
        q.variational_mean.data = torch.tensor(q_mean).reshape(*shape, M)
        q.chol_variational_covar.data = torch.tensor(q_root).reshape(*shape, M, M)
        strategy.variational_params_initialized.fill_(1)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = _kernel(p | {"variance": p[variance]})
        self.skip = mean

    def forward(self, x: Any) -> Any:
        mean = self.mean_module(x) if self.skip is None else self.skip(x)
        return gpytorch.distributions.MultivariateNormal(mean, self.covar_module(x))


class Deep(gpytorch.models.deep_gps.DeepGP):
    """Two layers, the first as wide as there are columns."""

    def __init__(self, p: Problem):
        super().__init__()

        def own_column(x: Any) -> Any:
            """Of the inputs of each function, repeated for all, the one with its number."""
            return torch.diagonal(x, dim1=-3, dim2=-1).mT

        D = p["X"].shape[1]
        self.inner = Layer(p, "inner_variance", slice(0, -1), own_column, D)
        self.last = Layer(p, "variance", slice(-1, None), None, None)

    def forward(self, x: Any) -> Any:
        return self.last(self.inner(x))


def _loss(p: Problem, method: str) -> tuple[Any, Callable[[], Any]]:
    """The model, and its negative log evidence or bound as a tensor."""
    model = Regression(p, _likelihood(p), method)
    model.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    X, y = model.train_inputs[0], model.train_targets

    def loss() -> Any:
        exactly = {"covar_root_decomposition": False, "log_prob": False, "solves": False}
        settings = gpytorch.settings.fast_computations(**exactly if method == "exact" else {})
        with settings, gpytorch.settings.cholesky_jitter(double_value=float(p["jitter"])):
            return -mll(model(X), y) * len(y)

    return model, loss


def evaluation(p: Problem, method: str) -> Callable[[], float]:
    """`exact` is by Cholesky factors, `exact_default` by the library's own choice of algorithm."""
    model, loss = _loss(p, method)

    def call() -> float:
        model.zero_grad()
        value = loss()
        value.backward()
        return -value.item()

    return call


def step(p: Problem) -> Callable[[], float]:
    model, likelihood = Variational(p), _likelihood(p)
    mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(p["X"]))
    parameters = [*model.parameters(), *likelihood.parameters()]
    adam = torch.optim.Adam(parameters, lr=float(p["rate"]))
    X, y, batches = torch.tensor(p["X"]), torch.tensor(p["y"]), iter(p["batches"])

    def call() -> float:
        rows = torch.tensor(next(batches))
        adam.zero_grad()
        loss = -mll(model(X[rows]), y[rows])
        loss.backward()
        adam.step()
        return -loss.item() * len(y)

    return call


def deep(p: Problem, method: str) -> Callable[[], float]:
    model, likelihood = Deep(p), _likelihood(p)
    elbo = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(p["X"]))
    mll = gpytorch.mlls.DeepApproximateMLL(elbo)
    parameters = [*model.parameters(), *likelihood.parameters()]
    adam = torch.optim.Adam(parameters, lr=float(p["rate"]))
    X, y, batches = torch.tensor(p["X"]), torch.tensor(p["y"]), iter(p["batches"])
    samples = {"two": 2}.get(method, 1)

    def call() -> float:
        rows = torch.tensor(next(batches) if method == "step" else p["batches"][0])
        adam.zero_grad()
        with gpytorch.settings.num_likelihood_samples(samples):
            loss = -mll(model(X[rows]), y[rows])
        loss.backward()
        if method == "step":
            adam.step()
        return -loss.item() * len(y)

    return call


def _predict(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f: for SGPR by FITC's equations, which the library predicts with."""
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        f = model(X)
        return f.mean.cpu().numpy(), f.variance.cpu().numpy()


def prediction(p: Problem, method: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    model = Regression(p, _likelihood(p), method)
    model.eval()
    X = torch.tensor(p["X_test"])
    return lambda: _predict(model, X)


def conditioning(p: Problem, method: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """Fantasies of SVGP at its best q (Maddox et al. 2021), and predictions after them.

    What it gives is an exact GP of the inducing points as pseudo-rows and of the new rows. `vfe`
    is by Cholesky factors, `vfe_default` by the library's own choice of algorithm.
    """
    largest = gpytorch.settings.max_cholesky_size
    size = largest.value() if method == "vfe_default" else 1_000_000
    model = Variational(p)
    model.likelihood = _likelihood(p)
    q = model.variational_strategy._variational_distribution
    mean, root = _best_q(p)
    q.variational_mean.data, q.chol_variational_covar.data = mean, root
    model.eval()
    X, y, tests = (torch.tensor(p[name]) for name in ("X", "y", "X_test"))

    def call() -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad(), largest(size):
            updated = model.get_fantasy_model(X, y)
            updated.eval()
            return _predict(updated, tests)

    return call


def _best_q(p: Problem) -> tuple[Any, Any]:
    """Mean and root of the covariance of whitened inducing variables after the rows before."""
    kernel, noise = _kernel(p), float(p["noise"])
    Z, X, y = (torch.tensor(p[name]) for name in ("Z", "X_before", "y_before"))
    with torch.no_grad():
        K = kernel(Z).to_dense() + float(p["jitter"]) * torch.eye(len(Z))
        L = torch.linalg.cholesky(K)
        A = torch.linalg.solve_triangular(L, kernel(Z, X).to_dense(), upper=False)
        precision = torch.eye(len(Z)) + A @ A.T / noise
        covariance = torch.cholesky_inverse(torch.linalg.cholesky(precision))
        mean = covariance @ (A @ y) / noise
    return mean, torch.linalg.cholesky(covariance)


def fit(
    p: Problem, record: Callable[[float], bool], iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    """By Adam, as the library's examples do, at the step of most of them."""
    model, loss = _loss(p, "vfe")
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(iterations):
        adam.zero_grad()
        value = loss()
        if record(-value.item()):
            break
        value.backward()
        adam.step()
    model.eval()
    mean, var = _predict(model, torch.tensor(p["X_test"]))
    return mean, var + model.likelihood.noise.item()
