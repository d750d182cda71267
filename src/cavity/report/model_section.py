"""Sections on a model of a table of rows: what it is, how it was learned, its parameters."""

from collections.abc import Mapping
from typing import Any, cast

import jax.numpy as jnp

from cavity.estimators.layers import layers_of
from cavity.learning.double_precision import in_double
from cavity.models.deep.posterior import DeepPosterior
from cavity.models.deep.summary import summarise
from cavity.report.parameters import class_of, parameter_rows
from cavity.report.sections import (
    Code,
    Heading,
    Paragraph,
    Part,
    Section,
    Table,
    Words,
    counted,
    number,
)
from cavity.report.subject import Subject

# Rows of a table at which layers are looked at, at the most.
MOST_ROWS = 1_000


def model_section(subject: Subject) -> Section:
    """The model, and how it was learned."""
    facts = [*_kind(subject), *_learning(subject)]
    return Section(
        "The model",
        [Table((), facts), *_layers(subject), *_draws(subject), *_parameters(subject)],
    )


def _kind(subject: Subject) -> list[tuple[str, Words]]:
    """Facts on the model."""
    fitted, record = subject.fitted, subject.fitted.record
    linear, classes = "prior" in record, fitted.classes
    what = "weights" if "hidden" in record else "coefficients"
    known = ", with the noise variance of each row given" if fitted.posterior.known_noise else ""
    coupled = ""
    if "coupled" in record:
        coupled = f", with {'coupled' if record['coupled'] else 'independent'} classes"
    facts: list[tuple[str, Words]] = [
        (f"prior of the {what}", str(record["prior"]))
        if linear
        else ("kernel", Code(record["kernel"])),
        ("likelihood", f"{record['likelihood']}{known}"),
        ("method", f"{record['method']}{coupled}"),
    ]
    if classes:
        means = "each has a function, the largest of which is the likeliest class"
        if len(classes) == 2:
            means = f"the function is large where {classes[-1]} is likely"
        facts.append(("classes", f"{', '.join(classes)}; {means}"))
    if not linear:
        points = record["n_inducing"]
        of = "none: the full Gaussian process" if points is None else number(points)
        facts.append((f"inducing {record['inducing_kind'] or 'points'}", of))
    if fitted.powered:
        text = f"{record['power']} (0 is variational, 1 is expectation propagation)"
        facts.append(("power", text))
    asked = [f"{name} {each}" for name, each in record.get("constraints", {}).items()]
    if asked:
        facts.append(("constraints", "; ".join(asked)))
    return facts


def _learning(subject: Subject) -> list[tuple[str, Words]]:
    """Facts on how the model was learned."""
    record, evidence = subject.fitted.record, "not estimated from draws"
    if record["log_evidence"] is not None:
        of = "log probability of the training targets"
        if not subject.fitted.classes:
            of = "log probability density of the training targets, in their own units"
        evidence = (
            f"{number(record['log_evidence'], 8)} nats; the {of}, priors on parameters excluded"
        )
    return [("log evidence", evidence), *learning(record, sites=_sites(record))]


def learning(record: Mapping[str, Any], **more: str) -> list[tuple[str, Words]]:
    """Facts on how any model was learned; `more` stands before the last."""
    each = " of each chain" if "mcmc" in record else ""
    iterations = counted(record["iterations"], "iteration")
    of = "a share of the mean prior variance added to a covariance for stability"
    return [
        converged(record),
        ("work", f"{iterations}{each}, {counted(record['evaluations'], 'evaluation')}"),
        *more.items(),
        ("jitter", f"{number(record['jitter'])}, {of}"),
    ]


def lead(text: str, record: Mapping[str, Any], more: str = ".") -> Words:
    """The first line of a page, with the name of the model's file where it is known."""
    named = (", model ", Code(record["model"])) if record["model"] else ()
    return (text, *named, more)


def converged(record: Mapping[str, Any]) -> tuple[str, Words]:
    """The end of learning, as a fact."""
    return "converged", f"{'yes' if record['converged'] else 'no'}: {record['message']}"


def common_facts(record: Mapping[str, Any], **more: str) -> list[tuple[str, Words]]:
    """Facts on embeddings and models of time series; `more` stands after the likelihood."""
    cells = f"{number(record['n_rows'])} rows, {number(record['missing'])} cells missing"
    bound = "(0 is variational: the log evidence is a lower bound)"
    return [
        ("kernel", Code(record["kernel"])),
        ("likelihood", str(record["likelihood"])),
        *more.items(),
        ("inducing points", number(record["n_inducing"])),
        ("power", f"{record['power']} {bound}"),
        ("fitted to", cells),
    ]


