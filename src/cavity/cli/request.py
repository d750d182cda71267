"""The options of `cavity fit`: each field is an option of the command line, with its help."""

import dataclasses
from typing import Annotated, Any

import typer

from cavity.cli.session import File

Table = Annotated[
    str, typer.Argument(metavar="TABLE", help="A .csv or .parquet table."), File("table")
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with a missing cell.")
]
BatchRows = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Read the table N rows at a time; without it only a large one is read in parts.",
    ),
]


def option(metavar: str, help: str, *names: str, **limits: Any) -> Any:
    """An option that takes a value; named as its parameter where no other name is given."""
    return typer.Option(*names, metavar=metavar, help=help, **limits)


@dataclasses.dataclass(frozen=True)
class Request:
    """Arguments of `cavity fit`."""

    table: Table
    out: Annotated[str, option("MODEL", "The model file to write."), File("model", written=True)]
    targets: Annotated[
        list[str] | None, option("COLUMN", "Column to predict; repeatable.", "--target")
    ] = None
    model: Annotated[
        str,
        option(
            "gp|deep|linear|network|latent|state-space",
            "A Gaussian process, several layers of them, a linear model with a sparse prior, a "
            "network with hidden units, an embedding of all columns, or a time series with "
            "hidden states.",
        ),
    ] = "gp"
    prior: Annotated[
        str | None,
        option(
            "NAME",
            "Of the coefficients of a linear model, or the weights of a network's units: "
            "spike_slab, horseshoe, laplace, student_t, gaussian or ard; spike_slab, of networks "
            "ard.",
        ),
    ] = None
    blocks: Annotated[
        bool,
        typer.Option(
            "--blocks",
            help="Of a linear model: the columns of one category are zero together or not at all.",
        ),
    ] = False
    integrate: Annotated[
        str | None,
        option(
            "PARTS",
            "Of a linear model: parameters to average over: all, the default, none, noise, prior.",
        ),
    ] = None
    units: Annotated[
        str | None,
        option(
            "N",
            "Hidden units of a network, or of each of its layers: 10, or 10,5.",
            "--hidden",
        ),
    ] = None
    image_shape: Annotated[
        str | None,
        option("HxW", "Inputs are the pixels of images, row by row: 28x28, in colour 32x32x3."),
    ] = None
    parts: Annotated[
        str | None,
        option(
            "NAME",
            "How patches of images count: by position, weighted, invariant, or auto; auto.",
        ),
    ] = None
    components: Annotated[
        int | None, option("N", "Latent dimensions of an embedding: 2.", min=1)
    ] = None
    columns: Annotated[
        list[str] | None,
        option("COLUMN", "Column to embed; repeatable; without it all are.", "--column"),
    ] = None
    states: Annotated[
        int | None, option("N", "Hidden states of a time series: 2.", "--state", min=1)
    ] = None
    controls: Annotated[
        list[str] | None,
        option("COLUMN", "Of a time series: column known ahead; repeatable.", "--control"),
    ] = None
    series: Annotated[
        str | None,
        option("COLUMN", "Of a time series: column that tells several series apart."),
    ] = None
    task: Annotated[
        str | None,
        option(
            "NAME",
            "regression or classification; without it, classification for text and truth values.",
        ),
    ] = None
    likelihood: Annotated[
        str | None,
        option(
            "NAME",
            "How the target scatters: gaussian, with a level that varies heteroscedastic, with "
            "outliers student_t or laplace; of counts poisson or negative_binomial; above zero "
            "gamma or exponential; between 0 and 1 beta; of classes probit (or bernoulli) or "
            "logit.",
        ),
    ] = None
    kernel: Annotated[
        str,
        option(
            "TEXT",
            'Such as "rbf + linear" or "matern52[age,bmi] * periodic[0]"; of images "conv5", '
            'patches of 5 x 5 pixels, or "conv5 + rbf".',
        ),
    ] = "rbf"
    method: Annotated[
        str,
        option(
            "NAME",
            "Inference: power_ep; laplace; local_bound or mean_field, of student_t, laplace and "
            "logit; tied, for long tables; mcmc, draws, for small ones. A time series takes "
            "power_ep or tied.",
        ),
    ] = "power_ep"
    power: Annotated[
        str | None,
        option(
            "NUMBER|auto",
            "From 0, variational, to 1, EP: 0.5, of embeddings and time series 0, of linear "
            "models and networks 1; no matter in a full GP with Gaussian noise. auto: that of 0, "
            "0.5 and 1 which gives rows that were left out the largest density.",
        ),
    ] = None
    inducing: Annotated[
        str,
        option(
            "N|auto|enough|full",
            "Inducing points; auto: a full GP up to 1,000 rows, 200 points beyond; 100 in each "
            "layer of a deep model, 50 in an embedding, 30 of a time series. enough: a full GP up "
            "to 1,000 rows, beyond as many as the evidence needs, 1,000 at the most.",
        ),
    ] = "auto"
    inducing_kind: Annotated[
        str,
        option(
            "NAME",
            "What inducing variables are, with --inducing N: points, windows, waves or slopes.",
        ),
    ] = "points"
    mean: Annotated[str, option("NAME", "Prior mean: constant, zero or linear.")] = "constant"
    priors: Annotated[
        str,
        option(
            "weak|none",
            "Of variances, lengthscales and noise, in units of the data; they matter where rows "
            "are few.",
        ),
    ] = "weak"
    layers: Annotated[
        int | None, option("N", "Of a deep model, the last one included: 2.", min=1)
    ] = None
    width: Annotated[
        int | None,
        option("N", "Functions of each hidden layer: as many as inputs, 30 at the most.", min=1),
    ] = None
    steps: Annotated[
        int | None,
        option(
            "N",
            "Of learning a deep model, on 500 rows each: 2500; of a network with --batch: 2000.",
            min=1,
        ),
    ] = None
    batch: Annotated[
        int | None,
        option(
            "ROWS",
            "Of a minibatch: a network is learned from minibatches, with one site for all rows.",
            min=1,
        ),
    ] = None
    test: Annotated[
        str | None, option("TABLE", "Evaluate on this table at the end."), File("test table")
    ] = None
    ignore: Annotated[
        list[str] | None, option("COLUMN", "Column that is no input; repeatable.")
    ] = None
    noise_column: Annotated[str | None, option("COLUMN", "Column of known noise variances.")] = (
        None
    )
    exposure_column: Annotated[
        str | None, option("COLUMN", "Column of exposures, for counts.")
    ] = None
    drop_missing: DropMissing = False
    seed: Annotated[int, option("N", "Of everything random.", min=0, max=2**32 - 1)] = 0
    restarts: Annotated[int, option("N", "Further runs from other starting values.", min=0)] = 0
    max_iterations: Annotated[int, option("N", "Of one run, at the most.", min=1)] = 1000
    draws: Annotated[
        int | None, option("N", "Of each of four chains, with --method mcmc: 1000.", min=20)
    ] = None
    batch_rows: BatchRows = None
    checkpoint: Annotated[
        str | None,
        option("DIR", "Folder in which the fit keeps what it has done, to go on with --resume."),
        File("folder of the checkpoint"),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the checkpoint, if there is one yet: repeat the same command until "
            "done.",
        ),
    ] = False

    def given(self, name: str) -> bool:
        """True for an option that is not left at its default."""
        return getattr(self, name) != getattr(Request, name)

    @property
    def used_power(self) -> float | str:
        """The power that was asked for, as a number or "auto", or that of the kind of model.

        Raises:
            ValueError: for text that is neither.
        """
        if self.power is not None:
            return self.power if self.power == "auto" else float(self.power)
        return {"latent": 0.0, "state-space": 0.0, "linear": 1.0, "network": 1.0}.get(
            self.model, 0.5
        )
