"""Commands of a user on a small table, and what they print: text and JSON."""

import json
import math
import re
from pathlib import Path
from typing import Any

from tests.cli.conftest import people, run

FILE = Path(__file__).parent / "commands.json"

FIT = "fit train.csv --ignore spare --ignore noise --max-iterations 5 --target"
# by name, in the order in which they run in one folder
COMMANDS = {
    "regression": f"{FIT} weight --out one.cavity --test test.csv",
    "sparse": f"{FIT} weight --inducing 6 --power 0.5 --out sparse.cavity",
    "classes": f"{FIT} colour --out classes.cavity --test test.csv",
    "outliers": f"{FIT} weight --likelihood student_t --out outliers.cavity",
    "linear": f"{FIT} weight --model linear --prior laplace --integrate none --out linear.cavity",
    "layers": "fit train.csv --ignore spare --ignore noise --target weight --model deep "
    "--inducing 4 --steps 5 --out layers.cavity",
    "show": "show one.cavity",
    "show classes": "show classes.cavity",
    "show linear": "show linear.cavity",
    "predict": "predict one.cavity test.csv --out p.csv --quantiles 0.1,0.9",
    "predict classes": "predict classes.cavity test.csv --out c.csv",
    "evaluate": "evaluate one.cavity test.csv",
    "evaluate classes": "evaluate classes.cavity test.csv",
    "coefficients": "coefficients linear.cavity --out coefficients.csv",
    "suggest": "suggest one.cavity test.csv --n 3 --out next.csv",
    "update": "update sparse.cavity test.csv --out updated.cavity",
    "no update": "update one.cavity test.csv --out updated.cavity",
    "no column": "predict one.cavity other.csv --out p.csv",
    "no file": "show nothing.cavity",
}

TIMES = re.compile(r"\b\d+(\.\d+)? (s|ms|seconds?|minutes?)\b")
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")
# of what no two runs or machines agree about
PASSING = ("evaluations", "seconds", "version", "versions", "time", "cost", "saved_at")


def ran(folder: Path) -> dict[str, dict[str, Any]]:
    """What each command prints as text, and with --json, in a folder that is the working one."""
    people().write_csv(folder / "train.csv")
    people(12, seed=4).write_csv(folder / "test.csv")
    people(12, seed=4).drop("height").write_csv(folder / "other.csv")
    found = {}
    for name, line in COMMANDS.items():
        text, record = run(line), run(f"{line} --json")
        found[name] = {
            "code": text.code,
            "text": lasting(text.out),
            "said": lasting(text.err),
            "record": without_passing(json.loads(record.out)) if record.out else None,
        }
    return found


def alike(found: str, expected: str) -> bool:
    """True where texts have the same words, and numbers that agree to six digits or rounding."""
    pairs = [(NUMBER.findall(t), NUMBER.sub("#", t)) for t in (found, expected)]
    (numbers, words), (others, their_words) = pairs
    return words == their_words and all(
        math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-9)
        for a, b in zip(numbers, others, strict=True)
    )


def lasting(text: str) -> str:
    """A text without times, and with single spaces."""
    return " ".join(TIMES.sub("TIME", text).split())


def without_passing(record: Any) -> Any:
    """A record without times and versions."""
    if isinstance(record, dict):
        return {k: without_passing(v) for k, v in record.items() if k not in PASSING}
    return [without_passing(v) for v in record] if isinstance(record, list) else record
