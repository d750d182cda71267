"""Faults of deep models: terms through layers, propagation, starts and predictions."""

from benchmarks.mutations.fault import Fault

DEEP, START = "models/test_deep_gp.py::", "learning/test_deep.py::"
SITED = "models/test_hidden_sites.py::"
ENERGY = (DEEP + "test_energy_is_that_of_a_dense_sum_over_nodes",)
FAMILIES = "models/test_deep_families.py::"
FAMILY = (FAMILIES + "test_bound_is_that_of_a_dense_sum_over_nodes",)
LATENT = "models/test_latent_inputs.py::"
DEEP_FAULTS = (
    Fault(
        "the term at a latent input counts as often as there are points",
        "models/deep/term.py",
        "return (jnp.exp(log_weights) @ terms)[:, None]",
        "return jnp.sum(terms, axis=0)[:, None]",
        (LATENT + "test_energy_is_that_of_sums_over_grids",),
    ),
    Fault(
        "latent inputs of predictions are at their mean",
        "models/deep/latent_inputs.py",
        "return zero, zero + 1.0",
        "return zero, zero",
        (LATENT + "test_predictions_average_over_the_prior_of_latent_inputs",),
    ),
    Fault(
        "the ratio of conditionals leaves out the variance of the function",
        "inference/hidden_sites.py",
        "narrowed = 1.0 + power * weight * loss**2 * var",
        "narrowed = 1.0 + 0.0 * var",
        (SITED + "test_a_sited_value_is_that_of_a_sum_over_two_grids",),
    ),
    Fault(
        "the ratio of conditionals counts once for all hidden layers",
        "inference/hidden_sites.py",
        "log_ratio = log_ratio + jnp.sum(hidden.log_ratio, axis=2)",
        "log_ratio = jnp.sum(hidden.log_ratio, axis=2)",
        (SITED + "test_energy_of_two_hidden_layers_is_that_of_nested_sums",),
    ),
    Fault(
        "rows of a minibatch have the sites of the first rows",
        "inference/hidden_sites.py",
        "shift[rows.index], log_width[rows.index]",
        "shift[: len(rows.index)], log_width[: len(rows.index)]",
        (SITED + "test_minibatches_are_unbiased",),
    ),
    Fault(
        "missing outputs count in the term of a deep row",
        "models/deep/term.py",
        "jnp.sum(rows.site_presence * each, axis=2)",
        "jnp.sum(each, axis=2)",
        ENERGY,
    ),
    Fault(
        "a deep row counts once for each of its outputs",
        "inference/factors/site.py",
        "observed = jnp.max(observed, axis=1, keepdims=True)",
        "observed = observed",
        ENERGY,
    ),
    Fault(
        "the site of a hidden layer stands for the rows of the first output",
        "models/deep/deep_gp.py",
        "total.any_output)",
        "total.per_output[0])",
        ENERGY,
    ),
    Fault(
        "nodes are averaged as at power one",
        "models/deep/term.py",
        "log_power_mean(terms, weights, power)",
        "log_power_mean(terms, weights, 1.0)",
        ENERGY,
    ),
    Fault(
        "hidden layers have no noise",
        "models/deep/layer.py",
        "        mean, var = self.process.moments(X)\n        if self.noise_variance is not None:",
        "        mean, var = self.process.moments(X)\n        if False:",
        ENERGY,
    ),
    Fault(
        "nodes take variances for deviations",
        "inference/propagation.py",
        "values.mean + safe_sqrt(values.var) * z",
        "values.mean + values.var * z",
        ENERGY,
    ),
    Fault(
        "moments of a layer leave out the variance of its mean",
        "models/process.py",
        "left + own_var, of_mean",
        "left + own_var, 0.0 * of_mean",
        (DEEP + "test_moments_of_a_layer_are_those_of_draws",),
    ),
    Fault(
        "moments of a layer leave out the covariance with its mean function",
        "models/deep/layer.py",
        "+ 2.0 * functions.slopes_under(inputs)",
        "+ 0.0 * functions.slopes_under(inputs)",
        (DEEP + "test_moments_of_a_layer_are_those_of_draws",),
    ),
    Fault(
        "chunks of rows share their nodes",
        "models/deep/deep_gp.py",
        "rows = rows.numbered()",
        "pass",
        (DEEP + "test_minibatches_are_unbiased",),
    ),
    Fault(
        "covariances of a deep posterior are those of draws with other variances",
        "models/deep/posterior.py",
        "return scale[:, :, None] * drawn * scale[:, None, :]",
        "return drawn",
        (DEEP + "test_marginals_are_those_of_coherent_draws",),
    ),
    Fault(
        "the start of the last layer has another mean than the sparse GP",
        "learning/initialisation/deep.py",
        "TiedSite(jnp.asarray(mean), jnp.asarray(raw))",
        "TiedSite(jnp.zeros_like(jnp.asarray(mean)), jnp.asarray(raw))",
        (START + "test_a_deep_model_begins_as_its_sparse_gp",),
    ),
    Fault(
        "a deep fit that ends below its sparse GP has converged",
        "learning/deep.py",
        "converged=False, message=message)",
        "message=message)",
        (START + "test_a_fit_that_ends_below_its_start_gives_the_start",),
    ),
    Fault(
        "a deep fit starts with hidden values that are as uncertain as ever",
        "learning/initialisation/deep.py",
        "variance = min(variance, NOISE_SHARE / added) if added > 0.0 else variance",
        "variance = variance",
        (START + "test_a_start_keeps_the_accuracy_of_the_sparse_gp",),
    ),
    Fault(
        "outputs that depend on inducing variables keep their shift",
        "inference/factors/uncertain.py",
        'h = h - jnp.einsum("mnp,np->mp", loadings, shift)',
        "h = h",
        FAMILY,
    ),
    Fault(
        "inputs of a layer are known to functions that its values depend on",
        "inference/factors/uncertain.py",
        'P = within + jnp.einsum("mnp,np,knp->pmk"',
        'P = 0.0 * within + jnp.einsum("mnp,np,knp->pmk"',
        FAMILY,
    ),
    Fault(
        "rows without outputs have an entropy",
        "inference/factors/layered.py",
        "jnp.sum(present(self.rows) * each)",
        "jnp.sum(each)",
        FAMILY,
    ),
    Fault(
        "hidden values have the entropy of their marginals",
        "inference/factors/layered.py",
        "jnp.log(conditional.var)",
        "jnp.log(conditional.values.variances)",
        FAMILY,
    ),
    Fault(
        "a chain over layers forgets its covariances",
        "inference/factors/layered.py",
        "return Conditional(LayerValues(stored.mean, cov, cross), stored.var)",
        "return Conditional(LayerValues(stored.mean, cov, None), stored.var)",
        FAMILY,
    ),
    Fault(
        "hidden values do not inherit the variance of inducing variables",
        "inference/factors/layered.py",
        "cov=values.cov + jnp.concatenate(variances, axis=1)",
        "cov=values.cov",
        FAMILY,
    ),
    Fault(
        "free inducing variables have no divergence",
        "inference/factors/layered.py",
        "expected_log(messages, belief) + divergence",
        "expected_log(messages, belief)",
        FAMILY,
    ),
    Fault(
        "the inducing variables of inner layers are free where they are to suit their layer",
        "models/deep/families.py",
        '"conditional_local": Family(OnFunctions(), "functions")',
        '"conditional_local": Family(OnFunctions(), "functions", direct=True)',
        (FAMILIES + "test_bounds_of_the_toy",),
    ),
)