def _sites(record: Mapping[str, Any]) -> str:
    """The way in which the sites of a fit were found."""
    if "mcmc" in record:
        return "none: the posterior was drawn from"
    sites = record["sites"]
    if sites["finished_by"] == "learning":
        return "one for all rows, learned with the model"
    if not sites["sweeps"]:
        return "computed at once, no sweeps needed"
    by = f"; finished by {sites['finished_by']}" if sites["finished_by"] else ""
    return (
        f"{counted(sites['sweeps'], 'sweep')}, residual {number(sites['residual'])}, "
        f"{number(sites['skipped'])} skipped{by}"
    )


@in_double
def _layers(subject: Subject) -> list[Part]:
    """The layers of a deep model; nothing of another."""
    record = subject.fitted.record
    posterior, X = subject.fitted.posterior, subject.encoded.X[:MOST_ROWS]
    if not layers_of(posterior.model) or len(X) < 2:
        return []
    layers = summarise(cast(DeepPosterior, posterior), jnp.asarray(X))
    noises = [
        "none" if layer["noise_variance"] is None else number(layer["noise_variance"])
        for layer in record["layers"]
    ]
    noises[len(layers) - 1] = "the likelihood's"
    rows = [
        (
            str(i + 1),
            str(layer.width),
            layer.points,
            noises[i],
            f"{number(layer.divergence)} nats",
            *(
                f"{number(100 * x, 3)} %"
                for x in (layer.departure, layer.linear, layer.uncertainty)
            ),
        )
        for i, layer in enumerate(layers)
    ]
    head = ("layer", ">functions", ">inducing points", "noise variance")
    head += (">divergence from the prior", ">departure", ">linear", ">uncertainty")
    text = (
        "From the inputs to the target. The departure is the share of the variance of a layer's "
        "outputs between these rows that its prior mean functions do not give; the linear share "
        "is what a linear function of the layer's inputs gives. A hidden layer with next to no "
        "departure does nothing. The uncertainty is the mean variance of an output, in shares of "
        "the variance between rows."
    )
    return [Heading("Layers"), Paragraph(text), Table(head, rows)]


def _draws(subject: Subject) -> list[Part]:
    """The draws of a chain; nothing of another method."""
    found, classes = subject.fitted.record.get("mcmc"), subject.fitted.classes
    if found is None:
        return []
    text = (
        f"{counted(found['chains'], 'chain')} of {number(found['draws'])} draws, "
        f"{number(found['divergences'])} of which diverged. R-hat compares the chains and should "
        "be next to 1; the effective sample size (ESS) is what the draws are worth as "
        "independent ones."
    )
    rows = []
    for p in found["parameters"]:
        of = class_of(p["name"], classes)
        name = (Code(p["name"]), f" of {of}" if of else "")
        numbers = (p[key] for key in ("mean", "sd", "low", "high", "rhat"))
        rows.append((name, *numbers, number(p["ess"], 3)))
    worst = number(found["rhat"]), number(found["ess"], 3)
    rows.append(("the worst, functions included", "", "", "", "", *worst))
    head = ("parameter", ">mean", ">standard deviation", ">5 %", ">95 %", ">R-hat", ">ESS")
    return [Heading("Draws"), Paragraph(text), Table(head, rows)]


def _parameters(subject: Subject) -> list[Part]:
    """The parameters number by number, but for inducing points."""
    fitted, record = subject.fitted, subject.fitted.record
    units = {name: dates.unit for name, dates in fitted.schema.dates.items()}
    found = parameter_rows(
        fitted.posterior.model,
        record["parameters"],
        fitted.schema.features,
        fitted.targets,
        fitted.classes,
        units,
    )
    title = "Medians of the parameters" if "mcmc" in record else "Learned parameters"
    parts: list[Part] = [Heading(title)]
    if fitted.posterior.known_noise:
        text = "The likelihood's variance plays no part: the noise variance of each row is known."
        parts.append(Paragraph(text, "small"))
    rows = [(Code(p.name), p.place, number(p.value, 5), p.units) for p in found]
    head = ("parameter", "~of", ">value", "units")
    parts.append(Table(head, rows, f"All {len(rows)} values", 40))
    if record["n_inducing"] is not None:
        text = "The places of the inducing points were learned too, and are not listed."
        parts.append(Paragraph(text, "small"))
    return parts
