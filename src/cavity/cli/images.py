"""`cavity fit --image-shape`: pixels in columns, and the kernel in words."""

import dataclasses
import math
from typing import Any

from cavity.cli.rows import FitRows
from cavity.cli.session import usage
from cavity.estimators.images import ConvGPClassifier
from cavity.families.images import patches_of


class FitImages(FitRows[ConvGPClassifier]):
    """A classification of images."""

    def read(self) -> None:
        """Opens the tables; ranges of pixels say nothing."""
        super().read()
        schema = dataclasses.replace(self.tables.schema, ranges={})
        self._tables = dataclasses.replace(self.tables, schema=schema)

    def settings(self) -> dict[str, Any]:
        """None that follow from the tables, where all columns are pixels of the image."""
        shape = self.asked["image_shape"]
        pixels = len(self.tables.schema.features)
        if math.prod(shape) != pixels:
            raise usage(
                "--image-shape",
                f"{_times(shape)} is {math.prod(shape)} pixels, and the table has {pixels} "
                "columns of inputs: leave others out with --ignore",
            )
        return {}

    def kernel_in_words(self, estimator: ConvGPClassifier) -> str:
        """The kernel of a fitted model of images."""
        patch, _ = patches_of(self.asked["kernel"])
        beside = f" + {estimator.plus_}" if estimator.plus_ else ""
        shape = _times(self.asked["image_shape"])
        return f"conv{_times(patch)} ({estimator.parts_}){beside} of images {shape}"


def _times(shape: tuple[int, ...]) -> str:
    """A shape as it is typed, such as 28x28."""
    return "x".join(map(str, shape))
