"""Faults of the energy, the site update, factors and local terms."""

from benchmarks.mutations.fault import Fault

# Tests of the common mode, and that exact rows are general ones, whose cases have names.
GENERAL = "equivalence/test_general_row.py::test_exact_row_is_the_general_row"
COMMON = "inference/test_common_mode.py::test_taking_it_out_leads_to_the_same_sites_sooner"

ENERGY = (
    Fault(
        "fixed marginals of the first factor stand for all",
        "inference/energy.py",
        "moments = (None,) * len(first) if fixed is None else fixed",
        "moments = (None,) * len(first) if fixed is None else (fixed[0],) * len(first)",
        ("equivalence/test_rows.py::test_fixed_marginals_go_to_their_factor",),
    ),
    Fault(
        "rows of a minibatch stand for themselves alone",
        "inference/energy.py",
        "at_rows(store, index, scale)",
        "at_rows(store, index, 1.0)",
        ("learning/test_interleaved.py::test_energies_of_minibatches_are_unbiased",),
    ),
    Fault(
        "only the last factor's message reaches a variable",
        "inference/energy.py",
        "message if before is None else added(before, message)",
        "message",
        ("equivalence/test_rows.py::test_two_factors_on_one_variable_are_one",),
    ),
    Fault(
        "the response takes shifts about zero",
        "inference/energy.py",
        "site.shift - site.precision * mean, site.precision)",
        "site.shift, site.precision)",
        ("inference/test_convergence.py::test_responses_are_differences_of_marginals",),
    ),
)

SITE_UPDATE = (
    Fault(
        "the common mode is a sum, not a mean",
        "inference/site_update.py",
        "sum(m.moments[0] for m in marginals) / len(marginals)",
        "sum(m.moments[0] for m in marginals)",
        (f"{COMMON}[softmax, power 0]",),
    ),
    Fault(
        "every step is whole",
        "inference/site_update.py",
        "lambda old, to: old + step * (to - old)",
        "lambda old, to: to",
        ("equivalence/test_sweeps.py::test_bui_08_sweep_law",),
    ),
    Fault(
        "absent rows store sites",
        "inference/site_update.py",
        "moves & (present > 0.0)))",
        "moves))",
        ("inference/test_site_update.py::test_sites_of_absent_rows_stay_empty",),
    ),
    Fault(
        "skipped sites are not counted",
        "inference/site_update.py",
        "jnp.sum(~fine & (present > 0.0), dtype=dtype)",
        "0.0 * jnp.sum(present)",
        ("inference/test_site_update.py::test_improper_cavities_are_skipped",),
    ),
    Fault(
        "the residual is that of the last latent function",
        "inference/site_update.py",
        "residual = jnp.maximum(residual, _mismatch(",
        "residual = jnp.maximum(0.0, _mismatch(",
        ("inference/test_convergence.py::test_the_residual_is_that_of_all_latent_functions",),
    ),
    Fault(
        "improper cavities are matched",
        "inference/site_update.py",
        "fine = proper & finite",
        "fine = finite",
        ("inference/test_site_update.py::test_improper_cavities_are_skipped",),
    ),
)

SITE_ARITHMETIC = (
    Fault(
        "a cavity's mean lacks the whole shift",
        "numerics/site_arithmetic.py",
        "(mean - power * var * shift) / ratio",
        "(mean - var * shift) / ratio",
        ("equivalence/test_sweeps.py::test_bui_07_turner_01_sweeps_reach_the_closed_form",),
    ),
    Fault(
        "a cavity lacks a share of one less the power",
        "numerics/site_arithmetic.py",
        "1.0 - power * precision * var\n    proper",
        "1.0 - (1.0 - power) * precision * var\n    proper",
        ("equivalence/test_sweeps.py::test_bui_07_turner_01_sweeps_reach_the_closed_form",),
    ),
    Fault(
        "the log normaliser ratio has no power before its square",
        "numerics/site_arithmetic.py",
        "0.5 * power * shift**2 * var",
        "0.5 * shift**2 * var",
        ("equivalence/test_sweeps.py::test_bui_07_turner_01_sweeps_reach_the_closed_form",),
    ),
    Fault(
        "sites are matched at power 1",
        "numerics/site_arithmetic.py",
        "ratio = 1.0 + power * curvature * var",
        "ratio = 1.0 + curvature * var",
        ("equivalence/test_sweeps.py::test_bui_07_turner_01_sweeps_reach_the_closed_form",),
    ),
    Fault(
        "the slope of a match is not divided",
        "numerics/site_arithmetic.py",
        "precision * mean + slope / ratio",
        "precision * mean + slope",
        ("equivalence/test_sweeps.py::test_bui_07_turner_01_sweeps_reach_the_closed_form",),
    ),
)

