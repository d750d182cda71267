"""Faults of rows, sites, views and Gaussian variables."""

from benchmarks.mutations.fault import Fault

# The test that exact rows are general ones, whose cases have names.
GENERAL = "equivalence/test_general_row.py::test_exact_row_is_the_general_row"

ROWS_AND_SITES = (
    Fault(
        "the presence of the first output stands for all, sites",
        "inference/graph/rows.py",
        "return jnp.broadcast_to(self.presence, self.y.shape)",
        "return jnp.broadcast_to(self.presence[..., :1], self.y.shape)",
        ("inference/test_presence.py",),
    ),
    Fault(
        "a block with padding is absent",
        "inference/graph/rows.py",
        "jnp.max(self.observed, axis=1)",
        "jnp.min(self.observed, axis=1)",
        (f"{GENERAL}[blocks, power 0.5]",),
    ),
    Fault(
        "a block's cavity lacks the whole shift",
        "inference/graph/sites.py",
        "m - a * V @ h, V]",
        "m - V @ h, V]",
        (f"{GENERAL}[blocks, power 0.5]",),
    ),
    Fault(
        "a block's log normaliser ratio has no power before its square",
        "inference/graph/sites.py",
        "0.5 * a * h @ V @ h",
        "0.5 * h @ V @ h",
        (f"{GENERAL}[blocks, power 0.5]",),
    ),
    Fault(
        "sites of blocks are matched at power 1",
        "inference/graph/sites.py",
        "+ a * H @ V",
        "+ H @ V",
        (f"{GENERAL}[blocks, power 0.5]",),
    ),
    Fault(
        "a block's cavity is proper where its trace is positive",
        "inference/graph/sites.py",
        "proper = jnp.all(jnp.isfinite(root))",
        "proper = jnp.trace(cov) > 0.0",
        (
            "inference/test_site_update.py::test_a_block_cavity_with_negative_eigenvalues_is_not_proper",
        ),
    ),
    Fault(
        "changes of shifts do not count in the residual",
        "inference/graph/sites.py",
        "jnp.abs(new.shift - self.shift) * jnp.sqrt(var))",
        "0.0 * new.shift)",
        ("inference/test_convergence.py::test_residuals_are_those_of_numpy",),
    ),
    Fault(
        "changes of precisions do not count in the residual",
        "inference/graph/sites.py",
        "precision = jnp.abs(new.precision - self.precision) * var",
        "precision = 0.0 * var",
        ("inference/test_convergence.py::test_residuals_are_those_of_numpy",),
    ),
    Fault(
        "the ratio of class sites has no half",
        "inference/graph/sites.py",
        "0.5 * _class_product(self.precision, mean)",
        "_class_product(self.precision, mean)",
        ("inference/test_class_methods.py::test_laplace_is_newtons_method_on_dense_matrices",),
    ),
    Fault(
        "leave-one-out takes half of a site out",
        "inference/graph/base.py",
        "sites.cavity(*marginal.moments, 1.0)",
        "sites.cavity(*marginal.moments, 0.5)",
        ("inference/test_leave_one_out.py::test_jylanki_19_gaussian_noise_is_exact",),
    ),
    Fault(
        "the jitter of inducing variables is ignored",
        "inference/variables/inducing_view.py",
        "jittered(Kuu, jitter, diag)",
        "jittered(Kuu, 0.0, diag)",
        ("equivalence/test_collapsed.py::test_jitter_is_a_share_of_the_prior_variance",),
    ),
    Fault(
        "the jitter of function values is ignored",
        "models/latent_gp.py",
        "jittered(prior, jitter, variances_from(seen, self.kernel))",
        "jittered(prior, 0.0, variances_from(seen, self.kernel))",
        ("equivalence/test_collapsed.py::test_jitter_is_a_share_of_the_prior_variance",),
    ),
)

