"""Records as text for people."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cavity.likelihoods.support import Support
from cavity.numerics.text import aligned, plural
from cavity.report.parameters import class_of
from cavity.tables.embedding import TableEmbedding
from cavity.tables.forecasting import TableForecaster
from cavity.tables.table_model import TableModel

MOST_LINES = 30  # of one parameter with a value per input
# Numbers of linear models and networks that come from their table and are not learned.
OF_DESIGN = ("intercept", "centre", "scale", "bias", "output", "start")
MOST_NAMES = 10  # of selected columns
PRIORS = {"weak": "weak ones of variances, lengthscales and noise, in units of the data"}


def describe_fit(fitted: TableModel) -> str:
    """Summary of a fit: the data, the result, and the learned parameters."""
    record = fitted.record
    points = record["n_inducing"]
    gaussian = record["likelihood"] == "gaussian"
    kind = (record["inducing_kind"] or "points").removesuffix("s")
    form = "full GP" if points is None else plural(points, f"inducing {kind}")
    form = f"{record['prior']} prior" if "prior" in record else form
    if "hidden" in record:
        *below, last = np.ravel(record["hidden"]).tolist()
        layers_below = "".join(f"{units} and " for units in below)
        form = f"{layers_below}{plural(last, 'hidden unit')}, {form}"
    layers = record.get("layers", [])
    if layers:
        form = f"{plural(len(layers), 'layer')}, {form} in the last one"
    if record["method"] != "power_ep":
        form = f"{form}, method {record['method']}"
    if "coupled" in record:
        form = f"{form}, {'coupled' if record['coupled'] else 'independent'} classes"
    if fitted.powered:
        form = f"{form}, power {record['power']:g}"
    converged = "converged" if record["converged"] else "NOT CONVERGED"
    iterations = plural(record["iterations"], "iteration")
    told_apart = f": {', '.join(record['classes'])}" if record["classes"] else ""
    noise = "gaussian noise" if gaussian else f"{record['likelihood']} likelihood"
    rows = [
        ("task", f"{record['task']} of {', '.join(record['targets'])}{told_apart}"),
        (
            "data",
            f"{plural(record.get('rows_seen', record['n_rows']), 'row')}, "
            f"{plural(len(record['inputs']), 'input')}",
        ),
        *(("dates", f"{name} in {d.since}") for name, d in fitted.schema.dates.items()),
        ("model", f"{record['kernel']}, {noise}, {form}"),
        *(("priors", PRIORS[word]) for word in [record.get("priors")] if word in PRIORS),
        *(("weights", text) for text in weights_in_words(record)),
        *constraints_rows(record),
        ("log evidence", _evidence(record["log_evidence"])),
        ("learning", f"{converged} in {iterations}: {record['message']}"),
    ]
    rows += _of_coefficients(fitted)
    if "relevance" in record:
        rows.append(("relevance", describe_relevance(record["relevance"])))
    if record["verdict"]:
        rows.append(("inducing", record["verdict"]))
    if record["jitter"] > 1e-8:
        rows.append(("jitter", f"{record['jitter']:g} (had to be raised)"))
    parts = [
        aligned(rows),
        *_layers(layers),
        *_powers(record["power_table"]),
        "parameters, in the units of the data:",
        _parameters(fitted),
    ]
    if "mcmc" in record:
        parts[-2] = f"medians of the {parts[-2]}"
        parts += ["draws:", describe_draws(record["mcmc"], fitted.classes)]
    if record["test"] is not None:
        parts += ["on the test table:", describe_metrics(record["test"])]
    return "\n\n".join(parts)


def weights_in_words(record: Mapping[str, Any]) -> list[str]:
    """Weights of rows and classes, where the fit had any."""
    asked = record.get("weights", {})
    found = [f"column {asked['column']}"] if "column" in asked else []
    classes = asked.get("classes")
    if classes == "balanced":
        found.append("classes balanced")
    elif classes:
        found.append(", ".join(f"{name} {weight:g}" for name, weight in classes.items()))
    return ["; ".join(found)] if found else []


def constraints_rows(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A line for each parameter of which something was asked."""
    asked = record.get("constraints", {}).items()
    return [("constraint" if i == 0 else "", " ".join(each)) for i, each in enumerate(asked)]


def _of_coefficients(fitted: TableModel) -> list[tuple[str, str]]:
    """Lines on a linear model: the columns selected, and the parameters averaged over."""
    record, rows = fitted.record, []
    if "selected" in record:
        rows.append(("selected", describe_selected(record["selected"], _coefficients(fitted))))
    if "selection_message" in record:
        rows.append(("", record["selection_message"]))
    if record.get("integrated"):
        rows.append(("averaged over", describe_integrated(record["integrated"])))
    return rows


