"""Deliberate faults in the weights of rows: of inference, starting values and scores."""

from benchmarks.mutations.fault import Fault

ROW_WEIGHTS = "equivalence/test_row_weights.py::"

ROW_WEIGHT_FAULTS = (
    Fault(
        "a weight divides the noise of a row, not its whole site",
        "inference/variables/gaussian_sites.py",
        "precision = presence / (variance + a * d)",
        "precision = presence / (variance + a * d * presence)",
        (f"{ROW_WEIGHTS}test_broken_weights_multiply_the_precision_of_a_site",),
    ),
    Fault(
        "one of the rows that a row stands for is left out, not all",
        "inference/leave_one_out.py",
        "return tuple(e.own_sites(rows, s) for e, s in zip(factor.edges, sites, strict=True))",
        "return sites",
        (f"{ROW_WEIGHTS}test_leaving_one_out_leaves_out_the_whole_row",),
    ),
    Fault(
        "the contrasts of a weighted row share their auxiliary variable",
        "models/coupled_classes.py",
        "return masked(sites, rows.observed)",
        "return masked(sites, self.presence(rows))",
        (f"{ROW_WEIGHTS}test_whole_weights_are_copies",),
    ),
    Fault(
        "a tied site counts rows without their weights",
        "inference/factors/slots.py",
        "counts = jnp.sum(presence, axis=0)",
        "counts = jnp.sum(presence > 0.0, axis=0) * 1.0",
        (f"{ROW_WEIGHTS}test_whole_weights_are_copies",),
    ),
    Fault(
        "starting values do not see weights",
        "learning/initialisation/screening.py",
        "heavy = np.ones(len(kept)) if weights is None else weights[kept]",
        "heavy = np.ones(len(kept))",
        ("estimators/test_row_weights.py::test_starting_values_are_those_of_copies",),
    ),
    Fault(
        "rows of weight zero are fitted",
        "estimators/row_weights.py",
        "kept = np.flatnonzero(weights > 0.0)",
        "kept = np.flatnonzero(weights >= 0.0)",
        ("estimators/test_row_weights.py",),
    ),
    Fault(
        "scores do not see weights",
        "learning/metrics/sums.py",
        "own = np.asarray(weights, float)",
        "own = np.ones_like(values)",
        ("cli/test_row_weights.py::test_metrics_of_weights_are_those_of_copies",),
    ),
    Fault(
        "the weight of a class takes the place of that of its rows",
        "estimators/row_weights.py",
        "return own if sample_weight is None else own * checked_weights(sample_weight, X)",
        "return own",
        ("estimators/test_row_weights.py::test_weights_of_classes_are_those_of_their_rows",),
    ),
)
