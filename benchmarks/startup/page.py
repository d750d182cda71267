"""The tables of startup.csv, as a part of docs/benchmarks/cost.md.

python -m benchmarks.startup.page
"""

from collections import defaultdict
from collections.abc import Iterable

from benchmarks.peers.page import PAGES, Row, called, short, table
from benchmarks.results import Table

PAGE = PAGES / "cost.md"
TABLE = Table("startup.csv", ("what", "library"))
BEGIN = "<!-- from here on: python -m benchmarks.startup.page -->"
END = "<!-- end of python -m benchmarks.startup.page -->"
LIBRARIES = ("sklearn", "gpflow", "cavity")
FITS = {
    "first_regression": "first exact fit",
    "second_regression": "the second of the same size",
    "first_sparse": "first sparse fit, 50 points, with predictions",
    "first_classifier": "first classifier",
    "20_regressions": "20 regressions, 100 to 200 rows",
    "20_classifiers": "20 classifiers, 100 to 200 rows",
    "deep_100_rows": "first deep fit, 100 rows, 20 points, 100 steps",
    "deep_90_rows": "the next, 90 rows",
    "series_60_rows": "first series, 60 rows, 100 iterations",
    "series_70_rows": "the next, 70 rows",
    "embedding_200_rows": "first embedding",
    "impute_200_rows": "missing cells of the same rows",
    "stream_130_rows": "a classifier of 130 rows by `partial_fit`",
    "update_36_rows": "36 rows more",
    "update_34_rows": "34 rows more",
}
COMMANDS = {
    "command_fit_regression": "`cavity fit`, regression",
    "command_fit_regression_again": "the same with the programs that it kept",
    "command_fit_sparse": "`cavity fit --inducing 50`",
    "command_fit_classes": "`cavity fit`, classes",
    "command_show": "`cavity show`",
    "command_predict": "`cavity predict`",
    "command_predict_again": "the same with the programs that it kept",
    "command_fit_latent": "`cavity fit --model latent`",
    "command_impute": "`cavity impute`",
    "command_fit_stream": "`cavity fit --inducing 50`, 130 rows of classes",
    "command_update_36_rows": "`cavity update`, 36 rows",
    "command_update_34_rows": "34 rows, with the programs that this kept",
}
SESSIONS = {
    "import_jax": "`import jax`",
    "import_cavity_beyond_jax": "`import cavity` after it",
    "library_beyond_jax": "the same with a name of the library",
    "estimator_beyond_jax": "the same with an estimator",
    "predict_2000_rows": "predictions of 2,000 rows, 100 points",
    "predict_2000_rows_exact": "the same, a full GP of 1,000 rows",
    "host_per_evaluation": "Python's share of an evaluation",
}
# Seconds at the most, of the processor but for sessions.
AIMS = {
    "first_regression": 1.6,
    "second_regression": 0.12,
    "first_sparse": 2.0,
    "first_classifier": 3.0,
    "20_regressions": 6.0,
    "20_classifiers": 20.0,
    "command_fit_regression": 4.0,
    "command_fit_sparse": 4.5,
    "command_fit_classes": 6.0,
    "command_show": 1.0,
    "command_predict": 2.0,
    "predict_2000_rows_exact": 0.03,
    "host_per_evaluation": 0.0003,
}
# Whole processes: how many times scikit-learn's, at the most.
RATIOS = {
    "first_regression": 2.2,
    "first_classifier": 2.2,
    "20_regressions": 1.6,
    "20_classifiers": 3.0,
}
Found = dict[str, dict[str, Row]]


def fits(found: Found) -> str:
    """Fits of all libraries, their processes, and the compiled programs."""
    head = ["processor seconds", *map(called, LIBRARIES), "aim", "whole process"]
    head += ["times scikit-learn's", "aim", "programs", "our own", "operations"]
    lines = []
    for what, of in _those(found, FITS):
        ours = of.get("cavity", defaultdict(str))
        seconds = [short(of[one]["cpu_s"]) if one in of else "" for one in LIBRARIES]
        whole = [short(ours[name]) for name in ("whole_process_cpu_s", "ratio_to_scikit_learn")]
        counts = [ours[name] for name in ("programs", "own_programs", "operations")]
        aims = _aim(AIMS, what), _aim(RATIOS, what)
        lines.append([FITS[what], *seconds, aims[0], *whole, aims[1], *counts])
    return table(head, lines) if lines else ""


def commands(found: Found) -> str:
    """Commands, and the programs that they compile."""
    lines = []
    for what, of in _those(found, COMMANDS):
        ours = of["cavity"]
        cells = [short(ours["cpu_s"]), _aim(AIMS, what), ours["programs"]]
        lines.append([COMMANDS[what], *cells])
    return table(["whole process", "processor seconds", "aim", "programs"], lines) if lines else ""


def sessions(found: Found) -> str:
    """Seconds by the clock."""
    lines = []
    for what, of in _those(found, SESSIONS):
        milliseconds = f"{1e3 * float(of['cavity']['seconds']):.4g}"
        aim = f"{1e3 * AIMS[what]:g}" if what in AIMS else ""
        lines.append([SESSIONS[what], milliseconds, aim])
    return table(["all cores, by the clock", "milliseconds", "aim"], lines) if lines else ""


def _those(found: Found, words: dict[str, str]) -> list[tuple[str, dict[str, Row]]]:
    """The rows that there are words for, in the order of these."""
    return [(what, found[what]) for what in words if what in found]


def _aim(aims: dict[str, float], what: str) -> str:
    return f"{aims[what]:g}" if what in aims else ""


def tables(of: Iterable[str] | None = None) -> str:
    """The tables of the csv, of some rows or of all."""
    found: Found = defaultdict(dict)
    for row in TABLE.rows():
        if of is None or row["what"] in of:
            found[row["what"]][row["library"]] = row
    return "\n\n".join(filter(None, (make(found) for make in (fits, commands, sessions))))


def text() -> str:
    """The generated part of the page."""
    return "\n\n".join([BEGIN, tables(), END])


def main() -> None:
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    PAGE.write_text(head + text() + rest.split(END)[1])


if __name__ == "__main__":
    main()
