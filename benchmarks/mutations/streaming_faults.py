"""Faults of models that go on learning: the past, what is absorbed, and which points stay."""

from benchmarks.mutations.fault import Fault

PAST, ROWS = "inference/past.py", "learning/streaming/live_rows.py"
REMEMBERED, UPDATE = "models/remembered.py", "learning/streaming/update.py"
FOUND = "learning/streaming/found.py"
UPDATES = ("learning/test_update.py",)
LEFT_BEHIND = "test_rows_that_leave_others_behind_keep_their_evidence"
COMMAND, COMMANDS = "cli/update.py", "cli/test_update.py::"
WHERE_IT_FAILS = ("learning/test_update_faults.py",)
STREAMING_FAULTS = (
    Fault(
        "the residual of the past is left out",
        PAST,
        "jnp.eye(len(P), dtype=P.dtype) + power * P @ D, both",
        "jnp.eye(len(P), dtype=P.dtype) + 0.0 * P @ D, both",
        UPDATES,
    ),
    Fault(
        "the determinant of the past counts once for all outputs",
        PAST,
        "replicas * log_determinant_ratio(power, D @ P)",
        "log_determinant_ratio(power, D @ P) * 0.5",
        UPDATES,
    ),
    Fault(
        "white noise is not shared by points at one place",
        PAST,
        "covariance(kernel, b, a) + noise * coincidence(b, a)",
        "covariance(kernel, b, a) + 0.0 * coincidence(b, a)",
        UPDATES,
    ),
    Fault(
        "a mean that moves does not move the past",
        PAST,
        "return shift - offset @ precision, precision, 0.5 * gained + seen",
        "return shift, precision, 0.5 * gained + seen",
        UPDATES,
    ),
    Fault(
        "the past keeps the prior of its rows",
        REMEMBERED,
        "return B - eye, mean @ B",
        "return B, mean @ B",
        UPDATES,
    ),
    Fault(
        "what was said before is forgotten",
        ROWS,
        "m if before is None else added(m, before)",
        "m",
        UPDATES,
    ),
    Fault(
        "the scale of rows that leave is lost",
        ROWS,
        ".with_log_scale(log_evidence - alone)",
        ".with_log_scale(0.0 * alone)",
        UPDATES,
    ),
    Fault(
        "the scale of rows that leave some others behind is lost",
        ROWS,
        ".with_log_scale(_scale(problem, those, sites))",
        ".with_log_scale(0.0)",
        ("learning/test_update_batches.py::" + LEFT_BEHIND,),
    ),
    Fault(
        "an improper past keeps rows in memory",
        ROWS,
        "if not np.isfinite(alone):",
        "if False:",
        WHERE_IT_FAILS,
    ),
    Fault(
        "rows of least leverage stay in memory",
        UPDATE,
        'np.argsort(-leverage, kind="stable")',
        'np.argsort(leverage, kind="stable")',
        WHERE_IT_FAILS,
    ),
    Fault(
        "the past does not fade",
        UPDATE,
        "0.5 ** (len(given) / half_life)",
        "1.0",
        UPDATES,
    ),
    Fault(
        "other inducing variables are taken whatever they cost",
        FOUND,
        "if chosen is not None and chosen.result.objective < stayed.result.objective",
        "if chosen is not None",
        WHERE_IT_FAILS,
    ),
    Fault(
        "points go by the precision that rows gave them alone",
        REMEMBERED,
        "costs = costs + 0.5 * precision / np.sum(root**2, axis=0)",
        "costs = costs + 0.5 * precision",
        WHERE_IT_FAILS,
    ),
    Fault(
        "a batch is known by its inputs alone",
        COMMAND,
        "for array in (encoded.X, encoded.y, *encoded.side_and_weight.values()):",
        "for array in (encoded.X, *encoded.side_and_weight.values()):",
        (COMMANDS + "test_other_outputs_are_another_batch",),
    ),
    Fault(
        "a batch is learned twice",
        COMMAND,
        "    if batch in known:",
        "    if batch in known[:0]:",
        (COMMANDS + "test_a_model_goes_on_learning",),
    ),
    Fault(
        "a file that changed meanwhile is written",
        COMMAND,
        "if _stamp(model) != before:",
        "if False:",
        (COMMANDS + "test_a_file_that_changed_meanwhile_is_left",),
    ),
    Fault(
        "the evidence of old rows is in the units of the model",
        COMMAND,
        "+ float(_counted(fitted) @ np.log(fitted.output_scale))",
        "",
        (COMMANDS + "test_the_evidence_is_in_the_units_of_the_outputs",),
    ),
    Fault(
        "the evidence of all rows is in the units of the model",
        COMMAND,
        "- float((old + new) @ np.log(scale))",
        "",
        (COMMANDS + "test_the_evidence_is_in_the_units_of_the_outputs",),
    ),
)
