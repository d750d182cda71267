"""`cavity fit --image-shape`: pixels in columns."""

import dataclasses
import math
from typing import Any

from cavity.cli.rows import FitRows
from cavity.cli.session import usage
from cavity.estimators.images import ConvGPClassifier
from cavity.tables.records import times


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
                f"{times(shape)} is {math.prod(shape)} pixels, and the table has {pixels} "
                "columns of inputs: leave others out with --ignore",
            )
        return {}
