"""Faults of kernels: their covariances and slopes, sums over parts, features, expectations."""

from benchmarks.mutations.fault import Fault

COVARIANCES = (
    Fault(
        "a kernel on chosen columns sees the first ones",
        "kernels/base.py",
        "return X[:, jnp.array(self.dims)]",
        "return X[:, : len(self.dims)]",
        ("kernels/test_base.py::test_chosen_columns",),
    ),
    Fault(
        "distances have no slope where they are zero",
        "kernels/base.py",
        "return not_negative(*primals), tangents[0]",
        "return not_negative(*primals), jnp.where(primals[0] > 0.0, tangents[0], 0.0)",
        ("kernels/test_base.py::test_covariance_of_slopes_at_zero_distance[RBF]",),
    ),
    Fault(
        "the curvature of a Matern 5/2 covariance at zero is that of a Matern 3/2 one",
        "kernels/stationary.py",
        "1.0 - r2 / 6.0",
        "1.0 - r2 / 2.0",
        ("kernels/test_base.py::test_covariance_of_slopes_at_zero_distance[Matern52]",),
    ),
    Fault(
        "periodic functions repeat themselves every second period",
        "kernels/stationary.py",
        "angle = 2.0 * jnp.pi * X / self.period",
        "angle = jnp.pi * X / self.period",
        ("kernels/test_stationary.py::test_periodic_repeats_itself_in_every_column",),
    ),
    Fault(
        "waves of a spectral mixture begin at the middle of each set of inputs",
        "kernels/stationary.py",
        "jnp.sum((Z - centre) * frequency, axis=1)",
        "jnp.sum((Z - jnp.mean(Z, axis=0)) * frequency, axis=1)",
        ("kernels/test_stationary.py::test_mixture_is_the_transform_of_its_spectral_density",),
    ),
    Fault(
        "squared ramps see inputs of unit length",
        "kernels/dot_product.py",
        "beyond * (sine**2 + 3.0 * cosine**2)",
        "beyond * (1.0 + 2.0 * cosine**2)",
        ("kernels/test_dot_product.py::test_arc_cosine_is_the_mean_of_its_units[2]",),
    ),
)

PARTS = (
    Fault(
        "positions of patches count patches, not pixels",
        "kernels/parts.py",
        ".reshape(-1, 2) * self.stride",
        ".reshape(-1, 2)",
        ("kernels/test_sum_over.py::test_patches_are_those_of_explicit_extraction",),
    ),
    Fault(
        "the weights of equal parts are not added up",
        "kernels/part_counts.py",
        "jax.ops.segment_sum(weights, where, num_segments=size)",
        "jnp.zeros(size, weights.dtype).at[where].set(weights)",
        ("kernels/test_part_counts.py::test_rows_may_have_room_for_more_parts",),
    ),
    Fault(
        "both inputs of a sum over parts have the weights of the first",
        "kernels/sum_over.py",
        "return weights @ base.cross(own, others) @ w",
        "return weights @ base.cross(own, others) @ weights",
        (
            "kernels/test_part_counts.py::test_counted_rows_have_the_covariances_of_plain_ones[patches-False]",
        ),
    ),
    Fault(
        "turned images are stretched along a diagonal",
        "kernels/warps.py",
        "cosine * column - sine * row",
        "cosine * column + sine * row",
        ("kernels/test_warps.py::test_a_quarter_turn_is_that_of_numpy",),
    ),
    Fault(
        "orthogonal frequencies have length 1",
        "kernels/random_fourier.py",
        "directions[: len(length)] * length",
        "directions[: len(length)]",
        ("kernels/test_random_fourier.py::test_vanderwilk_t9_covariances_are_unbiased[RBF-True]",),
    ),
)

EXPECTATIONS = (
    Fault(
        "the expected variance of a linear function takes its input as known",
        "kernels/expectations/closed_form.py",
        "(row.mean - terms.factor.centre) ** 2 + _variances(row.cov)",
        "(row.mean - terms.factor.centre) ** 2",
        ("kernels/test_expectations.py::test_closed_form_is_the_integral[sum-diagonal]",),
    ),
    Fault(
        "pairs of different terms count once",
        "kernels/expectations/closed_form.py",
        "share = np.where(alike & (i == j), 1.0, 2.0)",
        "share = np.ones(len(i))",
        ("kernels/test_expectations.py::test_closed_form_is_the_integral[sum-diagonal]",),
    ),
    Fault(
        "the expected slope of a linear factor is not damped by the bump around it",
        "kernels/expectations/closed_form.py",
        "slope + spread(damping(row.cov, term.precision), tilted.coefficients)",
        "slope + tilted.coefficients",
        ("kernels/test_expectations.py::test_closed_form_is_the_integral[waves-diagonal]",),
    ),
    Fault(
        "nodes vary the first columns, not those that a kernel is active on",
        "kernels/expectations/nodes.py",
        "return frozenset(kernel.dims[i] for i in inner)",
        "return inner",
        ("conformance/test_kernels.py::test_kernel[active-expectations]",),
    ),
    Fault(
        "covariances at nodes are about the plain mean of the nodes",
        "kernels/expectations/rules.py",
        'away - jnp.einsum("s,nsm->nm", weights, away)[:, None]',
        "away - jnp.mean(away, axis=1, keepdims=True)",
        ("kernels/test_expectations.py::test_nodes_come_to_the_closed_form[diagonal]",),
    ),
)

KERNEL_FAULTS = (*COVARIANCES, *PARTS, *EXPECTATIONS)
