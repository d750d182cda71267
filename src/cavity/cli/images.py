"""`cavity fit --image-shape`: options, the estimator of images, and its kernel in words."""

import math
import re
from typing import Any

from cavity.cli.request import Request
from cavity.cli.session import usage
from cavity.cli.training_tables import Tables
from cavity.estimators.images import ConvGPClassifier
from cavity.estimators.registry import CLASSIFICATION, LIKELIHOODS

# Patches of 5 x 5 pixels.
KERNEL = "conv5"


def check_images(request: Request) -> None:
    """A usage error for shapes, likelihoods and kernels that are not of images."""
    shape_of(str(request.image_shape))
    if request.likelihood is not None and LIKELIHOODS[request.likelihood].task != CLASSIFICATION:
        raise usage("--likelihood", f"'{request.likelihood}' is not of classes: leave it out")
    kernel_of(request)


def shape_of(given: str) -> tuple[int, ...]:
    """The shape of an image, from text such as 28x28 or 32x32x3."""
    if not re.fullmatch(r"[1-9]\d{0,4}x[1-9]\d{0,4}(x[1-9]\d{0,2})?", given):
        raise usage(
            "--image-shape", f"'{given}' is not like 28x28, or 32x32x3 with three channels"
        )
    return tuple(map(int, given.split("x")))


def kernel_of(request: Request) -> tuple[tuple[int, int], str | None]:
    """The shape of a patch, and the kernel of whole images beside the sum over patches."""
    text = KERNEL if request.kernel == Request.kernel else request.kernel
    found = re.fullmatch(r"conv([1-9]\d*)(?:x([1-9]\d*))?(?:\s*\+\s*(rbf))?", text.strip())
    if found is None:
        raise usage(
            "--kernel",
            f"'{request.kernel}' is not a kernel of images, such as conv5, conv3x7 or conv5 + rbf",
        )
    patch = int(found[1]), int(found[2] or found[1])
    image = shape_of(str(request.image_shape))
    if any(p > i for p, i in zip(patch, image, strict=False)):
        raise usage(
            "--kernel",
            f"patches of {patch[0]} x {patch[1]} pixels are larger than the image, "
            f"{image[0]} x {image[1]}",
        )
    return patch, found[3]


def images_estimator(request: Request, tables: Tables) -> ConvGPClassifier:
    """The estimator that a request for a model of images asks for.

    Args:
        request: what was asked for, checked.
        tables: what it is to be learned from.
    """
    shape, (patch, plus) = shape_of(str(request.image_shape)), kernel_of(request)
    pixels = len(tables.schema.features)
    if math.prod(shape) != pixels:
        raise usage(
            "--image-shape",
            f"{request.image_shape} is {math.prod(shape)} pixels, and the table has {pixels} "
            "columns of inputs: leave others out with --ignore",
        )
    default: Any = ConvGPClassifier
    parts = default.parts if request.parts is None else request.parts
    chosen: dict[str, Any] = {}
    if request.inducing != Request.inducing:
        chosen["n_inducing"] = int(request.inducing)
    if request.max_iterations != Request.max_iterations:
        chosen["max_iterations"] = request.max_iterations
    return ConvGPClassifier(
        image_shape=shape,
        patch_shape=patch,
        parts=parts,
        plus=plus,
        likelihood=tables.likelihood,
        power=request.used_power,
        random_state=request.seed,
        **chosen,
    )


def kernel_in_words(request: Request, estimator: ConvGPClassifier) -> str:
    """The kernel of a fitted model of images."""
    patch, _ = kernel_of(request)
    words = f"conv{patch[0]}x{patch[1]} ({estimator.parts_})"
    beside = f" + {estimator.plus_}" if estimator.plus_ else ""
    return f"{words}{beside} of images {request.image_shape}"
