"""Faults of inducing variables of other domains, of explicit features and of compression."""

from benchmarks.mutations.fault import Fault

KINDS = ("inducing/test_kinds.py",)
KIND = "inducing/test_kinds.py::"
PAIRS = KIND + "test_vanderwilk_t36_t38_every_pair_is_its_definition"
WAVE = (KIND + "test_vanderwilk_t36_t39_waves_are_the_corrected_formula",)
SLOPE = (KIND + "test_slopes_are_differences",)
STARTS = ("learning/test_inducing_kinds.py",)
WAVES = ("kernels/test_random_fourier.py",)
SMALL = ("models/test_compression.py",)
INTEGRAL = "inducing/gaussian_integral.py"
INDUCING_FAULTS = (
    Fault(
        "waves of two windows do not interfere",
        INTEGRAL,
        "lost = lost + precision * spread_a * spread_b * (omega_a + omega_b) ** 2",
        "lost = lost + 0.0 * omega_b",
        KINDS,
    ),
    Fault(
        "the angle between two waves adds what it should subtract",
        INTEGRAL,
        "precision * (omega_a * spread_a - omega_b * spread_b)",
        "precision * (omega_a * spread_a + omega_b * spread_b)",
        KINDS,
    ),
    Fault(
        "a mean of exponentials over signs is a sum",
        INTEGRAL,
        "term.weight / 2.0 ** max(len(present) - 1, 0) * total",
        "term.weight * total",
        KINDS,
    ),
    Fault(
        "wide windows weigh as much as narrow ones",
        INTEGRAL,
        "-0.5 * jnp.log(t) - 0.5 * lost / t",
        "-0.5 * lost / t",
        KINDS,
    ),
    Fault(
        "a kernel's wave turns the second window the wrong way",
        INTEGRAL,
        "(omega_b - kappa) ** 2 * spread_b",
        "(omega_b + kappa) ** 2 * spread_b",
        (PAIRS + "[mixture]",),
    ),
    Fault(
        "the second window has no width",
        INTEGRAL,
        "t = 1.0 + precision * (spread_a + spread_b)",
        "t = 1.0 + precision * spread_a",
        WAVE,
    ),
    Fault(
        "a distance counts as if windows were points",
        INTEGRAL,
        "- 0.5 * lost / t, precision / t, slope",
        "- 0.5 * lost / t, precision + 0.0 * t, slope",
        WAVE,
    ),
    Fault(
        "the second wave's phase has no sign",
        INTEGRAL,
        "phase + sign[1] * b.phase[None]",
        "phase + b.phase[None]",
        WAVE,
    ),
    Fault(
        "waves run the wrong way from windows to points",
        INTEGRAL,
        "jnp.sum(slope * U, axis=1)[:, None] - slope @ V.T",
        "jnp.sum(slope * U, axis=1)[:, None] + slope @ V.T",
        (PAIRS + "[rbf]",),
    ),
    Fault(
        "quadrature takes variances of windows for widths",
        INTEGRAL,
        "x = a.centre + width * node",
        "x = a.centre + width**2 * node",
        (KIND + "test_other_kernels_have_quadrature_and_stay_consistent",),
    ),
    Fault(
        "quadrature turns waves the wrong way",
        INTEGRAL,
        "jnp.cos(a.phase + jnp.sum(",
        "jnp.cos(a.phase - jnp.sum(",
        (PAIRS + "[rbf]",),
    ),
    Fault(
        "a slope is along the next column",
        "inducing/slopes.py",
        "jax.nn.one_hot(jnp.asarray(a.columns), a.Z",
        "jax.nn.one_hot(jnp.asarray(a.columns) + 1, a.Z",
        SLOPE,
    ),
    Fault(
        "the slope of a function along the first column is its value",
        "inducing/slopes.py",
        "return jnp.where(column < 0, value, slope)",
        "return jnp.where(column <= 0, value, slope)",
        (PAIRS + "[rbf]",),
    ),
    Fault(
        "kernels without slopes pass in a sum",
        "inducing/slopes.py",
        "without_slopes(kernel.first) or without_slopes(kernel.second)",
        "without_slopes(kernel.first)",
        (KIND + "test_bad_input_is_refused_with_the_reason",),
    ),
    Fault(
        "rows that observe slopes have the prior mean of values",
        "inference/variables/inducing_view.py",
        "jnp.where(functionals.columns[:, None] < 0, value, slope)",
        "value + 0.0 * slope",
        ("models/test_slopes.py::test_rows_that_observe_slopes_have_the_slope_of_the_prior_mean",),
    ),
    Fault(
        "the lengthscale of sums over parts forgets the parts' own share",
        "kernels/part_sums.py",
        "stretch = -(jnp.sum(U_slope * U, axis=0) + V_share)",
        "stretch = -jnp.sum(U_slope * U, axis=0)",
        ("kernels/test_sum_over.py::test_slopes_in_all_parameters_are_finite_differences",),
    ),
    Fault(
        "the lengthscale of sums over parts has half of its slope where patches are held",
        "kernels/part_sums.py",
        "stretch = -2.0 * jnp.sum(R * r2)",
        "stretch = -jnp.sum(R * r2)",
        (
            "kernels/test_warps.py::"
            "test_slopes_in_ranges_are_differences_and_those_of_plain_derivatives",
        ),
    ),
    Fault(
        "warps forget that pixels beyond the border are 0",
        "kernels/warps.py",
        "jnp.where((number >= 0) & (number < size), weight, 0.0)",
        "weight",
        ("kernels/test_warps.py::test_parts_are_affine_maps_of_interpolated_images",),
    ),
    Fault(
        "tabulated covariances among inducing variables have no factor",
        "inducing/tabulated.py",
        "return _factor(kernel) * a.cov",
        "return a.cov",
        (
            "learning/test_images.py::"
            "test_tabulated_covariances_give_the_same_posterior_at_every_scale",
        ),
    ),
    Fault(
        "patches are chosen as if those before explained nothing",
        "learning/initialisation/images.py",
        "cross = cross - np.outer(explained[m], loadings[m])",
        "cross = 1.0 * cross",
        ("learning/test_images.py::test_patches_are_those_that_explain_most_of_the_images",),
    ),
    Fault(
        "the scale of images is that of what they share",
        "learning/initialisation/images.py",
        "explained - np.mean(explained, axis=1, keepdims=True)",
        "explained - 0.0 * np.mean(explained, axis=1, keepdims=True)",
        ("learning/test_images.py::test_patches_are_those_that_explain_most_of_the_images",),
    ),
    Fault(
        "minibatches of images are taken whatever the evidence says",
        "learning/plans/images.py",
        "if learned.log_evidence >= result.log_evidence:",
        "if np.isfinite(learned.log_evidence):",
        ("estimators/test_images.py::test_minibatches_go_on_where_the_fit_ended",),
    ),
    Fault(
        "minibatches of images learn no inducing patches",
        "learning/plans/images.py",
        "scaled, after.model, ended=",
        "scaled, eqx.tree_at(lambda m: m.inducing, after.model, result.model.inducing), ended=",
        ("estimators/test_images.py::test_minibatches_go_on_where_the_fit_ended",),
    ),
    Fault(
        "tied sites of dependent classes have the covariances of other classes",
        "models/remembered.py",
        'jnp.einsum("cacb->cab", belief.covariance)',
        'jnp.einsum("cacb->cab", belief.covariance)[::-1]',
        ("models/test_remembered.py::test_tied_sites_make_the_beliefs_of_a_posterior",),
    ),
    Fault(
        "a release of jaxlib that stops is taken",
        "numerics/jit.py",
        "STOPS = (0, 10, 0), (0, 11, 1)",
        "STOPS = (0, 10, 0), (0, 11, 0)",
        ("numerics/test_jit.py::test_releases_that_stop_in_factorisations_of_batches",),
    ),
    Fault(
        "a scaled kernel of parts loses its factor",
        "kernels/part_sums.py",
        "return kernel.factor * weighted_sums(kernel.kernel, Z, parts, weights)",
        "return weighted_sums(kernel.kernel, Z, parts, weights)",
        (
            "learning/test_images.py::"
            "test_tabulated_covariances_give_the_same_posterior_at_every_scale",
        ),
    ),
    Fault(
        "the variance of a sum over parts has every pair once",
        "kernels/part_sums.py",
        "total + 2.0 * mine @ weighted_sums",
        "total + mine @ weighted_sums",
        ("kernels/test_sum_over.py::test_covariances_and_variances_are_double_sums",),
    ),
    Fault(
        "the variance of a slope is that of a value",
        "inducing/slopes.py",
        "kernel.diag(a.Z), variance)",
        "kernel.diag(a.Z), kernel.diag(a.Z))",
        KINDS,
    ),
    Fault(
        "slopes where the column asks for values",
        "inducing/slopes.py",
        "jnp.asarray(a.columns)[:, None] < 0, value, slope",
        "jnp.asarray(a.columns)[:, None] < -1, value, slope",
        KINDS,
    ),
    Fault(
        "sums take functionals of other variables",
        "inducing/combinations.py",
        "jnp.moveaxis(jnp.asarray(x).reshape(M, C, *x.shape[1:]), 1, 0)",
        "jnp.asarray(x).reshape(C, M, *x.shape[1:])",
        KINDS,
    ),
    Fault(
        "merging weighs both variables alike",
        "inducing/combinations.py",
        "pair[1] * own[[second]]",
        "pair[0] * own[[second]]",
        KINDS,
    ),
    Fault(
        "initial windows do not heed lengthscales",
        "learning/initialisation/inducing_kinds.py",
        "Windows(Z, WINDOW * lengths)",
        "Windows(Z, WINDOW)",
        STARTS,
    ),
    Fault(
        "correlation lengths fall with the square",
        "learning/initialisation/inducing_kinds.py",
        "distance / np.sqrt(np.maximum(fallen, 1.0))",
        "distance / np.maximum(fallen, 1.0)",
        STARTS,
    ),
    Fault(
        "groups of initial slopes lack a column",
        "learning/initialisation/inducing_kinds.py",
        "np.tile(np.arange(-1, columns), len(Z))",
        "np.tile(np.arange(0, columns + 1) % columns, len(Z))",
        STARTS,
    ),
    Fault(
        "waves have the variance of all together each",
        "kernels/random_fourier.py",
        "jnp.sqrt(self.kernel.variance / self.frequencies.shape[0])",
        "jnp.sqrt(self.kernel.variance)",
        WAVES,
    ),
    Fault(
        "frequencies of Matern kernels have light tails",
        "kernels/random_fourier.py",
        "if freedom < math.inf:",
        "if freedom < 0:",
        WAVES,
    ),
    Fault(
        "a sum with other kernels has features",
        "kernels/random_fourier.py",
        "return None if None in counts or not any_explicit else",
        "return None if not any_explicit else",
        WAVES,
    ),
    Fault(
        "the features of a constant have its variance",
        "kernels/random_fourier.py",
        "jnp.full((X.shape[0], 1), jnp.sqrt(kernel.variance))",
        "jnp.full((X.shape[0], 1), kernel.variance)",
        WAVES,
    ),
    Fault(
        "compression keeps the covariance of the variables",
        "models/compression.py",
        "jnp.swapaxes(belief.root, -1, -2) @ belief.root",
        "belief.root @ jnp.swapaxes(belief.root, -1, -2)",
        SMALL,
    ),
    Fault(
        "compression forgets what data raised",
        "models/compression.py",
        "jnp.any(values < -1e-9)",
        "jnp.any(values < -1e99)",
        SMALL,
    ),
)