def describe_selected(
    selected: Sequence[str] | Mapping[str, Sequence[str]], count: int, fdr: float = 0.1
) -> str:
    """Description of the selected columns, and the number of coefficients."""
    each = selected if isinstance(selected, Mapping) else {"": selected}
    total = sum(map(len, each.values()))
    parts = [
        (f"{output}: " if output else "") + ", ".join(names[:MOST_NAMES]) + _more(names)
        for output, names in each.items()
        if names
    ]
    listed = f": {'; '.join(parts)}" if parts else ""
    return (
        f"{total} of {plural(count, 'coefficient')} at a false discovery rate of {fdr:g}{listed}"
    )


def describe_integrated(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Parameters that were integrated out, with medians and intervals of those that are one."""
    return ", ".join(
        name
        if isinstance(one["median"], list)
        else f"{name} {one['median']:.3g} ({one['lower']:.3g} to {one['upper']:.3g})"
        for name, one in found.items()
    )


def describe_relevance(relevance: Mapping[str, float]) -> str:
    """The columns that the units follow most strongly, with how strongly."""
    order = sorted(relevance, key=lambda name: -relevance[name])
    named = ", ".join(f"{name} {relevance[name]:.3g}" for name in order[:MOST_NAMES])
    return f"{named}{_more(order)}"


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""


def _coefficients(fitted: TableModel) -> int:
    """The number of coefficients, of all outputs."""
    several = fitted.record["selected"]
    outputs = len(several) if isinstance(several, Mapping) else 1
    return len(fitted.schema.features) * outputs


def describe_embedding(fitted: TableEmbedding) -> str:
    """Summary of an embedding: the data, the result, and the learned parameters."""
    record = fitted.record
    noise = "gaussian noise" if record["likelihood"] == "gaussian" else record["likelihood"]
    converged = "converged" if record["converged"] else "NOT CONVERGED"
    shown = ", ".join(record["columns"][:8])
    more = len(record["columns"]) - 8
    shown += f" and {more} more" if more > 0 else ""
    columns = plural(len(record["columns"]), "column")
    missing = plural(record["missing"], "cell")
    rows = [
        ("task", f"embedding of {columns} in {plural(record['components'], 'dimension')}"),
        ("columns", shown),
        ("data", f"{plural(record['n_rows'], 'row')}, {missing} missing"),
        *(("constant", f"{name}, which has no part in the model") for name in record["constant"]),
        (
            "model",
            f"{record['kernel']}, {noise}, {plural(record['n_inducing'], 'inducing point')}, "
            f"power {record['power']:g}",
        ),
        ("log evidence", f"{record['log_evidence']:.4f} nats"),
        (
            "learning",
            f"{converged} in {plural(record['iterations'], 'iteration')}: {record['message']}",
        ),
    ]
    real = fitted.posterior.model.likelihood.support is Support.REAL
    of = ", of standardised columns" if real else ""
    shares = enumerate(record["relevance"], 1)
    relevance = [(f"dimension {i}", f"{100 * share:.1f} %") for i, share in shares]
    values = [
        (name, _show(value))
        for name, value in record["parameters"].items()
        if not name.startswith("inducing.")
    ]
    return "\n\n".join(
        [
            aligned(rows),
            "relevance of the latent dimensions, their shares in how columns move:",
            aligned(relevance, indent="  "),
            f"parameters{of}, in the order of the dimensions:",
            aligned(values, indent="  "),
        ]
    )


def describe_forecaster(fitted: TableForecaster) -> str:
    """Summary of a fitted forecaster: the data, the result, and the learned parameters."""
    record = fitted.record
    noise = "gaussian noise" if record["likelihood"] == "gaussian" else record["likelihood"]
    converged = "converged" if record["converged"] else "NOT CONVERGED"
    tied = "tied, " if record["method"] == "tied" else ""
    values = record["parameters"]
    single = {name: np.ravel(values[name]) for name in values if np.size(values[name]) <= 6}
    shown = [(name, " ".join(f"{v:.4g}" for v in array)) for name, array in single.items()]
    rows = [
        ("task", f"forecast of {', '.join(record['targets'])}"),
        ("controls", ", ".join(record["controls"]) or "none"),
        *_series(record),
        (
            "data",
            f"{plural(record['n_rows'], 'row')}, {plural(record['missing'], 'cell')} missing",
        ),
        *([] if fitted.times is None else [("dates", fitted.times.in_words)]),
        (
            "model",
            f"{plural(record['states'], 'state')}, {record['kernel']}, {noise}, "
            f"{plural(record['n_inducing'], 'inducing point')}, {tied}power {record['power']:g}",
        ),
        ("log evidence", f"{record['log_evidence']:.4f} nats"),
        (
            "learning",
            f"{converged} in {plural(record['iterations'], 'iteration')}: {record['message']}",
        ),
    ]
    return "\n\n".join(
        [aligned(rows), "parameters, of standardised columns:", aligned(shown, indent="  ")]
    )


def _powers(table: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """A line per power that was compared, nothing where none was chosen."""
    if not table:
        return []
    rows: list[tuple[str, ...]] = [("power", "log evidence", "log density", "")]
    for trial in table:
        numbers = (
            f"{trial['power']:g}",
            *(f"{trial[k]:.4f}" for k in ("log_evidence", "log_density")),
        )
        rows.append((*numbers, "chosen" if trial["chosen"] else ""))
    which = table[0]["left_out"]
    of = "each row given the others" if which == "each row" else f"{which} held out"
    return [f"powers compared, by the mean log density of {of}:", aligned(rows, indent="  ")]


def _series(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Line on the series, where a column tells them apart."""
    if record["series"] is None:
        return []
    labels = record["series_labels"]
    more = f" and {len(labels) - 8} more" if len(labels) > 8 else ""
    return [("series", f"{len(labels)} by {record['series']}: {', '.join(labels[:8])}{more}")]


def _layers(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line per layer of a deep model, nothing of any other."""
    if not layers:
        return []
    table: list[tuple[str, ...]] = [("", "functions", "inducing points", "noise variance")]
    for i, layer in enumerate(layers):
        noise = layer["noise_variance"]
        last = i == len(layers) - 1
        shown = "the likelihood's" if last else "none" if noise is None else f"{noise:.4g}"
        table.append((f"layer {i + 1}", str(layer["width"]), str(layer["n_inducing"]), shown))
    return ["layers, from the inputs to the target:", aligned(table, indent="  ")]


def _evidence(value: float | None) -> str:
    return "not estimated from draws" if value is None else f"{value:.4f} nats"


def describe_draws(draws: Mapping[str, Any], classes: Sequence[str] = ()) -> str:
    """Summaries of the draws of each parameter, and how far they can be trusted."""
    names = ("mean", "sd", "low", "high")
    rows: list[tuple[str, ...]] = [("", "mean", "sd", "5 %", "95 %", "R-hat", "ESS")]
    for row in draws["parameters"]:
        numbers = (f"{row[k]:.4g}" for k in names)
        rows.append(
            (_with_class(row["name"], classes), *numbers, *_trust(row["rhat"], row["ess"]))
        )
    rows.append(
        ("worst, functions included", "", "", "", "", *_trust(draws["rhat"], draws["ess"]))
    )
    return aligned(rows, indent="  ")


def _trust(rhat: float | None, ess: float | None) -> tuple[str, str]:
    return "-" if rhat is None else f"{rhat:.3f}", "-" if ess is None else f"{ess:.0f}"


def _parameters(fitted: TableModel) -> str:
    rows = []
    encoder = fitted.schema.encoder
    by_count = {len(names): names for names in (encoder.names, encoder.features)}
    for name, value in fitted.record["parameters"].items():
        if name.split(".")[0] in OF_DESIGN:
            continue
        array = np.asarray(value)
        owners = by_count.get(array.size, ()) if name.startswith("kernel.") else ()
        if array.ndim == 1 and 1 < len(owners) <= MOST_LINES:
            rows += [(f"{name}[{f}]", _show(v)) for f, v in zip(owners, array, strict=True)]
        else:
            rows.append((_with_class(name, fitted.classes), _show(array)))
    return aligned(rows, indent="  ")


def _with_class(name: str, classes: Sequence[str]) -> str:
    """A parameter's name, and the class that it belongs to, if there is one."""
    owner = class_of(name, classes)
    return f"{name}[{owner}]" if owner else name


def _show(value: Any) -> str:
    array = np.asarray(value)
    if array.size > 8:
        shape = " x ".join(map(str, array.shape))
        return f"{shape} values from {array.min():.4g} to {array.max():.4g}"
    return np.array2string(array, formatter={"float_kind": lambda v: f"{v:.5g}"}, separator=", ")


def _measure(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def describe_metrics(metrics: Mapping[str, Any]) -> str:
    """Measures by name; those of several targets side by side, with their mean."""
    each: Mapping[str, Mapping[str, float]] = metrics.get("per_target", {})
    # what the data do not define, such as the ROC curve of many classes, is left out
    known = {name for name, value in metrics.items() if value is not None and value == value}
    names = [name for name in metrics if name != "per_target" and (each or name in known)]
    columns = [*each.values(), metrics]
    rows = [(name, *(_measure(column.get(name)) for column in columns)) for name in names]
    if each:
        rows.insert(0, ("", *each, "mean"))
    return aligned(rows, indent="  ")
