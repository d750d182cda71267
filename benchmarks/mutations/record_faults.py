"""Deliberate faults between a model and its user: what is asked, kept in files, drawn and told."""

from benchmarks.mutations.fault import Fault

RECORD_FAULTS = (
    Fault(
        "joint covariances of outputs have deviations on their diagonal",
        "estimators/regression.py",
        "cov[index, index] = self._single(self._moments(X, side)[1] ** 2)",
        "cov[index, index] = self._single(self._moments(X, side)[1])",
        ("estimators/test_predictions.py::test_the_ways_to_predict_agree",),
    ),
    Fault(
        "classes that are known ahead stay in the order in which they were named",
        "estimators/classification.py",
        "classes, _ = _sorted(np.asarray(known))",
        "classes = np.asarray(known)",
        ("estimators/test_partial_fit.py::test_classes_that_are_named_have_their_own_order",),
    ),
    Fault(
        "files of Python forget the ranges of the inputs",
        "tables/rows_files.py",
        "        ranges=rows.ranges,",
        "        ranges={},",
        ("conformance/test_files.py::test_tables_of_text_are_read_as_the_frame_was",),
    ),
    Fault(
        "times in files move by the offset of their zone",
        "estimators/kept_times.py",
        'index = index.tz_localize("UTC").tz_convert(known["tz"])',
        'index = index.tz_localize(known["tz"])',
        ("estimators/test_forecast_times.py::test_times_come_back_from_files",),
    ),
    Fault(
        "files of time series forget how far forecasts are widened",
        "tables/forecasting.py",
        "                widening=wide,",
        "                widening=None,",
        ("cli/test_forecast.py::test_what_forecasts_are_widened_by_is_kept",),
    ),
    Fault(
        "rows of a forecast of several series have the labels of others",
        "cli/forecast.py",
        "np.repeat(labels, steps)",
        "np.tile(labels, steps)",
        ("cli/test_forecast.py::test_rows_of_a_forecast_have_the_label_of_their_series",),
    ),
    Fault(
        "metrics of several targets are those of the first",
        "tables/table_model.py",
        '{**average_metrics(each), "per_target": named_each}',
        '{**each[0], "per_target": named_each}',
        ("cli/test_use.py::test_evaluate_means_over_several_targets",),
    ),
    Fault(
        "leave-one-out densities stand beside predictions of the first target",
        "report/targets.py",
        "predicted = subject.log_densities[:, i]",
        "predicted = subject.log_densities[:, 0]",
        ("report/test_leave_one_out.py::test_each_target_stands_beside_its_own_predictions",),
    ),
    Fault(
        "shares in a confusion matrix are of the predicted class",
        "drawing/classes.py",
        "total = counts.sum(axis=1, keepdims=True)",
        "total = counts.sum(axis=0, keepdims=True)",
        ("drawing/test_drawing.py::test_a_confusion_has_true_classes_down_and_shares_of_these",),
    ),
    Fault(
        "the seed of the command line is not handed on",
        "cli/asked.py",
        'return chosen | {"random_state": self.request.seed}',
        "return chosen",
        ("cli/test_fit.py::test_same_seed_same_model",),
    ),
    Fault(
        "rows outside the range count in the last part of a long table alone",
        "columns/warnings.py",
        "outside[name] = outside[name] + more if name in outside else more",
        "outside[name] = more",
        ("cli/test_outside.py::test_later_dates_are_told_of",),
    ),
    Fault(
        "kernels by the names of columns count a category before them as one column",
        "columns/encoder.py",
        "            start += column.width",
        "            start += 1",
        (
            "columns/test_encoder.py::test_categories_in_a_kernel_are_the_numbers_of_their_features",
        ),
    ),
    Fault(
        "tied sites that are asked for in a time series are those of single states",
        "families/forecaster.py",
        '{"power_ep": "chain", "tied": "tied"}',
        '{"power_ep": "chain", "tied": "factorised"}',
        ("families/test_families.py::test_what_is_typed_becomes_a_setting",),
    ),
    Fault(
        "records after a new one stay in the journal of a fit",
        "persistence/checkpoint.py",
        "self.file.truncate(self.place)",
        "self.size = self.place",
        (
            "persistence/test_checkpoint.py::test_what_follows_a_record_that_is_taken_back_is_overwritten",
        ),
    ),
    Fault(
        "a fit has converged however its search ended",
        "learning/run/fit.py",
        '"converged": inference.converged and minimum.converged,',
        '"converged": inference.converged,',
        ("learning/test_fit.py::test_an_interrupt_returns_the_best_so_far",),
    ),
)
