"""Faults of the examination of fits: terms of the evidence, gains of points, noise alone."""

from benchmarks.mutations.fault import Fault

EXAMINE = "learning/test_examine.py::"
GAINS = (EXAMINE + "test_t22_the_gain_of_a_point_is_the_difference_of_two_dense_bounds",)
TERMS = "learning/diagnostics/evidence_terms.py"
DIAGNOSIS_FAULTS = (
    Fault(
        "terms of the evidence at power 1 whatever the power",
        TERMS,
        "observed.widened(power * d)",
        "observed.widened(d)",
        (EXAMINE + "test_the_terms_are_those_of_the_dense_objective_and_add_up",),
    ),
    Fault(
        "the gain of a point forgets what the others explain of it",
        TERMS,
        "- loadings.T @ seen",
        "- 0.0 * loadings.T @ seen",
        GAINS,
    ),
    Fault(
        "the gain of a point forgets the posterior covariance",
        TERMS,
        "residual - jnp.sum((belief.root @ messages) ** 2, axis=1) * scale",
        "residual - 0.0 * jnp.sum((belief.root @ messages) ** 2, axis=1) * scale",
        GAINS,
    ),
    Fault(
        "the fit that a point gains is not shrunk",
        TERMS,
        "along**2 * scale / (1.0 + explained)",
        "along**2 * scale",
        GAINS,
    ),
    Fault(
        "what a point pays for complexity counts twice",
        TERMS,
        "complexity = -jnp.log1p(explained)",
        "complexity = -2.0 * jnp.log1p(explained)",
        GAINS,
    ),
    Fault(
        "the best noise alone has the variance of a sample",
        "learning/diagnostics/noise_alone.py",
        "squares / counts, given)",
        "squares / (counts - 1), given)",
        (
            "learning/test_noise_alone.py::"
            "test_gaussian_noise_has_the_density_of_one_normal_distribution_of_the_outputs",
        ),
    ),
    Fault(
        "an output that does not vary has the noise of another",
        "learning/diagnostics/noise_alone.py",
        "given = own.reshape(-1)[[i for i, *_ in seen]]",
        "given = own.reshape(-1)[::-1]",
        (
            "learning/test_noise_alone.py::"
            "test_an_output_that_does_not_vary_has_the_noise_of_the_model",
        ),
    ),
    Fault(
        "outputs that do not vary are judged",
        "learning/diagnostics/noise_alone.py",
        "if case.noise is None or len(moving) in (0, len(_columns(y, presence))):",
        "if len(moving) >= 0:",
        (EXAMINE + "test_one_output_that_does_not_vary_leaves_the_others_to_be_judged",),
    ),
    Fault(
        "any rows are those of blocks",
        "learning/diagnostics/examined.py",
        "return a.shape == b.shape and bool(np.all(a == b))",
        "return a.shape == b.shape",
        ("learning/test_bracket.py::test_a_result_knows_its_rows_power_and_blocks",),
    ),
    Fault(
        "the variance that cannot be learned counts as learned",
        "learning/diagnostics/function_parts.py",
        "seen.offset, var, jnp.sum(seen.loadings**2, axis=0), seen.residual",
        "seen.offset, var + seen.residual[:, None], seen.residual, seen.residual",
        (EXAMINE + "test_t35_both_parts_of_the_function_add_up_to_it",),
    ),
    Fault(
        "a bracket at the optimum of noise alone passes for knowledge",
        "learning/diagnostics/inducing_verdict.py",
        "if most <= least and bracket.width <= least:",
        "if False:",
        ("learning/test_noise_alone.py",),
    ),
)