EXACT = (
    Fault(
        "leave-one-out of exact factors leaves the residual out",
        "inference/factors/exact.py",
        "latent.var + latent.residual + self.noise_variance",
        "latent.var + self.noise_variance",
        ("inference/test_leave_one_out.py::test_jylanki_19_gaussian_noise_is_exact",),
    ),
    Fault(
        "exact sites have the whole residual",
        "inference/variables/gaussian_sites.py",
        "precision = presence / (variance + a * d)",
        "precision = presence / (variance + d)",
        (
            "equivalence/test_collapsed.py::test_bui_07_13_turner_03_closed_form_is_the_dense_energy",
        ),
    ),
    Fault(
        "the presence of the first output stands for all, exact rows",
        "inference/variables/gaussian_sites.py",
        "precision = presence / (variance + a * d)",
        "precision = presence[:, :1] / (variance + a * d)",
        ("equivalence/test_general_row.py::test_outputs_are_independent_problems",),
    ),
    Fault(
        "absent rows have constants",
        "inference/variables/gaussian_sites.py",
        "constant = presence * (LOG_2PI",
        "constant = (LOG_2PI",
        ("equivalence/test_rows.py::test_presence_picks_rows",),
    ),
    Fault(
        "the presence of the first output stands for all, exact blocks",
        "inference/variables/gaussian_sites.py",
        "jnp.broadcast_to(presence / variance, ",
        "jnp.broadcast_to(presence[..., :1] / variance, ",
        ("equivalence/test_general_row.py::test_outputs_are_independent_problems",),
    ),
    Fault(
        "the sites' own part in the factor's slope is left out",
        "inference/variables/fused_gaussian.py",
        "@ (gram + own_gram))",
        "@ gram)",
        ("inference/test_fused_gaussian.py::test_messages_and_their_derivatives",),
    ),
)

SITES = (
    Fault(
        "cavities leave out one power for all rows",
        "inference/factors/local.py",
        "return self.row_power(rows) if at_cavity else 0.0",
        "return self.power if at_cavity else 0.0",
        (f"{GENERAL}[a power per row]",),
    ),
    Fault(
        "sites of absent rows send messages",
        "inference/graph/base.py",
        "return masked(sites, self.presence(rows))",
        "return sites",
        ("inference/test_presence.py::test_sites_of_absent_outputs_count_for_nothing",),
    ),
    Fault(
        "the presence of the first output stands for all, terms",
        "inference/factors/local.py",
        "return jnp.sum(observed * log_mean)",
        "return jnp.sum(observed[:, :1] * log_mean)",
        ("inference/test_presence.py",),
    ),
    Fault(
        "the presence of the first output stands for all, cavities",
        "inference/factors/local.py",
        "jnp.sum(presence * jnp.where(proper, ratio, jnp.nan))",
        "jnp.sum(presence[:, :1] * jnp.where(proper, ratio, jnp.nan))",
        ("inference/test_presence.py",),
    ),
    Fault(
        "the energy is finite without a proper cavity",
        "inference/factors/local.py",
        "jnp.where(proper, ratio, jnp.nan)",
        "jnp.where(proper, ratio, 0.0)",
        ("inference/test_site_update.py::test_energy_without_a_proper_cavity_is_not_a_number",),
    ),
    Fault(
        "the quadratic of the joint density has no half",
        "inference/factors/local.py",
        "quadratic = 0.5 * mean",
        "quadratic = mean",
        (
            "inference/test_methods.py::test_jylanki_34_em_goes_uphill_to_the_mode",
            "inference/test_mode.py",
        ),
    ),
    Fault(
        "own sites of rows with a tied one are matched at the power",
        "inference/leave_one_out.py",
        "by.slope, by.curvature, 0.0)",
        "by.slope, by.curvature, factor.power)",
        (
            "inference/test_leave_one_out.py::test_rows_with_a_tied_site_have_the_precision_of_their_noise",
        ),
    ),
    Fault(
        "Laplace's method sees variances",
        "inference/factors/local.py",
        "jnp.zeros_like(var) if at_mode else var",
        "var",
        ("inference/test_methods.py::test_jylanki_s48_laplace",),
    ),
    Fault(
        "the residual is that of the first chunk",
        "inference/factors/local.py",
        "SiteUpdate(moved, jnp.max(residual), ",
        "SiteUpdate(moved, residual[0], ",
        ("inference/test_convergence.py::test_residuals_are_of_all_factors_and_chunks",),
    ),
    Fault(
        "the volume of the tied energy is added",
        "inference/factors/tied.py",
        "- 0.5 * m @ mean - volume",
        "- 0.5 * m @ mean + volume",
        ("inference/test_tied.py::test_bui_s30_energy",),
    ),
    Fault(
        "natural steps take logarithms of the diagonal for the diagonal",
        "inference/factors/tied.py",
        "jnp.diag(jnp.diagonal(by_raw) / jnp.diagonal(S))",
        "jnp.diag(jnp.diagonal(by_raw))",
        ("inference/test_tied.py::test_natural_steps_are_in_natural_parameters",),
    ),
    Fault(
        "the observed rows of the first output stand for all",
        "inference/factors/slots.py",
        "jnp.broadcast_to(rows.presence, rows.y.shape)",
        "jnp.broadcast_to(rows.presence[:, :1], rows.y.shape)",
        ("inference/test_tied.py::test_two_outputs_and_missing_values",),
    ),
)

