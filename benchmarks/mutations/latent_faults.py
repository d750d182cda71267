"""Faults of latent-variable models: bounds, sites on inputs, encoders, new rows."""

from benchmarks.mutations.fault import Fault

ENERGY = "models/test_gplvm.py::"
SITES = "models/test_gplvm_sites.py::"
POSTERIOR = "models/test_gplvm_posterior.py::"
DENSE = (ENERGY + "test_tied_energy_is_that_of_a_dense_sum_over_nodes",)
COLLAPSED = (ENERGY + "test_collapsed_bound_is_that_of_quadrature",)
LATENT_FAULTS = (
    Fault(
        "the collapsed bound adds what inducing variables leave unexplained",
        "inference/factors/averaged.py",
        "total = total + 0.5 * replicas",
        "total = total - 0.5 * replicas",
        COLLAPSED,
    ),
    Fault(
        "rows of padding have a divergence too",
        "inference/factors/stored.py",
        "jnp.sum(self.view.presence(self.rows) * ratio)",
        "jnp.sum(ratio)",
        COLLAPSED,
    ),
    Fault(
        "the collapsed precision is that at the mean input",
        "inference/factors/averaged.py",
        "P = squares + within",
        "P = squares + 0.0 * within",
        COLLAPSED,
    ),
    Fault(
        "variational inputs have the power mean of their nodes",
        "models/latent/gplvm.py",
        "averaged=not private",
        "averaged=False",
        DENSE,
    ),
    Fault(
        "nodes of inputs with sites are averaged",
        "models/latent/gplvm.py",
        "averaged=not private",
        "averaged=True",
        DENSE,
    ),
    Fault(
        "the divergence of variational inputs is left out",
        "inference/factors/slots.py",
        "return -divergence(*moments)",
        "return -0.0 * divergence(*moments)",
        COLLAPSED + DENSE,
    ),
    Fault(
        "sites on inputs leave the prior out",
        "inference/variables/inputs.py",
        "precision = 1.0 + messages.precision",
        "precision = 1e-6 + messages.precision",
        DENSE,
    ),
    Fault(
        "what differs between inputs is left out of moments",
        "inference/propagation.py",
        "return Spread(mean[None], (within + between)[None])",
        "return Spread(mean[None], within[None])",
        (SITES + "test_a_known_linear_map_is_factor_analysis",),
    ),
    Fault(
        "rows of a minibatch take the inputs of the first rows",
        "models/inputs/views.py",
        "mean, var = mean[rows.index], var[rows.index]",
        "mean, var = mean[: len(rows.y)], var[: len(rows.y)]",
        (SITES + "test_minibatches_are_unbiased",),
    ),
    Fault(
        "an encoder counts the sites of missing outputs",
        "models/inputs/encoder.py",
        "jnp.sum(observed * jnp.exp(log_precision), axis=1)",
        "jnp.sum(jnp.exp(log_precision), axis=1)",
        (POSTERIOR + "test_an_encoder_leaves_missing_outputs_out",),
    ),
    Fault(
        "new rows have no prior",
        "models/latent/projection.py",
        "target = jnp.maximum(1.0 - 2.0 * now.by_var, LEAST_PRECISION)",
        "target = jnp.maximum(-2.0 * now.by_var, LEAST_PRECISION)",
        (POSTERIOR + "test_new_rows_have_the_best_of_their_bounds",),
    ),
    Fault(
        "bounds of new rows are by one Gaussian per row",
        "models/latent/projection.py",
        "how = (projector.layer, projector.likelihood, Nodes().for_predictions())",
        "how = (projector.layer, projector.likelihood, projector.propagation)",
        (POSTERIOR + "test_new_rows_have_the_best_of_their_bounds",),
    ),
    Fault(
        "reconstructions leave out the density that their points are drawn from",
        "models/latent/reconstruction.py",
        "- _log_mixture(x, mode.mean, var, share)",
        "- 0.0 * _log_mixture(x, mode.mean, var, share)",
        (POSTERIOR + "test_reconstructions_are_mixtures_over_the_exact_posterior_of_the_input",),
    ),
    Fault(
        "reconstructions take variances for deviations",
        "models/latent/reconstruction.py",
        "x = mode.mean[which] + jnp.sqrt(var[which]) * z",
        "x = mode.mean[which] + var[which] * z",
        (POSTERIOR + "test_reconstructions_are_mixtures_over_the_exact_posterior_of_the_input",),
    ),
    Fault(
        "collapsed models leave single rows to factors without rows",
        "inference/factors/averaged.py",
        "def leave_one_out(self, q: Beliefs) -> None:\n        return None",
        "def leave_one_out(self, q: Beliefs) -> None:\n        return jnp.zeros_like(self.rows.y)",
        ("models/test_gplvm_refusals.py::test_new_rows_that_do_not_fit_are_named",),
    ),
)