VALUES = (
    Fault(
        "the volume of several outputs counts once, full GP",
        "inference/variables/function_values.py",
        "-0.5 * replicas * jnp.sum(log_determinant(L))",
        "-0.5 * jnp.sum(log_determinant(L))",
        ("inference/test_presence.py::test_every_output_has_rows_of_its_own[full-exact-whole]",),
    ),
    Fault(
        "a slope in the prior covariance counts one output's variance",
        "inference/variables/function_values.py",
        "w @ w.T - replicas * explained",
        "w @ w.T - explained",
        ("inference/test_presence.py::test_every_output_has_rows_of_its_own[full-exact-whole]",),
    ),
    Fault(
        "the response of variances is not squared",
        "inference/variables/function_values.py",
        '-jnp.einsum("gij,jg->ig", self.covariance**2,',
        '-jnp.einsum("gij,jg->ig", self.covariance,',
        ("inference/test_convergence.py::test_responses_are_differences_of_marginals",),
    ),
    Fault(
        "negative precisions do not raise marginal variances",
        "inference/variables/function_values.py",
        "var = var + jnp.sum((self.raised @ self.covariance) ** 2, axis=1).T",
        "var = var + 0.0",
        ("inference/test_four_points.py::test_jylanki_06_24_four_points_converge",),
    ),
    Fault(
        "the volume of negative precisions is left out",
        "inference/variables/function_values.py",
        "0.5 * spread - 0.5 * shift.shape[-1] * jnp.sum(log_determinant(L))",
        "0.5 * spread",
        ("inference/test_four_points.py::test_jylanki_06_24_four_points_converge",),
    ),
)

INDUCING = (
    Fault(
        "the second moment in the slope counts one output's variance",
        "inference/variables/inducing.py",
        "square = replicas * covariance",
        "square = covariance",
        ("inference/test_presence.py::test_every_output_has_rows_of_its_own[sparse-exact-whole]",),
    ),
    Fault(
        "the volume of several outputs counts once, inducing variables",
        "inference/variables/inducing.py",
        "- replicas * jnp.sum(log_determinant(L))",
        "- jnp.sum(log_determinant(L))",
        ("inference/test_presence.py::test_every_output_has_rows_of_its_own[sparse-exact-whole]",),
    ),
    Fault(
        "the response of the inducing covariance has the other sign",
        "inference/variables/inducing.py",
        "return mean, -self.covariance @",
        "return mean, self.covariance @",
        ("inference/test_convergence.py::test_responses_are_differences_of_marginals",),
    ),
)

CLASSES = (
    Fault(
        "the variance of u is missing in a row's scale",
        "inference/variables/class_contrasts.py",
        "jnp.log(self.variance * s)",
        "jnp.log(s)",
        ("inference/test_coupled_classes.py::test_sparse_at_any_power_shares_residuals_with_u",),
    ),
    Fault(
        "the volume of coupled classes lacks the rows'",
        "inference/variables/coupled_classes.py",
        "log_determinant(L) - jnp.sum(jnp.log(s))",
        "log_determinant(L)",
        (
            "inference/test_coupled_algebra.py::test_jylanki_44_full_posterior_is_dense_elimination",
        ),
    ),
    Fault(
        "leave-one-out of classes takes half of a site out",
        "models/coupled_classes.py",
        "whole.cavity(mean[:, None], cov[:, None], 1.0)",
        "whole.cavity(mean[:, None], cov[:, None], 0.5)",
        ("inference/test_coupled_classes.py::test_jylanki_19_leave_one_out_is_from_the_cavities",),
    ),
    Fault(
        "leave-one-out of Laplace's classes takes half of a site out",
        "models/coupled_classes.py",
        "whole.cavity(*marginal.moments, 1.0)",
        "whole.cavity(*marginal.moments, 0.5)",
        ("inference/test_class_methods.py::test_laplace_leaves_one_out",),
    ),
)

GRAPH_FAULTS = (*ROWS_AND_SITES, *VALUES, *INDUCING, *CLASSES)
