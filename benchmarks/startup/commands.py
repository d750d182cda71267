"""The command line on csv files: whole processes, imports and compilation included."""

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.startup import data
from benchmarks.startup.processes import plain, run

# Names of rows, and commands in their order; each has an empty folder of compiled programs.
COMMANDS = {
    "command_fit_regression": "fit regression.csv --target y --out regression.cavity",
    "command_fit_sparse": "fit regression.csv --target y --inducing 50 --out sparse.cavity",
    "command_fit_classes": "fit classes.csv --target y --out classes.cavity",
    "command_show": "show regression.cavity",
    "command_predict": "predict regression.cavity regression.csv --out predictions.csv",
    "command_fit_latent": "fit latent.csv --model latent --out latent.cavity",
    "command_impute": "impute latent.cavity latent.csv --out filled.csv",
    "command_fit_stream": "fit classes_130.csv --target y --inducing 50 --out stream.cavity",
    "command_update_36_rows": "update stream.cavity classes_36.csv --out stream.cavity",
    "command_update_34_rows": "update stream.cavity classes_34.csv --out stream.cavity",
}
# Commands with the compiled programs that another one has left.
GO_ON = {"command_update_34_rows": "command_update_36_rows"}
# Those that are run once more, with their own programs.
AGAIN = ("command_fit_regression", "command_predict")


def write_tables(folder: Path) -> None:
    """Writes the tables that the commands read."""
    X, y, labels = data.table()
    words = np.where(labels, "high", "low")
    _write(folder / "regression.csv", X, y)
    _write(folder / "classes.csv", X, words)
    for rows in data.BATCHES:
        _write(folder / f"classes_{rows.stop - rows.start}.csv", X[rows], words[rows])
    Y = data.incomplete()
    _write(folder / "latent.csv", Y[:, :-1], Y[:, -1])


def _write(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    """Writes the columns of X, and y as the last one; missing cells are empty."""
    names = [*(f"x{d}" for d in range(X.shape[1])), "y"]
    rows = ([*map(_cell, row), _cell(last)] for row, last in zip(X, y, strict=True))
    path.write_text("".join(_line(row) for row in (names, *rows)))


def _line(cells: Iterable[str]) -> str:
    return ",".join(cells) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if np.isnan(value) else f"{value:.6f}"


def turn() -> dict[str, dict[str, Any]]:
    """Every command once: its processor seconds, and the programs that it compiled."""
    found = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_tables(folder)
        for what, command in COMMANDS.items():
            cache = folder / "programs" / GO_ON.get(what, what)
            found[what] = _measured(command, folder, cache)
            if what in AGAIN:
                found[f"{what}_again"] = _measured(command, folder, cache)
    return found


def _measured(command: str, folder: Path, cache: Path) -> dict[str, Any]:
    before = _programs(cache)
    environment = plain(1) | {"XDG_CACHE_HOME": str(cache)}
    ended = run([sys.executable, "-m", "cavity", *command.split()], environment, folder)
    seconds = {"cpu_s": ended.cpu_s, "whole_process_cpu_s": ended.cpu_s}
    return seconds | {"programs": _programs(cache) - before}


def _programs(cache: Path) -> int:
    """The number of programs in a folder."""
    return len(list(cache.rglob("*-cache")))
