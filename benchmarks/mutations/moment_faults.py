"""Deliberate faults of moments and scales: variances, widths, shares, and the rows they are of."""

from benchmarks.mutations.fault import Fault

MOMENT_FAULTS = (
    Fault(
        "deviations of integrated slopes forget half of how values covary with the centre",
        "models/mean_function.py",
        "- 2.0 * cov[:, 0, 1:]",
        "- cov[:, 0, 1:]",
        ("models/test_mean_function.py::test_weights_have_their_posterior_moments",),
    ),
    Fault(
        "joint covariances of a network take its output weights as known",
        "models/network/process.py",
        "squares = (v**2 + jnp.diagonal(V, axis1=1, axis2=2))[:, :-1]",
        "squares = (v**2)[:, :-1]",
        ("models/test_network.py::test_a_network_learns_what_is_not_linear",),
    ),
    Fault(
        "the functions that move states have the process noise in their variance",
        "models/state_space/posterior.py",
        "return mean, jnp.maximum(var - cast(Array, transition.noise_variance), 0.0)",
        "return mean, var",
        ("models/test_gpssm.py::test_functions_and_smoothed_outputs_of_a_posterior",),
    ),
    Fault(
        "coefficients are selected by their own error, not by that of the set",
        "models/linear/coefficients.py",
        "within = np.flatnonzero(shares <= fdr)",
        "within = np.flatnonzero(error[order] <= fdr)",
        ("estimators/test_linear.py::test_a_selected_set_has_few_errors_on_average",),
    ),
    Fault(
        "affine outputs along paths scale variances by slopes, not by their squares",
        "models/state_space/conditional.py",
        "var = paths.var @ (slopes**2).T",
        "var = paths.var @ jnp.abs(slopes).T",
        ("models/test_state_conditional.py::test_outputs_spread_with_the_squares_of_slopes",),
    ),
    Fault(
        "the past under another noise keeps all of its old normaliser",
        "inference/past.py",
        "(now - share * before)",
        "(now - before)",
        ("learning/test_update_scales.py::test_noise_that_changes_does_not_misread_the_past",),
    ),
    Fault(
        "the terms of a scaled sum of kernels lose the factor",
        "inducing/sums.py",
        "return tuple(Scaled(term, kernel.factor) for term in _split(kernel.kernel))",
        "return _split(kernel.kernel)",
        ("inducing/test_sums_of_kernels.py::test_a_factor_of_a_sum_is_one_of_each_term",),
    ),
    Fault(
        "a Laplace prior given its scale has half of its variance",
        "weights/densities.py",
        "return 2.0 * self.scale**2 * jnp.exp(local), local - jnp.exp(local)",
        "return self.scale**2 * jnp.exp(local), local - jnp.exp(local)",
        ("weights/test_priors.py::test_weights_are_gaussian_given_their_scales",),
    ),
    Fault(
        "outputs of varying noise scatter by the noise at the mean of its logarithm",
        "likelihoods/heteroscedastic.py",
        "total = v + jnp.exp(mean_g + 0.5 * var_g)",
        "total = v + jnp.exp(mean_g)",
        ("likelihoods/test_heteroscedastic.py::test_predictive_is_a_mixture_over_noise_levels",),
    ),
    Fault(
        "central intervals of counts lose the count at their upper end",
        "likelihoods/predictive/numerical.py",
        "below = self.cdf(y - 1.0) if self.discrete else self.cdf(y)",
        "below = self.cdf(y)",
        ("likelihoods/test_numerical.py::test_intervals_of_counts_hold_their_ends",),
    ),
    Fault(
        "the spread of a category adds deviations, not variances",
        "learning/data/scales.py",
        "np.bincount(numbers, self.x_spread**2)",
        "np.bincount(numbers, self.x_spread)",
        ("kernels/test_groups.py::test_a_group_starts_at_the_distance_of_its_rows",),
    ),
    Fault(
        "a kernel of images is judged by images that it was learned from",
        "learning/plans/images.py",
        "order[held:][: search.images]",
        "order[: search.images]",
        ("estimators/test_images.py::test_patches_tell_what_pixels_do_not",),
    ),
    Fault(
        "distances between inputs far from zero lose their digits",
        "kernels/base.py",
        "scaled_distance(X - centre, Z - centre, jnp.asarray(lengthscale))",
        "scaled_distance(X, Z, jnp.asarray(lengthscale))",
        (
            "kernels/test_stationary.py::test_offset_of_a_million_costs_no_digits_but_those_of_the_inputs",
        ),
    ),
    Fault(
        "latent points go back by the inverse of their order",
        "estimators/latent_map.py",
        "natural[:, self.order] = X",
        "natural[:] = X[:, self.order]",
        ("estimators/test_embedding.py::test_three_dimensions_go_back_to_where_they_came_from",),
    ),
    Fault(
        "a deep model must exceed the evidence of some rows shared by all",
        "learning/plans/deep.py",
        "single.log_evidence / (len(chosen) if done else count)",
        "single.log_evidence / count",
        ("learning/test_plans.py::test_a_sparse_gp_of_some_rows_is_compared_row_by_row",),
    ),
)
