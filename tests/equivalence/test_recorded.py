"""Results that others recorded with their own code."""

import gzip

import numpy as np
from scipy import stats

import cavity
from cavity.likelihoods import StudentT


def test_jylanki_e_r1_student_t_energy(data_folder):
    """jylanki E-R1: the energy of EP at the recorded optimum of Neal's outlier regression.

    The log priors are in the space of the recorded optimiser: a Student-t density of the
    lengthscale and a flat one of the function's deviation, each times its Jacobian.
    """
    with gzip.open(data_folder / "neal_outliers" / "odata.txt.gz", "rt") as file:
        X, y = np.loadtxt(file)[:100].T
    variance, lengthscale, noise = np.exp([1.0871, 0.0321, -4.6357])
    kernel = cavity.kernels.RBF(variance, lengthscale) + cavity.kernels.White(1e-4)
    model = cavity.GP(kernel, StudentT(np.sqrt(noise), 4.0))
    found = cavity.infer(model, X[:, None], y, power=1.0)
    assert found.converged
    log_priors = np.log(stats.t(4).pdf(lengthscale) * lengthscale) + np.log(np.sqrt(variance) / 2)
    assert abs(-found.log_evidence - log_priors + 15.1794) < 1e-3
    # outliers take precision away
    ((store,),) = found.found
    assert np.sum(np.asarray(store.precision)[:100] < 0.0) == 11
