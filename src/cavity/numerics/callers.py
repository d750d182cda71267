"""Warnings about what a caller did, shown at the line of the call, and told to the logger."""

import logging
import sys
import warnings
from types import FrameType

PACKAGE = __name__.partition(".")[0]
# What the library says, beside warnings; without handlers of the user nothing is written.
LOGGER = logging.getLogger(PACKAGE)


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the line that called this package, however many calls lie between.

    The logger `cavity` is told the same.

    Args:
        message: what is said.
        category: of the warning.
    """
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and _inside(frame):
        frame, level = frame.f_back, level + 1
    LOGGER.warning("%s", message)
    warnings.warn(message, category, stacklevel=level)


def _inside(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == PACKAGE