TERMS = (
    Fault(
        "Laplace's residual has no power",
        "inference/approximations/local_terms.py",
        "curvature + power * slope**2)\n\n        near",
        "curvature + slope**2)\n\n        near",
        ("inference/test_methods.py::test_residuals_of_any_size",),
    ),
    Fault(
        "curvatures from variances are those of power 1",
        "inference/approximations/local_terms.py",
        "return 2.0 * by_var - power * G**2",
        "return 2.0 * by_var - G**2",
        (
            "inference/test_site_update.py::test_curvatures_from_variances_are_those_of_an_exact_integral",
        ),
    ),
    Fault(
        "leave-one-out averages a power of the density",
        "inference/approximations/local_terms.py",
        """rows.columns), latents)

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        return self.log_mean(latents, rows, 1.0)""",
        """rows.columns), latents)

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        return self.log_mean(latents, rows, 0.5)""",
        ("inference/test_leave_one_out.py::test_two_classes_are_their_cavities",),
    ),
    Fault(
        "the presence of the first output stands for all, block terms",
        "inference/approximations/local_terms.py",
        "jnp.swapaxes(jnp.broadcast_to(rows.presence, rows.y.shape), 1, 2)",
        "jnp.swapaxes(jnp.broadcast_to(rows.presence[..., :1], rows.y.shape), 1, 2)",
        (f"{GENERAL}[blocks, missing outputs]",),
    ),
)

NETWORKS = (
    Fault(
        "output weights of a network count as known in the variance of its output",
        "inference/networks/term.py",
        "units.mean[:, None], mean**2 + jnp.diagonal(cov, axis1=-2, axis2=-1)",
        "units.mean[:, None], mean**2",
        ("models/test_network.py::test_output_moments_are_those_of_draws",),
    ),
    Fault(
        "units of a network are not divided by the root of their number",
        "inference/networks/term.py",
        "variances = activation.variance(mean, var) / count",
        "variances = activation.variance(mean, var)",
        ("models/test_network.py::test_output_moments_are_those_of_draws",),
    ),
    Fault(
        "units above see the means of those below alone",
        "inference/networks/term.py",
        "mean, var = output_moments(unit_moments(activation, mean, var), *weights)",
        "mean, var = output_moments(unit_moments(activation, mean, 0.0 * var), *weights)",
        ("models/test_deeper_network.py::test_moments_are_those_of_draws_layer_by_layer",),
    ),
    Fault(
        "erf units have the variance of Phi units",
        "inference/networks/activations.py",
        "return 2.0 / np.pi * half * total",
        "return 0.5 / np.pi * half * total",
        ("models/test_network.py::test_erf_moments_are_those_by_owens_t[0.0-0.7]",),
    ),
)

FACTOR_FAULTS = (*ENERGY, *SITE_UPDATE, *SITE_ARITHMETIC, *EXACT, *SITES, *TERMS, *NETWORKS)
