"""Faults of likelihoods: their densities and moments, their latent values and predictions."""

from benchmarks.mutations.fault import Fault

DENSITIES = (
    Fault(
        "proportions of exactly 0 and 1 are accepted",
        "likelihoods/support.py",
        "(y > 0.0) & (y < 1.0)",
        "(y >= 0.0) & (y <= 1.0)",
        ("conformance/test_likelihoods.py::test_likelihood[beta-support]",),
    ),
    Fault(
        "the edges of ordered classes are the first one plus a single gap",
        "likelihoods/ordinal.py",
        "jnp.cumsum(self.gaps)])",
        "self.gaps])",
        ("likelihoods/test_ordinal.py::test_what_is_learned",),
    ),
    Fault(
        "the normalising constant of a gamma density lacks the shape of its rate",
        "likelihoods/positive.py",
        "k * jnp.log(k) - gammaln(k)",
        "-gammaln(k)",
        ("likelihoods/test_positive.py::test_gamma",),
    ),
    Fault(
        "nearly Poisson counts have a half too many in Stirling's series",
        "likelihoods/counts.py",
        "(y - 0.5) * jnp.log1p(y * d)",
        "(y + 0.5) * jnp.log1p(y * d)",
        ("likelihoods/test_counts.py::test_no_dispersion_is_poisson",),
    ),
    Fault(
        "the bound of the logistic function has half of its precision",
        "likelihoods/binary.py",
        "2.0 * curve, constant)",
        "curve, constant)",
        ("inference/test_methods.py::test_jylanki_27_bounds_lie_below_and_touch",),
    ),
)

MOMENTS = (
    Fault(
        "slopes in variances forget the square of the slope",
        "likelihoods/by_quadrature.py",
        "0.5 * (moments.curvature + power * moments.slope**2) * d_var",
        "0.5 * moments.curvature * d_var",
        (
            "likelihoods/test_power_mean_slopes.py::test_slopes_are_those_of_differences[logit-0.5]",
        ),
    ),
    Fault(
        "curvatures by points forget the square of the slope",
        "likelihoods/multiclass.py",
        "Tilted(log_mean, slope, curvature - power * slope**2)",
        "Tilted(log_mean, slope, curvature)",
        (
            "likelihoods/test_multiclass.py::test_tilted_is_the_derivative_of_the_power_mean[0.5-softmax]",
        ),
    ),
    Fault(
        "the limit of robust-max at power 0 is its value at power 1",
        "likelihoods/multiclass.py",
        "lambda: low + (high - low) * p,",
        "lambda: low + jnp.log1p(p * jnp.expm1(high - low)),",
        ("likelihoods/test_multiclass.py::test_power_means_are_near_monte_carlo[0.0-robust]",),
    ),
    Fault(
        "the expected noise precision is that of the expected log variance",
        "likelihoods/heteroscedastic.py",
        "share = jnp.exp(0.5 * var[1] - mean[1])",
        "share = jnp.exp(-mean[1])",
        ("likelihoods/test_heteroscedastic.py::test_power_zero_is_the_expected_log_density",),
    ),
)

PREDICTIVE_MOMENTS = (
    Fault(
        "probabilities of classes are normalised over rows",
        "likelihoods/multiclass.py",
        "logsumexp(log_p, axis=-1, keepdims=True)",
        "logsumexp(log_p, axis=0, keepdims=True)",
        ("likelihoods/test_multiclass.py::test_predictions[softmax]",),
    ),
    Fault(
        "the noise of proportions is that at their mean",
        "likelihoods/proportions.py",
        "(m * (1.0 - m) - v) / (1.0 + self.concentration)",
        "m * (1.0 - m) / (1.0 + self.concentration)",
        ("conformance/test_likelihoods.py::test_likelihood[beta-predictive]",),
    ),
    Fault(
        "the spread of outputs with a log link has the square of the mean for the mean square",
        "likelihoods/log_link.py",
        "square * jnp.exp(var) + jnp.expm1(var)",
        "square + jnp.expm1(var)",
        ("conformance/test_likelihoods.py::test_likelihood[gamma-predictive]",),
    ),
    Fault(
        "the scale of Student-t noise is its deviation",
        "likelihoods/heavy_tailed.py",
        "self.scale**2 * ratio",
        "self.scale**2",
        ("conformance/test_likelihoods.py::test_likelihood[student_t-predictive]",),
    ),
    Fault(
        "predictions forget the known noise of their rows",
        "likelihoods/gaussian.py",
        "NormalPredictive(mean, var + self.noise_variance(**side))",
        "NormalPredictive(mean, var + self.variance)",
        ("likelihoods/test_gaussian.py::test_predictive_noise_may_be_known",),
    ),
    Fault(
        "predictions weigh all nodes of an integrated parameter alike",
        "likelihoods/integrated.py",
        "mixed_predictive(self.likelihood, draws, log_share)",
        "mixed_predictive(self.likelihood, draws)",
        (
            "models/test_integrated.py::test_integrated_noise_is_a_constant_function_of_its_log[full]",
        ),
    ),
    Fault(
        "the variance of a mixture forgets how far its means are apart",
        "likelihoods/predictive/mixture.py",
        "_average(draws.var, log_share) + _average((draws.mean - mean) ** 2, log_share)",
        "_average(draws.var, log_share)",
        ("likelihoods/test_mixture.py::test_numbers",),
    ),
)

DISTRIBUTIONS = (
    Fault(
        "samples of outputs forget the side data of their rows",
        "likelihoods/latent_values.py",
        "with_sampler.sample(key, f, **side)",
        "with_sampler.sample(key, f)",
        ("likelihoods/test_counts.py::test_drawn_counts_have_the_exposures_of_their_rows",),
    ),
    Fault(
        "the distribution function under varying noise takes the function as known",
        "likelihoods/heteroscedastic.py",
        'jnp.sqrt(side["f_var"] + jnp.exp(f))',
        "jnp.exp(0.5 * f)",
        ("likelihoods/test_heteroscedastic.py::test_predictive_is_a_mixture_over_noise_levels",),
    ),
    Fault(
        "the largest quantile of counts is bounded by the wrong tail",
        "likelihoods/predictive/quantiles.py",
        "jnp.sqrt(var * level / (1.0 - level))",
        "jnp.sqrt(var * (1.0 - level) / level)",
        ("likelihoods/test_counts.py::test_predictions_of_large_counts",),
    ),
    Fault(
        "tables of positive outputs take densities of outputs for those of their logarithms",
        "likelihoods/predictive/numerical.py",
        "Support.POSITIVE: (np.log, np.exp, _same)",
        "Support.POSITIVE: (np.log, np.exp, _zero)",
        ("likelihoods/test_numerical.py::test_densities",),
    ),
    Fault(
        "quantiles of tabulated counts are the counts below",
        "likelihoods/predictive/tabulated.py",
        "jnp.ceil(y - TABLE.rounding)",
        "jnp.floor(y - TABLE.rounding)",
        ("likelihoods/test_numerical.py::test_quantiles_of_tabulated_counts",),
    ),
)

LIKELIHOOD_FAULTS = (*DENSITIES, *MOMENTS, *PREDICTIVE_MOMENTS, *DISTRIBUTIONS)
