"""Gaussian processes of images."""

import re

from cavity.families.base import Family, Option, Rule, Setting
from cavity.families.options import (
    CLASSIFICATION,
    JITTER,
    NO_DRAWS,
    OF_CLASSES,
    POWER,
    RANDOM_STATE,
    points_of,
)
from cavity.families.values import Names, Whole
from cavity.families.weights import iterations

PARTS = ("position", "weighted", "invariant", "auto")
SHAPE = r"[1-9]\d{0,4}x[1-9]\d{0,4}(x[1-9]\d{0,2})?"


def shape_of(typed: str) -> tuple[int, ...]:
    """The shape of an image, from text such as 28x28 or 32x32x3.

    Raises:
        ValueError: for other text.
    """
    if not re.fullmatch(SHAPE, typed):
        raise ValueError(f"'{typed}' is not like 28x28, or 32x32x3 with three channels")
    return tuple(map(int, typed.split("x")))


def patches_of(typed: str) -> tuple[tuple[int, int], str | None]:
    """The shape of a patch, and the kernel of whole images beside the sum over patches.

    Raises:
        ValueError: for text that is no kernel of images.
    """
    found = re.fullmatch(r"conv([1-9]\d*)(?:x([1-9]\d*))?(?:\s*\+\s*(rbf))?", typed.strip())
    if found is None:
        raise ValueError(
            f"'{typed}' is not a kernel of images, such as conv5, conv3x7 or conv5 + rbf"
        )
    return (int(found[1]), int(found[2] or found[1])), found[3]


def kernel_of(typed: str) -> str:
    """The kernel of images as it is typed.

    Raises:
        ValueError: for text that is no kernel of images.
    """
    patches_of(typed)
    return typed


def _patches(typed: str) -> int:
    """The number of inducing patches."""
    count = points_of(typed)
    if count in ("enough", None):
        raise ValueError("give the number of inducing patches, or leave it out")
    return 100 if count == "auto" else int(count)


IMAGES = Family(
    name="gp",
    called="a model of images",
    several="images",
    estimators={CLASSIFICATION: "cavity.estimators.images:ConvGPClassifier"},
    fitting="cavity.cli.images:FitImages",
    record="cavity.tables.records:images_record",
    settings=(
        Setting(
            "image_shape",
            option=Option(
                "--image-shape",
                "HxW",
                "Inputs are the pixels of images, row by row: 28x28, in colour 32x32x3.",
                read=shape_of,
            ),
        ),
        Setting(
            "kernel",
            "conv5",
            option=Option(
                "--kernel",
                "TEXT",
                'Of images "conv5", patches of 5 x 5 pixels, or "conv5 + rbf".',
                read=kernel_of,
            ),
        ),
        Setting("stride", 1),
        Setting("channels", "joint"),
        Setting(
            "parts",
            "auto",
            Names(PARTS, objects=True),
            Option(
                "--parts",
                "NAME",
                "How patches count: by position, weighted or invariant, or chosen, auto.",
            ),
        ),
        Setting("method", "power_ep"),
        POWER,
        Setting(
            "n_inducing",
            100,
            Whole(1),
            Option("--inducing", "N", "Of images 100 patches.", read=_patches),
        ),
        iterations(50),
        Setting("steps", 0, Whole(0)),
        Setting("batch", 200, Whole(1)),
        JITTER,
        RANDOM_STATE,
    ),
    only={CLASSIFICATION: (OF_CLASSES,)},
    unused=NO_DRAWS
    | {
        "--method": "images have one method, 'power_ep': leave it out",
        "--restarts": "a model of images is learned once: leave it out",
        "--mean": "a model of images has a constant mean: leave it out",
        "--priors": "parameters of a model of images have no priors: leave it out",
        "--inducing-kind": "a model of images has inducing patches: leave it out",
        "--noise-column": "images have classes: leave it out",
        "--exposure-column": "images have classes: leave it out",
        "--weight-column": "images have no weights: leave it out",
        "--class-weight": "images have no weights: leave it out",
        "--batch-rows": "a model of images needs all rows in memory: leave it out",
        "--checkpoint": "a model of images keeps nothing on the way: leave it out",
    },
    rules=(
        Rule(
            lambda asked: len(asked["targets"]) > 1,
            "--target",
            "images take one target; fit each one alone",
        ),
        Rule(
            lambda asked: any(
                patch > side
                for patch, side in zip(
                    patches_of(asked["kernel"])[0], asked["image_shape"], strict=False
                )
            ),
            "--kernel",
            "patches of {kernel} are larger than the image, {image_shape[0]} x {image_shape[1]}",
        ),
    ),
    chosen_by="--image-shape",
)
